//! Reports which servers a worker's oldest request has waited for, less and less often. May touch
//! the customer and the node.

use std::time::Duration;

use super::WorkerCustomer;
use crate::sync::lock;
use pslite_core::store::Reminder;
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
        let reminder = watch.reminder.get_or_insert_with(|| Reminder::new(limit));
        if !reminder.is_due(now) {
            return;
        }
        let state = lock(&self.requests);
        let tracker = state.requests.tracker();
        let Some((timestamp, asked)) = tracker.oldest_asked() else { return };
        let waited = now.saturating_sub(asked);
        if waited < limit {
            return;
        }
        let (what, missing) = (state.requests.what(timestamp), tracker.missing(timestamp));
        let others = tracker.waiting_count().saturating_sub(1);
        drop(state);
        reminder.said(now);
        let named = missing.iter().take(SERVERS_NAMED_MAX);
        let mut whom: Vec<String> =
            node.with_cluster(|cluster, _| named.map(|id| cluster.describe(*id)).collect());
        if missing.len() > whom.len() {
            whom.push(format!("{} more", missing.len() - whom.len()));
        }
        let whom = whom.join(", and for ");
        let waited = waited.as_secs();
        let text = format!(
            "{what} (request {timestamp}) has waited {waited} s for {whom}; requests behind it: \
             {others}"
        );
        log::write(Level::Warning, &text);
    }
}
