//! What is wrong in a set of images, and what is only worth knowing.

use std::collections::{BTreeMap, BTreeSet};

use super::image::{Call, Entry, Image};
use super::scope::{Outcome, World, worlds};
use crate::object::Id;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A stub waits in vain, whatever the load order: its units' kernels never register.
    Starved,
    /// A stub waits in vain in some load orders.
    StarvedInSomeOrders,
    /// A stub waits for a unit that no image here registers.
    NoRegistrar,
    /// The image needs a unit's record that its owner hides.
    DoesNotLoad,
}

/// A unit that a stub waits for in vain.
#[derive(Clone, Debug)]
pub struct Missing {
    /// The unit.
    pub id: Id,
    /// Images with a registrar of it, and where its call goes.
    pub registrars: Vec<(usize, Call)>,
    /// Images whose stub such a call by name can end in.
    pub candidates: Vec<usize>,
    /// The image whose stub gets the calls, where the order is known.
    pub taken_by: Option<usize>,
}

/// One thing that is wrong.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What.
    pub kind: Kind,
    /// The image.
    pub image: usize,
    /// The program in whose process it is so, where that decides.
    pub program: Option<usize>,
    /// What its stub waits for.
    pub missing: Vec<Missing>,
    /// Registrars (image, unit) whose kernels never register.
    pub lost: BTreeSet<(usize, Id)>,
    /// Images to rebuild.
    pub rebuild: Vec<usize>,
}

/// What is worth knowing and no fault.
#[derive(Clone, Debug)]
pub enum Note {
    /// The registrars of `image` call the stubs of `on`; empty when none is among the files.
    CountsOn {
        /// The image without the stub.
        image: usize,
        /// Its units.
        units: Vec<Id>,
        /// The images with the stub.
        on: Vec<usize>,
    },
    /// Several images have a stub for the unit, and nothing starves.
    SharedUnit {
        /// The unit.
        id: Id,
        /// The images, and how others see their stub.
        images: Vec<(usize, Entry)>,
    },
}

/// Judges the set. `known`: the images are those of one process, in lookup order.
pub fn judge(images: &[Image], known: bool) -> (Vec<Finding>, Vec<Note>) {
    let mut findings: BTreeMap<usize, Finding> = BTreeMap::new();
    for world in worlds(images, known) {
        let bound: BTreeSet<usize> = world.fixed.iter().copied().collect();
        for group in world.groups(images) {
            for finding in of_group(images, &group) {
                // With a program, libraries that it does not need are judged by the same token, all others alone.
                let stronger = |old: &Finding| old.kind != Kind::Starved && finding.kind == Kind::Starved;
                if findings.get(&finding.image).is_none_or(|old| stronger(old) && bound.contains(&finding.image)) {
                    findings.insert(finding.image, finding);
                }
            }
        }
    }
    let notes = notes(images, &findings);
    (findings.into_values().collect(), notes)
}

fn of_group(images: &[Image], group: &World) -> Vec<Finding> {
    let members: Vec<usize> = group.fixed.iter().chain(&group.free).copied().collect();
    let outcomes: Vec<Outcome> = group.orders().iter().map(|order| Outcome::of(images, order)).collect();
    let program = group.program.filter(|_| group.free.is_empty());
    let mut findings = Vec::new();
    for &image in &members {
        if let Some(finding) = does_not_load(images, &members, image) {
            findings.push(Finding { program, ..finding });
            continue;
        }
        let mut lost = BTreeSet::new();
        let (mut waits, mut waits_and_loses) = (BTreeSet::new(), BTreeSet::new());
        let mut starving = 0;
        for outcome in &outcomes {
            let Some(vain) = outcome.missing.get(&image).filter(|m| !m.is_empty()) else { continue };
            starving += 1;
            waits.extend(vain.iter().cloned());
            if outcome.lost(image).next().is_some() {
                waits_and_loses.extend(vain.iter().cloned());
            }
            lost.extend(outcome.lost(image).cloned());
        }
        let missing = if lost.is_empty() { waits } else { waits_and_loses };
        let registered = |id: &Id| members.iter().any(|&m| images[m].registrars.contains_key(id));
        let nobody = missing.iter().any(|id| !registered(id));
        let always = starving == outcomes.len();
        let kind = match (!lost.is_empty(), nobody) {
            (_, true) => Kind::NoRegistrar,
            (true, _) if always => Kind::Starved,
            (true, _) => Kind::StarvedInSomeOrders,
            // Silent, and nobody's kernels are lost by it.
            (false, _) => continue,
        };
        let missing: Vec<Missing> = missing.iter().map(|id| why(images, &members, &outcomes, id)).collect();
        let rebuild = rebuild(images, &members, image, &missing);
        findings.push(Finding { kind, image, program, missing, lost, rebuild });
    }
    findings
}

fn why(images: &[Image], members: &[usize], outcomes: &[Outcome], id: &Id) -> Missing {
    let registrars: Vec<(usize, Call)> = members.iter().filter_map(|&m| Some((m, *images[m].registrars.get(id)?))).collect();
    let candidates = members.iter().copied().filter(|&m| images[m].exports(id)).collect();
    let taken_by = match outcomes {
        [only] => registrars.iter().find_map(|(m, _)| only.reached.get(&(*m, id.clone())).copied().flatten()),
        _ => None,
    };
    Missing { id: id.clone(), registrars, candidates, taken_by }
}

/// The fewest images that, rebuilt with dlink-shim, make everything register: those whose stub waits for a unit that is not
/// theirs; where there are none, or several images have the unit's host object, those too.
fn rebuild(images: &[Image], members: &[usize], image: usize, missing: &[Missing]) -> Vec<usize> {
    let mut out = BTreeSet::new();
    for unit in missing {
        let waiting = |m: &&usize| images[**m].stubs.contains(&unit.id) && !images[**m].guarded.contains(&unit.id);
        let (own, foreign): (Vec<usize>, Vec<usize>) =
            members.iter().filter(waiting).partition(|&&m| images[m].registrars.contains_key(&unit.id));
        if foreign.is_empty() || own.len() > 1 {
            out.extend(own);
        }
        out.extend(foreign);
    }
    if out.is_empty() {
        out.insert(image);
    }
    out.into_iter().collect()
}

fn does_not_load(images: &[Image], members: &[usize], image: usize) -> Option<Finding> {
    let given = |id: &Id| members.iter().any(|&m| images[m].gives_wrapper.contains(id));
    let hidden = |id: &Id| members.iter().any(|&m| m != image && images[m].present.contains(id));
    let wanted: Vec<&Id> = images[image].wants_wrapper.iter().filter(|id| !given(id) && hidden(id)).collect();
    if wanted.is_empty() {
        return None;
    }
    let missing: Vec<Missing> = wanted.iter().map(|id| why(images, members, &[], id)).collect();
    let lost = images[image].registrars.keys().map(|id| (image, id.clone())).collect();
    Some(Finding { kind: Kind::DoesNotLoad, image, program: None, missing, lost, rebuild: vec![image] })
}

fn notes(images: &[Image], findings: &BTreeMap<usize, Finding>) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut stubs: BTreeMap<&Id, Vec<(usize, Entry)>> = BTreeMap::new();
    for (index, image) in images.iter().enumerate() {
        let foreign: Vec<Id> = image.registrars.keys().filter(|id| !image.stubs.contains(id)).cloned().collect();
        let on: Vec<usize> = (0..images.len()).filter(|&o| o != index && foreign.iter().any(|id| images[o].exports(id))).collect();
        if !foreign.is_empty() {
            notes.push(Note::CountsOn { image: index, units: foreign, on });
        }
        for (id, entry) in image.entries.iter().filter(|(id, _)| image.stubs.contains(id)) {
            stubs.entry(id).or_default().push((index, *entry));
        }
    }
    let told: BTreeSet<&Id> = findings.values().flat_map(|f| f.missing.iter().map(|m| &m.id)).collect();
    for (id, images) in stubs.into_iter().filter(|(id, images)| images.len() > 1 && !told.contains(id)) {
        notes.push(Note::SharedUnit { id: id.clone(), images });
    }
    notes
}
