//! `DLINK_SHIM_REPORT`: what is written, when, and that nothing about it can harm a build.

mod support;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use dlink_shim::report::append;
use serde_json::Value;
use support::{Scratch, StandIn, shim};

/// Device links with a stand-in for nvcc that ends with 7, so that a lost exit code shows.
struct Runs {
    scene: Scratch,
    stand_in: StandIn,
    report: PathBuf,
}

impl Runs {
    fn new() -> Option<Self> {
        let fixtures = support::Fixtures::get()?;
        let scene = fixtures.scene();
        std::fs::copy(fixtures.object("core.o"), scene.join("core.o")).unwrap();
        Some(Self { report: scene.join("report.jsonl"), stand_in: StandIn::new(), scene })
    }

    fn run(&self, words: &[&str], vars: &[(&str, &str)]) -> Output {
        let set = |c: &mut Command| {
            c.env("DLINK_SHIM_REPORT", &self.report).env("STAND_IN_RC", "7").envs(vars.iter().copied());
        };
        self.stand_in.run_with(self.scene.path(), words, set).output
    }

    fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.report).unwrap_or_default();
        text.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect()
    }

    fn report(&self, words: &[&str]) -> Output {
        shim().arg("report").arg(&self.report).args(words).current_dir(self.scene.path()).output().unwrap()
    }

    fn text(&self, words: &[&str]) -> String {
        let output = self.report(words);
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
        String::from_utf8(output.stdout).unwrap()
    }
}

const STRIPS: [&str; 6] = ["-dlink", "plug.o", "-LL", "-lcore_nv", "-o", "plug_dlink.o"];
const BORROWS: [&str; 6] = ["-dlink", "plugdev.o", "-LL", "-lcore_nv", "-o", "plugdev_dlink.o"];
const OWNS: [&str; 4] = ["-dlink", "core.o", "-o", "core_dlink.o"];

#[test]
fn each_device_link_is_one_line_and_other_commands_are_none() {
    let Some(runs) = Runs::new() else { return };
    for words in [&["-c", "x.cu"][..], &["--version"], &["--dryrun", "-dlink", "plug.o"], &["-lib", "plug.o", "-o", "x.a"]] {
        assert_eq!(runs.run(words, &[]).status.code(), Some(7));
        assert!(!runs.report.exists(), "{words:?}");
    }
    for words in [&STRIPS[..], &BORROWS, &OWNS] {
        let output = runs.run(words, &[]);
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(7), &b""[..]));
    }
    let lines = runs.lines();
    assert_eq!(lines.len(), 3);
    for (line, output) in lines.iter().zip(["plug_dlink.o", "plugdev_dlink.o", "core_dlink.o"]) {
        assert_eq!((&line["schema"], &line["output"], &line["mode"]), (&1.into(), &output.into(), &"fix".into()));
        assert_eq!(line["cwd"], runs.scene.path().to_str().unwrap());
        assert_eq!(line["nvcc"], runs.stand_in.nvcc.to_str().unwrap());
        assert!(line["shim_us"].as_u64().unwrap() > 0 && line["time_ms"].as_u64().unwrap() > 1_600_000_000_000);
        assert_eq!((&line["outcome"], &line["reason"]), (&"cured".into(), &Value::Null));
    }
    assert_eq!(lines[0]["args"], serde_json::json!(STRIPS));
    runs.run(&[&STRIPS[..], &["--dlink-shim-shared=libcore.so"]].concat(), &[]);
    assert_eq!(runs.lines()[3]["args"], serde_json::json!([&["--dlink-shim-shared=libcore.so"], &STRIPS[..]].concat()));
}

#[test]
fn a_line_says_what_explain_says_of_the_same_command() {
    let Some(runs) = Runs::new() else { return };
    for words in [&STRIPS[..], &BORROWS, &OWNS] {
        runs.run(words, &[]);
        let line = runs.lines().pop().unwrap();
        let mut explain = shim();
        explain.args(["explain", "--json", "--"]).arg(&runs.stand_in.nvcc).args(words).current_dir(runs.scene.path());
        let explained: Value = serde_json::from_str(&support::must(&mut explain)).unwrap();
        for key in ["device_link", "nvcc", "files", "notes", "warning"] {
            assert_eq!(line[key], explained[key], "{key}");
        }
    }
}

#[test]
fn bytes_not_linked_are_the_device_code_sections_of_stripped_and_masked_units() {
    let Some(runs) = Runs::new() else { return };
    let sizes = support::must(Command::new("size").args(["-A", "L/libcore_nv.a"]).current_dir(runs.scene.path()));
    let sections = sizes.lines().filter(|l| l.starts_with("__nv_relfatbin"));
    let sizes: Vec<u64> = sections.map(|l| l.split_whitespace().nth(1).unwrap().parse().unwrap()).collect();
    assert_eq!(sizes.len(), 2);
    runs.run(&STRIPS, &[]);
    runs.run(&BORROWS, &[]);
    let lines = runs.lines();
    assert_eq!(lines[0]["unlinked_bytes"], sizes[0] + sizes[1]);
    // core is masked, devfn is guarded.
    assert_eq!(lines[1]["unlinked_bytes"], sizes[0]);
}

#[test]
fn what_was_left_alone_says_why() {
    let Some(runs) = Runs::new() else { return };
    let line = |words: &[&str], vars: &[(&str, &str)]| {
        runs.run(words, vars);
        let line = runs.lines().pop().unwrap();
        (
            line["outcome"].as_str().unwrap().to_owned(),
            line["reason"].as_str().map(str::to_owned),
            line["output"].as_str().unwrap().to_owned(),
        )
    };
    let unknown = ["-dlink", "plug.o", "--frobnicate", "-o", "x_dlink.o"];
    let why = Some("option `--frobnicate` is not known to dlink-shim".to_owned());
    assert_eq!(line(&unknown, &[]), ("left".into(), why, "x_dlink.o".into()));
    let (outcome, why, _) = line(&["-dlink", "plug.o", "-optf", "/no/such"], &[]);
    assert!(outcome == "left" && why.as_ref().unwrap().contains("/no/such"), "{why:?}");
    assert_eq!(line(&STRIPS, &[("DLINK_SHIM_MODE", "report")]), ("reported".into(), None, "plug_dlink.o".into()));
    assert_eq!(line(&["-dlink", "plug.o", "-Xcompiler", "-fvisibility=default"], &[]), ("as-given".into(), None, "a_dlink.o".into()));
    // The guard is a header for gcc and clang, and devfn can't go.
    support::Fixtures::get().unwrap().archive(&runs.scene, "L/libdev_nv.a", &["devfn_nv.o"]);
    let (outcome, why, _) = line(&["-dlink", "plugdev.o", "-LL", "-ldev_nv", "-ccbin", "/opt/other/cxx"], &[]);
    assert!(outcome == "left" && why.as_ref().unwrap().contains("the host compiler (-ccbin) is none that is known"), "{why:?}");
    let before = runs.lines().len();
    runs.run(&STRIPS, &[("DLINK_SHIM_MODE", "off")]);
    assert_eq!(runs.lines().len(), before);

    let mut refused = shim();
    refused.arg(&runs.stand_in.nvcc).args(unknown).current_dir(runs.scene.path());
    let output = refused.env("DLINK_SHIM_REPORT", &runs.report).env("DLINK_SHIM_STRICT", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(runs.lines().pop().unwrap()["outcome"], "refused");
}

#[test]
fn a_report_that_cannot_be_written_costs_one_warning_in_strict_mode_too() {
    let Some(mut runs) = Runs::new() else { return };
    support::must(Command::new("mkfifo").arg(runs.scene.join("pipe")));
    runs.scene.write("plain", "");
    for bad in ["no/such/directory/report", "L", "pipe", "/dev/full", "plain/report"] {
        runs.report = runs.scene.join(bad);
        for strict in ["", "1"] {
            let output = runs.run(&STRIPS, &[("DLINK_SHIM_STRICT", strict)]);
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!((output.status.code(), stderr.lines().count()), (Some(7), 1), "{stderr}");
            assert!(stderr.starts_with("dlink-shim: warning: can't write the report "), "{stderr}");
        }
        assert_eq!(runs.run(&["-c", "x.cu"], &[]).stderr, b"", "a compilation has no report to write");
    }
}

#[test]
fn a_file_size_limit_ends_the_report_and_not_the_command() {
    let Some(runs) = Runs::new() else { return };
    let nvcc = runs.scene.executable("nvcc", "#!/bin/sh\nexit 7\n");
    let mut command = support::clean(Command::new("sh"));
    command.args(["-c", "ulimit -f 0; exec \"$@\"", "sh", support::SHIM]).arg(nvcc).args(STRIPS).current_dir(runs.scene.path());
    let output = command.env("DLINK_SHIM_REPORT", &runs.report).output().unwrap();
    assert_eq!((output.status.code(), output.status.signal()), (Some(7), None));
    assert!(String::from_utf8_lossy(&output.stderr).contains("file-size limit"), "{output:?}");
}

#[test]
fn a_stderr_that_takes_nothing_more_costs_a_warning_and_not_the_command() {
    let Some(runs) = Runs::new() else { return };
    let nvcc = runs.scene.executable("nvcc", "#!/bin/sh\nexit 7\n");
    let mut command = support::clean(Command::new("sh"));
    command.args(["-c", "exec \"$@\" 2>/dev/full", "sh", support::SHIM]).arg(nvcc).args(["-dlink", "plug.o", "--frobnicate"]);
    let output = command.current_dir(runs.scene.path()).env("DLINK_SHIM_REPORT", "/no/such/report").output().unwrap();
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn lines_of_any_length_from_many_writers_stay_whole() {
    let scratch = Scratch::new();
    let path = scratch.join("report");
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let path = &path;
            scope.spawn(move || {
                for line in 0..25 {
                    let text = format!("{writer}:{line}:{}", "x".repeat(line * 20_000));
                    append::line(path, text.as_bytes()).unwrap();
                }
            });
        }
    });
    let text = std::fs::read_to_string(path).unwrap();
    let mut seen: Vec<(usize, usize)> = text
        .lines()
        .map(|l| {
            let [writer, line, rest] = l.splitn(3, ':').collect::<Vec<_>>().try_into().unwrap();
            let line: usize = line.parse().unwrap();
            assert!(rest.len() == line * 20_000 && rest.bytes().all(|b| b == b'x'));
            (writer.parse().unwrap(), line)
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..8).flat_map(|w| (0..25).map(move |l| (w, l))).collect::<Vec<_>>());
}

#[test]
fn a_held_lock_delays_a_line_and_does_not_lose_it() {
    let scratch = Scratch::new();
    let path = scratch.write("report", "first\n");
    let holder = std::fs::File::open(&path).unwrap();
    rustix::fs::flock(&holder, rustix::fs::FlockOperation::LockExclusive).unwrap();
    append::line(&path, b"second").unwrap();
    assert_eq!(std::fs::read(path).unwrap(), b"first\nsecond\n");
}

#[test]
fn a_cut_line_is_named_with_its_number_and_costs_no_other() {
    let Some(runs) = Runs::new() else { return };
    std::fs::write(&runs.report, "{\"schema\":1,\"time_ms\":17").unwrap();
    runs.run(&STRIPS, &[]);
    std::fs::write(&runs.report, [std::fs::read(&runs.report).unwrap(), b"{\"schema\":2}\n\n\xff\n".to_vec()].concat()).unwrap();
    runs.run(&OWNS, &[]);
    let output = runs.report(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.starts_with(b"2 device link(s): 2 cured"), "{output:?}");
    let path = runs.report.display();
    let expected = [
        format!("dlink-shim: {path}:1: not read: EOF while parsing an object (byte 24)"),
        format!("dlink-shim: {path}:3: not read: schema 2; this dlink-shim reads 1"),
        format!("dlink-shim: {path}:5: not read: expected value (byte 1)"),
    ];
    assert_eq!(String::from_utf8(output.stderr).unwrap().lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_file_that_cannot_be_read_is_one_error_line() {
    let output = shim().args(["report", "/no/such"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "dlink-shim: error: /no/such: No such file or directory (os error 2)\n");
}

#[test]
fn the_summary_names_who_borrows_what_and_who_registers_it() {
    let Some(runs) = Runs::new() else { return };
    std::fs::create_dir(runs.scene.join("x")).unwrap();
    for words in [&STRIPS[..], &OWNS, &BORROWS, &STRIPS] {
        runs.run(words, &[]);
    }
    let text = runs.text(&[]);
    assert!(text.starts_with("3 device link(s): 3 cured, 0 needed nothing; 1 older link(s) of the same outputs not counted\n"), "{text}");
    assert!(text.contains("libraries stripped 1 time(s) (2 units), units masked 1, guarded 1\n"), "{text}");
    // devfn is in no image's own objects.
    assert!(text.contains("note: 1 unit(s) left a device link, and no image in this report registers them"), "{text}");
    // One library, by whatever way a command names it.
    runs.run(&["-dlink", "plug.o", "-L./x/../L/.", "-lcore_nv", "-o", "plug_dlink.o"], &[]);
    let text = runs.text(&[]);
    assert_eq!(text.lines().filter(|l| l.starts_with("core_nv")).count(), 1, "{text}");
    let row = text.lines().find(|l| l.starts_with("core_nv")).unwrap_or_else(|| panic!("{text}"));
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!((&cells[..6], cells[cells.len() - 1]), (&["core_nv", "2", "1", "1", "1", "1"][..], "core_dlink.o"));
    assert!(text.contains("    plugdev_dlink.o: ") && text.contains("of core_nv: ") && text.contains("needs `_Z6helperi`"), "{text}");

    let json: Value = serde_json::from_str(&runs.text(&["--json"])).unwrap();
    assert_eq!((json["summary"]["device_links"].as_u64(), json["summary"]["replaced"].as_u64()), (Some(3), Some(2)));
    let lines = runs.lines();
    assert_eq!(json["links"], Value::Array(vec![lines[1].clone(), lines[4].clone(), lines[2].clone()]));
    assert_eq!(json["libraries"][0]["verdicts"], serde_json::json!({ "guard": 1, "mask": 1, "strip": 2 }));
}

#[test]
fn graphs_for_documents_are_text_that_graphviz_takes() {
    let Some(runs) = Runs::new() else { return };
    for words in [&STRIPS[..], &OWNS, &BORROWS] {
        runs.run(words, &[]);
    }
    std::fs::create_dir(runs.scene.join("odd \"name\"")).unwrap();
    runs.run(&["-dlink", "plug.o", "-LL", "-lcore_nv", "-o", "odd \"name\"/x\\.o"], &[]);
    let dot = runs.text(&["--dot"]);
    for edge in ["-> l0 [label=\"registers 1\"", "-> l0 [label=\"strip 2\"", "-> l0 [label=\"mask 1\"", "-> l0 [label=\"guard 1\""] {
        assert!(dot.contains(edge), "{dot}");
    }
    let mermaid = runs.text(&["--mermaid"]);
    assert!(mermaid.starts_with("flowchart LR\n"), "{mermaid}");
    assert!(mermaid.contains("[\"odd #34;name#34;/x#92;.o\"]") && mermaid.contains("==>|\"guard 1\"| l0"), "{mermaid}");
    if !support::toolkit::has("dot") {
        return;
    }
    let file = runs.scene.write("g.dot", &dot);
    let plain = support::must(Command::new("dot").arg("-Tplain").arg(file));
    let kinds = |kind: &str| plain.lines().filter(|l| l.split(' ').next() == Some(kind)).count();
    assert_eq!((kinds("node"), kinds("edge")), (5, 5), "{plain}");
}

#[test]
fn without_the_setting_nothing_is_written() {
    let Some(runs) = Runs::new() else { return };
    for value in [None, Some("")] {
        let before = files(runs.scene.path());
        let set = |c: &mut Command| {
            if let Some(value) = value {
                c.env("DLINK_SHIM_REPORT", value);
            }
        };
        assert_eq!(runs.stand_in.run_with(runs.scene.path(), &STRIPS, set).stderr(), "");
        assert_eq!(files(runs.scene.path()), before);
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut names: Vec<_> = std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    names
}
