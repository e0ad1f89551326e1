//! `DLINK_SHIM_REPORT`: what the wrapper notes about a device link before nvcc runs.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::tell;
use crate::analysis::{Analysis, NotAnalysed};
use crate::nvcc::CommandLine;
use crate::report::append;
use crate::report::entry::{Entry, Outcome, SCHEMA};
use crate::report::json::Link;
use crate::settings::{Mode, Told};
use crate::{Env, Error};

/// What looking at a command gave; `None` after a panic.
pub type Looked = Option<Result<Option<Analysis>, NotAnalysed>>;

/// A command on its way through the wrapper.
pub struct Record<'a> {
    pub started: Instant,
    pub nvcc: &'a Path,
    /// What the command's own words to us say, and they themselves.
    pub told: &'a Told,
    /// nvcc's words.
    pub args: &'a [OsString],
    pub env: &'a Env,
    pub mode: Mode,
}

impl Record<'_> {
    /// Writes the command's line if a report is asked for and the command is a device link. `changed` says whether nvcc gets
    /// another line than was given. A report that can't be written is one warning and nothing else, in strict mode, too.
    pub fn write(&self, file: Option<&Path>, looked: &Looked, changed: Result<bool, &Error>) {
        let Some(file) = file else { return };
        let Some(entry) = self.entry(looked, changed) else { return };
        let written = serde_json::to_vec(&entry).map_err(std::io::Error::other).and_then(|line| append::line(file, &line));
        if let Err(error) = written {
            tell(&format!("dlink-shim: warning: can't write the report {}: {error}\n", file.display()));
        }
    }

    fn entry(&self, looked: &Looked, changed: Result<bool, &Error>) -> Option<Entry> {
        let (link, mut outcome, mut reason) = match looked {
            Some(Ok(Some(analysis))) => {
                let plan = &analysis.plan;
                let wants = plan.stripped().next().is_some() || !plan.masked.is_empty() || !plan.guarded.is_empty();
                let (outcome, reason) = match changed {
                    Ok(true) => (Outcome::Cured, None),
                    Ok(false) if self.mode == Mode::Report => (Outcome::Reported, None),
                    Ok(false) if wants => (Outcome::Left, Some("nvcc could not be told of the cure".into())),
                    Ok(false) if plan.warning.is_some() => (Outcome::Left, plan.warning.clone()),
                    Ok(false) => (Outcome::AsGiven, None),
                    Err(_) => (Outcome::Left, None),
                };
                (Link::new(analysis, self.nvcc), outcome, reason)
            }
            Some(Ok(None)) => return None,
            Some(Err(why)) if matches!(why, NotAnalysed::DeviceLink(_)) || self.says_device_link() => {
                (Link::unread(self.nvcc), Outcome::Left, Some(why.why().to_string()))
            }
            None if self.says_device_link() => (Link::unread(self.nvcc), Outcome::Left, Some("a bug in dlink-shim".into())),
            _ => return None,
        };
        if let Err(error) = changed {
            reason = Some(error.to_string());
            if matches!(error, Error::Strict(_)) {
                outcome = Outcome::Refused;
            }
        }
        Some(Entry {
            schema: SCHEMA,
            time_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_millis() as u64),
            cwd: self.env.cwd().to_string_lossy().into_owned(),
            output: self.output(looked).to_string_lossy().into_owned(),
            args: self.told.words.iter().chain(self.args).map(|a| a.to_string_lossy().into_owned()).collect(),
            mode: if self.mode == Mode::Report { "report" } else { "fix" }.into(),
            outcome,
            reason,
            unlinked_bytes: link.unlinked_bytes(),
            link,
            shim_us: self.started.elapsed().as_micros() as u64,
        })
    }

    /// Where the whole line can't be read, its own words must tell: a compilation with an unreadable options file is none of ours.
    fn says_device_link(&self) -> bool {
        self.args.iter().any(|a| a == "-dlink" || a == "--device-link")
    }

    /// What nvcc will write; its own defaults are `a_dlink.o` and, for a host link, `a.out` (13.0.88).
    fn output(&self, looked: &Looked) -> PathBuf {
        let reread;
        let (line, implicit) = match looked {
            Some(Ok(Some(analysis))) => (Some(&analysis.line), analysis.link.implicit),
            _ => {
                reread = CommandLine::read(self.args, self.env).ok();
                (reread.as_ref(), false)
            }
        };
        let given = line.and_then(|l| l.last_value("output-file"));
        let default: &[u8] = if implicit { b"a.out" } else { b"a_dlink.o" };
        std::ffi::OsStr::from_bytes(given.unwrap_or(default)).into()
    }
}
