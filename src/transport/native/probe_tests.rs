//! Probes between two transports of one process.

use super::tests::{Received, listener, number_of, options, send, sender, wait_until};
use super::*;
use pslite_core::wire::native::PROBE_BYTES;

/// Probes counted at the sender and at the receiver.
fn probes(from: &NativeTransport, at: &NativeTransport) -> (u64, u64) {
    let count = |transport: &NativeTransport| transport.counters().iter().map(|c| c.probes).sum();
    (count(from), count(at))
}

/// A sender and a receiver, between which message 1 has gone.
fn connected(carriers: Carriers) -> (Arc<NativeTransport>, Arc<NativeTransport>, Received) {
    let (at, endpoint) = listener(options(carriers));
    let received = Received::by(&at);
    let from = sender(options(carriers), &endpoint);
    send(&from, 1, 0);
    assert_eq!(number_of(&received.next()), 1);
    (from, at, received)
}

fn is_confirmed(transport: &NativeTransport) -> bool {
    transport.counters().iter().filter(|c| c.outgoing).all(|c| c.unconfirmed == 0)
}

#[test]
fn an_idle_channel_is_probed_over_tcp() {
    let (from, at, received) = connected(Carriers::Tcp);
    assert_eq!(at.senders_over_tcp(), [9]);
    for round in 1..=3 {
        wait_until("the channel stays busy", || is_confirmed(&from));
        let before = from.counters()[0].bytes;
        wait_until("no probe can be sent", || from.probe(8, ProbeOf::Idle));
        wait_until("no whole probe came", || probes(&from, &at) == (round, round));
        assert!(from.counters()[0].bytes >= before + PROBE_BYTES);
        let samples: Vec<_> =
            at.take_rates().into_iter().filter(|s| s.of == SampleOf::Probe).collect();
        let [sample] = samples[..] else { panic!("{samples:?}") };
        assert_eq!((sample.peer, sample.bytes), (9, PROBE_BYTES / 2));
        assert!(sample.head <= sample.bytes && sample.first <= sample.last);
        // Nothing of it is a message.
        send(&from, 10 + round as u32, 0);
        assert_eq!(number_of(&received.next()), 10 + round as u32);
    }
    received.nothing();
}

#[test]
fn shared_memory_and_unknown_peers_are_not_probed() {
    let (from, at, _received) = connected(Carriers::Shm);
    wait_until("it is not confirmed", || is_confirmed(&from));
    assert!(!from.probe(8, ProbeOf::Idle) && !from.probe(10, ProbeOf::Idle));
    assert_eq!(at.senders_over_tcp(), [0_i32; 0]);
    assert_eq!(probes(&from, &at), (0, 0));
}

/// A channel whose peer has not confirmed everything is busy; and what is sent during a probe ends
/// it.
#[test]
fn data_go_before_probes() {
    let (at, endpoint) = listener(options(Carriers::Tcp));
    let from = sender(options(Carriers::Tcp), &endpoint);
    send(&from, 1, 0);
    assert!(!from.probe(8, ProbeOf::Idle), "nobody reads, so nothing is confirmed");
    let received = Received::by(&at);
    assert_eq!(number_of(&received.next()), 1);
    let mut sent = 1;
    for _ in 0..50 {
        wait_until("it is not confirmed", || is_confirmed(&from));
        if from.probe(8, ProbeOf::Idle) {
            sent += 1;
            send(&from, sent, 0);
            assert_eq!(number_of(&received.next()), sent);
        }
    }
    assert!(sent > 1, "not one was begun");
    // Those that came to their end before the data did so at both ends; of the others nothing is
    // left.
    wait_until("half a probe was counted", || {
        let (ours, theirs) = probes(&from, &at);
        ours == theirs
    });
    received.nothing();
}

/// The probe of a link in use begins while something is not confirmed, is longer, and goes on after
/// what is sent meanwhile.
#[test]
fn a_link_in_use_is_probed_too() {
    let (from, at, received) = connected(Carriers::Tcp);
    wait_until("no probe can be sent", || from.probe(8, ProbeOf::InUse));
    for number in 2..20 {
        send(&from, number, 0);
        assert_eq!(number_of(&received.next()), number);
    }
    wait_until("not all of it came", || probes(&from, &at).0 == 2);
    let before = from.counters()[0].bytes;
    assert!(before >= 2 * PROBE_BYTES, "{before}");
    wait_until("padding is no sample", || {
        at.take_rates().iter().any(|sample| sample.of == SampleOf::Padding)
    });
}
