//! The cheapest tree that leads from a root to every site: the algorithm of Chu and Liu (1965) and
//! Edmonds (1967). Each site takes its cheapest entering arc; circles become one site, in which an
//! arc costs what it costs more than the one it replaces; and so on until there is no circle.
//!
//! Pure; ties go to the arc that is named first. At most one level for each site, each of which
//! looks at every arc once.

use super::cells::{at, put};

/// A way from one site to another, and its price.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arc {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) cost: f64,
}

/// An arc of one level, and which one it was on the level below.
#[derive(Clone, Copy)]
struct Traced {
    arc: Arc,
    below: usize,
}

/// The parent of each site but the root; None if a site cannot be reached.
pub(super) fn cheapest_arborescence(
    sites: usize,
    root: usize,
    arcs: &[Arc],
) -> Option<Vec<Option<usize>>> {
    let into_others = arcs.iter().enumerate().filter(|(_, arc)| arc.to != root);
    let traced: Vec<Traced> = into_others.map(|(below, arc)| Traced { arc: *arc, below }).collect();
    let mut parents = vec![None; sites];
    for number in chosen(sites, root, &traced)? {
        let arc = arcs.get(traced.get(number)?.below)?;
        put(&mut parents, arc.to, Some(arc.from));
    }
    Some(parents)
}

/// The numbers of the arcs of the cheapest tree, one for each site but the root. No arc enters the
/// root.
fn chosen(sites: usize, root: usize, arcs: &[Traced]) -> Option<Vec<usize>> {
    let best = entering(sites, arcs);
    let (groups, count) = grouped(sites, root, arcs, &best)?;
    if count == sites {
        return Some(best.into_iter().flatten().collect());
    }
    let saved = |site: usize| Some(arcs.get(at(&best, site)?)?.arc.cost);
    let upper: Vec<Traced> = arcs
        .iter()
        .enumerate()
        .filter_map(|(below, Traced { arc, .. })| {
            let (from, to) = (at(&groups, arc.from), at(&groups, arc.to));
            let cost = arc.cost - saved(arc.to)?;
            (from != to).then_some(Traced { arc: Arc { from, to, cost }, below })
        })
        .collect();
    // Each circle is opened where the arc of the level above enters it.
    let mut taken = best;
    for number in chosen(count, at(&groups, root), &upper)? {
        let below = upper.get(number)?.below;
        put(&mut taken, arcs.get(below)?.arc.to, Some(below));
    }
    Some(taken.into_iter().flatten().collect())
}

/// The cheapest arc into each site.
fn entering(sites: usize, arcs: &[Traced]) -> Vec<Option<usize>> {
    let mut best: Vec<Option<usize>> = vec![None; sites];
    let mut least = vec![f64::INFINITY; sites];
    for (number, Traced { arc, .. }) in arcs.iter().enumerate() {
        if arc.cost < at(&least, arc.to) {
            put(&mut least, arc.to, arc.cost);
            put(&mut best, arc.to, Some(number));
        }
    }
    best
}

/// The number of each site on the next level, where the sites of a circle are one; and how many
/// there are. None if a site has no arc.
fn grouped(
    sites: usize,
    root: usize,
    arcs: &[Traced],
    best: &[Option<usize>],
) -> Option<(Vec<usize>, usize)> {
    let before = |site: usize| Some(arcs.get(at(best, site)?)?.arc.from);
    let mut groups: Vec<Option<usize>> = vec![None; sites];
    // By which walk a site was seen.
    let mut walks: Vec<Option<usize>> = vec![None; sites];
    put(&mut walks, root, Some(sites));
    let mut count = 0;
    for start in 0..sites {
        let mut site = start;
        while at(&walks, site).is_none() {
            put(&mut walks, site, Some(start));
            site = before(site)?;
        }
        // This walk met itself: a circle.
        if at(&walks, site) == Some(start) && at(&groups, site).is_none() {
            let first = site;
            loop {
                put(&mut groups, site, Some(count));
                site = before(site)?;
                if site == first {
                    break;
                }
            }
            count += 1;
        }
    }
    let mut number = |group: Option<usize>| {
        group.unwrap_or_else(|| {
            count += 1;
            count - 1
        })
    };
    let groups: Vec<usize> = groups.into_iter().map(&mut number).collect();
    Some((groups, count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arcs(list: &[(usize, usize, f64)]) -> Vec<Arc> {
        list.iter().map(|(from, to, cost)| Arc { from: *from, to: *to, cost: *cost }).collect()
    }

    fn cost(arcs: &[Arc], parents: &[Option<usize>]) -> f64 {
        let of = |(to, from): (usize, &Option<usize>)| {
            let from = (*from)?;
            let all = arcs.iter().filter(|arc| arc.from == from && arc.to == to);
            all.map(|arc| arc.cost).min_by(f64::total_cmp)
        };
        parents.iter().enumerate().filter_map(of).sum()
    }

    /// The least cost over all ways to give each site a parent.
    fn by_trying(sites: usize, root: usize, arcs: &[Arc]) -> Option<f64> {
        let mut best: Option<f64> = None;
        let others: Vec<usize> = (0..sites).filter(|site| *site != root).collect();
        for code in 0..sites.pow(u32::try_from(others.len()).unwrap()) {
            let mut parents = vec![None; sites];
            let mut rest = code;
            for site in &others {
                parents[*site] = Some(rest % sites);
                rest /= sites;
            }
            let known =
                |to: usize, from: usize| arcs.iter().any(|arc| arc.from == from && arc.to == to);
            let ends = |mut site: usize| {
                (0..sites).any(|_| {
                    let here = site == root;
                    site = parents[site].unwrap_or(site);
                    here
                })
            };
            if others.iter().all(|site| known(*site, parents[*site].unwrap()))
                && others.iter().all(|site| ends(*site))
            {
                let cost = cost(arcs, &parents);
                best = Some(best.map_or(cost, |best: f64| best.min(cost)));
            }
        }
        best
    }

    #[test]
    fn a_circle_is_opened_where_that_is_cheapest() {
        let arcs =
            arcs(&[(0, 1, 10.0), (0, 2, 8.0), (1, 2, 1.0), (2, 3, 1.0), (3, 1, 1.0), (0, 3, 11.0)]);
        let parents = cheapest_arborescence(4, 0, &arcs).unwrap();
        assert_eq!(parents, [None, Some(3), Some(0), Some(2)]);
    }

    #[test]
    fn what_cannot_be_reached() {
        assert_eq!(cheapest_arborescence(3, 0, &arcs(&[(0, 1, 1.0), (2, 1, 1.0)])), None);
        assert_eq!(cheapest_arborescence(3, 0, &arcs(&[(2, 1, 1.0), (1, 2, 1.0)])), None);
        assert_eq!(cheapest_arborescence(1, 0, &[]), Some(vec![None]));
    }

    proptest! {
        #[test]
        fn no_tree_is_cheaper(
            root in 0..5_usize,
            list in prop::collection::vec((0..5_usize, 0..5_usize, 0..20_u32), 1..22),
        ) {
            let arcs: Vec<Arc> = list
                .iter()
                .filter(|(from, to, _)| from != to)
                .map(|(from, to, cost)| Arc { from: *from, to: *to, cost: f64::from(*cost) })
                .collect();
            let found = cheapest_arborescence(5, root, &arcs);
            let best = by_trying(5, root, &arcs);
            prop_assert_eq!(found.is_some(), best.is_some());
            if let (Some(parents), Some(best)) = (found, best) {
                prop_assert_eq!(parents[root], None);
                prop_assert!((cost(&arcs, &parents) - best).abs() < 1e-9);
            }
        }
    }
}
