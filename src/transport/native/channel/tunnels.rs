//! What a channel with several ways to its peer is asked beside the others: whether a connection is
//! cut off, and which ways have none. Another way may do then, where a channel with one could only
//! wait.

use std::os::fd::AsFd;

use super::Channel;
use crate::sync::lock;

impl Channel {
    /// True if some of its ways go through tunnels.
    pub(in crate::native) fn has_detours(&self) -> bool {
        self.ways.iter().any(|way| !way.then.is_empty())
    }

    /// True if all of them do.
    pub(in crate::native) fn is_by_tunnels(&self) -> bool {
        self.has_detours() && !self.is_first_straight()
    }

    fn is_first_straight(&self) -> bool {
        self.ways.first().is_some_and(|way| way.then.is_empty())
    }

    /// True if it goes through tunnels though there is a link: the link is cut.
    pub(in crate::native) fn is_detoured(&self) -> bool {
        let state = lock(&self.state);
        let way = state.lanes.first().and_then(|lane| self.ways.get(lane.way));
        self.is_first_straight() && way.is_some_and(|way| !way.then.is_empty())
    }

    /// To be asked each [`crate::stuck::LOOK_EVERY`]: the ways of its connections that are cut off.
    pub(in crate::native) fn cut_off(&self) -> Vec<usize> {
        let mut state = lock(&self.state);
        let lanes = state.lanes.iter_mut();
        let stuck = lanes.filter_map(|lane| {
            lane.progress.is_stuck(lane.pipe.socket.as_fd()).then_some(lane.way)
        });
        stuck.collect()
    }

    /// The ways that no connection takes.
    pub(in crate::native) fn unused_ways(&self) -> Vec<usize> {
        let state = lock(&self.state);
        let used = |way: &usize| state.lanes.iter().any(|lane| lane.way == *way);
        (0..self.ways.len()).filter(|way| !used(way)).collect()
    }
}
