//! Our own commands: one module each, with its clap arguments (whose text is its help) and a `run`.

mod audit;
mod doctor;
mod explain;
mod generate;
mod inspect;
mod link_script;
mod pages;
mod report;
mod size;

use std::ffi::OsString;
use std::io::Write;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use super::fail;
use crate::{Env, Error};

#[derive(Parser)]
#[command(name = "dlink-shim", version, override_usage = pages::USAGE, about = pages::ABOUT, long_about = pages::LONG_ABOUT)]
#[command(after_help = "`--help` says more: the ways to call it, every setting, examples.", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Audit(audit::Audit),
    Doctor(doctor::Doctor),
    Explain(explain::Explain),
    Generate(generate::Generate),
    Inspect(inspect::Inspect),
    LinkScript(link_script::LinkScript),
    Report(report::Report),
    Size(size::Size),
}

/// The names that are commands and so can't be launched by their bare name. A list of its own, since every wrapped call asks
/// and building clap's costs more than the call.
pub const NAMES: &[&str] = &["audit", "doctor", "explain", "generate", "help", "inspect", "link-script", "report", "size"];

/// All that clap knows of us: for parsing, help, completions and man pages alike.
fn command() -> clap::Command {
    Cli::command().after_long_help(pages::after_help())
}

/// Runs an own command: its exit code, or 2 with one error line.
pub fn run(argv: &[OsString], env: &Env) -> u8 {
    let parsed = command().try_get_matches_from(argv).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            if error.kind() == clap::error::ErrorKind::DisplayVersion && asked_by_cmake(env) {
                eprintln!(
                    "dlink-shim: warning: CMake takes one word for the compiler: CUDACXX or CMAKE_CUDA_COMPILER must be a hard link \
                     or copy of dlink-shim named `nvcc` (with DLINK_SHIM_NVCC=/path/to/nvcc, or the real one on PATH)"
                );
            }
            return u8::from(error.use_stderr()) * 2;
        }
    };
    let ended: Result<u8, Error> = match cli.command {
        Command::Audit(audit) => audit.run(env),
        Command::Doctor(doctor) => doctor.run(env),
        Command::Explain(explain) => explain.run(env),
        Command::Generate(generate) => generate.run(env),
        Command::Inspect(inspect) => inspect.run(env),
        Command::LinkScript(script) => script.run(env),
        Command::Report(report) => report.run(env),
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
    #[test]
    fn every_command_is_known_to_the_wrapper_by_name() {
        let mut names: Vec<String> = super::command().get_subcommands().map(|c| c.get_name().to_owned()).collect();
        names.push("help".into());
        names.sort();
        assert_eq!(names, super::NAMES);
    }
}
