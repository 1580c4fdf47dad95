//! What a node of an elastic job measures while it runs, and when it tells the scheduler: how fast
//! data come in, how long a worker's rounds take, how busy a server is, and how long it waits for
//! its processor. `gauge` calls it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pslite_core::kv::rounds::Round;
use pslite_core::placement::links::{
    Arrival, CpuShare, Ran, Receiver, Sample, Sender, Sent, Stalls, Totals, Trains,
};
use pslite_core::placement::measured::Measured;
use pslite_core::placement::stragglers::{IterationTime, Profile, ServerTime, TimedRound};
use pslite_core::wire::{NodeId, is_worker};
use pslite_transport::native::{RateSample, SampleOf};

/// The least time between two reports about progress or work.
const TELL_EVERY: Duration = Duration::from_millis(200);
/// The most idle links that one message names.
const IDLE_MOST: usize = 16;
/// How often idle links are looked for.
const IDLE_EVERY: Duration = Duration::from_millis(500);
/// The time over which a server's work is measured.
const BUSY_EVERY: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(super) struct Measuring {
    receiver: Receiver,
    sender: Sender,
    /// What comes from other workers, and what does not get through to them: along trees.
    trains: Trains,
    stalls: Stalls,
    cpu_share: CpuShare,
    /// Whether this node is a worker.
    worker: bool,
    /// Bytes that came from other hosts; and those of them that went between a worker and a server.
    came: u64,
    exchanged: u64,
    profile: Profile,
    last_round: Option<u64>,
    told: Duration,
    /// When, and how much work had been done by then.
    looked: (Duration, Duration),
    /// A link that is idle for so long is probed; `None`: none is.
    probe_after: Option<Duration>,
    /// When it was last looked which are.
    looked_idle: Duration,
}

impl Measuring {
    /// That node's. `probe_after`: a link that is idle for so long is to be probed.
    pub(crate) fn new(node: NodeId, now: Duration, probe_after: Option<Duration>) -> Self {
        Self {
            receiver: Receiver::new(node),
            sender: Sender::new(node, now),
            trains: Trains::default(),
            stalls: Stalls::default(),
            cpu_share: CpuShare::default(),
            worker: is_worker(node),
            came: 0,
            exchanged: 0,
            profile: Profile::new(node),
            last_round: None,
            told: now,
            looked: (now, Duration::ZERO),
            probe_after,
            looked_idle: now,
        }
    }

    /// A node is gone.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.receiver.forget(node);
        self.trains.forget(node);
    }

    /// Pieces have moved.
    pub(crate) fn switched(&mut self, now: Duration) {
        self.profile.switched(now);
    }

    /// Parts of messages came in; `started`: the time 0 of the van.
    pub(crate) fn received(&mut self, started: Instant, samples: &[RateSample]) {
        for sample in samples {
            let of_workers = self.worker && is_worker(sample.peer);
            if of_workers && sample.of != SampleOf::Probe {
                let last = sample.last.saturating_duration_since(started);
                let RateSample { peer, bytes, follows, .. } = *sample;
                let padding = sample.of == SampleOf::Padding;
                self.trains.received(&Arrival { peer, bytes, last, follows, padding });
            }
            let part = Sample {
                peer: sample.peer,
                bytes: sample.bytes,
                head: sample.head,
                first: sample.first.saturating_duration_since(started),
                last: sample.last.saturating_duration_since(started),
                backlogged: sample.more,
            };
            match sample.of {
                // It counts with the whole probe.
                SampleOf::Padding => {}
                SampleOf::Probe => self.receiver.probed(&part),
                SampleOf::Message => {
                    let exchanged = is_worker(sample.peer) != self.worker;
                    let more = if exchanged { sample.bytes } else { 0 };
                    self.exchanged = self.exchanged.saturating_add(more);
                    self.receiver.received(&part);
                }
            }
            self.came = self.came.saturating_add(match sample.of {
                SampleOf::Padding => 0,
                SampleOf::Probe | SampleOf::Message => sample.bytes,
            });
        }
    }

    /// Looks what went out, if it is time.
    pub(crate) fn look_at_sent(
        &mut self,
        now: Duration,
        sent: impl FnOnce() -> BTreeMap<NodeId, Sent>,
        unconnected: impl FnOnce() -> Vec<NodeId>,
    ) {
        if self.sender.wants_look(now) {
            let (down, sent) = (self.inflow(now), sent());
            let round_trip = |(peer, sent): (&NodeId, &Sent)| Some((*peer, sent.round_trip?));
            self.receiver.ways(sent.iter().filter_map(round_trip));
            if self.worker {
                let mut unconnected = unconnected();
                unconnected.retain(|peer| is_worker(*peer));
                let workers = sent.iter().filter(|(peer, _)| is_worker(**peer));
                self.stalls.look(now, workers, &unconnected);
            }
            if self.sender.sent(now, sent, down) {
                self.receiver.sends();
            }
        }
    }

    /// Looks what its threads got of the processor, if it is time.
    pub(crate) fn look_at_work(
        &mut self,
        now: Duration,
        threads: impl FnOnce() -> BTreeMap<u32, Ran>,
    ) {
        if self.cpu_share.wants_look(now) {
            let (received, sent) = (self.came, self.sender.total());
            let exchanged = self.exchanged.saturating_add(self.sender.exchanged());
            self.cpu_share.look(now, Totals { threads: threads(), received, sent, exchanged });
        }
    }

    /// Bytes per second that this node can receive from all peers together, if it is known.
    pub(crate) fn inflow(&self, now: Duration) -> Option<f64> {
        self.receiver.down(now).map(|down| down.rate)
    }

    /// Bytes per second that this node can send to all peers together, if it is known.
    pub(crate) fn outflow(&self, now: Duration) -> Option<f64> {
        self.sender.up(self.inflow(now)).map(|up| up.rate)
    }

    /// Looks which links are idle, if it is time. `senders`: the nodes that can send to this one
    /// over TCP.
    pub(crate) fn look_at_idle(&mut self, now: Duration, senders: impl FnOnce() -> Vec<NodeId>) {
        if self.probe_after.is_none() || now.saturating_sub(self.looked_idle) < IDLE_EVERY {
            return;
        }
        self.looked_idle = now;
        senders().into_iter().for_each(|peer| self.receiver.expect(peer, now));
    }

    /// The links that are to be probed, if it is time.
    fn idle(&mut self, now: Duration) -> Vec<NodeId> {
        match self.probe_after.filter(|_| now == self.looked_idle) {
            Some(after) => self.receiver.take_idle(now, after, IDLE_MOST),
            None => Vec::new(),
        }
    }

    /// What is to be told now, if anything. `rounds` are over since the last call; `served` is how
    /// long a server has been busy with requests so far, if this is one.
    pub(crate) fn tell(
        &mut self,
        now: Duration,
        rounds: &[Round],
        served: Option<Duration>,
    ) -> Option<bytes::Bytes> {
        let mut links = self.receiver.report(now);
        if let Some(report) = &mut links {
            report.up = self.sender.up(self.inflow(now));
            report.pace = self.cpu_share.pace();
            report.carried.up = self.sender.take_carried();
        }
        let mut measured = Measured { links, ..Measured::default() };
        for round in rounds {
            let servers: Vec<ServerTime> = round
                .servers
                .iter()
                .map(|(server, seconds)| ServerTime { server: *server, seconds: *seconds })
                .collect();
            let Round { number, begun, seconds, iteration, computing, .. } = *round;
            let iteration = Some(IterationTime { seconds: iteration, computing });
            let round = TimedRound { number, begun, seconds, iteration, servers: &servers };
            let report = self.profile.round(now, &round);
            measured.rounds = report.or(measured.rounds);
            self.last_round = Some(number);
        }
        if now.saturating_sub(self.told) >= TELL_EVERY {
            measured.progress = self.last_round.take();
            measured.carried = self.trains.take(now);
            measured.stuck = self.stalls.take_news(now);
            self.told = now;
        }
        measured.busy = served.and_then(|served| self.busy(now, served));
        measured.idle = self.idle(now);
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
