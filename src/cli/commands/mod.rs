//! Our own commands: one module each, with its clap arguments (whose text is its help) and a `run`.

mod audit;
mod explain;
mod inspect;

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
Settings: DLINK_SHIM_NVCC, DLINK_SHIM_MODE=fix|report|off, DLINK_SHIM_STRICT, DLINK_SHIM_KEEP, DLINK_SHIM_STRIP, DLINK_SHIM_GUARD, DLINK_SHIM_LOG";

#[derive(Parser)]
#[command(name = "dlink-shim", version, about = "Makes CUDA device linking across shared libraries register every kernel", after_help = HOW)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Audit(audit::Audit_),
    Explain(explain::Explain),
    Inspect(inspect::Inspect),
}

/// The names that are commands and so can't be launched by their bare name. A list of its own, since every wrapped call asks
/// and building clap's costs more than the call.
pub const NAMES: &[&str] = &["audit", "explain", "help", "inspect"];

/// Runs an own command: its exit code, or 2 with one error line.
pub fn run(argv: &[OsString], env: &Env) -> ExitCode {
    let cli = match Cli::try_parse_from(argv) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::from(error.use_stderr()) * 2);
        }
    };
    let ended: Result<ExitCode, Error> = match cli.command {
        Command::Audit(audit) => audit.run(env),
        Command::Explain(explain) => explain.run(env),
        Command::Inspect(inspect) => inspect.run(env),
    };
    ended.unwrap_or_else(|error| fail(&error))
}

/// Writes to stdout. A reader that has gone away (`| head`) is no error.
fn say(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

/// A bar on stderr while `what` are read; only on a terminal, and only when it takes a while.
struct Progress(indicatif::ProgressBar);

fn progress(what: &'static str) -> Progress {
    let bar = indicatif::ProgressBar::hidden();
    let style = indicatif::ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}");
    bar.set_style(style.unwrap_or_else(|_| indicatif::ProgressStyle::default_bar()));
    bar.set_message(what);
    bar.set_draw_target(indicatif::ProgressDrawTarget::stderr_with_hz(8));
    Progress(bar)
}

impl Progress {
    fn at(&self, done: usize, all: usize) {
        if done.is_multiple_of(64) || all < 64 {
            self.0.set_length(all as u64);
            self.0.set_position(done as u64);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn every_command_is_known_to_the_wrapper_by_name() {
        let mut names: Vec<String> = super::Cli::command().get_subcommands().map(|c| c.get_name().to_owned()).collect();
        names.push("help".into());
        names.sort();
        assert_eq!(names, super::NAMES);
    }
}
