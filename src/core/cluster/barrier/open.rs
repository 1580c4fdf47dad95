//! The barriers in which somebody is, for those who say whom they wait for.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::Cluster;
use super::{BETWEEN, Entered};
use crate::wire::NodeId;

/// Which barrier it is: of a group, and of the customers of the beginning or one that came later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BarrierPlace {
    /// The group that meets.
    pub group: i32,
    domain: i32,
}

/// A barrier at the scheduler in which somebody is.
#[derive(Clone, Copy, Debug)]
pub struct OpenBarrier<'a> {
    /// Which one.
    pub place: BarrierPlace,
    /// Since when it waits; where workers are in it, since the first of them came.
    pub since: Duration,
    cluster: &'a Cluster,
    entered: &'a Entered,
}

impl Cluster {
    /// Scheduler: the barriers in which somebody is.
    pub fn open_barriers(&self) -> impl Iterator<Item = OpenBarrier<'_>> {
        self.meetings.entered.iter().map(|((group, domain), entered)| OpenBarrier {
            place: BarrierPlace { group: *group, domain: *domain },
            since: entered.since,
            cluster: self,
            entered,
        })
    }
}

impl OpenBarrier<'_> {
    /// True if a worker is in it.
    #[must_use]
    pub fn has_worker(&self) -> bool {
        self.entered.has_worker()
    }

    /// Who is in it.
    #[must_use]
    pub fn members(&self) -> BTreeSet<NodeId> {
        self.entered.members.keys().map(|(member, _)| *member).collect()
    }

    /// Whom it waits for, the dead included.
    #[must_use]
    pub fn missing(&self) -> Vec<NodeId> {
        self.cluster.missing(self.place.group, self.place.domain, self.entered)
    }

    /// True if any node of a process may come.
    #[must_use]
    pub const fn is_of_processes(&self) -> bool {
        self.place.domain == BETWEEN && self.cluster.config.group_size > 1
    }
}
