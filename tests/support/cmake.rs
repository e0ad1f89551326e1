//! CMake projects configured and built for real.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{SHIM, Scratch, clean, must, python, toolkit};

/// The module under test.
pub fn module() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("wrapper-scripts/cmake/DlinkShim.cmake")
}

/// The two ends of what is supported: Debian's CMake 3.25, and PyPI's newest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Version {
    Debian,
    Newest,
}

impl Version {
    /// The program, or a loud skip.
    pub fn program(self) -> Option<PathBuf> {
        match self {
            Self::Debian => toolkit::has("cmake").then(|| "cmake".into()),
            Self::Newest => Some(python::packages("cmake", &["cmake"])?.join("cmake/data/bin/cmake")),
        }
    }
}

/// A build directory.
pub struct Build {
    pub cmake: PathBuf,
    pub source: PathBuf,
    pub directory: PathBuf,
    pub generator: &'static str,
    pub nvcc: PathBuf,
}

impl Build {
    /// For a source directory, with nvcc 13.0. `None` when something it takes is missing.
    pub fn new(version: Version, generator: &'static str, source: &Path, directory: PathBuf) -> Option<Self> {
        let nvcc = toolkit::nvcc("13.0")?;
        let driver = if generator.starts_with("Ninja") { "ninja" } else { "make" };
        let cmake = version.program().filter(|_| toolkit::has(driver))?;
        Some(Self { cmake, source: source.to_owned(), directory, generator, nvcc })
    }

    /// The configuration command with the toolkit's nvcc as compiler.
    pub fn configure(&self, words: &[&str]) -> Command {
        let mut command = self.configure_with(words);
        command.arg(format!("-DCMAKE_CUDA_COMPILER={}", self.nvcc.display()));
        command
    }

    /// The configuration command, the compiler left to the caller.
    pub fn configure_with(&self, words: &[&str]) -> Command {
        let mut command = clean(Command::new(&self.cmake));
        command.arg("-S").arg(&self.source).arg("-B").arg(&self.directory).args(["-G", self.generator]);
        command.args(["-DCMAKE_CUDA_ARCHITECTURES=90", &format!("-DDlinkShim_EXECUTABLE={SHIM}")]).args(words);
        for name in ["CUDACXX", "CUDAFLAGS", "CMAKE_CUDA_COMPILER_LAUNCHER", "CMAKE_GENERATOR"] {
            command.env_remove(name);
        }
        command
    }

    /// The build command.
    pub fn build(&self) -> Command {
        let mut command = clean(Command::new(&self.cmake));
        command.arg("--build").arg(&self.directory).args(["-j", "2"]);
        command
    }

    /// Builds; a second build must have nothing to do.
    pub fn build_twice(&self) {
        must(&mut self.build());
        let again = must(&mut self.build());
        let busy = ["Building", "Linking", "Generating"].iter().any(|w| again.contains(w));
        assert!(!busy, "a second build is not empty: {again}");
    }

    /// All files below the build directory, by relative path.
    pub fn files(&self) -> Vec<String> {
        files(&self.directory)
    }

    /// Every command that the build runs for links: each is one line of shell text.
    pub fn link_commands(&self) -> Vec<String> {
        if self.generator.starts_with("Ninja") {
            let text = must(Command::new("ninja").arg("-C").arg(&self.directory).args(["-t", "commands"]));
            return text.lines().flat_map(|l| l.split(" && ")).map(str::to_owned).collect();
        }
        let scripts = self.files().into_iter().filter(|f| f.ends_with("link.txt"));
        let texts = scripts.map(|f| std::fs::read_to_string(self.directory.join(f)).unwrap());
        texts.flat_map(|t| t.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    /// The device links, and the commands that go through the shim.
    pub fn device_links_and_shimmed(&self) -> (Vec<String>, Vec<String>) {
        let all = self.link_commands();
        let device = all.iter().filter(|c| c.contains(" -dlink ")).cloned().collect();
        let shimmed = all.into_iter().filter(|c| c.contains(SHIM) && !c.contains("DlinkShim_EXECUTABLE")).collect();
        (device, shimmed)
    }
}

/// All files below a directory, by relative path.
pub fn files(directory: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                open.push(path);
            } else {
                files.push(path.strip_prefix(directory).unwrap().to_string_lossy().into_owned());
            }
        }
    }
    files.sort();
    files
}

/// stdout and stderr as one text.
pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A small project: a static library `a` of device code, a shared library over it, a plugin on that, a C++ program.
/// `top` comes after the project() line with CUDA.
pub fn small_project(scratch: &Scratch, project: &str, top: &str) -> PathBuf {
    let lists = format!(
        "cmake_minimum_required(VERSION 3.19)\n{project}\nset(CMAKE_CUDA_SEPARABLE_COMPILATION ON)\nset(CMAKE_POSITION_INDEPENDENT_CODE ON)\n\
         set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)\n\
         add_library(a STATIC a.cu)\nadd_library(shl SHARED b.cu)\ntarget_link_libraries(shl PUBLIC a)\n\
         add_library(plug SHARED c.cu)\ntarget_link_libraries(plug PRIVATE shl)\n{top}\n"
    );
    scratch.write("src/CMakeLists.txt", lists);
    for (name, uses) in [("a", ""), ("b", "a"), ("c", "a")] {
        let call = if uses.is_empty() {
            String::new()
        } else {
            format!("int run_{uses}(int *); int also_{name}(int *p) {{ return run_{uses}(p); }}\n")
        };
        let text = format!(
            "__global__ void {name}_kernel(int *p) {{ *p = 1; }}\nint run_{name}(int *p) {{ {name}_kernel<<<1, 1>>>(p); return 0; }}\n{call}"
        );
        scratch.write(format!("src/{name}.cu"), text);
    }
    scratch.join("src")
}

/// The project() line that enables CUDA at once.
pub const PROJECT: &str = "project(small LANGUAGES C CXX CUDA)";
