//! What holds for any command line: words come back as they were, and what is removed is gone, and nothing else.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use dlink_shim::Env;
use dlink_shim::env::Change;
use dlink_shim::nvcc::command_line::{CommandLine, ItemKind};
use dlink_shim::nvcc::options::{Arity, OPTIONS};
use dlink_shim::nvcc::{Site, words};
use dlink_shim::rewrite::{self, Changes};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

/// A value: no byte is special to the shell, since there is none.
fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => "[a-z0-9_./=,\\\\+-]{1,12}".prop_map(String::into_bytes),
        1 => prop::collection::vec(1u8.., 1..8),
    ]
}

/// One option with its value in any spelling, an input, or a word that no nvcc knows.
fn spelled() -> impl Strategy<Value = Vec<Vec<u8>>> {
    // Their value is a file to read.
    let option = prop::sample::select(OPTIONS.iter().filter(|o| o.long != "options-file").collect::<Vec<_>>());
    prop_oneof![
        6 => (option, value(), 0..4u8).prop_map(|(o, value, how)| {
            let (long, short) = (format!("--{}", o.long).into_bytes(), format!("-{}", o.short).into_bytes());
            let named = if how % 2 == 1 && !o.short.is_empty() { short.clone() } else { long };
            match (o.arity, how) {
                (Arity::Flag, _) => vec![named],
                (_, 0 | 1) => vec![named, value],
                (_, 3) if o.attached => vec![[short, value].concat()],
                _ => vec![[named, b"=".to_vec(), value].concat()],
            }
        }),
        3 => "[a-z]{1,6}\\.(o|a|so|cu|fatbin)".prop_map(|name| vec![name.into_bytes()]),
        1 => value().prop_map(|v| vec![[b"-".to_vec(), v].concat()]),
    ]
}

fn spelled_words() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(spelled(), 0..8).prop_map(|all| all.concat())
}

fn os(words: &[Vec<u8>]) -> Vec<OsString> {
    words.iter().map(|w| OsString::from_vec(w.clone())).collect()
}

fn appending(variable: Option<Vec<u8>>, cwd: &Path) -> Env {
    Env::new(&[], cwd).changed(variable.map(|v| Change::Set("NVCC_APPEND_FLAGS".into(), OsString::from_vec(v)))).into_owned()
}

/// argv, a variable, and an options file in which another is named; `None` where nvcc would not take them.
struct Given {
    directory: tempfile::TempDir,
    args: Vec<OsString>,
    line: CommandLine,
}

impl Given {
    fn new(argv: &[Vec<u8>], variable: &[Vec<u8>], outer: &[Vec<u8>], inner: &[Vec<u8>]) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let text = |words: &[Vec<u8>]| words.iter().map(|w| words::quote(w)).collect::<Vec<_>>().join(&b"  "[..]);
        std::fs::write(directory.path().join("inner"), text(inner)).unwrap();
        std::fs::write(directory.path().join("outer"), [text(outer), b"\n-optf inner\n".to_vec()].concat()).unwrap();
        let mut args = os(argv);
        args.extend([OsString::from("--options-file=outer")]);
        let env = appending(Some(text(variable)), directory.path());
        let line = CommandLine::read(&args, &env).ok()?;
        Some(Self { directory, args, line })
    }

    /// The line with `changes` made, and again as nvcc would read it.
    fn rewritten(&self, changes: &Changes) -> (rewrite::Rewritten, CommandLine) {
        let mut count = 0;
        let mut new_file = |text: &[u8]| {
            count += 1;
            let path = self.directory.path().join(format!("new{count}"));
            std::fs::write(&path, text).unwrap();
            Ok(path)
        };
        let rewritten = rewrite::rewrite(&self.line, changes, &mut new_file).unwrap();
        let variable = self.line.sources.last().unwrap().text.clone();
        let env = appending(rewritten.unset.is_empty().then_some(variable), self.directory.path());
        let line = CommandLine::read(&rewritten.args, &env).unwrap();
        (rewritten, line)
    }
}

/// What a line says, item by item, without the names of options files (new ones are elsewhere).
fn said(line: &CommandLine, without: &BTreeSet<Site>) -> Vec<(String, Vec<Vec<u8>>)> {
    let mut all = Vec::new();
    for (index, item) in line.items.iter().enumerate() {
        let stays = |value: usize| !without.contains(&Site { item: index, value });
        match &item.kind {
            ItemKind::Flag(o) => all.push((o.long.to_owned(), Vec::new())),
            ItemKind::Valued { option, .. } if option.long == "options-file" => all.push((option.long.to_owned(), Vec::new())),
            ItemKind::Valued { option, values, .. } => {
                let touched = (0..values.len()).any(|v| !stays(v));
                // Where a value goes, empty ones beside it may go with it.
                let kept = |(v, value): (usize, &dlink_shim::nvcc::command_line::Value)| {
                    (stays(v) && !(touched && value.raw.is_empty())).then(|| value.raw.clone())
                };
                let kept: Vec<Vec<u8>> = values.iter().enumerate().filter_map(kept).collect();
                if !kept.is_empty() {
                    all.push((option.long.to_owned(), kept));
                }
            }
            ItemKind::Input(name) if stays(0) => all.push(("input".into(), vec![name.clone()])),
            ItemKind::Input(_) => {}
            ItemKind::Unknown(word) => all.push(("unknown".into(), vec![word.clone()])),
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_line_that_is_read_and_written_again_is_the_same_bytes(
        argv in spelled_words(), variable in spelled_words(), outer in spelled_words(), inner in spelled_words(),
    ) {
        let Some(given) = Given::new(&argv, &variable, &outer, &inner) else { return Ok(()) };
        let (rewritten, _) = given.rewritten(&Changes::default());
        prop_assert_eq!(rewritten.args, given.args);
        prop_assert!(rewritten.unset.is_empty());
        prop_assert!(!given.directory.path().join("new1").exists(), "an options file was written anew");
        // Every word of argv is in exactly one item.
        let of_argv = |source: usize| given.line.sources[source].kind == dlink_shim::nvcc::command_line::SourceKind::Argv;
        let covered: usize = given.line.items.iter().filter(|i| of_argv(i.source)).map(|i| i.words).sum();
        prop_assert_eq!(covered, argv.len() + 1);
    }

    #[test]
    fn removing_values_removes_these_alone_wherever_they_are_written_and_once_is_enough(
        argv in spelled_words(), variable in spelled_words(), outer in spelled_words(), inner in spelled_words(),
        which in prop::collection::vec(any::<prop::sample::Index>(), 1..5),
    ) {
        let Some(given) = Given::new(&argv, &variable, &outer, &inner) else { return Ok(()) };
        let sites: Vec<Site> = given.line.items.iter().enumerate().flat_map(|(item, i)| {
            let count = match &i.kind {
                ItemKind::Input(_) => 1,
                ItemKind::Valued { option, values, .. } if option.long != "options-file" => values.len(),
                _ => 0,
            };
            (0..count).map(move |value| Site { item, value })
        }).collect();
        if sites.is_empty() {
            return Ok(());
        }
        let removed: BTreeSet<Site> = which.iter().map(|i| *i.get(&sites)).collect();
        let (_, line) = given.rewritten(&Changes { removed: removed.clone(), ..Changes::default() });
        prop_assert_eq!(said(&line, &BTreeSet::new()), said(&given.line, &removed));
    }
}

#[test]
fn the_lines_above_are_not_all_refused() {
    // Properties that hold since nothing happens would prove nothing.
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let read = (0..2000).filter(|_| {
        let words = spelled_words().new_tree(&mut runner).unwrap().current();
        Given::new(&words, &[], &words, &words).is_some()
    });
    let read = read.count();
    assert!(read > 1000, "{read} of 2000 lines read");
}

#[test]
fn bytes_that_are_no_text_come_back() {
    let word = OsString::from_vec(vec![b'-', b'l', 0xff, b'"', b' ', 1]);
    let line = CommandLine::read(std::slice::from_ref(&word), &Env::new(&[], Path::new("/"))).unwrap();
    let same = rewrite::rewrite(&line, &Changes::default(), &mut |_| unreachable!()).unwrap();
    assert_eq!(same.args[0].as_bytes(), word.as_bytes());
}
