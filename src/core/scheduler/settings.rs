//! What the scheduler's planners are told by its settings. Values only.

use crate::placement::graph::{NamedGraph, Topology};

/// How keys and trees are planned.
#[derive(Clone, Copy, Debug)]
pub struct PlannerSettings<'a> {
    /// Keys may move that need not, and trees follow what is measured.
    pub planning: bool,
    /// Which trees there are to be.
    pub topology: Topology,
    /// Which hosts have links, and how fast those are until it is measured.
    pub links: Option<&'a NamedGraph>,
    /// Plan the same trees in every run: not even when keys are made may matter.
    pub repeats: bool,
}

impl PlannerSettings<'_> {
    /// True if trees are planned by the rates of `links`; what is measured shows only which links
    /// are cut.
    pub(super) const fn is_fixed(&self) -> bool {
        self.repeats || !self.planning
    }
}
