//! What a scheduler shows of the job, and says of it by itself: who waits for whom, and, if an
//! operator asks, how the job is. Brings together what the membership, the planner and the
//! coordinators know. May touch the van; decides nothing itself.

use super::job::Core;
use super::{Van, log_level};
use pslite_core::cluster::Event;
use pslite_core::scheduler::{LogLine, Status, StatusParts};
use pslite_core::wire::{NodeId, Role};
use pslite_observe::log;

impl Van {
    /// An operator asks how the job is. Returns the answer.
    pub(super) fn status_asked(&self, core: &Core, guest: Option<NodeId>) -> Event {
        let parts = StatusParts {
            times: self.desk.times(&self.state, &core.cluster),
            sessions: self.training.status(),
            exchanges: self.training.exchange.status(),
            waits: core.waits.lines(self.now(), &core.cluster),
        };
        Event::StatusTold { guest, text: Status::of(&core.cluster, parts).json() }
    }

    /// A node tells which round has waited for long.
    pub(super) fn stalled(&self, core: &mut Core, from: NodeId, bytes: &[u8]) {
        let mut lines = Vec::new();
        core.waits.told(self.now(), from, bytes, &core.cluster, &mut lines);
        write(lines);
    }

    /// On the scheduler: says who has waited for long. Called by the clock.
    pub(super) fn look_at_waits(&self) {
        if self.state.settings.role != Role::Scheduler {
            return;
        }
        let (now, mut lines) = (self.now(), Vec::new());
        let mut core = self.job.lock();
        let Core { waits, cluster, .. } = &mut *core;
        waits.look(now, cluster, &mut lines);
        drop(core);
        write(lines);
    }
}

fn write(lines: Vec<LogLine>) {
    lines.into_iter().for_each(|LogLine { level, text }| log::write(log_level(level), &text));
}
