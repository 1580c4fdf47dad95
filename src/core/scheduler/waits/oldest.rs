//! For whom others wait, and for how long: as numbers, beside the lines that `waits` makes of the
//! same. Reads the membership.

use std::collections::BTreeMap;
use std::time::Duration;

use super::WaitWatch;
use crate::cluster::{Cluster, OpenBarrier};
use crate::scheduler::status::OldestWait;
use crate::wire::{NodeId, is_worker};

impl WaitWatch {
    /// The longest wait for each node for which somebody waits: in barriers in which workers are,
    /// whether that is for long or not, and in rounds of which nodes have told. A round for which
    /// all have pushed waits for its server. (Along a tree nobody knows whom such a one waits for,
    /// so it is only among [`Self::lines`].)
    #[must_use]
    pub fn oldest(&self, now: Duration, cluster: &Cluster) -> Vec<OldestWait> {
        let mut all = BTreeMap::<NodeId, Duration>::new();
        let mut note = |ids: &mut dyn Iterator<Item = NodeId>, since: Duration| {
            for id in ids.filter(|id| !cluster.is_gone(*id)) {
                all.entry(id).and_modify(|at| *at = (*at).min(since)).or_insert(since);
            }
        };
        for barrier in cluster.open_barriers().filter(OpenBarrier::has_worker) {
            note(&mut barrier.missing().into_iter(), barrier.since);
        }
        for round in self.live_rounds(cluster) {
            note(&mut round.round.missing.iter().copied(), round.since);
        }
        let complete = self.told.iter().filter(|(id, told)| {
            !is_worker(**id) && told.round.missing.is_empty() && !told.round.pushed.is_empty()
        });
        for (server, told) in complete {
            note(&mut std::iter::once(*server), told.since);
        }
        let wait = |(node, since): (NodeId, Duration)| OldestWait {
            node,
            seconds: now.saturating_sub(since).as_secs_f64(),
        };
        all.into_iter().map(wait).collect()
    }
}
