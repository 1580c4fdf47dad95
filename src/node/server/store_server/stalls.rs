//! Reports the round of a store that has waited for long: to the log less and less often, to the
//! scheduler whenever it is another round. May touch the store and the node.

use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;

use crate::running::NodeRef;
use crate::sync::lock;
use pslite_core::server::ServerSide;
use pslite_core::store::{Reminder, Stall};
use pslite_core::wire::elastic::StalledRound;
use pslite_core::wire::topic::Topic;
use pslite_observe::log::{self, Level};

/// Between two looks at the store.
const STORE_LOOK_EVERY: Duration = Duration::from_secs(1);

/// When to look, and what was said.
pub(super) struct StallWatch {
    next: Duration,
    reminder: Reminder,
    /// What the scheduler was told last; it has not waited at all there.
    told: Option<StalledRound>,
}

impl StallWatch {
    /// `limit`: what waits for less is not said.
    pub(super) const fn new(limit: Duration) -> Self {
        Self { next: Duration::ZERO, reminder: Reminder::new(limit), told: None }
    }
}

/// Says which round has waited for long. A store that is at work is asked the next time.
pub(super) fn report(watch: &Mutex<StallWatch>, side: &Mutex<ServerSide>, node: &NodeRef) {
    let (now, mut watch) = (node.now(), lock(watch));
    if now < watch.next {
        return;
    }
    let Ok(mut side) = side.try_lock() else { return };
    let store = side.store_mut();
    let stall = store.stalled(now, watch.reminder.limit());
    let momentum = store.momentum_warning();
    drop(side);
    momentum.into_iter().for_each(|text| log::write(Level::Warning, &text));
    watch.next = now.saturating_add(STORE_LOOK_EVERY);
    if let Some(stall) = stall.as_ref().filter(|_| watch.reminder.is_due(now)) {
        watch.reminder.said(now);
        let text = node.with_cluster(|cluster, _| stall.text(|id| cluster.describe(id)));
        log::write(Level::Warning, &text);
    }
    let round = stall.as_ref().map(told);
    if round != watch.told {
        watch.told.clone_from(&round);
        drop(watch);
        let waited = stall.map_or(0, |stall| stall.waited.as_millis() as u64);
        let round = round.map(|round| StalledRound { waited, ..round });
        node.tell(Topic::Stall, round.map_or_else(Bytes::new, |round| round.bytes()));
    }
}

fn told(stall: &Stall) -> StalledRound {
    StalledRound {
        key: stall.key,
        space: stall.space,
        round: stall.round,
        waited: 0,
        pushed: stall.pushed.clone(),
        missing: stall.missing.iter().map(|(id, _)| *id).collect(),
    }
}
