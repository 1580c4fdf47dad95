//! What a store promises of itself, as code (`invariant`). Looks, and changes nothing.
//!
//! - **Pieces.** Those that are here, and those that left and are kept, are disjoint: an element is
//!   here once. A value is as long as its piece.
//! - **Replicas hear in order.** A replica has confirmed no version that the piece has not had, and
//!   a piece has two copies at two servers at most.
//! - **Every wait has its reason.** An answer waits for a copy, or for a piece that is not settled;
//!   a parked request for a piece or a policy; a round for a push; what is told early for commands.
//! - **Sums and sets** are what a walk over all finds.
//!
//! Whether what others say of places fits what is here is no promise of this server alone: only the
//! simulation, where all follow the rules, looks at it too.
//!
//! In a job whose pieces do not move there are only whole pieces and rounds. What is checked of one
//! key costs no more than its pieces and what waits for it.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::state::Store;
use crate::invariant::{Valid, debug};
use crate::values::key_at;
use crate::wire::Key;

impl Store {
    /// All that the store promises, and that what others say fits it: while all follow the rules,
    /// nobody is said to have a newer piece of what is here.
    ///
    /// # Errors
    /// The first promise that does not hold, with the numbers.
    pub fn validate(&self) -> Valid {
        self.validate_own()?;
        self.held.tensors.keys().try_for_each(|key| self.validate_routes(*key))
    }

    /// What it promises whatever others say.
    fn validate_own(&self) -> Valid {
        self.keys().into_iter().try_for_each(|key| self.validate_key(key))?;
        self.held.stalls.validate(self.held.pieces())?;
        self.known.validate()
    }

    /// A debug build looks at the keys that an entry touched.
    pub(super) fn look_at(&self, keys: impl IntoIterator<Item = Key>) {
        debug(|| keys.into_iter().try_for_each(|key| self.validate_key(key)));
    }

    /// A debug build looks at the key of a request; at both, if there are two in its frame.
    pub(super) fn look_at_request(&self, frames: &[Bytes]) {
        let keys = frames.first().map_or(&[][..], |keys| keys);
        self.look_at((0..2).filter_map(|index| key_at(keys, index)));
    }

    /// A debug build looks at what is known of commands.
    pub(super) fn look_at_commands(&self) {
        debug(|| self.known.validate_commands());
    }

    /// A debug build looks at all, after an entry that went over all keys.
    pub(super) fn look_at_all(&self) {
        debug(|| self.validate_own());
    }

    /// All keys of which anything is known.
    fn keys(&self) -> BTreeSet<Key> {
        self.held.tensors.keys().copied().chain(self.known.keys()).collect()
    }

    /// What the store promises of one key.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn validate_key(&self, key: Key) -> Valid {
        let named = |broken: String| format!("key {key}: {broken}");
        self.held.validate_key(key).map_err(named)?;
        self.whereabouts().validate_key(key).map_err(named)
    }

    /// Nobody is said to have a newer piece of what is here.
    ///
    /// # Errors
    /// The first route that says so.
    pub fn validate_routes(&self, key: Key) -> Valid {
        self.whereabouts().validate_routes(key).map_err(|broken| format!("key {key}: {broken}"))
    }
}
