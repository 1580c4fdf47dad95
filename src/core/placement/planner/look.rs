//! The job as it is at one moment, as a model: cards from the links, corrected by what workers see.

use std::time::Duration;

use super::members::WorkerMember;
use super::state::Planner;
use crate::placement::cost::{Model, PairCap, Server, Worker, bytes};
use crate::placement::layout::Plan;
use crate::placement::links::{Card, NetworkNow};
use crate::placement::shares;
use crate::placement::stragglers::{Correction, Seen, Stragglers};
use crate::placement::tuning::{LAG, LAG_USED_MIN, UNKNOWN_RATE};
use crate::wire::NodeId;

/// What the rates of the model rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Basis {
    /// Measured links.
    Links,
    /// The times of workers alone: no link has been measured.
    Times,
    /// Nothing: all servers are taken as equal, and no time means anything.
    Nothing,
}

/// One look.
#[derive(Clone, Debug)]
pub(super) struct PlannerLook {
    pub(super) basis: Basis,
    /// Cards alone.
    pub(super) plain: Model,
    /// With what workers see.
    pub(super) seen: Model,
    /// With the lag of slow servers, too ([`lag`]).
    pub(super) model: Model,
    pub(super) loads: Vec<f64>,
    pub(super) homeless: f64,
}

impl PlannerLook {
    pub(super) fn total(&self) -> f64 {
        self.loads.iter().sum::<f64>() + self.homeless
    }

    /// Some server that may hold pieces has none: it joined.
    pub(super) fn is_joining(&self) -> bool {
        let mut servers = self.model.servers().iter().zip(&self.loads);
        servers.any(|(server, load)| server.usable && *load <= 0.0)
    }

    /// True if a plan gives pieces to a server that has none.
    pub(super) fn is_filled_by(&self, plan: &Plan) -> bool {
        shares::fills(&self.loads, &self.model, &plan.moves)
    }

    /// What each server should take: seconds by its card, or its share of the bytes.
    pub(super) fn expected(&self) -> Vec<(NodeId, f64)> {
        let ids = self.plain.servers().iter().map(|server| server.id);
        match self.basis {
            Basis::Links => ids.zip(self.plain.server_seconds(&self.loads)).collect(),
            _ => {
                let total = self.total().max(f64::MIN_POSITIVE);
                ids.zip(&self.loads).map(|(id, load)| (id, load / total)).collect()
            }
        }
    }

    /// T* of this moment; none if no link has been measured.
    pub(super) fn bound(&self) -> Option<f64> {
        (self.basis == Basis::Links).then(|| self.seen.bound(self.total()))
    }
}

/// Leaves slow servers some room. What comes to a server over many connections comes unevenly, by
/// about as many bytes for each server, and a slow one needs longer for them: it is behind the
/// others. MXNet pulls a tensor when all servers have got all of it, so a slow server that is as
/// full as a fast one holds up the pulls from all.
fn lag(mut servers: Vec<Server>) -> Vec<Server> {
    let rate = |server: &Server| server.up.min(server.down) / server.slowdown;
    let usable = servers.iter().filter(|server| server.usable).map(rate);
    let (count, sum, fastest) =
        usable.fold((0.0, 0.0, 0.0), |(n, sum, most), rate| (n + 1.0, sum + rate, rate.max(most)));
    let mean: f64 = sum / f64::max(count, 1.0);
    for server in servers.iter_mut().filter(|server| server.usable) {
        let behind = mean / rate(server) - mean / fastest;
        if behind.is_finite() {
            // Its copies, too, are late.
            let used = (1.0 - LAG * behind).max(LAG_USED_MIN);
            (server.up, server.down) = (server.up * used, server.down * used);
        }
    }
    servers
}

impl Planner {
    /// The job now. None: nobody is in it, or there is nothing to hold.
    pub(super) fn look(&self, now: Duration) -> Option<PlannerLook> {
        if self.members.servers.is_empty() || self.layout.is_empty() {
            return None;
        }
        let network = self.network.now();
        let (basis, workers, servers) = self.nodes(&network);
        let corrected: Vec<Server> =
            servers.iter().map(|server| self.corrected(server, basis, now)).collect();
        let caps = match basis {
            Basis::Links => self.narrow_pairs(&network, &workers, &servers),
            _ => Vec::new(),
        };
        let model = |workers, servers| Model::new(workers, servers, &caps, &self.settings.replicas);
        let plain = model(workers.clone(), servers);
        let (loads, homeless) = plain.loads_held(&self.summary.held);
        let late = lag(corrected.clone());
        let seen = model(workers.clone(), corrected);
        let model = model(workers, late);
        Some(PlannerLook { basis, plain, seen, model, loads, homeless })
    }

    fn narrow_pairs(
        &self,
        network: &NetworkNow<'_>,
        workers: &[Worker],
        servers: &[Server],
    ) -> Vec<PairCap> {
        let sends: Vec<NodeId> = workers.iter().map(|worker| worker.id).collect();
        let holds = servers.iter().filter(|server| server.usable).map(|server| server.id);
        let copies = self.settings.replicas.ratio() > 0.0;
        network.narrow_pairs(&sends, &holds.collect::<Vec<_>>(), copies)
    }

    /// The nodes with their cards.
    fn nodes(&self, network: &NetworkNow<'_>) -> (Basis, Vec<Worker>, Vec<Server>) {
        let workers: Vec<NodeId> = self.members.workers.iter().map(|worker| worker.id).collect();
        let servers: Vec<NodeId> = self.members.servers.iter().map(|server| server.id).collect();
        let cards = network.cards(&workers).zip(network.cards(&servers));
        // On one host no card takes part.
        let cards = cards.filter(|_| self.is_on_several_hosts());
        let (basis, (worker_cards, server_cards)) = match cards {
            Some(cards) => (Basis::Links, cards),
            None => self.cards_by_time(workers.len(), &servers),
        };
        let host = |host: Option<u32>| host.filter(|_| basis == Basis::Links);
        let with_cards: Vec<_> =
            servers.iter().copied().zip(server_cards.iter().copied()).collect();
        let workers = self.members.workers.iter().zip(worker_cards);
        let workers = workers.map(|(member, card)| {
            let limits = match basis == Basis::Links && !self.has_mates(member) {
                true => network.limits(member.id, &with_cards, self.members.workers.len()),
                false => [true; 2],
            };
            let rate = |limits: bool, rate: f64| if limits { rate } else { f64::INFINITY };
            Worker {
                id: member.id,
                up: rate(limits[0], card.up),
                down: rate(limits[1], card.down),
                host: host(member.host),
            }
        });
        let servers = self.members.servers.iter().zip(server_cards);
        let servers = servers.map(|(member, card)| Server {
            host: host(member.host),
            usable: Self::is_usable(member),
            ..Server::new(member.id, card.up, card.down)
        });
        (basis, workers.collect(), servers.collect())
    }

    /// Whether a server is on its host: then its card is that one's as well.
    fn has_mates(&self, worker: &WorkerMember) -> bool {
        let servers = &self.members.servers;
        worker.host.is_some() && servers.iter().any(|server| server.host == worker.host)
    }

    fn is_on_several_hosts(&self) -> bool {
        let workers = self.members.workers.iter().map(|worker| worker.host);
        let mut hosts = workers.chain(self.members.servers.iter().map(|server| server.host));
        let first = hosts.next().flatten();
        first.is_none() || hosts.any(|host| host != first)
    }

    /// Cards that explain the times of workers: a server serves all workers with all bytes in as
    /// many seconds as its slope says. Workers are no limit.
    fn cards_by_time(&self, workers: usize, servers: &[NodeId]) -> (Basis, (Vec<Card>, Vec<Card>)) {
        let card = |rate: f64| Card { up: rate, down: rate, known: false };
        let open = vec![card(f64::INFINITY); workers];
        let total = bytes(self.summary.bytes().0);
        #[allow(clippy::cast_precision_loss, reason = "a count of workers")]
        let all = total * workers as f64;
        let Some(usual) =
            self.stragglers.usual_slope().filter(|_| !self.against_cards && all > 0.0)
        else {
            return (Basis::Nothing, (open, vec![card(UNKNOWN_RATE); servers.len()]));
        };
        let slope = |server: &NodeId| self.stragglers.slope(*server).unwrap_or(usual);
        (Basis::Times, (open, servers.iter().map(|server| card(all / slope(server))).collect()))
    }

    /// A server as workers see it.
    fn corrected(&self, server: &Server, basis: Basis, now: Duration) -> Server {
        let Correction { slowdown, fixed } = match basis {
            Basis::Links if !self.against_cards => Correction::NONE,
            Basis::Nothing => Correction::NONE,
            _ => self.stragglers.correction(server.id, now),
        };
        // Without cards the slowdown is in the rates already.
        let slowdown = if basis == Basis::Links { slowdown } else { 1.0 };
        Server { slowdown, fixed, ..server.clone() }
    }

    /// Gives what workers reported to planner C, if there is enough of it; and notes how rounds
    /// compare with the model.
    pub(super) fn digest(&mut self, now: Duration, look: &PlannerLook) -> bool {
        if !self.times.is_news(self.members.workers.len()) || self.moving.is_some() {
            return false;
        }
        let against_cards = look.basis == Basis::Links;
        if against_cards != self.against_cards {
            // What was learnt is in other units.
            self.stragglers = Stragglers::new(self.settings.stragglers.clone());
            self.trial.forget();
            self.against_cards = against_cards;
        }
        let times = self.times.server_seconds(self.switch_round);
        let seen = look.expected().into_iter().filter_map(|(server, expected)| {
            let at_least = if against_cards { expected } else { 0.0 };
            Some(Seen { server, seconds: *times.get(&server)?, expected, at_least })
        });
        self.stragglers.observe(now, &seen.collect::<Vec<_>>());
        if let Some(measured) = self.times.round_seconds(self.switch_round)
            && look.basis != Basis::Nothing
        {
            self.compare(measured, look);
        }
        true
    }

    /// Notes how rounds compare with the model; during a trial, how they compare with the old
    /// layout.
    fn compare(&mut self, measured: f64, look: &PlannerLook) {
        let Some(trial) = &mut self.on_trial else {
            return self.trial.note(measured, look.model.round_seconds(&look.loads));
        };
        let (old, _) = look.model.loads_held(&trial.held);
        trial.factors.extend(self.trial.compare(measured, look.model.round_seconds(&old)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each server may use of its card, beside the others.
    fn used(rates: &[f64]) -> Vec<f64> {
        let servers = rates.iter().zip(4..).map(|(rate, id)| Server::new(2 * id, *rate, *rate));
        let left = lag(servers.collect());
        assert!(left.iter().all(|server| server.up == server.down));
        left.iter().zip(rates).map(|(server, rate)| server.down / rate).collect()
    }

    #[test]
    fn only_slower_servers_are_left_room() {
        assert_eq!(used(&[20.0; 4]), [1.0; 4]);
        let two = used(&[200.0, 200.0, 50.0, 50.0]);
        assert_eq!(two[..2], [1.0; 2]);
        // The average one is 2.5 times as fast, and 0.625 times as fast as the fastest: 1.875
        // tenths less.
        assert!(two[2..].iter().all(|fraction| (fraction - 0.8125).abs() < 1e-9), "{two:?}");
        assert!((used(&[500.0, 500.0, 500.0, 1.0])[3] - LAG_USED_MIN).abs() < 1e-9);
    }

    #[test]
    fn servers_that_may_hold_nothing_do_not_count() {
        let mut servers = vec![Server::new(8, 10.0, 10.0), Server::new(10, 1000.0, 1000.0)];
        servers[1].usable = false;
        assert_eq!(lag(servers.clone()), servers);
        assert!(lag(Vec::new()).is_empty());
    }
}
