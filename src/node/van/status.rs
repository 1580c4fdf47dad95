//! What a scheduler shows of the job, and says of it by itself: who waits for whom, and, if an
//! operator asks, how the job is. Brings together what the membership, the planner and the
//! coordinators know. May touch the van; decides nothing itself.

use super::Van;
use super::job::Core;
use crate::lines;
use pslite_core::cluster::Event;
use pslite_core::scheduler::{Status, StatusParts};
use pslite_core::wire::{NodeId, Role};

impl Van {
    /// An operator asks how the job is. Returns the answer.
    pub(super) fn status_asked(&self, core: &Core, guest: Option<NodeId>) -> Event {
        let parts = StatusParts {
            times: self.planning.times(&self.state, &core.cluster),
            sessions: self.training.status(),
            exchanges: self.training.exchange.status(),
            waits: core.waits.lines(self.now(), &core.cluster),
        };
        Event::StatusTold { guest, text: Status::of(&core.cluster, parts).json() }
    }

    /// A node tells which round has waited for long.
    pub(super) fn stalled(&self, core: &mut Core, from: NodeId, bytes: &[u8]) {
        let mut said = Vec::new();
        core.waits.told(self.now(), from, bytes, &core.cluster, &mut said);
        lines::write(said);
    }

    /// On the scheduler: says who has waited for long. Called by the clock.
    pub(super) fn look_at_waits(&self) {
        if self.state.settings.role != Role::Scheduler {
            return;
        }
        let (now, mut said) = (self.now(), Vec::new());
        let mut core = self.job.lock();
        let Core { waits, cluster, .. } = &mut *core;
        waits.look(now, cluster, &mut said);
        drop(core);
        lines::write(said);
    }
}
