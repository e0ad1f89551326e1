//! What the tests share: toolkits, scratch directories, a stand-in for nvcc, and built fixtures.
#![allow(dead_code)]

pub mod audited;
pub mod cmake;
pub mod load;
pub mod python;
pub mod recipe;
pub mod toolkit;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What the shim adds so that own units register with this image.
pub const PROTECT: [&str; 2] = ["-Xcompiler", "-fvisibility=protected"];

pub const SHIM: &str = env!("CARGO_BIN_EXE_dlink-shim");

/// A directory that is gone with the value.
pub struct Scratch(pub tempfile::TempDir);

impl Scratch {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    pub fn path(&self) -> &Path {
        self.0.path()
    }
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }
    pub fn write(&self, name: impl AsRef<Path>, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }
    pub fn executable(&self, name: impl AsRef<Path>, text: &str) -> PathBuf {
        let written = self.write("being-written", text);
        let path = self.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        install(&written, &path);
        std::fs::remove_file(written).unwrap();
        path
    }
}

/// Copies a program by another process: a file that this one wrote is busy for as long as some other test's child, just
/// forked, holds the descriptor.
pub fn install(program: impl AsRef<Path>, path: &Path) {
    must(Command::new("install").args(["-m", "755"]).arg(program.as_ref()).arg(path));
}

/// A program named `nvcc` that writes down what reached it: its own name, its words, its environment, and the text of every
/// options file named there.
pub struct StandIn {
    pub scratch: Scratch,
    pub nvcc: PathBuf,
}

/// What reached the stand-in.
#[derive(Debug)]
pub struct Reached {
    pub zero: OsString,
    pub args: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    /// Texts of the new options files, outermost first.
    pub new_files: Vec<Vec<u8>>,
    pub output: Output,
}

impl Reached {
    /// The words, less the pair that protects own units (which a test of its own looks at).
    pub fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = self.args.iter().map(|a| a.to_string_lossy().into_owned()).collect();
        if let Some(at) = words.windows(2).position(|w| w == PROTECT) {
            words.drain(at..at + 2);
        }
        words
    }
    pub fn line(&self) -> String {
        self.words().join(" ")
    }
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        self.env.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_os_str())
    }
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }
}

impl StandIn {
    pub fn new() -> Self {
        let scratch = Scratch::new();
        let script = r#"#!/bin/sh
{ printf '%s\0' "$0"; for a in "$@"; do printf '%s\0' "$a"; done; } > "$STAND_IN_OUT/args"
env -0 > "$STAND_IN_OUT/env"
for a in "$@"; do case $a in *dlink-shim-*) f=${a##*[=,]}
  while [ -f "$f" ]; do n=$(ls "$STAND_IN_OUT" | wc -l); cp "$f" "$STAND_IN_OUT/file-$n"
    f=$(grep -o '[^ ="]*/dlink-shim-[^ "]*' "$f" | head -1); done;; esac; done
exit ${STAND_IN_RC:-0}
"#;
        let nvcc = scratch.executable("bin/nvcc", script);
        std::fs::create_dir(scratch.join("out")).unwrap();
        Self { scratch, nvcc }
    }

    /// Runs `dlink-shim nvcc WORDS` in `cwd`.
    pub fn run(&self, cwd: &Path, words: &[impl AsRef<OsStr>]) -> Reached {
        self.run_with(cwd, words, |_| {})
    }

    pub fn run_with(&self, cwd: &Path, words: &[impl AsRef<OsStr>], set: impl FnOnce(&mut Command)) -> Reached {
        let mut command = shim();
        command.arg(&self.nvcc).args(words).current_dir(cwd);
        set(&mut command);
        self.reached(command)
    }

    /// Runs any command that is to end in the stand-in.
    pub fn reached(&self, mut command: Command) -> Reached {
        let out = self.scratch.join("out");
        std::fs::remove_dir_all(&out).unwrap();
        std::fs::create_dir(&out).unwrap();
        let output = output(command.env("STAND_IN_OUT", &out));
        let split = |bytes: Vec<u8>| -> Vec<OsString> {
            let mut parts: Vec<OsString> = bytes.split(|&b| b == 0).map(|p| OsString::from_vec(p.to_vec())).collect();
            parts.pop();
            parts
        };
        let args = std::fs::read(out.join("args"));
        let mut args = split(args.unwrap_or_else(|_| panic!("nothing reached nvcc: {output:?}")));
        let zero = args.remove(0);
        let pair = |e: OsString| {
            let at = e.as_bytes().iter().position(|&b| b == b'=')?;
            Some((OsStr::from_bytes(&e.as_bytes()[..at]).to_owned(), OsStr::from_bytes(&e.as_bytes()[at + 1..]).to_owned()))
        };
        let env = split(std::fs::read(out.join("env")).unwrap()).into_iter().filter_map(pair).collect();
        let mut names: Vec<_> =
            std::fs::read_dir(&out).unwrap().map(|e| e.unwrap().path()).filter(|p| p.to_string_lossy().contains("/file-")).collect();
        names.sort();
        let new_files = names.iter().map(|n| std::fs::read(n).unwrap()).collect();
        Reached { zero, args, env, new_files, output }
    }
}

/// The shim with an environment that holds none of its own or nvcc's settings.
pub fn shim() -> Command {
    clean(Command::new(SHIM))
}

pub fn clean(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("DLINK_SHIM_")
            || name.starts_with("NVCC")
            || matches!(name.as_str(), "CUDA_PATH" | "CUDA_HOME" | "LIBRARY_PATH")
        {
            command.env_remove(name);
        }
    }
    command
}

/// dlink-shim installed as a regular file named `nvcc` in `directory`.
pub fn masquerade(directory: &Path) -> PathBuf {
    std::fs::create_dir_all(directory).unwrap();
    let nvcc = directory.join("nvcc");
    install(SHIM, &nvcc);
    nvcc
}

/// Runs a command; once more where a program that was just written is still open in a child that another test is forking.
pub fn output(command: &mut Command) -> Output {
    loop {
        match command.output() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {}
            other => return other.unwrap_or_else(|e| panic!("{command:?}: {e}")),
        }
    }
}

/// Runs a command that must succeed.
pub fn must(command: &mut Command) -> String {
    let output = output(command);
    assert!(output.status.success(), "{command:?}\n{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The objects of `cases/`: core (kernel and host function), devfn (a `__device__` function), plug (own kernel only), plugdev
/// (calls helper); built once by nvcc 13.0, as whole objects and as device-only copies.
pub struct Fixtures(PathBuf);

impl Fixtures {
    pub fn get() -> Option<Self> {
        let nvcc = toolkit::nvcc("13.0")?;
        let directory = toolkit::target().join("fixtures-13.0");
        let _lock = toolkit::lock("fixtures");
        if !directory.join("done").exists() {
            let _ = std::fs::remove_dir_all(&directory);
            std::fs::create_dir_all(&directory).unwrap();
            let sources = [
                ("core", "__global__ void core_kernel(int *p) { *p = 1; }\nvoid run_core(int *p) { core_kernel<<<1, 1>>>(p); }\n"),
                ("devfn", "__device__ int helper_calls;\n__device__ int helper(int x) { ++helper_calls; return x + 1; }\n"),
                (
                    "plug",
                    "__global__ void plug_kernel(int *p) { *p = 2; }\nextern \"C\" void run_plug(int *p) { plug_kernel<<<1, 1>>>(p); }\n",
                ),
                (
                    "plugdev",
                    "extern __device__ int helper(int);\n__global__ void plugdev_kernel(int *p) { *p = helper(2); }\nextern \"C\" void run_plugdev(int *p) { plugdev_kernel<<<1, 1>>>(p); }\n",
                ),
            ];
            for (name, text) in sources {
                std::fs::write(directory.join(format!("{name}.cu")), text).unwrap();
                let object = format!("{name}.o");
                must(Command::new(&nvcc).current_dir(&directory).args([
                    "-arch=sm_90",
                    "-Xcompiler",
                    "-fPIC",
                    "-dc",
                    &format!("{name}.cu"),
                    "-o",
                    &object,
                ]));
                must(Command::new("objcopy").current_dir(&directory).args(["-j", ".nv*", "-j", "__nv*", &object, &format!("{name}_nv.o")]));
            }
            std::fs::write(directory.join("done"), "").unwrap();
        }
        Some(Self(directory))
    }

    pub fn object(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A directory with plug.o, plugdev.o, and `L/libcore_nv.a` = {core, devfn}, device-only.
    pub fn scene(&self) -> Scratch {
        let scratch = Scratch::new();
        for name in ["plug.o", "plugdev.o"] {
            std::fs::copy(self.object(name), scratch.join(name)).unwrap();
        }
        self.archive(&scratch, "L/libcore_nv.a", &["core_nv.o", "devfn_nv.o"]);
        scratch
    }

    pub fn archive(&self, scratch: &Scratch, name: &str, objects: &[&str]) -> PathBuf {
        let path = scratch.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        must(Command::new("ar").arg("crs").arg(&path).args(objects.iter().map(|o| self.object(o))));
        path
    }
}

/// The fixtures, or a loud skip.
#[macro_export]
macro_rules! fixtures {
    () => {
        match support::Fixtures::get() {
            Some(fixtures) => fixtures,
            None => return,
        }
    };
}
