//! Which foreign members are needed: the undefined device symbols of what stays, closed over archives.

use std::collections::{BTreeSet, HashMap};

use super::{Need, Scene};
use crate::object::Id;

/// A member of a file of the scene.
pub type MemberRef = (usize, usize);

/// For every member of `candidates` that something which stays needs, who needs it.
///
/// `kept` are the members that stay whatever happens. A member that turns out to be needed stays too, and its own
/// needs count.
pub fn needed(scene: &Scene, kept: &[MemberRef], candidates: &[MemberRef]) -> HashMap<MemberRef, Need> {
    let symbols = |m: MemberRef| &scene.files[m.0].symbols[m.1];
    let mut needed = HashMap::new();
    // LTO-IR hides its names: it may refer to anything, and anything may refer to it.
    let blind = kept.iter().any(|&m| symbols(m).opaque);
    for &member in candidates {
        if blind || symbols(member).opaque {
            needed.insert(member, Need::Unknowable);
        }
    }
    let mut definers: HashMap<&[u8], MemberRef> = HashMap::new();
    for &member in candidates {
        for name in &symbols(member).defines {
            definers.entry(name).or_insert(member);
        }
    }
    let mut queue: Vec<MemberRef> = kept.iter().copied().chain(needed.keys().copied()).collect();
    let mut given: BTreeSet<&[u8]> = kept.iter().flat_map(|&m| symbols(m).defines.iter().map(Vec::as_slice)).collect();
    while let Some(member) = queue.pop() {
        for name in &symbols(member).needs {
            if given.contains(name.as_slice()) {
                continue;
            }
            let Some(&definer) = definers.get(name.as_slice()) else { continue };
            given.extend(symbols(definer).defines.iter().map(Vec::as_slice));
            if let std::collections::hash_map::Entry::Vacant(slot) = needed.entry(definer) {
                slot.insert(Need::Symbol { by: first_id(scene, member), symbol: name.clone() });
                queue.push(definer);
            }
        }
    }
    needed
}

fn first_id(scene: &Scene, member: MemberRef) -> Id {
    let super::FileState::Read(content) = &scene.files[member.0].state else { return Id::new() };
    content.members()[member.1].units.first().map(|u| u.id.clone()).unwrap_or_default()
}
