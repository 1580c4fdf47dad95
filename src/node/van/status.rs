//! What a scheduler shows of the job, and says of it by itself: who waits for whom, and, if an
//! operator or a scrape asks, how the job is. Brings together what the membership, the planner and
//! the coordinators know. May touch the van; decides nothing itself.

use super::Van;
use super::job::Core;
use pslite_core::chronicle::ChroniclePart;
use pslite_core::cluster::Event;
use pslite_core::scheduler::{Status, StatusParts};
use pslite_core::wire::chronicle::ChronicleQuestion;
use pslite_core::wire::{NodeId, Role};

impl Van {
    /// An operator asks how the job is, and perhaps what has happened. Returns the answer.
    pub(super) fn status_asked(
        &self,
        core: &Core,
        guest: Option<NodeId>,
        asked: Option<ChronicleQuestion>,
    ) -> Event {
        let chronicle = asked.and_then(|asked| self.state.chronicle(asked));
        let status = Status { chronicle, ..self.status(core) };
        Event::StatusTold { guest, text: status.json() }
    }

    /// How the job is. The membership is locked while it is looked at, and not while a caller makes
    /// text of it.
    pub(crate) fn job_status(&self) -> Status {
        self.status(&self.job.lock())
    }

    fn status(&self, core: &Core) -> Status {
        let now = self.now();
        let parts = StatusParts {
            times: self.planning.times(&self.state, &core.cluster),
            sessions: self.training.status(),
            exchanges: self.training.exchange.status(),
            waiting: core.waits.waiting(now, &core.cluster),
            oldest_waits: core.waits.oldest(now, &core.cluster),
            chronicle: None,
            totals: core.counted.totals().clone(),
            now,
        };
        Status::of(&core.cluster, parts)
    }

    /// What has happened in the job, for a reader that asks so. Takes no lock of the membership.
    /// None: this is not the scheduler.
    pub(crate) fn chronicle(&self, asked: ChronicleQuestion) -> Option<ChroniclePart> {
        self.state.chronicle(asked)
    }

    /// A node tells which round has waited for long.
    pub(super) fn stalled(&self, core: &mut Core, from: NodeId, bytes: &[u8]) {
        let mut said = Vec::new();
        core.waits.told(self.now(), from, bytes, &core.cluster, &mut said);
        self.state.say_lines(said);
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
        self.state.say_lines(said);
    }
}
