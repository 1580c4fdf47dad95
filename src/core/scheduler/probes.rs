//! Decides which idle links are probed, and when. Nodes say which links to them are idle; this
//! decides who sends padding next. A node is at one end of one probe at a time. While the whole job
//! is idle no link is probed: nobody waits for the result, the next round shows it anyway, and a
//! probe that meets other traffic on the same cards loses packets, after which TCP is slow on that
//! connection for seconds of that round. The exception is a link that data never keep busy, so that
//! only probes measure it: it is probed all the time. Pure; the time is an argument.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::wire::NodeId;

/// After that time a probe is taken to be over. Nobody says so: a link that was not probed is idle
/// still, and comes again.
const PROBE_TIME: Duration = Duration::from_secs(1);
/// A link was idle while others were busy if some node is told to have received something so soon
/// after.
const PROOF_TIME: Duration = Duration::from_secs(2);
/// Links that wait for their turn, at most; more are forgotten, and come again too.
const MOST_WAITING: usize = 1 << 16;

/// One probe: its sender and its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProbePair {
    /// Who sends.
    pub(super) from: NodeId,
    /// Who receives, and measures.
    pub(super) to: NodeId,
}

/// A probe that a node asked for.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    probe: ProbePair,
    /// When it did.
    at: Duration,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Probes {
    /// A job that has not been busy for so long is probed nevertheless.
    quiet: Duration,
    /// When some node was last told to have received anything but probes; none: never yet.
    traffic: Option<Duration>,
    /// In the order in which they were asked for: where there are many, each has its turn.
    waiting: VecDeque<Wanted>,
    /// The same.
    asked: BTreeSet<ProbePair>,
    /// Until when each node is at an end of a probe.
    busy: BTreeMap<NodeId, Duration>,
}

impl Probes {
    /// Without probes yet. `quiet`: if a job was never busy for so long since it began, its links
    /// are probed nevertheless.
    pub(super) fn new(quiet: Duration) -> Self {
        let (waiting, asked, busy) = Default::default();
        Self { quiet, traffic: None, waiting, asked, busy }
    }

    /// Some node says that it received something in the last second, and no probe.
    pub(super) const fn traffic(&mut self, now: Duration) {
        self.traffic = Some(now);
    }

    /// That node says that these links to it are idle.
    pub(super) fn idle(&mut self, now: Duration, to: NodeId, peers: &[NodeId]) {
        let all = peers.iter().filter(|from| **from != to);
        for from in all {
            let probe = ProbePair { from: *from, to };
            if self.waiting.len() < MOST_WAITING && self.asked.insert(probe) {
                self.waiting.push_back(Wanted { probe, at: now });
            }
        }
    }

    /// The probes that begin now. `lives`: whether a node is in the job.
    pub(super) fn due(&mut self, now: Duration, lives: impl Fn(NodeId) -> bool) -> Vec<ProbePair> {
        self.busy.retain(|_, until| *until > now);
        let Self { quiet, traffic, waiting, asked, busy } = self;
        let mut due = Vec::new();
        waiting.retain(|Wanted { probe, at }| {
            let ProbePair { from, to } = *probe;
            let proven = traffic.map_or(*at >= *quiet, |traffic| traffic > *at);
            // One that waited for its turn until the job rested is not sent either.
            let last = traffic.map_or(now, |traffic| traffic.max(*at));
            let late = now.saturating_sub(if proven { last } else { *at }) > PROOF_TIME;
            if late || !lives(from) || !lives(to) {
                asked.remove(probe);
                return false;
            }
            if !proven || busy.contains_key(&from) || busy.contains_key(&to) {
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

    /// Of a job in which data flow all the time.
    fn probes() -> Probes {
        let mut probes = Probes::new(seconds(30.0));
        probes.traffic(seconds(0.1));
        probes
    }

    #[test]
    fn a_node_is_at_one_end_of_one_probe_at_a_time() {
        let mut probes = probes();
        probes.idle(Duration::ZERO, 8, &[9, 11, 13]);
        probes.idle(Duration::ZERO, 10, &[9, 11]);
        probes.idle(Duration::ZERO, 10, &[9, 11, 10]);
        let mut seen = BTreeSet::new();
        // 9 is asked for twice, and so is 11: one after the other.
        for step in 1..7 {
            probes.traffic(seconds(f64::from(step)));
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
        let mut probes = probes();
        probes.idle(Duration::ZERO, 8, &[9, 11]);
        let due = probes.due(seconds(1.0), |id| id != 9);
        assert_eq!(due, [ProbePair { from: 11, to: 8 }]);
        assert_eq!(probes.due(seconds(5.0), |_| true), [], "forgotten");
    }

    #[test]
    fn a_link_is_probed_when_others_are_busy_after_it_was_found_idle() {
        let mut probes = probes();
        let probe = ProbePair { from: 9, to: 8 };
        probes.idle(seconds(1.0), 8, &[9]);
        assert_eq!(probes.due(seconds(1.5), |_| true), [], "perhaps all are");
        probes.traffic(seconds(1.8));
        assert_eq!(probes.due(seconds(1.9), |_| true), [probe]);
        probes.idle(seconds(5.0), 8, &[9]);
        for at in [5.1, 6.0, 7.0, 7.1] {
            assert_eq!(probes.due(seconds(at), |_| true), []);
        }
        probes.traffic(seconds(7.2));
        assert_eq!(
            probes.due(seconds(7.3), |_| true),
            [],
            "it was forgotten: the next round is under way"
        );
        probes.idle(seconds(8.0), 8, &[9]);
        probes.traffic(seconds(8.5));
        assert_eq!(probes.due(seconds(9.0), |_| true), [probe], "it came again");
    }

    /// Found in the lab: a node with many idle links was probed for 14 s of a rest. Where another
    /// job shared its processor, the node seemed slow, and lost pieces.
    #[test]
    fn who_waits_until_the_job_rests_is_not_probed() {
        let mut probes = probes();
        probes.idle(Duration::ZERO, 8, &[9, 11, 13, 15]);
        for (at, due) in [(1.0, 1), (2.0, 1), (2.2, 0), (3.0, 0), (4.0, 0)] {
            assert_eq!(probes.due(seconds(at), |_| true).len(), due, "{at}");
        }
        // They come again.
        probes.idle(seconds(5.0), 8, &[13, 15]);
        probes.traffic(seconds(5.5));
        assert_eq!(probes.due(seconds(6.0), |_| true), [ProbePair { from: 13, to: 8 }]);
    }

    #[test]
    fn a_job_that_rests_is_left_alone() {
        let mut probes = probes();
        for second in 1..1000 {
            probes.idle(seconds(f64::from(second)), 8, &[9]);
            assert_eq!(probes.due(seconds(f64::from(second) + 0.1), |_| true), []);
        }
    }

    #[test]
    fn a_job_that_never_keeps_a_link_busy_is_probed_now_and_then() {
        let mut probes = Probes::new(seconds(30.0));
        let probe = ProbePair { from: 9, to: 8 };
        probes.idle(seconds(29.0), 8, &[9]);
        assert_eq!(probes.due(seconds(29.1), |_| true), []);
        assert_eq!(probes.due(seconds(31.1), |_| true), []);
        for second in [32.0, 70.0] {
            probes.idle(seconds(second), 8, &[9]);
            assert_eq!(probes.due(seconds(second + 0.1), |_| true), [probe]);
        }
    }
}
