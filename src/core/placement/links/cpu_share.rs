//! What a node can receive and send when it is short of processor time: it shares its host, or may
//! use only a share of a processor (cgroups).
//!
//! Rates of links do not show this. A process that was stopped finds data in its buffers and reads
//! them faster than any card. And a slow server that has lost its pieces has processor time enough,
//! so it looks fast again. The kernel knows better: how long a thread ran, and how long it was
//! ready but had to wait. That gives the share of a processor that the node has. Divided by the
//! processor time per byte, it gives bytes per second. (PSLD's third cause, computation
//! interference; docs/algorithms.md 4.3.) Pure; the kernel's numbers are arguments.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::Pace;
use crate::placement::cost::bytes;
use crate::placement::tuning::{
    PROCESSOR_SHARE_MIN, STARVED_LOOKS, STARVED_LOOKS_OF, STARVED_WAIT, UNSTARVED_SHARE, WORK_KEPT,
    WORK_LOOK, WORK_TRAFFIC, WORK_USED,
};

/// What the kernel says of one thread, since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// For how long it ran.
    pub ran: Duration,
    /// For how long it could have run, and waited for a processor.
    pub waited: Duration,
}

/// Totals of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// By the kernel's number of the thread.
    pub threads: BTreeMap<u32, Ran>,
    /// Bytes that came from other hosts.
    pub received: u64,
    /// Bytes that went there.
    pub sent: u64,
    /// Those of both that went between a worker and a server.
    pub exchanged: u64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct CpuShare {
    looked: Duration,
    before: Totals,
    /// Of the last looks with traffic: whether the node was starved.
    starved: VecDeque<bool>,
    /// The share of a processor that was left when it was starved last, or that it had since.
    left: Option<f64>,
    received: f64,
    sent: f64,
    /// Seconds for which all threads together ran for that.
    ran: f64,
}

impl CpuShare {
    /// Whether it is time to look again.
    #[must_use]
    pub fn wants_look(&self, now: Duration) -> bool {
        now.saturating_sub(self.looked) >= WORK_LOOK
    }

    /// What there is by now.
    pub fn look(&mut self, now: Duration, totals: Totals) {
        let passed = now.saturating_sub(std::mem::replace(&mut self.looked, now)).as_secs_f64();
        let before = std::mem::replace(&mut self.before, totals);
        let received = self.before.received.saturating_sub(before.received);
        let sent = self.before.sent.saturating_sub(before.sent);
        let exchanged = self.before.exchanged.saturating_sub(before.exchanged);
        if before == Totals::default() || exchanged < WORK_TRAFFIC || passed <= 0.0 {
            return;
        }
        let (ran, waited) = spent(&before.threads, &self.before.threads);
        if self.left.is_none_or(|left| ran >= WORK_USED * left * passed) {
            for (sum, more) in [
                (&mut self.received, bytes(received)),
                (&mut self.sent, bytes(sent)),
                (&mut self.ran, ran),
            ] {
                *sum = *sum * WORK_KEPT + more;
            }
        }
        self.note(passed, ran, waited);
    }

    /// Concludes which share of a processor is left.
    fn note(&mut self, passed: f64, ran: f64, waited: f64) {
        let starved = waited >= STARVED_WAIT * passed;
        if self.starved.len() == STARVED_LOOKS_OF {
            self.starved.pop_front();
        }
        self.starved.push_back(starved);
        let often = self.starved.iter().filter(|starved| **starved).count() >= STARVED_LOOKS;
        if starved && (often || self.left.is_some()) {
            let now = ran / (ran + waited);
            // One look may catch a quota just spent.
            self.left = Some(self.left.map_or(now, |left| f64::midpoint(left, now)));
        } else if !starved && waited <= ran {
            // It had at least that much, and did not have to wait for it.
            self.left = self.left.map(|left| left.max(ran / passed));
        }
        self.left = self.left.filter(|left| *left < UNSTARVED_SHARE);
    }

    /// What it can receive and send, if the processor decides that.
    #[must_use]
    pub fn pace(&self) -> Option<Pace> {
        let left = self.left?.max(PROCESSOR_SHARE_MIN);
        let pace = Pace { down: self.received * left / self.ran, up: self.sent * left / self.ran };
        Some(pace).filter(Pace::is_sane)
    }
}

/// Seconds for which all threads ran, and for which the one that ran most had to wait.
fn spent(before: &BTreeMap<u32, Ran>, now: &BTreeMap<u32, Ran>) -> (f64, f64) {
    let since = now.iter().map(|(thread, now)| {
        let before = before.get(thread).copied().unwrap_or_default();
        let ran = now.ran.saturating_sub(before.ran).as_secs_f64();
        (ran, now.waited.saturating_sub(before.waited).as_secs_f64())
    });
    let (mut all, mut most) = (0.0, (0.0, 0.0));
    for (ran, waited) in since {
        all += ran;
        if ran > most.0 {
            most = (ran, waited);
        }
    }
    (all, most.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    /// A node whose threads are looked at each second.
    #[derive(Default)]
    struct WatchedNode {
        cpu_share: CpuShare,
        second: u64,
        totals: Totals,
        /// What comes and goes is no worker's.
        resting: bool,
    }

    impl WatchedNode {
        /// A second in which the thread with the data ran and waited so long, and so many bytes
        /// came and went.
        fn second(&mut self, ran: f64, waited: f64, received: u64, sent: u64) -> Option<Pace> {
            self.second += 1;
            let add = |thread: &mut Ran, ran: f64, waited: f64| {
                thread.ran += Duration::from_secs_f64(ran);
                thread.waited += Duration::from_secs_f64(waited);
            };
            add(self.totals.threads.entry(7).or_default(), ran, waited);
            // A clock, which waits whenever it wakes.
            add(self.totals.threads.entry(3).or_default(), ran / 100.0, waited);
            (self.totals.received, self.totals.sent) =
                (self.totals.received + received, self.totals.sent + sent);
            if !self.resting {
                self.totals.exchanged = self.totals.received + self.totals.sent;
            }
            let now = Duration::from_secs(self.second);
            assert!(self.cpu_share.wants_look(now));
            self.cpu_share.look(now, self.totals.clone());
            assert!(!self.cpu_share.wants_look(now));
            self.cpu_share.pace()
        }
    }

    fn near(pace: Option<Pace>, down: f64, up: f64) {
        let found = pace.unwrap();
        let near = |a: f64, b: f64| (a - b).abs() <= 0.05 * b;
        assert!(near(found.down, down) && near(found.up, up), "{found:?}, not {down} {up}");
    }

    #[test]
    fn a_thread_that_waits_shows_what_its_processor_can_do() {
        let mut node = WatchedNode::default();
        // A byte takes a hundredth of a microsecond: with all of a processor 100 MB/s.
        assert_eq!(node.second(0.2, 0.01, 10 * MB, 10 * MB), None);
        assert_eq!(node.second(0.2, 0.01, 10 * MB, 10 * MB), None);
        assert_eq!(node.second(0.02, 0.98, MB, MB), None, "once");
        for _ in 0..4 {
            node.second(0.02, 0.98, MB, MB);
        }
        near(node.cpu_share.pace(), 1e6, 1e6);
    }

    #[test]
    fn who_has_less_to_do_is_as_slow_as_it_was() {
        let mut node = WatchedNode::default();
        (0..8).for_each(|_| _ = node.second(0.02, 0.98, MB, MB / 2));
        // A quarter of that needs no waiting.
        for _ in 0..60 {
            near(node.second(0.005, 0.0, MB / 4, MB / 8), 1e6, 0.5e6);
        }
        // A pause, then nothing new.
        near(node.second(0.0, 0.0, 0, 0), 1e6, 0.5e6);
    }

    /// Found in the lab: a server with a hundredth of a core was given less and less, until it had
    /// nothing.
    #[test]
    fn what_runs_whatever_is_carried_does_not_make_it_slower_and_slower() {
        let mut node = WatchedNode::default();
        // A byte takes a hundredth of a microsecond, and 2 ms a second go elsewhere, of 20 ms.
        (0..8).for_each(|_| _ = node.second(0.02, 0.98, 9 * MB / 10, 9 * MB / 10));
        for _ in 0..10 {
            for fraction in [1.0, 0.6, 0.3, 0.1] {
                let carried = (fraction * 0.9 * MB as f64) as u64;
                node.second(0.002 + 0.018 * fraction, 0.0, carried, carried);
            }
        }
        near(node.cpu_share.pace(), 0.9e6, 0.9e6);
    }

    /// Pieces move in a rest, in which others use what is left of the processor.
    #[test]
    fn a_rest_says_nothing() {
        let mut node = WatchedNode::default();
        (0..8).for_each(|_| _ = node.second(0.02, 0.98, MB, MB));
        node.resting = true;
        for _ in 0..20 {
            near(node.second(0.001, 0.999, MB / 10, MB / 10), 1e6, 1e6);
        }
    }

    #[test]
    fn who_gets_its_processor_back_shows_it() {
        let mut node = WatchedNode::default();
        (0..8).for_each(|_| _ = node.second(0.02, 0.98, MB, MB));
        near(node.second(0.1, 0.01, 5 * MB, 5 * MB), 5e6, 5e6);
        assert_eq!(node.second(0.6, 0.01, 30 * MB, 30 * MB), None);
        assert_eq!(node.second(0.2, 0.01, 10 * MB, 10 * MB), None, "and stays so");
    }

    #[test]
    fn a_busy_host_is_no_starved_one() {
        let mut node = WatchedNode::default();
        for _ in 0..20 {
            assert_eq!(node.second(0.3, 0.3, 10 * MB, 10 * MB), None);
        }
        // What nobody sends to says nothing.
        for _ in 0..20 {
            assert_eq!(node.second(0.001, 0.9, 1000, 1000), None);
        }
    }

    #[test]
    fn who_only_receives_is_not_said_to_send_nothing() {
        let mut node = WatchedNode::default();
        (0..8).for_each(|_| _ = node.second(0.02, 0.98, MB, 0));
        assert_eq!(node.cpu_share.pace(), None);
    }
}
