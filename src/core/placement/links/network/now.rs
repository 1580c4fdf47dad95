//! What all reports together say of the network at one moment. What is asked for the nodes at both
//! ends of every link is added up once, so that all cards together cost as much as there are links.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Network, exchange};
use crate::placement::links::Estimate;
use crate::placement::tuning::{
    CARRIED_MORE, HELD_UP_SERVER, HELD_UP_WORKER, LINKS_RISEN, TELLING_WINDOWS, TRUSTED_CONFIDENCE,
    WORKER_EXPLAINED,
};
use crate::wire::{NodeId, is_worker};

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

/// The rates of all links that begin, or end, at one node.
#[derive(Clone, Copy, Debug, Default)]
struct LinkSum {
    fastest: f64,
    sum: f64,
}

impl LinkSum {
    fn add(&mut self, rate: f64) {
        self.fastest = self.fastest.max(rate);
        self.sum += rate;
    }
}

/// See the module.
#[derive(Debug)]
pub struct NetworkNow<'a> {
    pub(super) network: &'a Network,
    /// By the node at which links begin, and end.
    from: BTreeMap<NodeId, LinkSum>,
    into: BTreeMap<NodeId, LinkSum>,
}

impl<'a> NetworkNow<'a> {
    pub(super) fn of(network: &'a Network) -> Self {
        let (mut sums_from, mut sums_into) = (BTreeMap::new(), BTreeMap::new());
        for ((from, to), link) in &network.links {
            let rate = link.rate.rate();
            sums_from.entry(*from).or_insert_with(LinkSum::default).add(rate);
            sums_into.entry(*to).or_insert_with(LinkSum::default).add(rate);
        }
        Self { network, from: sums_from, into: sums_into }
    }

    fn sum_from(&self, node: NodeId) -> LinkSum {
        self.from.get(&node).copied().unwrap_or_default()
    }

    fn sum_into(&self, node: NodeId) -> LinkSum {
        self.into.get(&node).copied().unwrap_or_default()
    }

    /// Whether the card of a server that carried so much just now is seen to hold up what it sends,
    /// or seen not to; none: neither.
    pub(super) fn shows_slow_to_send(&self, server: NodeId, carried: f64) -> Option<bool> {
        let up = self.up(server)?;
        let not = carried > CARRIED_MORE * up.rate
            || self.links_have_risen(server, up)
            || self.network.has_risen_since_noted(server);
        (not || self.holds_up(server, up)).then_some(!not)
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
            || (self.network.sum_of_now(server).is_some() && !self.links_have_risen(server, up))
    }

    fn links_have_risen(&self, server: NodeId, up: Estimate) -> bool {
        self.network.sum_of_now(server).is_some_and(|sum| sum >= LINKS_RISEN * up.rate)
    }

    /// True if the card of a server is known to hold up what it sends.
    fn is_slow_to_send(&self, server: NodeId, up: Estimate) -> bool {
        let known =
            self.network.slow_to_send.contains_key(&server) && !self.links_have_risen(server, up);
        known || self.holds_up(server, up)
    }

    /// What a node can receive, as it measured with several senders at once.
    #[must_use]
    pub fn down(&self, node: NodeId) -> Option<Estimate> {
        let down = self.network.downs.get(&node)?.estimate(self.network.newest);
        Some(self.links_into(node, ALL).at_most(down))
    }

    /// What a node can send, as it saw itself, or else as several receivers saw together.
    #[must_use]
    pub fn up(&self, node: NodeId) -> Option<Estimate> {
        let links = self.links_out_of(node, ALL);
        if let Some(up) = self.network.own_ups.get(&node) {
            return Some(links.at_most(up.estimate(self.network.newest)));
        }
        let fastest = links.fastest?;
        let most =
            self.network.ups.get(&node)?.iter().map(|(_, sum)| *sum).fold(fastest.rate, f64::max);
        // As far to be trusted as the best of its links.
        Some(links.at_most(fastest.scaled(most / fastest.rate)))
    }

    /// Whether [`Self::up`] says anything.
    fn is_up_known(&self, node: NodeId) -> bool {
        let seen_by_others = self.network.ups.contains_key(&node) && self.from.contains_key(&node);
        self.network.own_ups.contains_key(&node) || seen_by_others
    }

    pub(super) fn links_into(&self, node: NodeId, peers: fn(NodeId, NodeId) -> bool) -> NodeLinks {
        let links = self
            .network
            .to(node)
            .filter(|(from, _)| peers(node, *from))
            .filter_map(|(from, _)| Some((self.network.link(from, node)?, from)));
        let links =
            NodeLinks::of(node, links.map(|(link, from)| (link, self.sum_from(from).fastest)));
        let oldest = self.network.to(node).map(|(_, link)| link.oldest).min();
        links.beside(self.carried_since(node, 0, oldest), self.sum_into(node).sum)
    }

    pub(super) fn links_out_of(
        &self,
        node: NodeId,
        peers: fn(NodeId, NodeId) -> bool,
    ) -> NodeLinks {
        let links = self
            .network
            .from(node)
            .filter(|(to, _)| peers(node, *to))
            .filter_map(|(to, _)| Some((self.network.link(node, to)?, to)));
        let could = |link: &Estimate, to: NodeId| {
            let more = if is_worker(to) { self.spare_into(to) } else { 1.0 };
            self.sum_into(to).fastest.max(link.rate * more)
        };
        let links = NodeLinks::of(node, links.map(|(link, to)| (link, could(&link, to))));
        let oldest = self.network.from(node).map(|(_, link)| link.oldest).min();
        links.beside(self.carried_since(node, 1, oldest), self.sum_from(node).sum)
    }

    /// The most that a card carried in a second, in that direction, since that time.
    fn carried_since(&self, node: NodeId, direction: usize, since: Option<Duration>) -> f64 {
        let carried = self.network.carried.get(&node).zip(since);
        carried.map_or(0.0, |(carried, since)| carried[direction].since(since))
    }

    /// How many times what all its links bring a node it was seen to receive.
    fn spare_into(&self, node: NodeId) -> f64 {
        let sum = self.sum_into(node).sum;
        let card =
            self.network.downs.get(&node).map(|down| down.estimate(self.network.newest).rate);
        card.filter(|_| sum > 0.0).map_or(1.0, |card| card / sum)
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
            match self.network.paces.get(node) {
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
            let measured = |known: bool, rate: f64| match card.known || known {
                true => rate * share,
                false => f64::INFINITY,
            };
            if self.network.links.contains_key(&(worker, *server)) {
                taken += measured(self.network.is_down_known(*server), card.down);
            }
            if self.network.links.contains_key(&(*server, worker)) {
                given += measured(self.is_up_known(*server), card.up);
            }
        }
        let below = |own: Option<Estimate>, servers: f64| own.is_some_and(|own| own.rate < servers);
        [below(self.up(worker), taken), below(self.down(worker), given)]
    }

    /// The fastest card, or link, that was measured.
    fn best(&self) -> Option<f64> {
        let downs = self.network.downs.keys().filter_map(|node| self.down(*node));
        let ups = self
            .network
            .ups
            .keys()
            .chain(self.network.own_ups.keys())
            .filter_map(|node| self.up(*node));
        let links = self.network.links.values().map(|link| link.rate.estimate(self.network.newest));
        downs.chain(ups).chain(links).map(|estimate| estimate.lower).reduce(f64::max)
    }
}

/// Of all links.
pub(super) const ALL: fn(NodeId, NodeId) -> bool = |_, _| true;

/// All links that end, or begin, at one node.
pub(super) struct NodeLinks {
    pub(super) fastest: Option<Estimate>,
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
