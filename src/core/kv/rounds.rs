//! How long a worker's rounds take, and how long each server takes in them, as the worker sees it
//! (docs/algorithms.md 4.3). An application does not say where its rounds begin. But it pushes each
//! key once per round, so the second push of a key begins the next round. From there to the next
//! such push is the worker's iteration. While nothing is under way the worker computes: in
//! `dist_sync` a worker that is slower than the others computes long and waits little, and the
//! others wait for it.
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
    /// Seconds from its first push to that of the next round.
    pub iteration: f64,
    /// Those of `iteration` in which nothing was under way.
    pub computing: f64,
    /// For each server: seconds from the first message to it to its last answer.
    pub servers: Vec<(NodeId, f64)>,
}

#[derive(Clone, Copy, Debug)]
struct RoundSpan {
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
    whole: Option<RoundSpan>,
    servers: BTreeMap<NodeId, RoundSpan>,
    /// Since when nothing is under way; none while something is.
    idle: Option<Duration>,
    /// How long nothing was under way since the round began.
    computing: Duration,
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
        self.work_begins(now);
        let ended = if again { self.end(now) } else { None };
        self.whole.get_or_insert(RoundSpan { first: now, last: None });
        ended
    }

    /// Something is under way from now on.
    fn work_begins(&mut self, now: Duration) {
        if let Some(since) = self.idle.take() {
            self.computing += now.saturating_sub(since);
        }
    }

    /// All that was under way is answered.
    pub fn rests(&mut self, now: Duration) {
        if self.whole.is_some() {
            self.idle.get_or_insert(now);
        }
    }

    fn end(&mut self, now: Duration) -> Option<Round> {
        let seconds = |span: RoundSpan| Some(span.last?.saturating_sub(span.first).as_secs_f64());
        let servers = std::mem::take(&mut self.servers).into_iter();
        let servers = servers.filter_map(|(id, span)| Some((id, seconds(span)?))).collect();
        self.number += 1;
        let computing = std::mem::take(&mut self.computing).as_secs_f64();
        let whole = self.whole.take()?;
        let (begun, seconds) = (whole.first, seconds(whole)?);
        let iteration = now.saturating_sub(begun).as_secs_f64();
        Some(Round { number: self.number, begun, seconds, iteration, computing, servers })
    }

    /// A message goes to a server.
    pub fn sent(&mut self, now: Duration, server: NodeId) {
        self.work_begins(now);
        if self.whole.is_some() && self.servers.len() < SERVERS_MAX {
            self.servers.entry(server).or_insert(RoundSpan { first: now, last: None });
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

    /// Two workers of one job whose rounds take 1 ms. One computes for 200 ms, the other one for
    /// 20 ms, and then waits.
    #[test]
    fn what_a_worker_computes_is_told_from_its_waiting() {
        let played = |computes: u64, waits: u64| {
            let mut rounds = Rounds::default();
            let mut now = 0;
            let mut ended = Vec::new();
            for _ in 0..3 {
                ended.extend(rounds.pushed(at(now), 1));
                rounds.sent(at(now), 8);
                rounds.pushed(at(now), 2);
                rounds.sent(at(now), 8);
                rounds.answered(at(now + waits), 8);
                now += waits + 1;
                rounds.answered(at(now), 8);
                rounds.rests(at(now));
                now += computes;
            }
            ended.iter().map(|round| (round.iteration, round.computing)).collect::<Vec<_>>()
        };
        assert_eq!(played(200, 0), [(0.201, 0.2); 2]);
        assert_eq!(played(20, 180), [(0.201, 0.02); 2]);
    }

    /// A backward pass pushes one tensor after the other: what it computes between them counts, if
    /// the former ones are answered by then.
    #[test]
    fn computing_between_pushes_counts_too() {
        let mut rounds = Rounds::default();
        for (now, key) in [(0, 1), (50, 2)] {
            rounds.pushed(at(now), key);
            rounds.sent(at(now), 8);
            rounds.answered(at(now + 10), 8);
            rounds.rests(at(now + 10));
            rounds.rests(at(now + 15));
        }
        let round = rounds.pushed(at(100), 1).unwrap();
        assert_eq!((round.seconds, round.iteration, round.computing), (0.06, 0.1, 0.08));
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
