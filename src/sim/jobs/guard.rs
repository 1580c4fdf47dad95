//! When another server may be lost: with one copy of each piece a job survives one death at any
//! moment, and the next one once all that the first one had is safe again. What is more than that
//! ends the job, which is not what these jobs are to show, unless they are told to.

use std::collections::BTreeSet;
use std::time::Duration;

use super::config::Fault;
use super::job::Job;
use super::nodes::JobApp;
use crate::network::Process;
use pslite_core::wire::elastic::Holding;

/// Remembers whether a death may not be repaired yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Guard {
    hurt: bool,
    /// Until then somebody may yet be taken for dead.
    in_doubt_until: Duration,
}

/// What a partition or a pause can cost has shown after that time: the longest of them, and the
/// silence that is noticed.
const DOUBT: Duration = Duration::from_secs(8);

impl Guard {
    /// True if a server may be lost now. It counts as lost then.
    pub(super) fn allows(&mut self, job: &Job<'_>, fault: &Fault) -> bool {
        if job.config.may_fail {
            return true;
        }
        if job.config.replicas == 0 || !is_running(job) {
            return false;
        }
        if job.now < self.in_doubt_until || (self.hurt && !is_whole(job)) {
            return false;
        }
        self.hurt = true;
        if matches!(fault, Fault::Stall(..) | Fault::Cut(..) | Fault::Pause(..)) {
            self.in_doubt_until = job.now + DOUBT;
        }
        true
    }
}

/// Every server has said what it holds.
fn is_running(job: &Job<'_>) -> bool {
    let claimed = |process: Process| {
        let node = job.nodes.get(process).and_then(Option::as_ref);
        node.is_some_and(|node| match node.app() {
            JobApp::Server(server) => node.is_over() || server.has_claimed(job.now),
            _ => false,
        })
    };
    (1..=job.config.servers).all(claimed)
}

/// All that servers own is safe, everybody knows who serves, and there are servers to lose.
fn is_whole(job: &Job<'_>) -> bool {
    let Some(scheduler) = job.nodes.first().and_then(Option::as_ref).filter(|_| job.lives(0))
    else {
        return false;
    };
    let policy = scheduler.cluster().policy();
    let mut serving = BTreeSet::new();
    for process in job.config.server_processes() {
        let Some(node) = job.nodes[process].as_ref().filter(|node| !node.is_over()) else {
            continue;
        };
        let JobApp::Server(server) = node.app() else { continue };
        let (id, Some(store)) = (node.cluster().me().id, server.store()) else { continue };
        if job.ledger.is_gone(id) || !policy.servers.contains(&id) {
            continue;
        }
        let claims = store.claims();
        let owned = claims.iter().filter(|claim| claim.holding == Holding::Owner as i32);
        let leaves = claims.iter().any(|claim| claim.holding == Holding::Leaving as i32);
        if leaves || store.epoch() != policy.epoch || owned.clone().any(|claim| !claim.safe) {
            return false;
        }
        serving.insert(id);
    }
    // Claims that the scheduler has are those of now, as far as they matter.
    let all = serving.iter().copied().collect::<Vec<_>>() == policy.servers;
    scheduler.cluster().may_order() && all && serving.len() >= 2
}
