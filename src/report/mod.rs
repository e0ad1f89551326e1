//! Views of a plan, of an audit, of files, and the report of a whole build.

pub mod append;
pub mod audit;
pub mod audit_json;
pub mod build;
pub mod entry;
pub mod inspect;
pub mod inspect_json;
pub mod json;
pub mod names;
pub mod text;

use crate::analysis::Analysis;
use crate::object::Content;
use crate::plan::{Evidence, FileState, FileVerdict, Need, Scene, UnitPlan, Verdict, shown_id};

/// The words for what is known of a unit's registrar.
fn evidence(scene: &Scene, evidence: &Evidence) -> String {
    let place = |file| scene.file(file).place().display();
    match *evidence {
        Evidence::PlainObject => "plain object".into(),
        Evidence::DeviceOnly => "device-only".into(),
        Evidence::StubIn(so) => format!("stub in {}", place(so)),
        Evidence::FullMember => "full archive member".into(),
        Evidence::FullMemberOrStubIn(so) => format!("full archive member, stub also in {}", place(so)),
    }
}

/// One word for a unit's verdict.
fn verdict(unit: &UnitPlan) -> &'static str {
    match unit.verdict {
        Verdict::Own => "own",
        Verdict::Strip => "strip",
        Verdict::Mask => "mask",
        Verdict::Guard(_) => "guard",
        Verdict::Protect => "protect",
        Verdict::Copy(_) => "copy",
        Verdict::Leave(_) => "leave",
        Verdict::Excluded => "excluded",
    }
}

/// Why, where the verdict alone does not say it.
fn reason(scene: &Scene, unit: &UnitPlan) -> Option<String> {
    match &unit.verdict {
        Verdict::Guard(Need::Symbol(reference)) => {
            Some(format!("{} needs `{}`", shown_id(&reference.by), String::from_utf8_lossy(&reference.symbol)))
        }
        Verdict::Guard(Need::Unknowable) => Some("what needs it can't be read".into()),
        Verdict::Guard(Need::Beside) => Some("a link-time-optimising device link can't leave it out".into()),
        Verdict::Guard(Need::MayBeHere) => Some("its host object may or may not end up in this image".into()),
        Verdict::Protect => Some("its host object can only come from this link".into()),
        Verdict::Copy(first) => Some(format!("already in {}", scene.file(*first).name())),
        Verdict::Leave(why) => Some(why.text(scene)),
        Verdict::Excluded => Some("a stub on the line covers its id".into()),
        _ => None,
    }
}

/// The word and the reason for a file's verdict.
fn file_verdict(verdict: &FileVerdict) -> (&'static str, &str) {
    match verdict {
        FileVerdict::Leave(why) => ("leave", why),
        FileVerdict::Cure(why) => ("cure", why),
        FileVerdict::Strip(why) => ("strip", why),
    }
}

/// What else there is to say about a plan.
fn notes(analysis: &Analysis) -> Vec<String> {
    let mut notes = Vec::new();
    for plan in &analysis.plan.files {
        let file = &analysis.scene.files[plan.file];
        let FileState::Read(content) = &file.state else { continue };
        // A borrowed unit's variables exist once in each image that links it.
        let borrowed = plan.units.iter().filter(|u| matches!(u.verdict, Verdict::Guard(Need::Symbol(_) | Need::Unknowable)));
        let borrowed: Vec<&[u8]> = borrowed.map(|u| u.unit(file).id.as_slice()).collect();
        for (index, member) in content.members().iter().enumerate() {
            let Some(symbols) = file.symbols(index).filter(|s| s.variables().next().is_some()) else { continue };
            if let Some(unit) = member.units.iter().find(|u| borrowed.contains(&u.id.as_slice())) {
                let names: Vec<_> = symbols.variables().map(|v| String::from_utf8_lossy(v)).collect();
                notes.push(format!(
                    "{}: {} device variable(s) of unit {} exist once more in this image: {}",
                    file.name(),
                    names.len(),
                    shown_id(&unit.id),
                    names.join(", ")
                ));
            }
        }
        if content.members().iter().any(|m| !m.stubs.is_empty() && m.name.is_some()) {
            notes.push(format!("{}: holds a stub, so nvlink takes no device symbols from the units it covers", file.name()));
        }
        // One file, two ids: the library and the shared library were built at different times.
        for unit in plan.units.iter().map(|u| u.unit(file)) {
            let stale = analysis.scene.files.iter().find_map(|f| match &f.state {
                FileState::Read(Content::Shared(s)) if !s.stubs.contains(&unit.id) => {
                    s.stubs.iter().find(|id| same_file(id, &unit.id)).map(|id| (f.name(), id))
                }
                _ => None,
            });
            if let Some((so, id)) = stale {
                let (name, unit, id) = (file.name(), shown_id(&unit.id), shown_id(id));
                notes.push(format!("{name}: unit {unit} looks like another build of {id} in {so}: rebuild both"));
            }
        }
    }
    if analysis.protects() {
        notes.push("this image's own units are protected: another image with the same units can't take their registration".into());
    }
    notes
}

/// Whether two ids are of one source file and differ in the suffix only.
fn same_file(a: &[u8], b: &[u8]) -> bool {
    let stem = |id: &[u8]| -> Option<Vec<u8>> {
        let text = std::str::from_utf8(id).ok()?;
        let mut parts = text.splitn(4, '_');
        let (_, crc, length) = (parts.next()?, parts.next()?, parts.next()?);
        let rest = parts.next()?;
        Some(format!("{crc}_{}", rest.get(..length.parse().ok()?)?).into_bytes())
    };
    a != b && stem(a).is_some() && stem(a) == stem(b)
}
