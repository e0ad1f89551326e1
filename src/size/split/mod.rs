//! A partition of objects into libraries under a limit that cuts few references.
//!
//! What is guaranteed: objects that share device symbols (relocatable code can't refer to another image's) and objects that share
//! hidden host symbols stay together; every library is at most as large as asked for, or there is an error; and no object
//! (with what is bound to it) could move alone to another library that has room, its own not left empty, and cut fewer
//! references. That the cut is the smallest of
//! all is not: that problem is NP-hard.

mod cmake;
mod graph;
mod partition;

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::Serialize;

pub use cmake::snippet;
pub use graph::Graph;

use super::shown;

/// How to cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// So many libraries.
    Parts(usize),
    /// Libraries of at most so many bytes.
    Max(u64),
}

/// A proposal.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The libraries.
    pub libraries: Vec<Library>,
    /// References between libraries.
    pub cut: u64,
    /// References between objects.
    pub references: u64,
    /// Libraries (by number, from 1) that need each other in a circle.
    pub circles: Vec<Vec<usize>>,
}

/// One library of a proposal.
#[derive(Clone, Debug, Serialize)]
pub struct Library {
    /// Its number, from 1.
    pub number: usize,
    /// Allocated bytes, with an estimate of what the device link adds.
    pub bytes: u64,
    /// Its objects and archives.
    #[serde(serialize_with = "lossy")]
    pub objects: Vec<PathBuf>,
    /// The libraries that it refers to, and how often.
    pub needs: Vec<(usize, u64)>,
    /// Whether it has relocatable device code, and so wants a device link of its own.
    pub device_link: bool,
}

/// Why there is no proposal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlan {
    /// Nothing to divide.
    #[error("there are no objects or archives to divide")]
    Empty,
    /// More libraries than groups of objects.
    #[error("{wanted} libraries of {groups} group(s) of objects: what shares device symbols or hidden symbols can't be divided")]
    TooMany {
        /// How many were asked for.
        wanted: usize,
        /// How many groups there are.
        groups: usize,
    },
    /// A group that is larger than a library may be.
    #[error("{objects} object(s) that can't be divided have {} together, the first is {first}", shown(*bytes))]
    TooLarge {
        /// Their bytes.
        bytes: u64,
        /// How many.
        objects: usize,
        /// One of them.
        first: String,
    },
}

/// Makes a proposal.
pub fn plan(graph: &Graph, wish: Wish) -> Result<Plan, NoPlan> {
    let groups = graph.groups();
    if groups.is_empty() {
        return Err(NoPlan::Empty);
    }
    let parts = match wish {
        Wish::Parts(wanted) if wanted > groups.len() || wanted == 0 => {
            return Err(NoPlan::TooMany { wanted, groups: groups.len() });
        }
        Wish::Parts(wanted) => partition::into(&groups, wanted),
        Wish::Max(max) => match groups.iter().find(|g| g.bytes > max) {
            Some(large) => {
                let first = graph.objects[large.objects[0]].path.display().to_string();
                return Err(NoPlan::TooLarge { bytes: large.bytes, objects: large.objects.len(), first });
            }
            None => partition::under(&groups, max),
        },
    };
    Ok(described(graph, &groups, &parts))
}

fn described(graph: &Graph, groups: &[graph::Group], parts: &[usize]) -> Plan {
    let mut part_of = vec![0; graph.objects.len()];
    for (group, &part) in groups.iter().zip(parts) {
        group.objects.iter().for_each(|&o| part_of[o] = part);
    }
    let count = parts.iter().max().map_or(0, |m| m + 1);
    let mut needs = vec![vec![0u64; count]; count];
    let mut references = 0;
    for &(from, to, weight) in &graph.references {
        references += weight;
        needs[part_of[from]][part_of[to]] += weight;
    }
    let needed = |from: usize| -> Vec<(usize, u64)> {
        (0..count).filter(|&to| to != from && needs[from][to] > 0).map(|to| (to + 1, needs[from][to])).collect()
    };
    let libraries: Vec<Library> = (0..count)
        .map(|part| {
            let inside: Vec<&graph::Object> = graph.objects.iter().zip(&part_of).filter(|(_, p)| **p == part).map(|(o, _)| o).collect();
            Library {
                number: part + 1,
                bytes: inside.iter().map(|o| o.bytes).sum(),
                objects: inside.iter().map(|o| o.path.clone()).collect(),
                needs: needed(part),
                device_link: inside.iter().any(|o| o.relocatable),
            }
        })
        .collect();
    let cut = libraries.iter().flat_map(|l| &l.needs).map(|(_, n)| n).sum();
    Plan { circles: circles(&libraries), libraries, cut, references }
}

/// Libraries that reach each other.
fn circles(libraries: &[Library]) -> Vec<Vec<usize>> {
    let reached = |start: &Library| -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut open = vec![start.number];
        while let Some(at) = open.pop() {
            open.extend(libraries[at - 1].needs.iter().map(|(to, _)| *to).filter(|to| reached.insert(*to)));
        }
        reached
    };
    let reach: Vec<BTreeSet<usize>> = libraries.iter().map(reached).collect();
    let mut circles: Vec<Vec<usize>> = Vec::new();
    for (at, own) in reach.iter().enumerate() {
        let number = at + 1;
        if own.contains(&number) && !circles.iter().any(|c| c.contains(&number)) {
            circles.push(own.iter().copied().filter(|to| reach[to - 1].contains(&number)).collect());
        }
    }
    circles
}

/// The proposal for people: file lists.
pub fn report(plan: &Plan) -> String {
    let mut out = format!("{} libraries; {} of {} references between objects are cut\n", plan.libraries.len(), plan.cut, plan.references);
    for library in &plan.libraries {
        let needs: Vec<String> = library.needs.iter().map(|(to, n)| format!("{to} ({n})")).collect();
        let needs = if needs.is_empty() { "needs no other".into() } else { format!("refers to {}", needs.join(", ")) };
        let link = if library.device_link { ", wants a device link" } else { "" };
        out += &format!("library {}: {} object(s), {}, {needs}{link}\n", library.number, library.objects.len(), shown(library.bytes));
        library.objects.iter().for_each(|o| out += &format!("  {}\n", o.display()));
    }
    for circle in &plan.circles {
        let names: Vec<String> = circle.iter().map(usize::to_string).collect();
        out += &format!("libraries {} need each other: link them without -Wl,-z,defs, and load them together\n", names.join(", "));
    }
    out
}

fn lossy<S: serde::Serializer>(paths: &[PathBuf], out: S) -> Result<S::Ok, S::Error> {
    out.collect_seq(paths.iter().map(|p| p.to_string_lossy()))
}
