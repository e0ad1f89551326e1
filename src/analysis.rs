//! The way of a command through the rooms: read, look, decide, and the changes that follow.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::nvcc::{CommandLine, DeviceLink, NotUnderstood};
use crate::plan::{self, Plan, Scene, Wishes};
use crate::rewrite::{self, Changes, Rewritten};
use crate::{Env, Error, survey};

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
pub fn analyse(args: &[OsString], nvcc: Option<&Path>, env: &Env, wishes: &Wishes) -> Result<Option<Analysis>, NotAnalysed> {
    let line = CommandLine::read(args, env).map_err(NotAnalysed::Line)?;
    let Some(link) = DeviceLink::from_line(&line).map_err(NotAnalysed::DeviceLink)? else { return Ok(None) };
    let mut scene = survey::scene(&link, nvcc, env);
    loop {
        let wanted = plan::wanted_symbols(&scene, wishes);
        if wanted.is_empty() {
            break;
        }
        survey::read_symbols(&mut scene, &wanted);
    }
    let plan = plan::decide(&scene, wishes);
    Ok(Some(Analysis { line, link, scene, plan }))
}

impl Analysis {
    /// The changes that the plan asks for.
    pub fn changes(&self) -> Changes {
        let mentions = self.plan.stripped().flat_map(|f| &self.scene.files[f].mentions);
        let removed = mentions.flat_map(|&m| self.link.mentions[m].sites.iter().copied()).collect();
        Changes { removed, added: Vec::new() }
    }

    /// The command line with the changes made.
    pub fn rewritten(&self, new_file: &mut dyn FnMut(&[u8]) -> Result<PathBuf, Error>) -> Result<Rewritten, Error> {
        rewrite::rewrite(&self.line, &self.changes(), new_file)
    }
}

/// Temporary files, gone when the value is dropped.
#[derive(Default)]
pub struct Files {
    /// Their directory, made with the first file.
    pub directory: Option<tempfile::TempDir>,
    count: usize,
}

impl Files {
    /// Writes a file and says where it is.
    pub fn add(&mut self, name: &str, text: &[u8]) -> Result<PathBuf, Error> {
        let directory = match &self.directory {
            Some(directory) => directory,
            None => self.directory.insert(directory()?),
        };
        let path = directory.path().join(format!("{}-{name}", self.count));
        self.count += 1;
        std::fs::write(&path, text).map_err(Error::Temporary)?;
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
        match tempfile::Builder::new().prefix("dlink-shim-").tempdir_in(place) {
            Ok(directory) => return Ok(directory),
            Err(error) => failure = error,
        }
    }
    Err(Error::Temporary(failure))
}
