//! `dlink-shim explain`: what would be done with one command.

use std::ffi::OsString;
use std::process::ExitCode;

use super::super::{explained, explained_slimming};
use super::say;
use crate::{Env, Error, report};

/// Says what would be done with a device-link command, and why
#[derive(clap::Args)]
pub struct Explain {
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
    /// The command: nvcc and its words
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<OsString>,
}

impl Explain {
    /// Prints the plan of the command.
    pub fn run(self, env: &Env) -> Result<ExitCode, Error> {
        let (nvcc, analysis) = explained(&self.command, env)?;
        let slimming = explained_slimming(&self.command, &nvcc, analysis.as_ref(), env);
        let mut text = match (nvcc, analysis) {
            (nvcc, Some(analysis)) if self.json => format!("{:#}\n", report::json::report(&analysis, &nvcc)),
            (nvcc, Some(analysis)) => report::text::report(&analysis, &nvcc),
            (nvcc, None) if self.json => format!("{:#}\n", serde_json::json!({ "device_link": false, "nvcc": nvcc.to_string_lossy() })),
            (_, None) => "not a device link that makes a stub: runs as it is given\n".into(),
        };
        if !self.json {
            text.extend(slimming.iter().map(|line| format!("{line}\n")));
        }
        say(&text);
        Ok(ExitCode::SUCCESS)
    }
}
