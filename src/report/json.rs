//! The plan for programs. Bytes that are no UTF-8 are shown with U+FFFD.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{evidence, file_verdict, reason, text, verdict};
use crate::analysis::Analysis;
use crate::object::Member;
use crate::plan::{Evidence, FilePlan, shown_id};

/// A device link and what was decided: the part that `explain --json` and the build report have in common.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Link {
    /// Always true: it tells these objects from what `explain --json` prints for other commands.
    pub device_link: bool,
    /// The nvcc that runs.
    pub nvcc: String,
    /// Everything on the line, in order of first mention; empty when the line was not understood.
    pub files: Vec<LinkedFile>,
    /// What else there is to say.
    pub notes: Vec<String>,
    /// The line that went to stderr.
    pub warning: Option<String>,
}

/// A file of a device link.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LinkedFile {
    /// The library's name as `-l` would say it, or the file's name.
    pub name: String,
    /// Where it is; null when it was not found.
    pub path: Option<String>,
    /// `strip`, `cure` or `leave`.
    pub verdict: String,
    /// Why.
    pub reason: String,
    /// Its relocatable device objects.
    pub units: Vec<LinkedUnit>,
}

/// A unit of a file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LinkedUnit {
    /// The module id.
    pub id: String,
    /// The archive member.
    pub member: Option<String>,
    /// What is known of its registrar, in words.
    pub evidence: String,
    /// The shared library whose stub registers it, where one is known.
    pub stub_in: Option<String>,
    /// `own`, `strip`, `mask`, `guard`, `protect`, `copy`, `leave` or `excluded`.
    pub verdict: String,
    /// Why, where the verdict alone does not say it.
    pub reason: Option<String>,
    /// Bytes of device code as they lie in the file, all architectures, compressed where they are. The units of an object
    /// that `ld -r` joined share theirs evenly.
    pub bytes: u64,
}

/// What `explain --json` prints.
#[derive(Serialize)]
struct Explained {
    #[serde(flatten)]
    link: Link,
    /// Null when the command runs as given.
    command: Option<Vec<String>>,
    unset: Option<Vec<&'static str>>,
    new_files: Option<Vec<(String, String)>>,
}

impl Link {
    /// The plan of a device link.
    pub fn new(analysis: &Analysis, nvcc: &Path) -> Self {
        Self {
            device_link: true,
            nvcc: nvcc.to_string_lossy().into_owned(),
            files: analysis.plan.files.iter().map(|f| file(analysis, f)).collect(),
            notes: super::notes(analysis),
            warning: analysis.plan.warning.clone(),
        }
    }

    /// A device link that nobody could look into.
    pub fn unread(nvcc: &Path) -> Self {
        Self { device_link: true, nvcc: nvcc.to_string_lossy().into_owned(), ..Self::default() }
    }

    /// Bytes of device code that the decisions keep out of the device link.
    pub fn unlinked_bytes(&self) -> u64 {
        self.files.iter().flat_map(|f| &f.units).filter(|u| matches!(u.verdict.as_str(), "strip" | "mask")).map(|u| u.bytes).sum()
    }
}

/// One object: a [`Link`], and `command` (null when the command runs as given).
pub fn report(analysis: &Analysis, nvcc: &Path) -> Value {
    let link = Link::new(analysis, nvcc);
    let (command, unset, new_files) = match text::command(analysis, nvcc) {
        Some(command) => (Some(command.words), Some(command.unset), Some(command.files)),
        None => (None, None, None),
    };
    serde_json::to_value(Explained { link, command, unset, new_files }).unwrap_or_default()
}

fn file(analysis: &Analysis, plan: &FilePlan) -> LinkedFile {
    let scene = &analysis.scene;
    let file = &scene.files[plan.file];
    let (word, why) = file_verdict(&plan.verdict);
    LinkedFile {
        name: file.name(),
        path: file.path.as_ref().map(|p| p.to_string_lossy().into_owned()),
        verdict: word.into(),
        reason: why.into(),
        units: plan
            .units
            .iter()
            .map(|u| LinkedUnit {
                id: shown_id(&u.unit(file).id),
                member: u.member(file).name.as_ref().map(|m| String::from_utf8_lossy(m).into_owned()),
                evidence: evidence(scene, &u.evidence),
                stub_in: if let Evidence::StubIn(so) = u.evidence {
                    Some(scene.file(so).place().to_string_lossy().into_owned())
                } else {
                    None
                },
                verdict: verdict(u).into(),
                reason: reason(scene, u),
                bytes: unit_bytes(u.member(file)),
            })
            .collect(),
    }
}

fn unit_bytes(member: &Member) -> u64 {
    let code = &member.device_code;
    code.end.saturating_sub(code.start) / (member.units.len().max(1) as u64)
}
