//! Loads built libraries under the registration probe.
#![allow(dead_code)]

use std::path::Path;
use std::process::Command;

/// What registered.
#[derive(Debug, Default)]
pub struct Registered {
    /// (image, kernel) in order.
    pub kernels: Vec<(String, String)>,
    /// Images that registered a fatbin, in order.
    pub fatbins: Vec<String>,
    /// The loader's exit status and words.
    pub ok: bool,
    pub stdout: String,
    pub stderr: String,
}

impl Registered {
    /// How often a kernel with this in its mangled name registered.
    pub fn times(&self, kernel: &str) -> usize {
        self.kernels.iter().filter(|(_, k)| k.contains(kernel)).count()
    }
}

/// Runs `directory/loader` with `words` under `directory/probe.so`.
pub fn load(directory: &Path, cuda: &Path, words: &[&str]) -> Registered {
    run(directory, cuda, &directory.join("loader"), words)
}

/// Runs any program under the probe.
pub fn run(directory: &Path, cuda: &Path, program: &Path, words: &[&str]) -> Registered {
    let log = directory.join("probe.log");
    let _ = std::fs::remove_file(&log);
    let output = Command::new(program)
        .args(words)
        .current_dir(directory)
        .env("LD_PRELOAD", directory.join("probe.so"))
        .env("LD_LIBRARY_PATH", format!("{}:{}/lib64", directory.display(), cuda.display()))
        .env("PROBE_LOG", &log)
        .output()
        .unwrap();
    let mut registered = Registered {
        ok: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        ..Registered::default()
    };
    for line in std::fs::read_to_string(&log).unwrap_or_default().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["fatbin", image] => registered.fatbins.push(image.into()),
            ["kernel", image, name] => registered.kernels.push((image.into(), name.into())),
            _ => panic!("{line}"),
        }
    }
    registered
}
