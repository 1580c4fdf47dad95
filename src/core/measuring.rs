//! What a node of an elastic job measures while it runs, and when it tells the scheduler: how fast
//! data come in, how long a worker's rounds take, how busy a server is, and how long it waits for
//! its processor. Names the estimators of `placement` and the rounds of `kv`. Pure: time, and what
//! the data plane and the kernel count, are arguments.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use crate::kv::rounds::Round;
use crate::placement::links::{
    Arrival, CpuShare, Ran, Receiver, Sample, Sender, Sent, Stalls, Totals, Trains,
};
use crate::placement::measured::Measured;
use crate::placement::stragglers::{IterationTime, Profile, ServerTime, TimedRound};
use crate::wire::{NodeId, is_worker};

/// The least time between two reports about progress or work.
const TELL_EVERY: Duration = Duration::from_millis(200);
/// The most idle links that one message names.
const IDLE_MOST: usize = 16;
/// How often idle links are looked for.
const IDLE_EVERY: Duration = Duration::from_millis(500);
/// The time over which a server's work is measured.
const BUSY_EVERY: Duration = Duration::from_secs(1);

/// What a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentKind {
    /// Of a message.
    Message,
    /// A frame of padding.
    Padding,
    /// The timed part of a whole probe: a sample in itself.
    Probe,
}

/// One fragment of a message that came in over TCP. Times count from the van's time 0.
#[derive(Clone, Copy, Debug)]
pub struct TimedFragment {
    /// Who sent it.
    pub peer: NodeId,
    /// Its bytes.
    pub bytes: u64,
    /// Those of them that had arrived by `first`.
    pub head: u64,
    /// When it was seen first.
    pub first: Duration,
    /// When all of it was there.
    pub last: Duration,
    /// The sender had more for this node when it sent this.
    pub more: bool,
    /// It came right after what came before it on its connection.
    pub follows: bool,
    /// What it is.
    pub kind: FragmentKind,
}

/// See the module.
#[derive(Debug)]
pub struct Measuring {
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
    #[must_use]
    pub fn new(node: NodeId, now: Duration, probe_after: Option<Duration>) -> Self {
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
    pub fn forget(&mut self, node: NodeId) {
        self.receiver.forget(node);
        self.trains.forget(node);
    }

    /// Pieces have moved.
    pub fn switched(&mut self, now: Duration) {
        self.profile.switched(now);
    }

    /// Parts of messages came in.
    pub fn received(&mut self, fragments: impl IntoIterator<Item = TimedFragment>) {
        for fragment in fragments {
            self.received_one(&fragment);
        }
    }

    fn received_one(&mut self, fragment: &TimedFragment) {
        let TimedFragment { peer, bytes, head, first, last, more, follows, kind } = *fragment;
        if self.worker && is_worker(peer) && kind != FragmentKind::Probe {
            let padding = kind == FragmentKind::Padding;
            self.trains.received(&Arrival { peer, bytes, last, follows, padding });
        }
        let part = Sample { peer, bytes, head, first, last, backlogged: more };
        match kind {
            // It counts with the whole probe.
            FragmentKind::Padding => return,
            FragmentKind::Probe => self.receiver.probed(&part),
            FragmentKind::Message => {
                if is_worker(peer) != self.worker {
                    self.exchanged = self.exchanged.saturating_add(bytes);
                }
                self.receiver.received(&part);
            }
        }
        self.came = self.came.saturating_add(bytes);
    }

    /// Looks what went out, if it is time.
    pub fn look_at_sent(
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
    pub fn look_at_work(&mut self, now: Duration, threads: impl FnOnce() -> BTreeMap<u32, Ran>) {
        if self.cpu_share.wants_look(now) {
            let (received, sent) = (self.came, self.sender.total());
            let exchanged = self.exchanged.saturating_add(self.sender.exchanged());
            self.cpu_share.look(now, Totals { threads: threads(), received, sent, exchanged });
        }
    }

    /// Bytes per second that this node can receive from all peers together, if it is known.
    #[must_use]
    pub fn inflow(&self, now: Duration) -> Option<f64> {
        self.receiver.down(now).map(|down| down.rate)
    }

    /// Bytes per second that this node can send to all peers together, if it is known.
    #[must_use]
    pub fn outflow(&self, now: Duration) -> Option<f64> {
        self.sender.up(self.inflow(now)).map(|up| up.rate)
    }

    /// Looks which links are idle, if it is time. `senders`: the nodes that can send to this one
    /// over TCP.
    pub fn look_at_idle(&mut self, now: Duration, senders: impl FnOnce() -> Vec<NodeId>) {
        if self.probe_after.is_none() || now.saturating_sub(self.looked_idle) < IDLE_EVERY {
            return;
        }
        self.looked_idle = now;
        senders().into_iter().for_each(|peer| self.receiver.add_link(peer, now));
    }

    /// The links that are to be probed, if it is time.
    fn idle(&mut self, now: Duration) -> Vec<NodeId> {
        match self.probe_after.filter(|_| now == self.looked_idle) {
            Some(after) => self.receiver.take_idle(now, after, IDLE_MOST),
            None => Vec::new(),
        }
    }

    /// What is to be told now, if anything ([`Measured`]). `rounds` are over since the last call;
    /// `served` is how long a server has been busy with requests so far, if this is one.
    #[must_use]
    pub fn tell(
        &mut self,
        now: Duration,
        rounds: &[Round],
        served: Option<Duration>,
    ) -> Option<Bytes> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{server_id, worker_id};

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn told(bytes: &Bytes, from: NodeId) -> Measured {
        Measured::decode(from, bytes).unwrap()
    }

    #[test]
    fn a_worker_tells_of_the_rounds_that_it_is_given() {
        let me = worker_id(0);
        let mut measuring = Measuring::new(me, Duration::ZERO, None);
        assert_eq!(measuring.tell(millis(10), &[], None), None, "nothing was measured");
        let servers = vec![(server_id(0), 0.5)];
        let (begun, iteration, computing) = (Duration::ZERO, 1.5, 0.25);
        let round = Round { number: 7, begun, seconds: 1.0, iteration, computing, servers };
        let early = measuring.tell(TELL_EVERY - millis(1), &[round], None);
        assert!(early.is_none_or(|bytes| told(&bytes, me).progress.is_none()));
        let report = measuring.tell(TELL_EVERY, &[], None).unwrap();
        assert_eq!(told(&report, me).progress, Some(7));
        assert_eq!(measuring.tell(2 * TELL_EVERY, &[], None), None, "once");
    }

    #[test]
    fn a_server_tells_how_busy_it_was() {
        let me = server_id(0);
        let mut measuring = Measuring::new(me, Duration::ZERO, None);
        assert_eq!(measuring.tell(millis(999), &[], Some(millis(300))), None, "too early");
        let report = measuring.tell(millis(1250), &[], Some(millis(500))).unwrap();
        assert_eq!(told(&report, me).busy, Some(0.4));
        let report = measuring.tell(millis(2250), &[], Some(millis(750))).unwrap();
        assert_eq!(told(&report, me).busy, Some(0.25));
    }

    /// Padding counts with its probe, and what comes from a worker is no exchange with a server.
    #[test]
    fn bytes_that_came_are_counted_once() {
        let mut measuring = Measuring::new(worker_id(0), Duration::ZERO, None);
        let fragment = |peer, bytes, kind| TimedFragment {
            peer,
            bytes,
            head: 0,
            first: millis(1),
            last: millis(2),
            more: false,
            follows: false,
            kind,
        };
        measuring.received([
            fragment(server_id(0), 1, FragmentKind::Message),
            fragment(worker_id(1), 10, FragmentKind::Message),
            fragment(server_id(0), 100, FragmentKind::Padding),
            fragment(server_id(0), 1000, FragmentKind::Probe),
        ]);
        assert_eq!((measuring.came, measuring.exchanged), (1011, 1));
    }
}
