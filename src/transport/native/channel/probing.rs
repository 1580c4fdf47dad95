//! A probe of an idle link, on the sender's side: padding that is sent only while nothing else is
//! to be sent.

use super::super::counters::{Counters, add};
use super::super::outbox::Fragment;
use super::super::types::ProbeOf;
use super::{Channel, RING_WAIT};
use crate::native::lock;
use crate::native::shared::Shared;
use pslite_core::wire::native::{GRANULE, PROBE_BYTES};

/// So many probes, one after the other, show what a link carries that data use now and then.
const LONG: u8 = 2;

/// A probe that is being sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probing {
    /// How much of it is cut into frames.
    at: u64,
    /// So many more follow it.
    more: u8,
    of: ProbeOf,
}

impl Channel {
    /// Begins a probe over TCP, if nothing else is to be sent, or of a link that is in use. Returns
    /// whether it did, and whether the connection broke over it.
    pub(in crate::native) fn probe(&self, of: ProbeOf, shared: &Shared) -> (bool, bool) {
        let mut state = lock(&self.state);
        self.trim(&mut state);
        let may_begin = state.probe.is_none() && (state.outbox.is_empty() || of == ProbeOf::InUse);
        let may_send = state.lanes.first().is_some_and(|lane| {
            lane.pipe.carrier() == "tcp" && lane.writing.is_empty() && !lane.blocked
        });
        if !may_begin || !may_send || state.gone || state.broken {
            return (false, false);
        }
        let more = if of == ProbeOf::InUse { LONG - 1 } else { 0 };
        state.probe = Some(Probing { at: 0, more, of });
        self.pump(&mut state, &shared.receipts, RING_WAIT);
        (true, state.broken)
    }

    /// True if it has a connection, or what it held is sent in another way.
    pub(in crate::native) fn is_connected(&self) -> bool {
        let state = lock(&self.state);
        !state.lanes.is_empty() || state.taken_back
    }

    /// True while a probe is being sent.
    pub(in crate::native) fn is_probing(&self) -> bool {
        lock(&self.state).probe.is_some()
    }
}

/// Something else is to be sent: the rest of the probe is not. Its receiver sees that it is not
/// whole, and the data tell it what it wanted to know. The probe of a link in use goes on after the
/// data.
pub(super) fn end(probe: &mut Option<Probing>) {
    if probe.is_some_and(|probe| probe.of == ProbeOf::Idle && probe.at < PROBE_BYTES) {
        *probe = None;
    }
}

/// The next frame of the probe. `follows`: it comes right after another one.
pub(super) fn next(
    probe: &mut Option<Probing>,
    follows: bool,
    counters: &Counters,
) -> Option<Fragment> {
    let now = probe.as_mut()?;
    if now.at >= PROBE_BYTES {
        // All of it is in the connection.
        add(&counters.probes, 1);
        let Some(more) = now.more.checked_sub(1) else {
            *probe = None;
            return None;
        };
        *now = Probing { at: 0, more, of: now.of };
    }
    let at = now.at;
    now.at += GRANULE as u64;
    add(&counters.padding, GRANULE as u64);
    Some(Fragment::padding(at, follows))
}
