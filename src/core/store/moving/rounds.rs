//! What was done to a piece here, and when that may be answered: a key that was made, a round that
//! is over, a push that counted before (docs/elastic.md, "What counts", "Replicas").

use bytes::Bytes;

use super::kept::Waiting;
use super::mover::Mover;
use super::questions::{Asked, asks};
use super::tickets::Pushed;
use crate::store::error::StoreError;
use crate::store::holdings::At;
use crate::store::outbound::{Answer, done};
use crate::store::pieces::contribution::Pushes;
use crate::store::pieces::name::Name;
use crate::values::{Dtype, KeyPart};
use crate::wire::Meta;
use crate::wire::elastic::Mark;

/// The sum of a round, as the replica gets it.
pub(in crate::store) struct Shipped {
    pub(in crate::store) dtype: Dtype,
    pub(in crate::store) rows: Vec<i64>,
    /// `None`: nothing is applied, and pushes count.
    pub(in crate::store) values: Option<Bytes>,
}

/// A round that is over.
pub(in crate::store) struct RoundOver {
    /// Which pushes were in it, and who awaits an answer.
    pub(in crate::store) contributors: Vec<Pushes>,
    /// What the replica gets, if there is one; or why it could not be applied.
    pub(in crate::store) applied: Result<Option<Shipped>, StoreError>,
}

/// What was applied to a piece.
struct Applied {
    /// The pushes that count now.
    marks: Vec<Mark>,
    shipped: Option<Shipped>,
    /// Whose pushes they were, if the next round may go by a tree.
    pushed: Option<Pushed>,
}

impl Mover<'_> {
    /// A push made a key: that is answered when it is safe.
    pub(in crate::store) fn made(&mut self, at: At, answer: Answer) {
        if !self.held.config.elastic {
            return self.out.answers.push(answer);
        }
        self.known.changes.of(at.key);
        let term = (self.known.servers.epoch << 32) + 1;
        if let Ok(piece) = self.held.piece_mut(at) {
            piece.term = term;
            piece.marks.add(Name::of(&answer.request).mark().as_slice());
        }
        self.seed(at);
        self.answer_when_safe(at, vec![answer]);
    }

    /// These pushes, if they go into a round of the piece. Others are answered: they have counted,
    /// only ask, or are told to go by a tree.
    pub(in crate::store) fn admit(
        &mut self,
        at: At,
        pushes: Pushes,
    ) -> Result<Option<Pushes>, StoreError> {
        let marks = &self.held.piece(at)?.marks;
        if pushes.names().all(|name| marks.count(&name)) {
            self.answer_duplicate(at, pushes.into_request())?;
        } else if asks(pushes.request()) {
            self.asked(at, pushes.into_request(), Asked::Later)?;
        } else if !self.is_sent_by_tree(at, &pushes) {
            return Ok(Some(pushes));
        }
        Ok(None)
    }

    /// A round of a piece is over, and was applied if it could be. All that it brought is answered
    /// when it is safe. False if the piece was cut or has left with it.
    pub(in crate::store) fn round_over(&mut self, at: At, over: RoundOver) -> bool {
        let RoundOver { contributors, applied } = over;
        let (held, error) = (&*self.held, applied.as_ref().err());
        let answered = |pushes: Pushes| held.answer_applied(at, pushes.into_request(), error);
        if !held.config.elastic {
            // It stays as it is, and has no copy.
            self.out.answers.extend(contributors.into_iter().map(answered));
            return true;
        }
        let names = contributors.iter().flat_map(Pushes::names);
        let marks = names.filter_map(|name| name.mark()).collect();
        let pushed = applied.is_ok().then(|| self.look().by_tree_next(at, &contributors));
        let answers = contributors.into_iter().map(answered).collect();
        let pushed = pushed.flatten();
        self.end_round(at, applied.ok().map(|shipped| Applied { marks, shipped, pushed }), answers)
    }

    /// A round of a piece is over: what was applied counts. Then orders that waited for its end are
    /// carried out, and its answers go, or wait for the replica. False if the piece was cut or has
    /// left with it.
    fn end_round(&mut self, at: At, applied: Option<Applied>, answers: Vec<Answer>) -> bool {
        let Ok(piece) = self.held.piece_mut(at) else { return false };
        let (part, version) = (piece.of_key(at.key), piece.version);
        let Some(Applied { marks, shipped, pushed }) = applied else {
            // The ticket was for this attempt.
            self.end_ticket(at);
            let stays = !self.carry_out(at);
            self.hold(part, None, answers);
            return stays;
        };
        piece.marks.add(&marks);
        if version == 1 {
            // From now on it can be cut, and there is a state.
            self.known.changes.of(at.key);
        }
        match shipped {
            // What it is by now goes to the new one, in the place of the round that went to the
            // former one.
            Some(_) if self.has_new_replica(at) => _ = self.seed(at),
            Some(shipped) => self.ship(at, marks, shipped),
            None => {}
        }
        let waits = self.waits(at);
        self.end_ticket(at);
        let stays = !self.carry_out(at);
        self.give_tickets(part, pushed.as_ref());
        self.hold(part, waits.then_some(version), answers);
        stays
    }

    /// A push without rows, in `dist_async`: nothing is applied, and it counts all the same, since
    /// the next one names it.
    pub(in crate::store) fn push_nothing(
        &mut self,
        at: At,
        request: Meta,
    ) -> Result<(), StoreError> {
        let (piece, name) = (self.held.piece(at)?, Name::of(&request));
        if request.ask().is_none() {
            self.out.answers.push(done(request));
        } else if piece.marks.count(&name) {
            self.answer_duplicate(at, request)?;
        } else if piece.is_next(&name) {
            let nothing = Shipped { dtype: piece.dtype, rows: Vec::new(), values: None };
            let shipped = piece.is_copied().then_some(nothing);
            let answer = self.held.answer_push(at, request)?;
            self.held.piece_mut(at)?.version += 1;
            let (marks, answers) = (name.mark().into_iter().collect(), vec![answer]);
            self.end_round(at, Some(Applied { marks, shipped, pushed: None }), answers);
        } else {
            self.answer_again(request, Vec::new());
        }
        Ok(())
    }

    /// A push that has counted before.
    pub(super) fn answer_duplicate(&mut self, at: At, request: Meta) -> Result<(), StoreError> {
        let answer = self.held.answer_push(at, request)?;
        self.answer_when_safe(at, vec![answer]);
        Ok(())
    }

    fn answer_when_safe(&mut self, at: At, answers: Vec<Answer>) {
        let Ok(piece) = self.held.piece(at) else { return };
        let (part, version) = (piece.of_key(at.key), piece.version);
        let waits = self.waits(at);
        self.hold(part, waits.then_some(version), answers);
    }

    /// True if what was done to the piece last must not be answered yet.
    fn waits(&self, at: At) -> bool {
        self.held.piece(at).is_ok_and(|piece| piece.withholds(piece.version))
    }

    fn hold(&mut self, part: KeyPart, until: Option<u64>, answers: Vec<Answer>) {
        let KeyPart { key, from, to } = part;
        match until {
            Some(version) => {
                let waiting = self.known.waiting.entry(key).or_default();
                waiting.push(Waiting { from, to, version, answers });
            }
            None => answers.into_iter().for_each(|answer| self.deliver(key, answer)),
        }
    }
}
