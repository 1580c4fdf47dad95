//! Finds the peers that nothing reaches, though both ends live: the link was cut (docs/trees.md, "A
//! link that is cut"). The sender sees that data are under way all the time and none are confirmed,
//! or that there is no connection. Pure; the time is an argument.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{MOST_PEERS, Sent};
use crate::placement::tuning::{STALLED_AFTER, STALLED_REPEATED};
use crate::wire::NodeId;

/// A peer.
#[derive(Clone, Copy, Debug)]
struct PeerProgress {
    /// What there was at the last look.
    last: Sent,
    /// When something was last confirmed, or nothing was under way.
    fine: Duration,
    /// There was a connection.
    connected: bool,
}

impl PeerProgress {
    /// Whether nothing has got through for too long: [`STALLED_AFTER`], or on a long way until TCP
    /// has sent several times again. `farthest`: the same of the peer that is farthest away, for
    /// one to which there never was a connection.
    fn is_stalled(&self, now: Duration, farthest: Duration) -> bool {
        let known = self.last.patience;
        let patience = if known > Duration::ZERO { known } else { farthest };
        now.saturating_sub(self.fine) >= STALLED_AFTER.max(patience)
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Stalls {
    peers: BTreeMap<NodeId, PeerProgress>,
    /// What was told last, and when.
    told: Vec<NodeId>,
    told_at: Duration,
}

impl Stalls {
    /// What went over TCP to each peer so far, and who should have a connection and has none. Of
    /// others nothing is known.
    pub fn look<'a>(
        &mut self,
        now: Duration,
        sent: impl Iterator<Item = (&'a NodeId, &'a Sent)> + Clone,
        unconnected: &[NodeId],
    ) {
        let mut former = std::mem::take(&mut self.peers);
        for peer in unconnected.iter().take(MOST_PEERS) {
            let fresh = PeerProgress { last: Sent::default(), fine: now, connected: false };
            let known = former.remove(peer).unwrap_or(fresh);
            self.peers.insert(*peer, PeerProgress { connected: false, ..known });
        }
        for (peer, _) in sent.clone().take(MOST_PEERS) {
            self.peers.extend(former.remove_entry(peer));
        }
        for (peer, sent) in sent.take(MOST_PEERS) {
            let fresh = PeerProgress { last: *sent, fine: now, connected: true };
            let known = self.peers.entry(*peer).or_insert(fresh);
            let rests = known.last.busy == sent.busy;
            if rests || !known.connected || known.last.bytes != sent.bytes {
                known.fine = now;
            }
            (known.last, known.connected) = (*sent, true);
        }
    }

    /// To whom nothing gets through, if those are others than at the last call; and each second,
    /// since whoever was told may be another one now.
    pub fn take_news(&mut self, now: Duration) -> Option<Vec<NodeId>> {
        let patience = self.peers.values().map(|progress| progress.last.patience);
        let farthest = patience.max().unwrap_or_default();
        let stuck = self.peers.iter().filter(|(_, progress)| progress.is_stalled(now, farthest));
        let stuck: Vec<NodeId> = stuck.map(|(peer, _)| *peer).collect();
        let repeats = !stuck.is_empty() && now.saturating_sub(self.told_at) >= STALLED_REPEATED;
        if stuck == self.told && !repeats {
            return None;
        }
        self.told.clone_from(&stuck);
        self.told_at = now;
        Some(stuck)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(stalls: &mut Stalls, at: u64, sent: &[(NodeId, u64, u64)]) -> Option<Vec<NodeId>> {
        let missing: &[NodeId] = if sent.is_empty() { &[9] } else { &[] };
        let sent = sent.iter().map(|(peer, bytes, busy)| {
            let busy = Duration::from_millis(*busy);
            (*peer, Sent { bytes: *bytes, busy, ..Sent::default() })
        });
        let sent: BTreeMap<NodeId, Sent> = sent.collect();
        let now = Duration::from_millis(at);
        stalls.look(now, sent.iter(), missing);
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
        assert_eq!(look(4100, &[(9, 100, 4100), (11, 101, 1400)]), Some(vec![9]), "repeated");
        assert_eq!(look(4300, &[(9, 101, 4300), (11, 101, 1600)]), Some(vec![]));
        assert_eq!(look(6200, &[(9, 101, 6200), (11, 101, 3500)]), Some(vec![11]));
        assert_eq!(look(6400, &[(9, 101, 6400), (11, 101, 3700)]), Some(vec![9, 11]));
    }

    /// What gets lost twice over a way of 300 ms is confirmed seconds later.
    #[test]
    fn a_long_way_has_time_to_send_again() {
        let ms = Duration::from_millis;
        let (near, far) = (ms(7 * 200), ms(7 * 500));
        let mut stalls = Stalls::default();
        let mut look = |at, bytes| {
            let sent = |patience| Sent { bytes, busy: ms(at), patience, ..Sent::default() };
            let sent = BTreeMap::from([(9, sent(near)), (11, sent(far))]);
            // 13 never had a connection. It may be as far away as another one is.
            stalls.look(ms(at), sent.iter(), &[13]);
            stalls.take_news(ms(at))
        };
        assert_eq!(look(1000, 100), None);
        assert_eq!(look(2900, 100), None);
        assert_eq!(look(3000, 100), Some(vec![9]));
        assert_eq!(look(3900, 101), Some(vec![]), "it was sent again");
        assert_eq!(look(4500, 101), Some(vec![13]), "3.5 s since it was looked for");
        assert_eq!(look(5900, 101), Some(vec![9, 13]));
        assert_eq!(look(7400, 101), Some(vec![9, 11, 13]));
    }

    #[test]
    fn who_has_no_connection_any_more_is_stuck() {
        let mut stalls = Stalls::default();
        assert_eq!(looked(&mut stalls, 1000, &[]), None, "it never had one");
        assert_eq!(looked(&mut stalls, 2000, &[]), None);
        assert_eq!(looked(&mut stalls, 3000, &[]), Some(vec![9]));
        // A new connection counts anew.
        assert_eq!(looked(&mut stalls, 3200, &[(9, 0, 10)]), Some(vec![]));
        assert_eq!(looked(&mut stalls, 9000, &[]), Some(vec![9]));
        // It is gone, or goes through shared memory now.
        let nobody = BTreeMap::<NodeId, Sent>::new();
        stalls.look(Duration::from_secs(10), nobody.iter(), &[]);
        assert_eq!(stalls.take_news(Duration::from_secs(10)), Some(vec![]));
    }
}
