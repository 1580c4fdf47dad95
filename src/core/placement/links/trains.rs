//! How fast the links to a worker are that gets parts of a model along trees (docs/trees.md, "Rates
//! of links"). A message counts only if it followed another one without a pause, which its sender
//! says. The start of such a train does not count: a token bucket lets the first bytes through
//! faster than the link's rate, and TCP starts slowly. Pure; the time is an argument.

use std::collections::BTreeMap;
use std::time::Duration;

use super::MOST_PEERS;
use crate::placement::tuning::{
    CARRIED_TOLD, SENDING_PAUSE_MAX, TRAIN_HEAD, TRAIN_LEAST, TRAINS_USED,
};
use crate::wire::NodeId;

/// Something that came, a message, a fragment of one or padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its sender.
    pub peer: NodeId,
    /// Its bytes.
    pub bytes: u64,
    /// When all of it was here.
    pub last: Duration,
    /// The sender's connection still had something to send when it wrote this.
    pub follows: bool,
    /// It is a probe's.
    pub padding: bool,
}

/// What came over a link while it was kept busy, and how long that took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkCarried {
    /// Who sends on it.
    pub peer: NodeId,
    /// Bytes.
    pub bytes: u64,
    /// For how long the link was kept busy with them.
    pub busy: Duration,
}

/// What followed each other without a pause.
#[derive(Clone, Copy, Debug, Default)]
struct OpenTrain {
    /// When its last message was here.
    last: Duration,
    /// Bytes of it so far.
    length: u64,
    /// What counts of it.
    bytes: u64,
    busy: Duration,
    /// Those of that which were added to the link's.
    added: (u64, Duration),
}

/// One link.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    train: OpenTrain,
    /// What was not told yet.
    bytes: u64,
    busy: Duration,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Trains {
    links: BTreeMap<NodeId, Link>,
    /// When something last came that was no padding.
    used: Option<Duration>,
}

impl Trains {
    /// Something came.
    pub fn received(&mut self, arrival: &Arrival) {
        let Arrival { peer, bytes, last, follows, padding } = *arrival;
        if !padding {
            self.used = self.used.max(Some(last));
        }
        if self.links.len() >= MOST_PEERS && !self.links.contains_key(&peer) {
            return;
        }
        let link = self.links.entry(peer).or_default();
        let train = &mut link.train;
        let pause = last.checked_sub(train.last).filter(|_| follows && train.length > 0);
        let Some(took) = pause.filter(|pause| *pause <= SENDING_PAUSE_MAX) else {
            *train = OpenTrain { last, length: bytes, ..OpenTrain::default() };
            return;
        };
        if train.length >= TRAIN_HEAD {
            train.bytes = train.bytes.saturating_add(bytes);
            train.busy = train.busy.saturating_add(took);
        }
        (train.last, train.length) = (last, train.length.saturating_add(bytes));
        // A short one tells little: the network hands on many packets at once.
        if train.bytes >= TRAIN_LEAST {
            link.bytes = link.bytes.saturating_add(train.bytes - train.added.0);
            link.busy = link.busy.saturating_add(train.busy.saturating_sub(train.added.1));
            train.added = (train.bytes, train.busy);
        }
    }

    /// That peer is gone.
    pub fn forget(&mut self, peer: NodeId) {
        self.links.remove(&peer);
    }

    /// What came since the last call, of each link of which that is enough to tell. Nothing unless
    /// parts of rounds came lately: while rounds go straight they share the links with probes.
    pub fn take(&mut self, now: Duration) -> Vec<LinkCarried> {
        let used = |at: Duration| now.saturating_sub(at) <= TRAINS_USED;
        if !self.used.is_some_and(used) {
            self.links.clear();
            return Vec::new();
        }
        let told = self.links.iter_mut().filter(|(_, link)| link.bytes >= CARRIED_TOLD);
        told.map(|(peer, link)| {
            let (bytes, busy) = (link.bytes, link.busy);
            (link.bytes, link.busy) = (0, Duration::ZERO);
            LinkCarried { peer: *peer, bytes, busy }
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: u64 = 64 << 10;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn part(last: u64, follows: bool) -> Arrival {
        Arrival { peer: 9, bytes: PART, last: ms(last), follows, padding: false }
    }

    /// The first two parts are the head: the bucket was full.
    #[test]
    fn the_head_of_a_train_does_not_count() {
        let mut trains = Trains::default();
        for (last, follows) in [(100, false), (101, true), (125, true), (150, true)] {
            trains.received(&part(last, follows));
        }
        assert_eq!(trains.take(ms(300)), [], "too short a train");
        trains.received(&part(175, true));
        assert_eq!(trains.take(ms(300)), [LinkCarried { peer: 9, bytes: 3 * PART, busy: ms(74) }]);
        assert_eq!(trains.take(ms(300)), []);
        trains.received(&part(200, true));
        assert_eq!(trains.take(ms(300)), [LinkCarried { peer: 9, bytes: PART, busy: ms(25) }]);
        // After a pause of the sender all begins anew.
        for (last, follows) in [(240, false), (265, true), (290, true), (315, true)] {
            trains.received(&part(last, follows));
        }
        assert_eq!(trains.take(ms(300)), []);
    }

    #[test]
    fn single_parts_and_long_pauses_say_nothing() {
        let mut trains = Trains::default();
        for at in 0..100 {
            trains.received(&part(20 * at, false));
        }
        for at in 2..100 {
            trains.received(&part(2000 * at, true));
        }
        for _ in 0..100 {
            trains.received(&part(1, true));
            trains.received(&part(0, true));
        }
        assert_eq!(trains.take(ms(200_000)), [], "time does not go backwards");
    }

    /// A probe alone says nothing: who knows what else the link carries.
    #[test]
    fn padding_counts_while_parts_of_rounds_come() {
        let mut trains = Trains::default();
        let padding = |trains: &mut Trains, begin: u64| {
            for frame in 0..8 {
                let last = begin + 20 * frame;
                trains.received(&Arrival { padding: true, ..part(last, frame > 0) });
            }
        };
        padding(&mut trains, 100);
        assert_eq!(trains.take(ms(300)), []);
        trains.received(&part(350, false));
        padding(&mut trains, 400);
        assert_eq!(trains.take(ms(600)), [LinkCarried { peer: 9, bytes: 6 * PART, busy: ms(120) }]);
        padding(&mut trains, 5000);
        assert_eq!(trains.take(ms(5200)), []);
    }
}
