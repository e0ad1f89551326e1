//! Groups into parts: greedy twice, then moves and exchanges as long as they help. The same input gives the same parts.

use super::graph::Group;

/// Rounds of improvement; each ends early when nothing helps any more.
const ROUNDS: usize = 50;
/// Exchanging pairs costs the square of this.
const MOST_FOR_EXCHANGES: usize = 600;

/// Into so many parts of about the same size; none is empty. There are at least as many groups.
pub fn into(groups: &[Group], parts: usize) -> Vec<usize> {
    let total: u64 = groups.iter().map(|g| g.bytes).fold(0, u64::saturating_add);
    let largest = groups.iter().map(|g| g.bytes).max().unwrap_or(0);
    let even = total.div_ceil(parts as u64);
    // The slack that lets things that belong together stay together.
    let mut room = largest.max(even.saturating_add(even / 10));
    loop {
        if let Some(found) = fitted(groups, parts, room) {
            return found;
        }
        room = room.saturating_add((room / 20).max(1));
    }
}

/// Into as few parts as this finds, of at most `max` bytes. No group is larger.
pub fn under(groups: &[Group], max: u64) -> Vec<usize> {
    let total: u128 = groups.iter().map(|g| u128::from(g.bytes)).sum();
    let least = total.div_ceil(u128::from(max.max(1))).max(1) as usize;
    let found = (least..=groups.len()).find_map(|parts| fitted(groups, parts, max));
    found.unwrap_or_else(|| (0..groups.len()).collect())
}

/// The better of the two ways; `None` when neither fits.
fn fitted(groups: &[Group], parts: usize, room: u64) -> Option<Vec<usize>> {
    let mut found: Option<(u64, Vec<usize>)> = None;
    let alone: Vec<Vec<usize>> = (0..groups.len()).map(|g| vec![g]).collect();
    for clusters in [clustered(groups, room), alone] {
        let Some(mut part_of) = placed(groups, clusters, parts, room) else { continue };
        fill_empty(groups, &mut part_of, parts);
        improve(groups, &mut part_of, parts, room);
        let cut = cut(groups, &part_of);
        if found.as_ref().is_none_or(|(best, _)| cut < *best) {
            found = Some((cut, part_of));
        }
    }
    found.map(|(_, part_of)| part_of)
}

/// Joins what refers to each other most, as long as the two fit into one part.
fn clustered(groups: &[Group], room: u64) -> Vec<Vec<usize>> {
    let mut edges: Vec<(u64, usize, usize)> = Vec::new();
    for (a, group) in groups.iter().enumerate() {
        edges.extend(group.edges.range(a + 1..).map(|(&b, &weight)| (weight, a, b)));
    }
    edges.sort_by_key(|&(weight, a, b)| (std::cmp::Reverse(weight), a, b));
    let mut cluster_of: Vec<usize> = (0..groups.len()).collect();
    let mut clusters: Vec<Vec<usize>> = (0..groups.len()).map(|g| vec![g]).collect();
    let mut bytes: Vec<u64> = groups.iter().map(|g| g.bytes).collect();
    for (_, a, b) in edges {
        let (into, from) = (cluster_of[a].min(cluster_of[b]), cluster_of[a].max(cluster_of[b]));
        if into == from || bytes[into].saturating_add(bytes[from]) > room {
            continue;
        }
        let moved = std::mem::take(&mut clusters[from]);
        moved.iter().for_each(|&g| cluster_of[g] = into);
        clusters[into].extend(moved);
        bytes[into] += bytes[from];
    }
    clusters.retain(|c| !c.is_empty());
    clusters
}

/// Places clusters, largest first, where they have most references, and else where there is most room.
fn placed(groups: &[Group], mut clusters: Vec<Vec<usize>>, parts: usize, room: u64) -> Option<Vec<usize>> {
    let size = |c: &[usize]| c.iter().map(|&g| groups[g].bytes).fold(0, u64::saturating_add);
    clusters.sort_by_key(|c| (std::cmp::Reverse(size(c)), c[0]));
    let mut part_of = vec![usize::MAX; groups.len()];
    let mut filled = vec![0u64; parts];
    for cluster in &clusters {
        let bytes = size(cluster);
        let mut drawn = vec![0u64; parts];
        for (&to, &weight) in cluster.iter().flat_map(|&g| &groups[g].edges) {
            if part_of[to] != usize::MAX {
                drawn[part_of[to]] += weight;
            }
        }
        let fits = (0..parts).filter(|&p| filled[p].saturating_add(bytes) <= room);
        let part = fits.max_by_key(|&p| (drawn[p], std::cmp::Reverse(filled[p]), std::cmp::Reverse(p)))?;
        filled[part] += bytes;
        cluster.iter().for_each(|&g| part_of[g] = part);
    }
    Some(part_of)
}

/// Gives every empty part the group whose leaving cuts least.
fn fill_empty(groups: &[Group], part_of: &mut [usize], parts: usize) {
    for part in 0..parts {
        if part_of.contains(&part) {
            continue;
        }
        let alone = |g: usize| part_of.iter().filter(|&&p| p == part_of[g]).count() == 1;
        let candidates = (0..groups.len()).filter(|&g| !alone(g));
        if let Some(group) = candidates.min_by_key(|&g| (drawn(groups, part_of, g, part_of[g]), g)) {
            part_of[group] = part;
        }
    }
}

/// References between a group and a part.
fn drawn(groups: &[Group], part_of: &[usize], group: usize, part: usize) -> u64 {
    groups[group].edges.iter().filter(|(to, _)| part_of[**to] == part).map(|(_, weight)| weight).sum()
}

fn improve(groups: &[Group], part_of: &mut [usize], parts: usize, room: u64) {
    let mut filled = vec![0u64; parts];
    let mut count = vec![0usize; parts];
    for (group, &part) in groups.iter().zip(part_of.iter()) {
        filled[part] += group.bytes;
        count[part] += 1;
    }
    for _ in 0..ROUNDS {
        // Every move cuts fewer references than before, so this ends.
        while moved(groups, part_of, &mut filled, &mut count, room) {}
        if groups.len() > MOST_FOR_EXCHANGES || !exchange(groups, part_of, &mut filled, room) {
            return;
        }
    }
    while moved(groups, part_of, &mut filled, &mut count, room) {}
}

/// Moves each group that is better elsewhere; whether there was one.
fn moved(groups: &[Group], part_of: &mut [usize], filled: &mut [u64], count: &mut [usize], room: u64) -> bool {
    let mut helped = false;
    for group in 0..groups.len() {
        let from = part_of[group];
        if count[from] == 1 {
            continue;
        }
        let here = drawn(groups, part_of, group, from);
        let fits = (0..filled.len()).filter(|&p| p != from && filled[p].saturating_add(groups[group].bytes) <= room);
        let best = fits.map(|p| (drawn(groups, part_of, group, p), std::cmp::Reverse(p))).max();
        if let Some((_, std::cmp::Reverse(to))) = best.filter(|(there, _)| *there > here) {
            filled[from] -= groups[group].bytes;
            filled[to] += groups[group].bytes;
            count[from] -= 1;
            count[to] += 1;
            part_of[group] = to;
            helped = true;
        }
    }
    helped
}

/// Exchanges the first pair of groups that helps.
fn exchange(groups: &[Group], part_of: &mut [usize], filled: &mut [u64], room: u64) -> bool {
    for a in 0..groups.len() {
        for b in a + 1..groups.len() {
            let (pa, pb) = (part_of[a], part_of[b]);
            if pa == pb {
                continue;
            }
            let (ba, bb) = (groups[a].bytes, groups[b].bytes);
            if (filled[pa] - ba).saturating_add(bb) > room || (filled[pb] - bb).saturating_add(ba) > room {
                continue;
            }
            let between = groups[a].edges.get(&b).copied().unwrap_or(0);
            let now = drawn(groups, part_of, a, pa) + drawn(groups, part_of, b, pb);
            let then = drawn(groups, part_of, a, pb) + drawn(groups, part_of, b, pa) - 2 * between;
            if then > now {
                filled[pa] = filled[pa] - ba + bb;
                filled[pb] = filled[pb] - bb + ba;
                part_of.swap(a, b);
                return true;
            }
        }
    }
    false
}

/// References between parts.
fn cut(groups: &[Group], part_of: &[usize]) -> u64 {
    let mut cut = 0;
    for (a, group) in groups.iter().enumerate() {
        cut += group.edges.range(a + 1..).filter(|(b, _)| part_of[a] != part_of[**b]).map(|(_, weight)| weight).sum::<u64>();
    }
    cut
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn groups(sizes: &[u64], edges: &[(usize, usize, u64)]) -> Vec<Group> {
        let mut groups: Vec<Group> =
            sizes.iter().enumerate().map(|(n, &bytes)| Group { objects: vec![n], bytes, ..Group::default() }).collect();
        for &(a, b, weight) in edges {
            let (a, b) = (a % sizes.len(), b % sizes.len());
            if a != b {
                *groups[a].edges.entry(b).or_default() += weight;
                *groups[b].edges.entry(a).or_default() += weight;
            }
        }
        groups
    }

    #[test]
    fn two_knots_with_one_thread_between_are_cut_at_the_thread() {
        let knot = |o: usize| [(o, o + 1, 5), (o, o + 2, 5), (o + 1, o + 2, 5)];
        let edges: Vec<_> = knot(0).into_iter().chain(knot(3)).chain([(2, 3, 1)]).collect();
        let groups = groups(&[10; 6], &edges);
        let parts = into(&groups, 2);
        assert_eq!(cut(&groups, &parts), 1);
        assert!(parts[0] == parts[1] && parts[1] == parts[2] && parts[3] == parts[4] && parts[4] == parts[5]);
    }

    proptest! {
        #[test]
        fn every_part_keeps_to_the_limit_and_no_single_move_would_help(
            sizes in prop::collection::vec(1u64..100, 1..24),
            edges in prop::collection::vec((0usize..24, 0usize..24, 1u64..9), 0..60),
            max in 100u64..400,
        ) {
            let groups = groups(&sizes, &edges);
            let part_of = under(&groups, max);
            let parts = part_of.iter().max().unwrap() + 1;
            let filled: Vec<u64> = (0..parts).map(|p| sizes.iter().zip(&part_of).filter(|(_, q)| **q == p).map(|(s, _)| s).sum()).collect();
            prop_assert!(filled.iter().all(|f| (1..=max).contains(f)), "{:?}", filled);
            for g in 0..groups.len() {
                if part_of.iter().filter(|&&p| p == part_of[g]).count() == 1 { continue }
                for p in (0..parts).filter(|&p| p != part_of[g] && filled[p] + sizes[g] <= max) {
                    prop_assert!(drawn(&groups, &part_of, g, p) <= drawn(&groups, &part_of, g, part_of[g]));
                }
            }
        }

        #[test]
        fn as_many_parts_as_asked_for_and_none_empty(
            sizes in prop::collection::vec(0u64..100, 1..24), wanted in 1usize..24,
        ) {
            let groups = groups(&sizes, &[]);
            let wanted = wanted.min(sizes.len());
            let part_of = into(&groups, wanted);
            prop_assert!((0..wanted).all(|p| part_of.contains(&p)) && part_of.iter().all(|&p| p < wanted));
        }
    }
}
