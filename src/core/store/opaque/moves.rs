//! Opaque keys that leave and come (docs/elastic.md, "Applications with their own handler"). May
//! touch what the module may.

use std::time::Duration;

use bytes::Bytes;

use super::first_pushes::Kept;
use super::requests::route;
use super::travel::write;
use super::{Given, LeavingKey, Opaque, OrderedMove, Owned, Step};
use crate::store::Outgoing;
use crate::store::error::StoreError;
use crate::store::pieces::limits::TENSORS_MAX;
use crate::wire::elastic::{OPAQUE_END, Order};
use crate::wire::transfer::{OpaqueKey, PieceName, Transfer};
use crate::wire::{Key, Meta, NodeId};

/// Bytes of a reason that another server gives.
const REASON_MAX: usize = 1 << 12;

impl Opaque {
    /// The scheduler orders moves. They begin when nothing of the key is under way; those that
    /// nobody can follow are forgotten. An order that names this server takes an earlier one back.
    pub fn orders(&mut self, now: Duration, orders: &[Order], steps: &mut Vec<Step>) {
        for order in orders {
            let (key, to) = (order.key, order.owner);
            let possible = self.servers.has(to);
            let whole = (order.from, order.to) == (0, OPAQUE_END);
            let Some(owned) = self.keys.get_mut(&key) else { continue };
            if to == self.servers.me {
                self.take_back_order(now, key, steps);
            } else if possible && whole && owned.first.are_complete() {
                let since = owned.order.map_or(now, |order| order.since);
                owned.order = Some(OrderedMove { to, since });
                self.ordered.insert(key);
            }
        }
        self.advance(now, steps);
        self.look_at(orders.iter().map(|order| order.key));
    }

    fn take_back_order(&mut self, now: Duration, key: Key, steps: &mut Vec<Step>) {
        if let Some(owned) = self.keys.get_mut(&key)
            && !owned.exporting
        {
            owned.order = None;
            self.ordered.remove(&key);
            self.let_through(now, key, steps);
        }
    }

    /// True if nothing of a key is under way: the application has answered all that it was given;
    /// and if it keeps nothing between rounds, all have got what they pushed for. (That it was sent
    /// is not enough: a worker may hear first that this server is released, and would ask the new
    /// owner, who has not got it.)
    pub(super) fn may_leave(&self, key: Key) -> bool {
        self.keys.get(&key).is_some_and(|owned| {
            owned.open == 0
                && !owned.exporting
                && owned.source.is_none()
                && (!self.config.stateless || owned.visitors.are_between_rounds())
        })
    }

    /// Begins the moves that can begin now, and lets through what was held for too long.
    pub fn advance(&mut self, now: Duration, steps: &mut Vec<Step>) {
        let keys: Vec<Key> = self.ordered.iter().copied().collect();
        for &key in &keys {
            if !self.may_leave(key) {
                self.let_through(now, key, steps);
                continue;
            }
            if self.config.stateless {
                self.leave(key, None, steps);
            } else if let Some(owned) = self.keys.get_mut(&key) {
                owned.exporting = true;
                steps.push(Step::Export(key));
            }
        }
        self.look_at(keys);
    }

    /// The application has said what it keeps of a key, or why it cannot.
    pub fn exported(
        &mut self,
        now: Duration,
        key: Key,
        state: Result<Bytes, String>,
        steps: &mut Vec<Step>,
    ) {
        self.take_export(now, key, state, steps);
        self.look_at([key]);
    }

    fn take_export(
        &mut self,
        now: Duration,
        key: Key,
        state: Result<Bytes, String>,
        steps: &mut Vec<Step>,
    ) {
        let Some(owned) = self.keys.get_mut(&key).filter(|owned| owned.exporting) else { return };
        owned.exporting = false;
        match state {
            // A policy may have come meanwhile, with which the order was forgotten.
            Ok(state) if owned.order.is_some() => self.leave(key, Some(state), steps),
            Ok(_) => self.let_through(now, key, steps),
            Err(why) => {
                let name = self.view.name_of_handler(key);
                let text = format!("key {name} does not move: the application's handler: {why}");
                steps.push(Step::Warn(text));
                self.take_back_order(now, key, steps);
            }
        }
    }

    /// Sends a key to its new owner. Who has asked meanwhile shall ask there.
    fn leave(&mut self, key: Key, state: Option<Bytes>, steps: &mut Vec<Step>) {
        self.ordered.remove(&key);
        let order = self.keys.get_mut(&key).and_then(|owned| owned.order.take());
        let Some(OrderedMove { to, .. }) = order else { return };
        let Some(owned) = self.keys.remove(&key) else { return };
        let (opaque, frames) = write(key, &owned, state);
        let route = route(opaque.piece.term, to);
        self.learn(key, route);
        self.changes.of(key);
        self.leaving.insert(key, LeavingKey { to, owned });
        let transfer = Transfer::MoveOpaque(opaque);
        steps.push(Step::Transfer(Outgoing { to, transfer, frames }));
        for (request, _) in self.held.take(key) {
            self.again(request, vec![route], steps);
        }
    }

    /// What another server sent. Of one that is gone nothing counts.
    ///
    /// # Errors
    /// It is malformed, or cannot be: the two servers do not agree any more, and the job cannot go
    /// on.
    pub fn transfer(
        &mut self,
        now: Duration,
        from: NodeId,
        transfer: &Transfer,
        frames: &[Bytes],
        steps: &mut Vec<Step>,
    ) -> Result<(), StoreError> {
        if self.servers.is_gone(from) {
            return Ok(());
        }
        match transfer {
            Transfer::MoveOpaque(opaque) => self.take_move(now, from, opaque, frames, steps)?,
            Transfer::Moved(piece) => self.take_moved(from, piece, steps),
            Transfer::Refused(piece) => self.take_refused(now, from, piece, frames, steps),
            // Servers with a store of ours tell those that join what workers commanded.
            Transfer::Command(_) | Transfer::OptimizerCount(_) | Transfer::CommandsEnd(_) => {}
            _ => {
                return Err(StoreError::Transfer("an application's handler keeps the values here"));
            }
        }
        self.look_at(transfer.piece().map(|piece| piece.key));
        Ok(())
    }

    fn take_move(
        &mut self,
        now: Duration,
        from: NodeId,
        opaque: &OpaqueKey,
        frames: &[Bytes],
        steps: &mut Vec<Step>,
    ) -> Result<(), StoreError> {
        let key = opaque.piece.key;
        let (owned, state) = self.read(opaque, frames)?;
        if self.keys.contains_key(&key) || self.arriving.contains_key(&key) {
            return Err(StoreError::Transfer("this server owns the key already"));
        }
        if self.keys.len() >= TENSORS_MAX {
            return Err(StoreError::Full(TENSORS_MAX));
        }
        // It left here, came there, and is back before this server heard of that.
        if let Some(LeavingKey { owned, .. }) = self.leaving.remove(&key) {
            self.forget(key, &owned, steps);
        }
        let owned = Owned { source: Some(from), ..owned };
        match state {
            Some(state) => {
                self.arriving.insert(key, owned);
                steps.push(Step::Import(key, state));
            }
            None => {
                self.make_anew(key, owned, steps);
                self.arrived(now, key, steps);
            }
        }
        Ok(())
    }

    /// Makes a key by its first pushes: those that the application has not had already.
    fn make_anew(&mut self, key: Key, mut owned: Owned, steps: &mut Vec<Step>) {
        let remains = self.remains.remove(&key).unwrap_or_default();
        let all: Vec<Kept> = owned.first.all().to_vec();
        for kept in all.into_iter().filter(|kept| !remains.contains(&kept.who())) {
            let number = self.number();
            owned.open += 1;
            let (who, pull) = (kept.who(), false);
            self.given.insert(number, Given { key, request: None, who, pushes: 0, pull });
            let meta = Meta {
                head: kept.push.head,
                app_id: self.config.app_id,
                customer_id: kept.push.customer,
                sender: kept.push.worker,
                recver: self.servers.me,
                timestamp: number,
                request: true,
                push: true,
                pull: kept.push.pull,
                ..Meta::default()
            };
            steps.push(Step::Give(meta, kept.frames));
        }
        self.keys.insert(key, owned);
    }

    /// The application has taken the state of a key, or says why it cannot.
    pub fn imported(
        &mut self,
        now: Duration,
        key: Key,
        taken: Result<(), String>,
        steps: &mut Vec<Step>,
    ) {
        self.take_import(now, key, taken, steps);
        self.look_at([key]);
    }

    fn take_import(
        &mut self,
        now: Duration,
        key: Key,
        taken: Result<(), String>,
        steps: &mut Vec<Step>,
    ) {
        let Some(owned) = self.arriving.remove(&key) else { return };
        let Err(why) = taken else {
            self.keys.insert(key, owned);
            return self.arrived(now, key, steps);
        };
        let name = self.view.name_of_handler(key);
        let text = format!("key {name} does not come here: the application's handler: {why}");
        steps.push(Step::Warn(text));
        let Some(to) = owned.source else { return };
        let transfer = Transfer::Refused(PieceName::opaque(key, owned.term));
        let end = why.len().min(REASON_MAX);
        let frames = vec![Bytes::copy_from_slice(&why.as_bytes()[..end])];
        steps.push(Step::Transfer(Outgoing { to, transfer, frames }));
        // Its owner goes on with it under the next term.
        self.learn(key, route(owned.term + 1, to));
        self.unpark(now, key, steps);
    }

    fn arrived(&mut self, now: Duration, key: Key, steps: &mut Vec<Step>) {
        self.changes.of(key);
        self.say_moved(key, steps);
        self.unpark(now, key, steps);
    }

    /// Tells the former owner that a key is here. Between claims and policy it is not told: it must
    /// still claim what this server's claims may not have had.
    pub(super) fn say_moved(&mut self, key: Key, steps: &mut Vec<Step>) {
        if self.servers.collecting.is_some() {
            return;
        }
        if let Some(owned) = self.keys.get_mut(&key)
            && let Some(to) = owned.source.take()
        {
            let transfer = Transfer::Moved(PieceName::opaque(key, owned.term));
            steps.push(Step::Transfer(Outgoing { to, transfer, frames: Vec::new() }));
        }
    }

    /// What left is where it went, or was refused there.
    fn no_longer_leaving(&mut self, from: NodeId, piece: &PieceName) -> Option<Owned> {
        let leaving = self.leaving.get(&piece.key)?;
        if leaving.to != from || leaving.owned.term + 1 != piece.term {
            return None;
        }
        self.changes.of(piece.key);
        self.leaving.remove(&piece.key).map(|leaving| leaving.owned)
    }

    fn take_moved(&mut self, from: NodeId, piece: &PieceName, steps: &mut Vec<Step>) {
        if let Some(owned) = self.no_longer_leaving(from, piece) {
            self.forget(piece.key, &owned, steps);
        }
    }

    /// The application needs a key no more.
    fn forget(&mut self, key: Key, owned: &Owned, steps: &mut Vec<Step>) {
        if self.config.forgets {
            steps.push(Step::Forget(key));
        } else {
            self.remains.insert(key, owned.first.customers());
        }
    }

    fn take_refused(
        &mut self,
        now: Duration,
        from: NodeId,
        piece: &PieceName,
        frames: &[Bytes],
        steps: &mut Vec<Step>,
    ) {
        let Some(owned) = self.no_longer_leaving(from, piece) else { return };
        let why = frames.first().map(|why| String::from_utf8_lossy(why));
        let (key, why) = (piece.key, why.unwrap_or_default());
        let name = self.view.name_of_handler(key);
        steps.push(Step::Warn(format!("key {name} stays: server {from} cannot take it: {why}")));
        self.keep(now, key, Owned { term: piece.term + 1, ..owned }, steps);
    }

    /// A key that had left is this server's again: the application still has it.
    pub(super) fn keep(&mut self, now: Duration, key: Key, owned: Owned, steps: &mut Vec<Step>) {
        self.learn(key, route(owned.term, self.servers.me));
        self.keys.insert(key, Owned { exporting: false, order: None, ..owned });
        self.changes.of(key);
        self.unpark(now, key, steps);
    }
}
