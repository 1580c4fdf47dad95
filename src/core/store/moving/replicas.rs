//! What an owner sends to its replica, and what waits for it (docs/elastic.md, "Replicas"). May
//! touch what the store may.

use bytes::Bytes;

use super::kept::{Leaving, Waiting};
use super::state::Elastic;
use super::tickets::Pushed;
use super::travel::key_frame;
use crate::store::error::StoreError;
use crate::store::outbound::{Answer, Outbound, Outgoing, done};
use crate::store::pieces::name::Name;
use crate::store::pieces::tensor::{Copied, Piece};
use crate::store::state::{At, Store};
use crate::values::{Dtype, KeyPart};
use crate::wire::elastic::Mark;
use crate::wire::transfer::{PieceName, RoundSum, Transfer};
use crate::wire::{Key, Meta, NodeId};

/// The sum of a round, as the replica gets it.
pub(in crate::store) struct Shipped {
    pub(in crate::store) dtype: Dtype,
    pub(in crate::store) rows: Vec<i64>,
    /// `None`: nothing is applied, and pushes count.
    pub(in crate::store) values: Option<Bytes>,
}

/// What the end of a round brings.
pub(in crate::store) struct RoundDone {
    /// The pushes that count now.
    pub(in crate::store) marks: Vec<Mark>,
    pub(in crate::store) answers: Vec<Answer>,
    /// What the replica gets, if there is one.
    pub(in crate::store) shipped: Option<Shipped>,
    /// Whose pushes it had, if the next round may go by a tree.
    pub(in crate::store) pushed: Option<Pushed>,
}

impl Elastic {
    /// The one that the policy names; else the next live server by id, cyclic, where the one that
    /// was chosen stays. Never one that is being emptied.
    pub(super) fn choose_replica(&mut self) {
        let able = |server: &&NodeId| {
            self.replicas > 0 && **server != self.me && !self.draining.contains(*server)
        };
        let mut servers = self.servers.iter().filter(able);
        let is_able = |server: &NodeId| servers.clone().any(|able| able == server);
        if let Some(named) = self.named_replica.filter(is_able) {
            self.replica = Some(named);
            return;
        }
        if self.replica.as_ref().is_some_and(is_able) {
            return;
        }
        let next = servers.clone().find(|server| **server > self.me);
        self.replica = next.or_else(|| servers.next()).copied();
    }

    /// True if the copy of a piece is at a server that stays, so that it need not go to another one
    /// before there is a new version of it.
    pub(super) fn has_time(&self, piece: &Piece) -> bool {
        let stays = |server| self.servers.contains(&server) && !self.draining.contains(&server);
        self.replica.is_some() && piece.copied.at().is_some_and(stays)
    }
}

impl Store {
    /// True if a replica gets what is done to this piece.
    pub(in crate::store) fn is_copied(&self, at: At) -> bool {
        self.elastic.is_some() && self.piece(at).is_ok_and(|piece| piece.copied != Copied::Not)
    }

    /// A push made a key.
    pub(in crate::store) fn made(&mut self, at: At, answer: Answer, out: &mut Outbound) {
        let Some(elastic) = &mut self.elastic else {
            out.answers.push(answer);
            return;
        };
        elastic.changes.of(at.key);
        let term = (elastic.epoch << 32) + 1;
        if let Ok(piece) = self.piece_mut(at) {
            piece.term = term;
            piece.marks.add(Name::of(&answer.request).mark().as_slice());
        }
        self.seed(at, out);
        self.answer_when_safe(at, vec![answer], out);
    }

    /// A round was applied: the pushes of these marks count. False if the piece was cut or has left
    /// with it.
    pub(in crate::store) fn round_done(
        &mut self,
        at: At,
        RoundDone { marks, answers, shipped, pushed }: RoundDone,
        out: &mut Outbound,
    ) -> bool {
        let Ok(piece) = self.piece_mut(at) else { return false };
        piece.marks.add(&marks);
        let (part, version) = (piece.of_key(at.key), piece.version);
        if version == 1
            && let Some(elastic) = &mut self.elastic
        {
            // From now on it can be cut, and there is a state.
            elastic.changes.of(at.key);
        }
        match shipped {
            // What it is by now goes to the new one, in the place of the round that went to the
            // former one.
            Some(_) if self.has_new_replica(at) => _ = self.seed(at, out),
            Some(shipped) => self.ship(at, marks, shipped, out),
            None => {}
        }
        let waits = self.waits(at);
        self.end_ticket(at);
        let stays = !self.carry_out(at, out);
        self.give_tickets(part, pushed.as_ref());
        self.hold(part, waits.then_some(version), answers, out);
        stays
    }

    /// A push without rows, in `dist_async`: nothing is applied, and it counts all the same, since
    /// the next one names it.
    pub(in crate::store) fn push_nothing(
        &mut self,
        at: At,
        request: Meta,
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        let (piece, name) = (self.piece(at)?, Name::of(&request));
        if request.placed.is_none() {
            out.answers.push(done(request));
        } else if piece.marks.count(&name) {
            self.answer_duplicate(at, request, out)?;
        } else if piece.is_next(&name) {
            let dtype = piece.dtype;
            let answer = self.answer_push(at, request)?;
            let nothing = Shipped { dtype, rows: Vec::new(), values: None };
            let shipped = self.is_copied(at).then_some(nothing);
            self.piece_mut(at)?.version += 1;
            let (marks, answers) = (name.mark().into_iter().collect(), vec![answer]);
            self.round_done(at, RoundDone { marks, answers, shipped, pushed: None }, out);
        } else {
            self.answer_again(request, Vec::new(), out);
        }
        Ok(())
    }

    /// A round could not be applied: nothing has changed. False as above.
    pub(in crate::store) fn round_failed(
        &mut self,
        at: At,
        answers: Vec<Answer>,
        out: &mut Outbound,
    ) -> bool {
        // It was for this attempt.
        self.end_ticket(at);
        let stays = !self.carry_out(at, out);
        for answer in answers {
            self.deliver(at.key, answer, out);
        }
        stays
    }

    /// A push that has counted before.
    pub(in crate::store) fn answer_duplicate(
        &mut self,
        at: At,
        request: Meta,
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        let answer = self.answer_push(at, request)?;
        self.answer_when_safe(at, vec![answer], out);
        Ok(())
    }

    fn answer_when_safe(&mut self, at: At, answers: Vec<Answer>, out: &mut Outbound) {
        let Ok(piece) = self.piece(at) else { return };
        let (part, version) = (piece.of_key(at.key), piece.version);
        let waits = self.waits(at);
        self.hold(part, waits.then_some(version), answers, out);
    }

    /// True if what was done to the piece last must not be answered yet.
    fn waits(&self, at: At) -> bool {
        self.elastic.is_some() && self.piece(at).is_ok_and(|piece| piece.withholds(piece.version))
    }

    fn hold(
        &mut self,
        part: KeyPart,
        until: Option<u64>,
        answers: Vec<Answer>,
        out: &mut Outbound,
    ) {
        let KeyPart { key, from, to } = part;
        match (until, &mut self.elastic) {
            (Some(version), Some(elastic)) => {
                let waiting = elastic.waiting.entry(key).or_default();
                waiting.push(Waiting { from, to, version, answers });
            }
            _ => answers.into_iter().for_each(|answer| self.deliver(key, answer, out)),
        }
    }

    /// Sends the answers about a key that need not wait any more. `is_safe` is given the pieces
    /// that are here of what was waited for.
    pub(super) fn release(
        &mut self,
        key: Key,
        is_safe: impl Fn(&[&Piece], &Waiting) -> bool,
        out: &mut Outbound,
    ) {
        let Some(elastic) = &mut self.elastic else { return };
        let Some(waiting) = elastic.waiting.remove(&key) else { return };
        let pieces = self.tensors.get(&key).map(|tensor| &tensor.pieces[..]).unwrap_or(&[]);
        let (safe, rest): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|waiting| {
            let here = |piece: &&Piece| piece.from < waiting.to && waiting.from < piece.to;
            is_safe(&pieces.iter().filter(here).collect::<Vec<_>>(), waiting)
        });
        if !rest.is_empty() {
            elastic.waiting.insert(key, rest);
        }
        if safe.iter().any(|waiting| waiting.version == 0) {
            elastic.changes.of(key); // It is claimed now that its first push is answered.
        }
        for answer in safe.into_iter().flat_map(|waiting| waiting.answers) {
            self.deliver(key, answer, out);
        }
    }

    /// Sends the answers about a key for which nothing is to be waited any more. What has left and
    /// is copied waits for that copy: it would count if this server died.
    pub(super) fn release_settled(&mut self, key: Key, out: &mut Outbound) {
        let Some(elastic) = &self.elastic else { return };
        let leaving = elastic.leaving.get(&key).into_iter().flatten();
        let copied = leaving.filter(|leaving| leaving.copy.is_some());
        let left: Vec<PieceName> = copied.map(Leaving::piece).collect();
        let is_safe = |pieces: &[&Piece], waiting: &Waiting| {
            !pieces.iter().any(|piece| piece.withholds(waiting.version))
                && !left.iter().any(|left| left.from < waiting.to && waiting.from < left.to)
        };
        self.release(key, is_safe, out);
    }

    /// Sends the whole piece to the replica, if there is one. A copy that is elsewhere gets no more
    /// rounds; it is forgotten once this one is confirmed.
    pub(super) fn seed(&mut self, at: At, out: &mut Outbound) -> usize {
        let Some(replica) = self.elastic.as_ref().and_then(|elastic| elastic.replica) else {
            return 0;
        };
        let length = self.tensors.get(&at.key).map_or(0, |tensor| tensor.length);
        let Ok(piece) = self.piece(at) else { return 0 };
        let (seed, frames) = self.write_piece(at.key, length, piece);
        if let Ok(piece) = self.piece_mut(at) {
            // A former copy at that very server is overwritten.
            piece.former_copy = piece.former(false).filter(|former| former.at != replica);
            piece.copied = Copied::Sent { to: replica, since: piece.term, confirmed: None };
        }
        let bytes = frames.iter().map(Bytes::len).sum();
        self.send(replica, Transfer::Seed(seed), frames, out);
        bytes
    }

    /// True if its copy is at another server than it should be, and may go on to that one.
    fn has_new_replica(&self, at: At) -> bool {
        let replica = self.elastic.as_ref().and_then(|elastic| elastic.replica);
        let moves = |piece: &Piece| {
            piece.copied.at().is_some_and(|former| replica.is_some_and(|new| new != former))
                && piece.former_copy.is_none()
        };
        self.piece(at).is_ok_and(moves)
    }

    fn ship(&mut self, at: At, marks: Vec<Mark>, shipped: Shipped, out: &mut Outbound) {
        let Ok(piece) = self.piece(at) else { return };
        let Some(replica) = piece.copied.at() else { return };
        let sum = RoundSum {
            piece: piece.name(at.key),
            version: piece.version,
            dtype: shipped.dtype as i32,
            marks,
            rows: shipped.rows,
            generation: self.generation(at.key),
        };
        let frames = std::iter::once(key_frame(at.key)).chain(shipped.values).collect();
        self.send(replica, Transfer::Round(sum), frames, out);
    }

    /// Sends a transfer, and before it what it needs of the commands of workers. Nothing goes to
    /// who is gone.
    pub(super) fn send(
        &mut self,
        to: NodeId,
        transfer: Transfer,
        frames: Vec<Bytes>,
        out: &mut Outbound,
    ) {
        if self.elastic.as_ref().is_none_or(|elastic| elastic.is_gone(to)) {
            return;
        }
        self.tell(to, out);
        out.transfers.push(Outgoing { to, transfer, frames });
    }

    /// A replica has all up to a version.
    pub(super) fn confirmed(
        &mut self,
        replica: NodeId,
        &PieceName { key, from, to, term }: &PieceName,
        version: u64,
        out: &mut Outbound,
    ) {
        let Some(elastic) = &mut self.elastic else { return };
        elastic.seeds.arrived(KeyPart { key, from, to });
        let mut news = false;
        let mut old = Vec::new();
        let mut others = Vec::new();
        let tensor = self.tensors.get_mut(&key).into_iter();
        let here = |piece: &&mut Piece| piece.from < to && from < piece.to;
        for piece in tensor.flat_map(|tensor| &mut tensor.pieces).filter(here) {
            let was_safe = piece.is_safe();
            let inside = from <= piece.from && piece.to <= to;
            if !inside || !piece.confirm(replica, term, version) {
                others.push(piece.from);
                continue;
            }
            news |= piece.is_safe() && !was_safe;
            if let Some(former) = piece.former_copy.as_mut()
                && former.at != replica
                && !std::mem::replace(&mut former.dropped, true)
            {
                old.push((former.at, piece.name(key)));
            }
        }
        if news {
            elastic.changes.of(key);
        }
        for (former, dropped) in old {
            self.send(former, Transfer::Drop(dropped), Vec::new(), out);
        }
        let is_safe = |pieces: &[&Piece], waiting: &Waiting| {
            from <= waiting.from
                && waiting.to <= to
                && waiting.version <= version
                && !pieces.iter().any(|piece| {
                    others.contains(&piece.from) || piece.has_older_copy(waiting.version)
                })
        };
        self.release(key, is_safe, out);
        if news {
            self.settle(key, out);
            // What waited for a copy that is gone: parts of it may have come back since.
            self.release_settled(key, out);
        }
        self.send_seeds(out);
    }
}
