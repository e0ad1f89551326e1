//! `dlink-shim.conf`: settings for builds in which the environment does not arrive (Bazel's actions set their own).
//!
//! It is looked for in the directory of the running file as the system knows it (`/proc/self/exe`), not of the name we
//! were called by: that name is the caller's to choose and may have no directory in it. So a symlink shares the settings of what
//! it leads to, and a hard link or a copy has its own. Without the file the cost is one failed open.

use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The file's name.
pub const NAME: &str = "dlink-shim.conf";
/// Far more than all settings need; what is longer is something else.
const MAX_BYTES: u64 = 1 << 20;

/// One line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The variable.
    pub name: OsString,
    /// Its value.
    pub value: OsString,
    /// The line, from 1.
    pub line: usize,
}

/// The file's settings.
#[derive(Clone, Debug, Default)]
pub struct SettingsFile {
    /// Where it is looked for; empty when the program's own place is not known.
    pub path: PathBuf,
    /// What it says, in order.
    pub settings: Vec<Setting>,
    /// What is wrong with it, as one warning.
    pub complaint: Option<String>,
}

impl SettingsFile {
    /// Reads the file beside the running program, if there is one.
    pub fn beside_program() -> Self {
        let program = std::env::current_exe().unwrap_or_default();
        program.parent().map(|directory| Self::read(&directory.join(NAME))).unwrap_or_default()
    }

    /// Reads a file; one that is not there says nothing.
    pub fn read(path: &Path) -> Self {
        let text = std::fs::File::open(path).and_then(|file| {
            let mut text = Vec::new();
            file.take(MAX_BYTES).read_to_end(&mut text)?;
            Ok(text)
        });
        match text {
            Ok(text) => Self::parse(path, &text),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Self { path: path.to_owned(), ..Self::default() }
            }
            Err(error) => {
                let complaint = Some(format!("{}: {error}: its settings are not used", path.display()));
                Self { path: path.to_owned(), complaint, ..Self::default() }
            }
        }
    }

    fn parse(path: &Path, text: &[u8]) -> Self {
        let mut file = Self { path: path.to_owned(), ..Self::default() };
        for (line, text) in text.split(|&b| b == b'\n').enumerate() {
            let (line, text) = (line + 1, text.trim_ascii());
            if text.is_empty() || text[0] == b'#' {
                continue;
            }
            let setting = text.iter().position(|&b| b == b'=').map(|at| (text[..at].trim_ascii(), text[at + 1..].trim_ascii()));
            match setting {
                Some((name, value)) if super::ALL.iter().any(|s| s.name.as_bytes() == name) => {
                    let owned = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
                    file.settings.push(Setting { name: owned(name), value: owned(unquoted(value)), line });
                }
                _ => {
                    let shown = String::from_utf8_lossy(&text[..text.len().min(60)]).into_owned();
                    file.complaint.get_or_insert_with(|| {
                        format!("{}, line {line}: `{shown}` is no setting of dlink-shim (DLINK_SHIM_…=value): left out", path.display())
                    });
                }
            }
        }
        file
    }

    /// A setting; the last line that makes it counts, as in a shell.
    pub fn get(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().rfind(|s| s.name == OsStr::new(name))
    }
}

/// A value in one pair of quotes is meant as in a shell's file.
fn unquoted(value: &[u8]) -> &[u8] {
    match value {
        [b'"', inner @ .., b'"'] | [b'\'', inner @ .., b'\''] => inner,
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use crate::Env;
    use crate::env::{Change, Origin};

    fn file(text: &[u8]) -> SettingsFile {
        SettingsFile::parse(Path::new("/opt/dlink-shim.conf"), text)
    }

    #[test]
    fn lines_comments_and_quotes_are_read_and_the_last_line_counts() {
        let file =
            file(b"# a comment\n\n DLINK_SHIM_NVCC = /a b/nvcc\r\nDLINK_SHIM_KEEP=\"a,b\"\nDLINK_SHIM_KEEP='c=#'\nDLINK_SHIM_LOG=\xff");
        assert_eq!(file.complaint, None);
        let get = |name: &str| file.get(name).map(|s| (s.value.as_bytes(), s.line));
        assert_eq!(get("DLINK_SHIM_NVCC"), Some((&b"/a b/nvcc"[..], 3)));
        assert_eq!(get("DLINK_SHIM_KEEP"), Some((&b"c=#"[..], 5)));
        assert_eq!(get("DLINK_SHIM_LOG"), Some((&b"\xff"[..], 6)));
        assert_eq!(get("DLINK_SHIM_MODE"), None);
    }

    #[test]
    fn a_line_that_is_no_setting_is_one_complaint_and_the_rest_counts() {
        let file = file(b"FOO=1\nnonsense\nDLINK_SHIM_CHAIN=1:2\nDLINK_SHIM_MODE=off\n");
        let complaint = file.complaint.as_deref().unwrap();
        assert!(complaint.starts_with("/opt/dlink-shim.conf, line 1: `FOO=1`"), "{complaint}");
        assert_eq!((file.settings.len(), file.get("DLINK_SHIM_CHAIN")), (1, None));
    }

    #[test]
    fn the_command_beats_the_environment_and_that_beats_the_file() {
        let env = Env::new(&[("DLINK_SHIM_MODE", ""), ("PATH", "/bin"), ("DLINK_SHIM_KEEP", "k")], Path::new("/"));
        let env = env.with_file(file(b"DLINK_SHIM_MODE=off\nDLINK_SHIM_NVCC=/n\nDLINK_SHIM_STRIP=s"));
        let changes = [Change::Clear, Change::Set("DLINK_SHIM_STRIP".into(), "t".into()), Change::Unset("DLINK_SHIM_KEEP".into())];
        let env = env.changed(changes);
        let seen = |name: &str| (env.get(name).map(|v| v.to_str().unwrap()), env.origin(name).map(|o| o.to_string()));
        assert_eq!(seen("DLINK_SHIM_MODE"), (Some(""), Some("environment".into())));
        assert_eq!(seen("DLINK_SHIM_NVCC"), (Some("/n"), Some("/opt/dlink-shim.conf, line 2".into())));
        assert_eq!(seen("DLINK_SHIM_STRIP"), (Some("t"), Some("command".into())));
        assert_eq!(env.origin("DLINK_SHIM_NVCC"), Some(Origin::File { path: "/opt/dlink-shim.conf".into(), line: 2 }));
        assert_eq!((seen("PATH"), seen("DLINK_SHIM_KEEP")), ((None, None), (None, None)));
    }
}
