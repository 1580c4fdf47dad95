//! Who is in which barrier ([`Meetings`]), as the one who waits knows it ([`BarrierTicket`]) and as
//! the scheduler does ([`Entered`]). Must not know of the other members.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::wire::{Command, NodeId, is_worker};

/// The barriers of a job.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Meetings {
    /// My customers that wait.
    pub(in crate::cluster) tickets: Vec<BarrierTicket>,
    /// My customers that came later.
    pub(in crate::cluster) late: BTreeSet<i32>,
    /// Scheduler: who is in which barrier, by its group and domain.
    pub(in crate::cluster) entered: BTreeMap<(i32, i32), Entered>,
    /// Which of its entries each customer has got out of again, in each group.
    pub(in crate::cluster) passed: BTreeMap<(NodeId, i32, i32), i32>,
    /// How often all nodes were let out of a barrier with which the job begins, or ends.
    pub(in crate::cluster) releases_of_all: u32,
}

/// A customer of this process that waits.
#[derive(Clone, Debug)]
pub(in crate::cluster) struct BarrierTicket {
    pub(in crate::cluster) ticket: u64,
    pub(in crate::cluster) customer_id: i32,
    pub(in crate::cluster) group: i32,
    pub(in crate::cluster) leaving: bool,
    /// Every node enters it by itself, not one of each process.
    pub(in crate::cluster) instance: bool,
    /// The number of the message that entered the barrier.
    pub(in crate::cluster) timestamp: i32,
}

/// What is said of a barrier: that a customer enters it, or may leave it.
#[derive(Clone, Copy, Debug)]
pub(in crate::cluster) struct BarrierWord {
    pub(in crate::cluster) group: i32,
    pub(in crate::cluster) command: Command,
    pub(in crate::cluster) customer_id: i32,
    /// Of the message by which the customer entered. An elastic job says it of a release too: that
    /// may be asked and answered twice, and the second answer must not free the next barrier. It
    /// travels as `head`, which control messages do not use. Elsewhere a release has `EMPTY`.
    pub(in crate::cluster) number: i32,
}

/// Who is in a barrier at the scheduler.
#[derive(Clone, Debug, Default)]
pub(in crate::cluster) struct Entered {
    /// Nodes and their customers, with the number of the message by which each came in.
    pub(in crate::cluster) members: BTreeMap<(NodeId, i32), i32>,
    /// Since when whoever is in it waits.
    pub(super) since: Duration,
}

impl Entered {
    /// True if a customer of that node is in it.
    pub(in crate::cluster) fn has(&self, id: NodeId) -> bool {
        self.members.range((id, i32::MIN)..=(id, i32::MAX)).next().is_some()
    }

    /// Somebody came in. A barrier in which a worker waits has waited since the first one came:
    /// scheduler and servers of MXNet are in the last one for as long as the job runs.
    pub(super) fn came(&mut self, now: Duration, from: NodeId) {
        if self.members.is_empty() || (is_worker(from) && !self.has_worker()) {
            self.since = now;
        }
    }

    pub(super) fn has_worker(&self) -> bool {
        self.members.keys().any(|(member, _)| is_worker(*member))
    }
}
