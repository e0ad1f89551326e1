//! Files and places that fail a device link.
//!
//! | what | what the caller sees |
//! |---|---|
//! | output: full device, no such directory, a directory | nvcc's words and code |
//! | temporary directory: not set, missing, a file, relative, with blanks or commas, read-only | the cure, by way of /tmp |
//! | temporary directory: full | a warning, the command as given, and then nvcc's own failure |
//! | archive: unreadable | one warning; the command as given |
//! | archive: replaced or truncated while it is read | nvcc's words and code, at most one warning |
//! | archive: 4 GiB, sparse | what is in it is found, in little memory |
//! | report: full, a directory, no such directory | one warning, the cure |
//! | stderr: full | the cure, nvcc's code |

mod support;

use std::collections::BTreeSet;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use proptest::prelude::RngExt;
use proptest::test_runner::{RngAlgorithm, TestRng};
use support::{SHIM, Scratch, StandIn, clean, must, shim, toolkit};

const CURED: [&str; 6] = ["-dlink", "plugdev.o", "-LL", "-lcore_nv", "-o", "out.o"];

fn text(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn warnings(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|l| l.starts_with("dlink-shim: ")).collect()
}

#[test]
fn an_output_that_can_not_be_written_fails_in_nvccs_words() {
    let Some(nvcc) = toolkit::nvcc("13.0") else { return };
    let scene = fixtures!().scene();
    std::fs::create_dir(scene.join("directory")).unwrap();
    for output in ["/dev/full", "/proc/out.o", "directory", "no/such/directory/out.o"] {
        for words in [&["-arch=sm_90", "-dlink", "plugdev.o", "-LL", "-lcore_nv"][..], &["-arch=sm_90", "-dlink", "-fatbin", "plug.o"]] {
            let run = |mut command: Command| {
                let temporary = scene.join("tmp");
                std::fs::create_dir_all(&temporary).unwrap();
                let output = command.args(words).args(["-o", output]).current_dir(scene.path()).env("TMPDIR", &temporary).output().unwrap();
                assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
                let (code, stdout, stderr) = text(&output);
                // The assembler's temporary name stands before what it says, and the size is that of another stub.
                let said = |l: &str| l.split_once(".s: ").map_or(l, |(_, rest)| rest).replace(|c: char| c.is_ascii_digit(), "");
                (code, stdout, stderr.lines().map(said).collect::<Vec<_>>())
            };
            let mut ours = shim();
            ours.arg(&nvcc);
            let plain = run(clean(Command::new(&nvcc)));
            assert_eq!(run(ours), plain, "{words:?} -o {output}");
            // To a full device even nvcc writes a fatbin without a word.
            assert!(plain.0 != Some(0) || words.contains(&"-fatbin"));
        }
    }
}

#[test]
fn any_temporary_directory_or_none_gives_the_cure() {
    let scene = fixtures!().scene();
    let stand_in = StandIn::new();
    let place = Scratch::new();
    place.write("file", "");
    for name in ["a b", "a,b", "plain"] {
        std::fs::create_dir(place.join(name)).unwrap();
    }
    let path = |name: &str| Some(place.join(name).into_os_string());
    for value in [None, Some("".into()), Some("relative".into()), path("missing"), path("file"), path("a b"), path("a,b"), path("plain")] {
        let reached = stand_in.run_with(scene.path(), &CURED, |command| {
            match &value {
                Some(value) => command.env("TMPDIR", value),
                None => command.env_remove("TMPDIR"),
            };
        });
        let line = reached.args.iter().map(|a| a.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
        assert!(line.contains("-Xcompiler -include,/") && reached.stderr().is_empty(), "{value:?}: {line} {}", reached.stderr());
        let used = value.as_ref().is_some_and(|v| !v.is_empty() && line.contains(&v.to_string_lossy().into_owned()));
        assert_eq!(used, value == path("plain"), "{value:?}: {line}");
    }
    for name in ["a b", "a,b", "plain"] {
        assert_eq!(std::fs::read_dir(place.join(name)).unwrap().count(), 0);
    }
}

#[test]
fn a_full_temporary_directory_is_a_warning_and_the_command_as_given() {
    let scene = fixtures!().scene();
    let stand_in = StandIn::new();
    std::fs::create_dir(scene.join("small")).unwrap();
    // A file system of our own, in a mount name space of our own.
    let script = "mount -t tmpfs -o size=4k none small && head -c 4096 /dev/zero > small/filler && exec \"$@\"";
    let mut probe = Command::new("unshare");
    probe.args(["-m", "sh", "-c", script, "sh", "true"]).current_dir(scene.path());
    if !toolkit::has("unshare") || !probe.output().unwrap().status.success() {
        // Not every machine that runs the tests lets them mount; there is no program to ask for.
        eprintln!("\n*** SKIPPED: no tmpfs can be mounted here\n");
        return;
    }
    let mut command = clean(Command::new("unshare"));
    command.args(["-m", "sh", "-c", script, "sh", SHIM]).arg(&stand_in.nvcc).args(CURED);
    command.current_dir(scene.path()).env("TMPDIR", scene.join("small"));
    let reached = stand_in.reached(command);
    assert_eq!(reached.args, CURED);
    let stderr = reached.stderr();
    assert_eq!(warnings(&stderr).len(), 1, "{stderr}");
    assert!(stderr.contains("can't write a temporary file: No space left on device") && stderr.contains("as it was given"), "{stderr}");
}

/// A command run by nobody, for whom file modes count.
fn as_nobody(program: &Path) -> Option<Command> {
    if !rustix::process::geteuid().is_root() {
        return Some(clean(Command::new(program)));
    }
    let mut command = clean(Command::new("setpriv"));
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
    toolkit::has("setpriv").then_some(command)
}

#[test]
fn an_unreadable_archive_and_a_read_only_temporary_directory() {
    let scene = fixtures!().scene();
    let stand_in = StandIn::new();
    let open = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    let program = scene.join("dlink-shim");
    support::install(SHIM, &program);
    std::fs::create_dir(scene.join("read-only")).unwrap();
    open(&scene.join("read-only"), 0o555);
    for place in [scene.path(), stand_in.scratch.path()] {
        open(place, 0o755);
    }
    for (mode, args) in [(0o000, CURED.map(String::from).to_vec()), (0o444, Vec::new())] {
        open(&scene.join("L/libcore_nv.a"), mode);
        let Some(mut command) = as_nobody(&program) else { return };
        command.arg(&stand_in.nvcc).args(CURED).current_dir(scene.path()).env("TMPDIR", scene.join("read-only"));
        // The stand-in writes its notes as nobody, too.
        std::fs::create_dir_all(stand_in.scratch.join("notes")).unwrap();
        open(&stand_in.scratch.join("notes"), 0o777);
        let output = support::output(command.env("STAND_IN_OUT", stand_in.scratch.join("notes")));
        let (code, _, stderr) = text(&output);
        let notes = std::fs::read(stand_in.scratch.join("notes/args")).unwrap();
        let words: Vec<String> = notes.split(|&b| b == 0).skip(1).map(|w| String::from_utf8_lossy(w).into_owned()).collect();
        assert_eq!(code, Some(0), "{stderr}");
        if mode == 0 {
            assert!(words.starts_with(&args) && !words.iter().any(|w| w.contains("-include")), "{words:?}");
            assert_eq!(warnings(&stderr).len(), 1, "{stderr}");
            assert!(stderr.contains("core_nv: left as it is") && stderr.contains("Permission denied"), "{stderr}");
        } else {
            assert!(words.iter().any(|w| w.starts_with("-include,/tmp/") || w.starts_with("-include,/var/tmp/")), "{words:?}");
            assert_eq!(stderr, "");
        }
    }
}

#[test]
fn an_archive_replaced_or_truncated_while_it_is_read_never_ends_the_command() {
    let scene = fixtures!().scene();
    let nvcc = scene.executable("bin/nvcc", "#!/bin/sh\nexit 7\n");
    // Large enough for the changes to come in between.
    let object = std::fs::read(fixtures!().object("core_nv.o")).unwrap();
    let names: Vec<String> = (0..400).map(|i| format!("m{i}.o")).collect();
    names.iter().for_each(|name| drop(scene.write(name, &object)));
    must(Command::new("ar").args(["crs", "whole.a"]).args(&names).current_dir(scene.path()));
    let whole = std::fs::read(scene.join("whole.a")).unwrap();
    let path = scene.join("L/libcore_nv.a");
    let mut random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut outcomes = BTreeSet::new();
    for turn in 0..150 {
        scene.write("L/libcore_nv.a", &whole);
        scene.write("new.a", &whole[..whole.len() / 3]);
        let mut command = shim();
        command.arg(&nvcc).args(CURED).current_dir(scene.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        // At any moment of its life; under a memory map, dozens of these turns end in SIGBUS.
        let moment = Instant::now() + Duration::from_micros(random.random_range(0..40_000));
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        if turn % 5 == 0 {
            std::fs::rename(scene.join("new.a"), &path).unwrap();
        } else {
            std::fs::File::options().write(true).open(&path).unwrap().set_len(random.random_range(0..20_000)).unwrap();
        }
        let output = child.wait_with_output().unwrap();
        let (code, stdout, stderr) = text(&output);
        assert!(code == Some(7) && stdout.is_empty() && warnings(&stderr).len() == stderr.lines().count(), "{output:?}");
        assert!(stderr.lines().count() <= 1, "{stderr}");
        outcomes.insert(stderr.is_empty());
    }
    assert_eq!(outcomes.len(), 2, "all turns ended alike: the changes came too early or too late");
}

#[test]
fn four_sparse_gibibytes_in_an_archive_are_passed_over_in_little_memory() {
    let scene = fixtures!().scene();
    let stand_in = StandIn::new();
    let unit = std::fs::read(fixtures!().object("core_nv.o")).unwrap();
    let path = scene.join("L/libcore_nv.a");
    let mut file = std::fs::File::create(&path).unwrap();
    let size = (4u64 << 30) + 2;
    let header = |name: &str, size: u64| format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, 644);
    write!(file, "!<arch>\n{}", header("large.txt/", size)).unwrap();
    file.seek(SeekFrom::Current(size as i64)).unwrap();
    write!(file, "{}", header("core_nv.o/", unit.len() as u64)).unwrap();
    file.write_all(&unit).unwrap();
    let limited = |words: &[&str]| {
        let mut command = clean(Command::new("sh"));
        command.args(["-c", "ulimit -v 65536; exec \"$@\"", "sh", SHIM]).arg(&stand_in.nvcc).args(words).current_dir(scene.path());
        stand_in.reached(command)
    };
    let reached = limited(&["-dlink", "plug.o", "-LL", "-lcore_nv"]);
    assert_eq!((reached.line().as_str(), reached.stderr().as_str()), ("-dlink plug.o -LL", ""));
    // An object whose section table says that everything is one large id section.
    let mut object = unit.clone();
    let sections = u64::from_le_bytes(object[0x28..0x30].try_into().unwrap()) as usize;
    let count = u16::from_le_bytes(object[0x3c..0x3e].try_into().unwrap()) as usize;
    for section in 1..count {
        object[sections + 64 * section + 0x20..][..8].copy_from_slice(&(4u64 << 30).to_le_bytes());
    }
    let path = scene.write("huge.o", &object);
    std::fs::File::options().write(true).open(path).unwrap().set_len((4 << 30) + (1 << 20)).unwrap();
    let reached = limited(&["-dlink", "plug.o", "huge.o"]);
    assert_eq!(reached.line(), "-dlink plug.o huge.o");
    assert_eq!(warnings(&reached.stderr()).len(), 1, "{}", reached.stderr());
}

#[test]
fn a_report_or_stderr_that_takes_nothing_costs_no_cure() {
    let scene = fixtures!().scene();
    let stand_in = StandIn::new();
    std::fs::create_dir(scene.join("directory")).unwrap();
    for report in ["/dev/full", "directory", "no/such/directory/report.jsonl", "/proc/report.jsonl"] {
        let reached = stand_in.run_with(scene.path(), &CURED, |c| {
            c.env("DLINK_SHIM_REPORT", report);
        });
        assert!(reached.line().contains("-include,"), "{report}: {}", reached.line());
        let stderr = reached.stderr();
        assert_eq!((warnings(&stderr).len(), stderr.lines().count()), (1, 1), "{report}: {stderr}");
        assert!(stderr.contains(&format!("can't write the report {report}")), "{stderr}");
    }
    // `reached` captures stderr, so a shell gives it away first.
    let mut outer = clean(Command::new("sh"));
    outer.args(["-c", "exec \"$@\" 2> /dev/full", "sh", SHIM]).arg(&stand_in.nvcc).args(CURED).current_dir(scene.path());
    outer.env("DLINK_SHIM_REPORT", "directory").env("STAND_IN_RC", "9");
    let reached = stand_in.reached(outer);
    assert!(reached.line().contains("-include,"));
    assert_eq!(reached.output.status.code(), Some(9));
}
