//! Which rounds of a store wait for pushes that do not come: what it hears from workers, and what
//! it then says. May touch what the store may.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;

use crate::store::holdings::At;
use crate::store::pieces::stalls::{LastRequest, Stall, WORKERS_MAX, WaitingRound};
use crate::store::pieces::tensor::Piece;
use crate::store::state::Store;
use crate::values::key_at;
use crate::values::kind::{RequestKind, kind_of};
use crate::wire::{Meta, NodeId, worker_id};

impl Store {
    /// A request comes at that time, since the start of the node: call it before [`Self::serve`].
    /// Rounds that it begins wait from then on.
    pub fn hear(&mut self, now: Duration, request: &Meta, frames: &[Bytes]) {
        self.held.stalls.now = now;
        let kind = kind_of(request.head).map(|(kind, _)| kind);
        let second = request.push && matches!(kind, Ok(RequestKind::Compressed));
        let key = frames.first().and_then(|keys| key_at(keys, usize::from(second)));
        let Some(key) = key.filter(|key| self.held.view.rank(*key).is_some()) else { return };
        let (key, space) = (self.held.view.local(key), self.held.view.space(key));
        let what = if request.push { "pushed" } else { "pulled" };
        let last = &mut self.held.stalls.last;
        if last.len() < WORKERS_MAX || last.contains_key(&request.sender) {
            last.insert(request.sender, LastRequest { what, key, space, ago: now });
        }
    }

    /// The oldest round that has waited for at least `limit`, if there is one. What it costs does
    /// not depend on the number of keys unless there is one: then the open rounds are counted.
    pub fn stalled(&mut self, now: Duration, limit: Duration) -> Option<Stall> {
        while let Some((number, open)) = self.held.stalls.first() {
            let waited = now.saturating_sub(open.since);
            if waited < limit {
                return None;
            }
            match self.waiting(number, open) {
                // Its piece is cut otherwise now.
                None => self.held.stalls.end(Some(number)),
                Some(at) => return self.stall(at, now, waited, limit),
            }
        }
        None
    }

    /// Where that round is, if it still is.
    fn waiting(&self, number: u64, open: WaitingRound) -> Option<At> {
        let pieces = &self.held.tensors.get(&open.key)?.pieces;
        let is = |piece: &Piece| {
            piece.from == open.from && piece.round.is_open() && piece.round.number() == Some(number)
        };
        pieces.iter().position(is).map(|index| At { key: open.key, index })
    }

    fn stall(&self, at: At, now: Duration, waited: Duration, limit: Duration) -> Option<Stall> {
        let piece = self.held.piece(at).ok()?;
        let first = (0..self.held.config.workers).map(worker_id);
        let missing = piece.round.lacks(&self.held.quorum(at.key), first);
        let pushed: BTreeSet<NodeId> = piece.round.pushed().collect();
        let asked = |id: &NodeId| {
            let last = self.held.stalls.last.get(id);
            last.map(|last| LastRequest { ago: now.saturating_sub(last.ago), ..*last })
        };
        let long = |open: &&WaitingRound| now.saturating_sub(open.since) >= limit;
        Some(Stall {
            key: self.held.view.local(at.key),
            space: self.held.view.space(at.key),
            round: piece.version + 1,
            waited,
            pushed: pushed.into_iter().collect(),
            missing: missing.iter().map(|id| (*id, asked(id))).collect(),
            // In the order of their beginning: the first one that is younger ends the count.
            others: self.held.stalls.open.values().take_while(long).count().saturating_sub(1),
        })
    }
}
