//! `dlink-shim audit`: what is already built and never registers.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Command;

use super::say;
use crate::audit::{self, files};
use crate::{Env, Error, report};

const MORE: &str = "\
Exit status:
  0  nothing found
  1  findings
  2  something could not be looked at

Examples:
  dlink-shim audit build/lib                    every shared library and program below a directory
  dlink-shim audit libcore.so libplugin.so      these
  dlink-shim audit --ldd ./program              a program and what it loads, in lookup order
  dlink-shim audit --ldd ./program plugins/     the same, and libraries that it may open later";

/// Finds, in what is already built, device code that never registers
///
/// Looks at shared libraries and programs without running them, and without a GPU: for which units (objects of `nvcc -dc`) each
/// device-link stub waits, where their registrars are and whose stub they call, and so which kernels can never be launched.
/// Stripped images will do. Files of other kinds below a directory are passed over.
#[derive(clap::Args)]
#[command(after_long_help = MORE)]
pub struct Audit {
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
    /// Show kernels by their mangled names
    #[arg(long)]
    raw: bool,
    /// Also show every image with device-linked code
    #[arg(long)]
    all: bool,
    /// A program (or library), with everything that `ldd` says it loads
    #[arg(long, value_name = "EXE")]
    ldd: Option<PathBuf>,
    /// Files and directories
    #[arg(required_unless_present = "ldd")]
    paths: Vec<PathBuf>,
}

impl Audit {
    /// Prints the report.
    pub fn run(self, _env: &Env) -> Result<u8, Error> {
        let mut paths = Vec::new();
        let known = self.ldd.is_some() && self.paths.is_empty();
        if let Some(program) = &self.ldd {
            paths.push(program.clone());
            paths.extend(loaded(program)?);
        }
        paths.extend(self.paths.iter().cloned());
        let audit = {
            let bar = super::progress("files");
            audit::Audit::of(files::look(&paths, &|done, all| bar.at(done, all)), known)
        };
        let text = if self.json {
            format!("{:#}\n", report::audit_json::report(&audit))
        } else {
            report::audit::report(&audit, self.raw, self.all)
        };
        say(&text);
        for failure in &audit.failures {
            eprintln!("dlink-shim: error: {failure}");
        }
        Ok(match (audit.failures.is_empty(), audit.findings.is_empty()) {
            (false, _) => 2,
            (true, false) => 1,
            (true, true) => 0,
        })
    }
}

/// What `ldd` says that a program loads, in lookup order.
fn loaded(program: &PathBuf) -> Result<Vec<PathBuf>, Error> {
    let run = |source| Error::Run { program: "ldd".into(), source };
    // Without a slash ldd would not find a file of the current directory.
    let named = if program.as_os_str().as_bytes().contains(&b'/') { program.clone() } else { PathBuf::from(".").join(program) };
    let output = Command::new("ldd").arg(&named).env("LC_ALL", "C").output().map_err(run)?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(if output.stderr.is_empty() { &output.stdout } else { &output.stderr }).trim().to_owned();
        return Err(Error::Usage(format!("ldd {}: {why}", program.display())));
    }
    let mut paths = Vec::new();
    for line in output.stdout.split(|&b| b == b'\n').map(<[u8]>::trim_ascii) {
        // `name => /path (0x…)`, `/path (0x…)`, `name => not found`, or a virtual library without a path.
        let target = memchr::memmem::find(line, b" => ").map_or(line, |at| &line[at + 4..]);
        let end = memchr::memmem::rfind(target, b" (0x").unwrap_or(target.len());
        if target.starts_with(b"/") {
            paths.push(PathBuf::from(OsStr::from_bytes(&target[..end])));
        } else if target == b"not found" {
            return Err(Error::Usage(format!("ldd {}: {}", program.display(), String::from_utf8_lossy(line))));
        }
    }
    Ok(paths)
}
