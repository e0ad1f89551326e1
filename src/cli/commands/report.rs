//! `dlink-shim report`: what a whole build did.

use std::path::PathBuf;

use super::super::tell;
use super::say;
use crate::report::build::{self, View, graph, html, text};
use crate::{Env, Error};

/// Says what a whole build did, from the file that DLINK_SHIM_REPORT named
///
/// Set DLINK_SHIM_REPORT to an absolute path and build: each device link adds one line to that file, also under `make -j`. This
/// command reads it back. Of several links of one output, the last one counts, so the file may stay over incremental builds;
/// remove it before a build from scratch.
///
/// Damaged lines are named on stderr and passed over.
#[derive(clap::Args)]
#[command(after_long_help = "\
Exit status:
  0  all lines were read
  2  some line, or the file, could not be read

Examples:
  export DLINK_SHIM_REPORT=$PWD/device-links.jsonl
  rm -f \"$DLINK_SHIM_REPORT\"; make -j8
  dlink-shim report device-links.jsonl                      summary and tables
  dlink-shim report device-links.jsonl --html links.html    one page: filter, matrix, graph
  dlink-shim report device-links.jsonl --dot | dot -Tsvg > links.svg
  dlink-shim report device-links.jsonl --json | jq .summary")]
pub struct Report {
    /// The report file
    file: PathBuf,
    /// Print JSON for programs: `summary`, `libraries`, `links` (with the keys of `explain --json`), `damaged`
    #[arg(long, group = "form")]
    json: bool,
    /// Write one self-contained page, which loads nothing from anywhere
    #[arg(long, group = "form", value_name = "OUT")]
    html: Option<PathBuf>,
    /// Print the graph of who registers what for graphviz
    #[arg(long, group = "form")]
    dot: bool,
    /// Print the same graph for mermaid
    #[arg(long, group = "form")]
    mermaid: bool,
}

impl Report {
    /// Prints or writes the view that was asked for.
    pub fn run(self, env: &Env) -> Result<u8, Error> {
        let build = build::read(&env.cwd().join(&self.file)).map_err(|error| match error {
            Error::Read { source, .. } => Error::Read { path: self.file.clone(), source },
            other => other,
        })?;
        if let Some(out) = &self.html {
            let write = std::fs::write(env.cwd().join(out), html::page(&build));
            write.map_err(|source| Error::Write { path: out.clone(), source })?;
        } else if self.json {
            say(&format!("{:#}\n", build::json(&build)));
        } else if self.dot {
            say(&graph::dot(&View::new(&build)));
        } else if self.mermaid {
            say(&graph::mermaid(&View::new(&build)));
        } else {
            say(&text::report(&build));
        }
        for damaged in &build.damaged {
            tell(&format!("dlink-shim: {}:{}: not read: {}\n", self.file.display(), damaged.line, damaged.why));
        }
        Ok(if build.damaged.is_empty() { 0 } else { 2 })
    }
}
