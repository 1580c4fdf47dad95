//! Rounds of pushes and what they do to a piece (kvstore_dist_server.h, ApplyUpdates). May touch
//! what the store may.

use bytes::Bytes;
use pslite_optimizers::{Gradient, Optimizer};

use super::asks;
use crate::store::error::StoreError;
use crate::store::moving::{Asked, RoundDone, Shipped};
use crate::store::outbound::{Answer, Outbound, done, refused};
use crate::store::pieces::contribution::{Contribution, Pushes};
use crate::store::pieces::round::{Complete, Quorum};
use crate::store::pieces::sums::{Addend, Sum};
use crate::store::pieces::tensor::{Entry, Layout, Piece};
use crate::store::state::{At, Store};
use crate::values::{Buffer, Dtype};
use crate::wire::elastic::Mark;
use crate::wire::{Key, Meta};

impl Store {
    /// A push to a piece that is here, and the pushes for the next round that have become due with
    /// it.
    pub(super) fn push(
        &mut self,
        at: At,
        mut request: Meta,
        addend: Addend,
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        if request.hop.is_some() {
            if !self.takes_sum(at, &request, out) {
                return Ok(());
            }
            let refused = (!request.error.is_empty())
                .then(|| Box::new(StoreError::Relay(std::mem::take(&mut request.error))));
            let sum = refused.map_or(addend, Addend::Refused);
            return self.contribute(
                at,
                Contribution { sum, pushes: Pushes::several(request)? },
                out,
            );
        }
        self.contribute(at, Contribution::of(request, addend), out)
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

    /// The same of any contribution.
    pub(in crate::store) fn contribute(
        &mut self,
        at: At,
        contribution: Contribution,
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        match self.piece(at)?.entry(&contribution.pushes) {
            Entry::Open => self.push_all(at, Some(contribution), out),
            Entry::TooSoon => {
                self.answer_again(contribution.pushes.into_request(), Vec::new(), out);
                Ok(())
            }
            Entry::Overlaps => Err(StoreError::Overlap { key: self.view.name(at.key) }),
        }
    }

    /// What a round of a key waits for.
    pub(in crate::store) fn quorum(&self, key: Key) -> Quorum {
        let sync = self.mode(key).sync;
        Quorum {
            workers: if sync { self.config.workers.max(1) } else { 1 },
            live: if sync { self.live_workers() } else { None },
            space: self.view.space(key),
            keeps_order: sync && self.config.order.is_fixed(),
        }
    }

    /// The pushes for the next round that have become due with it too.
    fn push_all(
        &mut self,
        at: At,
        mut next: Option<Contribution>,
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        let quorum = self.quorum(at.key);
        while let Some(Contribution { sum, pushes }) = next.take() {
            let piece = self.piece_mut(at)?;
            if pushes.names().all(|name| piece.marks.count(&name)) {
                self.answer_duplicate(at, pushes.into_request(), out)?;
            } else if asks(pushes.request()) {
                self.asked(at, pushes.into_request(), Asked::Later, out)?;
            } else if !self.is_sent_by_tree(at, &pushes, out) {
                let piece = self.piece_mut(at)?;
                // What came too early stays as it came until its round begins.
                let counts_now = !piece.round.has(&pushes);
                let widens = counts_now && piece.master.is_some();
                let sum = if widens { sum.into_f32(piece.dtype) } else { sum };
                let dtype = piece.sum_dtype();
                let Piece { round, value, .. } = piece;
                round.push(Contribution { sum, pushes }, dtype, &quorum, value.buffer())?;
                match round.complete(&quorum) {
                    // If it is not applied it was cut or has left: who came early was told so.
                    Some(complete) => {
                        if !self.apply(at, dtype, complete, out) {
                            return Ok(());
                        }
                    }
                    None => self.begin_wait(at),
                }
            }
            next = self.piece_mut(at)?.round.next_push();
        }
        Ok(())
    }

    /// The open round of a piece is one that waits, from now on or already.
    fn begin_wait(&mut self, at: At) {
        let Ok(piece) = self.piece(at) else { return };
        if piece.round.number().is_none() {
            let number = self.stalls.begin(at.key, piece.from);
            let _ = self.piece_mut(at).map(|piece| piece.round.wait_as(number));
        }
    }

    /// Ends the open round of a piece if it waits for nobody any more.
    pub(in crate::store) fn close_round(&mut self, at: At, out: &mut Outbound) {
        let quorum = self.quorum(at.key);
        let Ok(piece) = self.piece_mut(at) else { return };
        let dtype = piece.sum_dtype();
        if let Some(complete) = piece.round.complete(&quorum)
            && !self.apply(at, dtype, complete, out)
        {
            return;
        }
        while let Ok(piece) = self.piece_mut(at)
            && let Some(contribution) = piece.round.next_push()
        {
            let meta = contribution.pushes.request().clone();
            match self.push_all(at, Some(contribution), out) {
                Ok(()) => {}
                Err(error) => self.answer(refused(meta, &error), out),
            }
        }
    }

    /// ApplyUpdates. All that the round brought is answered, also if it cannot be applied. False if
    /// the piece is not here any more.
    fn apply(&mut self, at: At, dtype: Dtype, complete: Complete, out: &mut Outbound) -> bool {
        let Complete { sum, contributors, number } = complete;
        self.stalls.end(number);
        let mean = sum.accepted().and_then(|sum| self.mean(at, dtype, sum, &contributors));
        let applied = mean.and_then(|(sum, length)| {
            let (sum, shipped) = self.share(at, dtype, sum)?;
            self.apply_sum(at, dtype, sum)?;
            self.watch_momentum(at, length);
            Ok(shipped)
        });
        if self.elastic.is_none() {
            for pushes in contributors {
                let request = pushes.into_request();
                let answer = self.answer_applied(at, request, applied.as_ref().err());
                out.answers.push(answer);
            }
            return true;
        }
        let names = contributors.iter().flat_map(Pushes::names);
        let marks: Vec<Mark> = names.filter_map(|name| name.mark()).collect();
        let pushed = if applied.is_ok() { self.by_tree_next(at, &contributors) } else { None };
        let requests = contributors.into_iter().map(Pushes::into_request);
        let answers = requests
            .map(|request| self.answer_applied(at, request, applied.as_ref().err()))
            .collect();
        match applied {
            Ok(shipped) => self.round_done(at, RoundDone { marks, answers, shipped, pushed }, out),
            Err(_) => self.round_failed(at, answers, out),
        }
    }

    /// The sum, and what the replica gets of it, if it gets anything.
    fn share(&self, at: At, dtype: Dtype, sum: Sum) -> Result<(Sum, Option<Shipped>), StoreError> {
        if !self.is_copied(at) {
            return Ok((sum, None));
        }
        let (sum, rows, values) = sum.share(dtype, self.memory.as_deref())?;
        Ok((sum, Some(Shipped { dtype, rows, values: Some(values) })))
    }

    fn apply_sum(&mut self, at: At, dtype: Dtype, sum: Sum) -> Result<(), StoreError> {
        let mode = self.mode(at.key);
        if mode.optimizer.is_none() && !mode.sync {
            return Err(StoreError::NoOptimizer);
        }
        let key = self.view.local(at.key);
        let optimizer = mode.optimizer.clone();
        let mut scratch = std::mem::take(&mut self.scratch);
        let piece = self.piece_mut(at);
        let applied = piece
            .and_then(|piece| piece.apply(key, optimizer.as_deref(), dtype, sum, &mut scratch));
        self.scratch = scratch;
        applied
    }

    fn answer_applied(&self, at: At, mut request: Meta, error: Option<&StoreError>) -> Answer {
        self.clear_wants(&mut request);
        if let Some(error) = error {
            return refused(request, error);
        }
        let meta = request.clone();
        self.answer_push(at, request).unwrap_or_else(|error| refused(meta, &error))
    }

    /// The answer to a push that counted, with the value if it was asked for. Who wants it ahead
    /// gets it if no round ends without that worker: else a pull would bring a newer one.
    pub(in crate::store) fn answer_push(
        &self,
        at: At,
        request: Meta,
    ) -> Result<Answer, StoreError> {
        let asks = request.placed.as_ref().is_some_and(|placed| placed.ahead);
        let may_have = match &request.hop {
            Some(hop) => hop.names.iter().any(|name| name.wants),
            None => self.is_awaited(&request),
        };
        let ahead = asks && self.mode(at.key).sync && may_have;
        let is_dense = || self.piece(at).is_ok_and(|piece| piece.layout == Layout::Dense);
        if request.pull || ahead && is_dense() {
            self.pull(request, &Bytes::copy_from_slice(&at.key.to_ne_bytes()), at)
        } else {
            Ok(done(request))
        }
    }
}

impl Piece {
    /// The type in which pushes are summed.
    pub(in crate::store) const fn sum_dtype(&self) -> Dtype {
        if self.master.is_some() { Dtype::F32 } else { self.dtype }
    }

    /// Applies the sum of a round: by the optimizer, or, if there is none, in the value's place.
    /// `key` is the application's, `scratch` memory for a sum.
    pub(in crate::store) fn apply(
        &mut self,
        key: i64,
        optimizer: Option<&Optimizer>,
        dtype: Dtype,
        sum: Sum,
        scratch: &mut Buffer,
    ) -> Result<(), StoreError> {
        match optimizer {
            Some(optimizer) => self.update(key, optimizer, dtype, sum, scratch)?,
            None => self.replace(sum, dtype)?,
        }
        self.version += 1;
        Ok(())
    }

    fn update(
        &mut self,
        key: i64,
        optimizer: &Optimizer,
        dtype: Dtype,
        sum: Sum,
        scratch: &mut Buffer,
    ) -> Result<(), StoreError> {
        let rows;
        let gradient = match (self.layout, &sum) {
            (Layout::Dense, Sum::Shared(sum)) => Gradient::Dense(sum.buffer()),
            (Layout::Dense, _) => {
                scratch.resize(self.length() * dtype.size());
                sum.write(dtype, scratch)?;
                Gradient::Dense(scratch)
            }
            (Layout::Rows { row_len }, _) => {
                rows = sum.rows(dtype)?;
                Gradient::RowSparse { rows: &rows.0, values: &rows.1, row_len }
            }
        };
        let target = match &mut self.master {
            Some(master) => master,
            None => self.value.change(),
        };
        optimizer.update(key, dtype, target, &gradient, &mut self.state)?;
        self.master_to_value();
        Ok(())
    }
}
