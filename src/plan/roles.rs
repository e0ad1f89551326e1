//! Who stays whatever happens, who may go, and which members hold the same unit.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Evidence, File, FileState, MemberRef, Need, Scene, Wishes, short};
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
        let excluded = scene.files.iter().flat_map(File::members).flat_map(|m| &m.stubs).collect();
        let mut roles = Roles { excluded, ..Roles::default() };
        let all = in_order(scene, wishes);
        roles.find_copies(scene, wishes, partial, &all);
        roles.find_tangles(scene, &all);
        let covered = |r: &MemberRef| scene.member(*r).units.iter().any(|u| roles.excluded.contains(&u.id));
        roles.half = all.iter().filter(|r| covered(r)).copied().collect();
        let own = has_own_units(scene);
        for &member in &all {
            let m = scene.member(member);
            if roles.copies.contains_key(&member) || roles.follows.contains_key(&member) || roles.is_excluded(m) {
                continue;
            }
            let name = scene.files[member.file()].name();
            let decided = Wishes::matches(&wishes.keep, &name) || Wishes::matches(&wishes.guard, &name);
            // What can't be masked stays with what stays beside it, and needs what it needs.
            let decided = decided || roles.tangled.contains(&member) || (!can_be_masked(scene, m) && roles.stays(scene, member.file()));
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
        let files: HashSet<usize> = self.copies.keys().map(|r| r.file()).collect();
        let stay = self.staying.iter().chain(needed.keys()).map(|r| r.file());
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
            || members.any(|(i, m)| {
                let member = MemberRef::new(file, i);
                self.tangled.contains(&member) || (!self.is_excluded(m) && !is_foreign(scene, member, m))
            })
    }

    /// Plain objects hold their units before any archive does, and members that may register here before those that can't.
    fn find_copies(&mut self, scene: &'a Scene, wishes: &Wishes, partial: &HashSet<usize>, all: &[MemberRef]) {
        let mut found: BTreeMap<usize, Vec<(MemberRef, usize)>> = BTreeMap::new();
        self.holders.reserve(all.len());
        for &member in all {
            let m = scene.member(member);
            let held: Option<Vec<MemberRef>> = m.units.iter().map(|u| self.holders.get(&u.id).copied()).collect();
            match held.as_deref() {
                Some(&[holder, ..]) if !is_plain(scene, member) => {
                    let held = held.unwrap_or_default();
                    let same_fate = holder.file() == member.file() && held.iter().all(|h| *h == holder);
                    if same_fate && is_foreign(scene, member, m) == is_foreign(scene, holder, scene.member(holder)) {
                        self.follows.insert(member, holder);
                    } else {
                        found.entry(member.file()).or_default().push((member, holder.file()));
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

    /// A unit that several members hold, which do not all go with their archive: none of them can be taken alone. What a stub on the
    /// line covers is not linked anyway, whoever goes.
    fn find_tangles(&mut self, scene: &Scene, all: &[MemberRef]) {
        for &member in all.iter().filter(|r| !self.copies.contains_key(r) && !self.follows.contains_key(r)) {
            for unit in named(scene.member(member)).filter(|u| !self.excluded.contains(&u.id)) {
                let holder = self.holders[&unit.id];
                let several = [holder, member].into_iter().filter(|_| holder != member);
                self.tangled.extend(several.filter(|&r| !is_plain(scene, r)));
            }
        }
    }
}

/// The members that have a say: plain objects, then members that may register here, then the others, each in the line's order.
fn in_order(scene: &Scene, wishes: &Wishes) -> Vec<MemberRef> {
    let (mut plain, mut here, mut foreign) = (Vec::new(), Vec::new(), Vec::new());
    for (f, file) in scene.files.iter().enumerate() {
        if !file.is_plain_object() && Wishes::matches(&wishes.strip, &file.name()) {
            continue;
        }
        for (i, m) in file.members().iter().enumerate().filter(|(_, m)| !m.units.is_empty() || !m.stubs.is_empty()) {
            let member = MemberRef::new(f, i);
            let list = match () {
                () if file.is_plain_object() => &mut plain,
                () if is_foreign(scene, member, m) => &mut foreign,
                () => &mut here,
            };
            list.push(member);
        }
    }
    plain.append(&mut here);
    plain.append(&mut foreign);
    plain
}

fn named(member: &Member) -> impl Iterator<Item = &Unit> {
    member.units.iter().filter(|u| !u.id.is_empty())
}

fn is_plain(scene: &Scene, member: MemberRef) -> bool {
    scene.files[member.file()].is_plain_object()
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

/// Whether a plain object (or bare device code) is on the line; without one, the archives are what is being built.
pub(super) fn has_own_units(scene: &Scene) -> bool {
    scene.files.iter().any(|f| match &f.state {
        FileState::Read(Content::Object(m)) => !m.units.is_empty(),
        FileState::Read(Content::Device) => true,
        _ => false,
    })
}

pub(super) fn evidence(scene: &Scene, member: MemberRef, unit: &Unit) -> Evidence {
    let index = member.file();
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
    let certain = |so: &usize| !scene.files[index].taken_past.contains(&(member.member(), *so));
    match (0..index).filter(has_stub).find(certain) {
        Some(before) => Evidence::StubIn(short(before)),
        None => (0..scene.files.len()).find(has_stub).map_or(Evidence::FullMember, |so| Evidence::FullMemberOrStubIn(short(so))),
    }
}

impl Evidence {
    /// Whether the unit certainly registers with another image.
    pub(super) fn is_foreign(&self) -> bool {
        !matches!(self, Self::FullMember | Self::FullMemberOrStubIn(_))
    }
}
