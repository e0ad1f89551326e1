//! Who stays whatever happens, who may go, and which members hold the same unit.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::needs::MemberRef;
use super::{Evidence, FileState, Need, Scene, Wishes};
use crate::object::{Content, Id, Member, Unit};
use crate::rewrite::guard;

/// What is settled before anybody asks what is needed.
#[derive(Default)]
pub(super) struct Roles<'a> {
    /// Ids that nvlink passes over because some input holds a stub for them.
    pub excluded: HashSet<&'a Id>,
    /// Members whose units are all in an earlier file as well, with that file, in archives that go as a whole.
    pub copies: HashMap<MemberRef, usize>,
    /// The same in archives of which something stays.
    pub also_in: HashMap<MemberRef, usize>,
    /// Members that a mask or a missing archive would take from another member of the same unit, which stays.
    tangled: HashSet<MemberRef>,
    /// Members that share the fate of an earlier one in the same archive.
    pub follows: HashMap<MemberRef, MemberRef>,
    /// Members of which a stub on the line covers some units: what they give may be missing.
    pub half: HashSet<MemberRef>,
    /// Who holds a unit, of the files that are not stripped at the user's word.
    pub holders: HashMap<&'a Id, MemberRef>,
    /// What stays whatever is needed.
    pub kept: Vec<MemberRef>,
    /// The same, to ask for one.
    pub staying: HashSet<MemberRef>,
    /// What may go if nobody needs it.
    pub candidates: Vec<MemberRef>,
}

impl<'a> Roles<'a> {
    /// `partial` are archives with copies that something keeps on the line.
    pub fn of(scene: &'a Scene, wishes: &Wishes, partial: &HashSet<usize>) -> Self {
        let excluded = members(scene).flat_map(|(_, m)| &m.stubs).collect();
        let mut roles = Roles { excluded, ..Roles::default() };
        let stripped = |f: usize| Wishes::matches(&wishes.strip, &scene.files[f].name());
        let mut all: Vec<(MemberRef, &Member)> = members(scene).filter(|(r, _)| is_plain(scene, *r) || !stripped(r.0)).collect();
        all.sort_by_cached_key(|(r, m)| (rank(scene, *r, m), *r));
        roles.find_copies(scene, wishes, partial, &all);
        roles.find_tangles(scene, &all);
        let covered = |m: &Member| m.units.iter().any(|u| roles.excluded.contains(&u.id));
        roles.half = all.iter().filter(|(_, m)| covered(m)).map(|(r, _)| *r).collect();
        let own = has_own_units(scene);
        for &(member, m) in &all {
            if roles.copies.contains_key(&member) || roles.follows.contains_key(&member) || roles.is_excluded(m) {
                continue;
            }
            let name = scene.files[member.0].name();
            let decided = Wishes::matches(&wishes.keep, &name) || Wishes::matches(&wishes.guard, &name);
            // What can't be masked stays with what stays beside it, and needs what it needs.
            let decided = decided || roles.tangled.contains(&member) || (!can_be_masked(scene, m) && roles.stays(scene, member.0));
            if is_plain(scene, member) || !own || decided || !is_foreign(scene, member, m) {
                roles.kept.push(member);
            } else {
                roles.candidates.push(member);
            }
        }
        roles.candidates.sort_unstable();
        roles.staying = roles.kept.iter().copied().collect();
        roles
    }

    /// Archives that were to go, copies and all, of which something stays.
    pub fn partial(&self, needed: &HashMap<MemberRef, Need>) -> HashSet<usize> {
        let files: HashSet<usize> = self.copies.keys().map(|r| r.0).collect();
        let stay = self.staying.iter().chain(needed.keys()).map(|r| r.0);
        stay.filter(|f| files.contains(f)).collect()
    }

    fn is_excluded(&self, member: &Member) -> bool {
        member.units.iter().all(|u| self.excluded.contains(&u.id))
    }

    /// Whether the file can't leave the line, whatever is needed.
    fn stays(&self, scene: &Scene, file: usize) -> bool {
        let FileState::Read(content) = &scene.files[file].state else { return true };
        let mut members = content.members().iter().enumerate();
        scene.keep_line
            || holds_stub(content)
            || members.any(|(i, m)| self.tangled.contains(&(file, i)) || (!self.is_excluded(m) && !is_foreign(scene, (file, i), m)))
    }

    /// Plain objects hold their units before any archive does, and members that may register here before those that can't.
    fn find_copies(&mut self, scene: &Scene, wishes: &Wishes, partial: &HashSet<usize>, all: &[(MemberRef, &'a Member)]) {
        let mut found: BTreeMap<usize, Vec<(MemberRef, usize)>> = BTreeMap::new();
        for &(member, m) in all {
            let held: Option<Vec<MemberRef>> = m.units.iter().map(|u| self.holders.get(&u.id).copied()).collect();
            match held.as_deref() {
                Some(&[holder, ..]) if !is_plain(scene, member) => {
                    let held = held.unwrap_or_default();
                    let same_fate = holder.0 == member.0 && held.iter().all(|h| *h == holder);
                    let holder_member = &content_members(scene, holder.0)[holder.1];
                    if same_fate && is_foreign(scene, member, m) == is_foreign(scene, holder, holder_member) {
                        self.follows.insert(member, holder);
                    } else {
                        found.entry(member.0).or_default().push((member, holder.0));
                    }
                }
                _ => {
                    for unit in named(m) {
                        self.holders.entry(&unit.id).or_insert(member);
                    }
                }
            }
        }
        for (file, copies) in found {
            let FileState::Read(content) = &scene.files[file].state else { continue };
            let kept = Wishes::matches(&wishes.keep, &scene.files[file].name()) || scene.keep_line || holds_stub(content);
            let goes = !kept && !partial.contains(&file);
            if goes { &mut self.copies } else { &mut self.also_in }.extend(copies);
        }
    }

    /// A unit that several members hold, which do not all go with their archive: none of them can be taken alone.
    fn find_tangles(&mut self, scene: &Scene, all: &[(MemberRef, &Member)]) {
        for &(member, m) in all.iter().filter(|(r, _)| !self.copies.contains_key(r) && !self.follows.contains_key(r)) {
            for unit in named(m) {
                let holder = self.holders[&unit.id];
                let several = [holder, member].into_iter().filter(|_| holder != member);
                self.tangled.extend(several.filter(|&r| !is_plain(scene, r)));
            }
        }
    }
}

fn rank(scene: &Scene, r: MemberRef, m: &Member) -> u8 {
    if is_plain(scene, r) {
        0
    } else if is_foreign(scene, r, m) {
        2
    } else {
        1
    }
}

fn named(member: &Member) -> impl Iterator<Item = &Unit> {
    member.units.iter().filter(|u| !u.id.is_empty())
}

fn is_plain(scene: &Scene, member: MemberRef) -> bool {
    scene.files[member.0].is_plain_object()
}

/// Without the archive's stub, nvlink would link what the stub covers.
pub(super) fn holds_stub(content: &Content) -> bool {
    content.members().iter().any(|m| !m.stubs.is_empty())
}

/// Whether a mask can take every unit of the member.
pub(super) fn can_be_masked(scene: &Scene, member: &Member) -> bool {
    !scene.no_mask && member.units.iter().all(|u| guard::can_be_named(&u.id))
}

fn is_foreign(scene: &Scene, r: MemberRef, m: &Member) -> bool {
    m.units.iter().all(|u| evidence(scene, r, u).is_foreign())
}

fn content_members(scene: &Scene, file: usize) -> &[Member] {
    if let FileState::Read(content) = &scene.files[file].state { content.members() } else { &[] }
}

fn members(scene: &Scene) -> impl Iterator<Item = (MemberRef, &Member)> {
    (0..scene.files.len()).flat_map(move |f| {
        let members = content_members(scene, f).iter().enumerate();
        members.filter(|(_, m)| !m.units.is_empty() || !m.stubs.is_empty()).map(move |(i, m)| ((f, i), m))
    })
}

/// Whether a plain object (or bare device code) is on the line; without one, the archives are what is being built.
pub(super) fn has_own_units(scene: &Scene) -> bool {
    scene.files.iter().any(|f| match &f.state {
        FileState::Read(Content::Object(m)) => !m.units.is_empty(),
        FileState::Read(Content::Device) => true,
        _ => false,
    })
}

pub(super) fn evidence(scene: &Scene, (index, member): MemberRef, unit: &Unit) -> Evidence {
    if scene.files[index].is_plain_object() {
        return Evidence::PlainObject;
    }
    if unit.device_only {
        return Evidence::DeviceOnly;
    }
    // Hidden host code can't be taken from a shared library: the member will be in this image.
    if unit.wrapper_hidden {
        return Evidence::FullMember;
    }
    // The host linker takes the definition that comes first, and can only take one that is exported.
    let has_stub = |so: &usize| scene.files[*so].offers(unit);
    let path = |so: usize| scene.files[so].path.clone().unwrap_or_else(|| scene.files[so].shown.clone());
    let certain = |so: &usize| !scene.files[index].taken_past.contains(&(member, *so));
    match (0..index).filter(has_stub).find(certain) {
        Some(before) => Evidence::StubIn(path(before)),
        None => (0..scene.files.len()).find(has_stub).map_or(Evidence::FullMember, |so| Evidence::FullMemberOrStubIn(path(so))),
    }
}

impl Evidence {
    /// Whether the unit certainly registers with another image.
    pub(super) fn is_foreign(&self) -> bool {
        !matches!(self, Self::FullMember | Self::FullMemberOrStubIn(_))
    }
}
