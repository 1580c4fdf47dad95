//! How the job is, told from the membership: who is in it, in which state, and who has how much.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Cluster;
use super::status::{NodeStatus, Status};
use crate::wire::{Node, NodeId, Role, id_to_rank};

/// What one server owns.
#[derive(Clone, Copy, Debug, Default)]
struct Holding {
    pieces: usize,
    bytes: u64,
    state_bytes: u64,
}

impl Cluster {
    /// How the job is, as far as this node knows; the scheduler knows most.
    #[must_use]
    pub fn status(&self, now: Duration) -> Status {
        let phase = match (&self.failure, self.ready) {
            (Some(_), _) => "failed",
            (None, false) => "forming",
            (None, true) if self.elastic.books.collection.is_some() => "changing",
            (None, true) => "running",
        };
        let note = match &self.failure {
            Some(failure) => failure.text.clone(),
            None if !self.ready => self.waiting_text(),
            None => String::new(),
        };
        let registered = self.registrants.values().map(|registrant| &registrant.node);
        let others = self.members.values().filter(|node| node.role != Role::Scheduler);
        let (times, holdings) = (&self.elastic.books.times, self.holdings());
        Status {
            scheduler: self.config.scheduler.address(),
            phase: phase.to_owned(),
            workers: self.config.num_workers,
            servers: self.config.num_servers,
            elastic: self.elastic.on,
            epoch: self.elastic.policy.epoch,
            replicas: self.elastic.policy.replicas,
            nodes: others.chain(registered).map(|node| self.status_of(node, &holdings)).collect(),
            predicted: times.predicted.map(|time| time.as_secs_f64()),
            measured: times.measured.map(|time| time.as_secs_f64()),
            // Requests of an exchange go on beside the program's iterations.
            iteration: times
                .iteration()
                .filter(|_| self.exchange().is_none())
                .map(|time| time.as_secs_f64()),
            bound: times.bound.map(|time| time.as_secs_f64()),
            eta: times.eta().filter(|_| self.exchange().is_none()),
            limit: times.limit.clone(),
            no_plan: times.no_plan.clone(),
            advice: times.advice.clone(),
            note,
            waits: self.waits(now),
            sessions: self.sessions.clone(),
            trees: times.trees.as_deref().cloned(),
            exchange: self.exchange().map(|spec| spec.describe()),
            exchanges: self.exchanges.clone(),
            exchange_advice: self.exchange_advice(),
            uncopied: self.uncopied(),
            settings: self.alike.status(),
        }
    }

    /// Pieces of which no other server has all that was answered.
    fn uncopied(&self) -> usize {
        let pieces = self.elastic.books.pieces.values().flat_map(|key| &key.pieces);
        let kept = self.elastic.on && self.elastic.policy.replicas > 0;
        pieces.filter(|piece| kept && !piece.safe).count()
    }

    /// What each server owns.
    fn holdings(&self) -> BTreeMap<NodeId, Holding> {
        let mut holdings = BTreeMap::<NodeId, Holding>::new();
        for piece in self.elastic.books.pieces.values().flat_map(|key| &key.pieces) {
            let own = holdings.entry(piece.owner).or_default();
            own.pieces += 1;
            own.bytes = own.bytes.saturating_add(piece.bytes);
            own.state_bytes = own.state_bytes.saturating_add(piece.state_bytes);
        }
        holdings
    }

    fn status_of(&self, node: &Node, holdings: &BTreeMap<NodeId, Holding>) -> NodeStatus {
        let (id, books) = (node.id, &self.elastic.books);
        let state = if self.elastic.policy.released.contains(&id) {
            "released"
        } else if self.lost.contains_key(&id) {
            "dead"
        } else if !self.ready {
            "registered"
        } else if books.draining.contains(&id) {
            "draining"
        } else if books.returning.contains(&id) {
            "joining"
        } else if books.lives.contains_key(&id) {
            "back"
        } else if books.fixed.contains_key(&id) {
            "fixed"
        } else if books.joining.contains(&id) {
            "joining"
        } else {
            "live"
        };
        let own = holdings.get(&id).copied().unwrap_or_default();
        let time = books.times.workers.get(&id).filter(|_| self.exchange().is_none());
        NodeStatus {
            role: node.role.name().to_owned(),
            rank: if self.ready { id_to_rank(id) } else { 0 },
            id,
            address: node.address(),
            state: state.to_owned(),
            pieces: own.pieces,
            bytes: own.bytes,
            state_bytes: own.state_bytes,
            computes: time.map(|time| time.computes.as_secs_f64()),
            waits: time.map(|time| time.waits.as_secs_f64()),
        }
    }
}
