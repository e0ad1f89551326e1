//! `dlink-shim explain`: what would be done with one command.

use std::ffi::OsString;

use super::super::{explained, slim};
use super::say;
use crate::{Env, Error, report};

/// Says what would be done with a device-link command, and why
///
/// Looks at the command as the wrapper does, with the same settings, and runs nothing. Per file it prints the verdict and the
/// reason, per unit what is known of where it registers, then the command line that nvcc would get.
///
/// The verdicts on units: own (stays, and registers here), strip (goes with its library), mask (goes alone), guard (stays,
/// and this image registers whether or not the unit's host side is in it), protect (as own), copy (a second copy), excluded (a
/// stub on the line covers it), leave.
#[derive(clap::Args)]
#[command(after_long_help = "\
Exit status:
  0  also when the command is no device link
  2  it is not understood; the wrapper would run it as given
  127  no nvcc

Examples:
  dlink-shim explain -- nvcc -dlink plugin.o -Llib -lcore_nv -o dlink.o
  dlink-shim explain -- /usr/local/cuda/bin/nvcc -shared a.o -o liba.so
  dlink-shim explain --json -- nvcc -dlink -optf objects.rsp | jq '.files[].verdict'")]
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
    pub fn run(self, env: &Env) -> Result<u8, Error> {
        let (nvcc, mut analysis) = explained(&self.command, env)?;
        let (notes, slimmed) = slim::explained(&self.command, &nvcc, analysis.as_mut(), env);
        let mut text = match (nvcc, analysis) {
            (nvcc, Some(analysis)) if self.json => format!("{:#}\n", report::json::report(&analysis, &nvcc)),
            (nvcc, Some(analysis)) => report::text::report(&analysis, &nvcc),
            (nvcc, None) if self.json => format!("{:#}\n", serde_json::json!({ "device_link": false, "nvcc": nvcc.to_string_lossy() })),
            (_, None) if slimmed.is_some() => "not a device link that makes a stub\n".into(),
            (_, None) => "not a device link that makes a stub: runs as it is given\n".into(),
        };
        if !self.json {
            text.extend(notes.iter().map(|line| format!("{line}\n")));
            if let Some(words) = slimmed {
                let words: Vec<_> = words.iter().map(|w| w.to_string_lossy()).collect();
                text += &format!("command: {}\n", shlex::try_join(words.iter().map(|w| w.as_ref())).unwrap_or_default());
            }
        }
        say(&text);
        Ok(0)
    }
}
