//! A probe of an idle link, on the sender's side: padding that is sent only while nothing else is
//! to be sent.

use super::super::counters::{Counters, add};
use super::super::outbox::Fragment;
use super::{Channel, RING_WAIT};
use crate::native::lock;
use crate::native::shared::Shared;
use pslite_core::wire::native::{GRANULE, PROBE_BYTES};

impl Channel {
    /// Begins a probe if the channel is idle and over TCP. Returns whether it did, and whether the
    /// connection broke over it.
    pub(in crate::native) fn probe(&self, shared: &Shared) -> (bool, bool) {
        let mut state = lock(&self.state);
        self.trim(&mut state);
        let is_idle = state.outbox.is_empty() && state.probe.is_none();
        let may_send = state.lanes.first().is_some_and(|lane| {
            lane.pipe.carrier() == "tcp" && lane.writing.is_empty() && !lane.blocked
        });
        if !is_idle || !may_send || state.gone || state.broken {
            return (false, false);
        }
        state.probe = Some(0);
        self.pump(&mut state, &shared.receipts, RING_WAIT);
        (true, state.broken)
    }

    /// True while a probe is being sent.
    pub(in crate::native) fn is_probing(&self) -> bool {
        lock(&self.state).probe.is_some()
    }
}

/// Something else is to be sent: the rest of the probe is not. Its receiver sees that it is not
/// whole, and the data tell it what it wanted to know.
pub(super) const fn end(probe: &mut Option<u64>) {
    if let Some(at) = *probe
        && at < PROBE_BYTES
    {
        *probe = None;
    }
}

/// The next frame of the probe.
pub(super) fn next(probe: &mut Option<u64>, counters: &Counters) -> Option<Fragment> {
    let at = (*probe)?;
    if at >= PROBE_BYTES {
        // All of it is in the connection.
        *probe = None;
        add(&counters.probes, 1);
        return None;
    }
    *probe = Some(at + GRANULE as u64);
    add(&counters.padding, GRANULE as u64);
    Some(Fragment::padding(at))
}
