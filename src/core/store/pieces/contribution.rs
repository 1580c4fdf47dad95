//! What a round takes at once: a sum, the names of the pushes in it, and where the answer goes.
//! Pure.
//!
//! A worker's push is a contribution with one name. A contribution with several names counts for
//! all of them or for none: what is in a sum cannot be taken out of it again.

use super::name::{Customer, Name};
use super::sums::Addend;
use crate::store::error::StoreError;
use crate::wire::trees::PushName;
use crate::wire::{Meta, NodeId};

/// Names of one contribution; more are refused.
pub(in crate::store) const NAMES_MAX: usize = 1 << 16;

/// See the module.
#[derive(Debug)]
pub(in crate::store) struct Contribution {
    /// The sum of what these pushes bring; of one push, what it brings.
    pub(in crate::store) sum: Addend,
    pub(in crate::store) pushes: Pushes,
}

impl Contribution {
    /// What a worker pushes itself.
    pub(in crate::store) const fn of(push: Meta, addend: Addend) -> Self {
        Self { sum: addend, pushes: Pushes::One(push) }
    }
}

/// The pushes of a contribution, and the request that awaits its answer. An open round keeps this
/// of each one, so it is no larger than the request.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation for each push")]
pub(in crate::store) enum Pushes {
    /// The request is the push.
    One(Meta),
    /// The request hands in the sum of the pushes that its `hop` names, in the order of their
    /// customers, of each one.
    Several(Box<Meta>),
}

impl Pushes {
    /// Those of a request that hands in a sum.
    ///
    /// # Errors
    /// They are none, too many, or two of one customer.
    pub(in crate::store) fn several(mut request: Meta) -> Result<Self, StoreError> {
        let names = request.hop_mut().map_or(&mut [][..], |hop| &mut hop.names[..]);
        names.sort_unstable_by_key(who);
        let twice = names.windows(2).any(|pair| who(&pair[0]) == who(&pair[1]));
        if names.is_empty() || names.len() > NAMES_MAX || twice {
            return Err(StoreError::Malformed(
                "the names of a sum are none, too many, or repeated",
            ));
        }
        Ok(Self::Several(Box::new(request)))
    }

    /// The request that awaits the answer.
    pub(in crate::store) fn request(&self) -> &Meta {
        match self {
            Self::One(push) => push,
            Self::Several(request) => request,
        }
    }

    /// The same, when the contribution is over.
    pub(in crate::store) fn into_request(self) -> Meta {
        match self {
            Self::One(push) => push,
            Self::Several(request) => *request,
        }
    }

    /// True if another sum has its answer with this one's: both came by one ticket.
    pub(in crate::store) fn goes_with(&self, other: &Self) -> bool {
        let (Self::Several(request), Self::Several(more)) = (self, other) else { return false };
        let ticket = |request: &Meta| request.hop().map(|hop| hop.ticket);
        ticket(request) == ticket(more)
    }

    /// Takes in the names of another sum that goes with this one, of other customers. Values come
    /// with the answer if one of both wants them.
    pub(in crate::store) fn join(&mut self, other: Self) {
        let (Self::Several(request), Self::Several(more)) = (self, other) else { return };
        let ahead = more.ask().is_some_and(|ask| ask.ahead);
        if let Some(ask) = request.ask_mut() {
            ask.ahead |= ahead;
        }
        if let (Some(hop), Some(more)) = (request.hop_mut(), more.hop()) {
            hop.names.extend(&more.names);
            hop.names.sort_unstable_by_key(who);
        }
    }

    /// The names of the pushes.
    pub(in crate::store) fn names(&self) -> impl Iterator<Item = Name> + '_ {
        let (one, several) = match self {
            Self::One(push) => (Some(Name::of(push)), &[][..]),
            Self::Several(request) => (None, request.hop().map_or(&[][..], |hop| &hop.names[..])),
        };
        one.into_iter().chain(several.iter().map(Name::in_sum))
    }

    /// Whose pushes they are.
    pub(in crate::store) fn customers(&self) -> impl Iterator<Item = Customer> + '_ {
        self.names().map(|name| name.who)
    }

    /// How many pushes they are.
    pub(in crate::store) fn count(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Several(request) => request.hop().map_or(0, |hop| hop.names.len()),
        }
    }

    /// The worker by which sums are ordered; of several the first one.
    pub(in crate::store) fn first_worker(&self) -> NodeId {
        self.customers().next().map_or(0, |who| who.worker)
    }
}

/// Whose push that is.
const fn who(name: &PushName) -> (NodeId, i32, u64) {
    (name.worker, name.customer, name.life)
}

#[cfg(test)]
#[path = "contribution_tests.rs"]
mod tests;
