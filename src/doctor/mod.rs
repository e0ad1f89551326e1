//! How dlink-shim is wired in: which nvcc would run, what is set, and what a build's commands go through.

mod build;
mod commands;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

pub use build::Build;

use crate::cli::Call;
use crate::nvcc::find::{self, Chain};
use crate::settings::{self, Settings};
use crate::{Env, Error};

/// Something that is wired in wrongly, or not at all.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub cure: String,
}

/// What is known without a build.
#[derive(Clone, Debug, Serialize)]
pub struct Wiring {
    /// Our version.
    pub version: &'static str,
    /// Where the running program is.
    pub program: String,
    /// The nvcc that would run.
    pub nvcc: Option<Nvcc>,
    /// Why none would.
    pub no_nvcc: Option<String>,
    /// The first nvcc on PATH, and what it is.
    pub first_on_path: Option<String>,
    /// How the given command is read.
    pub call: Option<String>,
    /// The settings that are made.
    pub settings: Vec<Setting>,
    /// Where the settings file is looked for.
    pub settings_file: String,
}

/// The nvcc that would run.
#[derive(Clone, Debug, Serialize)]
pub struct Nvcc {
    /// Its path.
    pub path: String,
    /// What named it.
    pub why: String,
    /// What it says of its version.
    pub toolkit: Option<String>,
}

/// A setting that is made.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    /// The variable.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// Where it comes from.
    pub origin: String,
}

impl Wiring {
    /// Looks, for a command if one is given.
    pub fn look(command: &[OsString], env: &Env) -> Self {
        let mut shims = Shims::new(env);
        let command = match command.first() {
            Some(first) if is_our_name(first) => &command[1..],
            _ => command,
        };
        let (mut word, mut call) = (None, None);
        if !command.is_empty() {
            call = Some(match Call::from_words(command) {
                Call::Nvcc(c) => {
                    word = c.word;
                    match c.front.programs.is_empty() {
                        true => "nvcc's words; `dlink-shim explain` says what is done with them".into(),
                        false => {
                            "nvcc's words after other programs, whose own words stay; `dlink-shim explain` says what is done with them"
                                .into()
                        }
                    }
                }
                Call::Launcher(..) => "a program that is no nvcc: runs as it is given".into(),
                Call::Own => "one of dlink-shim's own commands".into(),
                Call::Mistake(error) => format!("a mistake: {error}"),
            });
        }
        let found = find::find(env, &Chain::default(), word, None);
        let no_nvcc = found.as_ref().err().map(ToString::to_string);
        let nvcc = found.ok().map(|(path, source)| Nvcc {
            why: if shims.holds(&path) { format!("{source}; a copy of dlink-shim, which looks further") } else { source.to_string() },
            toolkit: version(&path),
            path: path.display().to_string(),
        });
        let first = find::first_on_path(OsStr::new("nvcc"), env);
        let first_on_path =
            first.map(|p| format!("{}, {}", p.display(), if shims.holds(&p) { "which is dlink-shim" } else { "not dlink-shim" }));
        let made = |s: &settings::Described| {
            let value = env.get(s.name).filter(|v| !v.is_empty())?.to_string_lossy().into_owned();
            Some(Setting { name: s.name, value, origin: env.origin(s.name).map(|o| o.to_string()).unwrap_or_default() })
        };
        Self {
            version: env!("CARGO_PKG_VERSION"),
            program: std::env::current_exe().map(|p| p.display().to_string()).unwrap_or_default(),
            nvcc,
            no_nvcc,
            first_on_path,
            call,
            settings: settings::ALL.iter().filter_map(made).collect(),
            settings_file: env.settings_file().path.display().to_string(),
        }
    }

    /// What is wrong with it.
    pub fn findings(&self, env: &Env) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let Some(why) = &self.no_nvcc {
            findings.push(Finding { what: why.clone(), cure: "export DLINK_SHIM_NVCC=/path/to/nvcc".into() });
        }
        if let Some(mistake) = self.call.as_ref().and_then(|c| c.strip_prefix("a mistake: ")) {
            findings.push(Finding { what: mistake.into(), cure: "dlink-shim /path/to/nvcc ARGS...".into() });
        }
        let settings = Settings::from_env(env);
        if settings.mode == settings::Mode::Off {
            let what = "DLINK_SHIM_MODE is off: every command runs untouched".into();
            findings.push(Finding { what, cure: "unset DLINK_SHIM_MODE".into() });
        }
        if let Some(complaint) = settings.complaint {
            findings.push(Finding { what: complaint, cure: "see the settings in `dlink-shim --help`".into() });
        }
        if let Some(what) = settings::trust::complaint(env) {
            findings.push(Finding { what, cure: "chmod o-w, or name another place".into() });
        }
        findings
    }
}

/// nvcc's own line on its release (`Cuda compilation tools, release 13.0, V13.0.88`).
fn version(nvcc: &Path) -> Option<String> {
    let output = Command::new(nvcc).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().find(|l| l.contains("release")).map(|l| l.trim().to_owned())
}

/// Whether a word is dlink-shim by its name.
fn is_our_name(word: &OsStr) -> bool {
    Path::new(word).file_name().is_some_and(|n| n.as_bytes().starts_with(b"dlink-shim"))
}

/// Which programs are dlink-shim by another name, told by what is in them.
struct Shims<'a> {
    env: &'a Env,
    known: HashMap<PathBuf, bool>,
}

impl<'a> Shims<'a> {
    fn new(env: &'a Env) -> Self {
        Self { env, known: HashMap::new() }
    }

    /// Whether the program is dlink-shim, or a script that runs it.
    fn holds(&mut self, path: &Path) -> bool {
        *self.known.entry(path.to_owned()).or_insert_with(|| {
            // Both the program and `wrapper-scripts/nvcc` name this variable; no nvcc does.
            let small = std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() < 256 << 20);
            let mark = b"DLINK_SHIM_NVCC";
            small && std::fs::read(path).is_ok_and(|data| data.windows(mark.len()).any(|w| w == mark))
        })
    }

    /// The same for a word of a command that runs in `cwd`.
    fn holds_word(&mut self, word: &OsStr, cwd: &Path) -> bool {
        if is_our_name(word) {
            return true;
        }
        let path = if word.as_bytes().contains(&b'/') { Some(cwd.join(word)) } else { find::first_on_path(word, self.env) };
        path.is_some_and(|p| self.holds(&p))
    }
}

/// An error for a place that can't be looked at.
fn no_look(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::Usage(format!("{}: {why}", path.display()))
}
