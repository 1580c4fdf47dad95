//! The scheduler's picture of the network: all reports put together.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

mod narrow;

use super::carried::CarriedRecently;
use super::rate_step::RateStep;
use super::recent_best::RecentBest;
use super::{CardCarried, Estimate, MOST_LINKS, MOST_PEERS, MOST_REPORTED, Pace, RateReport};
use crate::placement::tuning::{
    CARRIED_MORE, HELD_UP_SERVER, HELD_UP_WORKER, LINKS_RISEN, MEMORY, TELLING_WINDOWS,
    TRUSTED_CONFIDENCE, UPS_TOGETHER, WORKER_EXPLAINED,
};
use crate::wire::{NodeId, is_worker};

/// What the receiver of a link reported of it.
#[derive(Clone, Debug)]
struct ReportedLink {
    rate: RecentBest,
    recent: f64,
    /// When the oldest of the samples was taken on which the newest report rests.
    oldest: Duration,
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
        let Some(up) = self.up(server) else { return };
        let more = report.carried.up > CARRIED_MORE * up.rate;
        if more || self.links_have_risen(server, up) || self.has_risen_since_noted(server) {
            self.slow_to_send.remove(&server);
        } else if self.holds_up(server, up) {
            self.slow_to_send.entry(server).or_insert(now);
        }
    }

    /// True if the links of a server show, at this time, that its card holds up what it sends.
    fn holds_up(&self, server: NodeId, up: Estimate) -> bool {
        let shows = up.samples >= TELLING_WINDOWS && self.is_of_now(server, up);
        shows && self.links_out_of(server, exchange).hold_up
    }

    /// True if a server was kept busy lately, or its links do not show that it can send more than
    /// it could then. Only links count that were seen since its card last became faster.
    fn is_of_now(&self, server: NodeId, up: Estimate) -> bool {
        up.confidence >= TRUSTED_CONFIDENCE
            || (self.sum_of_now(server).is_some() && !self.links_have_risen(server, up))
    }

    fn links_have_risen(&self, server: NodeId, up: Estimate) -> bool {
        self.sum_of_now(server).is_some_and(|sum| sum >= LINKS_RISEN * up.rate)
    }

    fn has_risen_since_noted(&self, server: NodeId) -> bool {
        self.slow_to_send.get(&server).is_some_and(|noted| self.risen_at(server) > *noted)
    }

    /// True if the card of a server is known to hold up what it sends.
    fn is_slow_to_send(&self, server: NodeId, up: Estimate) -> bool {
        let known = self.slow_to_send.contains_key(&server) && !self.links_have_risen(server, up);
        known || self.holds_up(server, up)
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

    /// Whether anything has been measured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.links.is_empty() && self.downs.is_empty()
    }

    /// The link from one node to another. It ages by the time since the last report of anybody, so
    /// that a pause of the whole job makes no difference.
    #[must_use]
    pub fn link(&self, from: NodeId, to: NodeId) -> Option<Estimate> {
        Some(self.links.get(&(from, to))?.rate.estimate(self.newest))
    }

    /// What a node can receive, as it measured with several senders at once.
    #[must_use]
    pub fn down(&self, node: NodeId) -> Option<Estimate> {
        let down = self.downs.get(&node)?.estimate(self.newest);
        Some(self.links_into(node, ALL).at_most(down))
    }

    /// What a node can send, as it saw itself, or else as several receivers saw together.
    #[must_use]
    pub fn up(&self, node: NodeId) -> Option<Estimate> {
        let links = self.links_out_of(node, ALL);
        if let Some(up) = self.own_ups.get(&node) {
            return Some(links.at_most(up.estimate(self.newest)));
        }
        let fastest = links.fastest?;
        let most = self.ups.get(&node)?.iter().map(|(_, sum)| *sum).fold(fastest.rate, f64::max);
        // As far to be trusted as the best of its links.
        Some(links.at_most(fastest.scaled(most / fastest.rate)))
    }

    fn links_into(&self, node: NodeId, peers: fn(NodeId, NodeId) -> bool) -> NodeLinks {
        let links = self
            .to(node)
            .filter(|(from, _)| peers(node, *from))
            .filter_map(|(from, _)| Some((self.link(from, node)?, from)));
        let links = NodeLinks::of(node, links.map(|(link, from)| (link, self.fastest_from(from))));
        let oldest = self.to(node).map(|(_, link)| link.oldest).min();
        links.beside(self.carried_since(node, 0, oldest), self.sum(self.to(node)))
    }

    fn links_out_of(&self, node: NodeId, peers: fn(NodeId, NodeId) -> bool) -> NodeLinks {
        let links = self
            .from(node)
            .filter(|(to, _)| peers(node, *to))
            .filter_map(|(to, _)| Some((self.link(node, to)?, to)));
        let could = |link: &Estimate, to: NodeId| {
            let more = if is_worker(to) { self.spare_into(to) } else { 1.0 };
            self.fastest_into(to).max(link.rate * more)
        };
        let links = NodeLinks::of(node, links.map(|(link, to)| (link, could(&link, to))));
        let oldest = self.from(node).map(|(_, link)| link.oldest).min();
        links.beside(self.carried_since(node, 1, oldest), self.sum(self.from(node)))
    }

    /// The most that a card carried in a second, in that direction, since that time.
    fn carried_since(&self, node: NodeId, direction: usize, since: Option<Duration>) -> f64 {
        let carried = self.carried.get(&node).zip(since);
        carried.map_or(0.0, |(carried, since)| carried[direction].since(since))
    }

    /// How many times what all its links bring a node it was seen to receive.
    fn spare_into(&self, node: NodeId) -> f64 {
        let sum = self.sum(self.to(node));
        let card = self.downs.get(&node).map(|down| down.estimate(self.newest).rate);
        card.filter(|_| sum > 0.0).map_or(1.0, |card| card / sum)
    }

    fn sum<'a>(&self, links: impl Iterator<Item = (NodeId, &'a ReportedLink)>) -> f64 {
        links.map(|(_, link)| self.rate(link)).sum()
    }

    fn rate(&self, link: &ReportedLink) -> f64 {
        link.rate.estimate(self.newest).rate
    }

    /// The rate of the fastest link that begins at a node.
    fn fastest_from(&self, node: NodeId) -> f64 {
        self.from(node).map(|(_, link)| self.rate(link)).fold(0.0, f64::max)
    }

    /// The rate of the fastest link that ends at a node.
    fn fastest_into(&self, node: NodeId) -> f64 {
        self.to(node).map(|(_, link)| self.rate(link)).fold(0.0, f64::max)
    }

    /// The cards of some nodes, by the rates that one may count on. What was not measured with
    /// several peers at once is only known to be at least so fast; it is taken as fast as the
    /// fastest card of the job, since a card that is taken as too slow hides what there is to gain.
    /// But if all that exchanged with it were faster with others at the same time, it is as slow as
    /// it seems. None: nothing at all is known.
    #[must_use]
    pub fn cards(&self, nodes: &[NodeId]) -> Option<Vec<Card>> {
        let best = self.best()?;
        let known = |node: &NodeId| [self.up(*node), self.down(*node)].into_iter().flatten();
        let workers = nodes.iter().filter(|node| is_worker(**node)).flat_map(known);
        let fastest_worker = workers.map(|estimate| estimate.lower).fold(0.0, f64::max);
        let card = |node: &NodeId| {
            // A server that copies, or moved pieces, go to may be a slow one.
            let mut out = self.links_out_of(*node, exchange);
            let mut into = self.links_into(*node, exchange);
            let (up, down) = (self.up(*node), self.down(*node));
            if is_worker(*node) {
                out.hold_up &= up.is_none_or(|up| up.samples >= TELLING_WINDOWS);
                into.hold_up &= down.is_none_or(|down| down.samples >= TELLING_WINDOWS);
            } else {
                out.hold_up = up.map_or(out.hold_up, |up| self.is_slow_to_send(*node, up));
            }
            // What a node was asked for is rarely as much as it could have done: a worker waits for
            // servers, and servers for what they are to answer. What they receive together shows
            // first.
            let least = match (is_worker(*node), &down) {
                (true, _) => [fastest_worker; 2],
                (false, Some(down)) => [down.lower, 0.0],
                (false, None) => [0.0; 2],
            };
            let rate = |card: Option<Estimate>, links: &NodeLinks, least: f64| match card {
                Some(card) if links.hold_up => (card.lower, true),
                Some(card) => (card.lower.max(least), true),
                None if links.hold_up => (links.lower, true),
                None => (best.max(links.lower), false),
            };
            let (up, up_known) = rate(up, &out, least[0]);
            let (down, down_known) = rate(down, &into, least[1]);
            let known = up_known && down_known;
            match self.paces.get(node) {
                Some(pace) => Card { up: up.min(pace.up), down: down.min(pace.down), known },
                None => Card { up, down, known },
            }
        };
        Some(nodes.iter().map(card).collect())
    }

    /// Whether the card of a worker is a limit, to send and to receive. It is none if the worker
    /// exchanges about as much as its servers can give it. Then nobody has seen what more the card
    /// could do, and a card that is taken as too slow hides what there is to gain. `servers`: all
    /// with their cards; each shares its card among `workers`. A server whose card was not measured
    /// could give any amount.
    #[must_use]
    pub fn limits(&self, worker: NodeId, servers: &[(NodeId, Card)], workers: usize) -> [bool; 2] {
        #[allow(clippy::cast_precision_loss, reason = "a count of workers")]
        let share = WORKER_EXPLAINED / workers.max(1) as f64;
        let (mut taken, mut given) = (0.0, 0.0);
        for (server, card) in servers {
            let measured = |own: Option<Estimate>, rate: f64| match card.known || own.is_some() {
                true => rate * share,
                false => f64::INFINITY,
            };
            if self.links.contains_key(&(worker, *server)) {
                taken += measured(self.down(*server), card.down);
            }
            if self.links.contains_key(&(*server, worker)) {
                given += measured(self.up(*server), card.up);
            }
        }
        let below = |own: Option<Estimate>, servers: f64| own.is_some_and(|own| own.rate < servers);
        [below(self.up(worker), taken), below(self.down(worker), given)]
    }

    /// The fastest card, or link, that was measured.
    fn best(&self) -> Option<f64> {
        let downs = self.downs.keys().filter_map(|node| self.down(*node));
        let ups = self.ups.keys().chain(self.own_ups.keys()).filter_map(|node| self.up(*node));
        let links = self.links.values().map(|link| link.rate.estimate(self.newest));
        downs.chain(ups).chain(links).map(|estimate| estimate.lower).reduce(f64::max)
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

/// Of all links.
const ALL: fn(NodeId, NodeId) -> bool = |_, _| true;

/// Whether a worker and a server are at the ends of a link.
fn exchange(node: NodeId, peer: NodeId) -> bool {
    is_worker(node) != is_worker(peer)
}

/// All links that end, or begin, at one node.
struct NodeLinks {
    fastest: Option<Estimate>,
    sum: f64,
    /// The same of what one may count on.
    lower: f64,
    /// There are some, and each is far slower than what its other end exchanges with another node:
    /// so it is this node that holds them up.
    hold_up: bool,
    /// The card carried far more than all of them together: what they have are shares of something
    /// else, or some are not known, and they do not show what the card can do.
    are_shares: bool,
}

impl NodeLinks {
    /// Of the links of a node, each with the rate of the fastest one at its other end.
    fn of(node: NodeId, links: impl Iterator<Item = (Estimate, f64)>) -> Self {
        let factor = if is_worker(node) { HELD_UP_WORKER } else { HELD_UP_SERVER };
        let start = Self { fastest: None, sum: 0.0, lower: 0.0, hold_up: true, are_shares: false };
        let all = links.fold(start, |all, (link, other)| Self {
            fastest: all.fastest.filter(|fastest| fastest.rate >= link.rate).or(Some(link)),
            sum: all.sum + link.rate,
            lower: all.lower + link.lower,
            hold_up: all.hold_up && link.samples >= TELLING_WINDOWS && link.rate * factor < other,
            ..all
        });
        Self { hold_up: all.hold_up && all.fastest.is_some(), ..all }
    }

    /// The same, where the card carried that much in a second since they were measured. That counts
    /// what went over all links of the node, so it is compared with their sum `all`, of whichever
    /// links these are: a server that sends copies, too, carries far more than its workers get.
    fn beside(self, carried: f64, all: f64) -> Self {
        let are_shares = carried > CARRIED_MORE * all;
        Self { are_shares, hold_up: self.hold_up && !are_shares, ..self }
    }

    /// A card is no faster than its links together, and they show sooner than whole seconds that it
    /// has become slower.
    fn at_most(&self, card: Estimate) -> Estimate {
        if self.sum > 0.0 && self.sum < card.rate && !self.are_shares {
            card.scaled(self.sum / card.rate)
        } else {
            card
        }
    }
}
