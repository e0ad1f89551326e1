//! The plan for programs. Bytes that are no UTF-8 are shown with U+FFFD.

use std::path::Path;

use serde_json::{Value, json};

use super::{evidence, file_verdict, reason, text, verdict};
use crate::analysis::Analysis;
use crate::plan::shown_id;

/// One object: `files` with `units`, `warning`, and `command` (null when the command runs as given).
pub fn report(analysis: &Analysis, nvcc: &Path) -> Value {
    let files: Vec<Value> = analysis
        .plan
        .files
        .iter()
        .map(|f| {
            let file = &analysis.scene.files[f.file];
            let (word, why) = file_verdict(&f.verdict);
            let units: Vec<Value> = f
                .units
                .iter()
                .map(|u| {
                    json!({
                        "id": shown_id(&u.id),
                        "member": u.member.as_ref().map(|m| String::from_utf8_lossy(m)),
                        "evidence": evidence(&u.evidence),
                        "verdict": verdict(u),
                        "reason": reason(u),
                    })
                })
                .collect();
            json!({
                "name": file.name(),
                "path": file.path.as_ref().map(|p| p.to_string_lossy()),
                "verdict": word,
                "reason": why,
                "units": units,
            })
        })
        .collect();
    let command = text::command(analysis, nvcc);
    json!({
        "device_link": true,
        "nvcc": nvcc.to_string_lossy(),
        "files": files,
        "notes": super::notes(analysis),
        "warning": analysis.plan.warning,
        "command": command.as_ref().map(|c| &c.words),
        "unset": command.as_ref().map(|c| &c.unset),
        "new_files": command.as_ref().map(|c| &c.files),
    })
}
