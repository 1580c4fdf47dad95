//! What a node measures, from the first measurement on: reads the native data plane and the
//! kernel's counts, and gives them to the machine that evaluates them ([`Measuring`]). That returns
//! the report for the scheduler. The node's clock calls it. Names the transport's counters; no van
//! and no customer.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::running::NodeState;
use crate::sync::lock;
use crate::threads;
use pslite_core::kv::rounds::Round;
use pslite_core::measuring::{FragmentKind, Measuring, TimedFragment};
use pslite_core::placement::links::Sent;
use pslite_core::wire::{NodeId, Role};
use pslite_transport::native::{NativeTransport, RateSample, SampleOf, SentOverTcp};

/// What a data plane counts, and what it is told of the node's card.
pub(crate) trait Meter {
    /// The samples since the last call.
    fn take_rates(&self) -> Vec<RateSample>;
    /// The nodes that can send to this one over TCP.
    fn senders(&self) -> Vec<NodeId>;
    /// What went to each node over TCP so far.
    fn sent(&self) -> BTreeMap<NodeId, Sent>;
    /// The nodes that it has been told to connect to, and has no connection to.
    fn unconnected(&self) -> Vec<NodeId>;
    /// Bytes per second that this node can receive and send, all peers together; 0: not known.
    fn set_card(&self, inflow: u64, outflow: u64);
}

impl Meter for NativeTransport {
    fn take_rates(&self) -> Vec<RateSample> {
        Self::take_rates(self).into()
    }

    fn senders(&self) -> Vec<NodeId> {
        self.senders_over_tcp()
    }

    fn sent(&self) -> BTreeMap<NodeId, Sent> {
        let sent = self.sent_over_tcp().into_iter();
        let of = |to: SentOverTcp| {
            let SentOverTcp { peer, bytes, padding, busy, held, patience, round_trip } = to;
            (peer, Sent { bytes, padding, busy, held, patience, round_trip })
        };
        sent.map(of).collect()
    }

    fn unconnected(&self) -> Vec<NodeId> {
        Self::unconnected(self)
    }

    fn set_card(&self, inflow: u64, outflow: u64) {
        self.set_inflow(inflow);
        self.set_outflow(outflow);
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct NodeGauge(Mutex<Option<Measuring>>);

impl NodeGauge {
    /// A node is gone.
    pub(crate) fn forget(&self, node: NodeId) {
        if let Some(measuring) = &mut *lock(&self.0) {
            measuring.forget(node);
        }
    }

    /// Pieces have moved.
    pub(crate) fn switched(&self, now: Duration) {
        if let Some(measuring) = &mut *lock(&self.0) {
            measuring.switched(now);
        }
    }

    /// What is to be told now, if anything. `rounds` are over since the last call; `served` is how
    /// long a server has been busy with requests so far, if this is one.
    pub(crate) fn look(
        &self,
        state: &NodeState,
        meter: Option<&impl Meter>,
        rounds: &[Round],
        served: Option<Duration>,
    ) -> Option<Bytes> {
        let (now, settings) = (state.now(), &state.settings);
        let mut measuring = lock(&self.0);
        let measuring = measuring
            .get_or_insert_with(|| Measuring::new(state.my_id(), now, settings.probe_after));
        if let Some(meter) = meter {
            let samples = meter.take_rates().into_iter();
            measuring.received(samples.map(|sample| fragment(state.started, sample)));
            measuring.look_at_idle(now, || meter.senders());
            measuring.look_at_sent(now, || meter.sent(), || meter.unconnected());
            if settings.role == Role::Server {
                measuring.look_at_work(now, threads::ran);
                if settings.share_inflow {
                    let rate = |rate: Option<f64>| rate.map_or(0, |rate| rate as u64);
                    meter.set_card(rate(measuring.inflow(now)), rate(measuring.outflow(now)));
                }
            }
        }
        measuring.tell(now, rounds, served)
    }
}

/// A sample, in the time of the van that started then.
fn fragment(started: Instant, sample: RateSample) -> TimedFragment {
    let RateSample { peer, bytes, head, first, last, more, follows, of } = sample;
    let [first, last] = [first, last].map(|at| at.saturating_duration_since(started));
    let kind = match of {
        SampleOf::Message => FragmentKind::Message,
        SampleOf::Padding => FragmentKind::Padding,
        SampleOf::Probe => FragmentKind::Probe,
    };
    TimedFragment { peer, bytes, head, first, last, more, follows, kind }
}

#[cfg(test)]
#[path = "gauge_tests.rs"]
mod tests;
