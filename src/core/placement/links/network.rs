//! The scheduler's picture of the network: all reports put together.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

mod narrow;
mod now;

pub use now::{Card, NetworkNow};

use super::carried::CarriedRecently;
use super::rate_step::RateStep;
use super::recent_best::RecentBest;
use super::{CardCarried, Estimate, MOST_LINKS, MOST_PEERS, MOST_REPORTED, Pace, RateReport};
use crate::placement::tuning::{MEMORY, UPS_TOGETHER};
use crate::wire::{NodeId, is_worker};

/// What the receiver of a link reported of it.
#[derive(Clone, Debug)]
struct ReportedLink {
    rate: RecentBest,
    recent: f64,
    /// When the oldest of the samples was taken on which the newest report rests.
    oldest: Duration,
}

/// What all nodes reported.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// By sender and receiver.
    links: BTreeMap<(NodeId, NodeId), ReportedLink>,
    /// For each receiver its senders.
    into: BTreeMap<NodeId, BTreeSet<NodeId>>,
    downs: BTreeMap<NodeId, RecentBest>,
    /// What nodes can send, as they saw it themselves.
    own_ups: BTreeMap<NodeId, RecentBest>,
    /// When cards became faster, to receive and to send.
    rate_steps: BTreeMap<NodeId, [Option<RateStep>; 2]>,
    /// What servers that are short of processor time can do, whatever their cards can.
    paces: BTreeMap<NodeId, Pace>,
    /// What cards carried, to receive and to send.
    carried: BTreeMap<NodeId, [CarriedRecently; 2]>,
    /// Servers whose cards were seen to hold up what they send, and when that was seen first.
    slow_to_send: BTreeMap<NodeId, Duration>,
    /// For each sender the most that receivers saw together, by second of this clock.
    ups: BTreeMap<NodeId, VecDeque<(u64, f64)>>,
    newest: Duration,
    span: Duration,
}

impl Network {
    /// How long a rate counts that was reported once (`links/recent_best`).
    pub const fn remember_for(&mut self, span: Duration) {
        self.span = span;
    }

    /// A node reported. Numbers that cannot be are left out.
    pub fn report(&mut self, now: Duration, report: &RateReport) {
        self.newest = self.newest.max(now);
        let directions = [(report.down, &mut self.downs), (report.up, &mut self.own_ups)];
        for (direction, (rate, known)) in directions.into_iter().enumerate() {
            if let Some(rate) = rate.filter(Estimate::is_sane)
                && (known.len() < MOST_PEERS || known.contains_key(&report.node))
            {
                known
                    .entry(report.node)
                    .or_insert_with(|| RecentBest::new(now, rate))
                    .report(now, rate, self.span);
                let step = &mut self.rate_steps.entry(report.node).or_default()[direction];
                step.get_or_insert(RateStep::new(rate.rate)).report(now, rate.rate);
            }
        }
        self.note_pace(report);
        self.note_carried(now, report);
        let links = report.links.iter().take(MOST_REPORTED);
        for link in links.clone().filter(|link| link.estimate.is_sane()) {
            let recent = if link.recent.is_finite() { link.recent.max(0.0) } else { 0.0 };
            let place = (link.peer, report.node);
            if self.links.len() < MOST_LINKS || self.links.contains_key(&place) {
                let oldest = now.saturating_sub(link.oldest);
                let known = self.links.entry(place).or_insert_with(|| ReportedLink {
                    rate: RecentBest::new(now, link.estimate),
                    recent,
                    oldest,
                });
                known.rate.report(now, link.estimate, self.span);
                (known.recent, known.oldest) = (recent, oldest);
                self.into.entry(report.node).or_default().insert(link.peer);
            }
        }
        for link in links {
            self.sum_up(now, link.peer);
        }
        self.note_slow_to_send(now, report);
    }

    /// Notes whether the card of a server holds up what it sends. That shows only while workers
    /// get more from other servers, and while it holds enough to be kept busy. So it is remembered
    /// until the card is seen to have become faster, in either direction, or until the card, or its
    /// links together, are seen to send more than it was measured to.
    fn note_slow_to_send(&mut self, now: Duration, report: &RateReport) {
        let server = report.node;
        if is_worker(server) {
            return;
        }
        match self.now().shows_slow_to_send(server, report.carried.up) {
            Some(true) => _ = self.slow_to_send.entry(server).or_insert(now),
            Some(false) => _ = self.slow_to_send.remove(&server),
            None => {}
        }
    }

    fn has_risen_since_noted(&self, server: NodeId) -> bool {
        self.slow_to_send.get(&server).is_some_and(|noted| self.risen_at(server) > *noted)
    }

    fn note_pace(&mut self, report: &RateReport) {
        match report.pace.filter(Pace::is_sane) {
            Some(pace) if !is_worker(report.node) && self.paces.len() < MOST_PEERS => {
                self.paces.insert(report.node, pace);
            }
            _ => drop(self.paces.remove(&report.node)),
        }
    }

    fn note_carried(&mut self, now: Duration, report: &RateReport) {
        let CardCarried { down, up } = report.carried;
        let room = self.carried.len() < MOST_PEERS || self.carried.contains_key(&report.node);
        if report.carried.is_sane() && room {
            let [came, went] = self.carried.entry(report.node).or_default();
            came.report(now, down);
            went.report(now, up);
        }
    }

    /// True if a server is short of processor time.
    #[must_use]
    pub fn is_starved(&self, server: NodeId) -> bool {
        self.paces.contains_key(&server)
    }

    /// Notes what all receivers together just saw of one sender.
    fn sum_up(&mut self, now: Duration, sender: NodeId) {
        let fresh = |link: &ReportedLink| {
            link.recent > 0.0 && link.rate.at().saturating_add(UPS_TOGETHER) >= now
        };
        let seen = self.from(sender).map(|(_, link)| link).filter(|link| fresh(link));
        let (count, sum) = seen.fold((0, 0.0), |(n, sum), link| (n + 1, sum + link.recent));
        if count < 2 || (self.ups.len() >= MOST_PEERS && !self.ups.contains_key(&sender)) {
            return;
        }
        let sums = self.ups.entry(sender).or_default();
        match sums.back_mut() {
            Some((second, most)) if *second == now.as_secs() => *most = most.max(sum),
            _ => sums.push_back((now.as_secs(), sum)),
        }
        let old =
            |(second, _): &(u64, f64)| second.saturating_add(MEMORY.as_secs()) < now.as_secs();
        while sums.front().is_some_and(old) {
            sums.pop_front();
        }
    }

    /// The links that begin at a node, with where they end.
    fn from(&self, sender: NodeId) -> impl Iterator<Item = (NodeId, &ReportedLink)> {
        let links = self.links.range((sender, NodeId::MIN)..=(sender, NodeId::MAX));
        links.map(|((_, to), link)| (*to, link))
    }

    /// The links that end at a node, with where they begin.
    fn to(&self, receiver: NodeId) -> impl Iterator<Item = (NodeId, &ReportedLink)> {
        let senders = self.into.get(&receiver).into_iter().flatten();
        senders.filter_map(move |from| Some((*from, self.links.get(&(*from, receiver))?)))
    }

    /// A node is gone.
    pub fn forget(&mut self, node: NodeId) {
        self.links.retain(|(from, to), _| *to != node && *from != node);
        self.into.remove(&node);
        self.into.values_mut().for_each(|senders| _ = senders.remove(&node));
        self.downs.remove(&node);
        self.own_ups.remove(&node);
        self.rate_steps.remove(&node);
        self.paces.remove(&node);
        self.carried.remove(&node);
        self.slow_to_send.remove(&node);
        self.ups.remove(&node);
    }

    /// The link from one node to another. It ages by the time since the last report of anybody, so
    /// that a pause of the whole job makes no difference.
    #[must_use]
    pub fn link(&self, from: NodeId, to: NodeId) -> Option<Estimate> {
        Some(self.links.get(&(from, to))?.rate.estimate(self.newest))
    }

    /// Whether it is known what a node can receive with several senders at once.
    #[must_use]
    pub fn is_down_known(&self, node: NodeId) -> bool {
        self.downs.contains_key(&node)
    }

    /// All of it at this moment, to ask several things of.
    #[must_use]
    pub fn now(&self) -> NetworkNow<'_> {
        NetworkNow::of(self)
    }

    /// Whether anything has been measured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.links.is_empty() && self.downs.is_empty()
    }

    /// When the card of a node last became faster, in either direction; zero: never.
    fn risen_at(&self, node: NodeId) -> Duration {
        let directions = self.rate_steps.get(&node).into_iter().flatten().flatten();
        directions.map(RateStep::at).max().unwrap_or_default()
    }

    /// A link, if all that is known of it is as new as what is known of the cards at its ends.
    fn link_of_now(&self, from: NodeId, to: NodeId) -> Option<Estimate> {
        let since = self.risen_at(from).max(self.risen_at(to));
        let link = self.links.get(&(from, to)).filter(|link| link.oldest >= since)?;
        Some(link.rate.estimate(self.newest))
    }

    /// What a server sends to all workers, if that is known of now of all.
    fn sum_of_now(&self, server: NodeId) -> Option<f64> {
        let links = self.from(server).filter(|(to, _)| exchange(server, *to));
        links.map(|(to, _)| Some(self.link_of_now(server, to)?.rate)).sum()
    }
}

/// Whether a worker and a server are at the ends of a link.
fn exchange(node: NodeId, peer: NodeId) -> bool {
    is_worker(node) != is_worker(peer)
}
