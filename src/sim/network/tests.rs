//! The network alone: what it promises, and that it breaks what it should.

use std::time::Duration;

use super::*;
use pslite_core::random::Random;
use pslite_core::wire::Frames;

const MS: Duration = Duration::from_millis(1);

fn network(config: NetworkConfig) -> Network {
    let mut network = Network::new(config, Random::new(7));
    network.listen(Duration::ZERO, 0, "a:1");
    network.listen(Duration::ZERO, 1, "b:1");
    network
}

fn numbered(number: u8) -> Sealed {
    Sealed { meta: vec![number], data: Frames::new(), overtakes: false, class: 0 }
}

/// All that happens from now on: the numbers that arrived, and the channels as (process, up).
fn drain(network: &mut Network, now: &mut Duration) -> (Vec<u8>, Vec<(Process, bool)>) {
    let (mut numbers, mut channels) = (Vec::new(), Vec::new());
    while let Some(at) = network.next() {
        *now = at.max(*now);
        match network.pop(*now) {
            Some(Happening::Arrived { sealed, .. }) => numbers.push(sealed.meta[0]),
            Some(Happening::Channel { process, up, .. }) => channels.push((process, up)),
            None => {}
        }
    }
    (numbers, channels)
}

#[test]
fn a_connection_keeps_the_order_and_waits_for_who_is_not_there_yet() {
    let mut network = Network::new(NetworkConfig::default(), Random::new(1));
    let mut now = Duration::ZERO;
    let channel = network.connect(now, 0, "late:1", Some(9));
    (0..50).for_each(|number| network.send(now, channel, numbered(number)));
    assert_eq!(drain(&mut network, &mut now), (vec![], vec![]));
    network.listen(5 * MS, 1, "late:1");
    now = 5 * MS;
    let (numbers, channels) = drain(&mut network, &mut now);
    assert_eq!((numbers, channels), ((0..50).collect(), vec![(0, true)]));
}

#[test]
fn with_reorder_messages_overtake_each_other() {
    let mut network = network(NetworkConfig { reorder: true, ..NetworkConfig::default() });
    let mut now = Duration::ZERO;
    let channel = network.connect(now, 0, "b:1", Some(9));
    drain(&mut network, &mut now);
    (0..50).for_each(|number| network.send(now, channel, numbered(number)));
    let (mut numbers, _) = drain(&mut network, &mut now);
    assert!(!numbers.is_sorted());
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(0..50));
}

#[test]
fn what_is_under_way_when_a_channel_is_cut_is_lost_and_what_comes_then_waits() {
    let mut network = network(NetworkConfig::default());
    let mut now = Duration::ZERO;
    let channel = network.connect(now, 0, "b:1", Some(9));
    drain(&mut network, &mut now);
    network.send(now, channel, numbered(1));
    network.cut(now, 0, 1);
    network.send(now, channel, numbered(2));
    assert_eq!(drain(&mut network, &mut now), (vec![], vec![(0, false)]));
    network.mend(now, 0, 1);
    assert_eq!(drain(&mut network, &mut now), (vec![2], vec![(0, true)]));
}

#[test]
fn a_crash_closes_connections_and_a_power_cut_does_not() {
    for (crashes, seen) in [(true, vec![(0, false)]), (false, vec![])] {
        let mut network = network(NetworkConfig::default());
        let mut now = Duration::ZERO;
        let channel = network.connect(now, 0, "b:1", Some(9));
        drain(&mut network, &mut now);
        if crashes {
            network.crash(now, 1)
        } else {
            network.vanish(now, 1)
        }
        network.send(now, channel, numbered(1));
        assert_eq!(drain(&mut network, &mut now), (vec![], seen));
        // A new process at that address gets what is sent to it alone.
        network.listen(now, 1, "b:1");
        network.send(now, channel, numbered(2));
        let (numbers, channels) = drain(&mut network, &mut now);
        assert_eq!(numbers.last(), Some(&2));
        assert_eq!(channels.last(), Some(&(0, true)));
    }
}

#[test]
fn who_ends_properly_loses_nothing_and_who_crashes_loses_a_tail() {
    let mut tails = 0;
    for seed in 0..20 {
        for crashes in [false, true] {
            let mut network = Network::new(NetworkConfig::default(), Random::new(seed));
            network.listen(Duration::ZERO, 1, "b:1");
            let mut now = Duration::ZERO;
            let channel = network.connect(now, 0, "b:1", Some(9));
            drain(&mut network, &mut now);
            (0..20).for_each(|number| network.send(now, channel, numbered(number)));
            if crashes {
                network.crash(now, 0)
            } else {
                network.end(now, 0)
            }
            let (numbers, _) = drain(&mut network, &mut now);
            assert!(numbers.iter().copied().eq(0..numbers.len() as u8));
            assert!(crashes || numbers.len() == 20);
            tails += usize::from(numbers.len() < 20);
        }
    }
    assert!(tails > 3, "{tails}");
}

#[test]
fn a_kept_connection_loses_nothing_and_keeps_the_order() {
    let bad = NetworkConfig { loss: 40, repeat: 40, reorder: true, ..NetworkConfig::default() };
    let mut network = network(bad);
    let mut now = Duration::ZERO;
    let channel = network.connect_kept(now, 0, "b:1", 9);
    drain(&mut network, &mut now);
    (0..30).for_each(|number| network.send(now, channel, numbered(number)));
    let mut arrived = Vec::new();
    for number in 30..50 {
        // Something arrives, then it breaks, and what is sent meanwhile waits behind what was under
        // way.
        now = network.next().unwrap();
        if let Some(Happening::Arrived { sealed, .. }) = network.pop(now) {
            arrived.push(sealed.meta[0]);
        }
        network.cut(now, 0, 1);
        network.send(now, channel, numbered(number));
        network.mend(now, 0, 1);
    }
    arrived.extend(drain(&mut network, &mut now).0);
    assert_eq!(arrived, (0..50).collect::<Vec<u8>>());
}

#[test]
fn what_is_lost_below_a_connection_comes_late_and_in_order() {
    let bad = NetworkConfig { retransmits: 30, ..NetworkConfig::default() };
    let mut network = network(bad);
    let mut now = Duration::ZERO;
    for channel in [network.connect(now, 0, "b:1", Some(9)), network.connect_kept(now, 0, "b:1", 9)]
    {
        drain(&mut network, &mut now);
        let (begin, before) = (now, network.retransmitted());
        (0..50).for_each(|number| network.send(now, channel, numbered(number)));
        assert_eq!(drain(&mut network, &mut now).0, (0..50).collect::<Vec<u8>>());
        assert!(network.retransmitted() > before + 5 && now > begin + 40 * MS);
    }
    assert_eq!(network.faults(), (0, 0));
}

#[test]
fn a_stall_makes_one_direction_late_and_breaks_nothing() {
    let mut network = network(NetworkConfig::default());
    let mut now = Duration::ZERO;
    let there = network.connect(now, 0, "b:1", Some(9));
    let back = network.connect(now, 1, "a:1", Some(8));
    drain(&mut network, &mut now);
    network.send(now, there, numbered(1));
    network.stall(0, 1);
    network.send(now, there, numbered(2));
    network.send(now, back, numbered(3));
    assert_eq!(drain(&mut network, &mut now), (vec![3], vec![]));
    network.flow(now, 0, 1);
    network.send(now, there, numbered(4));
    assert_eq!(drain(&mut network, &mut now), (vec![1, 2, 4], vec![]));
}

#[test]
fn a_line_takes_its_time_for_data_and_control_overtakes() {
    let mut network = network(NetworkConfig { jitter: Duration::ZERO, ..NetworkConfig::default() });
    let mut now = Duration::ZERO;
    let data = network.connect_kept(now, 0, "b:1", 9);
    let control = network.connect(now, 0, "b:1", Some(9));
    drain(&mut network, &mut now);
    let begin = now;
    network.set_rates(0, Some(Rates { up: 1_000_000, down: 1 }));
    network.set_rates(1, Some(Rates { up: 1, down: 500_000 }));
    for number in 0..2 {
        let data_of = vec![bytes::Bytes::from(vec![0; 10_000])].into_iter().collect();
        network.send(
            now,
            data,
            Sealed { meta: vec![number], data: data_of, overtakes: false, class: 0 },
        );
    }
    network.send(now, control, numbered(9));
    assert_eq!(drain(&mut network, &mut now).0, [9, 0, 1]);
    // Twice 20 ms through the narrower line; the first began when its first byte can have come.
    assert!((40 * MS..41 * MS).contains(&(now - begin)), "{:?}", now - begin);
}

#[test]
fn what_may_overtake_does_so_but_not_its_like() {
    let mut network = network(NetworkConfig::default());
    let mut now = Duration::ZERO;
    let data = network.connect_kept(now, 0, "b:1", 9);
    drain(&mut network, &mut now);
    let mut overtaken = 0;
    for _ in 0..20 {
        for number in 0..6 {
            let overtakes = number % 3 == 2;
            network.send(now, data, Sealed { overtakes, ..numbered(number) });
        }
        let came = drain(&mut network, &mut now).0;
        overtaken += u32::from(came != [0, 1, 2, 3, 4, 5]);
        let (fast, slow): (Vec<u8>, Vec<u8>) = came.iter().partition(|number| **number % 3 == 2);
        assert_eq!((fast, slow), (vec![2, 5], vec![0, 1, 3, 4]), "{came:?}");
    }
    assert!(overtaken > 10, "{overtaken}");
}

fn with_data(number: u8, bytes: usize) -> Sealed {
    let data = vec![bytes::Bytes::from(vec![0; bytes])].into_iter().collect();
    Sealed { meta: vec![number], data, overtakes: false, class: 0 }
}

/// Three processes, each connected with each other one by a connection that keeps what it carries;
/// edges without jitter.
fn triangle() -> (Network, Duration, BTreeMap<(Process, Process), ConnectionId>) {
    let config = NetworkConfig { jitter: Duration::ZERO, ..NetworkConfig::default() };
    let mut network = Network::new(config, Random::new(7));
    let address = |process: Process| format!("p{process}:1");
    (0..3).for_each(|process| network.listen(Duration::ZERO, process, &address(process)));
    let mut channels = BTreeMap::new();
    for from in 0..3 {
        for to in (0..3).filter(|to| *to != from) {
            let channel = network.connect_kept(Duration::ZERO, from, &address(to), from as NodeId);
            channels.insert((from, to), channel);
        }
    }
    let mut now = Duration::ZERO;
    drain(&mut network, &mut now);
    (network, now, channels)
}

/// When each message arrives, by its number, counted from now.
fn arrivals(network: &mut Network, begin: Duration) -> BTreeMap<u8, Duration> {
    let mut at = BTreeMap::new();
    while let Some(now) = network.next() {
        if let Some(Happening::Arrived { sealed, .. }) = network.pop(now) {
            at.insert(sealed.meta[0], now - begin);
        }
    }
    at
}

#[test]
fn an_edge_has_a_rate_of_its_own_in_its_own_direction() {
    let (mut network, now, channels) = triangle();
    let usual = NetworkConfig::default().latency;
    let slow = LinkModel { rate: Some(100_000), latency: 5 * MS, jitter: Duration::ZERO };
    network.set_edge(0, 1, Some(slow));
    for (number, ends) in [(0, 1), (1, 0), (0, 2), (2, 1)].into_iter().enumerate() {
        network.send(now, channels[&ends], with_data(number as u8, 1000));
    }
    network.send(now, channels[&(0, 1)], with_data(9, 1000));
    let at = arrivals(&mut network, now);
    // Two messages of 10 ms each wait for each other in front of the edge; nobody else does.
    assert_eq!((at[&0], at[&9]), (15 * MS, 25 * MS));
    assert_eq!((at[&1], at[&2], at[&3]), (usual, usual, usual));
    network.set_edge(0, 1, None);
    network.send(now + 100 * MS, channels[&(0, 1)], with_data(0, 1000));
    assert_eq!(arrivals(&mut network, now + 100 * MS)[&0], usual);
}

#[test]
fn connections_of_an_edge_share_it_and_control_does_not_wait() {
    let (mut network, now, channels) = triangle();
    network.set_edge(
        0,
        1,
        Some(LinkModel { rate: Some(100_000), latency: MS, jitter: Duration::ZERO }),
    );
    let other = network.connect_kept(now, 0, "p1:1", 50);
    let mut begin = now;
    drain(&mut network, &mut begin);
    network.send(begin, channels[&(0, 1)], with_data(1, 2000));
    network.send(begin, other, with_data(2, 1000));
    let control = network.connect(begin, 0, "p1:1", Some(51));
    network.send(begin, control, numbered(3));
    let at = arrivals(&mut network, begin);
    assert_eq!((at[&1], at[&2]), (21 * MS, 31 * MS));
    assert_eq!(at[&3], 2 * MS, "its connection came up, and it took the latency");
}

#[test]
fn a_message_is_as_late_as_the_narrowest_of_line_edge_and_line_makes_it() {
    for narrow in 0..3 {
        let (mut network, now, channels) = triangle();
        let rate = |at: usize| if at == narrow { 100_000 } else { 1_000_000_000 };
        network.set_rates(0, Some(Rates { up: rate(0), down: 1 }));
        let edge = LinkModel { rate: Some(rate(1)), latency: MS, jitter: Duration::ZERO };
        network.set_edge(0, 1, Some(edge));
        network.set_rates(1, Some(Rates { up: 1, down: rate(2) }));
        network.send(now, channels[&(0, 1)], with_data(1, 1000));
        let at = arrivals(&mut network, now)[&1];
        assert!((11 * MS..11 * MS + MS / 100).contains(&at), "{narrow}: {at:?}");
    }
}

#[test]
fn after_a_reset_only_the_named_edges_are_not_as_usual() {
    let (mut network, now, channels) = triangle();
    let usual = NetworkConfig::default().latency;
    let slow = |ms| LinkModel { rate: None, latency: ms * MS, jitter: Duration::ZERO };
    network.set_edge(0, 1, Some(slow(7)));
    network.set_edge(0, 2, Some(slow(7)));
    network.reset_edges(&[(0, 2, slow(3)), (1, 0, slow(4))]);
    for (number, ends) in [(0, 1), (0, 2), (1, 0)].into_iter().enumerate() {
        network.send(now, channels[&ends], numbered(number as u8));
    }
    let at = arrivals(&mut network, now);
    assert_eq!((at[&0], at[&1], at[&2]), (usual, 3 * MS, 4 * MS));
}
