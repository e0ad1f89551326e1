//! An audit for programs. Bytes that are no UTF-8 are shown with U+FFFD.

use serde_json::{Value, json};

use super::audit::lost_kernels;
use super::names::{demangled, source_of};
use crate::audit::{Audit, Finding, Image, Note};
use crate::object::Id;

/// The whole report.
pub fn report(audit: &Audit) -> Value {
    json!({
        "files": audit.files,
        "images": audit.images.iter().filter(|i| i.is_linked()).map(image).collect::<Vec<_>>(),
        "findings": audit.findings.iter().map(|f| finding(audit, f)).collect::<Vec<_>>(),
        "notes": audit.notes.iter().map(|n| note(audit, n)).collect::<Vec<_>>(),
        "failures": audit.failures,
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn image(image: &Image) -> Value {
    let stubs = image.stubs.iter().map(|id| {
        json!({
            "unit": text(id),
            "source": source_of(id),
            "entry": image.entries.get(id),
            "guarded": image.guarded.contains(id),
            "registrar_here": image.registrars.contains_key(id),
        })
    });
    let units = image.present.iter().map(|id| json!({ "unit": text(id), "source": source_of(id), "registrar": image.registrars.get(id) }));
    json!({
        "path": image.path.to_string_lossy(),
        "soname": image.soname.as_deref().map(text),
        "program": image.program,
        "stub_count": image.stub_count,
        "stubs": stubs.collect::<Vec<_>>(),
        "units": units.collect::<Vec<_>>(),
        "copies": image.copies.iter().map(|p| p.to_string_lossy()).collect::<Vec<_>>(),
        "guarded": !image.guarded.is_empty(),
    })
}

fn path(audit: &Audit, index: usize) -> String {
    audit.images[index].path.to_string_lossy().into_owned()
}

fn ids<'a>(ids: impl Iterator<Item = &'a Id>) -> Vec<String> {
    ids.map(|id| text(id)).collect()
}

fn finding(audit: &Audit, finding: &Finding) -> Value {
    let paths = |list: &[usize]| list.iter().map(|&i| path(audit, i)).collect::<Vec<_>>();
    let missing = finding.missing.iter().map(|m| {
        json!({
            "unit": text(&m.id),
            "registrars": m.registrars.iter().map(|(i, call)| json!({ "image": path(audit, *i), "calls": call })).collect::<Vec<_>>(),
            "candidates": paths(&m.candidates),
            "taken_by": m.taken_by.map(|i| path(audit, i)),
        })
    });
    let (kernels, unnamed) = lost_kernels(audit, finding);
    json!({
        "kind": finding.kind,
        "image": path(audit, finding.image),
        "program": finding.program.map(|p| path(audit, p)),
        "waits_for": missing.collect::<Vec<_>>(),
        "lost_kernels": kernels.iter().map(|k| json!({ "name": text(k), "demangled": demangled(k) })).collect::<Vec<_>>(),
        "lost_units_without_names": ids(unnamed.iter()),
        "rebuild": paths(&finding.rebuild),
    })
}

fn note(audit: &Audit, note: &Note) -> Value {
    match note {
        Note::CountsOn { image, units, on } => json!({
            "kind": "counts-on-another-image",
            "image": path(audit, *image),
            "units": ids(units.iter()),
            "stubs_in": on.iter().map(|&i| path(audit, i)).collect::<Vec<_>>(),
        }),
        Note::SharedUnit { id, images } => json!({
            "kind": "shared-unit",
            "unit": text(id),
            "images": images.iter().map(|(i, entry)| json!({ "image": path(audit, *i), "entry": entry })).collect::<Vec<_>>(),
        }),
    }
}
