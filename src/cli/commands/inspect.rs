//! `dlink-shim inspect`: what a file holds.

use std::path::PathBuf;

use super::say;
use crate::inspection::{self, Depth};
use crate::{Env, Error, report};

const MORE: &str = "\
Exit status:
  0  all could be read
  2  something could not; what could be is shown, and each flaw is one line on stderr

Examples:
  dlink-shim inspect plugin.o                 units, images, symbols, needs
  dlink-shim inspect --images libcufft.so.12  headers only: nothing is unpacked
  dlink-shim inspect --json lib.a | jq '.[].parts[].units'";

/// Shows what device code a file holds
///
/// Objects, archives (thin ones too), shared libraries, programs, cubins, fatbins and PTX, told by their content: the units
/// (objects of `nvcc -dc`) with their ids, the stubs, and every image with its architecture, kind, compression, sizes and symbols.
#[derive(clap::Args)]
#[command(after_long_help = MORE)]
pub struct Inspect {
    /// Print JSON for programs: an array with an element for each file
    #[arg(long)]
    json: bool,
    /// Show symbols by their mangled names
    #[arg(long)]
    raw: bool,
    /// Show images without their symbols, which unpacks nothing
    #[arg(long)]
    images: bool,
    /// Files
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

impl Inspect {
    /// Prints the report of each file.
    pub fn run(self, _env: &Env) -> Result<u8, Error> {
        let depth = if self.images { Depth::Images } else { Depth::Symbols };
        let mut whole = true;
        let mut flaw = |text: &str| {
            whole = false;
            eprintln!("dlink-shim: error: {text}");
        };
        let mut json = Vec::new();
        for path in &self.files {
            let file = match inspection::inspect(path, depth) {
                Ok(file) => file,
                Err(error) => {
                    flaw(&error.to_string());
                    continue;
                }
            };
            if self.json {
                json.push(report::inspect_json::report(&file));
            } else {
                report::inspect::report(&file, self.raw, &mut say);
            }
            for text in &file.flaws {
                flaw(&format!("{}: {text}", path.display()));
            }
        }
        if self.json {
            say(&format!("{:#}\n", serde_json::Value::Array(json)));
        }
        Ok(if whole { 0 } else { 2 })
    }
}
