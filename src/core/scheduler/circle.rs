//! Finds nodes that wait for each other. Pure: knows no clock, and not what a wait is about.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::wire::NodeId;

/// Something that nodes are in, and that others have to come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wait {
    /// What it is, for people.
    pub(super) name: String,
    /// Who is in it.
    pub(super) members: BTreeSet<NodeId>,
    /// Whom it waits for.
    pub(super) missing: Vec<NodeId>,
    /// Its members do nothing else meanwhile.
    pub(super) blocks: bool,
}

/// One wait of a circle, and the node by which it waits for the next one: that is missing here and
/// in there.
pub(super) type Step = (usize, NodeId);

/// A shortest circle of waits in which at least one blocks; none if there is none. (Whoever has
/// pushed may still go on and push what another one waits for: if all waits are such, they may be
/// no circle.) The effort grows with the sum of members and missing, for each of the waits that
/// block.
pub(super) fn circle(waits: &[Wait]) -> Option<Vec<Step>> {
    let mut of: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
    for (index, wait) in waits.iter().enumerate() {
        for member in &wait.members {
            of.entry(*member).or_default().push(index);
        }
    }
    let blocking = waits.iter().enumerate().filter(|(_, wait)| wait.blocks);
    blocking.filter_map(|(from, _)| circle_from(from, waits, &of)).min_by_key(Vec::len)
}

/// The shortest circle through that wait.
fn circle_from(
    from: usize,
    waits: &[Wait],
    of: &BTreeMap<NodeId, Vec<usize>>,
) -> Option<Vec<Step>> {
    // By which step each wait was reached.
    let mut before: BTreeMap<usize, Step> = BTreeMap::new();
    let mut next = VecDeque::from([from]);
    while let Some(at) = next.pop_front() {
        for missing in &waits[at].missing {
            for to in of.get(missing).into_iter().flatten() {
                if !before.contains_key(to) {
                    before.insert(*to, (at, *missing));
                    next.push_back(*to);
                }
                if *to == from {
                    return Some(way_back(from, &before));
                }
            }
        }
    }
    None
}

fn way_back(from: usize, before: &BTreeMap<usize, Step>) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut at = from;
    while let Some(step) = before.get(&at) {
        steps.push(*step);
        at = step.0;
        if at == from {
            break;
        }
    }
    steps.reverse();
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(members: &[NodeId], missing: &[NodeId], blocks: bool) -> Wait {
        let members = members.iter().copied().collect();
        Wait { members, missing: missing.to_vec(), blocks, ..Wait::default() }
    }

    #[test]
    fn two_that_wait_for_each_other_are_a_circle() {
        let round = wait(&[9], &[11], false);
        let barrier = wait(&[11], &[9], true);
        assert_eq!(circle(&[round.clone(), barrier.clone()]), Some(vec![(1, 9), (0, 11)]));
        assert_eq!(circle(&[round]), None);
        assert_eq!(circle(&[barrier]), None);
    }

    #[test]
    fn the_shortest_one_is_named() {
        let waits = [
            wait(&[9], &[11], false),
            wait(&[11], &[13], false),
            wait(&[13], &[9], true),
            wait(&[15], &[13], true),
            wait(&[13], &[15], false),
        ];
        assert_eq!(circle(&waits[..3]), Some(vec![(2, 9), (0, 11), (1, 13)]));
        assert_eq!(circle(&waits), Some(vec![(3, 13), (4, 15)]));
    }

    /// One that is late is waited for by others, and waits for nobody.
    #[test]
    fn a_late_one_is_no_circle() {
        let waits =
            [wait(&[9, 11], &[13], false), wait(&[9], &[13], true), wait(&[11], &[13], true)];
        assert_eq!(circle(&waits), None);
    }

    /// All have pushed something that waits, and nobody is known to be unable to push the rest.
    #[test]
    fn rounds_alone_are_no_circle() {
        assert_eq!(circle(&[wait(&[9], &[11], false), wait(&[11], &[9], false)]), None);
    }
}
