//! `dlink-shim audit` as a command: what it takes, what it prints, how it ends.

mod support;

use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, Weak};

use serde_json::Value;
use support::{SHIM, Scratch, must, toolkit};

/// Layouts, stock and through the shim, stripped; built once for the tests that run at a time.
fn built() -> Option<Arc<Scratch>> {
    static BUILT: Mutex<Weak<Scratch>> = Mutex::new(Weak::new());
    let mut built = BUILT.lock().unwrap();
    if let Some(scratch) = built.upgrade() {
        return Some(scratch);
    }
    let nvcc = toolkit::nvcc("13.0")?;
    let scratch = Arc::new(Scratch::new());
    let mut command = support::clean(Command::new("python3"));
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/layouts/layouts.py")).arg("--nvcc").arg(nvcc);
    command.args(["--shim", SHIM, "--variants", "stripped", "--layouts", "L1,L3,L5,L5-back,L6,L7", "--out"]).arg(scratch.path());
    must(&mut command);
    *built = Arc::downgrade(&scratch);
    Some(scratch)
}

fn audit(directory: &Path, words: &[&str]) -> (Output, String) {
    let output = support::shim().arg("audit").args(words).current_dir(directory).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

#[test]
fn a_starving_library_is_named_with_its_kernels_its_cause_and_its_cure() {
    let Some(scratch) = built() else { return };
    let (output, text) = audit(scratch.path(), &["L1-bfd-stripped-00"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    for part in ["libfirst.so: does not register", "p1_kernel(int*)", "p2_kernel(int*)", "_4_s_cu_", "rebuild libfirst.so and libsecond.so"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Neither escape sequences nor progress reach a pipe.
    assert!(output.stderr.is_empty(), "{output:?}");
    assert!(audit(scratch.path(), &["--raw", "L1-bfd-stripped-00"]).1.contains("_Z9p1_kernelPi"));
    let (output, text) = audit(scratch.path(), &["--json", "L1-bfd-stripped-00"]);
    assert_eq!(output.status.code(), Some(1));
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["findings"].as_array().unwrap().len(), 2);
    assert_eq!(json["findings"][0]["kind"], "starved-in-some-orders");
    assert_eq!(json["findings"][0]["lost_kernels"][0]["name"], "_Z9p1_kernelPi");
    let (output, text) = audit(scratch.path(), &["L1-bfd-stripped-11"]);
    assert_eq!((output.status.code(), text.contains("no stub starves")), (Some(0), true), "{text}");
}

#[test]
fn two_builds_of_the_same_libraries_do_not_starve_each_other() {
    let Some(scratch) = built() else { return };
    let (output, text) = audit(scratch.path(), &["L1-bfd-stripped-11", "L3-bfd-stripped-11"]);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let (output, text) = audit(scratch.path(), &["L1-bfd-stripped-11", "L1-bfd-stripped-00"]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.ends_with("2 finding(s)\n") && !text.contains("L1-bfd-stripped-11/"), "{text}");
}

#[test]
fn a_plugin_alone_waits_for_what_nobody_registers() {
    let Some(scratch) = built() else { return };
    let (output, text) = audit(&scratch.join("L1-bfd-stripped-00"), &["libfirst.so"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("its registrar is in none of these images"), "{text}");
}

#[test]
fn a_program_is_looked_at_with_what_it_loads_in_its_order() {
    let Some(scratch) = built() else { return };
    let (output, text) = audit(&scratch.join("L7-bfd-stripped-00"), &["--ldd", "program"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text.contains("libfirst.so: never registers its kernels in program") && text.contains("rebuild program"), "{text}");
    for (directory, words) in [
        ("L7-bfd-stripped-11", ["--ldd", "program"]),
        ("L6-bfd-stripped-00", ["--ldd", "./program"]),
        ("L5-bfd-stripped-00", ["--ldd", "libfinal.so"]),
    ] {
        let (output, text) = audit(&scratch.join(directory), &words);
        assert_eq!(output.status.code(), Some(0), "{directory}: {text} {output:?}");
    }
    let (output, _) = audit(scratch.path(), &["--ldd", "nowhere"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn an_image_that_counts_on_another_is_a_note_and_no_finding() {
    let Some(scratch) = built() else { return };
    for directory in ["L5-bfd-stripped-00", "L5-back-bfd-stripped-00"] {
        let (output, text) = audit(scratch.path(), &[directory]);
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(text.contains("note: ") && text.contains("they register with the stub of libfinal.so"), "{text}");
    }
    // Named alone (twice is once), its counterpart is missing.
    let (output, text) = audit(&scratch.join("L5-bfd-stripped-00"), &["libmid.so", "libmid.so"]);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("an image that is not among these files"), "{text}");
}

#[test]
fn what_cannot_be_looked_at_ends_with_2_and_the_rest_is_shown() {
    let scratch = Scratch::new();
    scratch.write("d/readme.txt", "no library at all, and long enough to have room for an ELF header, if it were one");
    let (output, text) = audit(scratch.path(), &["d"]);
    assert_eq!((output.status.code(), output.stderr.is_empty()), (Some(0), true), "{text}{output:?}");
    let mut elf = std::fs::read(SHIM).unwrap();
    elf.truncate(elf.len() / 2);
    scratch.write("d/cut.so", elf);
    for words in [["d", "d"], ["d/cut.so", "d"], ["nowhere", "d"], ["d/readme.txt", "d"]] {
        let (output, text) = audit(scratch.path(), &words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(text.contains("files looked at"), "{text}");
        let lines = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(lines.lines().all(|l| l.starts_with("dlink-shim: error: ")) && !lines.is_empty(), "{lines}");
    }
}
