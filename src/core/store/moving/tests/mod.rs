//! One store, or some, to which a test gives what other nodes would send. Whole jobs, whatever
//! moves, dies, comes and goes in them, are played in the simulator (`sim/jobs`).

mod commands;
mod copies;
mod malformed;
mod promises;
mod workers;

use crate::store::pickled_tests::pickled;
use crate::store::{PART_BYTES, Store, StoreConfig, SumOrder};
use crate::wire::NodeId;

const MOMENTUM: &[(&str, &str)] =
    &[("momentum", "F0.9\n"), ("lazy_update", "I01\n"), ("lr", "F0.1\n"), ("wd", "F0.01\n")];
const ADAM: &[(&str, &str)] = &[
    ("beta1", "F0.9\n"),
    ("beta2", "F0.999\n"),
    ("epsilon", "F1e-08\n"),
    ("lazy_update", "I01\n"),
    ("lr", "F0.1\n"),
];

/// A server's empty store, in a job that began with one worker and two servers.
fn store_of_two(id: NodeId) -> Store {
    let config = StoreConfig {
        workers: 1,
        servers: 2,
        id,
        order: SumOrder::Arrival,
        elastic: true,
        replicas: 1,
        part_bytes: PART_BYTES,
    };
    Store::new(config)
}
