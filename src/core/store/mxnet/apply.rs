//! Rounds of pushes and what they do to a piece (kvstore_dist_server.h, ApplyUpdates). May touch
//! what the store may.

use crate::store::error::StoreError;
use crate::store::holdings::{At, Holdings};
use crate::store::moving::{RoundOver, Shipped};
use crate::store::outbound::{Outbound, refused};
use crate::store::pieces::contribution::{Contribution, Pushes};
use crate::store::pieces::round::Complete;
use crate::store::pieces::sums::{Addend, Sum};
use crate::store::pieces::tensor::{Entry, Piece};
use crate::store::state::Store;
use crate::values::Dtype;
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
        if request.hop().is_some() {
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

    /// The same of any contribution.
    pub(in crate::store) fn contribute(
        &mut self,
        at: At,
        contribution: Contribution,
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        match self.held.piece(at)?.entry(&contribution.pushes) {
            Entry::Open => self.push_all(at, Some(contribution), out),
            Entry::TooSoon => {
                let request = contribution.pushes.into_request();
                self.mover(out).answer_again(request, Vec::new());
                Ok(())
            }
            Entry::Overlaps => Err(StoreError::Overlap { key: self.held.view.name(at.key) }),
        }
    }

    /// The pushes for the next round that have become due with it too.
    fn push_all(
        &mut self,
        at: At,
        mut next: Option<Contribution>,
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        let quorum = self.held.quorum(at.key);
        while let Some(Contribution { sum, pushes }) = next.take() {
            if let Some(pushes) = self.mover(out).admit(at, pushes)? {
                let piece = self.held.piece_mut(at)?;
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
            next = self.held.piece_mut(at)?.round.next_push();
        }
        Ok(())
    }

    /// The open round of a piece is one that waits, from now on or already.
    fn begin_wait(&mut self, at: At) {
        let Ok(piece) = self.held.piece(at) else { return };
        if piece.round.number().is_none() {
            let number = self.held.stalls.begin(at.key, piece.from);
            let _ = self.held.piece_mut(at).map(|piece| piece.round.wait_as(number));
        }
    }

    /// Ends the open round of a piece if it waits for nobody any more.
    pub(in crate::store) fn close_round(&mut self, at: At, out: &mut Outbound) {
        let quorum = self.held.quorum(at.key);
        let Ok(piece) = self.held.piece_mut(at) else { return };
        let dtype = piece.sum_dtype();
        if let Some(complete) = piece.round.complete(&quorum)
            && !self.apply(at, dtype, complete, out)
        {
            return;
        }
        while let Ok(piece) = self.held.piece_mut(at)
            && let Some(contribution) = piece.round.next_push()
        {
            let meta = contribution.pushes.request().clone();
            match self.push_all(at, Some(contribution), out) {
                Ok(()) => {}
                Err(error) => self.whereabouts().answer(refused(meta, &error), out),
            }
        }
    }

    /// ApplyUpdates. All that the round brought is answered, also if it cannot be applied. False if
    /// the piece is not here any more.
    fn apply(&mut self, at: At, dtype: Dtype, complete: Complete, out: &mut Outbound) -> bool {
        let Complete { sum, contributors, number } = complete;
        self.held.stalls.end(number);
        let applied = self.held.apply_round(at, dtype, sum, &contributors);
        self.mover(out).round_over(at, RoundOver { contributors, applied })
    }

    /// Fewer may be waited for than before: ends the rounds that are complete by that, and gives up
    /// those to which nobody has pushed who lives.
    pub(in crate::store) fn close_rounds(&mut self, out: &mut Outbound) {
        let Some(workers) = self.held.attendance.workers().cloned() else { return };
        let (mut open, mut given_up): (Vec<(Key, u64)>, Vec<u64>) = Default::default();
        for (key, tensor) in &mut self.held.tensors {
            for piece in tensor.pieces.iter_mut().filter(|piece| piece.round.is_open()) {
                given_up.extend(piece.round.forget(|who| !workers.has(who)));
                open.push((*key, piece.from));
            }
        }
        given_up.into_iter().for_each(|number| self.held.stalls.end(Some(number)));
        for (key, from) in open {
            if let Some(at) = self.held.begins_at(key, from) {
                self.close_round(at, out);
            }
            // Orders may have waited for the end of a round that was given up.
            self.mover(out).carry_out_all(key);
        }
    }
}

impl Holdings {
    /// Applies the sum of a round. What the replica gets of it, if there is one.
    fn apply_round(
        &mut self,
        at: At,
        dtype: Dtype,
        sum: Sum,
        contributors: &[Pushes],
    ) -> Result<Option<Shipped>, StoreError> {
        let (mut sum, length) = self.mean(at, dtype, sum.accepted()?, contributors)?;
        let mut shipped = None;
        if self.piece(at)?.is_copied() {
            let (shared, rows, values) = sum.share(dtype, self.memory.as_deref())?;
            (sum, shipped) = (shared, Some(Shipped { dtype, rows, values: Some(values) }));
        }
        self.apply_sum(at, dtype, sum)?;
        self.watch_momentum(at, length);
        Ok(shipped)
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
}
