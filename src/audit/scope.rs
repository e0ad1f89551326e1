//! What happens when images are loaded in a given order: which stub each registrar's call reaches, and whose count completes.
//!
//! The rules were measured with a registration probe and on a GPU: a call by name goes to the first definition in lookup order;
//! a stub registers when each of its units was counted; the guard counts a unit whose host object is not in its image by itself,
//! and passes a call that belongs to another image's unit on to the next stub.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;

use super::image::{Call, Image};
use crate::object::Id;

/// All permutations up to this many images; beyond, each image first and each image last.
const PERMUTED: usize = 5;

/// What one load order leads to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The image whose stub each registrar's call ends in; `None` when no image here has one.
    pub reached: BTreeMap<(usize, Id), Option<usize>>,
    /// Units that each image with a stub waits for in vain.
    pub missing: BTreeMap<usize, BTreeSet<Id>>,
    /// Registrars whose call goes to another image that has the unit itself: it comes a second time, and is lost.
    pub extra: BTreeSet<(usize, Id)>,
}

impl Outcome {
    /// Of loading `order` (indices into `images`) into one lookup scope, in this order.
    pub fn of(images: &[Image], order: &[usize]) -> Self {
        let mut exporters: BTreeMap<&Id, Vec<usize>> = BTreeMap::new();
        for &image in order {
            for id in images[image].entries.keys().filter(|id| images[image].exports(id)) {
                exporters.entry(id).or_default().push(image);
            }
        }
        let mut outcome = Self::default();
        let mut fed: BTreeSet<(usize, &Id)> = BTreeSet::new();
        for &image in order {
            for (id, call) in &images[image].registrars {
                let found = exporters.get(id).map(Vec::as_slice).unwrap_or_default();
                let target = match call {
                    Call::OwnStub => Some(image),
                    Call::FirstFound => {
                        // A guard without the unit's host object looks for the next stub.
                        found.iter().copied().find(|&t| !images[t].counts_itself(id)).or(found.first().copied())
                    }
                };
                fed.extend(target.map(|t| (t, id)));
                if target.is_some_and(|t| t != image && images[t].registrars.contains_key(id)) {
                    outcome.extra.insert((image, id.clone()));
                }
                outcome.reached.insert((image, id.clone()), target);
            }
        }
        for &image in order.iter().filter(|&&i| !images[i].stubs.is_empty()) {
            let waits = images[image].stubs.iter().filter(|id| !images[image].counts_itself(id) && !fed.contains(&(image, id)));
            outcome.missing.insert(image, waits.cloned().collect());
        }
        outcome
    }

    /// Registrars whose kernels are lost because the stub of `image` waits in vain: those that call it, and its own that call
    /// another one's in vain.
    pub fn lost(&self, image: usize) -> impl Iterator<Item = &(usize, Id)> {
        let starved = self.missing.get(&image).is_some_and(|m| !m.is_empty());
        let lost = move |key: &(usize, Id), target: Option<usize>| target == Some(image) || (key.0 == image && self.extra.contains(key));
        self.reached.iter().filter(move |(key, target)| starved && lost(key, **target)).map(|(key, _)| key)
    }
}

/// Images that may be loaded into one process.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// The program that loads them, if one is known.
    pub program: Option<usize>,
    /// Images whose lookup order is known, in that order: a program and what it needs.
    pub fixed: Vec<usize>,
    /// Images that may come in any order after these.
    pub free: Vec<usize>,
}

/// The worlds of a set: each program with what it needs, and the libraries that no program here needs.
///
/// `known`: the images are those of one process, in lookup order.
pub fn worlds(images: &[Image], known: bool) -> Vec<World> {
    if known {
        return vec![World { program: Some(0), fixed: (0..images.len()).collect(), free: Vec::new() }];
    }
    let linked = |i: &usize| images[*i].is_linked();
    let by_name = by_name(images);
    let mut worlds: Vec<World> = Vec::new();
    let mut placed = BTreeSet::new();
    for program in (0..images.len()).filter(|&i| images[i].program) {
        let fixed = closure(images, &[program], &by_name);
        if fixed.iter().any(linked) {
            placed.extend(fixed.iter().copied());
            worlds.push(World { program: Some(program), fixed, free: Vec::new() });
        }
    }
    let free: Vec<usize> = (0..images.len()).filter(|i| !images[*i].program && linked(i) && !placed.contains(i)).collect();
    if free.is_empty() {
        return worlds;
    }
    for free in alternatives(images, &free) {
        with_free(images, &mut worlds, free);
    }
    worlds
}

/// Adds libraries that no program needs: to each program that has a unit in common with them, or as a world of their own.
fn with_free(images: &[Image], worlds: &mut Vec<World>, free: Vec<usize>) {
    let ids =
        |members: &[usize]| -> BTreeSet<&Id> { members.iter().flat_map(|&i| images[i].stubs.iter().chain(&images[i].present)).collect() };
    let wanted = ids(&free);
    let mut related = false;
    let mut more = Vec::new();
    for world in worlds.iter().filter(|w| w.free.is_empty() && !ids(&w.fixed).is_disjoint(&wanted)) {
        more.push(World { free: free.clone(), ..world.clone() });
        related = true;
    }
    if !related {
        more.push(World { program: None, fixed: Vec::new(), free });
    }
    worlds.extend(more);
}

/// Libraries of one name (of two build trees, say) do not meet in a process: for each of them, a set with the nearest ones of
/// all other names.
fn alternatives(images: &[Image], free: &[usize]) -> Vec<Vec<usize>> {
    let mut names: BTreeMap<&OsStr, Vec<usize>> = BTreeMap::new();
    for &image in free {
        names.entry(images[image].path.file_name().unwrap_or_default()).or_default().push(image);
    }
    let nearness = |a: usize, b: usize| images[a].path.components().zip(images[b].path.components()).take_while(|(a, b)| a == b).count();
    let mut sets = BTreeSet::new();
    for &pivot in names.values().filter(|same| same.len() > 1).flatten() {
        let nearest = names.values().map(|same| {
            let first = same[0];
            same.iter().copied().fold(first, |best, i| if i == pivot || nearness(i, pivot) > nearness(best, pivot) { i } else { best })
        });
        let mut set: Vec<usize> = nearest.collect();
        set.sort_unstable();
        sets.insert(set);
    }
    if sets.is_empty() { vec![free.to_vec()] } else { sets.into_iter().collect() }
}

/// The lookup order after loading `roots` one after the other into the global scope, each with what it needs.
pub fn load_order(images: &[Image], roots: &[usize]) -> Vec<usize> {
    let by_name = by_name(images);
    let mut order: Vec<usize> = Vec::new();
    for root in roots {
        let more = closure(images, &[*root], &by_name);
        order.extend(more.into_iter().filter(|i| !order.contains(i)).collect::<Vec<_>>());
    }
    order
}

fn by_name(images: &[Image]) -> BTreeMap<Vec<u8>, Vec<usize>> {
    let mut by_name: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
    for (index, image) in images.iter().enumerate().filter(|(_, i)| !i.program) {
        let file = image.path.file_name().map(|n| n.as_encoded_bytes().to_vec());
        for name in file.into_iter().chain(image.soname.clone()).collect::<BTreeSet<_>>() {
            by_name.entry(name).or_default().push(index);
        }
    }
    by_name
}

/// Images and what they need, breadth first, as the dynamic linker looks names up.
fn closure(images: &[Image], roots: &[usize], by_name: &BTreeMap<Vec<u8>, Vec<usize>>) -> Vec<usize> {
    let mut order = roots.to_vec();
    let mut at = 0;
    while let Some(&image) = order.get(at) {
        for name in &images[image].needed {
            let candidates = by_name.get(name).map(Vec::as_slice).unwrap_or_default();
            let beside = candidates.iter().find(|&&c| images[c].path.parent() == images[image].path.parent());
            if let Some(&found) = beside.or(candidates.first())
                && !order.contains(&found)
            {
                order.push(found);
            }
        }
        at += 1;
    }
    order
}

impl World {
    /// Groups of images that have a unit in common; no two groups touch each other's registration.
    pub fn groups(&self, images: &[Image]) -> Vec<World> {
        let all: Vec<usize> = self.fixed.iter().chain(&self.free).copied().collect();
        let mut group_of: BTreeMap<usize, usize> = all.iter().map(|&i| (i, i)).collect();
        let mut first: BTreeMap<&Id, usize> = BTreeMap::new();
        fn root(group_of: &BTreeMap<usize, usize>, mut i: usize) -> usize {
            while group_of[&i] != i {
                i = group_of[&i];
            }
            i
        }
        for &image in &all {
            for id in images[image].stubs.iter().chain(&images[image].present).chain(images[image].registrars.keys()) {
                let other = *first.entry(id).or_insert(image);
                let (a, b) = (root(&group_of, image), root(&group_of, other));
                group_of.insert(a.max(b), a.min(b));
            }
        }
        let mut groups: BTreeMap<usize, World> = BTreeMap::new();
        for (members, fixed) in [(&self.fixed, true), (&self.free, false)] {
            for &image in members.iter().filter(|&&i| !images[i].stubs.is_empty() || !images[i].registrars.is_empty()) {
                let group = groups.entry(root(&group_of, image)).or_default();
                if fixed { group.fixed.push(image) } else { group.free.push(image) }
            }
        }
        groups.into_values().map(|g| World { program: self.program, ..g }).collect()
    }

    /// The orders to try.
    pub fn orders(&self) -> Vec<Vec<usize>> {
        let mut tails = Vec::new();
        if self.free.len() <= PERMUTED {
            permutations(&mut self.free.clone(), 0, &mut tails);
        } else {
            for at in 0..self.free.len() {
                let (one, mut rest) = (self.free[at], self.free.clone());
                rest.remove(at);
                tails.push([&[one][..], &rest].concat());
                tails.push([&rest[..], &[one]].concat());
            }
        }
        tails.into_iter().map(|tail| [&self.fixed[..], &tail].concat()).collect()
    }
}

fn permutations(items: &mut Vec<usize>, at: usize, out: &mut Vec<Vec<usize>>) {
    if at >= items.len() {
        out.push(items.clone());
        return;
    }
    for other in at..items.len() {
        items.swap(at, other);
        permutations(items, at + 1, out);
        items.swap(at, other);
    }
}
