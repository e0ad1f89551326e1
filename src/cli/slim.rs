//! Commands with less device code, where `DLINK_SHIM_ARCHS` or `DLINK_SHIM_COMPRESS` asks for it.

use std::ffi::OsString;
use std::path::Path;

use super::wrap::{quietly, warn};
use super::{Call, tell};
use crate::analysis::{self, Analysis};
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

/// What the two settings change about a command, said where it should be. `scene` is what a device link's inputs hold.
pub fn changes(settings: &Settings, nvcc: &Path, line: &CommandLine, scene: Option<&Scene>) -> Result<Changes, Error> {
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

/// What the two settings would do to a command, a line each; for `explain`.
pub fn explained(words: &[OsString], nvcc: &Path, analysis: Option<&Analysis>, env: &Env) -> Vec<String> {
    let (words, _) = Told::take(words);
    let Call::Nvcc(call) = Call::from_words(&words) else { return Vec::new() };
    let env = &env.changed(call.front.all_changes());
    let slim = Settings::from_env(env).slim;
    if slim.is_empty() {
        return Vec::new();
    }
    let Ok(line) = CommandLine::read(call.args, env) else { return Vec::new() };
    let slimming = slim.slimming(&line, nvcc, analysis.map(|a| &a.scene));
    let warnings = slimming.warnings.into_iter().map(|w| format!("warning: {w}"));
    warnings.chain(slimming.notes.into_iter().map(|n| format!("note: {n}"))).collect()
}
