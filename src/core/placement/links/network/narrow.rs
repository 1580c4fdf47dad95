//! Which links are narrower than the cards at their ends explain. A card explains what its fair
//! share would be with all links in use; of a server's card that is what copies leave of it.

use super::exchange;
use super::now::{ALL, NetworkNow, NodeLinks};
use crate::placement::cost::PairCap;
use crate::placement::links::Estimate;
use crate::placement::tuning::{COPIES_LEAVE, NARROW_PAIR, TELLING_WINDOWS};
use crate::wire::NodeId;

/// What a card can carry, or what of that is left for one link: bytes per second, if known.
#[derive(Clone, Copy)]
struct CardRates {
    up: Option<f64>,
    down: Option<f64>,
}

impl NetworkNow<'_> {
    /// The pairs whose link is narrower than the cards at its ends explain. `copies`: servers send
    /// each other copies in every round.
    #[must_use]
    pub fn narrow_pairs(
        &self,
        workers: &[NodeId],
        servers: &[NodeId],
        copies: bool,
    ) -> Vec<PairCap> {
        let at_server = |server: &NodeId| {
            let card = self.fastest_seen(*server);
            if copies { self.beside_copies(*server, card) } else { card }.of(workers.len())
        };
        let servers: Vec<(NodeId, CardRates)> =
            servers.iter().map(|server| (*server, at_server(server))).collect();
        let mut pairs = Vec::new();
        for worker in workers.iter().copied() {
            let own = self.fastest_seen(worker).of(servers.len());
            for (server, other) in servers.iter().copied() {
                let push = self.cap(worker, server, own.up, other.down);
                let pull = self.cap(server, worker, other.up, own.down);
                if push.is_some() || pull.is_some() {
                    let open = f64::INFINITY;
                    let (push, pull) = (push.unwrap_or(open), pull.unwrap_or(open));
                    pairs.push(PairCap { worker, server, push, pull });
                }
            }
        }
        pairs
    }

    /// What a link can carry, if that is less than the shares of both cards explain.
    fn cap(&self, from: NodeId, to: NodeId, up: Option<f64>, down: Option<f64>) -> Option<f64> {
        let link = self.network.link_of_now(from, to)?;
        let fair = up?.min(down?);
        let narrow = link.samples >= TELLING_WINDOWS && link.rate < NARROW_PAIR * fair;
        narrow.then_some(link.lower)
    }

    /// A node's card; where it is not known, its fastest link.
    fn fastest_seen(&self, node: NodeId) -> CardRates {
        let rate = |estimate: Option<Estimate>, links: NodeLinks| {
            estimate.or(links.fastest).map(|estimate| estimate.rate)
        };
        CardRates {
            up: rate(self.up(node), self.links_out_of(node, ALL)),
            down: rate(self.down(node), self.links_into(node, ALL)),
        }
    }

    /// What copies leave of a server's card.
    fn beside_copies(&self, server: NodeId, card: CardRates) -> CardRates {
        let sum = |rates: &mut dyn Iterator<Item = Option<Estimate>>| -> f64 {
            rates.flatten().map(|link| link.rate).sum()
        };
        let others = |peer: &NodeId| !exchange(server, *peer);
        let sent = self.network.from(server).map(|(to, _)| to).filter(others);
        let sent = sum(&mut sent.map(|to| self.network.link_of_now(server, to)));
        let came = self.network.into.get(&server).into_iter().flatten().copied().filter(others);
        let came = sum(&mut came.map(|from| self.network.link_of_now(from, server)));
        let left = |card: Option<f64>, copies: f64| {
            card.map(|card| (card - copies).max(card * COPIES_LEAVE))
        };
        CardRates { up: left(card.up, sent), down: left(card.down, came) }
    }
}

impl CardRates {
    /// For each of so many links.
    fn of(self, links: usize) -> Self {
        #[allow(clippy::cast_precision_loss, reason = "a count of nodes")]
        let each = |rate: Option<f64>| rate.map(|rate| rate / links as f64);
        Self { up: each(self.up), down: each(self.down) }
    }
}
