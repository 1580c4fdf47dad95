//! A round of `dist_sync` waits for those that live, in a job that goes on without those that die
//! (docs/elastic.md, "Workers"; [`Workers`]). A policy says who lives; who took leave is heard from
//! him. May touch what the store may.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::state::Elastic;
use crate::store::outbound::Outbound;
use crate::store::pieces::awaited::Workers;
use crate::store::pieces::name::Customer;
use crate::store::state::{At, Store};
use crate::wire::elastic::LiveWorker;
use crate::wire::{Key, Meta, NodeId};

/// Customers of workers that took leave and are remembered; more are waited for.
const LEFT_MAX: usize = 1 << 16;

impl Elastic {
    /// A policy names those who live. None: the job waits for all for ever.
    pub(super) fn workers_live(&mut self, live: &[LiveWorker]) {
        if live.is_empty() {
            return;
        }
        let lives: BTreeMap<NodeId, u64> =
            live.iter().map(|worker| (worker.node, worker.since)).collect();
        let same = |node: NodeId| {
            let since = lives.get(&node);
            let known = self.workers.as_ref().and_then(|workers| workers.lives.get(&node));
            since.is_some() && (known.is_none() || known == since)
        };
        let left: BTreeSet<_> = self.left.iter().copied().filter(|(node, _)| same(*node)).collect();
        self.left = left;
        self.workers = Some(Arc::new(Workers::new(live, &self.left)));
        self.live = live.to_vec();
    }

    /// True if the process that asked that is not in the job any more, as far as this server knows.
    pub(super) fn is_former(&self, request: &Meta) -> bool {
        self.workers.as_ref().is_some_and(|workers| !workers.has(Customer::of(request)))
    }
}

impl Store {
    /// Whom rounds wait for, where that is not for ever the same.
    pub(in crate::store) fn live_workers(&self) -> Option<Arc<Workers>> {
        self.elastic.as_ref().and_then(|elastic| elastic.workers.clone())
    }

    /// True if nobody waits for the answer to that request any more: its sender is dead.
    pub(in crate::store) fn is_former(&self, request: &Meta) -> bool {
        self.elastic.as_ref().is_some_and(|elastic| elastic.is_former(request))
    }

    /// True if no round ends without the customer that asked that. (Of a worker that came back that
    /// is not so.)
    pub(in crate::store) fn is_awaited(&self, request: &Meta) -> bool {
        let workers = self.elastic.as_ref().and_then(|elastic| elastic.workers.as_ref());
        workers.is_none_or(|workers| workers.awaits(Customer::of(request)))
    }

    /// True if that request is to be left alone: whoever sent it is dead for the others, or another
    /// process has its id.
    pub(in crate::store) fn is_of_the_dead(&self, request: &Meta) -> bool {
        let Some(elastic) = &self.elastic else { return false };
        // One that knows a newer policy may be of a worker that this one does not name yet.
        let known = request.placed.as_ref().is_some_and(|placed| placed.epoch <= elastic.epoch);
        known && elastic.is_former(request)
    }

    /// A customer of a worker sends no more: in a job that goes on without workers that die, rounds
    /// do not wait for it either.
    pub fn customer_left(&mut self, node: NodeId, customer: i32, out: &mut Outbound) {
        let Some(elastic) = &mut self.elastic else { return };
        if elastic.left.len() >= LEFT_MAX {
            return;
        }
        // Who joins may hear of it before its first policy.
        elastic.left.insert((node, customer));
        if elastic.workers.is_some() {
            elastic.workers = Some(Arc::new(Workers::new(&elastic.live, &elastic.left)));
            self.close_rounds(out);
            self.look_at_all();
        }
        self.void_tickets_of(node, customer, out);
    }

    /// Fewer may be waited for than before: ends the rounds that are complete by that, and gives up
    /// those to which nobody has pushed who lives.
    pub(super) fn close_rounds(&mut self, out: &mut Outbound) {
        let Some(workers) = self.live_workers() else { return };
        let (mut open, mut given_up): (Vec<(Key, u64)>, Vec<u64>) = Default::default();
        for (key, tensor) in &mut self.tensors {
            for piece in tensor.pieces.iter_mut().filter(|piece| piece.round.is_open()) {
                given_up.extend(piece.round.forget(|who| !workers.has(who)));
                open.push((*key, piece.from));
            }
        }
        given_up.into_iter().for_each(|number| self.stalls.end(Some(number)));
        for (key, from) in open {
            let pieces = self.tensors.get(&key).map(|tensor| &tensor.pieces[..]).unwrap_or(&[]);
            if let Some(index) = pieces.iter().position(|piece| piece.from == from) {
                self.close_round(At { key, index }, out);
            }
            // Orders may have waited for the end of a round that was given up.
            self.carry_out_all(key, out);
        }
    }
}
