//! What a node of an elastic job measures while it runs, and when it tells the scheduler: how fast data come
//! in, how long a worker's rounds take, how busy a server is. The clock of the van calls it.

use std::time::{Duration, Instant};

use super::measured::Measured;
use crate::kv::rounds::Round;
use crate::placement::links::{Receiver, Sample};
use crate::placement::stragglers::{Profile, ServerTime};
use crate::transport::native::RateSample;
use crate::wire::NodeId;

/// Between two words about progress or work, at least.
const TELL_EVERY: Duration = Duration::from_millis(200);
/// A server's work is looked at over that time.
const BUSY_EVERY: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(crate) struct Measuring {
    receiver: Receiver,
    profile: Profile,
    last_round: Option<u64>,
    told: Duration,
    /// When, and how much work had been done by then.
    looked: (Duration, Duration),
}

impl Measuring {
    /// That node's.
    pub(crate) fn new(node: NodeId, now: Duration) -> Self {
        Self {
            receiver: Receiver::new(node),
            profile: Profile::new(node),
            last_round: None,
            told: now,
            looked: (now, Duration::ZERO),
        }
    }

    /// A node is gone.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.receiver.forget(node);
    }

    /// Pieces have moved.
    pub(crate) fn switched(&mut self) {
        self.profile.switched();
    }

    /// Parts of messages came in; `started`: the time 0 of the van.
    pub(crate) fn received(&mut self, started: Instant, samples: &[RateSample]) {
        for sample in samples {
            self.receiver.received(&Sample {
                peer: sample.peer,
                bytes: sample.bytes,
                head: sample.head,
                first: sample.first.saturating_duration_since(started),
                last: sample.last.saturating_duration_since(started),
                backlogged: sample.more,
            });
        }
    }

    /// What is to be told now, if anything. `rounds` are over since the last call; `served` is how long a
    /// server has been busy with requests so far, if this is one.
    pub(crate) fn tell(
        &mut self,
        now: Duration,
        rounds: &[Round],
        served: Option<Duration>,
    ) -> Option<bytes::Bytes> {
        let mut measured = Measured { links: self.receiver.report(now), ..Measured::default() };
        for round in rounds {
            let servers: Vec<ServerTime> = round
                .servers
                .iter()
                .map(|(server, seconds)| ServerTime { server: *server, seconds: *seconds })
                .collect();
            let report = self.profile.round(now, round.number, round.seconds, &servers);
            measured.rounds = report.or(measured.rounds);
            self.last_round = Some(round.number);
        }
        if now.saturating_sub(self.told) >= TELL_EVERY {
            measured.progress = self.last_round.take();
            self.told = now;
        }
        measured.busy = served.and_then(|served| self.busy(now, served));
        (!measured.is_empty()).then(|| measured.encode())
    }

    fn busy(&mut self, now: Duration, served: Duration) -> Option<f64> {
        let (at, before) = self.looked;
        let passed = now.saturating_sub(at);
        if passed < BUSY_EVERY {
            return None;
        }
        self.looked = (now, served);
        Some(served.saturating_sub(before).as_secs_f64() / passed.as_secs_f64())
    }
}
