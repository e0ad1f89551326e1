//! The wrapper: a call with nvcc's words becomes nvcc, cured where it is a device link.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Instant;

use super::record::{Looked, Record};
use super::{NvccCall, front, placing, slim, tell};
use crate::analysis;
use crate::launch::Launch;
use crate::nvcc::NotUnderstood;
use crate::nvcc::find::{self, Chain};
use crate::rewrite::Rewritten;
use crate::settings::{Mode, Settings, Told, trust};
use crate::{Env, Error, report};

/// Runs a program that is no nvcc.
pub fn launcher(assignments: &[(&OsStr, &OsStr)], words: &[OsString], told: &Told, env: &Env) -> Result<u8, Error> {
    let Some((program, args)) = words.split_first() else { return Err(Error::NoCommand) };
    if front::hides_device_link(words) && !Chain::from_env(env).is_inner() {
        let settings = Settings::from_env(env);
        if settings.mode != Mode::Off {
            let program = program.display();
            warn(&settings, &format!("device link behind `{program}` not looked at: write `{program} … dlink-shim nvcc`"))?;
        }
    }
    let mut launch = Launch::new(program, args);
    launch.set = owned(assignments);
    if let Some(kept) = placing::program(&mut launch, assignments, words, told, env)? {
        return launch.run(kept.interrupts, kept.directory);
    }
    Err(match launch.exec() {
        Error::Run { program, source } if source.kind() == std::io::ErrorKind::NotFound => Error::NoProgram { program },
        other => other,
    })
}

fn owned(assignments: &[(&OsStr, &OsStr)]) -> Vec<(OsString, OsString)> {
    assignments.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A call with nvcc's words, ready to run as it was given.
pub(super) struct Untouched {
    pub(super) launch: Launch,
    /// How many of the launch's words stand before nvcc's.
    pub(super) before: usize,
    /// The real nvcc; with programs in front, as far as it is known.
    pub(super) nvcc: PathBuf,
    /// Whether another shim has been through.
    inner: bool,
}

impl Untouched {
    /// `env` as it is for nvcc.
    fn new(call: &NvccCall<'_>, env: &Env) -> Result<Self, Error> {
        let chain = Chain::from_env(env);
        let found = find::nvcc(env, &chain, call.word, call.called_as);
        let set = owned(&call.front.assignments);
        let inner = chain.is_inner();
        let Some((first, programs)) = call.front.programs.split_first() else {
            let nvcc = found.map_err(|error| asked_by_sccache(call).unwrap_or(error))?;
            let mut launch = Launch::new(&nvcc, call.args);
            launch.set = set;
            launch.set.push((find::CHAIN.into(), chain.with(Some(&nvcc))));
            return Ok(Self { launch, before: 0, nvcc, inner });
        };
        // The programs find nvcc by its word, be it ourselves again: the real one is only looked at here.
        let nvcc = match found {
            Err(error @ Error::Loop) => return Err(error),
            found => found.unwrap_or_else(|_| call.word.unwrap_or_default().into()),
        };
        let words: Vec<OsString> = programs.iter().cloned().chain(call.word.map(OsString::from)).collect();
        let before = words.len();
        let mut launch = Launch::new(first, &[&words, call.args].concat());
        launch.set = set;
        launch.set.push((find::CHAIN.into(), chain.with(None)));
        Ok(Self { launch, before, nvcc, inner })
    }

    /// The same call with other words and without some variables.
    fn rewritten(&self, args: Vec<OsString>, unset: Vec<&'static str>) -> Launch {
        let mut launch = self.launch.clone();
        launch.args.truncate(self.before);
        launch.args.extend(args);
        launch.set.retain(|(name, _)| !unset.iter().any(|u| name == u));
        launch.unset = unset;
        launch
    }
}

/// sccache asks a compiler that it does not know by name `-vV`, then `-E …/testfile.c`, and shows what that says on stderr.
fn asked_by_sccache(call: &NvccCall<'_>) -> Option<Error> {
    let asked = match call.args {
        [one] => one == "-vV",
        [one, two] => one == "-E" && two.as_bytes().ends_with(b"/testfile.c"),
        _ => false,
    };
    (asked && call.word.is_none() && call.called_as.is_none()).then_some(Error::AskedBySccache)
}

/// Runs nvcc for a call with its words.
pub fn wrap(call: &NvccCall<'_>, told: &Told, env: &Env) -> Result<u8, Error> {
    let started = Instant::now();
    let env = &env.changed(call.front.all_changes());
    let settings = Settings::from_env(env).told(told);
    let untouched = Untouched::new(call, env)?;
    if settings.mode == Mode::Off || untouched.inner {
        return Err(untouched.launch.exec());
    }
    start_log(env);
    let nvcc = &untouched.nvcc;
    // Whatever goes wrong in here must not cost the build more than the cure.
    let mut looked = quietly(|| analysis::analyse(call.args, &told.host_link, Some(nvcc), env, &settings.wishes));
    let slimming = slim::device_link(&mut looked, &settings, nvcc);
    let cured = slimming.and_then(|()| cured(call, env, &looked, &settings, &untouched));
    let record = Record { started, nvcc, told, args: call.args, env, mode: settings.mode };
    quietly(|| record.write(settings.report.as_deref(), &looked, cured.as_ref().map(Option::is_some)));
    let (mut launch, kept) = match cured {
        Ok(Some(cured)) => cured,
        Ok(None) => (untouched.launch.clone(), None),
        Err(error @ Error::Strict(_)) => return Err(error),
        Err(error) => {
            warn(&settings, &format!("{error}; the command runs as it was given"))?;
            (untouched.launch.clone(), None)
        }
    };
    let placed = placing::nvcc(&mut launch, &untouched, env, &settings)?;
    match (kept, placed) {
        (None, None) => Err(launch.exec()),
        (Some(kept), None) | (None, Some(kept)) => launch.run(kept.interrupts, kept.directory),
        (Some(kept), Some(placed)) => launch.run(kept.interrupts, (kept.directory, placed)),
    }
}

type Cured = (Launch, Option<analysis::Kept>);

/// The changed command, or `None` to run it as it was given.
fn cured(call: &NvccCall<'_>, env: &Env, looked: &Looked, settings: &Settings, untouched: &Untouched) -> Result<Option<Cured>, Error> {
    let mut files = analysis::Files::default();
    let analysis = match looked {
        Some(Ok(Some(analysis))) => analysis,
        Some(Ok(None)) => {
            let slimmed = slim::slimmed(call.args, env, settings, &untouched.nvcc, &mut files)?;
            return slimmed.map_or(Ok(None), |rewritten| finished(call, rewritten, files, settings, untouched));
        }
        Some(Err(why)) => {
            if why.is_worth_a_warning() {
                warn(settings, &format!("device link not looked at: {}", why.why()))?;
            }
            return Ok(None);
        }
        None => {
            warn(settings, "a bug in dlink-shim, please report it; the command runs as it was given")?;
            return Ok(None);
        }
    };
    let complaint = settings.complaint.as_ref().or(analysis.plan.warning.as_ref()).cloned();
    if let Some(complaint) = complaint.or_else(|| trust::complaint(env)) {
        warn(settings, &complaint)?;
    }
    for line in report::text::lines(analysis) {
        tracing::info!("{line}");
    }
    if settings.mode == Mode::Report {
        tell(&report::text::report(analysis, &untouched.nvcc));
        return Ok(None);
    }
    let rewritten = match analysis.rewritten(&mut |name, text| files.add(name, text)) {
        Ok(Some(rewritten)) => rewritten,
        other => {
            files.abandon();
            return other.map(|_| None);
        }
    };
    finished(call, rewritten, files, settings, untouched)
}

fn finished(
    call: &NvccCall<'_>,
    rewritten: Rewritten,
    files: analysis::Files,
    settings: &Settings,
    untouched: &Untouched,
) -> Result<Option<Cured>, Error> {
    if let Some(name) = rewritten.unset.iter().find(|name| call.front.sets(name)) {
        files.abandon();
        warn(settings, &format!("the command runs as it was given: it sets {name} in front of nvcc: put its words on the line"))?;
        return Ok(None);
    }
    Ok(Some((untouched.rewritten(rewritten.args, rewritten.unset), files.kept)))
}

/// Runs `look`, turning a panic into `None` without its message.
pub(super) fn quietly<T>(look: impl FnOnce() -> T) -> Option<T> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(look)).ok();
    std::panic::set_hook(hook);
    result
}

pub(super) fn warn(settings: &Settings, text: &str) -> Result<(), Error> {
    if settings.strict {
        return Err(Error::Strict(text.to_owned()));
    }
    tell(&format!("dlink-shim: warning: {text}\n"));
    Ok(())
}

/// `DLINK_SHIM_LOG` is a tracing filter: `info`, or `dlink_shim=debug`.
pub(super) fn start_log(env: &Env) {
    use tracing_subscriber::prelude::*;
    let Some(filter) = env.get("DLINK_SHIM_LOG").and_then(|v| v.to_str()?.parse::<tracing_subscriber::filter::Targets>().ok()) else {
        return;
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).without_time().with_target(false).with_ansi(false);
    let _ = tracing_subscriber::registry().with(lines.with_filter(filter)).try_init();
}

impl analysis::NotAnalysed {
    /// Whether a cure may have been missed and nvcc itself would not complain.
    fn is_worth_a_warning(&self) -> bool {
        matches!(self, Self::DeviceLink(NotUnderstood::UnknownOption(_) | NotUnderstood::SourceInput(_) | NotUnderstood::Other(_)))
    }
}
