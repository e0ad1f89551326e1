//! Commands with less device code, where `DLINK_SHIM_ARCHS` or `DLINK_SHIM_COMPRESS` asks for it.

use std::ffi::OsString;
use std::path::Path;

use super::record::Looked;
use super::wrap::{quietly, warn};
use super::{Call, tell};
use crate::analysis::{self, Analysis};
use crate::archs::Slimming;
use crate::nvcc::CommandLine;
use crate::plan::Scene;
use crate::rewrite::{self, Changes, Rewritten};
use crate::settings::{Mode, Settings, Told};
use crate::{Env, Error};

/// A command that is no device link, changed; `None` when it stays as it is. Without the settings it is not even read.
pub fn slimmed(
    args: &[OsString],
    env: &Env,
    settings: &Settings,
    nvcc: &Path,
    files: &mut analysis::Files,
) -> Result<Option<Rewritten>, Error> {
    if settings.slim.is_empty() {
        return Ok(None);
    }
    let Ok(line) = CommandLine::read(args, env) else { return Ok(None) };
    let changes = changes(settings, nvcc, &line, None)?;
    if changes.is_empty() || settings.mode == Mode::Report {
        return Ok(None);
    }
    rewrite::rewrite(&line, &changes, &mut |text| files.add("options.rsp", text)).map(Some)
}

/// Puts the changes into the analysis of a device link.
pub fn device_link(looked: &mut Looked, settings: &Settings, nvcc: &Path) -> Result<(), Error> {
    let Some(Ok(Some(analysis))) = looked else { return Ok(()) };
    analysis.slimming = changes(settings, nvcc, &analysis.line, Some(&analysis.scene))?;
    Ok(())
}

/// What the two settings change about a command, said where it should be. `scene` is what a device link's inputs hold.
fn changes(settings: &Settings, nvcc: &Path, line: &CommandLine, scene: Option<&Scene>) -> Result<Changes, Error> {
    if settings.slim.is_empty() {
        return Ok(Changes::default());
    }
    let slimming = quietly(|| settings.slim.slimming(line, nvcc, scene)).unwrap_or_default();
    for warning in &slimming.warnings {
        warn(settings, warning)?;
    }
    for note in &slimming.notes {
        tracing::info!("{note}");
        if settings.mode == Mode::Report {
            tell(&format!("note: {note}\n"));
        }
    }
    Ok(slimming.changes)
}

/// What the two settings would do to a command, for `explain`: lines on it, and the words of one that is no device link.
pub fn explained(words: &[OsString], nvcc: &Path, analysis: Option<&mut Analysis>, env: &Env) -> (Vec<String>, Option<Vec<OsString>>) {
    let (words, _) = Told::take(words);
    let Call::Nvcc(call) = Call::from_words(&words) else { return Default::default() };
    let env = &env.changed(call.front.all_changes());
    let slim = Settings::from_env(env).slim;
    if slim.is_empty() {
        return Default::default();
    }
    let Ok(line) = CommandLine::read(call.args, env) else { return Default::default() };
    let Slimming { changes, notes, warnings } = slim.slimming(&line, nvcc, analysis.as_ref().map(|a| &a.scene));
    let warnings = warnings.into_iter().map(|w| format!("warning: {w}"));
    let lines = warnings.chain(notes.into_iter().map(|n| format!("note: {n}"))).collect();
    let command = (analysis.is_none() && !changes.is_empty())
        .then(|| rewrite::rewrite(&line, &changes, &mut |_| Ok("<new options.rsp>".into())).ok())
        .flatten();
    if let Some(analysis) = analysis {
        analysis.slimming = changes;
    }
    (lines, command.map(|c| std::iter::once(nvcc.into()).chain(c.args).collect()))
}
