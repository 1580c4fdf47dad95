//! What a node measures, as the van's gauge gives it to the machine that evaluates it: what the
//! network's cards say of its connections, and the rounds of its application.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Node, World};
use crate::app::Application;
use crate::network::{CarriedBytes, ChunkArrival, ChunkOf};
use pslite_core::cluster::{Event, Tell};
use pslite_core::measuring::{FragmentKind, Measuring, TimedFragment};
use pslite_core::placement::links::{PROBE_AFTER, Sent};
use pslite_core::wire::native::{PROBE_BYTES, PROBE_HEAD};
use pslite_core::wire::topic::{ProbeRequest, Topic};
use pslite_core::wire::{NodeId, Role, SCHEDULER, is_server, is_worker, server_id, worker_id};

/// A mistake that is planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Mismeasure {
    /// It does not see that senders had more.
    Backlog,
    /// All is there when its last byte is.
    Times,
    /// All comes from one peer.
    Peers,
    /// The first server sees half of the bytes.
    Half,
    /// The first server sees twice the bytes.
    Twice,
    /// Servers say nothing.
    Silent,
    /// It says again what it said first.
    Kept,
    /// It takes the time for which nothing waited for that for which something did.
    Swapped,
    /// It does not see that one message followed another.
    Trains,
    /// The first worker sees twice the bytes.
    HopsTwice,
    /// It sends no probe.
    Probes,
}

impl<A: Application> Node<A> {
    /// Looks what there is to measure, and tells the scheduler.
    pub(super) fn measure(&mut self, world: &mut World<'_, A::Ledger>) {
        let me = self.cluster.me();
        if !self.options.measures || me.role == Role::Scheduler || !self.cluster.is_ready() {
            return;
        }
        let (id, now) = (me.id, self.clock.read(world.now));
        let measuring =
            self.measuring.get_or_insert_with(|| Measuring::new(id, now, Some(PROBE_AFTER)));
        let came = world.network.take_came(self.process).into_iter();
        let mistake = self.options.mismeasures;
        let came = came.flat_map(|(peer, fragment)| timed(peer, fragment));
        measuring.received(came.map(|fragment| mistaken(mistake, id, fragment)));
        measuring.look_at_idle(now, || self.native.keys().copied().collect());
        let native = &self.native;
        let sent = || {
            let sent = native.iter().filter_map(|(peer, connection)| {
                let carried = world.network.carried(world.now, *connection)?;
                let CarriedBytes { bytes, padding, busy, held } = carried;
                let swapped = mistake == Some(Mismeasure::Swapped);
                let held = if swapped { busy.saturating_sub(held) } else { held };
                Some((*peer, Sent { bytes, padding, busy, held, ..Sent::default() }))
            });
            sent.collect::<BTreeMap<NodeId, Sent>>()
        };
        measuring.look_at_sent(now, sent, Vec::new);
        let report = measuring.tell(now, &self.app.take_rounds(), None);
        let report = match mistake {
            Some(Mismeasure::Silent) if is_server(id) => None,
            Some(Mismeasure::Kept) => {
                report.map(|report| self.first_report.get_or_insert(report).clone())
            }
            _ => report,
        };
        if let Some(bytes) = report {
            let word = Tell { to: SCHEDULER, topic: Topic::Measure, bytes };
            self.event(world, Event::Tell(vec![word]));
        }
    }

    /// The scheduler asks for a probe.
    pub(super) fn asked_to_probe(&self, world: &mut World<'_, A::Ledger>, request: &[u8]) {
        let Some(ProbeRequest { to }) = ProbeRequest::read(request) else { return };
        // As the van does (`van/topics`).
        let in_use = is_worker(self.cluster.me().id) && is_worker(to);
        let forgets = self.options.mismeasures == Some(Mismeasure::Probes);
        if let Some(connection) = self.native.get(&to).filter(|_| !forgets) {
            world.network.probe(world.now, *connection, in_use);
        }
    }

    /// Pieces have moved.
    pub(super) fn switched(&mut self, now: Duration) {
        self.measuring.iter_mut().for_each(|measuring| measuring.switched(now));
    }
}

/// A fragment as a node with that mistake measures it.
fn mistaken(mistake: Option<Mismeasure>, me: NodeId, fragment: TimedFragment) -> TimedFragment {
    let first = me == server_id(0);
    match mistake {
        Some(Mismeasure::Backlog) => TimedFragment { more: false, ..fragment },
        Some(Mismeasure::Times) if first => TimedFragment { first: fragment.last, ..fragment },
        Some(Mismeasure::Peers) => {
            let peer = if is_server(me) { worker_id(0) } else { server_id(0) };
            TimedFragment { peer, ..fragment }
        }
        Some(Mismeasure::Half) if first => TimedFragment { bytes: fragment.bytes / 2, ..fragment },
        Some(Mismeasure::Twice) if first => TimedFragment { bytes: fragment.bytes * 2, ..fragment },
        Some(Mismeasure::HopsTwice) if me == worker_id(0) => {
            TimedFragment { bytes: fragment.bytes * 2, ..fragment }
        }
        Some(Mismeasure::Trains) => TimedFragment { follows: false, ..fragment },
        _ => fragment,
    }
}

/// As a data plane tells of it: of a probe only the part behind its head is timed.
fn timed(peer: NodeId, fragment: ChunkArrival) -> Vec<TimedFragment> {
    let ChunkArrival { bytes, first, last, more, follows, of, .. } = fragment;
    let kind = match of {
        ChunkOf::Message => FragmentKind::Message,
        ChunkOf::Probe | ChunkOf::Padding => FragmentKind::Padding,
    };
    let whole = TimedFragment { peer, bytes, head: 0, first, last, more, follows, kind };
    if of != ChunkOf::Probe {
        return vec![whole];
    }
    let first = first + (last - first) / 2;
    let bytes = PROBE_BYTES - PROBE_HEAD;
    let (more, follows, kind) = (true, true, FragmentKind::Probe);
    vec![whole, TimedFragment { bytes, first, more, follows, kind, ..whole }]
}
