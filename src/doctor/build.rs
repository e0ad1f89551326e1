//! Whether a build's device links go through dlink-shim.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::commands::{self, Line, Origin};
use super::{Finding, Shims};
use crate::cli::is_nvcc_name;
use crate::nvcc::{CommandLine, DeviceLink};
use crate::{Env, Error};

/// What a build would run.
#[derive(Clone, Debug, Serialize)]
pub struct Build {
    /// The directory, or the file with make's output.
    pub path: PathBuf,
    /// What builds it.
    pub system: System,
    /// Its device links, those inside nvcc's host links included.
    pub device_links: Vec<Link>,
    /// Compilations by nvcc.
    pub compilations: usize,
    /// Those that go through dlink-shim.
    pub compilations_through: usize,
    /// An nvcc that the build calls.
    pub nvcc: Option<String>,
}

/// What builds it, as far as the cure depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum System {
    /// CMake with any generator.
    Cmake,
    /// PyTorch's `cpp_extension`.
    Pytorch,
    /// Ninja files of others.
    Ninja,
    /// Anything that prints its commands.
    Make,
}

/// One device link.
#[derive(Clone, Debug, Serialize)]
pub struct Link {
    /// What it writes.
    pub output: String,
    /// Whether it is inside a host link by nvcc.
    pub implicit: bool,
    /// Whether it goes through dlink-shim.
    pub through: bool,
}

impl Build {
    /// Reads a build.
    pub fn look(path: &Path, env: &Env) -> Result<Self, Error> {
        let (origin, lines) = commands::read(path, env)?;
        let full = env.cwd().join(path);
        let system = match origin {
            _ if full.join("CMakeCache.txt").is_file() => System::Cmake,
            Origin::CmakeMakefiles => System::Cmake,
            Origin::Ninja if is_pytorch(&full) => System::Pytorch,
            Origin::Ninja => System::Ninja,
            Origin::MakeOutput => System::Make,
        };
        let mut build =
            Self { path: path.to_owned(), system, device_links: Vec::new(), compilations: 0, compilations_through: 0, nvcc: None };
        let mut shims = Shims::new(env);
        for line in lines.into_iter().chain(compile_commands(&full)) {
            build.read(&line, &mut shims);
        }
        // CMake leaves launchers out of compile_commands.json, the only list of compilations there is with Makefiles (3.25.1).
        if origin == Origin::CmakeMakefiles && has_our_launcher(&full) {
            build.compilations_through = build.compilations;
        }
        Ok(build)
    }

    fn read(&mut self, line: &Line, shims: &mut Shims<'_>) {
        let name = |w: &OsString| Path::new(w).file_name().is_some_and(|n| is_nvcc_name(n.as_bytes()));
        // The first word that is nvcc or dlink-shim; others may stand in front of it.
        let Some(at) = line.words.iter().position(|w| name(w) || super::is_our_name(w)) else { return };
        let mut through = shims.holds_word(&line.words[at], &line.cwd);
        let mut rest = &line.words[at + 1..];
        if !name(&line.words[at]) {
            match rest.iter().position(|w| name(w) || w.as_bytes().starts_with(b"-")) {
                Some(next) if name(&rest[next]) => rest = &rest[next + 1..],
                // `NVCC=dlink-shim`: nvcc's words at once.
                Some(0) => {}
                _ => return,
            }
        } else if !through {
            self.nvcc.get_or_insert_with(|| line.words[at].to_string_lossy().into_owned());
            through = line.words[..at].iter().any(|w| super::is_our_name(w));
        }
        let env = Env::new(&[], &line.cwd);
        let Ok(command) = CommandLine::read(rest, &env) else { return };
        if ["compile", "device-c", "device-w"].iter().any(|o| command.has(o)) {
            self.compilations += 1;
            self.compilations_through += usize::from(through);
            return;
        }
        let link = DeviceLink::from_line(&command);
        let implicit = !command.has("device-link");
        if implicit && !matches!(link, Ok(Some(_))) {
            return;
        }
        let output = command.last_value("output-file").map_or("a_dlink.o".into(), |o| String::from_utf8_lossy(o).into_owned());
        self.device_links.push(Link { output, implicit, through });
    }

    /// One line.
    pub fn summary(&self) -> String {
        let through = self.device_links.iter().filter(|l| l.through).count();
        format!(
            "{}: {} device link(s), {through} through dlink-shim; {} compilation(s) by nvcc, {} through dlink-shim",
            self.path.display(),
            self.device_links.len(),
            self.compilations,
            self.compilations_through
        )
    }

    /// What is wrong, with the line that cures it.
    pub fn findings(&self) -> Vec<Finding> {
        let around = self.device_links.iter().filter(|l| !l.through).count();
        if around == 0 {
            return Vec::new();
        }
        let nvcc = self.nvcc.as_deref().unwrap_or("nvcc");
        let all = self.device_links.len();
        let launcher = self.system == System::Cmake && self.compilations_through > 0;
        let because = match self.system {
            System::Cmake if launcher => ": CMake runs CMAKE_CUDA_COMPILER_LAUNCHER for compilations only",
            _ => "",
        };
        let cure = match self.system {
            System::Cmake => cmake_cure(&self.path),
            System::Pytorch => format!("export PYTORCH_NVCC=\"dlink-shim {nvcc}\", and build again"),
            System::Make => format!("make NVCC=\"dlink-shim {nvcc}\""),
            System::Ninja => format!("let the rule for device links begin with `dlink-shim {nvcc}`"),
        };
        vec![Finding { what: format!("{around} of {all} device links do not go through dlink-shim{because}"), cure }]
    }
}

/// Switches the CMake module on, which is installed beside the program or comes out of it.
fn cmake_cure(build: &Path) -> String {
    let installed = std::env::current_exe().ok().and_then(|p| Some(p.parent()?.parent()?.join("lib/cmake/DlinkShim/DlinkShim.cmake")));
    let build = std::path::absolute(build).unwrap_or_else(|_| build.to_owned());
    let build = build.display();
    match installed.filter(|p| p.is_file()) {
        Some(module) => format!("cmake -DCMAKE_PROJECT_INCLUDE={} {build}", module.display()),
        None => format!("dlink-shim generate cmake {build} && cmake -DCMAKE_PROJECT_INCLUDE={build}/DlinkShim.cmake {build}"),
    }
}

/// The variable in which `cpp_extension` keeps its device link's words (2.15.0).
fn is_pytorch(directory: &Path) -> bool {
    std::fs::read_to_string(directory.join("build.ninja")).is_ok_and(|text| text.contains("cuda_dlink_post_cflags"))
}

/// Whether the CMake variable that users try first names us.
fn has_our_launcher(directory: &Path) -> bool {
    let cache = std::fs::read_to_string(directory.join("CMakeCache.txt")).unwrap_or_default();
    let launcher = cache.lines().find(|l| l.starts_with("CMAKE_CUDA_COMPILER_LAUNCHER:")).and_then(|l| Some(l.split_once('=')?.1));
    launcher.is_some_and(|l| l.split(';').any(|w| super::is_our_name(w.as_ref())))
}

/// CMake's list of compilations, where Makefiles don't say them otherwise. Ninja's own commands have them already.
fn compile_commands(directory: &Path) -> Vec<Line> {
    if directory.join("build.ninja").is_file() {
        return Vec::new();
    }
    let text = std::fs::read(directory.join("compile_commands.json")).unwrap_or_default();
    let entries: Vec<serde_json::Value> = serde_json::from_slice(&text).unwrap_or_default();
    let line = |entry: &serde_json::Value| {
        let words = shlex::split(entry.get("command")?.as_str()?)?;
        Some(Line { cwd: entry.get("directory")?.as_str()?.into(), words: words.iter().map(OsString::from).collect() })
    };
    entries.iter().filter_map(line).collect()
}
