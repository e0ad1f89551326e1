//! Which foreign members are needed: the undefined device symbols of what stays, closed over archives.

use std::collections::{BTreeSet, HashMap};

use super::{File, Need, Scene};
use crate::object::{DeviceSymbols, Id};

/// A member of a file of the scene.
pub type MemberRef = (usize, usize);

/// The needs of `kept` that none of them meets, with who has them. Empty also means that nothing can be needed of others.
pub fn open(scene: &Scene, kept: &[MemberRef]) -> Vec<(MemberRef, Vec<u8>)> {
    let given: BTreeSet<&[u8]> = kept.iter().filter_map(|&m| symbols(scene, m)).flat_map(|s| s.defines.iter().map(Vec::as_slice)).collect();
    let mut open = Vec::new();
    for &member in kept {
        match symbols(scene, member) {
            Some(s) if s.opaque => open.push((member, Vec::new())),
            Some(s) => open.extend(s.needs.iter().filter(|n| !given.contains(n.as_slice())).map(|n| (member, n.clone()))),
            None => {}
        }
    }
    open
}

/// For every member of `candidates` that something which stays needs, who needs it.
///
/// `kept` are the members that stay whatever happens. A member that turns out to be needed stays too, and its own
/// needs count.
pub fn needed(scene: &Scene, kept: &[MemberRef], candidates: &[MemberRef]) -> HashMap<MemberRef, Need> {
    let all = || candidates.iter().map(|&m| (m, Need::Unknowable)).collect();
    // A file that could not be looked into may refer to anything.
    if scene.files.iter().any(File::hides_code) {
        return all();
    }
    let mut needed = HashMap::new();
    let mut kept = kept.to_vec();
    loop {
        let open = open(scene, &kept);
        // LTO-IR hides its names: it may refer to anything, and, once something is wanted, anything may be in it.
        if open.iter().any(|(m, _)| symbols(scene, *m).is_some_and(|s| s.opaque)) {
            return all();
        }
        // Of two that define a symbol the first is taken: the second copy would only clash with it.
        let mut taken = BTreeSet::new();
        let mut found = Vec::new();
        for &candidate in candidates.iter().filter(|c| !needed.contains_key(*c)) {
            let Some(s) = symbols(scene, candidate) else { continue };
            let wanted = open.iter().find(|(_, n)| s.defines.contains(n) && !taken.contains(n));
            if let Some((by, symbol)) = wanted {
                found.push((candidate, Need::Symbol { by: first_id(scene, *by), symbol: symbol.clone() }));
                taken.extend(s.defines.iter().cloned());
            } else if s.opaque && !open.is_empty() {
                found.push((candidate, Need::Unknowable));
            }
        }
        if found.is_empty() {
            return needed;
        }
        // Where units can't be masked, one that is needed keeps its whole archive, and so the needs of the others.
        if scene.no_mask {
            let files: BTreeSet<usize> = found.iter().map(|(m, _)| m.0).collect();
            let new: BTreeSet<MemberRef> = found.iter().map(|(m, _)| *m).collect();
            let beside = |c: &&MemberRef| files.contains(&c.0) && !needed.contains_key(*c) && !new.contains(*c);
            found.extend(candidates.iter().filter(beside).map(|&c| (c, Need::Beside)));
        }
        kept.extend(found.iter().map(|(m, _)| *m));
        needed.extend(found);
    }
}

fn symbols(scene: &Scene, member: MemberRef) -> Option<&DeviceSymbols> {
    scene.files[member.0].symbols[member.1].as_ref()
}

fn first_id(scene: &Scene, member: MemberRef) -> Id {
    let super::FileState::Read(content) = &scene.files[member.0].state else { return Id::new() };
    content.members()[member.1].units.first().map(|u| u.id.clone()).unwrap_or_default()
}
