//! What rounds of a piece wait for, and what the answer to a push of one is.

use std::sync::Arc;

use bytes::Bytes;
use pslite_optimizers::Optimizer;

use super::{At, Holdings};
use crate::store::error::StoreError;
use crate::store::outbound::{Answer, done, refused};
use crate::store::pieces::contribution::Contribution;
use crate::store::pieces::name::Customer;
use crate::store::pieces::round::Quorum;
use crate::store::pieces::sums::Addend;
use crate::store::pieces::tensor::{Layout, Piece};
use crate::values::{Buffer, KEY_SIZE, KvPairs};
use crate::wire::{Key, Meta};

impl Holdings {
    /// A value's memory with those bytes.
    pub(in crate::store) fn copy(&self, bytes: &[u8]) -> Buffer {
        Buffer::copy_in(self.memory.as_deref(), bytes)
    }

    /// What a round of a key waits for.
    pub(in crate::store) fn quorum(&self, key: Key) -> Quorum {
        let sync = self.mode(key).sync;
        Quorum {
            workers: if sync { self.config.workers.max(1) } else { 1 },
            live: self.attendance.workers().filter(|_| sync).cloned(),
            space: self.view.space(key),
            keeps_order: sync && self.config.order.is_fixed(),
        }
    }

    /// A question whose push is in the open round, or waits for the next one: it is answered when
    /// that round is over.
    pub(in crate::store) fn wait_for_round(
        &mut self,
        at: At,
        request: Meta,
    ) -> Result<(), StoreError> {
        let quorum = self.quorum(at.key);
        let piece = self.piece_mut(at)?;
        let (dtype, nothing) = (piece.sum_dtype(), Addend::Dense(Bytes::new()));
        let Piece { round, value, .. } = piece;
        round.push(Contribution::of(request, nothing), dtype, &quorum, value.buffer())
    }

    /// DefaultStorageResponse.
    pub(in crate::store) fn pull(
        &self,
        request: Meta,
        keys: &Bytes,
        at: At,
    ) -> Result<Answer, StoreError> {
        let vals = self.piece(at)?.value.lend();
        let lens = Bytes::copy_from_slice(&(vals.len() as i32).to_ne_bytes());
        Ok(Answer { request, kv: KvPairs { keys: keys.slice(..KEY_SIZE), vals, lens } })
    }

    /// The answer to a push that counted, with the value if it was asked for. Who wants it ahead
    /// gets it if no round ends without that worker: else a pull would bring a newer one.
    pub(in crate::store) fn answer_push(
        &self,
        at: At,
        request: Meta,
    ) -> Result<Answer, StoreError> {
        let asks = request.ask().is_some_and(|ask| ask.ahead);
        let may_have = match request.hop() {
            Some(hop) => hop.names.iter().any(|name| name.wants),
            None => self.attendance.is_awaited(&request),
        };
        let ahead = asks && self.mode(at.key).sync && may_have;
        let is_dense = || self.piece(at).is_ok_and(|piece| piece.layout == Layout::Dense);
        if request.pull || ahead && is_dense() {
            self.pull(request, &Bytes::copy_from_slice(&at.key.to_ne_bytes()), at)
        } else {
            Ok(done(request))
        }
    }

    /// The answer to a push of a round that was applied, or why it was not.
    pub(in crate::store) fn answer_applied(
        &self,
        at: At,
        mut request: Meta,
        error: Option<&StoreError>,
    ) -> Answer {
        self.clear_wants(&mut request);
        if let Some(error) = error {
            return refused(request, error);
        }
        let meta = request.clone();
        self.answer_push(at, request).unwrap_or_else(|error| refused(meta, &error))
    }

    /// Of the pushes of a sum, those whose workers are not waited for get no values: what they
    /// would pull may be newer.
    fn clear_wants(&self, request: &mut Meta) {
        let Some(hop) = request.hop_mut() else { return };
        let Some(workers) = self.attendance.workers() else { return };
        for name in &mut hop.names {
            let who = Customer { worker: name.worker, customer: name.customer, life: name.life };
            name.wants &= workers.awaits(who);
        }
    }

    /// Which optimizer applies the gradients of a key now; 0: none.
    pub(in crate::store) fn generation(&self, key: Key) -> u64 {
        self.mode(key).generations.current()
    }

    /// The optimizer of a generation, of the space of that key; `None` if nobody had sent one.
    ///
    /// # Errors
    /// It did not come, or is too old.
    pub(in crate::store) fn optimizer_of(
        &self,
        key: Key,
        generation: u64,
    ) -> Result<Option<&Arc<Optimizer>>, StoreError> {
        match self.mode(key).generations.optimizer(generation) {
            None if generation == 0 => Ok(None),
            None => Err(StoreError::Transfer("it names an optimizer that is not here")),
            optimizer => Ok(optimizer),
        }
    }
}
