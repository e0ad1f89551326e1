//! `dlink-shim doctor`: how dlink-shim is wired in.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;

use super::say;
use crate::doctor::{Build, Finding, Wiring};
use crate::{Env, Error};

/// Says how dlink-shim is wired in, and whether device links go through it
///
/// Which nvcc would run and why, the toolkit, every setting and where it comes from.
///
/// With --build it reads what a build directory would run (Ninja's manifest, CMake's Makefiles, compile_commands.json) or what a
/// make run has printed, and counts the device links that go through dlink-shim. Most often it is wired in where device links
/// do not pass: CMake's CUDA_COMPILER_LAUNCHER sees compilations only.
#[derive(clap::Args)]
#[command(after_long_help = "\
Exit status:
  0  nothing to complain about
  1  something is wired in wrongly, or not at all
  2  it could not look

Examples:
  dlink-shim doctor                                   nvcc, toolkit, settings
  dlink-shim doctor --build build                     a CMake, Ninja or PyTorch build directory
  make -n > make.log; dlink-shim doctor --build make.log
  dlink-shim doctor -- ccache nvcc -dlink a.o -o b.o  how this command would be read")]
pub struct Doctor {
    /// A build directory, or a file with the commands that make printed
    #[arg(long, value_name = "DIR|FILE")]
    build: Option<PathBuf>,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
    /// A command: dlink-shim's words, or nvcc's
    #[arg(last = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

impl Doctor {
    /// Prints what is found.
    pub fn run(self, env: &Env) -> Result<u8, Error> {
        let wiring = Wiring::look(&self.command, env);
        let build = self.build.as_deref().map(|path| Build::look(path, env)).transpose()?;
        let findings: Vec<Finding> = wiring.findings(env).into_iter().chain(build.iter().flat_map(Build::findings)).collect();
        let text = match self.json {
            true => format!("{:#}\n", serde_json::json!({ "wiring": wiring, "build": build, "findings": findings })),
            false => shown(&wiring, build.as_ref(), &findings),
        };
        say(&text);
        Ok(u8::from(!findings.is_empty()))
    }
}

fn shown(wiring: &Wiring, build: Option<&Build>, findings: &[Finding]) -> String {
    let mut out = String::new();
    let mut line = |title: &str, text: String| {
        let _ = writeln!(out, "{title:<10} {text}");
    };
    line("dlink-shim", format!("{} ({})", wiring.version, wiring.program));
    match &wiring.nvcc {
        Some(nvcc) => line("nvcc", format!("{} ({})", nvcc.path, nvcc.why)),
        None => line("nvcc", "none found".into()),
    }
    if let Some(toolkit) = wiring.nvcc.as_ref().and_then(|n| n.toolkit.as_ref()) {
        line("toolkit", toolkit.clone());
    }
    if let Some(first) = &wiring.first_on_path {
        line("PATH", format!("the first nvcc is {first}"));
    }
    if let Some(call) = &wiring.call {
        line("command", call.clone());
    }
    for (at, setting) in wiring.settings.iter().enumerate() {
        let title = if at == 0 { "settings" } else { "" };
        line(title, format!("{} = {} ({})", setting.name, setting.value, setting.origin));
    }
    if wiring.settings.is_empty() {
        line("settings", format!("none set, neither in the environment nor in {}", wiring.settings_file));
    }
    if let Some(build) = build {
        line("build", build.summary());
        for link in build.device_links.iter().filter(|l| !l.through).take(5) {
            line("", format!("not through: {}", link.output));
        }
        let more = build.device_links.iter().filter(|l| !l.through).count().saturating_sub(5);
        if more > 0 {
            line("", format!("and {more} more"));
        }
    }
    for finding in findings {
        let _ = writeln!(out, "\nfinding: {}\n    cure: {}", finding.what, finding.cure);
    }
    if findings.is_empty() {
        out.push_str("\nnothing to complain about\n");
    }
    out
}
