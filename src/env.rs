//! The environment as a value, so that nothing below `main` reads global state to decide.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Variables and the current directory.
#[derive(Clone, Debug, Default)]
pub struct Env {
    vars: Vec<(OsString, OsString)>,
    cwd: PathBuf,
}

impl Env {
    /// The process's own.
    pub fn from_process() -> Self {
        Self { vars: std::env::vars_os().collect(), cwd: std::env::current_dir().unwrap_or_default() }
    }

    /// Given ones, for tests.
    pub fn new(vars: &[(&str, &str)], cwd: &Path) -> Self {
        Self { vars: vars.iter().map(|(k, v)| (k.into(), v.into())).collect(), cwd: cwd.to_owned() }
    }

    /// A variable.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.vars.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_os_str())
    }

    /// The current directory.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }
}
