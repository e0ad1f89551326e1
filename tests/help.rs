//! `--help`, completions and man pages: made from the same definitions, and fit for the programs that read them.

mod support;

use std::path::Path;
use std::process::Command;

use support::{Scratch, must, shim, toolkit};

/// The commands that `--help` lists, less `help` itself.
fn commands() -> Vec<String> {
    let help = must(shim().arg("--help"));
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    list.lines().map(|l| l.split_whitespace().next().unwrap().to_owned()).filter(|c| c != "help").collect()
}

#[test]
fn every_help_has_examples_and_fits_a_hundred_columns() {
    let commands = commands();
    assert!(commands.len() > 1 && !commands.contains(&"generate".to_owned()), "{commands:?}");
    for command in commands.iter().map(String::as_str).chain([""]) {
        let help = must(shim().args(Some(command).filter(|c| !c.is_empty())).arg("--help"));
        assert!(help.contains("\nExamples:\n  "), "{command}: {help}");
        let wide: Vec<&str> = help.lines().filter(|l| l.chars().count() > 100).collect();
        assert!(wide.is_empty(), "{command}: {wide:?}");
    }
}

#[test]
fn shells_take_the_completions() {
    let scratch = Scratch::new();
    let file = |shell: &str| scratch.write(shell, must(shim().args(["generate", "completions", shell])));
    let completed = |words: &str| {
        let script = "source \"$1\"; COMP_WORDS=($2); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _dlink__shim dlink-shim \"${COMP_WORDS[-1]}\" \"${COMP_WORDS[-2]}\"; echo ${COMPREPLY[@]}";
        must(Command::new("bash").args(["-c", script, "bash"]).arg(file("bash")).arg(words)).trim().to_owned()
    };
    assert_eq!(completed("dlink-shim rep"), "report");
    assert_eq!(completed("dlink-shim report --mer"), "--mermaid");
    for (shell, check) in [("zsh", "-n"), ("fish", "--no-execute")] {
        if toolkit::has(shell) {
            must(Command::new(shell).arg(check).arg(file(shell)));
        }
    }
}

#[test]
fn man_pages_are_clean_and_keep_examples_as_they_are() {
    if !toolkit::has("groff") {
        return;
    }
    let scratch = Scratch::new();
    must(shim().args(["generate", "man"]).arg(scratch.path()));
    let shown = |page: &Path| {
        let output = Command::new("groff").args(["-man", "-Tutf8", "-ww", "-P-c", "-P-bou", "-rLL=110n"]).arg(page).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{page:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let mut names: Vec<String> =
        std::fs::read_dir(scratch.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let mut expected: Vec<String> = commands().iter().map(|c| format!("dlink-shim-{c}.1")).chain(["dlink-shim.1".into()]).collect();
    expected.sort();
    assert_eq!(names, expected);
    for name in names {
        let text = shown(&scratch.join(&name));
        // Every line is there as it stands.
        let command = name.strip_prefix("dlink-shim-").and_then(|n| n.strip_suffix(".1"));
        let help = must(shim().args(command).arg("--help"));
        let examples = help.split("\nExamples:\n").nth(1).unwrap().split("\n\n").next().unwrap();
        for line in examples.lines() {
            assert!(text.lines().any(|l| l.trim() == line.trim()), "{name}: `{line}` in\n{text}");
        }
        assert!(text.contains("NAME") && text.contains("SYNOPSIS") && text.contains("EXAMPLES"), "{text}");
    }
}

#[test]
fn a_directory_that_is_not_there_is_one_error_line() {
    let output = shim().args(["generate", "man", "/no/such"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("dlink-shim: error: can't write /no/such/") && stderr.lines().count() == 1, "{stderr}");
}
