//! The pushes by which workers made a key of an application that keeps nothing between rounds
//! (BytePS: its buffer, of which length and type, and its compressor). Given again to another
//! server's handler they make it there. Pure.
//!
//! Which ones these are shows only later: all that a customer pushed before its first pull, but for
//! the last of them, if there were several: with that its first round began.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::visitors::{Customer, who};
use crate::store::error::StoreError;
use crate::wire::transfer::FirstPush;
use crate::wire::{Key, Meta};

/// First pushes of one customer that are kept. One that pushes more often before it pulls has no
/// rounds, and its key does not move.
const OF_A_CUSTOMER_MAX: usize = 8;
/// First pushes of one key.
const OF_A_KEY_MAX: usize = 1 << 16;
/// Data frames of one push: keys, values, lens.
const FRAMES_MAX: u32 = 3;

/// One of them.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) push: FirstPush,
    pub(super) frames: Vec<Bytes>,
}

impl Kept {
    pub(super) const fn who(&self) -> Customer {
        (self.push.worker, self.push.customer)
    }
}

/// Those of one key, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(super) struct FirstPushes {
    all: Vec<Kept>,
    /// Customers that have pulled: theirs are known.
    pulled: BTreeSet<Customer>,
    /// Some were not kept.
    incomplete: bool,
}

impl FirstPushes {
    /// A request is given to the application. `new`: the first one of that customer.
    pub(super) fn note(&mut self, request: &Meta, frames: &[Bytes], new: bool) {
        let customer = who(request);
        if new {
            self.all.retain(|kept| kept.who() != customer);
            self.pulled.remove(&customer);
        }
        if self.pulled.contains(&customer) {
            return;
        }
        if request.push {
            self.keep(request, frames);
        }
        if request.pull && !(new && request.push) {
            self.pulled.insert(customer);
            let own = self.all.iter().filter(|kept| kept.who() == customer).count();
            let last = self.all.iter().rposition(|kept| kept.who() == customer);
            if let Some(last) = last.filter(|_| own > 1) {
                self.all.remove(last);
            }
        }
    }

    fn keep(&mut self, request: &Meta, frames: &[Bytes]) {
        let own = self.all.iter().filter(|kept| kept.who() == who(request)).count();
        if own >= OF_A_CUSTOMER_MAX || self.all.len() >= OF_A_KEY_MAX {
            self.incomplete = true;
            return;
        }
        let push = FirstPush {
            worker: request.sender,
            customer: request.customer_id,
            head: request.head,
            pull: request.pull,
            frames: frames.len() as u32,
        };
        let frames = frames.iter().map(|frame| self.copy(frame)).collect();
        self.all.push(Kept { push, frames });
    }

    /// What came may lie in memory that its sender wants back. Workers often push the same: that is
    /// kept once.
    fn copy(&self, frame: &Bytes) -> Bytes {
        let same = self.all.iter().flat_map(|kept| &kept.frames).find(|kept| *kept == frame);
        same.cloned().unwrap_or_else(|| Bytes::copy_from_slice(frame))
    }

    /// True if the key can be made from them elsewhere.
    pub(super) const fn are_complete(&self) -> bool {
        !self.incomplete
    }

    /// All of them.
    pub(super) fn all(&self) -> &[Kept] {
        &self.all
    }

    /// The customers that made the key.
    pub(super) fn customers(&self) -> BTreeSet<Customer> {
        self.all.iter().map(Kept::who).collect()
    }

    /// What a transfer brings. `frames`: behind that of the key.
    pub(super) fn read(
        pushes: &[FirstPush],
        key: Key,
        mut frames: &[Bytes],
    ) -> Result<Self, StoreError> {
        let malformed = StoreError::Transfer;
        if pushes.len() > OF_A_KEY_MAX {
            return Err(malformed("it has too many first pushes"));
        }
        let mut all = Vec::with_capacity(pushes.len());
        for push in pushes {
            if !(1..=FRAMES_MAX).contains(&push.frames) || frames.len() < push.frames as usize {
                return Err(malformed("the frames of a first push are missing"));
            }
            let (own, rest) = frames.split_at(push.frames as usize);
            if own[0][..] != key.to_ne_bytes() {
                return Err(malformed("a first push is of another key"));
            }
            all.push(Kept { push: *push, frames: own.to_vec() });
            frames = rest;
        }
        if !frames.is_empty() {
            return Err(malformed("it has frames too many"));
        }
        Ok(Self { all, ..Self::default() })
    }
}
