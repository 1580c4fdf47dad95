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

fn told(bytes: &Bytes, from: NodeId) -> Measured {
    Measured::decode(from, bytes).unwrap()
}

#[test]
fn a_node_tells_of_the_rounds_that_it_is_given() {
    let state = state("worker", worker_id(0), &[]);
    let gauge = Gauge::default();
    assert_eq!(gauge.look(&state, None::<&Fake>, &[], None), None, "nothing was measured");
    let servers = vec![(server_id(0), 0.5)];
    let (begun, iteration, computing) = (Duration::ZERO, 1.5, 0.25);
    let round = Round { number: 7, begun, seconds: 1.0, iteration, computing, servers };
    std::thread::sleep(Duration::from_millis(210));
    let report = gauge.look(&state, None::<&Fake>, &[round], None).unwrap();
    assert_eq!(told(&report, worker_id(0)).progress, Some(7));
}

#[test]
fn a_server_tells_how_busy_it_was_and_its_card_is_set_if_that_is_wanted() {
    let meter = Fake::default();
    let shares = state("server", server_id(0), &[]);
    let gauge = Gauge::default();
    gauge.look(&shares, Some(&meter), &[], Some(Duration::ZERO));
    // The node's clock takes a longer time without a look at it for a pause.
    for _ in 0..11 {
        std::thread::sleep(Duration::from_millis(100));
        shares.now();
    }
    let report = gauge.look(&shares, Some(&meter), &[], Some(Duration::from_millis(500))).unwrap();
    let busy = told(&report, server_id(0)).busy.unwrap();
    assert!(busy > 0.0 && busy <= 0.5, "{busy}");
    assert_eq!(meter.cards.swap(0, Ordering::Relaxed), 2);
    let alone = state("server", server_id(0), &[("PSLITE_SHARE_INFLOW", "0")]);
    Gauge::default().look(&alone, Some(&meter), &[], None);
    let worker = state("worker", worker_id(0), &[]);
    Gauge::default().look(&worker, Some(&meter), &[], None);
    assert_eq!(meter.cards.load(Ordering::Relaxed), 0, "a worker's card is nobody's to share");
}
