//! An audit for people.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::names::{bytes, demangled, source_of};
use crate::audit::{Audit, Call, Entry, Finding, Image, Kind, Note, kernels};
use crate::object::Id;
use crate::plan::shown_id;

/// Of a list of names, this many are shown.
const SHOWN: usize = 12;

/// The whole report. `raw`: kernels by their mangled names; `all`: every image with device-linked code, not only those with a finding.
pub fn report(audit: &Audit, raw: bool, all: bool) -> String {
    let mut out = String::new();
    let linked: Vec<&Image> = audit.images.iter().filter(|i| i.is_linked()).collect();
    let _ = writeln!(out, "{} files looked at, {} images, {} with device-linked code", audit.files, audit.images.len(), linked.len());
    if all {
        for image in &linked {
            let _ = writeln!(out, "{}", one_line(image));
        }
    }
    for finding in &audit.findings {
        let _ = write!(out, "\n{}", text(audit, finding, raw));
    }
    let notes: Vec<String> = audit.notes.iter().map(|note| note_text(audit, note, all)).collect();
    let mut seen = BTreeSet::new();
    for note in notes.iter().filter(|n| !n.is_empty() && seen.insert(n.as_str())) {
        let _ = writeln!(out, "\nnote: {note}");
    }
    let guarded = linked.iter().filter(|i| !i.guarded.is_empty()).count();
    let _ = match (audit.findings.len(), linked.len(), guarded) {
        (0, 0, _) => writeln!(out, "\nnothing here takes part in device linking: whole-program code registers by itself"),
        (0, _, 0) => writeln!(out, "\nno stub starves"),
        (0, _, n) => writeln!(out, "\nno stub starves; {n} image(s) guarded by dlink-shim"),
        (n, _, _) => writeln!(out, "\n{n} finding(s)"),
    };
    out
}

/// What an image holds, in one line.
fn one_line(image: &Image) -> String {
    let mut parts = Vec::new();
    if !image.stubs.is_empty() {
        let own = image.stubs.iter().filter(|id| image.registrars.contains_key(*id)).count();
        parts.push(format!("a stub for {} unit(s), {own} of them with their registrar here", image.stubs.len()));
        if image.stub_count > 1 {
            parts.push(format!("{} stubs, here taken as one", image.stub_count));
        }
        for (entry, word) in [(Entry::Exported, "exported"), (Entry::Protected, "protected"), (Entry::Hidden, "hidden")] {
            match image.entries.values().filter(|e| **e == entry).count() {
                0 => {}
                n => parts.push(format!("{n} {word}")),
            }
        }
    }
    match image.registrars.keys().filter(|id| !image.stubs.contains(id)).count() {
        0 => {}
        n => parts.push(format!("{n} unit(s) that register with another image's stub")),
    }
    if !image.guarded.is_empty() {
        parts.push(format!("{} guarded by dlink-shim", image.guarded.len()));
    }
    if !image.copies.is_empty() {
        parts.push(format!("the same as {}", list(image.copies.iter().map(|p| p.display().to_string()))));
    }
    if let Some(code) = &image.device_code {
        parts.push(format!("{} of relocatable code", bytes(code.end - code.start)));
    }
    format!("  {}: {}", image.path.display(), parts.join(", "))
}

fn text(audit: &Audit, finding: &Finding, raw: bool) -> String {
    let name = |i: usize| audit.images[i].path.display().to_string();
    let names = |list: &[usize]| list.iter().map(|&i| audit.images[i].name()).collect::<Vec<_>>().join(", ");
    let mut out = String::new();
    let place = finding.program.map(|p| format!(" in {}", audit.images[p].name())).unwrap_or_default();
    let what = match finding.kind {
        Kind::Starved => format!("never registers its kernels{place}"),
        Kind::StarvedInSomeOrders => "does not register its kernels in some load orders".into(),
        Kind::NoRegistrar => format!("its stub waits for a unit that no image here registers{place}"),
        Kind::DoesNotLoad => format!("does not load{place}"),
    };
    let _ = writeln!(out, "{}: {what}", name(finding.image));
    let mut same: BTreeMap<String, Vec<&Id>> = BTreeMap::new();
    for missing in &finding.missing {
        let by_name: Vec<usize> = missing.registrars.iter().filter(|(_, c)| *c == Call::FirstFound).map(|(i, _)| *i).collect();
        let own: Vec<usize> = missing.registrars.iter().filter(|(_, c)| *c == Call::OwnStub).map(|(i, _)| *i).collect();
        let why = match finding.kind {
            Kind::DoesNotLoad => "its record __fatbinwrap<id> is hidden in the image that has it".to_owned(),
            _ if by_name.is_empty() && own.is_empty() => "its registrar is in none of these images".to_owned(),
            _ if by_name.is_empty() => format!("its registrar is in {} and calls the stub there", names(&own)),
            _ => match missing.taken_by {
                Some(taker) => {
                    format!("its registrar is in {} and calls the first stub found, that of {}", names(&by_name), names(&[taker]))
                }
                None => format!(
                    "its registrar is in {} and calls the first stub that the dynamic linker finds, of {}",
                    names(&by_name),
                    names(&missing.candidates)
                ),
            },
        };
        same.entry(why).or_default().push(&missing.id);
    }
    for (why, ids) in same {
        let _ = writeln!(out, "    waits for {}: {why}", list(ids.iter().map(|id| unit(id))));
    }
    let own = finding.missing.iter().all(|m| m.registrars.iter().any(|(i, _)| *i == finding.image));
    if finding.kind == Kind::StarvedInSomeOrders && own {
        let _ = writeln!(out, "    (not where each is opened by itself with RTLD_LOCAL, as Python opens its modules)");
    }
    if audit.images[finding.image].stub_count > 1 {
        let count = audit.images[finding.image].stub_count;
        let _ = writeln!(out, "    (it has {count} stubs, and which of them waits can't be told: some of this may not be lost)");
    }
    let rivals: BTreeSet<usize> =
        finding.missing.iter().flat_map(|m| m.candidates.iter().copied()).filter(|i| *i != finding.image).collect();
    let verb = match finding.kind {
        Kind::Starved | Kind::DoesNotLoad => "lost".to_owned(),
        Kind::StarvedInSomeOrders => format!("lost unless loaded before {}", list(rivals.iter().map(|&i| audit.images[i].name()))),
        Kind::NoRegistrar => "lost, unless another image registers it".to_owned(),
    };
    let lost = lost_kernels(audit, finding);
    let shown = list(lost.0.iter().map(|k| if raw { String::from_utf8_lossy(k).into_owned() } else { demangled(k) }));
    let unnamed = if lost.1.is_empty() { String::new() } else { format!("the kernels of {}", list(lost.1.iter().map(|id| shown_id(id)))) };
    let shown: Vec<String> = [shown, unnamed].into_iter().filter(|s| !s.is_empty()).collect();
    if !shown.is_empty() {
        let _ = writeln!(out, "    {verb}: {}", shown.join("; "));
    }
    let _ = writeln!(out, "    cure: {}", cure(audit, finding));
    out
}

fn cure(audit: &Audit, finding: &Finding) -> String {
    let names: Vec<String> = finding.rebuild.iter().map(|&i| audit.images[i].name()).collect();
    let first = match finding.kind {
        Kind::NoRegistrar => "if another image registers it, audit that one too; otherwise ",
        _ => "",
    };
    format!(
        "{first}rebuild {} with dlink-shim before nvcc; `dlink-shim explain -- nvcc -dlink …` with its device-link line shows what changes",
        names.join(" and ")
    )
}

/// Mangled names of the kernels that a finding loses, and the units whose kernels can't be named.
pub(super) fn lost_kernels(audit: &Audit, finding: &Finding) -> (BTreeSet<Vec<u8>>, BTreeSet<Id>) {
    let mut by_image: BTreeMap<usize, BTreeMap<Id, BTreeSet<Vec<u8>>>> = BTreeMap::new();
    let (mut named, mut unnamed) = (BTreeSet::new(), BTreeSet::new());
    for (image, id) in &finding.lost {
        let kernels = by_image.entry(*image).or_insert_with(|| kernels::of_image(&audit.images[*image]));
        match kernels.get(id) {
            Some(kernels) => named.extend(kernels.iter().cloned()),
            None => {
                unnamed.insert(id.clone());
            }
        }
    }
    (named, unnamed)
}

fn note_text(audit: &Audit, note: &Note, all: bool) -> String {
    let name = |i: usize| audit.images[i].name();
    match note {
        Note::CountsOn { image, units, on } if on.is_empty() => format!(
            "{} has {} unit(s) and no stub for them: it counts on an image that is not among these files ({})",
            audit.images[*image].path.display(),
            units.len(),
            list(units.iter().map(|id| shown_id(id)))
        ),
        Note::CountsOn { image, units, on } => format!(
            "{} has {} unit(s) without a stub of its own; they register with the stub of {}",
            audit.images[*image].path.display(),
            units.len(),
            list(on.iter().map(|&i| name(i)))
        ),
        Note::SharedUnit { id, images } if all => {
            let images = images.iter().map(|(i, entry)| format!("{} ({})", name(*i), word(*entry)));
            format!("{} has a stub in several images, and none starves: {}", shown_id(id), list(images))
        }
        Note::SharedUnit { .. } => String::new(),
    }
}

fn word(entry: Entry) -> &'static str {
    match entry {
        Entry::Exported => "exported",
        Entry::Protected => "protected",
        Entry::Hidden => "hidden",
    }
}

/// A unit by its source and its id.
fn unit(id: &Id) -> String {
    source_of(id).map_or_else(|| shown_id(id), |source| format!("{source} ({})", shown_id(id)))
}

/// Names joined by commas, the first few of many.
fn list(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    match names.len().checked_sub(SHOWN) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{}, and {more} more", names[..SHOWN].join(", ")),
    }
}
