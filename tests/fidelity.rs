//! Fidelity: every line of `fidelity/corpus.txt`, run by nvcc itself and through dlink-shim, ends, speaks and writes the same.
//!
//! Each line runs with 13.0 and, by its number, with one of the other toolkits and through one of the two ways in (launcher, link named
//! `nvcc`); with `DLINK_SHIM_FIDELITY=all` every line runs in every way, and
//! with another value only those lines that contain it. Both runs are made in one directory with the same
//! inputs at the same times, since paths and times are among what nvcc writes down. Its temporary names (`tmpxft_<pid>_…`) are the
//! one thing that is read as equal everywhere. Where the results differ, both run again: a difference that comes and goes is
//! nvcc's own (`-g` sorts strings by a hash of the temporary names, `-time` writes times), is named in the test's output and not
//! compared. One that stays is ours.

mod support;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use dlink_shim::Env;
use dlink_shim::nvcc::CommandLine;
use dlink_shim::nvcc::command_line::ItemKind;
use dlink_shim::nvcc::options::OPTIONS;
use support::{SHIM, Scratch, clean, must, toolkit};

/// How often a difference may show itself as chance.
const REPEATS: usize = 5;
const CORPUS: &str = include_str!("fidelity/corpus.txt");

/// What of two runs must be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Same {
    Everything,
    /// But for one warning of ours, before anything that nvcc says.
    BehindWarning,
    AllButBytes,
    EndAndStdout,
}

#[derive(Debug)]
struct Line {
    text: &'static str,
    same: Same,
    vars: Vec<(String, String)>,
    words: Vec<String>,
}

fn corpus() -> Vec<Line> {
    let mut same = Same::Everything;
    let mut lines = Vec::new();
    for text in CORPUS.lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
        if let Some(family) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            same = match family {
                f if f.ends_with(": warned") => Same::BehindWarning,
                f if f.ends_with(": cured") => Same::AllButBytes,
                f if f.ends_with(": cured, aloud") => Same::EndAndStdout,
                _ => Same::Everything,
            };
            continue;
        }
        let mut words = shlex::split(text).unwrap_or_else(|| panic!("an open quote: {text}"));
        let variable = |w: &String| w.split_once('=').is_some_and(|(n, _)| n.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'));
        let count = words.iter().take_while(|w| variable(w)).count();
        let vars = words.drain(..count).map(|w| w.split_once('=').map(|(n, v)| (n.into(), v.into())).unwrap()).collect();
        lines.push(Line { text, same, vars, words });
    }
    lines
}

fn inputs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fidelity/inputs")
}

#[test]
fn the_corpus_has_every_option_of_every_toolkit_and_no_line_twice() {
    let lines = corpus();
    assert!(lines.len() >= 150, "{}", lines.len());
    let mut seen = HashSet::new();
    let mut options = BTreeSet::new();
    for line in &lines {
        assert!(seen.insert(line.text), "{} is there twice", line.text);
        let vars: Vec<(&str, &str)> = line.vars.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let words: Vec<OsString> = line.words.iter().map(OsString::from).collect();
        let Ok(read) = CommandLine::read(&words, &Env::new(&vars, &inputs())) else { continue };
        options.extend(read.items.iter().filter_map(|i| match &i.kind {
            ItemKind::Flag(o) | ItemKind::Valued { option: o, .. } => Some(o.long),
            _ => None,
        }));
    }
    let missing: Vec<&str> = OPTIONS.iter().map(|o| o.long).filter(|o| !options.contains(o)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

/// Everything that the lines read, with the objects made by this toolkit.
fn prepared(version: &str, nvcc: &Path) -> PathBuf {
    let directory = toolkit::target().join(format!("fidelity-{version}"));
    let _lock = toolkit::lock("fidelity");
    let newest = |d: PathBuf| std::fs::read_dir(d).unwrap().map(|e| e.unwrap().metadata().unwrap().modified().unwrap()).max();
    if std::fs::metadata(directory.join("done")).and_then(|m| m.modified()).ok() > newest(inputs()) {
        return directory;
    }
    let _ = std::fs::remove_dir_all(&directory);
    for sub in ["L", "tmp", "directory.cu"] {
        std::fs::create_dir_all(directory.join(sub)).unwrap();
    }
    for entry in std::fs::read_dir(inputs()).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), directory.join(entry.file_name())).unwrap();
    }
    let run = |program: &Path, words: &str| {
        must(clean(Command::new(program)).args(words.split(' ')).args(toolkit_flags(program, version)).current_dir(&directory));
    };
    for name in ["r", "d", "twin"] {
        run(nvcc, &format!("-arch=sm_90 -Xcompiler -fPIC -dc {name}.cu -o {name}.o"));
    }
    run(nvcc, "-arch=sm_90 -Xcompiler -fPIC -c x.cu -o x.o");
    run(nvcc, "-arch=sm_90 -ptx d.cu -o d.ptx");
    run(Path::new("g++"), "-c m.cpp -o m.o");
    run(Path::new("gcc"), "-fPIC -c s.c -o s.o");
    run(Path::new("objcopy"), "-j .nv* -j __nv* -j .note.GNU-stack d.o d_nv.o");
    for (archive, object) in [("d", "d.o"), ("d_nv", "d_nv.o"), ("h", "s.o")] {
        run(Path::new("ar"), &format!("crsD L/lib{archive}.a {object}"));
    }
    std::fs::write(directory.join("done"), "").unwrap();
    directory
}

fn toolkit_flags(program: &Path, version: &str) -> &'static [&'static str] {
    if program.ends_with("nvcc") { toolkit::flags(version) } else { &[] }
}

/// Names and contents below a directory; directories without contents.
type Tree = BTreeMap<PathBuf, Option<Vec<u8>>>;

fn walk(root: &Path, at: &Path, visit: &mut dyn FnMut(&Path, &Path, bool)) {
    for entry in std::fs::read_dir(at).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let directory = path.is_dir();
        visit(&path, path.strip_prefix(root).unwrap(), directory);
        if directory {
            walk(root, &path, visit);
        }
    }
}

/// The process number in nvcc's temporary names, and the counter behind it, as zeros.
fn without_numbers(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let starts: Vec<usize> = out.windows(7).enumerate().filter(|(_, w)| w == b"tmpxft_").map(|(at, _)| at + 7).collect();
    for start in starts {
        out[start..].iter_mut().take_while(|b| b.is_ascii_hexdigit() || **b == b'_').for_each(|b| *b = b'0');
    }
    out
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    end: String,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    tree: Tree,
}

impl Run {
    /// Runs a command in `place` with fresh inputs.
    fn new(mut command: Command, prepared: &Path, place: &Path, line: &Line) -> Self {
        let _ = std::fs::remove_dir_all(place);
        std::fs::create_dir_all(place).unwrap();
        let day = SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
        walk(prepared, prepared, &mut |path, name, directory| {
            let to = place.join(name);
            if directory {
                std::fs::create_dir(&to).unwrap();
            } else {
                std::fs::copy(path, &to).unwrap();
                std::fs::File::options().write(true).open(&to).unwrap().set_modified(day).unwrap();
            }
        });
        for name in ["CUDAFE_FLAGS", "MAKEFLAGS", "MAKELEVEL"] {
            command.env_remove(name);
        }
        command.env("TMPDIR", place.join("tmp")).envs(line.vars.iter().cloned()).current_dir(place);
        let output = support::output(command.stdin(std::process::Stdio::null()));
        let mut tree = Tree::new();
        walk(place, place, &mut |path, name, directory| {
            let name = String::from_utf8(without_numbers(name.to_string_lossy().as_bytes())).unwrap();
            tree.insert(name.into(), (!directory).then(|| without_numbers(&std::fs::read(path).unwrap())));
        });
        let text = |bytes: Vec<u8>| without_numbers(&bytes);
        Self { end: output.status.to_string(), stdout: text(output.stdout), stderr: text(output.stderr), tree }
    }

    /// The names of what differs.
    fn differences(&self, other: &Self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let mut note = |differs: bool, name: String| differs.then(|| names.insert(name));
        note(self.end != other.end, "end".into());
        note(self.stdout != other.stdout, "stdout".into());
        note(self.stderr != other.stderr, "stderr".into());
        for name in self.tree.keys().chain(other.tree.keys()) {
            match (self.tree.get(name), other.tree.get(name)) {
                (Some(a), Some(b)) => note(a != b, format!("bytes of {}", name.display())),
                _ => note(true, format!("existence of {}", name.display())),
            };
        }
        names
    }
}

/// What one line did with one toolkit.
enum Outcome {
    Same,
    /// nvcc does not repeat these itself.
    Unrepeatable(BTreeSet<String>),
    Differs(String),
}

struct Job<'a> {
    line: &'a Line,
    version: &'static str,
    nvcc: &'a Path,
    prepared: &'a Path,
    masquerade: bool,
}

impl Job<'_> {
    fn run(&self, place: &Path, link: &Path) -> Outcome {
        let words = |mut command: Command| {
            command.args(toolkit::flags(self.version)).args(&self.line.words);
            Run::new(command, self.prepared, place, self.line)
        };
        let alone = || words(clean(Command::new(self.nvcc)));
        let shimmed = || {
            let mut command = clean(Command::new(if self.masquerade { link } else { Path::new(SHIM) }));
            if self.masquerade {
                command.env("DLINK_SHIM_NVCC", self.nvcc);
            } else {
                command.arg(self.nvcc);
            }
            words(command)
        };
        let (plain, mut ours) = (alone(), shimmed());
        if self.line.same == Same::BehindWarning {
            let end = ours.stderr.iter().position(|&b| b == b'\n').filter(|_| ours.stderr.starts_with(b"dlink-shim: warning: "));
            let Some(end) = end else { return Outcome::Differs("the line is marked as warned and is not".into()) };
            ours.stderr.drain(..=end);
        }
        let mut differences = plain.differences(&ours);
        let cured = differences.iter().any(|d| d.starts_with("bytes of "));
        if matches!(self.line.same, Same::AllButBytes | Same::EndAndStdout) {
            if !cured && plain.end.ends_with(" 0") {
                return Outcome::Differs("the line is marked as cured and its outputs are equal".into());
            }
            differences.retain(|d| !d.starts_with("bytes of "));
        }
        if self.line.same == Same::EndAndStdout {
            differences.retain(|d| d != "stderr" && !d.starts_with("existence of "));
        }
        if differences.is_empty() {
            return Outcome::Same;
        }
        for _ in 0..REPEATS {
            let again = alone();
            let chance = || ours.differences(&again).is_disjoint(&differences) || shimmed().differences(&plain).is_disjoint(&differences);
            if differences.is_subset(&plain.differences(&again)) || chance() {
                return Outcome::Unrepeatable(differences);
            }
        }
        let shown = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        let text = |r: &Run| format!("{}\n--- stdout\n{}--- stderr\n{}", r.end, shown(&r.stdout), shown(&r.stderr));
        Outcome::Differs(format!("{differences:?}\n=== nvcc: {}\n=== through dlink-shim: {}", text(&plain), text(&ours)))
    }
}

#[test]
fn every_line_of_the_corpus_ends_speaks_and_writes_as_with_nvcc_alone() {
    let mut toolkits = Vec::new();
    for version in toolkit::VERSIONS {
        let Some(nvcc) = toolkit::nvcc(version) else { return };
        let prepared = prepared(version, &nvcc);
        toolkits.push((version, nvcc, prepared));
    }
    let lines = corpus();
    let only = std::env::var("DLINK_SHIM_FIDELITY").unwrap_or_default();
    let all = only == "all";
    let others: Vec<&str> = toolkit::VERSIONS.into_iter().filter(|v| *v != "13.0").collect();
    let mut jobs = Vec::new();
    for (number, line) in lines.iter().enumerate().filter(|(_, l)| all || l.text.contains(&only)) {
        for (version, nvcc, prepared) in &toolkits {
            let (first, turn) = (*version == "13.0", *version == others[number % others.len()]);
            for masquerade in [false, true] {
                // The two toolkits of a line take the two ways.
                if all || (first && masquerade == (number % 2 == 1)) || (turn && masquerade == (number % 2 == 0)) {
                    jobs.push(Job { line, version, nvcc, prepared, masquerade });
                }
            }
        }
    }
    let scratch = Scratch::new();
    let link = scratch.join("nvcc");
    symlink(SHIM, &link).unwrap();
    let next = AtomicUsize::new(0);
    let (failed, unrepeatable) = (Mutex::new(Vec::new()), Mutex::new(BTreeMap::<_, BTreeSet<String>>::new()));
    std::thread::scope(|scope| {
        for worker in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            let (jobs, next, failed, unrepeatable, link) = (&jobs, &next, &failed, &unrepeatable, &link);
            let place = scratch.join(format!("worker-{worker}"));
            scope.spawn(move || {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match job.run(&place, link) {
                        Outcome::Same => {}
                        Outcome::Unrepeatable(what) => {
                            unrepeatable.lock().unwrap().entry(job.line.text).or_default().extend(what);
                        }
                        Outcome::Differs(how) => {
                            let way = if job.masquerade { "link named nvcc" } else { "launcher" };
                            failed.lock().unwrap().push(format!("nvcc {}, {way}: {}\n{how}", job.version, job.line.text));
                        }
                    }
                }
            });
        }
    });
    for (line, what) in unrepeatable.into_inner().unwrap() {
        println!("nvcc itself does not repeat {what:?}: {line}");
    }
    println!("{} lines, {} comparisons", lines.len(), jobs.len());
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {} differ\n\n{}", failed.len(), jobs.len(), failed.join("\n\n"));
}
