//! The way of a command through the rooms: read, look, decide, and the changes that follow.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::launch::Interrupts;
use crate::nvcc::command_line::ItemKind;
use crate::nvcc::{CommandLine, DeviceLink, NotUnderstood};
use crate::plan::{self, Plan, Scene, Wishes};
use crate::rewrite::{self, Changes, Rewritten};
use crate::survey::{self, HostLink};
use crate::{Env, Error};

/// Writes a file of the given name and text, and says where it is.
pub type NewFile<'a> = dyn FnMut(&str, &[u8]) -> Result<PathBuf, Error> + 'a;

/// A device link, looked into and decided.
pub struct Analysis {
    /// The command as nvcc reads it.
    pub line: CommandLine,
    /// What reaches nvlink.
    pub link: DeviceLink,
    /// What the files hold.
    pub scene: Scene,
    /// What is to be done.
    pub plan: Plan,
    /// What else is to change about the command.
    pub slimming: Changes,
}

/// Why a command was not analysed.
#[derive(Debug)]
pub enum NotAnalysed {
    /// It can't even be said whether it is a device link.
    Line(NotUnderstood),
    /// It is a device link with something in it that is not understood.
    DeviceLink(NotUnderstood),
}

impl NotAnalysed {
    /// The reason.
    pub fn why(&self) -> &NotUnderstood {
        match self {
            Self::Line(why) | Self::DeviceLink(why) => why,
        }
    }
}

/// Analyses nvcc's words; `Ok(None)` when they are no device link.
pub fn analyse(
    args: &[OsString],
    host_link: &HostLink,
    nvcc: Option<&Path>,
    env: &Env,
    wishes: &Wishes,
) -> Result<Option<Analysis>, NotAnalysed> {
    let line = CommandLine::read(args, env).map_err(NotAnalysed::Line)?;
    let Some(link) = DeviceLink::from_line(&line).map_err(NotAnalysed::DeviceLink)? else { return Ok(None) };
    let mut scene = survey::scene(&link, host_link, nvcc, env);
    scene.no_guard = !host_compiler_is_known(&line, env);
    if link.implicit && !scene.has_units() {
        return Ok(None);
    }
    loop {
        let wanted = plan::wanted_symbols(&scene, wishes);
        if wanted.is_empty() {
            break;
        }
        survey::read_symbols(&mut scene, &wanted);
    }
    let plan = plan::decide(&scene, wishes);
    Ok(Some(Analysis { line, link, scene, plan, slimming: Changes::default() }))
}

/// Whether the compiler of the stub takes gcc's options.
fn host_compiler_is_known(line: &CommandLine, env: &Env) -> bool {
    let variable = env.get("NVCC_CCBIN").map(|c| c.as_bytes());
    let Some(compiler) = line.last_value("compiler-bindir").or(variable) else { return true };
    // A directory is searched for gcc or g++.
    let name = compiler.rsplit(|&b| b == b'/').next().unwrap_or_default();
    let known = |n: &[u8]| name.windows(n.len()).any(|w| w == n);
    known(b"g++") || known(b"gcc") || known(b"clang") || matches!(name, b"c++" | b"cc" | b"CC") || compiler.ends_with(b"/bin")
}

impl Analysis {
    /// Whether the entry points of this image's own units get protected visibility.
    ///
    /// Not where the command says something about visibility itself, and not with a host compiler whose options we
    /// don't know.
    pub fn protects(&self) -> bool {
        self.plan.protect && !self.scene.no_guard && !self.says_visibility()
    }

    fn says_visibility(&self) -> bool {
        self.line.items.iter().any(|i| match &i.kind {
            ItemKind::Valued { option, values, .. } if option.long == "compiler-options" => {
                values.iter().any(|v| v.text.windows(12).any(|w| w == b"-fvisibility"))
            }
            _ => false,
        })
    }

    /// The command line with the plan's changes made; `None` when there are none. `new_file` writes a file of the given
    /// name and text and says where it is.
    pub fn rewritten(&self, new_file: &mut NewFile<'_>) -> Result<Option<Rewritten>, Error> {
        let mut changes = self.slimming.clone();
        let stripped = self.plan.stripped().flat_map(|f| &self.scene.files[f].mentions);
        // Older nvlink refuses a library that is named twice; a cure is no time to find out which this is.
        let repeated = self.plan.cured().flat_map(|f| &self.scene.files[f].mentions[1..]);
        for &mention in stripped.chain(repeated) {
            let mention = &self.link.mentions[mention];
            // The host linker's line stays as it is, order and all.
            if !self.link.implicit || mention.nvlink_only {
                changes.removed.extend(mention.sites.iter().copied());
            }
        }
        if !self.plan.masked.is_empty() {
            let object = rewrite::mask::object(&self.plan.masked).map_err(|e| Error::Temporary(std::io::Error::other(e.to_string())))?;
            let path = new_file("mask.o", &object)?;
            // The mask must not reach the host linker: the image would claim a stub that it does not have.
            changes.added.extend(self.link.implicit.then(|| "-Xnvlink".into()));
            changes.added.push(path.into());
        }
        let compiler = |words: OsString| [OsString::from("-Xcompiler"), words];
        if self.protects() {
            changes.added.extend(compiler("-fvisibility=protected".into()));
        }
        if !self.plan.guarded.is_empty() {
            let header = new_file("guard.h", &rewrite::guard::header(&self.plan.guarded))?;
            let mut words = OsString::from("-include,");
            words.push(header);
            changes.added.extend(compiler(words));
        }
        if changes.is_empty() {
            return Ok(None);
        }
        rewrite::rewrite(&self.line, &changes, &mut |text| new_file("options.rsp", text)).map(Some)
    }
}

/// Temporary files, gone when the value is dropped.
#[derive(Default)]
pub struct Files {
    /// Made with the first file.
    pub kept: Option<Kept>,
    count: usize,
}

/// What must outlive the command.
pub struct Kept {
    /// The files' directory.
    pub directory: tempfile::TempDir,
    /// The signals that would leave it behind.
    pub interrupts: Interrupts,
}

impl Files {
    /// Takes the files away again, and lets a signal that came meanwhile have its way.
    pub fn abandon(self) {
        if let Some(Kept { directory, interrupts }) = self.kept {
            drop(directory);
            interrupts.let_go();
        }
    }

    /// Their directory, made if there is none yet.
    pub fn path(&mut self) -> Result<PathBuf, Error> {
        let kept = match &self.kept {
            Some(kept) => kept,
            None => {
                let interrupts = Interrupts::hold().map_err(Error::Temporary)?;
                self.kept.insert(Kept { directory: directory()?, interrupts })
            }
        };
        Ok(kept.directory.path().to_owned())
    }

    /// Writes a file and says where it is.
    pub fn add(&mut self, name: &str, text: &[u8]) -> Result<PathBuf, Error> {
        let path = self.path()?.join(format!("{}-{name}", self.count));
        self.count += 1;
        // Nobody else can have put anything there; if someone has, it is not followed.
        let file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(text)).map_err(Error::Temporary)?;
        Ok(path)
    }
}

/// A temporary directory whose path nvcc's comma lists and the shell commands that nvcc writes leave alone.
fn directory() -> Result<tempfile::TempDir, Error> {
    let plain = |path: &Path| path.to_str().is_some_and(|p| p.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-+@%".contains(&b)));
    let mut failure = std::io::Error::other("no temporary directory has a plain path");
    for place in [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()] {
        if !plain(&place) || !place.is_absolute() {
            continue;
        }
        // Private from the start, whatever the umask is.
        let private = std::fs::Permissions::from_mode(0o700);
        match tempfile::Builder::new().prefix("dlink-shim-").permissions(private).tempdir_in(place) {
            Ok(directory) => return Ok(directory),
            Err(error) => failure = error,
        }
    }
    Err(Error::Temporary(failure))
}
