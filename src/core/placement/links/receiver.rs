//! What a node knows of the links that end at it, and when it says so.

use std::collections::BTreeMap;
use std::time::Duration;

use super::backlog_spans::BacklogSpans;
use super::link::ReceivedLink;
use super::recent::Recent;
use super::slots::Slots;
use super::{CardCarried, Estimate, LinkReport, MOST_PEERS, MOST_REPORTED, RateReport, Sample};
use crate::placement::tuning::{HALF_LIFE, REPORT_CHANGE, REPORT_GAP, REPORT_PERIOD};
use crate::wire::{NodeId, is_worker};

/// The estimator of one node. Peers on the same host should not be told to it: what they send does
/// not use the network.
#[derive(Clone, Debug)]
pub struct Receiver {
    node: NodeId,
    links: BTreeMap<NodeId, ReceivedLink>,
    spans: BacklogSpans,
    slots: Slots,
    recent: Recent,
    /// When the last report was, and what it said of each rate; the node's own under its own id.
    reported: Option<(Duration, BTreeMap<NodeId, f64>)>,
    /// Something came since the last report.
    heard: bool,
    /// When a probe last came, from whom, and how fast.
    probed: Duration,
    last_probe: Option<(NodeId, f64)>,
}

impl Receiver {
    /// The estimator of that node.
    #[must_use]
    pub fn new(node: NodeId) -> Self {
        // A worker exchanges with servers that may be of very different rates, a server with equal
        // workers.
        let slots = Slots::new(is_worker(node));
        Self {
            node,
            links: BTreeMap::new(),
            spans: BacklogSpans::default(),
            slots,
            recent: Recent::default(),
            reported: None,
            heard: false,
            probed: Duration::ZERO,
            last_probe: None,
        }
    }

    /// A link from that peer exists, even if nothing comes: so that it can be probed.
    pub fn add_link(&mut self, peer: NodeId, now: Duration) {
        if self.links.len() < MOST_PEERS {
            self.links.entry(peer).or_insert_with(|| ReceivedLink::new(now));
        }
    }

    /// That peer is gone.
    pub fn forget(&mut self, peer: NodeId) {
        self.links.remove(&peer);
        self.spans.forget(peer);
        self.slots.forget(peer);
        if let Some((_, rates)) = &mut self.reported {
            rates.remove(&peer);
        }
    }

    /// Something came in.
    pub fn received(&mut self, sample: &Sample) {
        self.add_link(sample.peer, sample.last);
        let Some(link) = self.links.get_mut(&sample.peer) else { return };
        link.add(sample);
        if let Some(span) = self.spans.add(sample) {
            self.slots.add(&span);
            self.recent.add(&span);
        }
        self.heard = true;
    }

    /// The node sent what it was asked for: what it can send is worth a report even if nothing
    /// comes in meanwhile. Pulls take as long as pushes, and what nobody tells of is believed less
    /// and less.
    pub const fn sends(&mut self) {
        self.heard = true;
    }

    /// What was timed of a probe came in. It says something of its link, but of this node's card
    /// only that it is still there (while a job rests and its links are probed, no card is to be
    /// trusted less), and that it is no slower than two of its links that were probed one after the
    /// other. One that was not `backlogged` was held back by TCP's window, on a long way: it only
    /// says that link and card are still there.
    pub fn probed(&mut self, sample: &Sample) {
        self.add_link(sample.peer, sample.last);
        let Some(link) = self.links.get_mut(&sample.peer) else { return };
        let rate = if sample.backlogged { link.probed(sample) } else { link.heard(sample.last) };
        self.heard = true;
        let before = self.last_probe.filter(|(peer, _)| {
            *peer != sample.peer && sample.last.saturating_sub(self.probed) <= HALF_LIFE
        });
        self.probed = self.probed.max(sample.last);
        self.last_probe = rate.map(|rate| (sample.peer, rate));
        if let (Some(rate), Some((_, before))) = (rate, before) {
            self.slots.probed(sample.last, rate.min(before));
        }
    }

    /// How long round trips to peers take, as far as is known.
    pub fn ways(&mut self, round_trips: impl Iterator<Item = (NodeId, Duration)>) {
        let mut longest = Duration::ZERO;
        for (peer, round_trip) in round_trips {
            longest = longest.max(round_trip);
            if let Some(link) = self.links.get_mut(&peer) {
                link.way(round_trip);
            }
        }
        self.slots.ways(longest);
    }

    /// What is known of the link from a peer.
    #[must_use]
    pub fn link(&self, peer: NodeId, now: Duration) -> Option<Estimate> {
        self.links.get(&peer)?.estimate(now)
    }

    /// What this node can receive from all peers together. None: two of them never sent at once.
    #[must_use]
    pub fn down(&self, now: Duration) -> Option<Estimate> {
        let (rate, count, last) = self.slots.fastest(self.spans.settled(now))?;
        Some(Estimate::new(rate, 0.0, count, now.saturating_sub(last.max(self.probed))))
    }

    /// The peers, so many at most, whose links are idle for so long that a probe is worth its bytes
    /// ([`super::FIRST_PROBE_AFTER`]): ask them for [`super::PROBE_BYTES`] of padding. `after`:
    /// this often at least (usually [`super::PROBE_AFTER`]).
    pub fn take_idle(&mut self, now: Duration, after: Duration, most: usize) -> Vec<NodeId> {
        let idle = self.links.iter_mut().filter(|(_, link)| link.wants_probe(now, after));
        let ask = |(peer, link): (&NodeId, &mut ReceivedLink)| {
            link.asked(now);
            *peer
        };
        idle.take(most).map(ask).collect()
    }

    /// What to tell the scheduler, if it is time: something came, and the last report is a second
    /// old or no longer true. What the node can send is not known here ([`super::Sender`]).
    pub fn report(&mut self, now: Duration) -> Option<RateReport> {
        if !self.heard {
            return None;
        }
        let age = self.reported.as_ref().map(|(at, _)| now.saturating_sub(*at));
        if age.is_some_and(|age| age < REPORT_GAP) {
            return None;
        }
        let report = self.current(now);
        let changed = report.rates().any(|(peer, rate)| self.change(peer, rate) > REPORT_CHANGE);
        let due = age.is_none_or(|age| age >= REPORT_PERIOD);
        if report.rates().next().is_none() || !(due || changed) {
            return None;
        }
        let report = self.shortened(report);
        let reported = self.reported.get_or_insert_default();
        reported.0 = now;
        reported.1.extend(report.rates());
        self.heard = false;
        Some(report)
    }

    /// Leaves out the links that changed least, if there are too many for one report.
    fn shortened(&self, mut report: RateReport) -> RateReport {
        if report.links.len() > MOST_REPORTED {
            let change = |link: &LinkReport| self.change(link.peer, link.estimate.rate);
            report.links.sort_by(|a, b| change(b).total_cmp(&change(a)));
            report.links.truncate(MOST_REPORTED);
            report.links.sort_by_key(|link| link.peer);
        }
        report
    }

    fn current(&self, now: Duration) -> RateReport {
        let recent = self.recent.of_second(now);
        let links = self.links.iter().filter_map(|(peer, link)| {
            let recent = recent.get(peer).copied().unwrap_or(0.0);
            let (estimate, oldest) = (link.estimate(now)?, link.oldest(now));
            Some(LinkReport { peer: *peer, estimate, oldest, recent })
        });
        RateReport {
            node: self.node,
            down: self.down(now),
            up: None,
            pace: None,
            carried: CardCarried { down: self.recent.all_of_second(now), up: 0.0 },
            links: links.collect(),
        }
    }

    /// How far a rate is from what was reported, as a fraction of that.
    fn change(&self, peer: NodeId, rate: f64) -> f64 {
        let reported = self.reported.as_ref().and_then(|(_, rates)| rates.get(&peer));
        reported.map_or(f64::INFINITY, |old| (rate - old).abs() / old)
    }
}

impl RateReport {
    /// All rates, by peer; that of the node itself under its own id.
    fn rates(&self) -> impl Iterator<Item = (NodeId, f64)> {
        let links = self.links.iter().map(|link| (link.peer, link.estimate.rate));
        links.chain(self.down.map(|down| (self.node, down.rate)))
    }
}
