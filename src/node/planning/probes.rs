//! Which idle links are probed when: nodes say which links to them are idle, and here it is decided who sends
//! padding next. A node is at one end of one probe at a time. Pure; the time is an argument.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::wire::NodeId;

/// After that time a probe is taken to be over. Nobody says so: a link that was not probed is idle still, and
/// comes again.
const PROBE_TIME: Duration = Duration::from_secs(1);
/// Links that wait for their turn, at most; more are forgotten, and come again too.
const MOST_WAITING: usize = 1 << 16;

/// One probe: who sends it, and to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Probe {
    /// Who sends.
    pub(crate) from: NodeId,
    /// Who receives, and measures.
    pub(crate) to: NodeId,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Probes {
    /// In the order in which they were asked for: where there are many, each has its turn.
    waiting: VecDeque<Probe>,
    /// The same.
    asked: BTreeSet<Probe>,
    /// Until when each node is at an end of a probe.
    busy: BTreeMap<NodeId, Duration>,
}

impl Probes {
    /// That node says that these links to it are idle.
    pub(super) fn idle(&mut self, to: NodeId, peers: &[NodeId]) {
        let all = peers.iter().filter(|from| **from != to);
        for from in all {
            let probe = Probe { from: *from, to };
            if self.waiting.len() < MOST_WAITING && self.asked.insert(probe) {
                self.waiting.push_back(probe);
            }
        }
    }

    /// The probes that begin now. `lives`: whether a node is in the job.
    pub(super) fn due(&mut self, now: Duration, lives: impl Fn(NodeId) -> bool) -> Vec<Probe> {
        self.busy.retain(|_, until| *until > now);
        let Self { waiting, asked, busy } = self;
        let mut due = Vec::new();
        waiting.retain(|probe| {
            let Probe { from, to } = *probe;
            if !lives(from) || !lives(to) {
                asked.remove(probe);
                return false;
            }
            if busy.contains_key(&from) || busy.contains_key(&to) {
                return true;
            }
            busy.extend([(from, now + PROBE_TIME), (to, now + PROBE_TIME)]);
            due.push(*probe);
            asked.remove(probe);
            false
        });
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_node_is_at_one_end_of_one_probe_at_a_time() {
        let mut probes = Probes::default();
        probes.idle(8, &[9, 11, 13]);
        probes.idle(10, &[9, 11]);
        probes.idle(10, &[9, 11, 10]);
        let mut seen = BTreeSet::new();
        // 9 is asked for twice, and so is 11: one after the other.
        for step in 0..6 {
            let due = probes.due(seconds(f64::from(step)), |_| true);
            let ends: BTreeSet<NodeId> = due.iter().flat_map(|p| [p.from, p.to]).collect();
            assert_eq!(ends.len(), 2 * due.len(), "{due:?}");
            assert_eq!(probes.due(seconds(f64::from(step) + 0.9), |_| true), []);
            assert!(due.iter().all(|probe| seen.insert(*probe)), "{due:?} came before");
        }
        assert_eq!(seen.len(), 5, "{seen:?}");
    }

    #[test]
    fn those_who_are_gone_are_not_probed() {
        let mut probes = Probes::default();
        probes.idle(8, &[9, 11]);
        let due = probes.due(seconds(1.0), |id| id != 9);
        assert_eq!(due, [Probe { from: 11, to: 8 }]);
        assert_eq!(probes.due(seconds(5.0), |_| true), [], "forgotten");
    }
}
