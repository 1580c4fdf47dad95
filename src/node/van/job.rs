//! The job as this node knows it: the membership and its results, behind one lock; a condition to
//! wait for a change of them; and copies, readable without the lock, of what every message needs to
//! know. Keeps the copies equal to what is behind the lock. Must not touch a socket or a customer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{core_failure, error_of};
use crate::error::{NodeError, Result};
use crate::journal::Journal;
use crate::sync::lock;
use pslite_core::cluster::{Cluster, JobFailure};
use pslite_core::scheduler::{CounterBook, WaitWatch};
use pslite_core::wire::NodeId;

/// See the module.
pub(super) struct Job {
    core: Mutex<Core>,
    /// Signalled when `core` has changed.
    changed: Condvar,
    /// A peer is lost or the job has failed: senders have to ask `core`.
    trouble: AtomicBool,
    /// The job is complete.
    ready: AtomicBool,
    /// This server was emptied and is to end.
    released: AtomicBool,
}

/// What is behind the lock.
pub(super) struct Core {
    pub(super) cluster: Cluster,
    pub(super) barriers: BTreeMap<u64, Option<std::result::Result<(), JobFailure>>>,
    pub(super) next_ticket: u64,
    /// A barrier was passed.
    pub(super) met: bool,
    pub(super) lost: BTreeMap<NodeId, String>,
    pub(super) failure: Option<JobFailure>,
    /// Whether each channel is up, by the id of the node or, before it has one, the channel's key.
    pub(super) channels: BTreeMap<NodeId, bool>,
    /// A scheduler's.
    pub(super) journal: Option<Journal>,
    /// A scheduler's.
    pub(super) waits: WaitWatch,
    /// A scheduler's that shows it: what nodes have counted.
    pub(super) counted: CounterBook,
}

impl Job {
    /// `limit`: what has waited for less is not said.
    pub(super) fn new(cluster: Cluster, journal: Option<Journal>, limit: Duration) -> Self {
        Self {
            core: Mutex::new(Core {
                cluster,
                barriers: BTreeMap::new(),
                next_ticket: 0,
                met: false,
                lost: BTreeMap::new(),
                failure: None,
                channels: BTreeMap::new(),
                journal,
                waits: WaitWatch::new(limit),
                counted: CounterBook::default(),
            }),
            changed: Condvar::new(),
            trouble: AtomicBool::new(false),
            ready: AtomicBool::new(false),
            released: AtomicBool::new(false),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        lock(&self.core)
    }

    /// Releases the lock and waits until something has changed.
    pub(super) fn wait<'a>(&self, core: MutexGuard<'a, Core>) -> MutexGuard<'a, Core> {
        self.changed.wait(core).unwrap_or_else(PoisonError::into_inner)
    }

    /// Likewise, but not for longer than that.
    pub(super) fn wait_for<'a>(
        &self,
        core: MutexGuard<'a, Core>,
        most: Duration,
    ) -> MutexGuard<'a, Core> {
        self.changed.wait_timeout(core, most).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Something has changed: wakes all that wait.
    pub(super) fn tell(&self) {
        self.changed.notify_all();
    }

    /// True once the job is complete.
    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// The job is complete.
    pub(super) fn set_ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
        self.tell();
    }

    /// True if this server was emptied and has left the job.
    pub(super) fn is_released(&self) -> bool {
        self.released.load(Ordering::Relaxed)
    }

    /// This server was emptied.
    pub(super) fn release(&self) {
        self.released.store(true, Ordering::Relaxed);
        self.tell();
    }

    /// True if a peer is lost or the job has failed.
    pub(super) fn is_troubled(&self) -> bool {
        self.trouble.load(Ordering::Acquire)
    }

    /// Why nothing can be sent to that node, if so. Takes the lock only if there is trouble.
    pub(super) fn check_peer(&self, to: NodeId) -> Result<()> {
        if !self.trouble.load(Ordering::Acquire) {
            return Ok(());
        }
        let core = self.lock();
        if let Some(reason) = core.lost.get(&to) {
            return Err(NodeError::PeerLost(reason.clone()));
        }
        core.failure.as_ref().map_or(Ok(()), |failure| Err(error_of(failure)))
    }

    /// Why the job is over, if it is. Takes the lock only if there is trouble.
    pub(super) fn failure(&self) -> Option<NodeError> {
        if !self.trouble.load(Ordering::Acquire) {
            return None;
        }
        self.lock().failure.as_ref().map(error_of)
    }

    /// A node is lost.
    pub(super) fn lose(&self, core: &mut Core, id: NodeId, reason: String) {
        core.lost.insert(id, reason);
        core.counted.forget(id);
        core.channels.remove(&id);
        self.trouble.store(true, Ordering::Release);
    }

    /// Another node has taken its place.
    pub(super) fn replace(&self, core: &mut Core, id: NodeId) {
        core.lost.remove(&id);
        core.counted.forget(id);
        if core.lost.is_empty() && core.failure.is_none() {
            self.trouble.store(false, Ordering::Release);
        }
        self.tell();
    }

    /// The job is over, and so is every barrier.
    pub(super) fn fail(&self, core: &mut Core, failure: &JobFailure) {
        core.failure = Some(failure.clone());
        self.trouble.store(true, Ordering::Release);
        for slot in core.barriers.values_mut().filter(|slot| slot.is_none()) {
            *slot = Some(Err(core_failure(&error_of(failure))));
        }
        self.tell();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::running::fake;
    use crate::van::setup::cluster_config;
    use pslite_core::cluster::JobFailureKind;
    use pslite_core::wire::counters::NodeTotals;
    use pslite_core::wire::server_id;
    use std::sync::Arc;
    use std::thread;

    fn job() -> Job {
        let node = fake::scheduler();
        let config = cluster_config(&fake::settings("scheduler", &[]), node.clone(), node, true);
        Job::new(Cluster::new(config, Duration::ZERO), None, Duration::MAX)
    }

    fn says(result: Result<()>) -> String {
        result.map_or_else(|error| error.to_string(), |()| "fine".to_owned())
    }

    #[test]
    fn a_lost_peer_gets_nothing_until_another_takes_its_place() {
        let (job, one, other) = (job(), server_id(0), server_id(1));
        assert_eq!(says(job.check_peer(one)), "fine");
        let mut core = job.lock();
        core.channels.insert(one, true);
        core.counted.told(one, &NodeTotals::default().bytes());
        core.counted.told(other, &NodeTotals::default().bytes());
        job.lose(&mut core, one, "it is gone".to_owned());
        assert!(core.channels.is_empty());
        assert!(core.counted.totals().keys().eq([&other]), "what it has counted goes with it");
        drop(core);
        assert!(says(job.check_peer(one)).contains("it is gone"));
        assert_eq!(says(job.check_peer(other)), "fine");
        assert_eq!(job.failure(), None, "the job goes on without it");
        job.lose(&mut job.lock(), other, "so is this".to_owned());
        job.replace(&mut job.lock(), one);
        assert_eq!(says(job.check_peer(one)), "fine");
        assert!(says(job.check_peer(other)).contains("so is this"));
        job.replace(&mut job.lock(), other);
        assert_eq!(says(job.check_peer(other)), "fine");
    }

    #[test]
    fn a_failure_ends_barriers_that_are_not_passed_and_does_not_pass() {
        let (job, one) = (job(), server_id(0));
        let failure =
            JobFailure { kind: JobFailureKind::Remote, text: "the disk is full".to_owned() };
        let mut core = job.lock();
        core.barriers.insert(0, Some(Ok(())));
        core.barriers.insert(1, None);
        job.fail(&mut core, &failure);
        assert_eq!(core.barriers[&0], Some(Ok(())));
        assert!(matches!(&core.barriers[&1], Some(Err(why)) if why.text.contains("disk")));
        job.lose(&mut core, one, "it is gone".to_owned());
        job.replace(&mut core, one);
        drop(core);
        assert!(says(job.check_peer(one)).contains("the disk is full"));
        assert!(says(job.failure().map_or(Ok(()), Err)).contains("the disk is full"));
    }

    #[test]
    fn who_waits_is_told() {
        let job = Arc::new(job());
        let waiter = {
            let job = Arc::clone(&job);
            thread::spawn(move || {
                let mut core = job.lock();
                while !job.is_released() {
                    core = job.wait(core);
                }
            })
        };
        assert!(!job.is_released() && !job.is_ready());
        {
            // As the van does: under the lock, so that a waiter has looked before or waits.
            let _core = job.lock();
            job.release();
        }
        waiter.join().unwrap();
        let core = job.wait_for(job.lock(), Duration::from_millis(1));
        job.set_ready();
        drop(core);
        assert!(job.is_released() && job.is_ready());
    }
}
