//! The environment as a value, so that nothing below `main` reads global state to decide.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use crate::settings::file::SettingsFile;

/// Variables, the current directory, and the settings file beside the program.
#[derive(Clone, Debug, Default)]
pub struct Env {
    vars: Vec<(OsString, OsString, Origin)>,
    cwd: PathBuf,
    file: SettingsFile,
}

/// Where a variable's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The environment.
    Environment,
    /// An assignment on the command itself.
    Command,
    /// The settings file.
    File {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment => f.write_str("environment"),
            Self::Command => f.write_str("command"),
            Self::File { path, line } => write!(f, "{}, line {line}", path.display()),
        }
    }
}

/// A change of the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Away with everything.
    Clear,
    /// A variable gets a value.
    Set(OsString, OsString),
    /// A variable goes.
    Unset(OsString),
}

impl Env {
    /// The process's own, with the settings file beside the program.
    pub fn from_process() -> Self {
        let vars = std::env::vars_os().map(|(k, v)| (k, v, Origin::Environment)).collect();
        Self { vars, cwd: std::env::current_dir().unwrap_or_default(), file: SettingsFile::beside_program() }
    }

    /// Given ones, for tests.
    pub fn new(vars: &[(&str, &str)], cwd: &Path) -> Self {
        let vars = vars.iter().map(|(k, v)| (k.into(), v.into(), Origin::Environment)).collect();
        Self { vars, cwd: cwd.to_owned(), file: SettingsFile::default() }
    }

    /// The same with a settings file, for tests.
    pub fn with_file(self, file: SettingsFile) -> Self {
        Self { file, ..self }
    }

    /// A variable; one that only the settings file has counts as well.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        let own = self.vars.iter().find(|(k, ..)| k == name).map(|(_, v, _)| v.as_os_str());
        own.or_else(|| self.file.get(name).map(|s| s.value.as_os_str()))
    }

    /// Where the value that [`Env::get`] gives comes from.
    pub fn origin(&self, name: &str) -> Option<Origin> {
        let own = self.vars.iter().find(|(k, ..)| k == name).map(|(.., origin)| origin.clone());
        own.or_else(|| Some(Origin::File { path: self.file.path.clone(), line: self.file.get(name)?.line }))
    }

    /// The settings file: where it is looked for, what it says, and what is wrong with it.
    pub fn settings_file(&self) -> &SettingsFile {
        &self.file
    }

    /// The environment after changes. Our own settings survive a [`Change::Clear`]: they were made for us.
    /// Without a change nothing is copied: most commands make none.
    pub fn changed(&self, changes: impl IntoIterator<Item = Change>) -> Cow<'_, Self> {
        let mut changes = changes.into_iter().peekable();
        if changes.peek().is_none() {
            return Cow::Borrowed(self);
        }
        let mut env = self.clone();
        for change in changes {
            match change {
                Change::Clear => env.vars.retain(|(k, ..)| k.as_encoded_bytes().starts_with(b"DLINK_SHIM_")),
                Change::Unset(name) => env.vars.retain(|(k, ..)| *k != name),
                Change::Set(name, value) => {
                    env.vars.retain(|(k, ..)| *k != name);
                    env.vars.push((name, value, Origin::Command));
                }
            }
        }
        Cow::Owned(env)
    }

    /// The current directory.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }
}
