//! Which foreign members are needed: the undefined device symbols of what stays, closed over archives.

use std::collections::{BTreeSet, HashMap};

use super::roles::{self, Roles};
use super::{File, MemberRef, Names, Need, Reference, Scene};
use crate::object::Id;

/// The needs of `kept` that none of them meets, with who has them. Empty also means that nothing can be needed of others.
pub fn open<'s>(scene: &'s Scene, roles: &Roles<'_>, kept: &[MemberRef]) -> Vec<(MemberRef, &'s [u8])> {
    let whole = kept.iter().filter(|m| !roles.half.contains(m));
    let given: BTreeSet<&[u8]> = whole.filter_map(|&m| symbols(scene, m)).flat_map(Names::defines).collect();
    let mut open = Vec::new();
    for &member in kept {
        match symbols(scene, member) {
            Some(s) if s.opaque() => open.push((member, &[][..])),
            Some(s) => open.extend(s.needs().filter(|n| !given.contains(n)).map(|n| (member, n))),
            None => {}
        }
    }
    open
}

/// For every candidate that something which stays needs, who needs it. A member that turns out to be needed stays too, and its own
/// needs count.
pub fn needed(scene: &Scene, roles: &Roles<'_>) -> HashMap<MemberRef, Need> {
    let candidates = &roles.candidates;
    let all = || candidates.iter().map(|&m| (m, Need::Unknowable)).collect();
    // A file that could not be looked into may refer to anything.
    if scene.files.iter().any(File::hides_code) {
        return all();
    }
    let mut needed = HashMap::new();
    let mut kept = roles.kept.clone();
    loop {
        let open = open(scene, roles, &kept);
        // LTO-IR hides its names: it may refer to anything, and, once something is wanted, anything may be in it.
        if open.iter().any(|(m, _)| symbols(scene, *m).is_some_and(Names::opaque)) {
            return all();
        }
        // Who asks first for each name, by its place in `open`.
        let mut asked: HashMap<&[u8], usize> = HashMap::new();
        for (place, (_, name)) in open.iter().enumerate() {
            asked.entry(name).or_insert(place);
        }
        let mut found = Vec::new();
        for &candidate in candidates.iter().filter(|c| !needed.contains_key(*c)) {
            let Some(s) = symbols(scene, candidate) else { continue };
            if let Some(first) = s.defines().filter_map(|n| asked.get(n)).min() {
                let (by, symbol) = open[*first];
                found.push((candidate, Need::Symbol(Box::new(Reference { by: first_id(scene, by), symbol: symbol.into() }))));
                // Of two that define a symbol the first is taken: the second copy would only clash with it.
                for name in s.defines() {
                    asked.remove(name);
                }
            } else if s.opaque() && !open.is_empty() {
                found.push((candidate, Need::Unknowable));
            }
        }
        if found.is_empty() {
            return needed;
        }
        // What can't be masked stays with whatever is needed of its archive, and so do its needs.
        let files: BTreeSet<usize> = found.iter().map(|(m, _)| m.file()).collect();
        let new: BTreeSet<MemberRef> = found.iter().map(|(m, _)| *m).collect();
        let maskable = |m: MemberRef| roles::can_be_masked(scene, scene.member(m));
        let beside = |c: &&MemberRef| files.contains(&c.file()) && !needed.contains_key(*c) && !new.contains(*c) && !maskable(**c);
        found.extend(candidates.iter().filter(beside).map(|&c| (c, Need::Beside)));
        kept.extend(found.iter().map(|(m, _)| *m));
        needed.extend(found);
    }
}

fn symbols(scene: &Scene, member: MemberRef) -> Option<&Names> {
    scene.files[member.file()].symbols(member.member())
}

fn first_id(scene: &Scene, at: MemberRef) -> Id {
    scene.member(at).units.first().map(|u| u.id.clone()).unwrap_or_default()
}
