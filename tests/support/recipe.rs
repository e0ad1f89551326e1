//! What every build recipe must hold: the same set of files as without us, and a second build that does nothing.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use super::{SHIM, clean, must};

/// Every file below a directory, with the time of its last change.
pub type Files = BTreeMap<PathBuf, SystemTime>;

/// Reads the files of a directory tree.
pub fn files(root: &Path) -> Files {
    fn walk(root: &Path, at: &Path, files: &mut Files) {
        for entry in std::fs::read_dir(at).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                walk(root, &path, files);
            } else {
                files.insert(path.strip_prefix(root).unwrap().to_owned(), path.symlink_metadata().unwrap().modified().unwrap());
            }
        }
    }
    let mut files = Files::new();
    walk(root, root, &mut files);
    files
}

/// Asserts that two builds left files of the same names.
pub fn same_names(stock: &Files, ours: &Files) {
    assert_eq!(stock.keys().collect::<Vec<_>>(), ours.keys().collect::<Vec<_>>());
}

/// The files that only a compiler or linker writes.
pub fn products(files: &Files) -> Files {
    let product = |f: &PathBuf| f.extension().is_some_and(|e| ["o", "a", "so"].iter().any(|p| e == *p));
    files.iter().filter(|(f, _)| product(f)).map(|(f, t)| (f.clone(), *t)).collect()
}

/// A command with `dlink-shim` and the toolkit's programs on PATH, and none of our settings.
pub fn command(program: impl AsRef<std::ffi::OsStr>, nvcc: &Path) -> Command {
    let mut command = clean(Command::new(program));
    for name in ["NVCC", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS"] {
        command.env_remove(name);
    }
    let path = std::env::var("PATH").unwrap();
    let bin = |p: &Path| p.parent().unwrap().display().to_string();
    command.env("PATH", format!("{}:{}:{path}", bin(SHIM.as_ref()), bin(nvcc)));
    command
}

/// Builds the loader and the probe of `examples/quickstart` in `directory`.
pub fn probe(directory: &Path, cuda: &Path) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/quickstart");
    let mut gcc = Command::new("gcc");
    must(gcc.args(["-shared", "-fPIC", "-o", "probe.so"]).arg(sources.join("probe.c")).arg("-ldl").current_dir(directory));
    let mut loader = Command::new("g++");
    loader.arg(format!("-I{}/include", cuda.display())).arg(sources.join("loader.cpp")).args(["-o", "loader", "-Wl,--no-as-needed"]);
    must(loader.arg(format!("-L{}/lib64", cuda.display())).args(["-lcudart", "-ldl"]).current_dir(directory));
}

/// The lines of a recipe's file between ``` fences, less the fences: what its reader copies.
pub fn fenced(name: &str, nth: usize) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("wrapper-scripts").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let blocks: Vec<&str> = text.split("```").collect();
    let block = blocks.get(2 * nth + 1).unwrap_or_else(|| panic!("{name} has no block {nth}"));
    block.split_once('\n').unwrap().1.to_owned()
}
