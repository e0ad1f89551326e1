//! The plan for people.

use std::fmt::Write;
use std::path::Path;

use super::{evidence, file_verdict, reason, verdict};
use crate::analysis::Analysis;
use crate::plan::shown_id;

/// One line per file: its name, the verdict, the reason.
pub fn lines(analysis: &Analysis) -> Vec<String> {
    analysis
        .plan
        .files
        .iter()
        .map(|f| {
            let (word, why) = file_verdict(&f.verdict);
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
        let (scene, of) = (&analysis.scene, &analysis.scene.files[file.file]);
        for unit in &file.units {
            let member = unit.member(of).name.as_ref().map(|m| format!(" ({})", String::from_utf8_lossy(m))).unwrap_or_default();
            let why = reason(scene, unit).map(|r| format!(": {r}")).unwrap_or_default();
            let (id, evidence) = (shown_id(&unit.unit(of).id), evidence(scene, &unit.evidence));
            let _ = writeln!(out, "    unit {id}{member}: {evidence}: {}{why}", verdict(unit));
        }
    }
    if let Some(warning) = &analysis.plan.warning {
        let _ = writeln!(out, "warning: {warning}");
    }
    for note in super::notes(analysis) {
        let _ = writeln!(out, "note: {note}");
    }
    if analysis.plan.stripped().next().is_some() {
        let _ = writeln!(
            out,
            "note: if the host link uses --as-needed, a stripped library may have been the only thing that kept its shared library in DT_NEEDED"
        );
    }
    match command(analysis, nvcc) {
        Some(Command { words, unset, files }) => {
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

/// The command that would run, with stand-ins for the names of new files.
pub(super) struct Command {
    pub words: Vec<String>,
    pub unset: Vec<&'static str>,
    /// Name and text of each new file that is text.
    pub files: Vec<(String, String)>,
}

/// The command that would run; `None` when it is the one given.
pub(super) fn command(analysis: &Analysis, nvcc: &Path) -> Option<Command> {
    let mut files = Vec::new();
    let mut new_file = |name: &str, text: &[u8]| {
        let shown = format!("<new {name} {}>", files.len() + 1);
        files.push((shown.clone(), String::from_utf8_lossy(text).into_owned()));
        Ok(shown.into())
    };
    let rewritten = analysis.rewritten(&mut new_file).ok()??;
    files.retain(|(name, _)| name.contains(".rsp"));
    let words = std::iter::once(nvcc.as_os_str()).chain(rewritten.args.iter().map(|a| a.as_os_str()));
    Some(Command { words: words.map(|w| w.to_string_lossy().into_owned()).collect(), unset: rewritten.unset, files })
}

/// A word as a shell would take it.
fn shell(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=,:+@%<>".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}
