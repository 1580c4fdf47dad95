//! The scheduler's picture of the network: all reports put together.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::{Estimate, MOST_LINKS, MOST_PEERS, MOST_REPORTED, Report, WINDOWS};
use crate::placement::cost::PairCap;
use crate::placement::statistics::median;
use crate::wire::NodeId;

/// What receivers saw of one sender counts together if they reported within that time.
const TOGETHER: Duration = Duration::from_millis(2500);
/// A link is narrower than the cards at its ends only if it is below that part of what both could
/// give it with all links in use. Above, the cards explain it.
const NARROW: f64 = 0.5;

/// One link as last reported.
#[derive(Clone, Copy, Debug)]
struct Link {
    estimate: Estimate,
    recent: f64,
    at: Duration,
}

/// What a card can do, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Card {
    /// Bytes per second that one may count on it to send.
    pub up: f64,
    /// Bytes per second that one may count on it to receive.
    pub down: f64,
    /// Both were measured; else the median of those that were stands in.
    pub known: bool,
}

/// What all nodes reported.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// By sender and receiver.
    links: BTreeMap<(NodeId, NodeId), Link>,
    /// For each receiver its senders.
    into: BTreeMap<NodeId, BTreeSet<NodeId>>,
    downs: BTreeMap<NodeId, (Estimate, Duration)>,
    /// For each sender the most that receivers saw together, by second of this clock.
    ups: BTreeMap<NodeId, VecDeque<(u64, f64)>>,
    newest: Duration,
}

impl Network {
    /// A node reported. Numbers that cannot be are left out.
    pub fn report(&mut self, now: Duration, report: &Report) {
        self.newest = self.newest.max(now);
        if let Some(down) = report.down.filter(Estimate::is_sane)
            && (self.downs.len() < MOST_PEERS || self.downs.contains_key(&report.node))
        {
            self.downs.insert(report.node, (down, now));
        }
        let links = report.links.iter().take(MOST_REPORTED);
        for link in links.clone().filter(|link| link.estimate.is_sane()) {
            let recent = if link.recent.is_finite() { link.recent.max(0.0) } else { 0.0 };
            let place = (link.peer, report.node);
            if self.links.len() < MOST_LINKS || self.links.contains_key(&place) {
                self.links.insert(place, Link { estimate: link.estimate, recent, at: now });
                self.into.entry(report.node).or_default().insert(link.peer);
            }
        }
        for link in links {
            self.sum_up(now, link.peer);
        }
    }

    /// Notes what all receivers together just saw of one sender.
    fn sum_up(&mut self, now: Duration, sender: NodeId) {
        let fresh = |link: &Link| link.recent > 0.0 && link.at.saturating_add(TOGETHER) >= now;
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
        while sums.len() > WINDOWS {
            sums.pop_front();
        }
    }

    /// The links that begin at a node, with where they end.
    fn from(&self, sender: NodeId) -> impl Iterator<Item = (NodeId, &Link)> {
        let links = self.links.range((sender, NodeId::MIN)..=(sender, NodeId::MAX));
        links.map(|((_, to), link)| (*to, link))
    }

    /// A node is gone.
    pub fn forget(&mut self, node: NodeId) {
        self.links.retain(|(from, to), _| *to != node && *from != node);
        self.into.remove(&node);
        self.into.values_mut().for_each(|senders| _ = senders.remove(&node));
        self.downs.remove(&node);
        self.ups.remove(&node);
    }

    /// Whether anything has been measured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.links.is_empty() && self.downs.is_empty()
    }

    /// The link from one node to another. It ages by the time since the last report of anybody, so
    /// that a pause of the whole job makes no difference.
    #[must_use]
    pub fn link(&self, from: NodeId, to: NodeId) -> Option<Estimate> {
        let link = self.links.get(&(from, to))?;
        Some(link.estimate.aged(self.newest.saturating_sub(link.at)))
    }

    /// What a node can receive, as it measured with several senders at once.
    #[must_use]
    pub fn down(&self, node: NodeId) -> Option<Estimate> {
        let (down, at) = self.downs.get(&node)?;
        Some(self.links_into(node).at_most(down.aged(self.newest.saturating_sub(*at))))
    }

    /// What a node can send, as several receivers saw together.
    #[must_use]
    pub fn up(&self, node: NodeId) -> Option<Estimate> {
        let links = self.links_out_of(node);
        let fastest = links.fastest?;
        let most = self.ups.get(&node)?.iter().map(|(_, sum)| *sum).fold(fastest.rate, f64::max);
        // As far to be trusted as the best of its links.
        Some(links.at_most(fastest.scaled(most / fastest.rate)))
    }

    fn links_into(&self, node: NodeId) -> Links {
        let senders = self.into.get(&node).into_iter().flatten();
        Links::of(senders.filter_map(|from| self.link(*from, node)))
    }

    fn links_out_of(&self, node: NodeId) -> Links {
        Links::of(self.from(node).filter_map(|(to, _)| self.link(node, to)))
    }

    /// The cards of some nodes of one kind, by the rates that one may count on. What was not measured with
    /// several peers at once is taken as the median of what was, or as the fastest link of the node if
    /// that is faster or there is no median. None: nothing at all is known.
    #[must_use]
    pub fn cards(&self, nodes: &[NodeId]) -> Option<Vec<Card>> {
        let ups = nodes.iter().map(|node| (self.up(*node), self.links_out_of(*node)));
        let downs = nodes.iter().map(|node| (self.down(*node), self.links_into(*node)));
        let (ups, downs) = (self.rates(ups.collect())?, self.rates(downs.collect())?);
        let card =
            |((up, up_known), (down, down_known))| Card { up, down, known: up_known && down_known };
        Some(ups.into_iter().zip(downs).map(card).collect())
    }

    /// For each node the rate that one may count on, and whether it was measured.
    fn rates(&self, nodes: Vec<(Option<Estimate>, Links)>) -> Option<Vec<(f64, bool)>> {
        let usual = median(nodes.iter().filter_map(|(card, _)| card.map(|card| card.lower)));
        let any = || median(self.links.values().map(|link| link.estimate.lower));
        let fastest = |links: &Links| links.fastest.map(|link| link.lower);
        let rate = |(card, links): (Option<Estimate>, Links)| match card {
            Some(card) => Some((card.lower, true)),
            None => {
                let known = [usual, fastest(&links)].into_iter().flatten().reduce(f64::max);
                known.or_else(any).map(|rate| (rate, false))
            }
        };
        nodes.into_iter().map(rate).collect()
    }

    /// The pairs whose link is narrower than the cards at its ends explain.
    #[must_use]
    pub fn narrow_pairs(&self, workers: &[NodeId], servers: &[NodeId]) -> Vec<PairCap> {
        let rate = |estimate: Option<Estimate>, links: Links| {
            estimate.or(links.fastest).map(|estimate| estimate.rate)
        };
        let card = |node: &NodeId| {
            let up = rate(self.up(*node), self.links_out_of(*node));
            (*node, up, rate(self.down(*node), self.links_into(*node)))
        };
        let cards = |nodes: &[NodeId]| nodes.iter().map(card).collect::<Vec<_>>();
        #[allow(clippy::cast_precision_loss, reason = "counts of nodes")]
        let (many_workers, many_servers) = (workers.len() as f64, servers.len() as f64);
        let servers = cards(servers);
        let mut pairs = Vec::new();
        for (worker, worker_up, worker_down) in cards(workers) {
            for (server, server_up, server_down) in &servers {
                let cap = |from, to, up: Option<f64>, down: Option<f64>| {
                    let link = self.link(from, to)?;
                    let fair = up?.min(down?);
                    (link.rate < NARROW * fair).then_some(link.lower)
                };
                let each = |rate: Option<f64>, of: f64| rate.map(|rate| rate / of);
                let (many, few) = (many_servers, many_workers);
                let push = cap(worker, *server, each(worker_up, many), each(*server_down, few));
                let pull = cap(*server, worker, each(*server_up, few), each(worker_down, many));
                if push.is_some() || pull.is_some() {
                    let open = f64::INFINITY;
                    let (push, pull) = (push.unwrap_or(open), pull.unwrap_or(open));
                    pairs.push(PairCap { worker, server: *server, push, pull });
                }
            }
        }
        pairs
    }
}

/// All links that end, or begin, at one node.
struct Links {
    fastest: Option<Estimate>,
    sum: f64,
}

impl Links {
    fn of(links: impl Iterator<Item = Estimate>) -> Self {
        let start = Self { fastest: None, sum: 0.0 };
        links.fold(start, |Self { fastest, sum }, link| Self {
            fastest: fastest.filter(|fastest| fastest.rate >= link.rate).or(Some(link)),
            sum: sum + link.rate,
        })
    }

    /// A card is no faster than its links together, and they show sooner than whole seconds that it has
    /// become slower.
    fn at_most(&self, card: Estimate) -> Estimate {
        if self.sum > 0.0 && self.sum < card.rate {
            card.scaled(self.sum / card.rate)
        } else {
            card
        }
    }
}
