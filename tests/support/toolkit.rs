//! Real toolkits, fetched by need into `target/cuda-toolkits`.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

pub const VERSIONS: [&str; 4] = ["11.8", "12.4", "13.0", "13.5"];

pub fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target"), PathBuf::from);
    std::fs::create_dir_all(&target).unwrap();
    target
}

/// Held by one test process at a time.
pub fn lock(name: &str) -> std::fs::File {
    let file = std::fs::File::create(target().join(format!(".{name}.lock"))).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    file
}

/// nvcc of that version. Without one the test says so and is skipped; with `DLINK_SHIM_REQUIRE_CUDA=1` it fails.
pub fn nvcc(version: &str) -> Option<PathBuf> {
    let _lock = lock(&format!("toolkit-{version}"));
    let directory = target().join("cuda-toolkits").join(version);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/fetch-toolkit.py");
    let output = Command::new("python3").arg(script).arg(version).arg(&directory).output();
    let why = match output {
        Ok(output) if output.status.success() => return Some(directory.join("bin/nvcc")),
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    skip(&format!("no nvcc {version} can be had on this machine: {why}"));
    None
}

/// A directory with files out of a PyPI wheel, fetched by need; the same rule when it can't be had.
pub fn wheel(requirement: &str, patterns: &[&str]) -> Option<PathBuf> {
    let name: String = requirement.chars().map(|c| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '-' }).collect();
    let _lock = lock(&format!("wheel-{name}"));
    let directory = target().join("wheels").join(name);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/fetch-wheel.py");
    let output = Command::new("python3").arg(script).arg(requirement).arg(&directory).args(patterns).output();
    let why = match output {
        Ok(output) if output.status.success() => return Some(directory),
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    skip(&format!("{requirement} can't be had on this machine: {why}"));
    None
}

/// Whether a program (a linker, a compiler, make) is there; the same rule when it is not.
pub fn has(program: &str) -> bool {
    let found = which::which(program).is_ok();
    if !found {
        skip(&format!("{program} is not installed"));
    }
    found
}

/// Says that something is missing: a loud skip, or a failure under `DLINK_SHIM_REQUIRE_CUDA=1`.
pub fn missing<T>(message: &str) -> Option<T> {
    skip(message);
    None
}

fn skip(message: &str) {
    assert!(std::env::var_os("DLINK_SHIM_REQUIRE_CUDA").is_none_or(|v| v != "1"), "{message}");
    // Past the test harness, which keeps what a passing test prints.
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "\n*** SKIPPED: {message}\n");
}

/// The words that nvcc of this version needs beside others on Debian 12.
pub fn flags(version: &str) -> &'static [&'static str] {
    if version == "11.8" { &["-allow-unsupported-compiler"] } else { &[] }
}
