//! What is known of links and cards on long ways, where what comes is uneven for many rounds.

use std::time::Duration;

use super::tests::report;
use super::{CardCarried, Network, RateReport, Receiver, Sample};
use crate::wire::NodeId;

const WAY: Duration = Duration::from_millis(80);
/// Bytes per second of the card.
const CARD: f64 = 12e6;

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// A server over a way that takes so long, to which two workers send.
struct FarServer {
    receiver: Receiver,
    now: f64,
}

impl FarServer {
    fn new(way: Duration) -> Self {
        let mut receiver = Receiver::new(8);
        [9, 11].into_iter().for_each(|peer| receiver.add_link(peer, Duration::ZERO));
        receiver.ways([(9, way), (11, way)].into_iter());
        Self { receiver, now: 0.0 }
    }

    /// For so long both have more to send, and so much comes from each, in bytes per second.
    fn comes(&mut self, time: f64, from: [(NodeId, f64); 2]) {
        let steps = (time / 0.02).round() as u32;
        for _ in 0..steps {
            let (first, last) = (seconds(self.now), seconds(self.now + 0.02));
            for (peer, rate) in from {
                let bytes = (rate * 0.02) as u64;
                let sample = Sample { peer, bytes, head: 0, first, last, backlogged: true };
                self.receiver.received(&sample);
            }
            self.now += 0.02;
        }
    }

    /// Something got lost: what comes behind it is there at once when that was sent again.
    fn stalls(&mut self, time: f64) {
        let share = |part: f64| [(9, CARD * part / 2.0), (11, CARD * part / 2.0)];
        self.comes(time, share(0.2));
        self.comes(0.1, share(0.8 * time / 0.1 + 1.0));
    }

    fn down(&self) -> f64 {
        self.receiver.down(seconds(self.now + 1.0)).map_or(0.0, |down| down.rate)
    }
}

/// What a stall keeps back and what comes after it belong together.
#[test]
fn a_stall_makes_a_card_neither_slow_nor_fast() {
    let measured = |way| {
        let mut server = FarServer::new(way);
        for _ in 0..8 {
            server.stalls(0.22);
        }
        server.down()
    };
    let far = measured(WAY);
    assert!((0.85 * CARD..1.25 * CARD).contains(&far), "{far}");
    // On a short way nothing stalls so long, and a change must be seen soon.
    let near = measured(Duration::from_millis(1));
    assert!(near > 1.4 * CARD, "{near}");
}

/// TCP's connections share a card as they come. On a long way they do so for rounds, and what one
/// of them had at its best is what its link can do at least.
#[test]
fn the_best_share_of_a_minute_counts_on_a_long_way() {
    let shares = |way| {
        let mut server = FarServer::new(way);
        server.comes(3.0, [(9, 0.8 * CARD), (11, 0.2 * CARD)]);
        server.comes(3.0, [(9, 0.2 * CARD), (11, 0.8 * CARD)]);
        [9, 11].map(|peer| {
            let link = server.receiver.link(peer, seconds(server.now)).unwrap();
            (link.rate / CARD * 10.0).round() / 10.0
        })
    };
    assert_eq!(shares(WAY), [0.8, 0.8]);
    assert_eq!(shares(Duration::from_millis(1)), [0.2, 0.8]);
}

/// What was seen in the lab, of three equal servers in the first second: only one of two workers'
/// links was measured, at a moment at which the other one had nearly all.
#[test]
fn a_share_of_a_moment_is_no_card() {
    let unknown = |carried, links: &[(NodeId, f64, f64)]| RateReport {
        down: None,
        carried,
        ..report(10, 1.0, links)
    };
    let down = |carried, links: &[(NodeId, f64, f64)]| {
        let mut network = Network::default();
        network.report(seconds(1.0), &report(8, 95.0, &[(9, 60.0, 0.0), (11, 60.0, 0.0)]));
        network.report(seconds(1.0), &unknown(carried, links));
        network.now().cards(&[10]).unwrap()[0].down
    };
    let carried = |down| CardCarried { down, up: 0.0 };
    // Held up, as far as its links show; but more came.
    assert_eq!(down(carried(0.0), &[(11, 24.0, 0.0)]), 24.0);
    assert_eq!(down(carried(70.0), &[(11, 24.0, 0.0)]), 95.0, "as fast as the fastest");
    // Its links explain what came.
    assert_eq!(down(carried(28.0), &[(11, 24.0, 0.0)]), 24.0);
    assert_eq!(down(carried(f64::NAN), &[(11, 24.0, 0.0)]), 24.0, "no rate");
}

/// A card that was measured is not cut to what a part of its links had. What it carried before
/// they were measured says nothing: it may have become slow since.
#[test]
fn a_card_is_not_cut_to_what_shares_are() {
    let down = |carried_at: f64, oldest: f64| {
        let mut network = Network::default();
        let carried = CardCarried { down: 90.0, up: 0.0 };
        let told = |links: &[(NodeId, f64, f64)]| {
            let mut told = report(8, 95.0, links);
            let age = seconds(5.0 - oldest);
            told.links.iter_mut().for_each(|link| link.oldest = age);
            told
        };
        network.report(seconds(carried_at), &RateReport { carried, ..told(&[]) });
        network.report(seconds(5.0), &told(&[(9, 12.0, 0.0), (11, 20.0, 0.0)]));
        network.now().down(8).unwrap().rate
    };
    assert_eq!(down(3.0, 2.0), 95.0);
    assert_eq!(down(3.0, 4.0), 32.0, "it has become slow");
}

/// What goes out in a second is told once, whatever held it back.
#[test]
fn a_sender_tells_what_it_carried() {
    use super::{Sender, Sent};
    let mut sender = Sender::new(8, Duration::ZERO);
    let mut bytes = 0;
    let mut look = |quarter: u32, more: u64| {
        bytes += more;
        let sent = [(9, Sent { bytes, ..Sent::default() })].into();
        sender.sent(Duration::from_millis(250) * quarter, sent, None);
        sender.take_carried()
    };
    let told: Vec<f64> = [(1, 0), (2, 100), (3, 300), (4, 100)].map(|(at, n)| look(at, n)).into();
    assert_eq!(told, [0.0, 0.0, 0.0, 500.0]);
    assert_eq!((look(5, 100), look(6, 0), look(7, 0)), (600.0, 500.0, 200.0));
}
