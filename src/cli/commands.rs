//! Our own commands.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::{explained, fail};
use crate::{Env, report};

/// The names that are commands and so can't be launched by their bare name.
pub const NAMES: &[&str] = &["explain", "help"];

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
    /// Says what would be done with a device-link command, and why
    Explain {
        /// Print JSON for programs
        #[arg(long)]
        json: bool,
        /// The command: nvcc and its words
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<OsString>,
    },
}

/// Runs an own command: 0, or 2 with one error line.
pub fn run(argv: &[OsString], env: &Env) -> ExitCode {
    let cli = match Cli::try_parse_from(argv) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::from(error.use_stderr()) * 2);
        }
    };
    match cli.command {
        Command::Explain { json, command } => match explained(&command, env) {
            Ok((nvcc, Some(analysis))) => {
                say(&if json { format!("{:#}\n", report::json::report(&analysis, &nvcc)) } else { report::text::report(&analysis, &nvcc) })
            }
            Ok((nvcc, None)) => {
                let plain = serde_json::json!({ "device_link": false, "nvcc": nvcc.to_string_lossy() });
                say(&if json { format!("{plain:#}\n") } else { "not a device link that makes a stub: runs as it is given\n".into() })
            }
            Err(error) => fail(&error),
        },
    }
}

/// Writes to stdout. A reader that has gone away (`| head`) is no error.
fn say(text: &str) -> ExitCode {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    ExitCode::SUCCESS
}
