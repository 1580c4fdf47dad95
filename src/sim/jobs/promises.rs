//! Looks, after each step, whether the machines of who was given something keep what they promise
//! of themselves (`pslite_core::invariant`): the membership, a server's store, a worker's requests.
//!
//! A state of up to [`ITEMS_EACH_STEP`] keys, requests in flight or members is looked at as a whole
//! each time; a larger one every [`EVERY`] steps. (Between those looks a store of many keys is
//! looked at key by key, where a message is about some: `server`.)

use super::nodes::JobApp;
use super::requests::CustomerRequests;
use super::server::ITEMS_EACH_STEP;
use crate::node::Node;
use pslite_core::invariant::Valid;
use pslite_core::store::Claimant;

/// What has more is checked after one step in so many.
const EVERY: u64 = 1024;

/// Something happened to that node, in that step of the job. `rarely`: any state is looked at only
/// as often as a large one.
///
/// # Errors
/// The first promise that does not hold, with the numbers.
pub(super) fn check(node: &Node<JobApp>, step: u64, rarely: bool) -> Valid {
    let is_due = |size: usize| !rarely && size <= ITEMS_EACH_STEP || step.is_multiple_of(EVERY);
    let cluster = node.cluster();
    if is_due(cluster.members().len().max(cluster.pieces().len())) {
        cluster.validate()?;
    }
    match node.app() {
        JobApp::Scheduler(_) => Ok(()),
        JobApp::Server(server) => match server.store() {
            Some(store) if is_due(store.held()) => store.validate(),
            _ => Ok(()),
        },
        JobApp::Worker(worker) => {
            worker.validate_exchange()?;
            let mut due = worker.requests().iter().filter(|one| is_due(one.in_flight()));
            due.try_for_each(CustomerRequests::validate)
        }
    }
}
