//! Reports what a worker's oldest request has waited for, less and less often. Of a push that is
//! under way along a tree nobody hears but relays, so the scheduler is told: it knows who has not
//! pushed. May touch the customer and the node.

use std::time::Duration;

use super::{Requests, WorkerCustomer};
use crate::running::NodeRef;
use crate::sync::lock;
use pslite_core::cluster::Event;
use pslite_core::store::Reminder;
use pslite_core::values::spaces::{SPACE_KEYS, Space, space_begin};
use pslite_core::wire::NodeId;
use pslite_core::wire::elastic::StalledRound;
use pslite_observe::log::{self, Level};

/// Between two looks at the requests.
const OLDEST_LOOK_EVERY: Duration = Duration::from_secs(1);
/// Servers that one line names.
const SERVERS_NAMED_MAX: usize = 4;

/// When to look, and when to say it again.
#[derive(Debug, Default)]
pub(super) struct OldestWatch {
    next: Duration,
    reminder: Option<Reminder>,
    /// What the scheduler was told last; it has not waited at all there.
    told: Option<StalledRound>,
}

/// The oldest request, if it has waited for long.
struct Oldest {
    timestamp: i32,
    what: &'static str,
    waited: Duration,
    missing: Vec<NodeId>,
    /// Requests behind it.
    others: usize,
    /// It is under way along a tree.
    round: Option<StalledRound>,
}

impl Requests {
    fn oldest(&self, me: NodeId, now: Duration, limit: Duration) -> Option<Oldest> {
        let tracker = self.requests.tracker();
        let (timestamp, asked) = tracker.oldest_asked()?;
        let waited = now.saturating_sub(asked);
        (waited >= limit).then(|| Oldest {
            timestamp,
            what: self.requests.what(timestamp),
            waited,
            missing: tracker.missing(timestamp),
            others: tracker.waiting_count().saturating_sub(1),
            round: self.along_tree(me, timestamp),
        })
    }

    /// The round of a request that is under way along a tree.
    fn along_tree(&self, me: NodeId, timestamp: i32) -> Option<StalledRound> {
        let (slice, key, round) = self.flights.as_ref()?.along_tree(timestamp)?;
        let begin = self.ranges.get(slice as usize).map_or(0, |range| range.begin);
        let first = space_begin(key, begin);
        let space = (first.wrapping_sub(begin) / SPACE_KEYS) as Space;
        let key = key.wrapping_sub(first) as i64;
        Some(StalledRound { key, space, round, pushed: vec![me], ..StalledRound::default() })
    }
}

impl WorkerCustomer {
    /// Says what the oldest request waits for, if that is long.
    pub(crate) fn report_oldest(&self) {
        let Ok(node) = self.node() else { return };
        let (now, limit) = (node.traffic().now(), node.settings().stall_report);
        let mut watch = lock(&self.oldest);
        if now < watch.next {
            return;
        }
        watch.next = now.saturating_add(OLDEST_LOOK_EVERY);
        let oldest = lock(&self.requests).oldest(node.my_id(), now, limit);
        let is_due = watch.reminder.get_or_insert_with(|| Reminder::new(limit)).is_due(now);
        if let (Some(oldest), Some(reminder), true) = (&oldest, &mut watch.reminder, is_due) {
            reminder.said(now);
            log::write(Level::Warning, &text(&node, oldest));
        }
        let round = oldest.as_ref().and_then(|oldest| oldest.round.clone());
        if round != watch.told {
            watch.told.clone_from(&round);
            drop(watch);
            let waited = oldest.map_or(0, |oldest| oldest.waited.as_millis() as u64);
            node.event(Event::Stalled(round.map(|round| StalledRound { waited, ..round })));
        }
    }
}

fn text(node: &NodeRef, oldest: &Oldest) -> String {
    let Oldest { timestamp, what, waited, missing, others, round } = oldest;
    let named = missing.iter().take(SERVERS_NAMED_MAX);
    let mut whom: Vec<String> =
        node.with_cluster(|cluster, _| named.map(|id| cluster.describe(*id)).collect());
    if missing.len() > whom.len() {
        whom.push(format!("{} more", missing.len() - whom.len()));
    }
    let whom = whom.join(", and for ");
    let waited = waited.as_secs();
    let tree = round.as_ref().map_or("", |_| " along a tree (the scheduler knows who is missing)");
    format!(
        "{what} (request {timestamp}) has waited {waited} s for {whom}{tree}; requests behind it: \
         {others}"
    )
}
