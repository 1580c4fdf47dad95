//! Names of pushes, as messages along a tree carry them. Pure.

use crate::wire::Meta;
use crate::wire::trees::PushName;

/// The name of a worker's own push.
#[must_use]
pub fn name_of(push: &Meta) -> PushName {
    let placed = push.placed.as_ref();
    PushName {
        worker: push.sender,
        customer: push.customer_id,
        life: placed.map_or(0, |placed| placed.life),
        timestamp: push.timestamp,
        after: placed.map_or(0, |placed| placed.after),
        slice: placed.map_or(0, |placed| placed.slice),
        wants: push.pull || placed.is_some_and(|placed| placed.ahead),
    }
}

/// True if a name is that of a worker's own push.
#[must_use]
pub fn is_of(name: &PushName, push: &Meta) -> bool {
    let own = name_of(push);
    let told =
        |name: &PushName| (name.worker, name.customer, name.life, name.timestamp, name.slice);
    told(name) == told(&own)
}
