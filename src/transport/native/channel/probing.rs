//! A probe of an idle link, on the sender's side: padding that is sent only while nothing else is
//! to be sent.

use super::super::counters::{Counters, add};
use super::super::outbox::Fragment;
use super::super::types::ProbeOf;
use super::{Channel, RING_WAIT};
use crate::native::shared::Shared;
use crate::sync::lock;
use pslite_core::wire::native::{GRANULE, PROBE_BYTES};

/// Bytes of padding that show what a link carries that data use now and then: two probes.
const LONG: u64 = 2 * PROBE_BYTES;
/// The most. Over a long way TCP's window grows for so long until the link holds back what is sent.
const LONGEST: u64 = 16 * PROBE_BYTES;
/// So many bytes in a row are to be held back by the link: a train, its head and what counts of it.
const HELD_BACK: u64 = 320 << 10;

/// A probe that is being sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probing {
    /// How much of it is cut into frames, of the last [`PROBE_BYTES`].
    at: u64,
    /// The same, of all padding.
    all: u64,
    /// Bytes in a row that followed each other.
    train: u64,
    /// Bytes of padding, at most.
    most: u64,
    of: ProbeOf,
}

impl Probing {
    /// True if it has shown what it is to show, or will not.
    const fn is_over(&self) -> bool {
        self.all >= self.most || (self.all >= LONG && self.train >= HELD_BACK)
    }
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
        let through_a_card = state.lanes.first().is_some_and(|lane| lane.through_a_card);
        let most = match of {
            ProbeOf::Idle => PROBE_BYTES,
            ProbeOf::InUse if through_a_card => LONGEST,
            ProbeOf::InUse => LONG,
        };
        state.probe = Some(Probing { at: 0, all: 0, train: 0, most, of });
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

/// What a frame of padding tells its receiver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tells {
    /// It comes right after another one, while padding waits in the network.
    pub(super) follows: bool,
    /// It may show what the link carries: on a long way TCP's window is not what holds it back.
    pub(super) link: bool,
}

/// The next frame of the probe.
pub(super) fn next(
    probe: &mut Option<Probing>,
    Tells { follows, link }: Tells,
    counters: &Counters,
) -> Option<Fragment> {
    let now = probe.as_mut()?;
    if now.at >= PROBE_BYTES {
        // All of it is in the connection.
        add(&counters.probes, 1);
        if now.is_over() {
            *probe = None;
            return None;
        }
        now.at = 0;
    }
    let at = now.at;
    now.at += GRANULE as u64;
    now.all += GRANULE as u64;
    now.train = if follows { now.train + GRANULE as u64 } else { 0 };
    add(&counters.padding, GRANULE as u64);
    Some(Fragment::padding(at, follows, link))
}
