//! Our own commands: one module each, with its clap arguments (whose text is its help) and a `run`.

mod explain;
mod size;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::fail;
use crate::{Env, Error};

const HOW: &str = "\
Put it between your build and nvcc in one of three ways:
  dlink-shim /path/to/nvcc ARGS…   as a launcher
  a link or copy named `nvcc`      first on PATH, or as CMAKE_CUDA_COMPILER
  NVCC=dlink-shim                  called with nvcc's own words
ccache, sccache, env, `ctest --launch … --` and VAR=value may stand between dlink-shim and nvcc.
Settings: DLINK_SHIM_NVCC, DLINK_SHIM_MODE=fix|report|off, DLINK_SHIM_STRICT, DLINK_SHIM_KEEP, DLINK_SHIM_STRIP, DLINK_SHIM_GUARD,
DLINK_SHIM_ARCHS=LIST|one-per-major|cover:LIST, DLINK_SHIM_COMPRESS=size|all, DLINK_SHIM_LOG;
in the environment, or as lines of a file `dlink-shim.conf` beside the program";

#[derive(Parser)]
#[command(name = "dlink-shim", version, about = "Makes CUDA device linking across shared libraries register every kernel", after_help = HOW)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Explain(explain::Explain),
    Size(size::Size),
}

/// The names that are commands and so can't be launched by their bare name. A list of its own, since every wrapped call asks
/// and building clap's costs more than the call.
pub const NAMES: &[&str] = &["explain", "help", "size"];

/// Runs an own command: its exit code, or 2 with one error line.
pub fn run(argv: &[OsString], env: &Env) -> ExitCode {
    let cli = match Cli::try_parse_from(argv) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            if error.kind() == clap::error::ErrorKind::DisplayVersion && asked_by_cmake(env) {
                eprintln!(
                    "dlink-shim: warning: CMake takes one word for the compiler: CUDACXX or CMAKE_CUDA_COMPILER must be a hard link \
                     or copy of dlink-shim named `nvcc` (with DLINK_SHIM_NVCC=/path/to/nvcc, or the real one on PATH)"
                );
            }
            return ExitCode::from(u8::from(error.use_stderr()) * 2);
        }
    };
    let ended: Result<ExitCode, Error> = match cli.command {
        Command::Explain(explain) => explain.run(env),
        Command::Size(size) => size.run(env),
    };
    ended.unwrap_or_else(|error| fail(&error))
}

/// CMake asks `dlink-shim --version`, without the second word, when `CUDACXX` is `dlink-shim /path/to/nvcc`. It shows the
/// answer in its log of errors only.
fn asked_by_cmake(env: &Env) -> bool {
    env.cwd().ends_with("CompilerIdCUDA")
        || env.get("CUDACXX").is_some_and(|c| {
            let mut words = c.as_encoded_bytes().split(u8::is_ascii_whitespace).filter(|w| !w.is_empty());
            words.next().is_some_and(|w| w.ends_with(b"dlink-shim")) && words.next().is_some()
        })
}

/// Writes to stdout. A reader that has gone away (`| head`) is no error.
fn say(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_help_names_every_setting() {
        for setting in crate::settings_file::SETTINGS {
            assert!(super::HOW.contains(setting), "{setting}");
        }
    }

    #[test]
    fn every_command_is_known_to_the_wrapper_by_name() {
        let mut names: Vec<String> = super::Cli::command().get_subcommands().map(|c| c.get_name().to_owned()).collect();
        names.push("help".into());
        names.sort();
        assert_eq!(names, super::NAMES);
    }
}
