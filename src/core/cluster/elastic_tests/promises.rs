//! `validate` names what is wrong with a state that was spoilt on purpose, and nothing of one that
//! was not.

use super::world::World;
use crate::cluster::Cluster;
use crate::cluster::claims::Piece;
use crate::cluster::elastic::Books;
use crate::wire::Key;
use crate::wire::elastic::{CopyPlace, Order};

/// Something that no rule leads to.
type Spoil = fn(&mut Cluster);

fn books(cluster: &mut Cluster) -> &mut Books {
    &mut cluster.elastic.books
}

fn first(cluster: &mut Cluster) -> (Key, &mut Vec<Piece>) {
    let (key, known) = cluster.elastic.books.pieces.iter_mut().next().unwrap();
    (*key, &mut known.pieces)
}

/// `text` is said of the scheduler of three servers with an array, once it is spoilt.
fn spoilt(spoil: Spoil, text: &str) {
    let mut world = World::new(1, 1, 3);
    world.make_array();
    world.settle();
    let scheduler = &mut world.nodes[0];
    assert!(!scheduler.pieces().is_empty());
    assert_eq!(scheduler.validate(), Ok(()));
    spoil(scheduler);
    let found = scheduler.validate().expect_err(text);
    assert!(found.contains(text), "{found}, not {text}");
}

#[test]
fn what_is_wrong_with_members_and_policy_is_named() {
    let all: [(Spoil, &str); 10] = [
        (|all| all.members.get_mut(&8).unwrap().id = 10, "node 8 is Server and says that it is 10"),
        (|all| drop(all.members.remove(&1)), "this node, 1, is not in it"),
        (|all| _ = all.aliases.insert(40, 42), "(40, 42)) is a second id of nobody"),
        (
            |all| {
                all.signs.heard.insert(8, Default::default());
                all.lost.insert(8, Default::default());
            },
            "Some(8) is dead, and is watched",
        ),
        (|all| all.elastic.policy.servers.reverse(), "the servers are not in order"),
        (|all| all.elastic.policy.lost.push(8), "Some(8) serves or is emptied, and is dead"),
        (|all| all.elastic.policy.homes.push(40), "Some(40) is a home, and does not serve"),
        (
            |all| all.elastic.policy.copies.push(CopyPlace { owner: 8, holder: 8 }),
            "is no place for copies",
        ),
        (|all| all.elastic.policy.epoch = 99, "policy 99 is in force"),
        (|all| _ = books(all).joining.insert(8), "Some(8) serves, and is yet to join"),
    ];
    for (spoil, text) in all {
        spoilt(spoil, text);
    }
}

#[test]
fn what_is_wrong_with_pieces_claims_and_orders_is_named() {
    let all: [(Spoil, &str); 8] = [
        (|all| first(all).1[0].from = 1, "the part 1..10 does not begin at 0"),
        (|all| first(all).1.last_mut().unwrap().to -= 1, "the parts end at 9, not at 10"),
        (
            |all| {
                let again = first(all).1[0];
                first(all).1.push(again);
            },
            "does not begin at 10",
        ),
        (|all| first(all).1[0].owner = 9, "Some(9) owns a piece, and is no server"),
        (|all| first(all).1[0].term = 0, "has no term, or is of another key"),
        (|all| books(all).claims.spoil(), "servers claim"),
        (
            |all| {
                let key = first(all).0;
                let order = Order { key, from: 0, to: 16, owner: 10 };
                books(all).orders.replace(8, order, 0);
                books(all).orders.spoil();
            },
            "1 orders stand, 0 were replaced",
        ),
        (
            |all| {
                let key = first(all).0;
                let order = |from| Order { key, from, to: 16, owner: 10 };
                books(all).orders.replace(8, order(0), 0);
                books(all).orders.replace(12, order(0), 99);
            },
            "is of a policy to come",
        ),
    ];
    for (spoil, text) in all {
        spoilt(spoil, text);
    }
}

/// A collection that waits for nobody would never end.
#[test]
fn what_is_wrong_with_a_collection_is_named() {
    let all: [(Spoil, &str); 3] = [
        (
            |all| {
                let collection = books(all).collection.as_mut().unwrap();
                collection.answers.insert(40, Default::default());
            },
            "Some(40) answered and was not asked",
        ),
        (
            |all| {
                let collection = books(all).collection.as_mut().unwrap();
                collection.later.insert(10, Default::default());
            },
            "Some(10) said more before it answered",
        ),
        (
            |all| {
                let collection = books(all).collection.as_mut().unwrap();
                let all = [8, 10, 12].map(|id| (id, Default::default()));
                collection.answers.extend(all);
            },
            "all have answered, and it is not over",
        ),
    ];
    for (spoil, text) in all {
        let mut world = World::new(1, 1, 3);
        let scheduler = &mut world.nodes[0];
        scheduler.collect(Default::default(), &mut Vec::new());
        assert_eq!(scheduler.validate(), Ok(()));
        spoil(scheduler);
        let found = scheduler.validate().expect_err(text);
        assert!(found.contains(text), "{found}, not {text}");
    }
}
