//! From a scene to verdicts.

use std::collections::{HashMap, HashSet};

use super::needs::{self, MemberRef};
use super::{Evidence, File, FilePlan, FileState, FileVerdict, Guarded, Need, Plan, Scene, UnitPlan, Verdict, Wishes, shown_id};
use crate::object::{Content, Id, Member, Unit};
use crate::rewrite::guard;

/// What stays whatever happens, and what may go if nobody needs it.
struct Roles {
    /// Ids that nvlink passes over because some input holds a stub for them.
    excluded: HashSet<Id>,
    /// Members that hold an id which an earlier file holds too, with that file.
    copies: HashMap<MemberRef, usize>,
    kept: Vec<MemberRef>,
    candidates: Vec<MemberRef>,
}

/// The members whose device symbols the decision asks for next; reading them is the expensive part, so those of the
/// libraries are only wanted when something that stays needs any.
pub fn wanted_symbols(scene: &Scene, wishes: &Wishes) -> Vec<MemberRef> {
    let roles = roles(scene, wishes);
    if roles.candidates.is_empty() || scene.files.iter().any(File::hides_code) {
        return Vec::new();
    }
    let unread = |m: &MemberRef| scene.files[m.0].symbols[m.1].is_none();
    let next: Vec<_> = roles.kept.iter().copied().filter(unread).collect();
    if !next.is_empty() || needs::open(scene, &roles.kept).is_empty() {
        return next;
    }
    roles.candidates.into_iter().filter(unread).collect()
}

/// Decides for every file and unit. Symbols must have been read until [`wanted_symbols`] asks for no more.
pub fn decide(scene: &Scene, wishes: &Wishes) -> Plan {
    let mut plan = Plan::default();
    let roles = roles(scene, wishes);
    let needed = needs::needed(scene, &roles.kept, &roles.candidates);
    for (index, file) in scene.files.iter().enumerate() {
        let mut units = Vec::new();
        let verdict = match &file.state {
            FileState::Missing => FileVerdict::Leave("not found; nvlink passes over it".into()),
            FileState::OutOfReach(path) => {
                let (name, path) = (file.name(), path.display());
                plan.warning.get_or_insert_with(|| {
                    format!(
                        "-l{name}: {path} has device code, but no -L on the device link leads there (CMake's Ninja generator drops -L from long \
                         ones), so nvlink passes over it without a word; link it by its path"
                    )
                });
                FileVerdict::Leave(format!("not found, though the host link will find {path}"))
            }
            FileState::DeviceRuntime => FileVerdict::Leave("part of the CUDA runtime".into()),
            FileState::Unreadable(why) => {
                plan.warning.get_or_insert_with(|| format!("{}: left as it is: {why}", file.name()));
                FileVerdict::Leave(format!("can't be read: {why}"))
            }
            FileState::Read(Content::Shared(shared)) => FileVerdict::Leave(match shared.stubs.len() {
                0 => "shared library without a stub".into(),
                n => format!("shared library with a stub for {n} unit(s)"),
            }),
            FileState::Read(Content::Device) => FileVerdict::Leave("bare device code".into()),
            FileState::Read(Content::Other) => FileVerdict::Leave("not an object, archive or shared library".into()),
            FileState::Read(content) => {
                units = unit_plans(scene, index, content.members(), &roles, &needed, wishes);
                match content {
                    Content::Object(_) => FileVerdict::Leave("plain object".into()),
                    _ => archive(scene, index, &mut units, wishes, &mut plan),
                }
            }
        };
        plan.files.push(FilePlan { file: index, verdict, units });
    }
    let staying = plan.files.iter().flat_map(|f| &f.units).filter(|u| matches!(u.verdict, Verdict::Own | Verdict::Protect));
    plan.protect = staying.into_iter().any(|u| u.evidence != Evidence::DeviceOnly);
    for file in &plan.files {
        for unit in &file.units {
            match &unit.verdict {
                Verdict::Mask => plan.masked.push(unit.id.clone()),
                Verdict::Guard(_) => plan.guarded.push(Guarded { id: unit.id.clone(), pull: unit.pull.clone() }),
                _ => {}
            }
        }
    }
    // Joined objects repeat their ids.
    plan.guarded.dedup_by(|a, b| a.id == b.id);
    plan
}

/// The verdict on an archive, from those on its units. May still change a unit's: what can't be stripped is masked.
fn archive(scene: &Scene, index: usize, units: &mut [UnitPlan], wishes: &Wishes, plan: &mut Plan) -> FileVerdict {
    let file = &scene.files[index];
    if units.is_empty() {
        let stub = matches!(&file.state, FileState::Read(c) if c.members().iter().any(|m| !m.stubs.is_empty()));
        return FileVerdict::Leave(if stub { "holds a stub but no relocatable device code" } else { "no relocatable device code" }.into());
    }
    if Wishes::matches(&wishes.keep, &file.name()) {
        return FileVerdict::Leave("DLINK_SHIM_KEEP".into());
    }
    if Wishes::matches(&wishes.strip, &file.name()) && !scene.keep_line {
        return FileVerdict::Strip("DLINK_SHIM_STRIP".into());
    }
    let going = |u: &UnitPlan| matches!(u.verdict, Verdict::Strip | Verdict::Copy(_));
    if !scene.keep_line && units.iter().all(|u| going(u) || u.verdict == Verdict::Excluded) && units.iter().any(going) {
        return FileVerdict::Strip(why_strip(units));
    }
    // Some stay, or the line must: the others go one by one, if a mask can say so. A mask takes every unit of its id, so never one that
    // stays elsewhere.
    let mut clash = None;
    for unit in units.iter_mut() {
        match &unit.verdict {
            // Beside a full member, where the closure over what is needed did not come by.
            Verdict::Strip if guard::can_be_named(&unit.id) && scene.no_mask => unit.verdict = Verdict::Guard(Need::Beside),
            Verdict::Strip if guard::can_be_named(&unit.id) => unit.verdict = Verdict::Mask,
            Verdict::Strip => unit.verdict = Verdict::Leave("it has no module id to mask it by".into()),
            Verdict::Copy(first) => {
                clash.get_or_insert_with(|| format!("unit {} of {} is also in {first}", shown_id(&unit.id), file.name()));
                unit.verdict = Verdict::Leave(format!("also in {first}, and can't be told from it here"));
            }
            _ => {}
        }
    }
    if let Some(clash) = clash {
        plan.warning.get_or_insert_with(|| format!("{clash}: left as it is; link one of them only"));
    }
    if units.iter().any(|u| matches!(u.verdict, Verdict::Guard(Need::Unknowable))) {
        plan.warning.get_or_insert_with(|| {
            format!(
                "{}: stays in the device link, guarded, since what needs it can't be read ({}); name it in DLINK_SHIM_STRIP if nothing here does",
                file.name(),
                blind_because(scene)
            )
        });
    }
    if units.iter().any(|u| u.verdict == Verdict::Leave(NO_GUARD.into())) {
        plan.warning.get_or_insert_with(|| format!("{}: {NO_GUARD}; its kernels may never register", file.name()));
    }
    let count = |f: &dyn Fn(&Verdict) -> bool| units.iter().filter(|u| f(&u.verdict)).count();
    let guarded = count(&|v| matches!(v, Verdict::Guard(_)));
    let masked = count(&|v| *v == Verdict::Mask);
    if guarded + masked > 0 {
        return FileVerdict::Cure(why_cure(units, guarded, masked));
    }
    match units.iter().find_map(|u| if let Verdict::Leave(why) = &u.verdict { Some(why) } else { None }) {
        Some(why) => FileVerdict::Leave(why.clone()),
        None => FileVerdict::Leave("the archives are all the device code there is, so they are this command's own".into()),
    }
}

fn why_strip(units: &[UnitPlan]) -> String {
    let count = units.len();
    if let Some(first) = units.iter().find_map(|u| if let Verdict::Copy(first) = &u.verdict { Some(first) } else { None }) {
        return format!("its units are already in {first}, and nvlink takes each once");
    }
    let elsewhere = units.iter().find_map(|u| if let Evidence::StubIn(so) = &u.evidence { Some(so) } else { None });
    match elsewhere {
        Some(so) => format!("no unit that stays needs its {count} unit(s), which register with the stub in {}", so.display()),
        None => format!("no unit that stays needs its {count} unit(s), which are device-only: their host side is in another image"),
    }
}

fn why_cure(units: &[UnitPlan], guarded: usize, masked: usize) -> String {
    let mut parts = Vec::new();
    if guarded > 0 {
        let first = units.iter().find_map(|u| match &u.verdict {
            Verdict::Guard(Need::Symbol { by, symbol }) => {
                Some(format!("{} needs `{}` of {}", shown_id(by), String::from_utf8_lossy(symbol), shown_id(&u.id)))
            }
            Verdict::Guard(Need::Unknowable) => Some("what needs them can't be read".into()),
            Verdict::Guard(Need::Beside) => Some("a link-time-optimising device link can't leave them out".into()),
            Verdict::Guard(Need::MayBeHere) => Some("their host objects may or may not end up in this image".into()),
            _ => None,
        });
        parts.push(format!("{guarded} unit(s) guarded: {}", first.unwrap_or_default()));
    }
    if masked > 0 {
        parts.push(format!("{masked} unit(s) masked: nobody here needs them"));
    }
    parts.join("; ")
}

/// Why needs are not knowable.
fn blind_because(scene: &Scene) -> String {
    match scene.files.iter().find(|f| f.hides_code()) {
        Some(file) if matches!(file.state, FileState::Unreadable(_)) => format!("{} is unreadable", file.shown.display()),
        Some(file) => format!("{} is bare device code", file.shown.display()),
        None => "device code that is LTO-IR only, or of an unknown kind".into(),
    }
}

fn unit_plans(
    scene: &Scene,
    index: usize,
    members: &[Member],
    roles: &Roles,
    needed: &HashMap<MemberRef, Need>,
    wishes: &Wishes,
) -> Vec<UnitPlan> {
    let file = &scene.files[index];
    let plain = file.is_plain_object();
    let own = plain || !has_own_units(scene);
    let mut plans = Vec::new();
    for (m, member) in members.iter().enumerate() {
        for unit in &member.units {
            let evidence = evidence(scene, (index, m), unit);
            let foreign = evidence.is_foreign();
            let verdict = if roles.excluded.contains(&unit.id) {
                Verdict::Excluded
            } else if Wishes::matches(&wishes.keep, &file.name()) && !plain {
                Verdict::Leave("DLINK_SHIM_KEEP".into())
            } else if Wishes::matches(&wishes.strip, &file.name()) && !plain {
                Verdict::Strip
            } else if let Some(&first) = roles.copies.get(&(index, m)) {
                Verdict::Copy(scene.files[first].name())
            } else if own {
                Verdict::Own
            } else if Wishes::matches(&wishes.guard, &file.name()) {
                guarded(scene, unit, &evidence, Need::MayBeHere)
            } else if foreign {
                needed.get(&(index, m)).map_or(Verdict::Strip, |need| guarded(scene, unit, &evidence, need.clone()))
            } else {
                guarded(scene, unit, &evidence, Need::MayBeHere)
            };
            // A device-only member has nothing to pull: its archive is no input of the host link.
            let pull = if evidence == Evidence::DeviceOnly { None } else { unit.pull.clone() };
            plans.push(UnitPlan { id: unit.id.clone(), member: member.name.clone(), evidence, verdict, pull });
        }
    }
    plans
}

/// The reason where the stub's compiler can't be given the guard.
const NO_GUARD: &str = "it would be guarded, but the host compiler (-ccbin) is none that is known to take -include";

/// The guard, where it can be had.
fn guarded(scene: &Scene, unit: &Unit, evidence: &Evidence, need: Need) -> Verdict {
    if scene.no_guard {
        return Verdict::Leave(NO_GUARD.into());
    }
    if !guard::can_be_named(&unit.id) {
        return Verdict::Leave("it has no module id to guard it by".into());
    }
    if *evidence != Evidence::DeviceOnly {
        // A hidden wrapper can only come from this link, so the stub's own strong reference does all there is to do.
        if unit.wrapper_hidden {
            return Verdict::Protect;
        }
        if unit.pull.is_none() {
            return Verdict::Leave("it defines no other symbol that could pull its archive member".into());
        }
    }
    Verdict::Guard(need)
}

fn roles(scene: &Scene, wishes: &Wishes) -> Roles {
    let excluded: HashSet<Id> = members(scene).flat_map(|(_, m)| m.stubs.iter().cloned()).collect();
    let mut roles = Roles { excluded, copies: HashMap::new(), kept: Vec::new(), candidates: Vec::new() };
    let own = has_own_units(scene);
    let stripped = |f: usize| Wishes::matches(&wishes.strip, &scene.files[f].name());
    let plain = |f: usize| scene.files[f].is_plain_object();
    let foreign = |r: MemberRef, m: &Member| m.units.iter().all(|u| evidence(scene, r, u).is_foreign());
    // Plain objects hold their ids before any archive does, and members that may register here before those that can't.
    let rank = |r: MemberRef, m: &Member| {
        if plain(r.0) {
            0
        } else if foreign(r, m) {
            2
        } else {
            1
        }
    };
    let mut all: Vec<(MemberRef, &Member)> = members(scene).filter(|(r, _)| plain(r.0) || !stripped(r.0)).collect();
    all.sort_by_cached_key(|(r, m)| (rank(*r, m), *r));
    let mut holders: HashMap<&Id, usize> = HashMap::new();
    for (member, m) in all {
        let named = || m.units.iter().filter(|u| !u.id.is_empty());
        let copied = |u: &Unit| holders.get(&u.id).is_some_and(|&h| h != member.0);
        if !plain(member.0) && named().next().is_some() && named().all(copied) {
            roles.copies.insert(member, holders[&named().next().expect("there is one").id]);
            continue;
        }
        for unit in named() {
            holders.entry(&unit.id).or_insert(member.0);
        }
        if m.units.iter().all(|u| roles.excluded.contains(&u.id)) {
            continue;
        }
        let name = scene.files[member.0].name();
        let decided = Wishes::matches(&wishes.keep, &name) || Wishes::matches(&wishes.guard, &name);
        // What can't be masked stays with the full members beside it, and needs what it needs.
        let FileState::Read(content) = &scene.files[member.0].state else { continue };
        let decided = decided || (scene.no_mask && content.members().iter().enumerate().any(|(i, m)| !foreign((member.0, i), m)));
        if plain(member.0) || !own || decided || !foreign(member, m) { roles.kept.push(member) } else { roles.candidates.push(member) }
    }
    roles.candidates.sort_unstable();
    roles
}

fn members(scene: &Scene) -> impl Iterator<Item = (MemberRef, &Member)> {
    scene.files.iter().enumerate().flat_map(|(f, file)| {
        let members = if let FileState::Read(content) = &file.state { content.members() } else { &[] };
        members.iter().enumerate().filter(|(_, m)| !m.units.is_empty() || !m.stubs.is_empty()).map(move |(i, m)| ((f, i), m))
    })
}

/// Whether a plain object (or bare device code) is on the line; without one, the archives are what is being built.
fn has_own_units(scene: &Scene) -> bool {
    scene.files.iter().any(|f| match &f.state {
        FileState::Read(Content::Object(m)) => !m.units.is_empty(),
        FileState::Read(Content::Device) => true,
        _ => false,
    })
}

fn evidence(scene: &Scene, (index, member): MemberRef, unit: &Unit) -> Evidence {
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
    fn is_foreign(&self) -> bool {
        !matches!(self, Self::FullMember | Self::FullMemberOrStubIn(_))
    }
}
