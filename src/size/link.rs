//! The objects and archives of a host link command, as [`crate::host_link`] reads it.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::host_link::line::Line;
use crate::host_link::linker::Program;
use crate::host_link::{response, weight};

/// Reads a command as a shell would write it: what it links, less shared libraries, in order and once each.
///
/// `-l` is looked for in the `-L` directories only: system libraries have no device code worth counting.
pub fn inputs(command: &str, cwd: &Path) -> Result<Vec<PathBuf>, String> {
    let words = shlex::split(command).ok_or("--link: an open quote")?;
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    let Some((program, words)) = words.split_first() else { return Err("--link: no command".into()) };
    let (words, _) = response::expanded(words, cwd).ok_or("--link: a response file can't be read")?;
    let name = Path::new(program).file_name().unwrap_or_default();
    let is_linker = matches!(Program::from_name(name.as_bytes()), Some(Program::Linker(_)));
    let line = if is_linker { Line::of_linker(&words) } else { Line::of_driver(&words) };
    let line = line.ok_or("--link: the command links nothing")?;
    let mut seen = HashSet::new();
    let files = weight::files(&line, &[], cwd).into_iter().map(|f| f.path);
    let found: Vec<PathBuf> = files.filter(|p| seen.insert(p.canonicalize().unwrap_or_else(|_| p.clone()))).collect();
    if found.is_empty() {
        return Err("--link: the command names no object or archive".into());
    }
    Ok(found)
}
