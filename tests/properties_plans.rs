//! What holds for any set of libraries: own units stay, no plan leaves a device symbol undefined that was defined without it, and what
//! a plan made needs no second one.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use dlink_shim::object::{Content, DeviceSymbols, Id, Member, Shared, Unit};
use dlink_shim::plan::{self, Evidence, File, FileState, Plan, Scene, Verdict, Wishes};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

/// What a scene's file really holds: plan sees of it only what it asks for.
#[derive(Clone)]
struct Truth {
    scene: Scene,
    /// Per file, member and unit.
    symbols: Vec<Vec<Vec<DeviceSymbols>>>,
}

/// An id's number: 0 has no name, 1 to 7 have, 8 has one that C can't spell.
fn id(number: u8) -> Id {
    match number {
        0 => Id::new(),
        8 => "_0_a-b_cu".into(),
        n => format!("_{n:08x}_4_u{n}_cu_0").as_str().into(),
    }
}

fn names() -> impl Strategy<Value = BTreeSet<Vec<u8>>> {
    prop::collection::btree_set((0..6u8).prop_map(|n| vec![b'f', b'0' + n]), 0..3)
}

fn symbols() -> impl Strategy<Value = DeviceSymbols> {
    (names(), names(), prop::bool::weighted(0.1)).prop_map(|(needs, defines, opaque)| {
        let needs = &needs - &defines;
        DeviceSymbols { needs, defines, variables: BTreeSet::new(), opaque }
    })
}

type Parts = (Vec<(u8, bool, bool, bool)>, Vec<u8>);

fn parts(most: usize) -> impl Strategy<Value = Parts> {
    let unit = (0..9u8, any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.8));
    (prop::collection::vec(unit, 0..=most), prop::collection::vec(1..8u8, 0..=1)).prop_map(|(units, stubs)| {
        // Stubs are rare in inputs.
        let stubs = if units.len() == 2 { stubs } else { Vec::new() };
        (units, stubs)
    })
}

fn member((units, stubs): Parts, name: Option<&str>) -> Member {
    let mut seen = HashSet::new();
    let units = units.into_iter().filter(|u| seen.insert(u.0)).map(|(number, device_only, wrapper_hidden, pulls)| Unit {
        id: id(number),
        device_only,
        wrapper_hidden,
        pull: pulls.then(|| "host_name".into()),
    });
    Member { name: name.map(Into::into), units: units.collect(), stubs: stubs.into_iter().map(id).collect(), ..Member::default() }
}

fn state() -> impl Strategy<Value = FileState> {
    prop_oneof![
        6 => parts(2).prop_map(|p| FileState::Read(Content::Object(member(p, None)))),
        8 => prop::collection::vec(parts(2), 0..4).prop_map(|all| {
            let members = all.into_iter().enumerate().map(|(i, p)| member(p, Some(&format!("m{i}.o"))));
            FileState::Read(Content::Archive(members.collect()))
        }),
        2 => prop::collection::vec((1..8u8, any::<bool>()), 0..4).prop_map(|all| {
            let exported = all.iter().filter(|s| s.1).map(|s| id(s.0)).collect();
            let stubs = all.iter().map(|s| id(s.0)).collect();
            FileState::Read(Content::Shared(Shared { stubs, units: Vec::new(), exported }))
        }),
        1 => prop::sample::select(vec![FileState::Missing, FileState::DeviceRuntime, FileState::Read(Content::Device),
            FileState::Read(Content::Other), FileState::Unreadable("no".into())]),
    ]
}

fn truth() -> impl Strategy<Value = Truth> {
    let flags = (prop::bool::weighted(0.15), prop::bool::weighted(0.15), prop::bool::weighted(0.15));
    (prop::collection::vec(state(), 1..6), prop::collection::vec(symbols(), 64), flags).prop_map(|(states, given, flags)| {
        let mut given = given.into_iter();
        // A module id is its unit's own: copies of a unit give and need the same.
        let mut by_id: BTreeMap<Id, DeviceSymbols> = BTreeMap::new();
        let mut truth =
            Truth { scene: Scene { no_mask: flags.0, no_guard: flags.1, keep_line: flags.2, ..Scene::default() }, symbols: Vec::new() };
        for (index, state) in states.into_iter().enumerate() {
            let suffix = if matches!(state, FileState::Read(Content::Archive(_))) { "a" } else { "o" };
            let path = PathBuf::from(format!("libf{index}.{suffix}"));
            let file = File::new(path.clone(), Some(path), state, index);
            let symbols = file.members().iter().map(|m| {
                let units = m.units.iter().map(|unit| {
                    let fresh = given.next().unwrap_or_default();
                    if unit.id.is_empty() { fresh } else { by_id.entry(unit.id.clone()).or_insert(fresh).clone() }
                });
                units.collect()
            });
            truth.symbols.push(symbols.collect());
            truth.scene.files.push(file);
        }
        truth
    })
}

/// A scene in a few lines, for failures.
impl std::fmt::Debug for Truth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |all: &BTreeSet<Vec<u8>>| all.iter().map(|n| String::from_utf8_lossy(n).into_owned()).collect::<Vec<_>>().join(" ");
        writeln!(f, "no_mask {} no_guard {} keep_line {}", self.scene.no_mask, self.scene.no_guard, self.scene.keep_line)?;
        for (file, symbols) in self.scene.files.iter().zip(&self.symbols) {
            let FileState::Read(content) = &file.state else {
                writeln!(f, "{}: {:?}", file.shown.display(), file.state)?;
                continue;
            };
            let kind = match content {
                Content::Shared(shared) => {
                    let ids = shared.stubs.iter().map(|i| (plan::shown_id(i), shared.exported.contains(i)));
                    format!("shared, stubs {:?}", ids.collect::<Vec<_>>())
                }
                Content::Device => "device code".into(),
                _ => String::new(),
            };
            writeln!(f, "{}: {kind}", file.shown.display())?;
            for (member, s) in content.members().iter().zip(symbols) {
                for (unit, s) in member.units.iter().zip(s) {
                    let Unit { id, device_only, wrapper_hidden, pull } = unit;
                    let (id, pulls) = (plan::shown_id(id), pull.is_some());
                    write!(f, "  {id} device_only {device_only} hidden {wrapper_hidden} pulls {pulls}")?;
                    writeln!(f, " needs [{}] gives [{}] opaque {}", text(&s.needs), text(&s.defines), s.opaque)?;
                }
                let stubs: Vec<_> = member.stubs.iter().map(|i| plan::shown_id(i)).collect();
                writeln!(f, "    stubs {stubs:?}")?;
            }
        }
        Ok(())
    }
}

/// A plan in a few lines.
fn shown(scene: &Scene, plan: &Plan) -> String {
    let files = plan.files.iter().map(|file| {
        let id = |u: &plan::UnitPlan| plan::shown_id(&u.unit(&scene.files[file.file]).id);
        let units = file.units.iter().map(|u| format!("\n  {} {:?}: {:?}", id(u), u.evidence, u.verdict));
        format!("{} {:?}{}\n", file.file, file.verdict, units.collect::<String>())
    });
    files.collect()
}

/// What an object with these units shows.
fn summed(units: &[DeviceSymbols]) -> DeviceSymbols {
    let mut sum = DeviceSymbols::default();
    for unit in units {
        sum.needs.extend(unit.needs.iter().cloned());
        sum.defines.extend(unit.defines.iter().cloned());
        sum.opaque |= unit.opaque;
    }
    sum
}

impl Truth {
    /// Decides as the command does: symbols are read as far as they are asked for.
    fn decide(&self, wishes: &Wishes) -> Plan {
        let mut scene = self.scene.clone();
        loop {
            let wanted = plan::wanted_symbols(&scene, wishes);
            if wanted.is_empty() {
                return plan::decide(&scene, wishes);
            }
            for wanted in wanted {
                let (file, member) = (wanted.file(), wanted.member());
                let mut read = summed(&self.symbols[file][member]);
                if read.opaque {
                    // LTO-IR: what it needs and gives is there, but nobody can read it.
                    (read.needs, read.defines) = Default::default();
                }
                assert!(scene.files[file].set_symbols(member, &read).is_none(), "asked for twice");
            }
        }
    }

    /// What nvlink links: all units of all files, less those that a stub on the line covers, as file, member, unit.
    fn units(&self, stripped: &BTreeSet<usize>, masked: &[Id]) -> Vec<(usize, usize, usize, &Id)> {
        let files = || self.scene.files.iter().enumerate().filter(|(f, _)| !stripped.contains(f));
        let members = || files().flat_map(|(f, file)| file.members().iter().enumerate().map(move |(m, member)| (f, m, member)));
        let covered: HashSet<&Id> = members().flat_map(|(.., m)| &m.stubs).chain(masked).filter(|i| !i.is_empty()).collect();
        let units = members().flat_map(|(f, m, member)| member.units.iter().enumerate().map(move |(u, unit)| (f, m, u, &unit.id)));
        units.filter(|(.., id)| !covered.contains(id)).collect()
    }

    /// The ids among them; those without count by their place.
    fn linked(&self, stripped: &BTreeSet<usize>, masked: &[Id]) -> BTreeSet<(Id, usize, usize)> {
        let place =
            |&(f, m, _, id): &(usize, usize, usize, &Id)| if id.is_empty() { (Id::new(), f + 1, m + 1) } else { (id.clone(), 0, 0) };
        self.units(stripped, masked).iter().map(place).collect()
    }

    /// The device symbols that they need and none of them gives.
    fn undefined(&self, stripped: &BTreeSet<usize>, masked: &[Id]) -> BTreeSet<Vec<u8>> {
        let units = self.units(stripped, masked);
        let linked = || units.iter().map(|&(f, m, u, _)| &self.symbols[f][m][u]);
        let given: BTreeSet<&Vec<u8>> = linked().flat_map(|s| &s.defines).collect();
        linked().flat_map(|s| &s.needs).filter(|n| !given.contains(n)).cloned().collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn a_plan_leaves_no_device_symbol_undefined_that_the_line_itself_had_defined(truth in truth()) {
        let plan = truth.decide(&Wishes::default());
        let before = truth.undefined(&BTreeSet::new(), &[]);
        let after = truth.undefined(&plan.stripped().collect(), &plan.masked);
        prop_assert!(after.is_subset(&before), "{:?} more\n{}\n{:?}", &after - &before, shown(&truth.scene, &plan), truth);
    }

    #[test]
    fn a_plan_never_drops_an_own_unit(truth in truth(), strip in any::<bool>()) {
        // Not even where the user's word would name it.
        let strip = if strip { vec!["*".to_owned()] } else { Vec::new() };
        let plan = truth.decide(&Wishes { strip: strip.clone(), ..Wishes::default() });
        let stripped: BTreeSet<usize> = plan.stripped().collect();
        for file in &plan.files {
            let plain = truth.scene.files[file.file].is_plain_object();
            prop_assert!(!(plain && stripped.contains(&file.file)), "{}", shown(&truth.scene, &plan));
            for unit in &file.units {
                let id = &unit.unit(&truth.scene.files[file.file]).id;
                let own = matches!(unit.verdict, Verdict::Own | Verdict::Protect);
                if unit.evidence == Evidence::PlainObject || (own && strip.is_empty()) {
                    prop_assert!(id.is_empty() || !plan.masked.contains(id), "{}", shown(&truth.scene, &plan));
                    let kept = !stripped.contains(&file.file);
                    prop_assert!(kept || !strip.is_empty(), "{}", shown(&truth.scene, &plan));
                }
                // What may register here stays, unless it is a second copy or the user says so.
                if unit.evidence == Evidence::FullMember && strip.is_empty() && !matches!(unit.verdict, Verdict::Copy(_)) {
                    prop_assert!(!stripped.contains(&file.file) || unit.verdict == Verdict::Excluded, "{}", shown(&truth.scene, &plan));
                    prop_assert!(id.is_empty() || !plan.masked.contains(id), "{}", shown(&truth.scene, &plan));
                }
            }
        }
    }

    #[test]
    fn what_a_plan_made_of_a_line_needs_no_second_plan(truth in truth()) {
        let plan = truth.decide(&Wishes::default());
        let stripped: BTreeSet<usize> = plan.stripped().collect();
        let mut again = truth.clone();
        for index in stripped.iter().rev() {
            again.scene.files.remove(*index);
            again.symbols.remove(*index);
        }
        if !plan.masked.is_empty() {
            let mask = Member { stubs: plan.masked.clone().into(), ..Member::default() };
            again.scene.files.push(File::new("mask.o".into(), None, FileState::Read(Content::Object(mask)), 99));
            again.symbols.push(vec![Vec::new()]);
        }
        let second = again.decide(&Wishes::default());
        // It may see that an archive has nothing left to give; what nvlink links stays the same.
        let now = again.linked(&BTreeSet::new(), &[]);
        let then = again.linked(&second.stripped().collect(), &second.masked);
        prop_assert_eq!(now, then, "{}\n{}\n{:?}", shown(&truth.scene, &plan), shown(&again.scene, &second), truth);
        let ids = |p: &Plan| p.guarded.iter().map(|g| g.id.clone()).collect::<BTreeSet<_>>();
        prop_assert!(ids(&plan).is_subset(&ids(&second)), "{}\n{}\n{:?}", shown(&truth.scene, &plan), shown(&again.scene, &second), truth);
    }
}

#[test]
fn the_scenes_above_are_not_all_empty() {
    // Properties that hold since nothing happens would prove nothing.
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut with = BTreeMap::new();
    for _ in 0..2000 {
        let plan = truth().new_tree(&mut runner).unwrap().current().decide(&Wishes::default());
        for (what, there) in
            [("stripped", plan.stripped().count() > 0), ("masked", !plan.masked.is_empty()), ("guarded", !plan.guarded.is_empty())]
        {
            *with.entry(what).or_insert(0) += usize::from(there);
        }
    }
    assert!(with.values().all(|&n| n > 30), "{with:?}");
}

#[test]
fn what_a_stub_on_the_line_covers_ties_no_archive_down() {
    let unit = |number: u8, device_only: bool| (number, device_only, false, true);
    let archive = |parts: Vec<Parts>| FileState::Read(Content::Archive(parts.into_iter().map(|p| member(p, Some("m.o"))).collect()));
    let object = |parts: Parts| FileState::Read(Content::Object(member(parts, None)));
    let states = [
        object((vec![unit(3, false)], vec![])),
        archive(vec![(vec![unit(4, false)], vec![]), (vec![unit(3, false)], vec![])]),
        archive(vec![(vec![unit(4, true), unit(7, true)], vec![])]),
        object((vec![unit(0, false)], vec![4])),
    ];
    let files = states.into_iter().enumerate().map(|(i, state)| File::new(format!("f{i}").into(), None, state, i));
    let scene = Scene { files: files.collect(), ..Scene::default() };
    let symbols = scene.files.iter().map(|f| f.members().iter().map(|m| vec![DeviceSymbols::default(); m.units.len()]).collect()).collect();
    let plan = Truth { scene, symbols }.decide(&Wishes::default());
    assert_eq!(plan.stripped().collect::<Vec<_>>(), [1, 2], "{plan:?}");
    assert!(plan.guarded.is_empty(), "{plan:?}");
}
