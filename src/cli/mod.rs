//! How the program was called, and what it then does.

mod call;
mod commands;
mod front;
mod placing;
mod record;
mod slim;
mod wrap;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

pub use call::{Call, NvccCall};
pub use front::{Front, is_nvcc_name};

use crate::analysis::{self, Analysis};
use crate::nvcc::find::{self, Chain};
use crate::settings::{Settings, Told};
use crate::{Env, Error};

/// Runs the program: everything `main` does.
pub fn run(argv: Vec<OsString>, env: Env) -> u8 {
    let (words, told) = Told::take(&argv);
    let result = match Call::from_argv(&words) {
        Call::Own => return commands::run(&argv, &env),
        Call::Launcher(assignments, words) => wrap::launcher(&assignments, words, &told, &env),
        Call::Nvcc(call) => wrap::wrap(&call, &told, &env),
        Call::Mistake(error) => Err(error),
    };
    result.unwrap_or_else(|error| fail(&error))
}

/// Prints an error with its causes. A program that can't be run ends as in a shell: 127 not found, 126 otherwise.
fn fail(error: &Error) -> u8 {
    tell(&format!("dlink-shim: error: {error}\n"));
    let not_found = |e: &std::io::Error| e.kind() == std::io::ErrorKind::NotFound;
    match error {
        Error::NvccNotFound { .. } | Error::AskedBySccache | Error::NoProgram { .. } | Error::NoCommand | Error::EmptyProgram => 127,
        Error::Run { source, .. } if not_found(source) => 127,
        Error::Run { .. } => 126,
        _ => 2,
    }
}

/// Writes to stderr in one piece, since the commands of a parallel build share it; and a stderr that takes nothing more is no
/// reason to fail, as `eprintln!` would.
fn tell(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
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
