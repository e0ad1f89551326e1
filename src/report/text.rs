//! The plan for people.

use std::fmt::Write;
use std::path::Path;

use super::{evidence, reason, verdict};
use crate::analysis::Analysis;
use crate::plan::{FileVerdict, shown_id};

/// One line per file: its name, the verdict, the reason.
pub fn lines(analysis: &Analysis) -> Vec<String> {
    analysis
        .plan
        .files
        .iter()
        .map(|f| {
            let (word, why) = match &f.verdict {
                FileVerdict::Leave(why) => ("leave", why),
                FileVerdict::Strip(why) => ("strip", why),
            };
            format!("{}: {word}: {why}", analysis.scene.files[f.file].name())
        })
        .collect()
}

/// Everything: per file the path, units, verdict and reason, then the command that would run.
pub fn report(analysis: &Analysis, nvcc: &Path) -> String {
    let mut out = String::new();
    for (line, file) in lines(analysis).iter().zip(&analysis.plan.files) {
        let _ = writeln!(out, "{line}");
        if let Some(path) = &analysis.scene.files[file.file].path {
            let _ = writeln!(out, "    {}", path.display());
        }
        for unit in &file.units {
            let member = unit.member.as_ref().map(|m| format!(" ({})", String::from_utf8_lossy(m))).unwrap_or_default();
            let why = reason(unit).map(|r| format!(": {r}")).unwrap_or_default();
            let _ = writeln!(out, "    unit {}{member}: {}: {}{why}", shown_id(&unit.id), evidence(&unit.evidence), verdict(unit));
        }
    }
    if let Some(warning) = &analysis.plan.warning {
        let _ = writeln!(out, "warning: {warning}");
    }
    if analysis.plan.changes_something() {
        let _ = writeln!(
            out,
            "note: if the host link uses --as-needed, a stripped library may have been the only thing that kept its shared library in DT_NEEDED"
        );
    }
    match command(analysis, nvcc) {
        Some((words, unset, files)) => {
            let unset = unset.iter().map(|u| format!("env -u {u} ")).collect::<String>();
            let _ = writeln!(out, "command: {unset}{}", words.iter().map(|w| shell(w)).collect::<Vec<_>>().join(" "));
            for (name, text) in files {
                let _ = writeln!(out, "{name}:\n{text}");
            }
        }
        None => {
            let _ = writeln!(out, "command: as given");
        }
    }
    out
}

type Command = (Vec<String>, Vec<&'static str>, Vec<(String, String)>);

/// The command that would run, with stand-ins for the names of new files; `None` when it is the one given.
pub(super) fn command(analysis: &Analysis, nvcc: &Path) -> Option<Command> {
    if !analysis.plan.changes_something() {
        return None;
    }
    let mut files = Vec::new();
    let rewritten = analysis
        .rewritten(&mut |text| {
            let name = format!("<new options file {}>", files.len() + 1);
            files.push((name.clone(), String::from_utf8_lossy(text).into_owned()));
            Ok(name.into())
        })
        .ok()?;
    let words = std::iter::once(nvcc.as_os_str()).chain(rewritten.args.iter().map(|a| a.as_os_str()));
    Some((words.map(|w| w.to_string_lossy().into_owned()).collect(), rewritten.unset, files))
}

/// A word as a shell would take it.
fn shell(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=,:+@%<>".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}
