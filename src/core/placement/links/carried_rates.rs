//! What the links of trees carry, as the scheduler knows it from the reports of all workers
//! (docs/trees.md, "Rates of links"). Of each link the last busy time counts, and nothing before
//! it: trees for rates of a minute ago are as bad as none. Pure; the time is an argument.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::{LinkCarried, MOST_LINKS, MOST_REPORTED};
use crate::placement::cost::bytes;
use crate::placement::tuning::{
    CARRIED_BYTES, CARRIED_KEPT, CARRIED_LEAST, CARRIED_SPAN, CARRIED_TIME,
};
use crate::wire::NodeId;

/// One report of a link.
#[derive(Clone, Copy, Debug)]
struct CarriedReport {
    bytes: u64,
    busy: Duration,
    at: Duration,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct CarriedRates {
    /// By sender and receiver, the newest last.
    links: BTreeMap<(NodeId, NodeId), VecDeque<CarriedReport>>,
    newest: Option<Duration>,
}

impl CarriedRates {
    /// A node tells what came to it. Numbers that cannot be are left out.
    pub fn report(&mut self, now: Duration, to: NodeId, carried: &[LinkCarried]) {
        for LinkCarried { peer, bytes, busy } in carried.iter().take(MOST_REPORTED).copied() {
            let (place, can_be) = ((peer, to), bytes > 0 && busy > Duration::ZERO);
            if !can_be || (self.links.len() >= MOST_LINKS && !self.links.contains_key(&place)) {
                continue;
            }
            let reports = self.links.entry(place).or_default();
            if reports.len() == CARRIED_KEPT {
                reports.pop_front();
            }
            reports.push_back(CarriedReport { bytes, busy, at: now });
            self.newest = Some(now);
        }
    }

    /// Bytes per second of a link, if enough came over it.
    #[must_use]
    pub fn rate(&self, from: NodeId, to: NodeId) -> Option<f64> {
        let (mut sum, mut busy, mut newest) = (0_u64, Duration::ZERO, None);
        for report in self.links.get(&(from, to))?.iter().rev() {
            let newest = *newest.get_or_insert(report.at);
            let is_old = newest.saturating_sub(report.at) > CARRIED_SPAN;
            if is_old || sum >= CARRIED_BYTES || busy >= CARRIED_TIME {
                break;
            }
            sum = sum.saturating_add(report.bytes);
            busy = busy.saturating_add(report.busy);
        }
        (sum >= CARRIED_LEAST && busy > Duration::ZERO).then(|| bytes(sum) / busy.as_secs_f64())
    }

    /// When something was last told of a link.
    #[must_use]
    pub fn told(&self, from: NodeId, to: NodeId) -> Option<Duration> {
        self.links.get(&(from, to))?.back().map(|report| report.at)
    }

    /// When anything was last told.
    #[must_use]
    pub const fn newest(&self) -> Option<Duration> {
        self.newest
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

    #[test]
    fn the_last_busy_time_counts() {
        let mut rates = CarriedRates::default();
        let mut told = |at: f64, bytes: u64, busy: f64| {
            rates.report(seconds(at), 11, &[LinkCarried { peer: 9, bytes, busy: seconds(busy) }]);
            rates.rate(9, 11)
        };
        assert_eq!(told(1.0, CARRIED_LEAST / 2, 0.1), None, "too little");
        assert_eq!(told(2.0, CARRIED_LEAST, 0.2), Some(5.0 * CARRIED_LEAST as f64));
        for at in 3..6 {
            told(f64::from(at), 2_000_000, 1.0);
        }
        assert_eq!(told(6.0, 2_000_000, 1.0), Some(2e6));
        // One second of busy time after a change, no more is to be seen of the time before.
        assert_eq!(told(7.0, 100_000, 0.5), Some(2_100_000.0 / 1.5));
        assert_eq!(told(8.0, 100_000, 0.5), Some(2e5));
        assert_eq!(told(9.0, 0, 0.5), Some(2e5), "what cannot be is left out");
        assert_eq!(told(9.0, 5, 0.0), Some(2e5));
        assert_eq!(
            told(15.0, 5 * CARRIED_LEAST, 1.0),
            Some(5.0 * CARRIED_LEAST as f64),
            "long after"
        );
        assert_eq!((rates.told(9, 11), rates.newest()), (Some(seconds(15.0)), Some(seconds(15.0))));
        assert_eq!((rates.told(11, 9), rates.rate(11, 9)), (None, None));
        rates.retain(|node| *node != 9);
        assert_eq!(rates.rate(9, 11), None);
    }
}
