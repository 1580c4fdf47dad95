//! To whom nothing gets through: a link that was cut while both its ends live (docs/trees.md, "A
//! link that is cut"). As the sender sees it: something is under way all the time, and nothing of
//! it is confirmed. Pure; needs no clock but the connections' own.

use std::collections::BTreeMap;

use super::{MOST_PEERS, Sent};
use crate::placement::tuning::STALLED_AFTER;
use crate::wire::NodeId;

/// A peer.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// What it had confirmed, and for how long its connections had been busy, when it last
    /// confirmed something.
    last: Sent,
    /// Nothing got through for long.
    is_stuck: bool,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Stalls {
    peers: BTreeMap<NodeId, Progress>,
    /// What was told last.
    told: Vec<NodeId>,
}

impl Stalls {
    /// What went to each peer so far.
    pub fn look<'a>(&mut self, sent: impl Iterator<Item = (&'a NodeId, &'a Sent)>) {
        let mut before = std::mem::take(&mut self.peers);
        for (peer, sent) in sent.take(MOST_PEERS) {
            let fresh = Progress { last: *sent, is_stuck: false };
            let known = before.remove(peer).filter(|known| {
                // With a new connection all begins anew.
                known.last.bytes == sent.bytes && known.last.busy <= sent.busy
            });
            let progress = known.map_or(fresh, |known| Progress {
                is_stuck: sent.busy.saturating_sub(known.last.busy) >= STALLED_AFTER,
                ..known
            });
            self.peers.insert(*peer, progress);
        }
    }

    /// To whom nothing gets through, if those are others than at the last call.
    pub fn take_news(&mut self) -> Option<Vec<NodeId>> {
        let stuck = self.peers.iter().filter(|(_, progress)| progress.is_stuck);
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
    use std::time::Duration;

    fn looked(stalls: &mut Stalls, sent: &[(NodeId, u64, u64)]) -> Option<Vec<NodeId>> {
        let sent = sent.iter().map(|(peer, bytes, busy)| {
            let busy = Duration::from_millis(*busy);
            (*peer, Sent { bytes: *bytes, padding: 0, busy })
        });
        let sent: BTreeMap<NodeId, Sent> = sent.collect();
        stalls.look(sent.iter());
        stalls.take_news()
    }

    #[test]
    fn what_is_busy_and_gets_nowhere_is_stuck() {
        let mut stalls = Stalls::default();
        let mut look = |sent: &[(NodeId, u64, u64)]| looked(&mut stalls, sent);
        assert_eq!(look(&[(9, 100, 1000), (11, 100, 1000)]), None);
        // 11 rests, 9 waits.
        assert_eq!(look(&[(9, 100, 2900), (11, 100, 1000)]), None);
        assert_eq!(look(&[(9, 100, 3000), (11, 100, 1100)]), Some(vec![9]));
        assert_eq!(look(&[(9, 100, 3500), (11, 100, 1100)]), None, "no news");
        assert_eq!(look(&[(9, 101, 3700), (11, 100, 1100)]), Some(vec![]));
        assert_eq!(look(&[(9, 101, 5800), (11, 100, 3200)]), Some(vec![9, 11]));
        // A new connection counts anew; and one is gone.
        assert_eq!(look(&[(9, 0, 10)]), Some(vec![]));
    }
}
