//! Which links are called narrow.

use std::time::Duration;

use super::tests::{report, seconds};
use super::*;
use crate::wire::NodeId;

#[test]
fn only_links_that_cards_do_not_explain_are_narrow() {
    let mut network = Network::default();
    let (workers, servers) = ([9, 11, 13], [8, 10]);
    // Three workers with 60 each, servers with 90: each link gets 30, but the one from 9 to 10 gets
    // 5.
    for server in servers {
        let rate = |worker| if (worker, server) == (9, 10) { 5.0 } else { 30.0 };
        let links = workers.map(|worker| (worker, rate(worker), rate(worker)));
        network.report(seconds(1.0), &report(server, 90.0, &links));
    }
    for worker in workers {
        let links = servers.map(|server| (server, 30.0, 30.0));
        network.report(seconds(1.0), &report(worker, 60.0, &links));
    }
    let pairs = network.now().narrow_pairs(&workers, &servers, false);
    assert_eq!(pairs.len(), 1);
    assert_eq!((pairs[0].worker, pairs[0].server, pairs[0].push), (9, 10, 5.0));
    assert!(pairs[0].pull.is_infinite());
}

/// Found with rates that are drawn anew: two of four links into a server were probed when it had
/// become four times as fast. The other two were not full any more, so nothing new was measured on
/// them: what each had got of the slow card made them look narrow, and for three rounds the server
/// got no more than before.
#[test]
fn what_links_had_of_a_slow_card_does_not_make_them_narrow() {
    let mut network = Network::default();
    let workers = [9, 11, 13, 15];
    for worker in workers {
        let links = [(8, 5.0, 0.0), (10, 20.0, 0.0)];
        network.report(seconds(1.0), &report(worker, 100.0, &links));
    }
    let old = workers.map(|worker| (worker, 5.0, 5.0));
    network.report(seconds(1.0), &report(8, 20.0, &old));
    network.report(seconds(1.0), &report(10, 80.0, &workers.map(|worker| (worker, 20.0, 20.0))));
    assert_eq!(network.now().narrow_pairs(&workers, &[8, 10], false), []);
    // All that is known of links out of workers 13 and 15, and of the ways back, is from before.
    let aged = |seconds: f64, down: f64, links: &[(NodeId, f64, f64)]| {
        let mut report = report(8, down, links);
        report.links.iter_mut().for_each(|link| link.oldest = Duration::from_secs_f64(seconds));
        report.up = report.down;
        report
    };
    let mixed = [(9, 80.0, 0.0), (11, 80.0, 0.0), (13, 5.0, 0.0), (15, 5.0, 0.0)];
    network.report(seconds(5.0), &aged(4.0, 80.0, &mixed));
    assert_eq!(network.now().narrow_pairs(&workers, &[8, 10], false), []);
    // Once all of it is newer than what is known of the card, they are narrow.
    network.report(seconds(6.0), &aged(2.0, 80.0, &mixed));
    assert_eq!(network.now().narrow_pairs(&workers, &[8, 10], false), []);
    network.report(seconds(9.0), &aged(3.0, 80.0, &mixed));
    let pairs = network.now().narrow_pairs(&workers, &[8, 10], false);
    assert_eq!(
        pairs.iter().map(|pair| (pair.worker, pair.push)).collect::<Vec<_>>(),
        [(13, 5.0), (15, 5.0)]
    );
    // A time that is none, from the wire.
    let mut odd = report(8, 80.0, &mixed);
    odd.links.iter_mut().for_each(|link| link.oldest = Duration::MAX);
    network.report(seconds(10.0), &odd);
    assert_eq!(network.now().narrow_pairs(&workers, &[8, 10], false), []);
    network.forget(8);
    assert_eq!(network.now().narrow_pairs(&workers, &[8, 10], false), []);
}

/// Server 14 has a card of 200, of which each worker gets a quarter.
fn beside_a_fast_server(workers: [NodeId; 4]) -> Network {
    let mut network = Network::default();
    network.report(seconds(1.0), &report(14, 200.0, &workers.map(|worker| (worker, 50.0, 50.0))));
    for worker in workers {
        network.report(seconds(1.0), &report(worker, 200.0, &[(12, 12.0, 12.0), (14, 50.0, 50.0)]));
    }
    network
}

/// Found in the lab: when the link of a server that keeps another one's copies was lowered to a
/// quarter, copies took half of it. Each worker's push got an eighth, which seemed narrow.
#[test]
fn what_shares_a_card_with_copies_is_not_narrow() {
    let workers = [9, 11, 13, 15];
    let mut network = beside_a_fast_server(workers);
    let mut links: Vec<_> = workers.map(|worker| (worker, 6.1, 6.1)).to_vec();
    links.push((14, 25.0, 25.0));
    network.report(seconds(1.0), &report(12, 50.0, &links));
    assert_eq!(network.now().narrow_pairs(&workers, &[12, 14], true), []);
    // Where nothing is copied, what servers send each other explains nothing.
    assert_eq!(network.now().narrow_pairs(&workers, &[12, 14], false).len(), 4);
}

/// The same on the way out: pulls share it with copies.
#[test]
fn pulls_beside_copies_are_not_narrow() {
    let mut network = Network::default();
    let workers = [9, 11, 13, 15];
    let out = RateReport { up: report(12, 50.0, &[]).down, ..report(12, 50.0, &[]) };
    network.report(seconds(1.0), &out);
    network.report(seconds(1.0), &report(14, 200.0, &[(12, 25.0, 25.0)]));
    for worker in workers {
        network.report(seconds(1.0), &report(worker, 200.0, &[(12, 6.1, 6.1), (14, 50.0, 50.0)]));
    }
    assert_eq!(network.now().narrow_pairs(&workers, &[12, 14], true), []);
    assert_eq!(network.now().narrow_pairs(&workers, &[12, 14], false).len(), 4);
}

/// However much servers send each other, a link far below what workers are left is narrow.
#[test]
fn a_narrow_link_beside_copies_is_seen() {
    let workers = [9, 11, 13, 15];
    let mut network = beside_a_fast_server(workers);
    let links = [(9, 1.0, 1.0), (11, 8.0, 8.0), (13, 8.0, 8.0), (15, 8.0, 8.0), (14, 45.0, 45.0)];
    network.report(seconds(1.0), &report(12, 50.0, &links));
    let pairs = network.now().narrow_pairs(&workers, &[12, 14], true);
    let found: Vec<_> = pairs.iter().map(|pair| (pair.worker, pair.server, pair.push)).collect();
    assert_eq!(found, [(9, 12, 1.0)]);
}
