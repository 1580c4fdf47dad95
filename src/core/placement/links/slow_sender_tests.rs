//! What is remembered of a server whose card holds up what it sends.

use super::tests::{report, seconds};
use super::{CardCarried, Estimate, Network, RateReport};

/// What server 8 told of itself: it can send 20, as measured; its card sent `carried`.
fn told_by_server(carried: f64) -> RateReport {
    let own = Estimate { rate: 20.0, lower: 20.0, confidence: 1.0, samples: 8 };
    let carried = CardCarried { down: 60.0, up: carried };
    RateReport { up: Some(own), carried, ..report(8, 80.0, &[]) }
}

/// Server 8 sends far more slowly than it receives. Its workers get more from server 10, to which
/// it sends copies at that rate.
fn with_a_slow_sender(copies: f64, carried: f64) -> Network {
    let mut network = Network::default();
    for worker in [9, 11] {
        let links = [(8, 6.7, 0.0), (10, 40.0, 0.0)];
        network.report(seconds(1.0), &report(worker, 90.0, &links));
    }
    network.report(seconds(1.0), &report(10, 80.0, &[(8, copies, 0.0)]));
    network.report(seconds(1.0), &told_by_server(carried));
    network
}

/// The card of a server that sends copies carries what its workers get and the copies.
#[test]
fn what_copies_take_is_no_more_than_a_server_can_send() {
    let up = |copies, carried| with_a_slow_sender(copies, carried).now().cards(&[8]).unwrap()[0].up;
    assert_eq!(up(6.6, 20.0), 20.0);
    // What went out is far more than these links: there are others, or they have shares.
    assert_eq!(up(6.6, 40.0), 80.0);
    assert_eq!(up(1.0, 20.0), 80.0);
}

/// Workers do not always get more from another server at the same time.
#[test]
fn a_slow_sender_is_slow_until_it_sends_more() {
    let mut network = with_a_slow_sender(6.6, 20.0);
    for worker in [9, 11] {
        let links = [(8, 6.7, 0.0), (10, 5.0, 0.0)];
        network.report(seconds(2.0), &report(worker, 90.0, &links));
    }
    let mut up = |carried| {
        network.report(seconds(2.0), &told_by_server(carried));
        network.now().cards(&[8]).unwrap()[0].up
    };
    assert_eq!([up(20.0), up(24.0)], [20.0; 2]);
    assert_eq!([up(26.0), up(20.0)], [80.0; 2]);
}

/// A server that holds little is not kept busy again. It can receive more, so the network is
/// another one.
#[test]
fn a_slow_sender_is_no_longer_slow_when_its_card_has_become_faster() {
    let mut network = with_a_slow_sender(6.6, 20.0);
    let known = |rate, confidence| Estimate { rate, lower: rate, confidence, samples: 8 };
    let mut up = |second, down| {
        let (up, down) = (Some(known(20.0, 0.3)), Some(known(down, 1.0)));
        network.report(seconds(second), &RateReport { up, down, ..told_by_server(5.0) });
        network.now().cards(&[8]).unwrap()[0].up
    };
    assert_eq!(up(2.0, 80.0), 20.0);
    assert_eq!(up(3.0, 160.0), 160.0);
}
