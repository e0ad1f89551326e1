//! What is trusted: no shell, few programs, no path through places that everybody may change without a word, and dependencies under
//! known licences from one registry. (Temporary files: `faults_signals.rs`. Bytes that lie: `fuzz_bodies.rs` and `fuzz/`.)

mod support;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use dlink_shim::audit::image::{self, Looked};
use support::{StandIn, must, shim};

fn sources(at: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(at).unwrap().map(|e| e.unwrap().path()) {
        if entry.is_dir() { sources(&entry, into) } else { into.push(entry) }
    }
}

#[test]
fn no_shell_is_run_and_every_program_that_is_has_a_place_of_its_own() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut started = BTreeSet::new();
    for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "rs")) {
        let text = std::fs::read_to_string(file).unwrap();
        // Tests may run what they like.
        let text = text.split("#[cfg(test)]").next().unwrap();
        for call in text.split("Command::new(").skip(1) {
            let what = call.split(')').next().unwrap();
            started.insert(format!("{}: {what}", file.strip_prefix(&root).unwrap().display()));
        }
        for word in ["\"sh\"", "\"bash\"", "/bin/sh", "\"-c\".into", "libc::system", "posix_spawn", "execv"] {
            assert!(!text.contains(word), "{}: {word}", file.display());
        }
    }
    let known = [
        "archs/toolkit.rs: nvcc",
        "cli/commands/audit.rs: \"ldd\"",
        "doctor/commands.rs: \"ninja\"",
        "doctor/mod.rs: nvcc",
        "host_link/linker.rs: program",
        "launch.rs: &self.program",
    ];
    assert_eq!(started, known.map(str::to_owned).into(), "the README's section on security lists what is run");
}

#[test]
fn words_that_a_shell_would_obey_reach_nvcc_as_words() {
    let stand_in = StandIn::new();
    let words = ["-dlink", "$(touch pwned).o", "`touch pwned`", ";touch pwned", "|touch pwned", "-o", "a b\n.o", "*", "~"];
    assert_eq!(stand_in.run(stand_in.scratch.path(), &words).args, words);
    assert!(!stand_in.scratch.join("pwned").exists());
}

#[test]
fn a_path_through_a_place_that_everybody_may_change_is_spoken_of_and_still_taken() {
    let scene = fixtures!().scene();
    let link = ["-dlink", "plugdev.o", "-LL", "-lcore_nv", "-o", "dl.o"];
    let stand_in = StandIn::new();
    let run = |name: &str, value: &Path, words: &[&str]| {
        let mut command = shim();
        command.args(["nvcc"]).args(words).current_dir(scene.path()).env("DLINK_SHIM_NVCC", &stand_in.nvcc).env(name, value);
        let reached = stand_in.reached(command);
        assert!(reached.output.status.success(), "{}", reached.stderr());
        assert!(!reached.args.is_empty(), "nvcc did not run");
        reached.stderr()
    };
    let open = scene.join("open");
    let place = |mode: u32| {
        std::fs::create_dir_all(open.join("deep")).unwrap();
        std::fs::copy(&stand_in.nvcc, open.join("deep/nvcc")).unwrap();
        std::fs::set_permissions(&open, PermissionsExt::from_mode(mode)).unwrap();
    };
    let spoken = |name: &str, at: &Path| format!("dlink-shim: warning: {name} leads through {}, which every user", at.display());
    // Own directories, root's, and below a sticky one what is ours.
    for mode in [0o755, 0o775, 0o1777] {
        place(mode);
        assert_eq!(run("DLINK_SHIM_NVCC", &open.join("deep/nvcc"), &link), "", "{mode:o}");
        assert_eq!(run("DLINK_SHIM_REPORT", &open.join("report"), &link), "", "{mode:o}");
    }
    place(0o777);
    assert!(run("DLINK_SHIM_NVCC", &open.join("deep/nvcc"), &link).starts_with(&spoken("DLINK_SHIM_NVCC", &open)));
    assert!(run("DLINK_SHIM_REPORT", &open.join("report"), &link).starts_with(&spoken("DLINK_SHIM_REPORT", &open)));
    std::os::unix::fs::symlink(open.join("deep/nvcc"), scene.join("nvcc-link")).unwrap();
    assert!(run("DLINK_SHIM_NVCC", &scene.join("nvcc-link"), &link).starts_with(&spoken("DLINK_SHIM_NVCC", &open)));
    // Compilations stay silent: one word a build is enough, and theirs are many.
    assert_eq!(run("DLINK_SHIM_NVCC", &open.join("deep/nvcc"), &["-c", "x.cu"]), "");
    // The file itself.
    place(0o755);
    std::fs::set_permissions(open.join("deep/nvcc"), PermissionsExt::from_mode(0o757)).unwrap();
    assert!(run("DLINK_SHIM_NVCC", &open.join("deep/nvcc"), &link).starts_with(&spoken("DLINK_SHIM_NVCC", &open.join("deep/nvcc"))));
    let doctor = shim().arg("doctor").env("DLINK_SHIM_NVCC", open.join("deep/nvcc")).output().unwrap();
    assert_eq!(doctor.status.code(), Some(1));
    assert!(String::from_utf8(doctor.stdout).unwrap().contains("finding: DLINK_SHIM_NVCC leads through"));
}

#[test]
fn the_program_loads_no_library_but_libc() {
    // Each one is paid for by every call of nvcc, and is one more file that a build host may lack.
    let program = Path::new(env!("CARGO_BIN_EXE_dlink-shim"));
    let Looked::Image(image) = image::read(&std::fs::read(program).unwrap(), program).unwrap() else { panic!("no program") };
    let needed: Vec<String> = image.needed.iter().map(|n| String::from_utf8_lossy(n).into_owned()).collect();
    let of_libc = |n: &String| n.starts_with("libc.") || n.starts_with("ld-linux");
    assert!(needed.iter().all(of_libc), "{needed:?}");
}

#[test]
fn dependencies_come_from_one_registry_under_known_licences() {
    let words = ["metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu"];
    let text = must(Command::new(env!("CARGO")).args(words).current_dir(env!("CARGO_MANIFEST_DIR")));
    let metadata: serde_json::Value = serde_json::from_str(&text).unwrap();
    // The same list as in .deny.toml, which `cargo deny check` reads where that tool is installed.
    let deny = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(".deny.toml")).unwrap();
    let allowed: Vec<&str> = deny.split("allow = [").nth(1).unwrap().split(']').next().unwrap().split('"').skip(1).step_by(2).collect();
    assert!(allowed.contains(&"MIT"), "{allowed:?}");
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        if name == "dlink-shim" {
            continue;
        }
        let source = package["source"].as_str().unwrap_or_default();
        assert!(source.starts_with("registry+"), "{name} comes from {source:?}");
        // One of each pair of choices is enough; all of what is joined by AND.
        let licence = package["license"].as_str().unwrap_or_else(|| panic!("{name} names no licence"));
        let plain = licence.replace(['(', ')'], " ").replace('/', " OR ");
        let fine = plain.split(" AND ").all(|part| part.split(" OR ").any(|choice| allowed.contains(&choice.trim())));
        assert!(fine, "{name}: {licence}");
    }
}
