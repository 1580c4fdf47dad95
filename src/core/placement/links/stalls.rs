//! To whom nothing gets through: a link that was cut while both its ends live (docs/trees.md, "A
//! link that is cut"). As the sender sees it: something is under way all the time, and nothing of
//! it is confirmed, or there is no connection any more. Pure; the time is an argument.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{MOST_PEERS, Sent};
use crate::placement::tuning::STALLED_AFTER;
use crate::wire::NodeId;

/// A peer.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// What there was at the last look.
    last: Sent,
    /// When something was last confirmed, or nothing was under way.
    fine: Duration,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Stalls {
    peers: BTreeMap<NodeId, Progress>,
    /// What was told last.
    told: Vec<NodeId>,
}

impl Stalls {
    /// What went to each peer so far; who has no connection is missing.
    pub fn look<'a>(&mut self, now: Duration, sent: impl Iterator<Item = (&'a NodeId, &'a Sent)>) {
        for (peer, sent) in sent.take(MOST_PEERS) {
            let fresh = Progress { last: *sent, fine: now };
            let known = self.peers.entry(*peer).or_insert(fresh);
            let rests = known.last.busy == sent.busy;
            if rests || known.last.bytes != sent.bytes {
                known.fine = now;
            }
            known.last = *sent;
        }
    }

    /// That peer is gone.
    pub fn forget(&mut self, peer: NodeId) {
        self.peers.remove(&peer);
    }

    /// To whom nothing gets through, if those are others than at the last call.
    pub fn take_news(&mut self, now: Duration) -> Option<Vec<NodeId>> {
        let stalled = |progress: &Progress| now.saturating_sub(progress.fine) >= STALLED_AFTER;
        let stuck = self.peers.iter().filter(|(_, progress)| stalled(progress));
        let stuck: Vec<NodeId> = stuck.map(|(peer, _)| *peer).collect();
        if stuck == self.told {
            return None;
        }
        self.told.clone_from(&stuck);
        Some(stuck)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(stalls: &mut Stalls, at: u64, sent: &[(NodeId, u64, u64)]) -> Option<Vec<NodeId>> {
        let sent = sent.iter().map(|(peer, bytes, busy)| {
            let busy = Duration::from_millis(*busy);
            (*peer, Sent { bytes: *bytes, padding: 0, busy })
        });
        let sent: BTreeMap<NodeId, Sent> = sent.collect();
        let now = Duration::from_millis(at);
        stalls.look(now, sent.iter());
        stalls.take_news(now)
    }

    #[test]
    fn what_is_busy_and_gets_nowhere_is_stuck() {
        let mut stalls = Stalls::default();
        let mut look = |at, sent: &[(NodeId, u64, u64)]| looked(&mut stalls, at, sent);
        assert_eq!(look(1000, &[(9, 100, 1000), (11, 100, 1000)]), None);
        // 11 rests, 9 waits.
        assert_eq!(look(2900, &[(9, 100, 2900), (11, 100, 1000)]), None);
        assert_eq!(look(3100, &[(9, 100, 3100), (11, 100, 1000)]), Some(vec![9]));
        assert_eq!(look(3500, &[(9, 100, 3500), (11, 100, 1200)]), None, "no news");
        assert_eq!(look(3700, &[(9, 101, 3700), (11, 100, 1400)]), Some(vec![]));
        assert_eq!(look(5600, &[(9, 101, 5600), (11, 100, 3300)]), Some(vec![11]));
        assert_eq!(look(5800, &[(9, 101, 5800), (11, 100, 3500)]), Some(vec![9, 11]));
    }

    #[test]
    fn who_has_no_connection_any_more_is_stuck() {
        let mut stalls = Stalls::default();
        assert_eq!(looked(&mut stalls, 1000, &[(9, 100, 1000)]), None);
        assert_eq!(looked(&mut stalls, 2000, &[]), None);
        assert_eq!(looked(&mut stalls, 3000, &[]), Some(vec![9]));
        // A new connection counts anew.
        assert_eq!(looked(&mut stalls, 3200, &[(9, 0, 10)]), Some(vec![]));
        assert_eq!(looked(&mut stalls, 9000, &[]), Some(vec![9]));
        stalls.forget(9);
        assert_eq!(looked(&mut stalls, 9100, &[]), Some(vec![]), "it is gone");
    }
}
