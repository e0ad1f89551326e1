//! How the program was called, and what it then does.

mod call;
mod commands;
mod front;
mod settings;
mod told;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub use call::{Call, NvccCall};
pub use front::Front;
pub use settings::{Mode, Settings};
use told::Told;

use crate::analysis::{self, Analysis};
use crate::launch::Launch;
use crate::nvcc::find::{self, Chain};
use crate::nvcc::{CommandLine, NotUnderstood};
use crate::plan::Scene;
use crate::rewrite::{self, Changes, Rewritten};
use crate::survey::HostLink;
use crate::{Env, Error, report};

/// Runs the program: everything `main` does.
pub fn run(argv: Vec<OsString>, env: Env) -> ExitCode {
    let (words, told) = Told::take(&argv);
    let result = match Call::from_argv(&words) {
        Call::Own => return commands::run(&argv, &env),
        Call::Launcher(assignments, words) => launcher(&assignments, words),
        Call::Nvcc(call) => wrap(&call, &told, &env),
        Call::Mistake(error) => Err(error),
    };
    result.unwrap_or_else(|error| fail(&error))
}

/// Prints an error with its causes. A program that can't be run ends as in a shell: 127 not found, 126 otherwise.
fn fail(error: &Error) -> ExitCode {
    eprintln!("dlink-shim: error: {error}");
    let not_found = |e: &std::io::Error| e.kind() == std::io::ErrorKind::NotFound;
    ExitCode::from(match error {
        Error::NvccNotFound { .. } | Error::AskedBySccache | Error::NoProgram { .. } | Error::NoCommand | Error::EmptyProgram => 127,
        Error::Run { source, .. } if not_found(source) => 127,
        Error::Run { .. } => 126,
        _ => 2,
    })
}

/// Runs a program that is no nvcc.
fn launcher(assignments: &[(&OsStr, &OsStr)], words: &[OsString]) -> Result<ExitCode, Error> {
    let Some((program, args)) = words.split_first() else { return Err(Error::NoCommand) };
    let mut launch = Launch::new(program, args);
    launch.set = owned(assignments);
    Err(match launch.exec() {
        Error::Run { program, source } if source.kind() == std::io::ErrorKind::NotFound => Error::NoProgram { program },
        other => other,
    })
}

fn owned(assignments: &[(&OsStr, &OsStr)]) -> Vec<(OsString, OsString)> {
    assignments.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A call with nvcc's words, ready to run as it was given.
struct Untouched {
    launch: Launch,
    /// How many of the launch's words stand before nvcc's.
    before: usize,
    /// The real nvcc; with programs in front, as far as it is known.
    nvcc: PathBuf,
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

fn wrap(call: &NvccCall<'_>, told: &Told, env: &Env) -> Result<ExitCode, Error> {
    let env = &env.changed(call.front.all_changes());
    let settings = Settings::from_env(env).told(told);
    let untouched = Untouched::new(call, env)?;
    if settings.mode == Mode::Off || untouched.inner {
        return Err(untouched.launch.exec());
    }
    start_log(env);
    match cured(call, &told.host_link, env, &settings, &untouched) {
        Ok(Some((launch, None))) => Err(launch.exec()),
        Ok(Some((launch, Some(files)))) => launch.run(files),
        Ok(None) => Err(untouched.launch.exec()),
        Err(error @ Error::Strict(_)) => Err(error),
        Err(error) => {
            warn(&settings, &format!("{error}; the command runs as it was given"))?;
            Err(untouched.launch.exec())
        }
    }
}

type Cured = (Launch, Option<tempfile::TempDir>);

/// The changed command, or `None` to run it as it was given.
fn cured(call: &NvccCall<'_>, host_link: &HostLink, env: &Env, settings: &Settings, untouched: &Untouched) -> Result<Option<Cured>, Error> {
    let nvcc: &Path = &untouched.nvcc;
    // Whatever goes wrong in here must not cost the build more than the cure.
    let looked = quietly(|| analysis::analyse(call.args, host_link, Some(nvcc), env, &settings.wishes));
    let analysis = match looked {
        Some(Ok(Some(analysis))) => analysis,
        Some(Ok(None)) => return slimmed(call, env, settings, untouched),
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
    if let Some(complaint) = settings.complaint.as_ref().or(analysis.plan.warning.as_ref()) {
        warn(settings, complaint)?;
    }
    for line in report::text::lines(&analysis) {
        tracing::info!("{line}");
    }
    let slimming = slimming(settings, nvcc, &analysis.line, Some(&analysis.scene))?;
    if settings.mode == Mode::Report {
        eprint!("{}", report::text::report(&analysis, nvcc));
        return Ok(None);
    }
    let mut files = analysis::Files::default();
    let Some(rewritten) = analysis.rewritten_with(slimming, &mut |name, text| files.add(name, text))? else { return Ok(None) };
    finished(call, rewritten, files, settings, untouched)
}

/// A command that is no device link, with less device code where the settings ask for that.
fn slimmed(call: &NvccCall<'_>, env: &Env, settings: &Settings, untouched: &Untouched) -> Result<Option<Cured>, Error> {
    if settings.slim.is_empty() {
        return Ok(None);
    }
    let Ok(line) = CommandLine::read(call.args, env) else { return Ok(None) };
    let changes = slimming(settings, &untouched.nvcc, &line, None)?;
    if changes.is_empty() || settings.mode == Mode::Report {
        return Ok(None);
    }
    let mut files = analysis::Files::default();
    let rewritten = rewrite::rewrite(&line, &changes, &mut |text| files.add("options.rsp", text))?;
    finished(call, rewritten, files, settings, untouched)
}

/// What `DLINK_SHIM_ARCHS` and `DLINK_SHIM_COMPRESS` change about a command, said where it should be.
fn slimming(settings: &Settings, nvcc: &Path, line: &CommandLine, scene: Option<&Scene>) -> Result<Changes, Error> {
    if settings.slim.is_empty() {
        return Ok(Changes::default());
    }
    let slimming = quietly(|| settings.slim.slimming(line, nvcc, scene)).unwrap_or_default();
    for warning in &slimming.warnings {
        warn(settings, warning)?;
    }
    for note in &slimming.notes {
        tracing::info!("{note}");
        if settings.mode == Mode::Report {
            eprintln!("note: {note}");
        }
    }
    Ok(slimming.changes)
}

fn finished(
    call: &NvccCall<'_>,
    rewritten: Rewritten,
    files: analysis::Files,
    settings: &Settings,
    untouched: &Untouched,
) -> Result<Option<Cured>, Error> {
    if let Some(name) = rewritten.unset.iter().find(|name| call.front.sets(name)) {
        warn(settings, &format!("the command runs as it was given: it sets {name} in front of nvcc: put its words on the line"))?;
        return Ok(None);
    }
    Ok(Some((untouched.rewritten(rewritten.args, rewritten.unset), files.directory)))
}

/// Runs `look`, turning a panic into `None` without its message.
fn quietly<T>(look: impl FnOnce() -> T) -> Option<T> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(look)).ok();
    std::panic::set_hook(hook);
    result
}

fn warn(settings: &Settings, text: &str) -> Result<(), Error> {
    if settings.strict {
        return Err(Error::Strict(text.to_owned()));
    }
    eprintln!("dlink-shim: warning: {text}");
    Ok(())
}

/// `DLINK_SHIM_LOG` is a tracing filter: `info`, or `dlink_shim=debug`.
fn start_log(env: &Env) {
    use tracing_subscriber::prelude::*;
    let Some(filter) = env.get("DLINK_SHIM_LOG").and_then(|v| v.to_str()?.parse::<tracing_subscriber::filter::Targets>().ok()) else {
        return;
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).without_time().with_target(false).with_ansi(false);
    let _ = tracing_subscriber::registry().with(lines.with_filter(filter)).try_init();
}

/// Explains a command as [`wrap`] would treat it; for `explain`.
fn explained(words: &[OsString], env: &Env) -> Result<(PathBuf, Option<Analysis>), Error> {
    let (words, told) = Told::take(words);
    let call = match Call::from_words(&words) {
        Call::Nvcc(call) => call,
        Call::Mistake(error) => return Err(error),
        Call::Launcher(..) | Call::Own => return Ok((PathBuf::new(), None)),
    };
    let env = &env.changed(call.front.all_changes());
    let nvcc = find::nvcc(env, &Chain::default(), call.word, None)?;
    let settings = Settings::from_env(env).told(&told);
    let looked = analysis::analyse(call.args, &told.host_link, Some(&nvcc), env, &settings.wishes);
    let analysis = looked.map_err(|why| Error::Usage(why.why().to_string()))?;
    Ok((nvcc, analysis))
}

/// What `DLINK_SHIM_ARCHS` and `DLINK_SHIM_COMPRESS` would do to a command, a line each; for `explain`.
fn explained_slimming(words: &[OsString], nvcc: &Path, analysis: Option<&Analysis>, env: &Env) -> Vec<String> {
    let (words, _) = Told::take(words);
    let Call::Nvcc(call) = Call::from_words(&words) else { return Vec::new() };
    let env = &env.changed(call.front.all_changes());
    let slim = Settings::from_env(env).slim;
    let Ok(line) = CommandLine::read(call.args, env) else { return Vec::new() };
    if slim.is_empty() {
        return Vec::new();
    }
    let slimming = slim.slimming(&line, nvcc, analysis.map(|a| &a.scene));
    slimming.warnings.into_iter().map(|w| format!("warning: {w}")).chain(slimming.notes.into_iter().map(|n| format!("note: {n}"))).collect()
}

impl analysis::NotAnalysed {
    /// Whether a cure may have been missed and nvcc itself would not complain.
    fn is_worth_a_warning(&self) -> bool {
        matches!(self, Self::DeviceLink(NotUnderstood::UnknownOption(_) | NotUnderstood::SourceInput(_) | NotUnderstood::Other(_)))
    }
}
