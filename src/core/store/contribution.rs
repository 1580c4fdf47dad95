//! What a round takes at once: a sum, the names of the pushes in it, and where the answer goes.
//! Pure.
//!
//! A worker's push is a contribution with one name. A contribution with several names counts for
//! all of them or for none: what is in a sum cannot be taken out of it again.

use super::error::StoreError;
use super::name::{Customer, Name};
use crate::store::Addend;
use crate::wire::{Meta, NodeId};

/// Names of one contribution; more are refused.
pub(super) const NAMES_MAX: usize = 1 << 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Contribution {
    /// The sum of what these pushes bring; of one push, what it brings.
    pub(super) sum: Addend,
    pub(super) pushes: Pushes,
}

impl Contribution {
    /// What a worker pushes itself.
    pub(super) const fn of(push: Meta, addend: Addend) -> Self {
        Self { sum: addend, pushes: Pushes::One(push) }
    }
}

/// The pushes of a contribution, and the request that awaits its answer. An open round keeps this
/// of each one, so it is no larger than the request.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation for each push")]
pub(super) enum Pushes {
    /// The request is the push.
    One(Meta),
    /// The request hands in a sum.
    Several(Box<Several>),
}

/// See [`Pushes::Several`].
#[derive(Debug)]
pub(super) struct Several {
    request: Meta,
    /// In the order of their customers, of each one.
    names: Vec<Name>,
}

impl Pushes {
    /// A request that hands in a sum of these pushes.
    ///
    /// # Errors
    /// They are none, too many, or two of one customer.
    #[cfg_attr(not(test), expect(dead_code, reason = "no node sums for others yet"))]
    pub(super) fn several(request: Meta, mut names: Vec<Name>) -> Result<Self, StoreError> {
        names.sort_unstable_by_key(|name| name.who);
        let twice = names.windows(2).any(|pair| pair[0].who == pair[1].who);
        if names.is_empty() || names.len() > NAMES_MAX || twice {
            return Err(StoreError::Malformed(
                "the names of a sum are none, too many, or repeated",
            ));
        }
        Ok(Self::Several(Box::new(Several { request, names })))
    }

    /// The request that awaits the answer.
    pub(super) fn request(&self) -> &Meta {
        match self {
            Self::One(push) => push,
            Self::Several(several) => &several.request,
        }
    }

    /// The same, when the contribution is over.
    pub(super) fn into_request(self) -> Meta {
        match self {
            Self::One(push) => push,
            Self::Several(several) => several.request,
        }
    }

    /// The names of the pushes.
    pub(super) fn names(&self) -> impl Iterator<Item = Name> + '_ {
        let (one, several) = match self {
            Self::One(push) => (Some(Name::of(push)), &[][..]),
            Self::Several(several) => (None, &several.names[..]),
        };
        one.into_iter().chain(several.iter().copied())
    }

    /// Whose pushes they are.
    pub(super) fn customers(&self) -> impl Iterator<Item = Customer> + '_ {
        self.names().map(|name| name.who)
    }

    /// How many pushes they are.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Several(several) => several.names.len(),
        }
    }

    /// The worker by which sums are ordered; of several the first one.
    pub(super) fn first_worker(&self) -> NodeId {
        self.customers().next().map_or(0, |who| who.worker)
    }
}

#[cfg(test)]
#[path = "contribution_tests.rs"]
mod tests;
