//! Names of pushes, as messages along a tree carry them. Pure.

use crate::wire::Meta;
use crate::wire::trees::PushName;

/// The name of a worker's own push.
#[must_use]
pub fn name_of(push: &Meta) -> PushName {
    let ask = push.ask();
    PushName {
        worker: push.sender,
        customer: push.customer_id,
        life: ask.map_or(0, |ask| ask.life),
        timestamp: push.timestamp,
        after: ask.map_or(0, |ask| ask.after),
        slice: ask.map_or(0, |ask| ask.slice),
        wants: push.pull || ask.is_some_and(|ask| ask.ahead),
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
