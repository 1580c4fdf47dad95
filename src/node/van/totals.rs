//! Tells the scheduler what this node has counted, every 5 s, if the scheduler says that it shows
//! that ([`Topic::Counters`]). Where it does not, it costs a look at the membership every 5 s. May
//! touch the van; decides nothing itself.

use super::Van;
use super::job::Core;
use crate::running::RunningNode;
use pslite_core::cluster::{Event, Tell};
use pslite_core::wire::topic::Topic;
use pslite_core::wire::{Node, NodeId, Role, SCHEDULER};
use pslite_observe::ProcessNumbers;
use pslite_observe::totals::totals_of;

impl Van {
    /// Called by the clock.
    pub(super) fn tell_totals(&self) {
        let is_scheduler = self.state.settings.role == Role::Scheduler;
        if is_scheduler || !self.job.is_ready() || !self.next_totals.is_due(self.now()) {
            return;
        }
        let shows = |node: &Node| node.shows_metrics();
        if self.with_cluster(|cluster, _| cluster.node(SCHEDULER).is_some_and(shows)) {
            let bytes = totals_of(&self.snapshot(), &ProcessNumbers::read()).bytes();
            self.event(Event::Tell(vec![Tell { to: SCHEDULER, topic: Topic::Counters, bytes }]));
        }
    }

    /// On a scheduler that shows them: a node tells its totals.
    pub(super) fn totals_told(&self, core: &mut Core, from: NodeId, bytes: &[u8]) {
        if self.state.settings.http.is_some() {
            core.counted.told(from, bytes);
        }
    }
}
