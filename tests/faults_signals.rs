//! Signals at every step of a device link that needs temporary files.
//!
//! | step | signal | what the caller sees |
//! |---|---|---|
//! | before nvcc runs | HUP, INT, QUIT, TERM | death by that signal, no temporary file |
//! | while nvcc runs | HUP, INT, QUIT, TERM | nvcc gets it; then nvcc's end (code or signal), no temporary file |
//! | while nvcc runs | KILL | death by KILL; nvcc ends its work alone, as its own tools do then; a private directory stays in TMPDIR |
//! | after nvcc's end | TERM | nvcc's end |
//! | any, ignored by the caller (`nohup`, `&`) | HUP, INT, QUIT, TERM | ignored by us and by nvcc, as without us |

mod support;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::fs::FlockOperation;
use support::{SHIM, Scratch, shim};

const ENDING: [(&str, i32); 4] = [("HUP", 1), ("INT", 2), ("QUIT", 3), ("TERM", 15)];

/// A device link that needs a mask and a guard, with a stand-in for nvcc.
struct Link {
    scene: Scratch,
    temporary: PathBuf,
    nvcc: PathBuf,
}

impl Link {
    fn new(script: &str) -> Option<Self> {
        let scene = support::Fixtures::get()?.scene();
        let nvcc = scene.executable("bin/nvcc", &format!("#!/bin/sh\n{script}"));
        let temporary = scene.join("tmp");
        std::fs::create_dir(&temporary).unwrap();
        support::must(Command::new("mkfifo").arg(scene.join("block")));
        Some(Self { scene, temporary, nvcc })
    }

    /// The words of the command.
    fn words(&self) -> Vec<String> {
        let mut words = vec![SHIM.to_owned(), self.nvcc.display().to_string()];
        words.extend("-dlink plugdev.o -LL -lcore_nv -o out.o".split(' ').map(str::to_owned));
        words
    }

    fn set(&self, command: &mut Command) {
        command.current_dir(self.scene.path()).env("TMPDIR", &self.temporary).stdout(Stdio::piped());
    }

    fn start(&self, set: impl FnOnce(&mut Command)) -> (Child, BufReader<std::process::ChildStdout>) {
        let mut command = shim();
        command.args(&self.words()[1..]);
        self.set(&mut command);
        set(&mut command);
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        (child, out)
    }

    fn left_behind(&self) -> Vec<PathBuf> {
        std::fs::read_dir(&self.temporary).unwrap().map(|e| e.unwrap().path()).collect()
    }
}

fn kill(name: &str, child: &Child) {
    support::must(Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()));
}

fn line(out: &mut impl BufRead) -> String {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    line
}

fn end(mut child: Child, out: &mut impl Read) -> (ExitStatus, String) {
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    (child.wait().unwrap(), rest)
}

#[test]
fn before_nvcc_runs_a_signal_ends_the_command_and_nothing_stays() {
    for (name, number) in ENDING {
        let Some(link) = Link::new("read -r x < block") else { return };
        // The report's lock is held, so that the command waits for it with its temporary files made.
        let report = link.scene.write("report.jsonl", "");
        let held = std::fs::File::open(&report).unwrap();
        rustix::fs::flock(&held, FlockOperation::LockExclusive).unwrap();
        let (mut child, mut out) = link.start(|c| {
            c.env("DLINK_SHIM_REPORT", &report);
        });
        while link.left_behind().is_empty() {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it made a temporary file");
            std::thread::yield_now();
        }
        kill(name, &child);
        drop(held);
        // Should it have lost patience with the lock, nvcc runs, blocked, and gets the signal.
        let (status, _) = end(child, &mut out);
        assert_eq!(status.signal(), Some(number), "{name}");
        assert_eq!(link.left_behind(), Vec::<PathBuf>::new(), "{name}");
    }
}

#[test]
fn while_nvcc_runs_a_signal_reaches_it_and_its_end_is_ours() {
    for (name, number) in ENDING {
        for (answer, code, signal) in [("trap - NAME; kill -NAME $$", None, Some(number)), ("exit 5", Some(5), None)] {
            let script = format!("trap 'echo got; {answer}' NAME\necho ready\nwhile :; do read -r x < block; done\n").replace("NAME", name);
            let Some(link) = Link::new(&script) else { return };
            let (child, mut out) = link.start(|_| {});
            assert_eq!(line(&mut out), "ready\n");
            assert_eq!(link.left_behind().len(), 1);
            kill(name, &child);
            let (status, rest) = end(child, &mut out);
            assert_eq!((rest.as_str(), status.code(), status.signal()), ("got\n", code, signal), "{name}");
            assert_eq!(link.left_behind(), Vec::<PathBuf>::new(), "{name}");
        }
    }
}

#[test]
fn sigkill_leaves_nvcc_to_its_work_and_one_private_directory() {
    let Some(link) = Link::new("echo ready\nread -r x < block\necho done > out.o\n") else { return };
    let (mut child, mut out) = link.start(|_| {});
    assert_eq!(line(&mut out), "ready\n");
    kill("KILL", &child);
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    std::fs::write(link.scene.join("block"), "go\n").unwrap();
    // The pipe ends with nvcc.
    assert_eq!(line(&mut out), "");
    assert_eq!(std::fs::read_to_string(link.scene.join("out.o")).unwrap(), "done\n");
    let left = link.left_behind();
    assert_eq!(left.len(), 1);
    assert_eq!(std::fs::metadata(&left[0]).unwrap().permissions().mode() & 0o7777, 0o700);
    for file in std::fs::read_dir(&left[0]).unwrap().map(Result::unwrap) {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, 0o600, "{file:?}");
    }
}

#[test]
fn after_nvccs_end_a_signal_changes_nothing() {
    // The last thing that nvcc does is to send the signal: it may meet nvcc's last breath, which is then nvcc's end.
    let Some(link) = Link::new("echo done > out.o\nkill -TERM $PPID\nexit 0\n") else { return };
    for _ in 0..20 {
        let (child, mut out) = link.start(|_| {});
        let (status, _) = end(child, &mut out);
        assert!(status.success() || status.signal() == Some(15), "{status:?}");
        assert_eq!(std::fs::read_to_string(link.scene.join("out.o")).unwrap(), "done\n");
        assert_eq!(link.left_behind(), Vec::<PathBuf>::new());
    }
}

#[test]
fn signals_that_the_caller_ignores_stay_ignored_for_nvcc() {
    let Some(link) = Link::new("grep SigIgn /proc/self/status\nls \"$TMPDIR\" | wc -l\n") else { return };
    let run = |ignored: &str, through: bool, words: &[&str]| {
        let mut command = support::clean(Command::new("sh"));
        command.args(["-c", &format!("trap '' {ignored}; exec \"$@\""), "sh"]);
        command.args(through.then_some(SHIM)).arg(&link.nvcc).args(words);
        link.set(&mut command);
        support::must(&mut command)
    };
    let cured = ["-dlink", "plugdev.o", "-LL", "-lcore_nv"];
    for ignored in ["INT", "HUP", "QUIT", "TERM", "INT QUIT", "HUP INT QUIT TERM", "USR1"] {
        for words in [&["-c", "x.cu"][..], &cured[..]] {
            let (plain, ours) = (run(ignored, false, words), run(ignored, true, words));
            assert_eq!(ours.lines().next(), plain.lines().next(), "{ignored} {words:?}");
            assert_eq!(ours.lines().nth(1), Some(if words.len() > 2 { "1" } else { "0" }), "{words:?}: temporary directories");
        }
    }
}

#[test]
fn a_background_link_outlives_the_interrupt_of_its_script() {
    // What `&` does in a script: the shell ignores SIGINT for its background children.
    let Some(link) = Link::new("echo ready\nread -r x < block\necho end\n") else { return };
    let mut command = support::clean(Command::new("sh"));
    command.args(["-c", "trap '' INT; exec \"$@\"", "sh"]).args(link.words());
    link.set(&mut command);
    let mut child = command.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(line(&mut out), "ready\n");
    kill("INT", &child);
    std::fs::write(link.scene.join("block"), "go\n").unwrap();
    let (status, rest) = end(child, &mut out);
    assert_eq!((status.code(), rest.as_str()), (Some(0), "end\n"));
}
