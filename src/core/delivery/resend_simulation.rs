//! Two resenders over a network that loses, repeats and reorders, on virtual time.

use super::*;
use crate::delivery::seen;
use crate::random::Random;
use bytes::Bytes;
use std::collections::BTreeMap;

#[derive(Clone, Copy)]
struct Faults {
    loss: u32,
    repeat: u32,
}

/// What the run showed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Report {
    delivered: [usize; 2],
    twice: usize,
    lost_on_the_way: usize,
    repetitions_dropped: usize,
    gave_up: usize,
    most_pending: usize,
    most_remembered: usize,
    most_runs: usize,
    /// Of every delivery in order: equal only if the runs were.
    fingerprint: u64,
    took: Duration,
}

const IDS: [NodeId; 2] = [8, 9];

struct Simulation {
    random: Random,
    faults: Faults,
    ours: bool,
    now: Duration,
    nodes: [Resender; 2],
    /// In flight: arrival and a tie-breaker, receiver, message.
    network: BTreeMap<(Duration, u64), (usize, Message)>,
    sends: u64,
    seen: [Vec<bool>; 2],
    report: Report,
}

impl Simulation {
    fn new(seed: u64, faults: Faults, ours: bool, messages: usize) -> Self {
        let config = |my_id| ResendConfig {
            timeout: Duration::from_millis(100),
            retries_max: 10,
            my_id,
            first_sequence: 1,
        };
        Self {
            random: Random::new(seed),
            faults,
            ours,
            now: Duration::ZERO,
            nodes: [Resender::new(config(IDS[0])), Resender::new(config(IDS[1]))],
            network: BTreeMap::new(),
            sends: 0,
            seen: [vec![false; messages], vec![false; messages]],
            report: Report::default(),
        }
    }

    /// Puts a message on the wire, or loses it, or repeats it; delays differ, so order does too.
    fn transmit(&mut self, to: usize, message: &Message) {
        let copies = 1 + usize::from(self.random.percent(self.faults.repeat));
        for _ in 0..copies {
            if self.random.percent(self.faults.loss) {
                self.report.lost_on_the_way += 1;
                continue;
            }
            let delay = Duration::from_micros(50 + self.random.below(40_000));
            self.sends += 1;
            self.network.insert((self.now + delay, self.sends), (to, message.clone()));
        }
    }

    fn send_new(&mut self, from: usize, number: usize) {
        let to = 1 - from;
        let meta = Meta {
            app_id: 0,
            customer_id: 0,
            timestamp: number as i32,
            request: from == 1,
            ..Meta::default()
        };
        let body = Bytes::copy_from_slice(&number.to_ne_bytes());
        let mut message = Message { meta, data: [body].into_iter().collect() };
        assert!(self.nodes[from].outgoing(self.now, IDS[to], &mut message, self.ours));
        self.transmit(to, &message);
    }

    fn arrive(&mut self, at: usize, message: &Message) {
        let from = 1 - at;
        let incoming = self.nodes[at].incoming(self.now, IDS[from], message, self.ours);
        match incoming.verdict {
            Verdict::Deliver => self.deliver(at, message),
            Verdict::Duplicate => self.report.repetitions_dropped += 1,
            Verdict::AckConsumed => {}
        }
        if let Some(ack) = incoming.ack {
            self.transmit(from, &ack);
        }
    }

    fn deliver(&mut self, at: usize, message: &Message) {
        let number = usize::from_ne_bytes(message.data[0][..].try_into().unwrap());
        assert_eq!(message.meta.timestamp, number as i32);
        self.report.twice += usize::from(std::mem::replace(&mut self.seen[at][number], true));
        self.report.delivered[at] += 1;
        let event = number as u64 ^ ((at as u64) << 63) ^ self.now.as_nanos() as u64;
        self.report.fingerprint =
            (self.report.fingerprint ^ event).wrapping_mul(0x100_0000_01b3).rotate_left(17);
    }

    fn tick(&mut self) {
        for from in 0..2 {
            let (mut out, mut gave_up) = (Vec::new(), Vec::new());
            self.nodes[from].tick(self.now, &mut out, &mut gave_up);
            self.report.gave_up += gave_up.len();
            for (to, message) in out {
                assert_eq!(to, IDS[1 - from]);
                self.transmit(1 - from, &message);
            }
        }
    }

    fn measure(&mut self) {
        for node in &self.nodes {
            self.report.most_pending = self.report.most_pending.max(node.pending());
            self.report.most_remembered = self.report.most_remembered.max(node.remembered());
            let runs = node.channels.values().map(|channel| channel.sequences.runs()).max();
            self.report.most_runs = self.report.most_runs.max(runs.unwrap_or(0));
        }
    }

    /// Both nodes send `messages`, `window` unconfirmed at most, until all is confirmed.
    fn run(mut self, window: usize) -> Report {
        let messages = self.seen[0].len();
        let mut sent = [0; 2];
        loop {
            for from in 0..2 {
                while sent[from] < messages
                    && self.nodes[from].pending() < window
                    && !self.nodes[from].is_full(IDS[1 - from])
                {
                    self.send_new(from, sent[from]);
                    sent[from] += 1;
                }
            }
            self.measure();
            let deadlines = self.nodes.iter().filter_map(Resender::next_deadline);
            let arrival = self.network.keys().next().map(|(at, _)| *at);
            let Some(next) = deadlines.chain(arrival).min() else { break };
            assert!(next < Duration::from_secs(1_000_000), "it does not end");
            self.now = self.now.max(next);
            self.tick();
            while let Some(entry) = self.network.first_entry().filter(|e| e.key().0 <= self.now) {
                let (at, message) = entry.remove();
                self.arrive(at, &message);
            }
        }
        assert_eq!(sent, [messages; 2]);
        assert!(self.nodes.iter().all(|node| node.pending() == 0 && node.deadlines.is_empty()));
        self.report.took = self.now;
        self.report
    }
}

const BAD_NETWORK: Faults = Faults { loss: 30, repeat: 10 };

fn check_complete(report: &Report, messages: usize) {
    assert_eq!(report.delivered, [messages; 2], "{report:?}");
    assert_eq!((report.twice, report.gave_up), (0, 0), "{report:?}");
}

/// 10^5 messages each way, 30 % of everything lost, 10 % repeated, all reordered.
#[test]
fn a_bad_network_delivers_all_once_in_flat_memory() {
    const MESSAGES: usize = 100_000;
    for ours in [true, false] {
        let report = Simulation::new(42, BAD_NETWORK, ours, MESSAGES).run(256);
        check_complete(&report, MESSAGES);
        // The faults did happen: about 0.3 of at least two sends per message.
        assert!(report.lost_on_the_way > MESSAGES, "{report:?}");
        assert!(report.repetitions_dropped > MESSAGES / 4, "{report:?}");
        assert!(report.most_pending <= 256, "{report:?}");
        if ours {
            assert!(report.most_runs <= 257 && report.most_remembered <= 257, "{report:?}");
        } else {
            assert!(report.most_remembered <= seen::STOCK_KEPT, "{report:?}");
        }
    }
}

#[test]
fn many_seeds_complete_and_repeat_themselves() {
    for seed in 1..60 {
        // With half of all lost, the last message of a node is given up now and then, and rightly:
        // its peer has nothing else to say, so ten retries are all that it gets.
        let loss = 10 * (seed % 5);
        let run = || {
            let faults = Faults { loss, repeat: 20 };
            Simulation::new(seed.into(), faults, seed % 2 == 0, 500).run(1 + seed as usize)
        };
        let report = run();
        check_complete(&report, 500);
        assert_eq!(report, run(), "seed {seed}");
    }
}

#[test]
fn different_seeds_differ() {
    let run = |seed| Simulation::new(seed, BAD_NETWORK, true, 200).run(16).fingerprint;
    assert_ne!(run(1), run(2));
}

#[test]
fn a_good_network_sends_nothing_again() {
    let faults = Faults { loss: 0, repeat: 0 };
    let report = Simulation::new(7, faults, true, 2_000).run(64);
    check_complete(&report, 2_000);
    assert_eq!((report.repetitions_dropped, report.lost_on_the_way), (0, 0));
}

/// The oracle is not blind: with the memory of one side wiped, repetitions are delivered.
#[test]
fn a_planted_bug_is_caught() {
    let mut simulation = Simulation::new(3, BAD_NETWORK, true, 300);
    for number in 0..300 {
        simulation.send_new(0, number);
    }
    while simulation.report.twice == 0 {
        let arrival = simulation.network.keys().next().map(|(at, _)| *at);
        let deadline = simulation.nodes[0].next_deadline();
        let next = arrival.into_iter().chain(deadline).min().expect("no repetition was delivered");
        simulation.now = simulation.now.max(next);
        simulation.tick();
        while let Some(entry) =
            simulation.network.first_entry().filter(|entry| entry.key().0 <= simulation.now)
        {
            let (at, message) = entry.remove();
            simulation.nodes[1].channels.remove(&IDS[0]);
            simulation.arrive(at, &message);
        }
    }
}
