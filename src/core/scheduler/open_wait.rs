//! Something that waits for nodes: a barrier, or a round. Says it as a line, as an event and as
//! values. Values only.

use std::time::Duration;

use super::status::WaitStatus;
use crate::chronicle::{JobEventKind, NewEvent};
use crate::cluster::{Cluster, OpenBarrier};
use crate::wire::{ALL_GROUP, NodeId, SCHEDULER, SERVER_GROUP, WORKER_GROUP};

/// Nodes that one line names.
const NODES_NAMED_MAX: usize = 4;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct OpenWait {
    /// What it is, for people.
    pub(super) what: String,
    pub(super) since: Duration,
    /// Whom it waits for.
    pub(super) missing: Vec<NodeId>,
    /// So many of them are named. 0: any of them may come, or others of their process.
    named_max: usize,
    /// It is a round that waits for nobody's push.
    all_have_pushed: bool,
}

impl OpenWait {
    pub(super) fn of_barrier(barrier: &OpenBarrier<'_>, cluster: &Cluster) -> Self {
        let mut missing = barrier.missing();
        missing.retain(|id| !cluster.is_gone(*id));
        Self {
            what: barrier_name(barrier),
            since: barrier.since,
            missing,
            // Of the nodes of a process any may come.
            named_max: if barrier.is_of_processes() { 0 } else { NODES_NAMED_MAX },
            all_have_pushed: false,
        }
    }

    /// A round for which these have not pushed. `is_pushed`: some have.
    pub(super) fn of_round(
        what: String,
        since: Duration,
        missing: Vec<NodeId>,
        is_pushed: bool,
    ) -> Self {
        let all_have_pushed = missing.is_empty() && is_pushed;
        Self { what, since, missing, named_max: NODES_NAMED_MAX, all_have_pushed }
    }

    /// The line.
    pub(super) fn text(&self, now: Duration, cluster: &Cluster) -> String {
        let Self { what, missing, named_max, .. } = self;
        let waited = self.waited(now).as_secs();
        if self.all_have_pushed {
            return format!("{what} has waited {waited} s, and all workers have pushed");
        }
        format!("{what} has waited {waited} s for {}", names(missing, *named_max, cluster))
    }

    /// The event with that line.
    pub(super) fn event(&self, now: Duration, cluster: &Cluster) -> NewEvent {
        let event = NewEvent::warning(JobEventKind::Wait, self.text(now, cluster));
        let event = event.lasting("waited", self.waited(now));
        match self.missing[..] {
            [one] if self.named_max > 0 => event.of(one),
            _ => event.with("missing", self.missing.len() as f64),
        }
    }

    /// The same for programs.
    pub(super) fn status(&self, now: Duration) -> WaitStatus {
        WaitStatus {
            what: self.what.clone(),
            since: self.since.as_secs_f64(),
            waited: self.waited(now).as_secs_f64(),
            missing: self.missing.clone(),
        }
    }

    fn waited(&self, now: Duration) -> Duration {
        now.saturating_sub(self.since)
    }
}

/// A barrier for people.
pub(super) fn barrier_name(barrier: &OpenBarrier<'_>) -> String {
    format!("a barrier of {}", members(barrier.place.group))
}

/// Some of these nodes for people.
fn names(nodes: &[NodeId], most: usize, cluster: &Cluster) -> String {
    let mut names: Vec<String> = nodes.iter().take(most).map(|id| cluster.describe(*id)).collect();
    match nodes.len() - names.len() {
        _ if names.is_empty() => names.push("others".to_owned()),
        0 => {}
        more => names.push(format!("{more} more")),
    }
    names.join(", and for ")
}

/// A group for people.
fn members(group: i32) -> String {
    let who = match group {
        WORKER_GROUP => "all workers",
        SERVER_GROUP => "all servers",
        SCHEDULER => "the scheduler",
        ALL_GROUP => "all nodes",
        _ if group == WORKER_GROUP + SERVER_GROUP => "all workers and servers",
        _ if group == WORKER_GROUP + SCHEDULER => "all workers and the scheduler",
        _ => "all servers and the scheduler",
    };
    format!("{who} (group {group})")
}
