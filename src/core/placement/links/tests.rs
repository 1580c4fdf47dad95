//! Traffic played to the estimators: what they say against what was played.

use std::time::Duration;

use super::*;
use crate::placement::tuning::{PROBE_AFTER, SAMPLES};
use crate::random::Random;
use crate::wire::NodeId;
use crate::wire::native::PROBE_BYTES;

const MB: f64 = 1e6;
const PART: u64 = 256 << 10;

pub(super) fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Parts that come one after the other at a rate, until the time is over; returns when the last
/// ended.
fn stream(receiver: &mut Receiver, peer: NodeId, rate: f64, from: f64, to: f64) -> f64 {
    let (mut now, step) = (from, PART as f64 / rate);
    while now + step <= to {
        let (first, last) = (seconds(now), seconds(now + step));
        receiver.received(&Sample { peer, bytes: PART, head: 0, first, last, backlogged: true });
        now += step;
    }
    now
}

fn within(estimate: Option<Estimate>, rate: f64, fraction: f64) {
    let estimate = estimate.unwrap();
    assert!((estimate.rate - rate).abs() <= fraction * rate, "{estimate:?}, not {rate}");
    assert!(estimate.is_sane() && estimate.lower <= estimate.rate);
}

#[test]
fn a_stream_is_measured_and_idle_senders_are_not() {
    let mut receiver = Receiver::new(8);
    stream(&mut receiver, 9, 20.0 * MB, 0.0, 2.0);
    within(receiver.link(9, seconds(2.0)), 20.0 * MB, 0.01);
    assert_eq!(receiver.link(9, seconds(2.0)).unwrap().samples, SAMPLES as u32);
    // A sender that has nothing more says nothing about the link, however slowly it comes.
    for i in 0..100 {
        let (first, last) = (seconds(3.0 + f64::from(i)), seconds(3.9 + f64::from(i)));
        let sample = Sample { peer: 9, bytes: PART, head: 0, first, last, backlogged: false };
        receiver.received(&sample);
        receiver.received(&Sample { peer: 11, ..sample });
    }
    within(receiver.link(9, seconds(103.0)), 20.0 * MB, 0.01);
    assert_eq!(receiver.link(11, seconds(103.0)), None);
}

/// One part in four lay in a buffer and is read in no time, and each takes 20 % more or less.
#[test]
fn odd_samples_do_not_decide() {
    let (mut receiver, mut chance, mut now) = (Receiver::new(8), Random::new(3), 0.0);
    for i in 0..200 {
        let buffered = i % 4 == 3;
        let step = PART as f64 / (20.0 * MB) * (0.8 + 0.4 * chance.unit());
        let read = if buffered { 1e-5 } else { step };
        let (first, last) = (seconds(now + step - read), seconds(now + step));
        receiver.received(&Sample { peer: 9, bytes: PART, head: 0, first, last, backlogged: true });
        now += step;
    }
    let estimate = receiver.link(9, seconds(now));
    within(estimate, 20.0 * MB, 0.06);
    let estimate = estimate.unwrap();
    assert!(estimate.lower > 0.9 * estimate.rate, "{estimate:?}");
}

#[test]
fn the_head_of_a_message_took_no_time() {
    let mut receiver = Receiver::new(8);
    for i in 0..8 {
        // 2 MB, of which 1 MB was there at once; 0.1 s for the rest; a pause longer than links
        // make.
        let (first, last) = (seconds(2.0 * f64::from(i)), seconds(2.0 * f64::from(i) + 0.1));
        let bytes = 2_000_000;
        receiver.received(&Sample {
            peer: 9,
            bytes,
            head: 1_000_000,
            first,
            last,
            backlogged: true,
        });
    }
    within(receiver.link(9, seconds(14.1)), 10.0 * MB, 1e-6);
}

#[test]
fn a_link_that_becomes_slow_is_seen_within_a_second() {
    let mut receiver = Receiver::new(8);
    let end = stream(&mut receiver, 9, 40.0 * MB, 0.0, 5.0);
    let end = stream(&mut receiver, 9, 10.0 * MB, end, 6.0);
    within(receiver.link(9, seconds(end)), 10.0 * MB, 0.05);
    let end = stream(&mut receiver, 9, 80.0 * MB, end, 7.0);
    within(receiver.link(9, seconds(end)), 80.0 * MB, 0.05);
}

#[test]
fn confidence_halves_every_ten_seconds() {
    let mut receiver = Receiver::new(8);
    let end = stream(&mut receiver, 9, 20.0 * MB, 0.0, 2.0);
    let fresh = receiver.link(9, seconds(end)).unwrap();
    let resting = receiver.link(9, seconds(end + 20.0)).unwrap();
    assert!((resting.confidence - 0.25).abs() < 1e-9 && resting.lower == fresh.lower);
    let stale = receiver.link(9, seconds(end + 50.0)).unwrap();
    assert!((fresh.confidence - 1.0).abs() < 1e-9 && (stale.confidence - 0.03125).abs() < 1e-9);
    assert!(
        stale.lower < 0.85 * fresh.lower
            && stale.lower > 0.7 * fresh.lower
            && stale.rate == fresh.rate
    );
    let twice = receiver.link(9, seconds(end + 10.0)).unwrap().aged(seconds(40.0));
    assert!((twice.lower - stale.lower).abs() < 1e-6 * stale.lower, "{twice:?} {stale:?}");
}

#[test]
fn a_node_is_measured_when_several_send() {
    let mut receiver = Receiver::new(8);
    stream(&mut receiver, 9, 40.0 * MB, 0.0, 3.0);
    assert_eq!(receiver.down(seconds(3.0)), None);
    for peer in [9, 11, 13, 15] {
        stream(&mut receiver, peer, 10.0 * MB, 3.0, 6.0);
    }
    within(receiver.down(seconds(6.0)), 40.0 * MB, 0.06);
    // Half of each second is computing: still the rate while something came.
    let mut receiver = Receiver::new(8);
    for second in 0..5 {
        for peer in [9, 11] {
            stream(&mut receiver, peer, 20.0 * MB, f64::from(second), f64::from(second) + 0.5);
        }
    }
    within(receiver.down(seconds(5.0)), 40.0 * MB, 0.06);
    // Some seconds after the card became slow.
    for peer in [9, 11] {
        stream(&mut receiver, peer, 5.0 * MB, 5.0, 10.0);
    }
    within(receiver.down(seconds(10.0)), 10.0 * MB, 0.05);
}

/// One slow server keeps a worker waiting, and fast ones send it only now and then: that says
/// nothing of its card.
#[test]
fn a_worker_knows_what_it_received_when_all_sent() {
    let mut receiver = Receiver::new(9);
    for peer in [8, 10, 12] {
        stream(&mut receiver, peer, 20.0 * MB, 0.0, 3.0);
    }
    stream(&mut receiver, 14, 2.0 * MB, 0.0, 3.0);
    within(receiver.down(seconds(3.0)), 62.0 * MB, 0.05);
    for half in 0..40 {
        let at = 3.0 + 0.5 * f64::from(half);
        stream(&mut receiver, 14, 2.0 * MB, at, at + 0.5);
        let (first, last) = (seconds(at), seconds(at + 0.01));
        let sample = Sample { peer: 8, bytes: PART, head: 0, first, last, backlogged: true };
        receiver.received(&sample);
        receiver.received(&Sample { first: last, backlogged: false, ..sample });
    }
    within(receiver.down(seconds(23.0)), 62.0 * MB, 0.05);
    assert!(
        receiver
            .report(seconds(23.0))
            .unwrap()
            .links
            .iter()
            .all(|link| { (link.peer == 14 && link.recent > MB) || link.recent == 0.0 })
    );
    // Two that send less all the time are no better evidence, as long as others were faster within
    // a minute.
    for peer in [12, 14] {
        stream(&mut receiver, peer, 2.0 * MB, 23.0, 43.0);
    }
    within(receiver.down(seconds(43.0)), 62.0 * MB, 0.05);
    for peer in [12, 14] {
        stream(&mut receiver, peer, 2.0 * MB, 43.0, 70.0);
    }
    within(receiver.down(seconds(70.0)), 4.0 * MB, 0.1);
}

#[test]
fn reports_come_every_second_or_when_something_changed() {
    let mut receiver = Receiver::new(8);
    assert_eq!(receiver.report(seconds(0.0)), None);
    let mut times = Vec::new();
    for tick in 0..400 {
        let now = f64::from(tick) * 0.01;
        let rate = if tick < 200 { 40.0 } else { 10.0 } * MB;
        let (first, last) = (seconds(now), seconds(now + 0.01));
        let bytes = (rate * 0.01) as u64;
        receiver.received(&Sample { peer: 9, bytes, head: 0, first, last, backlogged: true });
        if receiver.report(last).is_some() {
            times.push(tick);
        }
    }
    // Once a second, and some more while the change at 2 s was seen.
    let steady = times.iter().filter(|tick| **tick < 200).count();
    assert!((2..=3).contains(&steady), "{times:?}");
    assert!(times.iter().any(|tick| (201..270).contains(tick)), "{times:?}");
    assert!(times.len() < 12 && times.windows(2).all(|pair| pair[1] - pair[0] >= 10), "{times:?}");
    assert_eq!(receiver.report(seconds(60.0)).map(|report| report.links.len()), Some(1));
    assert_eq!(receiver.report(seconds(90.0)), None, "nothing came since");
}

/// A node with a thousand senders tells of those that changed.
#[test]
fn a_report_is_never_long() {
    let mut receiver = Receiver::new(8);
    let mut told = std::collections::BTreeSet::new();
    for second in 0..4 {
        for peer in 0..1000 {
            let at = f64::from(second) + 0.5;
            stream(&mut receiver, 9 + 2 * peer, 20.0 * MB, at, at + 0.2);
        }
        let report = receiver.report(seconds(f64::from(second) + 0.9)).unwrap();
        assert_eq!(report.links.len(), MOST_REPORTED);
        told.extend(report.links.iter().map(|link| link.peer));
    }
    assert_eq!(told.len(), 1000);
}

#[test]
fn idle_links_want_a_probe() {
    let mut receiver = Receiver::new(8);
    receiver.add_link(9, seconds(0.0));
    receiver.add_link(11, seconds(0.0));
    stream(&mut receiver, 11, 20.0 * MB, 0.0, 20.0);
    let mut asked = Vec::new();
    for half in 1..=240 {
        let now = 0.5 * f64::from(half);
        let idle = receiver.take_idle(seconds(now), PROBE_AFTER, 8);
        asked.extend(idle.into_iter().map(|peer| (peer, now)));
    }
    let of = |peer| asked.iter().filter(|(p, _)| *p == peer).map(|(_, at)| *at).collect::<Vec<_>>();
    // Each time that it was idle for twice as long, and each half minute.
    assert_eq!(of(9), [2.5, 5.5, 11.5, 23.5, 47.5, 78.0, 108.5]);
    assert_eq!(of(11)[..4], [22.0, 24.5, 29.5, 39.5]);
    // Where there are many, each has its turn.
    assert_eq!(receiver.take_idle(seconds(200.0), PROBE_AFTER, 1), [9]);
    assert_eq!(receiver.take_idle(seconds(200.0), PROBE_AFTER, 1), [11]);
    assert!(receiver.take_idle(seconds(200.0), PROBE_AFTER, 1).is_empty());
    receiver.forget(9);
    assert_eq!(receiver.take_idle(seconds(300.0), PROBE_AFTER, 8), [11]);
}

/// A probe is a sample though it is short, tells of its link what traffic would, and ends the wish
/// for one.
#[test]
fn a_probe_measures_an_idle_link() {
    let mut receiver = Receiver::new(8);
    receiver.add_link(9, seconds(0.0));
    assert_eq!(receiver.link(9, seconds(40.0)), None);
    let probe = Sample {
        peer: 9,
        bytes: PROBE_BYTES / 2,
        head: 1 << 10,
        first: seconds(40.0),
        last: seconds(40.02),
        backlogged: true,
    };
    receiver.probed(&probe);
    let rate = (PROBE_BYTES / 2 - (1 << 10)) as f64 / 0.02;
    within(receiver.link(9, seconds(40.1)), rate, 1e-6);
    assert_eq!(receiver.down(seconds(41.0)), None, "one link is not the card");
    assert_eq!(receiver.report(seconds(41.0)).map(|report| report.links.len()), Some(1));
    // One whose bytes had all arrived before anybody looked says nothing, but the link was heard
    // of.
    receiver.add_link(11, seconds(0.0));
    receiver.probed(&Sample { peer: 11, head: PROBE_BYTES / 2, ..probe });
    assert_eq!(receiver.link(11, seconds(40.1)), None);
}

/// Over a long way TCP's window holds back a probe, and the link and the card may be much faster.
#[test]
fn a_probe_that_the_window_held_back_only_says_that_the_link_is_there() {
    let mut receiver = Receiver::new(8);
    let probe = |peer, at: f64, backlogged| Sample {
        peer,
        bytes: PROBE_BYTES / 2,
        head: 1 << 10,
        first: seconds(at),
        last: seconds(at + 0.6),
        backlogged,
    };
    receiver.probed(&probe(9, 1.0, true));
    let known = receiver.link(9, seconds(2.0)).unwrap();
    receiver.probed(&probe(11, 3.0, false));
    receiver.probed(&probe(9, 4.0, false));
    assert_eq!(receiver.link(11, seconds(5.0)), None);
    assert_eq!(receiver.down(seconds(5.0)), None);
    let later = receiver.link(9, seconds(5.0)).unwrap();
    assert_eq!((later.rate, later.samples), (known.rate, 1));
    assert_eq!(later.confidence, known.confidence, "heard 0.4 s ago, both times");
}

/// A server that holds little gets some parts at once from all workers, now and then: as many as
/// show what it can receive.
#[test]
fn bits_of_time_show_a_card_too() {
    let mut receiver = Receiver::new(8);
    for burst in 0..60 {
        let rate = if burst < 30 { 10.0 * MB } else { 40.0 * MB };
        let from = 0.2 * f64::from(burst);
        for peer in [9, 11] {
            let end = stream(&mut receiver, peer, rate / 2.0, from, from + 0.12);
            let last = seconds(end);
            let end = Sample { peer, bytes: 1, head: 0, first: last, last, backlogged: false };
            receiver.received(&end);
        }
        match burst {
            29 => within(receiver.down(seconds(6.0)), 10.0 * MB, 0.03),
            59 => within(receiver.down(seconds(12.0)), 40.0 * MB, 0.03),
            _ => {}
        }
    }
}

/// At the end of a round two workers are left, which may not have as much under way as fills the
/// card.
#[test]
fn the_last_workers_of_a_round_do_not_show_a_slower_card() {
    let mut receiver = Receiver::new(8);
    let mut second = |peers: &[NodeId], from: f64| {
        for peer in peers {
            stream(&mut receiver, *peer, 10.0 * MB, from, from + 1.0);
        }
        receiver.down(seconds(from + 1.0))
    };
    (0..4).for_each(|from| _ = second(&[9, 11, 13, 15], f64::from(from)));
    within(second(&[9, 11], 4.0), 40.0 * MB, 0.03);
    // But if that is all that comes for some time, it counts.
    (5..9).for_each(|from| _ = second(&[9, 11], f64::from(from)));
    within(second(&[9, 11], 9.0), 20.0 * MB, 0.03);
}

/// A server that became faster while all wait for another one.
#[test]
fn two_probes_show_that_a_card_is_faster() {
    let mut receiver = Receiver::new(8);
    for peer in [9, 11] {
        stream(&mut receiver, peer, 5.0 * MB, 0.0, 5.0);
    }
    let bytes = PROBE_BYTES / 2;
    let mut probe = |peer, at, rate: f64| {
        let (first, last) = (seconds(at), seconds(at + bytes as f64 / rate));
        receiver.probed(&Sample { peer, bytes, head: 0, first, last, backlogged: true });
        let link = receiver.link(peer, last).map_or(0.0, |link| link.rate);
        let down = receiver.down(last).map_or(0.0, |down| down.rate);
        ((down / MB).round(), (link / MB).round())
    };
    assert_eq!(probe(9, 8.0, 30.0 * MB), (10.0, 30.0), "one probe may be wrong");
    assert_eq!(probe(9, 9.0, 30.0 * MB), (10.0, 30.0), "of one peer too");
    assert_eq!(probe(11, 10.0, 25.0 * MB), (25.0, 25.0));
    assert_eq!(probe(9, 11.0, 4.0 * MB), (25.0, 30.0), "a slow one may be its sender's fault");
    // What comes then counts again.
    for peer in [9, 11] {
        stream(&mut receiver, peer, 10.0 * MB, 12.0, 16.0);
    }
    within(receiver.down(seconds(16.0)), 20.0 * MB, 0.03);
}

/// Links between servers are idle, and probed, while workers keep a card full. What it does then is
/// known better than by a probe.
#[test]
fn probes_say_nothing_of_a_card_in_use() {
    let after_probes = |rest: f64| {
        let mut receiver = Receiver::new(8);
        for peer in [9, 11] {
            stream(&mut receiver, peer, 20.0 * MB, 0.0, 5.0);
        }
        let begin = 5.0 + rest;
        for (peer, first) in [(10, begin), (12, begin + 0.1)] {
            let (first, last) = (seconds(first), seconds(first + 0.001));
            let bytes = PROBE_BYTES / 2;
            receiver.probed(&Sample { peer, bytes, head: 0, first, last, backlogged: true });
        }
        receiver.down(seconds(begin + 1.0)).unwrap().rate
    };
    assert!((after_probes(0.0) - 40.0 * MB).abs() < MB);
    assert!((after_probes(1.5) - 40.0 * MB).abs() < MB);
    assert!(after_probes(2.5) > 100.0 * MB, "it has rested, and may have become faster");
}

/// What a link was a minute ago weighs less than a few probes of what it is.
#[test]
fn probes_take_the_place_of_what_was() {
    let mut receiver = Receiver::new(8);
    stream(&mut receiver, 9, 40.0 * MB, 0.0, 2.0);
    for n in 1..=4 {
        within(receiver.link(9, seconds(2.0)), if n < 4 { 40.0 } else { 5.0 } * MB, 0.01);
        let first = 2.0 + 31.0 * f64::from(n);
        let bytes = PROBE_BYTES / 2;
        let last = first + bytes as f64 / (5.0 * MB);
        let (first, last) = (seconds(first), seconds(last));
        receiver.probed(&Sample { peer: 9, bytes, head: 0, first, last, backlogged: true });
    }
    within(receiver.link(9, seconds(127.0)), 5.0 * MB, 0.01);
}

/// A job that rests for ten minutes, with a probe each half minute: its card is trusted as before.
#[test]
fn probes_show_that_a_card_is_still_there() {
    let played = |probes: u32| {
        let mut receiver = Receiver::new(8);
        for number in 0..20 {
            let from = 0.1 * f64::from(number);
            for peer in [9, 11] {
                stream(&mut receiver, peer, 20.0 * MB, from, from + 0.1);
            }
        }
        for n in 1..=probes {
            let (first, last) = (seconds(30.0 * f64::from(n)), seconds(30.0 * f64::from(n) + 0.01));
            let bytes = PROBE_BYTES / 2;
            receiver.probed(&Sample { peer: 9, bytes, head: 0, first, last, backlogged: true });
        }
        receiver.down(seconds(602.0)).unwrap()
    };
    let (with, without) = (played(20), played(0));
    assert_eq!(with.rate, without.rate);
    assert!(
        with.lower > 0.98 * with.rate && without.lower < 0.8 * without.rate,
        "{with:?} {without:?}"
    );
}

/// Messages that make no sense: times that run backwards, no bytes, more head than bytes.
#[test]
fn nonsense_does_no_harm() {
    let mut receiver = Receiver::new(8);
    for (bytes, head, first, last) in [
        (0, 0, 1.0, 2.0),
        (u64::MAX, 0, 1.0, 2.0),
        (PART, u64::MAX, 1.0, 3.0),
        (PART, 0, 9.0, 1.0),
        (PART, 0, 5.0, 5.0),
    ] {
        let (first, last) = (seconds(first), seconds(last));
        for peer in [9, 11] {
            receiver.received(&Sample { peer, bytes, head, first, last, backlogged: true });
        }
    }
    let last = Duration::MAX;
    receiver.received(&Sample {
        peer: 9,
        bytes: PART,
        head: 0,
        first: Duration::ZERO,
        last,
        backlogged: true,
    });
    let report = receiver.report(Duration::MAX);
    let mut network = Network::default();
    network.report(seconds(1.0), &report.unwrap());
}

pub(super) fn report(node: NodeId, down: f64, links: &[(NodeId, f64, f64)]) -> RateReport {
    let sure = |rate: f64| Estimate { rate, lower: rate, confidence: 1.0, samples: 8 };
    let links = links.iter().map(|(peer, rate, recent)| LinkReport {
        peer: *peer,
        estimate: sure(*rate),
        oldest: Duration::ZERO,
        recent: *recent,
    });
    let carried = CardCarried::default();
    RateReport {
        node,
        down: Some(sure(down)),
        up: None,
        pace: None,
        carried,
        links: links.collect(),
    }
}

#[test]
fn reports_become_cards() {
    let mut network = Network::default();
    assert!(network.is_empty() && network.now().cards(&[9, 11]).is_none());
    network.report(seconds(1.0), &report(8, 40.0, &[(9, 10.0, 10.0), (11, 30.0, 30.0)]));
    network.report(seconds(1.0), &report(10, 20.0, &[(9, 10.0, 10.0), (11, 12.0, 12.0)]));
    network.report(seconds(1.0), &report(12, 60.0, &[(9, 30.0, 10.0), (11, 30.0, 18.0)]));
    let cards = network.now().cards(&[9, 11]).unwrap();
    // Of the links of 9 two are slower than what those servers get from 11; the third one is not.
    assert_eq!(
        (network.now().up(9).unwrap().rate, network.now().up(11).unwrap().rate),
        (30.0, 60.0)
    );
    assert_eq!(cards.iter().map(|card| card.up).collect::<Vec<_>>(), [60.0, 60.0]);
    // Nobody reported what workers receive: they may be as fast as anybody.
    assert!(cards.iter().all(|card| !card.known && card.down == 60.0));
    let servers = network.now().cards(&[8, 10, 12, 14]).unwrap();
    assert_eq!(servers.iter().map(|card| card.down).collect::<Vec<_>>(), [40.0, 20.0, 60.0, 60.0]);
    // One sender shows what a node can receive at least; if it is much faster with others, at most.
    network.report(seconds(1.0), &RateReport { down: None, ..report(14, 1.0, &[(9, 5.0, 5.0)]) });
    network.report(seconds(1.0), &RateReport { down: None, ..report(16, 1.0, &[(9, 70.0, 70.0)]) });
    let servers = network.now().cards(&[8, 10, 12, 14, 16]).unwrap();
    assert_eq!(
        servers.iter().map(|card| card.down).collect::<Vec<_>>(),
        [40.0, 20.0, 60.0, 5.0, 105.0]
    );
    network.forget(9);
    assert_eq!((network.link(9, 8), network.now().up(9)), (None, None));
    assert!(network.link(11, 8).is_some());
}

/// What receivers saw together may leave out what went to others.
#[test]
fn what_a_node_saw_itself_counts_more() {
    let mut network = Network::default();
    let own = |rate: f64| Estimate { rate, lower: rate, confidence: 1.0, samples: 8 };
    network.report(seconds(1.0), &report(9, 100.0, &[(8, 20.0, 20.0), (10, 90.0, 0.0)]));
    network.report(seconds(1.0), &report(11, 100.0, &[(8, 20.0, 20.0), (10, 90.0, 0.0)]));
    assert_eq!(network.now().up(8).map(|up| up.rate), Some(40.0));
    network.report(seconds(2.0), &RateReport { up: Some(own(30.0)), ..report(8, 60.0, &[]) });
    assert_eq!(network.now().up(8).map(|up| up.rate), Some(30.0));
    network.report(seconds(2.0), &RateReport { up: Some(own(f64::NAN)), ..report(8, 60.0, &[]) });
    assert_eq!(network.now().up(8).map(|up| up.rate), Some(30.0), "no rate");
    // It is no faster than its links together.
    network.report(seconds(2.0), &RateReport { up: Some(own(50.0)), ..report(8, 60.0, &[]) });
    assert_eq!(network.now().up(8).map(|up| up.rate), Some(40.0));
    // It was not kept busy lately. If its links bring more, it may be as fast as it receives.
    let up = |network: &Network| network.now().cards(&[8]).map(|cards| cards[0].up);
    let old = |rate: f64| Estimate { confidence: 0.6, ..own(rate) };
    network.report(seconds(2.0), &report(9, 100.0, &[(8, 20.0, 20.0), (10, 90.0, 0.0)]));
    network.report(seconds(2.0), &report(11, 100.0, &[(8, 20.0, 20.0), (10, 90.0, 0.0)]));
    network.report(seconds(2.0), &RateReport { up: Some(old(50.0)), ..report(8, 60.0, &[]) });
    assert_eq!(up(&network), Some(40.0));
    network.report(seconds(3.0), &RateReport { up: Some(old(30.0)), ..report(8, 60.0, &[]) });
    assert_eq!(up(&network), Some(60.0));
    network.report(seconds(4.0), &RateReport { up: Some(own(50.0)), ..report(8, 60.0, &[]) });
    assert_eq!(up(&network), Some(40.0));
    // A worker could receive more than its links bring it, so they are slow; another one could not.
    network.report(seconds(2.0), &report(13, 100.0, &[(8, 25.0, 20.0)]));
    assert_eq!(up(&network), Some(50.0));
    network.report(seconds(2.0), &report(15, 25.0, &[(8, 25.0, 20.0)]));
    assert_eq!(up(&network), Some(50.0), "it was seen to be slow");
    let carried = CardCarried { down: 0.0, up: 70.0 };
    let more = RateReport { up: Some(own(50.0)), carried, ..report(8, 60.0, &[]) };
    network.report(seconds(4.0), &more);
    assert_eq!(up(&network), Some(60.0));
    // A link to a server says nothing of it: that one may be slow.
    network.report(seconds(2.0), &report(12, 5.0, &[(8, 5.0, 5.0), (9, 90.0, 90.0)]));
    assert_eq!(up(&network), Some(60.0));
    network.forget(8);
    assert!(network.now().up(8).is_none());
}

#[test]
fn what_a_node_sent_to_all_is_remembered_for_a_minute() {
    let mut network = Network::default();
    let to = |server, rate| report(server, 100.0, &[(9, 30.0, rate)]);
    for server in [8, 10, 12] {
        network.report(seconds(1.0), &to(server, 30.0));
    }
    for second in 2..40 {
        for server in [10, 12] {
            network.report(seconds(f64::from(second)), &to(server, 1.0));
        }
    }
    assert_eq!(network.now().up(9).map(|up| up.rate), Some(90.0));
    for second in 40..70 {
        for server in [10, 12] {
            network.report(seconds(f64::from(second)), &to(server, 1.0));
        }
    }
    assert_eq!(network.now().up(9).map(|up| up.rate), Some(30.0));
}

#[test]
fn what_is_old_is_trusted_less_unless_all_is_old() {
    let mut network = Network::default();
    network.report(seconds(0.0), &report(8, 40.0, &[(9, 10.0, 0.0)]));
    network.report(seconds(0.0), &report(10, 40.0, &[(9, 10.0, 0.0)]));
    assert_eq!(network.now().down(8), network.now().down(10));
    // A slow server keeps everybody waiting: the fast ones are as fast as before.
    network.report(seconds(20.0), &report(10, 40.0, &[(9, 10.0, 0.0)]));
    let (old, fresh) = (network.now().down(8).unwrap(), network.now().down(10).unwrap());
    assert!(old.confidence == 0.25 && old.lower == fresh.lower && fresh.confidence == 1.0);
    network.report(seconds(50.0), &report(10, 40.0, &[(9, 10.0, 0.0)]));
    let (old, fresh) = (network.now().down(8).unwrap(), network.now().down(10).unwrap());
    assert!(old.lower < 0.85 * fresh.lower && fresh.confidence == 1.0, "{old:?}");
}

#[test]
fn numbers_from_the_wire_that_are_none_are_left_out() {
    let mut network = Network::default();
    let mut bad =
        report(8, f64::NAN, &[(9, -1.0, 5.0), (11, f64::INFINITY, f64::NAN), (13, 5.0, f64::NAN)]);
    bad.links[2].estimate.confidence = 7.0;
    network.report(seconds(1.0), &bad);
    assert!(network.is_empty(), "{network:?}");
    network.report(Duration::MAX, &report(8, 5.0, &[(9, 1.0, f64::NAN), (11, 2.0, -3.0)]));
    assert_eq!(network.link(9, 8).map(|link| link.rate), Some(1.0));
}
