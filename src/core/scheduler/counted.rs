//! What servers and workers have told of what they have counted ([`Topic::Counters`]), where the
//! scheduler shows it: the newest totals of each. Values only.
//!
//! [`Topic::Counters`]: crate::wire::topic::Topic::Counters

use std::collections::BTreeMap;

use crate::wire::NodeId;
use crate::wire::counters::NodeTotals;

/// See the module. There are as many totals as nodes at most: the membership hears none but those
/// that are in the job.
#[derive(Clone, Debug, Default)]
pub struct CounterBook {
    totals: BTreeMap<NodeId, NodeTotals>,
}

impl CounterBook {
    /// A node told its totals. What cannot be read is left.
    pub fn told(&mut self, from: NodeId, bytes: &[u8]) {
        if let Some(totals) = NodeTotals::read(bytes) {
            self.totals.insert(from, totals);
        }
    }

    /// A node is gone, or another process has its place: that one's totals begin anew.
    pub fn forget(&mut self, id: NodeId) {
        self.totals.remove(&id);
    }

    /// The totals of all who told some.
    #[must_use]
    pub const fn totals(&self) -> &BTreeMap<NodeId, NodeTotals> {
        &self.totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_totals_count_until_the_node_is_gone() {
        let mut book = CounterBook::default();
        let bytes = |messages_sent| NodeTotals { messages_sent, ..NodeTotals::default() }.bytes();
        let sent = |book: &CounterBook| -> Vec<(NodeId, u64)> {
            book.totals().iter().map(|(id, totals)| (*id, totals.messages_sent)).collect()
        };
        for (id, count) in [(8, 5), (9, 6), (8, 7)] {
            book.told(id, &bytes(count));
        }
        book.told(9, b"\x08");
        assert_eq!(sent(&book), [(8, 7), (9, 6)]);
        book.forget(8);
        assert_eq!(sent(&book), [(9, 6)]);
        book.told(8, &bytes(1));
        assert_eq!(sent(&book), [(8, 1), (9, 6)], "it begins anew");
    }
}
