//! Tools and packages from PyPI, fetched by need into `target/python`.
#![allow(dead_code)]

use std::path::PathBuf;
use std::process::Command;

use super::toolkit;

/// Packages installed into one directory of that name, their programs in its `bin`. Without them the test says so and is
/// skipped, as without a toolkit.
pub fn packages(name: &str, wanted: &[&str]) -> Option<PathBuf> {
    fetch(name, &["install", "--quiet", "--target"], wanted)
}

/// The files of PyPI's torch that `torch.utils.cpp_extension` needs, for a toolkit of this version; see `torch-python.py`.
pub fn torch(cuda: &str) -> Option<PathBuf> {
    // 140 MB once; Linux' own wheel is six times that.
    let how =
        ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--platform=macosx_14_0_arm64", "--python-version=3.12", "--dest"];
    let wheels = fetch("torch-wheel", &how, &["torch==2.15.0"])?;
    let _lock = toolkit::lock("python-torch");
    let directory = toolkit::target().join("python").join(format!("torch-{cuda}"));
    let wheel = std::fs::read_dir(wheels).unwrap().map(|e| e.unwrap().path()).find(|p| p.extension().is_some_and(|e| e == "whl")).unwrap();
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/torch-python.py");
    super::must(Command::new("python3").arg(script).arg(wheel).arg(&directory).arg(cuda));
    Some(directory)
}

fn fetch(name: &str, how: &[&str], wanted: &[&str]) -> Option<PathBuf> {
    let _lock = toolkit::lock(&format!("python-{name}"));
    let directory = toolkit::target().join("python").join(name);
    // Named after what is in it, so that other versions are fetched anew.
    let done = directory.join(format!("{}.done", wanted.join("+").replace(['/', ' '], "-")));
    if done.exists() {
        return Some(directory);
    }
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(directory.parent().unwrap()).unwrap();
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "--disable-pip-version-check"]).args(how).arg(&directory).args(wanted).env("PIP_ROOT_USER_ACTION", "ignore");
    match pip.output() {
        Ok(output) if output.status.success() => {
            std::fs::write(done, "").unwrap();
            Some(directory)
        }
        Ok(output) => toolkit::missing(&format!("{wanted:?} can't be had: {}", String::from_utf8_lossy(&output.stderr))),
        Err(error) => toolkit::missing(&format!("python3: {error}")),
    }
}

/// A command that finds the packages and their programs first.
pub fn with(directory: &std::path::Path, mut command: Command) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PYTHONPATH", directory).env("PATH", format!("{}:{path}", directory.join("bin").display()));
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}
