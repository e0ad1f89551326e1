//! Builds with 500 device links at a time, run to their end and interrupted: no line of the report is lost or mixed with another,
//! and no temporary file stays. nvcc is a stand-in here, but for one build of 40 links, since 500 real ones take minutes.

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use proptest::prelude::RngExt;
use proptest::test_runner::{RngAlgorithm, TestRng};
use serde_json::Value;
use support::{SHIM, Scratch, clean, toolkit};

const LINKS: usize = 500;

/// Ends in 9 if a temporary file that its words name is not there.
const STAND_IN: &str = r#"#!/bin/sh
for word; do case $word in *dlink-shim-*/*) [ -r "${word#-include,}" ] || { echo "lost $word" >&2; exit 9; };; esac; done
while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done
echo "links $out"
: > "$out"
"#;

/// A project whose even links need a mask and a guard, so temporary files, and whose odd ones have an option that nobody knows.
struct Project {
    scene: Scratch,
    report: PathBuf,
    temporary: PathBuf,
}

impl Project {
    fn new(nvcc: Option<&Path>, links: usize) -> Option<Self> {
        let scene = support::Fixtures::get()?.scene();
        let stand_in = scene.executable("bin/nvcc", STAND_IN);
        let command = |i: usize| {
            let odd = if i % 2 == 1 && nvcc.is_none() { " --frobnicate" } else { "" };
            let nvcc = nvcc.unwrap_or(&stand_in).display();
            format!("{SHIM} {nvcc} -arch=sm_90 -dlink plugdev.o -LL -lcore_nv{odd} -o out/{i}.o")
        };
        let all: Vec<String> = (0..links).map(|i| format!("out/{i}.o")).collect();
        let mut make = format!("all: {}\n", all.join(" "));
        let mut ninja = String::new();
        for (i, output) in all.iter().enumerate() {
            make += &format!("{output}:\n\t@{}\n", command(i));
            ninja += &format!("rule r{i}\n  command = {}\nbuild {output}: r{i}\n", command(i));
        }
        scene.write("Makefile", make);
        scene.write("build.ninja", ninja);
        Some(Self { report: scene.join("report.jsonl"), temporary: scene.join("tmp"), scene })
    }

    /// Starts the build from scratch, in a process group of its own; with it, a reader that ends when the last process has.
    fn start(&self, tool: &str) -> (Child, std::io::PipeReader) {
        for directory in [&self.scene.join("out"), &self.temporary] {
            let _ = std::fs::remove_dir_all(directory);
            std::fs::create_dir(directory).unwrap();
        }
        let _ = std::fs::remove_file(&self.report);
        let (alive, end) = std::io::pipe().unwrap();
        let mut command = clean(Command::new("sh"));
        // Descriptor 9, since ninja gives its children others for the first three.
        command.args(["-c", "exec \"$@\" 9>&0 </dev/null", "sh", tool, "-j8"]).current_dir(self.scene.path());
        command.env("DLINK_SHIM_REPORT", &self.report).env("TMPDIR", &self.temporary).env_remove("MAKEFLAGS");
        command.process_group(0).stdin(end).stdout(Stdio::piped()).stderr(Stdio::piped());
        (command.spawn().unwrap(), alive)
    }

    /// The outputs of the report's lines, each of which must be whole.
    fn reported(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.report).unwrap_or_default();
        assert!(text.is_empty() || text.ends_with('\n'));
        let line = |l: &str| serde_json::from_str::<Value>(l).unwrap_or_else(|e| panic!("{e}: {l}"));
        text.lines().map(|l| line(l)["output"].as_str().unwrap().to_owned()).collect()
    }

    fn made(&self) -> BTreeSet<String> {
        let entries = std::fs::read_dir(self.scene.join("out")).unwrap();
        entries.map(|e| format!("out/{}", e.unwrap().file_name().into_string().unwrap())).collect()
    }

    fn left_behind(&self) -> Vec<PathBuf> {
        std::fs::read_dir(&self.temporary).unwrap().map(|e| e.unwrap().path()).collect()
    }

    /// Runs to the end and checks everything; what came on both outputs.
    fn completes(&self, tool: &str, links: usize) -> (String, String) {
        let (child, _alive) = self.start(tool);
        let output = child.wait_with_output().unwrap();
        let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success(), "{out}{err}");
        let lines = self.reported();
        assert_eq!(lines.len(), links);
        let lines: BTreeSet<String> = lines.into_iter().collect();
        assert_eq!((lines.len(), &lines), (links, &self.made()));
        assert_eq!(self.left_behind(), Vec::<PathBuf>::new());
        (out, err)
    }
}

/// Its words in each device link whose option nobody knows.
const WARNING: &str = "dlink-shim: warning: device link not looked at: option `--frobnicate` is not known to dlink-shim";

#[test]
fn five_hundred_links_by_make_and_ninja_lose_and_mix_nothing() {
    let Some(project) = Project::new(None, LINKS) else { return };
    for tool in ["make", "ninja"] {
        if !toolkit::has(tool) {
            return;
        }
        let (out, err) = project.completes(tool, LINKS);
        // ninja puts what its commands say on stdout.
        let all: Vec<&str> = out.lines().chain(err.lines()).collect();
        let warnings = all.iter().filter(|l| l.contains("warning")).count();
        assert_eq!(all.iter().filter(|l| **l == WARNING).count(), LINKS / 2, "{tool}: {warnings} lines with a warning in them");
        assert_eq!(all.iter().filter(|l| l.starts_with("links out/") && l.ends_with(".o")).count(), LINKS);
    }
}

#[test]
fn forty_links_by_the_real_nvcc_lose_nothing() {
    let Some(nvcc) = toolkit::nvcc("13.0") else { return };
    let Some(project) = Project::new(Some(&nvcc), 40) else { return };
    if toolkit::has("make") {
        let (out, err) = project.completes("make", 40);
        assert_eq!((out.as_str(), err.as_str()), ("", ""));
    }
}

#[test]
fn fifty_interrupted_builds_leave_no_file_and_lose_no_line() {
    let Some(project) = Project::new(None, LINKS) else { return };
    if !toolkit::has("make") || !toolkit::has("ninja") {
        return;
    }
    let mut random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut killed = (0, 0);
    for round in 0..50 {
        let tool = ["make", "ninja"][round % 2];
        let signal = ["INT", "TERM", "INT", "TERM", "KILL"][round / 2 % 5];
        let (mut child, mut alive) = project.start(tool);
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut err = child.stderr.take().unwrap();
        // Both are read to the end, or a process may wait for room in them.
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            err.read_to_string(&mut text).map(|_| text)
        });
        for _ in 0..random.random_range(0..60) {
            out.read_line(&mut String::new()).unwrap();
        }
        support::must(Command::new("kill").arg(format!("-{signal}")).arg("--").arg(format!("-{}", child.id())));
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        let err = reader.join().unwrap().unwrap();
        let status = child.wait().unwrap();
        assert!(!status.success(), "round {round}: {tool} ended before it was interrupted");
        assert_eq!(alive.read(&mut [0]).unwrap(), 0);
        assert!(!err.contains("lost ") && !rest.contains("lost "), "round {round}: {err}{rest}");
        if signal == "KILL" {
            // Nobody can clean up after that; what stays is counted, and a line may be cut, but never another's.
            killed.0 += project.left_behind().len();
            killed.1 += 1;
            let mut report = support::shim();
            let output = report.arg("report").arg(&project.report).arg("--json").output().unwrap();
            let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let lines: BTreeSet<&str> = json["links"].as_array().into_iter().flatten().filter_map(|l| l["output"].as_str()).collect();
            assert!(project.made().iter().all(|m| lines.contains(m.as_str())), "round {round}");
            continue;
        }
        let lines: BTreeSet<String> = project.reported().into_iter().collect();
        assert!(project.made().is_subset(&lines), "round {round}: {tool} {signal}");
        assert_eq!(project.left_behind(), Vec::<PathBuf>::new(), "round {round}: {tool} {signal}");
    }
    println!("SIGKILL left {} temporary directories in {} builds", killed.0, killed.1);
}
