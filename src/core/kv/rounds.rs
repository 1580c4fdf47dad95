//! How long a worker's rounds take, and how long each server takes in them, as the worker sees it
//! (docs/algorithms.md 4.3). An application does not say where its rounds begin. But it pushes each
//! key once per round, so the second push of a key begins the next round.
//!
//! Pure: the time is an argument. Must not know what a message says.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::wire::{Key, NodeId};

/// Keys of a round that are remembered; a job with more has no rounds.
const KEYS_MAX: usize = 1 << 20;
/// Servers of a round that are timed.
const SERVERS_MAX: usize = 16_384;

/// One round that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    /// Its number, from 1.
    pub number: u64,
    /// When it began.
    pub begun: Duration,
    /// Seconds from the first push to the last answer.
    pub seconds: f64,
    /// For each server: seconds from the first message to it to its last answer.
    pub servers: Vec<(NodeId, f64)>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    first: Duration,
    last: Option<Duration>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    /// How many rounds are over.
    number: u64,
    /// By key: how many rounds were over when it was last pushed.
    keys: BTreeMap<Key, u64>,
    whole: Option<Span>,
    servers: BTreeMap<NodeId, Span>,
}

impl Rounds {
    /// A push begins. The round before, if this begins a new one.
    pub fn pushed(&mut self, now: Duration, key: Key) -> Option<Round> {
        let room = self.keys.len() < KEYS_MAX;
        let mut again = false;
        if let Some(last) = self.keys.get_mut(&key) {
            again = *last == self.number;
            *last = self.number + u64::from(again);
        } else if room {
            self.keys.insert(key, self.number);
        }
        let ended = if again { self.end() } else { None };
        self.whole.get_or_insert(Span { first: now, last: None });
        ended
    }

    fn end(&mut self) -> Option<Round> {
        let seconds = |span: Span| Some(span.last?.saturating_sub(span.first).as_secs_f64());
        let servers = std::mem::take(&mut self.servers).into_iter();
        let servers = servers.filter_map(|(id, span)| Some((id, seconds(span)?))).collect();
        self.number += 1;
        let whole = self.whole.take()?;
        let (begun, seconds) = (whole.first, seconds(whole)?);
        Some(Round { number: self.number, begun, seconds, servers })
    }

    /// A message goes to a server.
    pub fn sent(&mut self, now: Duration, server: NodeId) {
        if self.whole.is_some() && self.servers.len() < SERVERS_MAX {
            self.servers.entry(server).or_insert(Span { first: now, last: None });
        }
    }

    /// A server has answered.
    pub fn answered(&mut self, now: Duration, server: NodeId) {
        for span in self.servers.get_mut(&server).into_iter().chain(&mut self.whole) {
            span.last = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_key_that_comes_again_begins_the_next_round() {
        let mut rounds = Rounds::default();
        for (now, key, server) in [(0, 1, 8), (10, 2, 10), (20, 3, 8)] {
            assert_eq!(rounds.pushed(at(now), key), None);
            rounds.sent(at(now), server);
        }
        for (now, server) in [(50, 10), (60, 8), (90, 8), (100, 10)] {
            rounds.answered(at(now), server);
        }
        let round = rounds.pushed(at(500), 2).unwrap();
        assert_eq!((round.number, round.begun, round.seconds), (1, at(0), 0.1));
        assert_eq!(round.servers, [(8, 0.09), (10, 0.09)]);
        rounds.sent(at(500), 10);
        rounds.answered(at(600), 10);
        let round = rounds.pushed(at(700), 2).unwrap();
        assert_eq!((round.number, round.begun), (2, at(500)));
        assert_eq!(round.servers, [(10, 0.1)]);
    }

    #[test]
    fn a_round_without_answers_says_nothing() {
        let mut rounds = Rounds::default();
        rounds.answered(at(1), 8);
        rounds.pushed(at(2), 1);
        rounds.sent(at(2), 8);
        assert_eq!(rounds.pushed(at(3), 1), None);
    }
}
