//! What commands have set, for each key space apart: the kvstore of one customer may be
//! `dist_sync` and that of another `dist_async`, each with an optimizer of its own. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use pslite_optimizers::Optimizer;

use super::generations::Generations;
use crate::store::error::StoreError;
use crate::values::compression::Compression;
use crate::values::{Dtype, SHARED, Space};
use crate::wire::{Meta, NodeId};

/// Customers with keys of their own whose commands are kept; those of more are refused.
pub(in crate::store) const SPACES_MAX: usize = 1 << 16;

/// What the commands of one space have set.
#[derive(Debug, Default)]
pub(in crate::store) struct Mode {
    /// Workers exchange deltas: the policy has set all below, and no command does.
    pub(in crate::store) exchanges: bool,
    /// `dist_sync`: MXNet's server is asynchronous until it is told otherwise.
    pub(in crate::store) sync: bool,
    /// Values of other types than float32 have a float32 copy, which the optimizer works on.
    pub(in crate::store) multi_precision: bool,
    pub(in crate::store) compression: Compression,
    pub(in crate::store) optimizer: Option<Arc<Optimizer>>,
    pub(in crate::store) generations: Generations,
}

impl Mode {
    /// Values of that type have a float32 copy.
    pub(in crate::store) fn widens(&self, dtype: Dtype) -> bool {
        self.multi_precision || self.exchanges && dtype == Dtype::F16
    }

    /// That of a space whose rounds are applied by this rule, as generation 1.
    fn exchanging(outer: &Arc<Optimizer>) -> Self {
        let mut generations = Generations::default();
        generations.advance(1);
        generations.keep(Arc::clone(outer));
        Self {
            exchanges: true,
            sync: true,
            optimizer: Some(Arc::clone(outer)),
            generations,
            ..Self::default()
        }
    }
}

/// Those of all spaces.
#[derive(Debug, Default)]
pub(in crate::store) struct Modes {
    shared: Mode,
    further: BTreeMap<Space, Mode>,
    /// That of a space of which no command came yet.
    unset: Mode,
    /// The rule of all spaces, where workers exchange deltas.
    outer: Option<Arc<Optimizer>>,
}

impl Modes {
    /// That of a space.
    pub(in crate::store) fn of(&self, space: Space) -> &Mode {
        match space {
            SHARED => &self.shared,
            _ => self.further.get(&space).unwrap_or(&self.unset),
        }
    }

    /// The same, to be changed.
    ///
    /// # Errors
    /// There are too many spaces.
    pub(in crate::store) fn change(&mut self, space: Space) -> Result<&mut Mode, StoreError> {
        if space == SHARED {
            return Ok(&mut self.shared);
        }
        if self.further.len() >= SPACES_MAX && !self.further.contains_key(&space) {
            return Err(StoreError::Spaces(SPACES_MAX));
        }
        let outer = self.outer.as_ref();
        let begin = || outer.map_or_else(Mode::default, Mode::exchanging);
        Ok(self.further.entry(space).or_insert_with(begin))
    }

    /// The policy says that rounds of all spaces are applied by this rule.
    pub(in crate::store) fn exchange(&mut self, outer: &Arc<Optimizer>) {
        self.outer = Some(Arc::clone(outer));
        self.further.values_mut().for_each(|mode| *mode = Mode::exchanging(outer));
        (self.shared, self.unset) = (Mode::exchanging(outer), Mode::exchanging(outer));
    }

    /// True if some customer with keys of its own has commanded something.
    pub(in crate::store) fn has_further(&self) -> bool {
        !self.further.is_empty()
    }

    /// Somebody else has that id from now on.
    pub(in crate::store) fn forget(&mut self, node: NodeId) {
        for mode in self.further.values_mut().chain([&mut self.shared]) {
            mode.generations.forget(node);
        }
    }
}

/// The space that a request or command of a worker is about.
pub(in crate::store) fn space_of(request: &Meta) -> Space {
    match request.own_keys {
        true => Space::try_from(request.customer_id).unwrap_or(SHARED),
        false => SHARED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_space_has_its_own() {
        let mut modes = Modes::default();
        modes.change(1).unwrap().sync = true;
        assert!(modes.of(1).sync && !modes.of(SHARED).sync && !modes.of(2).sync);
        assert!(modes.has_further());
        modes.change(SHARED).unwrap().multi_precision = true;
        assert!(!modes.of(1).multi_precision && modes.of(SHARED).multi_precision);
    }

    #[test]
    fn there_are_not_more_than_may_be() {
        let mut modes = Modes::default();
        for space in 1..=SPACES_MAX {
            assert!(modes.change(space as Space).is_ok());
        }
        assert!(modes.change(u32::MAX).is_err());
        assert!(modes.change(1).is_ok() && modes.change(SHARED).is_ok());
    }

    #[test]
    fn a_request_says_whose_keys_it_means() {
        let request = |own_keys, customer_id| Meta { own_keys, customer_id, ..Meta::default() };
        assert_eq!(space_of(&request(false, 3)), SHARED);
        assert_eq!(space_of(&request(true, 3)), 3);
        assert_eq!(space_of(&request(true, -1)), SHARED);
    }
}
