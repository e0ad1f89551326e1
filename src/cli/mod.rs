//! How the program was called, and what it then does.

mod commands;
mod record;
mod settings;
mod told;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

pub use settings::{ALL as SETTINGS, Described, Mode, Settings};
use told::Told;

use crate::analysis::{self, Analysis};
use crate::launch::Launch;
use crate::nvcc::find::{self, Chain};
use crate::nvcc::{NotUnderstood, device_link};
use crate::{Env, Error, report};

/// How the program was called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call<'a> {
    /// With nvcc's words, by a name that is nvcc's or by `NVCC=dlink-shim`.
    Nvcc {
        /// The nvcc that a launcher call names.
        word: Option<&'a OsStr>,
        /// The name we were called by, when it is nvcc's name.
        called_as: Option<&'a OsStr>,
        /// nvcc's words.
        args: &'a [OsString],
    },
    /// As the launcher of a program that is no nvcc.
    Launcher(&'a OsStr, &'a [OsString]),
    /// One of our own commands, or our own `--help`.
    Own,
}

impl<'a> Call<'a> {
    /// Tells from argv.
    pub fn from_argv(argv: &'a [OsString]) -> Self {
        let Some((zero, args)) = argv.split_first() else { return Self::Own };
        if file_name(zero) == b"nvcc" {
            return Self::Nvcc { word: None, called_as: Some(zero), args };
        }
        let Some(first) = args.first() else { return Self::Own };
        let bytes = first.as_bytes();
        if matches!(bytes, b"--help" | b"-h" | b"--version" | b"-V" | b"") || commands::NAMES.iter().any(|n| n.as_bytes() == bytes) {
            return Self::Own;
        }
        if bytes.starts_with(b"-") || device_link::looks_like_input(bytes) {
            return Self::Nvcc { word: None, called_as: None, args };
        }
        if is_nvcc_name(file_name(first)) {
            return Self::Nvcc { word: Some(first), called_as: None, args: &args[1..] };
        }
        Self::Launcher(first, &args[1..])
    }
}

/// `nvcc`, `nvcc-12.4`, `nvcc.real`; not `nvcc_wrapper`, which is a program with words of its own.
fn is_nvcc_name(name: &[u8]) -> bool {
    name.strip_prefix(b"nvcc").is_some_and(|rest| rest.is_empty() || rest[0] == b'-' || rest[0] == b'.' || rest[0].is_ascii_digit())
}

fn file_name(path: &OsStr) -> &[u8] {
    path.as_bytes().rsplit(|&b| b == b'/').next().unwrap_or_default()
}

/// Runs the program: everything `main` does.
pub fn run(argv: Vec<OsString>, env: Env) -> ExitCode {
    let result = match Call::from_argv(&argv) {
        Call::Own => return commands::run(&argv, &env),
        Call::Launcher(program, args) => Err(Launch::new(program, args).exec()),
        Call::Nvcc { word, called_as, args } => wrap(word, called_as, args, &env),
    };
    result.unwrap_or_else(|error| fail(&error))
}

/// Prints an error with its causes. A program that can't be run ends as in a shell: 127 not found, 126 otherwise.
fn fail(error: &Error) -> ExitCode {
    eprintln!("dlink-shim: error: {error}");
    let not_found = |e: &std::io::Error| e.kind() == std::io::ErrorKind::NotFound;
    ExitCode::from(match error {
        Error::NvccNotFound { .. } => 127,
        Error::Run { source, .. } if not_found(source) => 127,
        Error::Run { .. } => 126,
        _ => 2,
    })
}

fn wrap(word: Option<&OsStr>, called_as: Option<&OsStr>, given: &[OsString], env: &Env) -> Result<ExitCode, Error> {
    let started = Instant::now();
    let chain = Chain::from_env(env);
    let nvcc = find::nvcc(env, &chain, word, called_as)?;
    let (args, told) = Told::take(given);
    let mut untouched = Launch::new(&nvcc, &args);
    untouched.set.push((find::CHAIN, chain.with(&nvcc)));
    let mut settings = Settings::from_env(env);
    settings.hear(&told);
    if settings.mode == Mode::Off || chain.is_inner() {
        return Err(untouched.exec());
    }
    start_log(env);
    // Whatever goes wrong in here must not cost the build more than the cure.
    let looked = quietly(|| analysis::analyse(&args, &told.host_link, Some(&nvcc), env, &settings.wishes));
    let cured = cured(&nvcc, &looked, &settings, &untouched);
    let record = record::Record { started, nvcc: &nvcc, args: given, env, mode: settings.mode };
    quietly(|| record.write(settings.report.as_deref(), &looked, cured.as_ref().map(Option::is_some)));
    match cured {
        Ok(Some((launch, None))) => Err(launch.exec()),
        Ok(Some((launch, Some(kept)))) => launch.run(kept.interrupts, kept.directory),
        Ok(None) => Err(untouched.exec()),
        Err(error @ Error::Strict(_)) => Err(error),
        Err(error) => {
            warn(&settings, &format!("{error}; the command runs as it was given"))?;
            Err(untouched.exec())
        }
    }
}

type Cured = (Launch, Option<analysis::Kept>);

/// The changed command, or `None` to run it as it was given.
fn cured(nvcc: &Path, looked: &record::Looked, settings: &Settings, untouched: &Launch) -> Result<Option<Cured>, Error> {
    let analysis = match looked {
        Some(Ok(Some(analysis))) => analysis,
        Some(Ok(None)) => return Ok(None),
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
    for line in report::text::lines(analysis) {
        tracing::info!("{line}");
    }
    if settings.mode == Mode::Report {
        eprint!("{}", report::text::report(analysis, nvcc));
        return Ok(None);
    }
    let mut files = analysis::Files::default();
    let Some(rewritten) = analysis.rewritten(&mut |name, text| files.add(name, text))? else { return Ok(None) };
    let launch = Launch { args: rewritten.args, unset: rewritten.unset, ..untouched.clone() };
    Ok(Some((launch, files.kept)))
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
fn explained(args: &[OsString], env: &Env) -> Result<(std::path::PathBuf, Option<Analysis>), Error> {
    let (word, args) = match args.first() {
        Some(first) if !first.as_bytes().starts_with(b"-") && is_nvcc_name(file_name(first)) => (Some(first.as_os_str()), &args[1..]),
        _ => (None, args),
    };
    let nvcc = find::nvcc(env, &Chain::default(), word, None)?;
    let (args, told) = Told::take(args);
    let mut settings = Settings::from_env(env);
    settings.hear(&told);
    let analysis =
        analysis::analyse(&args, &told.host_link, Some(&nvcc), env, &settings.wishes).map_err(|why| Error::Usage(why.why().to_string()))?;
    Ok((nvcc, analysis))
}

impl analysis::NotAnalysed {
    /// Whether a cure may have been missed and nvcc itself would not complain.
    fn is_worth_a_warning(&self) -> bool {
        matches!(self, Self::DeviceLink(NotUnderstood::UnknownOption(_) | NotUnderstood::SourceInput(_) | NotUnderstood::Other(_)))
    }
}
