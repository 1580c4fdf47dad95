//! What nodes tell the scheduler's planner, as bytes: the reports of `placement` in protobuf,
//! written and read by prost. Numbers from the wire are not believed here; the planner leaves out
//! what makes no sense.

use std::time::Duration;

use prost::Message as _;

use super::links::{CardCarried, Estimate, LinkCarried, LinkReport, Pace, RateReport};
use super::stragglers::{IterationTime, ServerTime, WorkerReport};
use crate::wire::NodeId;

/// [`Estimate`].
#[derive(Clone, Copy, PartialEq, prost::Message)]
struct EncodedRate {
    #[prost(double, tag = "1")]
    rate: f64,
    #[prost(double, tag = "2")]
    lower: f64,
    #[prost(double, tag = "3")]
    confidence: f64,
    #[prost(uint32, tag = "4")]
    samples: u32,
}

/// [`LinkReport`].
#[derive(Clone, Copy, PartialEq, prost::Message)]
struct EncodedLink {
    #[prost(int32, tag = "1")]
    peer: NodeId,
    #[prost(message, optional, tag = "2")]
    rate: Option<EncodedRate>,
    #[prost(double, tag = "3")]
    recent: f64,
    /// Seconds.
    #[prost(double, tag = "4")]
    oldest: f64,
}

/// [`RateReport`].
#[derive(Clone, PartialEq, prost::Message)]
struct EncodedRates {
    #[prost(message, optional, tag = "1")]
    down: Option<EncodedRate>,
    #[prost(message, repeated, tag = "2")]
    links: Vec<EncodedLink>,
    #[prost(message, optional, tag = "3")]
    up: Option<EncodedRate>,
    #[prost(message, optional, tag = "4")]
    pace: Option<EncodedPace>,
    #[prost(message, optional, tag = "5")]
    carried: Option<EncodedPace>,
}

/// [`Pace`], or [`CardCarried`].
#[derive(Clone, Copy, PartialEq, prost::Message)]
struct EncodedPace {
    #[prost(double, tag = "1")]
    down: f64,
    #[prost(double, tag = "2")]
    up: f64,
}

/// [`ServerTime`].
#[derive(Clone, Copy, PartialEq, prost::Message)]
struct EncodedServerTime {
    #[prost(int32, tag = "1")]
    server: NodeId,
    #[prost(double, tag = "2")]
    seconds: f64,
}

/// [`WorkerReport`].
#[derive(Clone, PartialEq, prost::Message)]
struct EncodedRounds {
    #[prost(uint64, tag = "1")]
    first: u64,
    #[prost(uint64, tag = "2")]
    last: u64,
    #[prost(double, tag = "3")]
    seconds: f64,
    #[prost(message, repeated, tag = "4")]
    servers: Vec<EncodedServerTime>,
    /// Seconds of an iteration; 0: not said.
    #[prost(double, tag = "5")]
    iteration: f64,
    /// Seconds of it.
    #[prost(double, tag = "6")]
    computing: f64,
}

/// [`LinkCarried`].
#[derive(Clone, Copy, PartialEq, prost::Message)]
struct EncodedCarried {
    #[prost(int32, tag = "1")]
    peer: NodeId,
    #[prost(uint64, tag = "2")]
    bytes: u64,
    /// Seconds.
    #[prost(double, tag = "3")]
    busy: f64,
}

/// The peers to which nothing gets through.
#[derive(Clone, PartialEq, prost::Message)]
struct EncodedStuck {
    #[prost(int32, repeated, tag = "1")]
    peers: Vec<NodeId>,
}

/// All of it: [`Measured`].
#[derive(Clone, PartialEq, prost::Message)]
struct EncodedMeasured {
    #[prost(message, optional, tag = "1")]
    links: Option<EncodedRates>,
    #[prost(message, optional, tag = "2")]
    rounds: Option<EncodedRounds>,
    #[prost(uint64, optional, tag = "3")]
    progress: Option<u64>,
    #[prost(double, optional, tag = "4")]
    busy: Option<f64>,
    #[prost(int32, repeated, tag = "5")]
    idle: Vec<NodeId>,
    #[prost(message, repeated, tag = "6")]
    carried: Vec<EncodedCarried>,
    #[prost(message, optional, tag = "7")]
    stuck: Option<EncodedStuck>,
}

/// What a node measured since it last told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Its links.
    pub links: Option<RateReport>,
    /// A worker: its last rounds.
    pub rounds: Option<WorkerReport>,
    /// A worker: the last round that is over.
    pub progress: Option<u64>,
    /// A server: the fraction of the time that it spends with requests.
    pub busy: Option<f64>,
    /// Peers whose links to this node are idle and should be probed.
    pub idle: Vec<NodeId>,
    /// A worker: what came from other workers, along trees.
    pub carried: Vec<LinkCarried>,
    /// A worker: the other workers to which nothing gets through, if those are others than before.
    pub stuck: Option<Vec<NodeId>>,
}

impl Measured {
    /// True if it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> bytes::Bytes {
        let rate = |e: &Estimate| EncodedRate {
            rate: e.rate,
            lower: e.lower,
            confidence: e.confidence,
            samples: e.samples,
        };
        let links = self.links.as_ref().map(|report| EncodedRates {
            down: report.down.as_ref().map(rate),
            up: report.up.as_ref().map(rate),
            pace: report.pace.map(|pace| EncodedPace { down: pace.down, up: pace.up }),
            carried: Some(EncodedPace { down: report.carried.down, up: report.carried.up }),
            links: report
                .links
                .iter()
                .map(|l| EncodedLink {
                    peer: l.peer,
                    rate: Some(rate(&l.estimate)),
                    recent: l.recent,
                    oldest: l.oldest.as_secs_f64(),
                })
                .collect(),
        });
        let rounds = self.rounds.as_ref().map(|report| EncodedRounds {
            first: report.first_round,
            last: report.last_round,
            seconds: report.round_seconds,
            iteration: report.iteration.map_or(0.0, |time| time.seconds),
            computing: report.iteration.map_or(0.0, |time| time.computing),
            servers: report
                .servers
                .iter()
                .map(|time| EncodedServerTime { server: time.server, seconds: time.seconds })
                .collect(),
        });
        let (progress, busy, idle) = (self.progress, self.busy, self.idle.clone());
        let carried = self.carried.iter().map(|of| EncodedCarried {
            peer: of.peer,
            bytes: of.bytes,
            busy: of.busy.as_secs_f64(),
        });
        let carried = carried.collect();
        let stuck = self.stuck.as_ref().map(|peers| EncodedStuck { peers: peers.clone() });
        let all = EncodedMeasured { links, rounds, progress, busy, idle, carried, stuck };
        all.encode_to_vec().into()
    }

    /// Reads what that node told; `None` if it is nothing of the kind.
    #[must_use]
    pub fn decode(node: NodeId, bytes: &[u8]) -> Option<Self> {
        let told = EncodedMeasured::decode(bytes).ok()?;
        let estimate = |rate: EncodedRate| Estimate {
            rate: rate.rate,
            lower: rate.lower,
            confidence: rate.confidence,
            samples: rate.samples,
        };
        let links = told.links.map(|links| RateReport {
            node,
            down: links.down.map(estimate),
            up: links.up.map(estimate),
            pace: links.pace.map(|pace| Pace { down: pace.down, up: pace.up }),
            carried: links.carried.map_or_else(CardCarried::default, |carried| CardCarried {
                down: carried.down,
                up: carried.up,
            }),
            links: links
                .links
                .into_iter()
                .filter_map(|link| {
                    let estimate = estimate(link.rate?);
                    // What is no time is taken as long ago: nothing is concluded from that.
                    let oldest = Duration::try_from_secs_f64(link.oldest).unwrap_or(Duration::MAX);
                    Some(LinkReport { peer: link.peer, estimate, oldest, recent: link.recent })
                })
                .collect(),
        });
        let rounds = told.rounds.map(|rounds| WorkerReport {
            worker: node,
            first_round: rounds.first,
            last_round: rounds.last,
            round_seconds: rounds.seconds,
            iteration: (rounds.iteration > 0.0).then_some(IterationTime {
                seconds: rounds.iteration,
                computing: rounds.computing,
            }),
            servers: rounds
                .servers
                .into_iter()
                .map(|time| ServerTime { server: time.server, seconds: time.seconds })
                .collect(),
        });
        let carried = told.carried.into_iter().filter_map(|of| {
            let busy = Duration::try_from_secs_f64(of.busy).ok()?;
            Some(LinkCarried { peer: of.peer, bytes: of.bytes, busy })
        });
        let carried = carried.collect();
        let EncodedMeasured { progress, busy, idle, stuck, .. } = told;
        let stuck = stuck.map(|stuck| stuck.peers);
        Some(Self { links, rounds, progress, busy, idle, carried, stuck })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_was_written() {
        let estimate = Estimate { rate: 5e7, lower: 4e7, confidence: 0.5, samples: 8 };
        let links = RateReport {
            node: 9,
            down: Some(estimate),
            up: Some(Estimate { rate: 6e7, ..estimate }),
            pace: Some(Pace { down: 3e7, up: 2e7 }),
            carried: CardCarried { down: 2e7, up: 1e7 },
            links: vec![LinkReport {
                peer: 8,
                estimate,
                oldest: Duration::from_millis(2500),
                recent: 1e6,
            }],
        };
        let rounds = WorkerReport {
            worker: 9,
            first_round: 3,
            last_round: 7,
            round_seconds: 0.25,
            iteration: Some(IterationTime { seconds: 0.5, computing: 0.125 }),
            servers: vec![ServerTime { server: 8, seconds: 0.2 }],
        };
        let all = Measured {
            links: Some(links),
            rounds: Some(rounds),
            progress: Some(7),
            busy: Some(0.5),
            idle: vec![11, 13],
            carried: vec![LinkCarried {
                peer: 11,
                bytes: 1 << 20,
                busy: Duration::from_millis(250),
            }],
            stuck: Some(vec![]),
        };
        assert_eq!(Measured::decode(9, &all.encode()), Some(all));
        let nothing = Measured::default();
        assert!(nothing.is_empty());
        assert_eq!(Measured::decode(9, &nothing.encode()), Some(nothing));
        assert_eq!(Measured::decode(9, b"\xff\xff"), None);
    }
}
