//! What the links of trees carry, as the scheduler knows it from the reports of all workers
//! (docs/trees.md, "Rates of links"). A report covers some 0.2 s, and what such a time shows
//! differs by 10 % and more while the link stays the same. So a link's rate is a mean over many
//! reports, until what came last differs clearly from it: then the link has changed, and only that
//! counts. Trees for rates of a minute ago are as bad as none, and trees for what reports differ by
//! are worse than those in force. Pure; the time is an argument, and may stand still while nobody
//! uses any link.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::{LinkCarried, MOST_LINKS, MOST_REPORTED};
use crate::placement::cost::bytes;
use crate::placement::tuning::{
    CARRIED_BYTES, CARRIED_CHANGED, CARRIED_DOUBTED, CARRIED_FADE, CARRIED_FADE_BUSY, CARRIED_KEPT,
    CARRIED_LEAST, CARRIED_RARE, CARRIED_SPAN, CARRIED_TIME,
};
use crate::wire::NodeId;

/// One report of a link.
#[derive(Clone, Copy, Debug)]
struct CarriedReport {
    bytes: u64,
    busy: Duration,
    at: Duration,
}

/// Bytes, and the time that they took. Either may be the weighted sum of several reports.
#[derive(Clone, Copy, Debug, Default)]
struct BusyBytes {
    bytes: f64,
    seconds: f64,
}

impl BusyBytes {
    fn add(&mut self, report: &CarriedReport) {
        self.bytes += bytes(report.bytes);
        self.seconds += report.busy.as_secs_f64();
    }

    fn weigh(&mut self, weight: f64) {
        self.bytes *= weight;
        self.seconds *= weight;
    }

    fn rate(self) -> f64 {
        self.bytes / self.seconds
    }

    /// True if this, what came last, is not of a link that carries `mean`. Little has to differ by
    /// more.
    fn differs(self, mean: Self) -> bool {
        let short = CARRIED_TIME.as_secs_f64() / self.seconds;
        let short = short.min(bytes(CARRIED_BYTES) / self.bytes).max(1.0);
        (self.rate() / mean.rate()).ln().abs() > CARRIED_CHANGED * short
    }
}

/// What is known of a link.
#[derive(Clone, Debug, Default)]
struct CarriedLink {
    /// The newest last.
    reports: VecDeque<CarriedReport>,
    /// Since the link changed; what is longer ago counts less.
    mean: BusyBytes,
    /// Busy time since then.
    since: Duration,
}

impl CarriedLink {
    fn report(&mut self, report: CarriedReport) {
        if let Some(before) = self.reports.back() {
            let passed = report.at.saturating_sub(before.at);
            let faded = passed.div_duration_f64(CARRIED_FADE)
                + report.busy.div_duration_f64(CARRIED_FADE_BUSY);
            self.mean.weigh((-faded).exp());
            // Who says something so rarely is known by what it said last.
            let most = CARRIED_RARE * report.busy.as_secs_f64();
            if passed > CARRIED_SPAN && self.mean.seconds > most {
                self.mean.weigh(most / self.mean.seconds);
            }
        }
        self.mean.add(&report);
        if self.reports.len() == CARRIED_KEPT {
            self.reports.pop_front();
        }
        self.reports.push_back(report);
        let recent = self.recent();
        self.since = self.since.saturating_add(report.busy);
        if recent.bytes >= bytes(CARRIED_LEAST) && recent.differs(self.mean) {
            self.since = Duration::ZERO;
        }
        // Within a second of a change what is recent is from before it, too.
        if self.since <= CARRIED_TIME {
            self.mean = recent;
        }
    }

    /// What came last: a busy second, or what is enough without one.
    fn recent(&self) -> BusyBytes {
        let (mut sum, mut busy, mut newest) = (BusyBytes::default(), Duration::ZERO, None);
        for report in self.reports.iter().rev() {
            let newest = *newest.get_or_insert(report.at);
            let is_old = newest.saturating_sub(report.at) > CARRIED_SPAN;
            let is_enough = sum.bytes >= bytes(CARRIED_BYTES) || busy >= CARRIED_TIME;
            if is_old || is_enough {
                break;
            }
            sum.add(report);
            busy = busy.saturating_add(report.busy);
        }
        sum
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct CarriedRates {
    /// By sender and receiver.
    links: BTreeMap<(NodeId, NodeId), CarriedLink>,
}

impl CarriedRates {
    /// A node tells what came to it. Numbers that cannot be are left out. Gives the senders of the
    /// others.
    pub fn report(&mut self, now: Duration, to: NodeId, carried: &[LinkCarried]) -> Vec<NodeId> {
        let mut counted = Vec::new();
        for LinkCarried { peer, bytes, busy } in carried.iter().take(MOST_REPORTED).copied() {
            let (place, can_be) = ((peer, to), bytes > 0 && busy > Duration::ZERO);
            if !can_be || (self.links.len() >= MOST_LINKS && !self.links.contains_key(&place)) {
                continue;
            }
            let link = self.links.entry(place).or_default();
            link.report(CarriedReport { bytes, busy, at: now });
            counted.push(peer);
        }
        counted
    }

    /// Some link has changed, so others may have, too: what comes from now on counts more than what
    /// is known of them.
    pub fn doubt(&mut self) {
        for link in self.links.values_mut() {
            let most = CARRIED_DOUBTED.as_secs_f64();
            if link.mean.seconds > most {
                link.mean.weigh(most / link.mean.seconds);
            }
        }
    }

    /// Bytes per second of a link, if enough came over it.
    #[must_use]
    pub fn rate(&self, from: NodeId, to: NodeId) -> Option<f64> {
        let link = self.links.get(&(from, to))?;
        (link.recent().bytes >= bytes(CARRIED_LEAST)).then(|| link.mean.rate())
    }

    /// Nodes of which that is not true are gone.
    pub fn retain(&mut self, lives: impl Fn(&NodeId) -> bool) {
        self.links.retain(|(from, to), _| lives(from) && lives(to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// Tells of the link from 9 to 11.
    fn tell(rates: &mut CarriedRates, at: f64, bytes: u64, busy: f64) -> Option<f64> {
        rates.report(seconds(at), 11, &[LinkCarried { peer: 9, bytes, busy: seconds(busy) }]);
        rates.rate(9, 11)
    }

    fn near(rate: Option<f64>, expected: f64) -> bool {
        rate.is_some_and(|rate| (rate / expected - 1.0).abs() < 0.03)
    }

    #[test]
    fn after_a_change_the_last_busy_second_counts() {
        let mut rates = CarriedRates::default();
        assert_eq!(tell(&mut rates, 1.0, CARRIED_LEAST / 2, 0.1), None, "too little");
        for step in 0..20 {
            tell(&mut rates, 2.0 + f64::from(step) / 5.0, 400_000, 0.2);
        }
        assert!(near(rates.rate(9, 11), 2e6));
        // A tenth, and ten times as much: known after a busy second.
        let mut changed = |from: f64, bytes: u64| {
            let all =
                (1..=5).map(|step| tell(&mut rates, from + f64::from(step) / 5.0, bytes, 0.2));
            all.last().flatten()
        };
        assert!(near(changed(6.0, 40_000), 2e5));
        assert!(near(changed(8.0, 400_000), 2e6));
        assert!(near(changed(60.0, 100_000), 5e5), "long after");
    }

    /// A fast link fills a report with enough bytes to count.
    #[test]
    fn a_change_of_a_fast_link_is_seen_in_fewer_seconds() {
        for (before, after) in [(10_000_000, 5_000_000), (2_500_000, 5_000_000)] {
            let mut rates = CarriedRates::default();
            for step in 0..50 {
                tell(&mut rates, f64::from(step) / 5.0, before, 0.2);
            }
            let last =
                (0..5).map(|step| tell(&mut rates, 10.0 + f64::from(step) / 5.0, after, 0.2));
            assert!(near(last.last().flatten(), 2.5e7), "{before}");
        }
    }

    /// Seen in the lab: links that stayed the same, and trees that changed with what reports
    /// differed by.
    #[test]
    fn what_reports_differ_by_is_no_change() {
        let mut rates = CarriedRates::default();
        let (mut least, mut most) = (f64::MAX, f64::MIN);
        for step in 0..200_u32 {
            // One of seven reports shows 40 % less, and one 40 % more.
            let bytes = 400_000 * [100, 60, 100, 105, 100, 95, 140][step as usize % 7] / 100;
            let rate = tell(&mut rates, f64::from(step) / 5.0, bytes, 0.2);
            assert!(step < 40 || near(rate, 2e6), "{step}: {rate:?}");
            let recent = rates.links[&(9, 11)].recent().rate();
            (least, most) = (least.min(recent), most.max(recent));
        }
        assert!(least < 1.9e6 && most > 2.1e6, "{least} {most}: reports hardly differed");
    }

    #[test]
    fn a_small_change_is_followed_slowly() {
        let mut rates = CarriedRates::default();
        for step in 0..100 {
            tell(&mut rates, f64::from(step) / 5.0, 400_000, 0.2);
        }
        for step in 0..100 {
            tell(&mut rates, 20.0 + f64::from(step) / 5.0, 360_000, 0.2);
        }
        assert!(near(rates.rate(9, 11), 1.8e6), "{:?}", rates.rate(9, 11));
    }

    /// Nothing else shows that an unused link has become faster.
    #[test]
    fn a_few_probes_show_a_change_of_an_unused_link() {
        let mut rates = CarriedRates::default();
        for step in 0..100 {
            tell(&mut rates, f64::from(step) / 5.0, 400_000, 0.2);
        }
        // Twice as fast, by probes that take 0.1 s.
        let mut probe = |at| tell(&mut rates, at, 400_000, 0.1).unwrap_or_default();
        let rates = [50.0, 53.0, 59.0, 71.0, 95.0].map(&mut probe);
        assert!(rates[0] > 2.5e6, "one says a third: {rates:?}");
        assert!(rates[4] > 3.6e6, "{rates:?}");
    }

    #[test]
    fn what_is_doubted_is_soon_replaced() {
        let mut rates = CarriedRates::default();
        for step in 0..100 {
            tell(&mut rates, f64::from(step) / 5.0, 400_000, 0.2);
        }
        rates.doubt();
        assert!(near(rates.rate(9, 11), 2e6), "nothing came since");
        let mut probe = |at| tell(&mut rates, at, 400_000, 0.1);
        let probes = [21.0, 22.0, 23.0].map(&mut probe);
        assert!(probes[2] > Some(2.4e6), "not only by the mean, 2.1e6: {probes:?}");
    }

    #[test]
    fn what_cannot_be_is_left_out() {
        let mut rates = CarriedRates::default();
        let told = |peer, bytes, busy: f64| LinkCarried { peer, bytes, busy: seconds(busy) };
        let all = [told(9, 0, 1.0), told(13, 1_000_000, 0.0), told(15, 1_000_000, 1.0)];
        assert_eq!(rates.report(seconds(1.0), 11, &all), [15]);
        assert_eq!(rates.rate(9, 11), None);
        assert_eq!(rates.rate(13, 11), None);
        assert_eq!(rates.rate(15, 11), Some(1e6));
        assert_eq!(rates.rate(11, 15), None);
        rates.retain(|node| *node != 15);
        assert_eq!(rates.rate(15, 11), None);
    }
}
