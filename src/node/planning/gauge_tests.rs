use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::running::fake;
use pslite_core::placement::measured::Measured;
use pslite_core::wire::{server_id, worker_id};

/// A data plane that one worker has sent to.
#[derive(Default)]
struct Fake {
    samples: Mutex<Vec<RateSample>>,
    cards: AtomicU64,
}

impl Meter for Fake {
    fn take_rates(&self) -> Vec<RateSample> {
        std::mem::take(&mut lock(&self.samples))
    }

    fn senders(&self) -> Vec<NodeId> {
        vec![worker_id(0)]
    }

    fn sent(&self) -> BTreeMap<NodeId, Sent> {
        BTreeMap::new()
    }

    fn unconnected(&self) -> Vec<NodeId> {
        Vec::new()
    }

    fn set_card(&self, _: u64, _: u64) {
        self.cards.fetch_add(1, Ordering::Relaxed);
    }
}

fn state(role: &str, id: NodeId, more: &[(&str, &str)]) -> Arc<NodeState> {
    Arc::new(NodeState::new(fake::settings(role, more), id))
}

#[test]
fn who_measured_nothing_tells_nothing() {
    let state = state("worker", worker_id(0), &[]);
    assert_eq!(NodeGauge::default().look(&state, None::<&Fake>, &[], None), None);
}

#[test]
fn what_the_data_plane_counts_is_told() {
    let state = state("server", server_id(0), &[]);
    let (meter, gauge) = (Fake::default(), NodeGauge::default());
    let now = state.started + Duration::from_secs(3);
    let sample = |at: u64| RateSample {
        peer: worker_id(0),
        bytes: 1 << 20,
        head: 1 << 10,
        first: now + Duration::from_millis(20 * at),
        last: now + Duration::from_millis(20 * at + 10),
        more: true,
        follows: at > 0,
        of: SampleOf::Message,
    };
    lock(&meter.samples).extend((0..100).map(sample));
    let report = gauge.look(&state, Some(&meter), &[], None).unwrap();
    let links = Measured::decode(server_id(0), &report).unwrap().links.unwrap();
    assert_eq!(links.links.len(), 1);
}

#[test]
fn the_card_of_a_server_is_set_if_that_is_wanted() {
    let meter = Fake::default();
    let (shares, gauge) = (state("server", server_id(0), &[]), NodeGauge::default());
    (0..2).for_each(|_| _ = gauge.look(&shares, Some(&meter), &[], Some(Duration::ZERO)));
    assert_eq!(meter.cards.swap(0, Ordering::Relaxed), 2);
    let alone = state("server", server_id(0), &[("PSLITE_SHARE_INFLOW", "0")]);
    NodeGauge::default().look(&alone, Some(&meter), &[], None);
    let worker = state("worker", worker_id(0), &[]);
    NodeGauge::default().look(&worker, Some(&meter), &[], None);
    assert_eq!(meter.cards.load(Ordering::Relaxed), 0, "a worker's card is nobody's to share");
}
