//! From a scene to verdicts.

use std::collections::{HashMap, HashSet};

use super::needs::{self, MemberRef};
use super::{Evidence, File, FilePlan, FileState, FileVerdict, Need, Plan, Scene, UnitPlan, Verdict, Wishes, shown_id};
use crate::object::{Content, Member, Unit};

/// The members whose device symbols the decision asks for next; reading them is the expensive part, so those of the
/// libraries are only wanted when something that stays needs any.
pub fn wanted_symbols(scene: &Scene, wishes: &Wishes) -> Vec<MemberRef> {
    let foreign = foreign_files(scene, wishes);
    if foreign.is_empty() || scene.files.iter().any(File::hides_code) {
        return Vec::new();
    }
    let unread = |m: &MemberRef| scene.files[m.0].symbols[m.1].is_none();
    let (candidates, kept): (Vec<_>, Vec<_>) =
        linked_members(scene, &excluded_ids(scene)).into_iter().partition(|m| foreign.contains(&m.0));
    let next: Vec<_> = kept.iter().copied().filter(unread).collect();
    if !next.is_empty() || needs::open(scene, &kept).is_empty() {
        return next;
    }
    candidates.into_iter().filter(unread).collect()
}

/// Decides for every file and unit. Symbols must have been read until [`wanted_symbols`] asks for no more.
pub fn decide(scene: &Scene, wishes: &Wishes) -> Plan {
    let mut plan = Plan::default();
    let own = has_own_units(scene);
    let excluded = excluded_ids(scene);
    let foreign = foreign_files(scene, wishes);
    // The closure runs over libraries: one needed unit keeps its library, and with it the needs of all of its units.
    let needed = needed_closure(scene, &foreign, &excluded);
    for (index, file) in scene.files.iter().enumerate() {
        let units = |verdict: &dyn Fn(usize, &Unit) -> Verdict| unit_plans(scene, index, &excluded, verdict);
        let (verdict, units) = match &file.state {
            FileState::Missing => (FileVerdict::Leave("not found; nvlink passes over it".into()), Vec::new()),
            FileState::DeviceRuntime => (FileVerdict::Leave("part of the CUDA runtime".into()), Vec::new()),
            FileState::Unreadable(why) => {
                plan.warning.get_or_insert_with(|| format!("{}: left as it is: {why}", file.name()));
                (FileVerdict::Leave(format!("can't be read: {why}")), Vec::new())
            }
            FileState::Read(Content::Object(_)) => (FileVerdict::Leave("plain object".into()), units(&|_, _| Verdict::Own)),
            FileState::Read(Content::Archive(members)) if members.iter().all(|m| m.units.is_empty()) => {
                let stub = members.iter().any(|m| !m.stubs.is_empty());
                let why = if stub { "holds a stub but no relocatable device code" } else { "no relocatable device code" };
                (FileVerdict::Leave(why.into()), Vec::new())
            }
            FileState::Read(Content::Archive(_)) if Wishes::matches(&wishes.keep, &file.name()) => {
                (FileVerdict::Leave("DLINK_SHIM_KEEP".into()), units(&|_, _| Verdict::Leave))
            }
            FileState::Read(Content::Archive(_)) if Wishes::matches(&wishes.strip, &file.name()) => {
                (FileVerdict::Strip("DLINK_SHIM_STRIP".into()), units(&|_, _| Verdict::Strip))
            }
            FileState::Read(Content::Archive(_)) if !own => {
                let why = "the archives are all the device code there is, so they are this command's own";
                (FileVerdict::Leave(why.into()), units(&|_, _| Verdict::Own))
            }
            FileState::Read(Content::Archive(members)) => archive(scene, index, members, &foreign, &needed, &excluded, &mut plan.warning),
            FileState::Read(Content::Shared(shared)) => {
                let why = match shared.stubs.len() {
                    0 => "shared library without a stub".into(),
                    n => format!("shared library with a stub for {n} unit(s)"),
                };
                (FileVerdict::Leave(why), Vec::new())
            }
            FileState::Read(Content::Device) => (FileVerdict::Leave("bare device code".into()), Vec::new()),
            FileState::Read(Content::Other) => (FileVerdict::Leave("not an object, archive or shared library".into()), Vec::new()),
        };
        plan.files.push(FilePlan { file: index, verdict, units });
    }
    plan
}

fn archive(
    scene: &Scene,
    index: usize,
    members: &[Member],
    foreign: &[usize],
    needed: &HashMap<MemberRef, Need>,
    excluded: &HashSet<Vec<u8>>,
    warning: &mut Option<String>,
) -> (FileVerdict, Vec<UnitPlan>) {
    let file = &scene.files[index];
    if !foreign.contains(&index) {
        let full = members.iter().flat_map(|m| &m.units).filter(|u| evidence(scene, index, u) == Evidence::FullMember).count();
        let why = format!("{full} of its units may register in this image (full archive members)");
        return (FileVerdict::Leave(why), unit_plans(scene, index, excluded, &|_, _| Verdict::Leave));
    }
    let first = (0..members.len()).find_map(|m| needed.get(&(index, m)).map(|n| (m, n)));
    let Some((member, need)) = first else {
        let all: Vec<Evidence> = members.iter().flat_map(|m| &m.units).map(|u| evidence(scene, index, u)).collect();
        let elsewhere = all.iter().find_map(|e| if let Evidence::StubIn(so) = e { Some(so) } else { None });
        let count = all.len();
        let why = match elsewhere {
            Some(so) => format!("no unit that stays needs its {count} unit(s), which register with the stub in {}", so.display()),
            None => format!("no unit that stays needs its {count} unit(s), which are device-only: their host side is in another image"),
        };
        return (FileVerdict::Strip(why), unit_plans(scene, index, excluded, &|_, _| Verdict::Strip));
    };
    let id = members[member].units.first().map(|u| shown_id(&u.id)).unwrap_or_default();
    let why = match need {
        Need::Symbol { by, symbol } => {
            format!("unit {} needs `{}` of unit {id}", shown_id(by), String::from_utf8_lossy(symbol))
        }
        Need::Unknowable => {
            warning.get_or_insert_with(|| {
                format!(
                    "{}: stays in the device link, so nothing of this link may register: what needs it can't be read ({}); \
                     name it in DLINK_SHIM_STRIP if nothing here needs its device code",
                    file.name(),
                    blind_because(scene)
                )
            });
            format!("what needs it can't be read ({})", blind_because(scene))
        }
    };
    let verdict = |m: usize, _: &Unit| needed.get(&(index, m)).map_or(Verdict::Leave, |n| Verdict::Needed(n.clone()));
    (FileVerdict::Leave(why), unit_plans(scene, index, excluded, &verdict))
}

/// Why needs are not knowable.
fn blind_because(scene: &Scene) -> String {
    match scene.files.iter().find(|f| f.hides_code()) {
        Some(file) if matches!(file.state, FileState::Unreadable(_)) => format!("{} is unreadable", file.shown.display()),
        Some(file) => format!("{} is bare device code", file.shown.display()),
        None => "device code that is LTO-IR only, or of an unknown kind".into(),
    }
}

/// Needs, closed over whole libraries: as soon as one member of a library is needed, all of its members stay.
fn needed_closure(scene: &Scene, foreign: &[usize], excluded: &HashSet<Vec<u8>>) -> HashMap<MemberRef, Need> {
    let mut needed: HashMap<MemberRef, Need> = HashMap::new();
    if foreign.is_empty() {
        return needed;
    }
    loop {
        let staying = |f: usize| !foreign.contains(&f) || needed.keys().any(|k| k.0 == f);
        let (kept, candidates): (Vec<MemberRef>, Vec<MemberRef>) =
            linked_members(scene, excluded).into_iter().partition(|&(f, _)| staying(f));
        let more = needs::needed(scene, &kept, &candidates);
        if more.is_empty() {
            return needed;
        }
        needed.extend(more);
    }
}

/// Every member that nvlink would link.
fn linked_members(scene: &Scene, excluded: &HashSet<Vec<u8>>) -> Vec<MemberRef> {
    let mut all = Vec::new();
    for (f, file) in scene.files.iter().enumerate() {
        let FileState::Read(content) = &file.state else { continue };
        let linked = |m: &Member| m.units.iter().any(|u| !excluded.contains(&u.id));
        all.extend(content.members().iter().enumerate().filter(|(_, m)| linked(m)).map(|(m, _)| (f, m)));
    }
    all
}

/// nvlink neither links nor counts an id that any input holds a stub for.
fn excluded_ids(scene: &Scene) -> HashSet<Vec<u8>> {
    members(scene).flat_map(|m| m.stubs.iter().cloned()).collect()
}

fn members(scene: &Scene) -> impl Iterator<Item = &Member> {
    scene.files.iter().flat_map(|f| match &f.state {
        FileState::Read(content) => content.members(),
        _ => &[],
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

/// The archives that may go; none when the archives are all there is.
fn foreign_files(scene: &Scene, wishes: &Wishes) -> Vec<usize> {
    if !has_own_units(scene) {
        return Vec::new();
    }
    (0..scene.files.len()).filter(|&f| is_foreign(scene, f, wishes)).collect()
}

/// Whether every unit of an archive has its registrar elsewhere for certain, so that the archive may go if nobody needs it.
fn is_foreign(scene: &Scene, index: usize, wishes: &Wishes) -> bool {
    let file: &File = &scene.files[index];
    let FileState::Read(Content::Archive(members)) = &file.state else { return false };
    if Wishes::matches(&wishes.keep, &file.name()) || Wishes::matches(&wishes.strip, &file.name()) {
        return false;
    }
    let mut units = members.iter().flat_map(|m| &m.units).peekable();
    units.peek().is_some() && units.all(|u| evidence(scene, index, u) != Evidence::FullMember)
}

fn evidence(scene: &Scene, index: usize, unit: &Unit) -> Evidence {
    if matches!(scene.files[index].state, FileState::Read(Content::Object(_))) {
        return Evidence::PlainObject;
    }
    if unit.device_only {
        return Evidence::DeviceOnly;
    }
    // The host linker takes the definition that comes first, and can only take one that is exported.
    for file in &scene.files[..index] {
        if let FileState::Read(Content::Shared(shared)) = &file.state
            && shared.stubs.contains(&unit.id)
            && shared.exported.contains(&unit.id)
        {
            return Evidence::StubIn(file.path.clone().unwrap_or_else(|| file.shown.clone()));
        }
    }
    Evidence::FullMember
}

fn unit_plans(scene: &Scene, index: usize, excluded: &HashSet<Vec<u8>>, verdict: &dyn Fn(usize, &Unit) -> Verdict) -> Vec<UnitPlan> {
    let FileState::Read(content) = &scene.files[index].state else { return Vec::new() };
    let mut plans = Vec::new();
    for (m, member) in content.members().iter().enumerate() {
        for unit in &member.units {
            let verdict = if excluded.contains(&unit.id) { Verdict::Excluded } else { verdict(m, unit) };
            let evidence = evidence(scene, index, unit);
            plans.push(UnitPlan { id: unit.id.clone(), member: member.name.clone(), evidence, verdict });
        }
    }
    plans
}
