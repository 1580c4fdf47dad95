//! Whom the others wait for, where workers die and come back (docs/elastic.md, "Workers"). One rule
//! for all who wait: the rounds of `dist_sync` and the lease of a batch session. Were they two, a
//! worker could wait in one of them for somebody who waits for it in the other. Pure.

use crate::wire::NodeId;

/// The workers that are waited for, of a number of them: those of the beginning; if none of these
/// is left, the one that has been back for longest. Whoever else came back takes part and holds up
/// nobody: it may have begun different keys in different rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Awaited {
    /// The lowest life among them.
    since: u64,
    /// The only one, where they did not begin together.
    only: Option<NodeId>,
}

impl Awaited {
    /// Of these, each with its life: the policy that let it in, 0 for one of the beginning.
    pub fn of(workers: impl Iterator<Item = (u64, NodeId)>) -> Self {
        let (since, node) = workers.min().unwrap_or_default();
        Self { since, only: (since > 0).then_some(node) }
    }

    /// True if the worker with that id is waited for, in that life.
    #[must_use]
    pub fn has(self, since: u64, node: NodeId) -> bool {
        since == self.since && self.only.is_none_or(|only| only == node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn awaited(workers: &[(u64, NodeId)]) -> Vec<NodeId> {
        let awaited = Awaited::of(workers.iter().copied());
        let they = workers.iter().filter(|(since, node)| awaited.has(*since, *node));
        they.map(|(_, node)| *node).collect()
    }

    #[test]
    fn those_of_the_beginning_are_waited_for_or_the_one_that_is_back_for_longest() {
        assert_eq!(awaited(&[(0, 9), (0, 11), (3, 13)]), [9, 11]);
        assert_eq!(awaited(&[(5, 9), (3, 11), (3, 13)]), [11]);
        assert_eq!(awaited(&[(5, 9)]), [9]);
        assert!(awaited(&[]).is_empty());
    }
}
