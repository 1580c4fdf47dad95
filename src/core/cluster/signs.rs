//! When others were heard of, and which connections are down: what death is concluded from. Knows
//! no member.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::wire::NodeId;

/// Signs of life and of death, and when this node gives its next one.
#[derive(Debug, Default)]
pub(super) struct Signs {
    /// When something was last heard from a node that sends signs of life.
    pub(super) heard: BTreeMap<NodeId, Duration>,
    /// When this node last stood still, and silence began anew for that.
    pub(super) forgave: Option<Duration>,
    /// Channels that are down, and since when.
    pub(super) down: BTreeMap<NodeId, Duration>,
    pub(super) next_heartbeat: Option<Duration>,
}
