//! From a scene to verdicts.

use std::collections::{HashMap, HashSet};

use super::needs;
use super::roles::{self, Roles};
use super::{
    Evidence, File, FilePlan, FileState, FileVerdict, Guarded, Left, MemberRef, NO_GUARD, Need, Plan, Scene, UnitPlan, Verdict, Wishes,
    short, shown_id,
};
use crate::object::{Content, Member, Unit};
use crate::rewrite::guard;

/// The members whose device symbols the decision asks for next; reading them is the expensive part, so those of the
/// libraries are only wanted when something that stays needs any.
pub fn wanted_symbols(scene: &Scene, wishes: &Wishes) -> Vec<MemberRef> {
    settle(scene, wishes).wanted
}

/// Roles, and what follows from the symbols.
struct Settled<'a> {
    roles: Roles<'a>,
    needed: HashMap<MemberRef, Need>,
    /// Symbols that must be read before the rest counts.
    wanted: Vec<MemberRef>,
}

/// An archive with copies goes as a whole until something of it proves to stay; that, in turn, may keep others.
fn settle<'a>(scene: &'a Scene, wishes: &Wishes) -> Settled<'a> {
    let mut partial = HashSet::new();
    loop {
        let roles = Roles::of(scene, wishes, &partial);
        let wanted = wanted(scene, &roles);
        let needed = needs::needed(scene, &roles);
        let more = roles.partial(&needed);
        if !wanted.is_empty() || more.is_empty() {
            return Settled { roles, needed, wanted };
        }
        partial.extend(more);
    }
}

fn wanted(scene: &Scene, roles: &Roles<'_>) -> Vec<MemberRef> {
    if roles.candidates.is_empty() || scene.files.iter().any(File::hides_code) {
        return Vec::new();
    }
    let unread = |m: &&MemberRef| scene.files[m.file()].symbols(m.member()).is_none();
    let next: Vec<_> = roles.kept.iter().filter(unread).copied().collect();
    if !next.is_empty() || needs::open(scene, roles, &roles.kept).is_empty() {
        return next;
    }
    roles.candidates.iter().filter(unread).copied().collect()
}

/// Decides for every file and unit. Symbols must have been read until [`wanted_symbols`] asks for no more.
pub fn decide(scene: &Scene, wishes: &Wishes) -> Plan {
    let mut plan = Plan::default();
    let Settled { roles, needed, .. } = settle(scene, wishes);
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
                    _ => archive(scene, index, content, &mut units, &roles, wishes, &mut plan),
                }
            }
        };
        plan.files.push(FilePlan { file: index, verdict, units });
    }
    let staying = plan.files.iter().flat_map(|f| &f.units).filter(|u| matches!(u.verdict, Verdict::Own | Verdict::Protect));
    plan.protect = staying.into_iter().any(|u| u.evidence != Evidence::DeviceOnly);
    for file in &plan.files {
        for decided in &file.units {
            let unit = decided.unit(&scene.files[file.file]);
            // A device-only member has nothing to pull: its archive is no input of the host link.
            let pull = || unit.pull.clone().filter(|_| decided.evidence != Evidence::DeviceOnly);
            match &decided.verdict {
                Verdict::Mask => plan.masked.push(unit.id.clone()),
                Verdict::Guard(_) => plan.guarded.push(Guarded { id: unit.id.clone(), pull: pull() }),
                _ => {}
            }
        }
    }
    // Joined objects repeat their ids.
    plan.guarded.dedup_by(|a, b| a.id == b.id);
    plan
}

/// The verdict on an archive, from those on its units. May still change a unit's: what can't be stripped is masked.
fn archive(
    scene: &Scene,
    index: usize,
    content: &Content,
    units: &mut [UnitPlan],
    roles: &Roles<'_>,
    wishes: &Wishes,
    plan: &mut Plan,
) -> FileVerdict {
    let file = &scene.files[index];
    let stub = roles::holds_stub(content);
    if units.is_empty() {
        return FileVerdict::Leave(if stub { "holds a stub but no relocatable device code" } else { "no relocatable device code" }.into());
    }
    if Wishes::matches(&wishes.keep, &file.name()) {
        return FileVerdict::Leave(Left::Keep.text(scene));
    }
    if Wishes::matches(&wishes.strip, &file.name()) && !scene.keep_line {
        return FileVerdict::Strip("DLINK_SHIM_STRIP".into());
    }
    let going = |u: &UnitPlan| matches!(u.verdict, Verdict::Strip | Verdict::Copy(_));
    if !scene.keep_line && !stub && units.iter().all(|u| going(u) || u.verdict == Verdict::Excluded) && units.iter().any(going) {
        return FileVerdict::Strip(why_strip(scene, units));
    }
    // Some stay, or the line must: the others go one by one, if a mask can say so.
    let members = content.members().iter().flat_map(|m| m.units.iter().map(move |u| (m, u)));
    for (plan, (member, unit)) in units.iter_mut().zip(members).filter(|(p, _)| p.verdict == Verdict::Strip) {
        plan.verdict = match roles.holders.get(&unit.id) {
            // Only where the user's word strips it: a mask takes every unit of its id.
            Some(holder) if holder.file() != index => Verdict::Leave(Left::AlsoIn(short(holder.file()))),
            _ if roles::can_be_masked(scene, member) => Verdict::Mask,
            // Its neighbours in the object, or the linker, would not let it go.
            _ => guarded(scene, unit, &plan.evidence, Need::Beside),
        };
    }
    let twin =
        units.iter().find_map(|u| if let Verdict::Leave(Left::Twin(first)) = u.verdict { Some((first, u.unit(file))) } else { None });
    if let Some((first, unit)) = twin {
        plan.warning.get_or_insert_with(|| {
            let first = scene.file(first).name();
            format!("unit {} of {} is also in {first}: left as it is; link one of them only", shown_id(&unit.id), file.name())
        });
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
    if units.iter().any(|u| u.verdict == Verdict::Leave(Left::NoGuard)) {
        plan.warning.get_or_insert_with(|| format!("{}: {NO_GUARD}; its kernels may never register", file.name()));
    }
    let count = |f: &dyn Fn(&Verdict) -> bool| units.iter().filter(|u| f(&u.verdict)).count();
    let guarded = count(&|v| matches!(v, Verdict::Guard(_)));
    let masked = count(&|v| *v == Verdict::Mask);
    if guarded + masked > 0 {
        return FileVerdict::Cure(why_cure(file, units, guarded, masked));
    }
    match units.iter().find_map(|u| if let Verdict::Leave(why) = u.verdict { Some(why) } else { None }) {
        Some(why) => FileVerdict::Leave(why.text(scene)),
        None => FileVerdict::Leave("the archives are all the device code there is, so they are this command's own".into()),
    }
}

fn why_strip(scene: &Scene, units: &[UnitPlan]) -> String {
    let count = units.len();
    let copy_of = |u: &UnitPlan| if let Verdict::Copy(first) = u.verdict { Some(first) } else { None };
    if let Some(first) = units.iter().find_map(copy_of) {
        let first = scene.file(first).name();
        return match units.iter().filter(|u| copy_of(u).is_some()).count() {
            copies if copies == count => format!("its units are already in {first}, and nvlink takes each once"),
            copies => format!("{copies} of its {count} unit(s) are already in {first}, and no unit that stays needs the others"),
        };
    }
    let elsewhere = units.iter().find_map(|u| if let Evidence::StubIn(so) = u.evidence { Some(scene.file(so).place()) } else { None });
    match elsewhere {
        Some(so) => format!("no unit that stays needs its {count} unit(s), which register with the stub in {}", so.display()),
        None => format!("no unit that stays needs its {count} unit(s), which are device-only: their host side is in another image"),
    }
}

fn why_cure(file: &File, units: &[UnitPlan], guarded: usize, masked: usize) -> String {
    let mut parts = Vec::new();
    if guarded > 0 {
        let first = units.iter().find_map(|u| match &u.verdict {
            Verdict::Guard(Need::Symbol(reference)) => {
                let (by, symbol) = (shown_id(&reference.by), String::from_utf8_lossy(&reference.symbol));
                Some(format!("{by} needs `{symbol}` of {}", shown_id(&u.unit(file).id)))
            }
            Verdict::Guard(Need::Unknowable) => Some("what needs them can't be read".into()),
            Verdict::Guard(Need::Beside) => Some("what stays beside them does not let them go".into()),
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
    roles: &Roles<'_>,
    needed: &HashMap<MemberRef, Need>,
    wishes: &Wishes,
) -> Vec<UnitPlan> {
    let file = &scene.files[index];
    let plain = file.is_plain_object();
    let own = plain || !roles::has_own_units(scene);
    let mut plans = Vec::with_capacity(members.iter().map(|m| m.units.len()).sum());
    for (m, member) in members.iter().enumerate() {
        let this = MemberRef::new(index, m);
        let key = roles.follows.get(&this).copied().unwrap_or(this);
        let foreign = member.units.iter().all(|u| roles::evidence(scene, this, u).is_foreign());
        for (u, unit) in member.units.iter().enumerate() {
            let evidence = roles::evidence(scene, this, unit);
            let verdict = if roles.excluded.contains(&unit.id) {
                Verdict::Excluded
            } else if Wishes::matches(&wishes.keep, &file.name()) && !plain {
                Verdict::Leave(Left::Keep)
            } else if Wishes::matches(&wishes.strip, &file.name()) && !plain {
                Verdict::Strip
            } else if let Some(&first) = roles.copies.get(&this) {
                Verdict::Copy(short(first))
            } else if let Some(&first) = roles.also_in.get(&this) {
                Verdict::Leave(Left::Twin(short(first)))
            } else if own {
                Verdict::Own
            } else if Wishes::matches(&wishes.guard, &file.name()) || !foreign {
                guarded(scene, unit, &evidence, Need::MayBeHere)
            } else if let Some(need) = needed.get(&key) {
                guarded(scene, unit, &evidence, need.clone())
            } else if roles.staying.contains(&key) {
                guarded(scene, unit, &evidence, Need::Beside)
            } else {
                Verdict::Strip
            };
            plans.push(UnitPlan { member: short(m), unit: short(u), evidence, verdict });
        }
    }
    plans
}

/// The guard, where it can be had.
fn guarded(scene: &Scene, unit: &Unit, evidence: &Evidence, need: Need) -> Verdict {
    if scene.no_guard {
        return Verdict::Leave(Left::NoGuard);
    }
    if !guard::can_be_named(&unit.id) {
        return Verdict::Leave(Left::NoId);
    }
    if *evidence != Evidence::DeviceOnly {
        // A hidden wrapper can only come from this link, so the stub's own strong reference does all there is to do.
        if unit.wrapper_hidden {
            return Verdict::Protect;
        }
        if unit.pull.is_none() {
            return Verdict::Leave(Left::NoPull);
        }
    }
    Verdict::Guard(need)
}
