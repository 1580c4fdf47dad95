//! Copies, step by step: at a replica that is being emptied, of a piece that came back, and of what
//! was about to leave for a server that died.

use bytes::Bytes;

use crate::store::{Outbound, Outgoing};
use crate::store::{PART_BYTES, Store, StoreConfig, SumOrder};
use crate::values::server_key_ranges;
use crate::wire::elastic::{Holding, Order, PartAsk};
use crate::wire::transfer::{PieceName, Transfer, TransferKind, WrittenPiece};
use crate::wire::word::{Policy, RoutedPolicy};
use crate::wire::{Key, Meta, NodeId, Payload};

const LENGTH: u64 = 40;
/// The first policy's first term.
const TERM: u64 = (1 << 32) + 1;

pub(super) struct Three {
    stores: Vec<(NodeId, Store)>,
    timestamp: i32,
}

impl Three {
    /// Servers of which the first has a key, which its replica has too.
    pub(super) fn new(servers: usize, workers: usize) -> Self {
        Self::with_parts(servers, workers, PART_BYTES)
    }

    /// The same, with parts of so many bytes at most.
    fn with_parts(servers: usize, workers: usize, part_bytes: usize) -> Self {
        let ids: Vec<NodeId> = (0..servers).map(crate::wire::server_id).collect();
        let store = |id| {
            let mut store = Store::new(StoreConfig {
                workers,
                servers,
                id,
                order: SumOrder::Arrival,
                elastic: true,
                replicas: 1,
                part_bytes,
            });
            store.held.set_sync(0).unwrap();
            (id, store)
        };
        let mut three = Self { stores: ids.iter().copied().map(store).collect(), timestamp: 0 };
        for id in ids {
            three.policy(id, 1, &[]);
        }
        for worker in [&[9][..], &[9, 11][..workers]].concat() {
            let out = three.push(worker);
            three.settle(8, out);
        }
        three
    }

    pub(super) fn store(&mut self, id: NodeId) -> &mut Store {
        &mut self.stores.iter_mut().find(|(of, _)| *of == id).unwrap().1
    }

    fn policy(&mut self, to: NodeId, epoch: u64, draining: &[NodeId]) -> Outbound {
        let servers: Vec<NodeId> = self.stores.iter().map(|(id, _)| *id).collect();
        let word = RoutedPolicy {
            policy: Policy {
                epoch,
                homes: servers.clone(),
                servers,
                draining: draining.to_vec(),
                replicas: 1,
                ..Policy::default()
            },
            ..RoutedPolicy::default()
        };
        let mut out = Outbound::default();
        self.store(to).policy(&word, &mut out);
        out
    }

    /// A worker pushes the whole key to the first server.
    pub(super) fn push(&mut self, worker: NodeId) -> Outbound {
        self.push_to(8, worker)
    }

    fn push_to(&mut self, server: NodeId, worker: NodeId) -> Outbound {
        self.timestamp += 1;
        let values = vec![1.0_f32; LENGTH as usize];
        let frames = [
            Bytes::copy_from_slice(&key().to_ne_bytes()),
            Bytes::copy_from_slice(bytemuck::cast_slice(&values)),
            Bytes::copy_from_slice(&(LENGTH as i32 * 4).to_ne_bytes()),
        ];
        let meta = Meta {
            head: 0,
            sender: worker,
            timestamp: self.timestamp,
            push: true,
            request: true,
            payload: Payload::Ask(PartAsk::default()),
            ..Meta::default()
        };
        let mut out = Outbound::default();
        self.store(server).serve(meta, &frames, &mut out);
        out
    }

    fn give(&mut self, from: NodeId, sent: &Outgoing) -> Outbound {
        let mut out = Outbound::default();
        self.store(sent.to).transfer(from, &sent.transfer, &sent.frames, &mut out).unwrap();
        out
    }

    /// All that follows from what a server sends. The answers.
    fn settle(&mut self, from: NodeId, out: Outbound) -> usize {
        let mut answers = out.answers.len();
        for sent in out.transfers {
            let next = self.give(from, &sent);
            answers += self.settle(sent.to, next);
        }
        answers
    }

    /// How a server holds things, with their versions.
    fn holds(&mut self, id: NodeId) -> Vec<(Holding, u64)> {
        let claims = self.store(id).claims();
        claims.iter().map(|claim| (claim.holding.try_into().unwrap(), claim.version)).collect()
    }
}

/// Where the pieces of a server are, with their versions.
fn pieces(three: &mut Three, id: NodeId) -> Vec<(u64, u64, u64)> {
    let claims = three.store(id).claims();
    claims.iter().map(|claim| (claim.from, claim.to, claim.version)).collect()
}

#[test]
fn what_is_long_is_cut_after_its_first_round_and_so_is_its_copy() {
    let mut two = Three::with_parts(2, 1, 64);
    let parts = [(0, 16, 1), (16, 32, 1), (32, LENGTH, 1)];
    assert_eq!(pieces(&mut two, 8), parts);
    assert_eq!(pieces(&mut two, 10), parts);
    // The worker hears of it with the answer to its push, and a push to the whole key is not served
    // any more.
    let again = two.push(9);
    let routes = |out: &Outbound| out.answers[0].request.reply().unwrap().routes.len();
    assert_eq!((kinds(&again), routes(&again)), (vec![], parts.len()));
}

#[test]
fn what_is_not_copied_or_not_long_stays_whole() {
    assert_eq!(pieces(&mut Three::with_parts(1, 1, 64), 8), [(0, LENGTH, 1)]);
    // A sixteenth of the longest part is the shortest, and up to two parts are not long.
    let bytes = LENGTH as usize * 4;
    assert_eq!(pieces(&mut Three::with_parts(2, 1, 16 * bytes / 2), 8), [(0, LENGTH, 1)]);
    assert_eq!(pieces(&mut Three::with_parts(2, 1, 16 * bytes / 3), 8).len(), 3);
}

pub(super) fn key() -> Key {
    server_key_ranges(1)[0].begin + 3
}

fn kinds(out: &Outbound) -> Vec<(NodeId, TransferKind)> {
    let kinds = out.transfers.iter().map(|sent| (sent.to, sent.transfer.kind()));
    kinds.filter(|(_, kind)| *kind != TransferKind::Command).collect()
}

#[test]
fn a_replica_that_is_emptied_is_replaced_and_answers_wait_until_it_has_forgotten() {
    let mut three = Three::new(3, 1);
    assert_eq!(three.holds(10), [(Holding::Replica, 1)]);
    let seed = three.policy(8, 2, &[10]);
    assert_eq!(kinds(&seed), [(12, TransferKind::Seed)]);
    let round = three.push(9);
    assert_eq!(kinds(&round), [(12, TransferKind::Round)], "the former one gets no more");
    assert!(round.answers.is_empty());
    let confirmed = three.give(8, &seed.transfers[0]);
    let drop = three.give(12, &confirmed.transfers[0]);
    assert_eq!(kinds(&drop), [(10, TransferKind::Drop)]);
    let confirmed = three.give(8, &round.transfers[0]);
    let nothing = three.give(12, &confirmed.transfers[0]);
    assert!(nothing.answers.is_empty(), "the old copy could still be claimed");
    let order = Order { key: key(), from: 0, to: LENGTH, owner: 12 };
    let mut waits = Outbound::default();
    three.store(8).orders(&[order], &mut waits);
    assert_eq!(kinds(&waits), [], "nor does it leave before");
    let forgotten = three.give(8, &drop.transfers[0]);
    assert_eq!(three.holds(10), []);
    let out = three.give(10, &forgotten.transfers[0]);
    assert_eq!(out.answers.len(), 1);
    assert_eq!(kinds(&out), [(12, TransferKind::Move)]);
}

#[test]
fn without_another_server_the_copy_is_given_up_before_anything_is_answered() {
    let mut two = Three::new(2, 1);
    let drop = two.policy(8, 2, &[10]);
    assert_eq!(kinds(&drop), [(10, TransferKind::Drop)]);
    let round = two.push(9);
    assert_eq!((kinds(&round), round.answers.len()), (vec![], 0));
    let forgotten = two.give(8, &drop.transfers[0]);
    assert_eq!(two.holds(10), []);
    assert_eq!(two.give(10, &forgotten.transfers[0]).answers.len(), 1);
    assert_eq!(two.push(9).answers.len(), 1, "and nothing waits any more");
}

/// The replica that was to take its place died meanwhile.
#[test]
fn a_copy_that_nothing_can_replace_any_more_is_given_up_too() {
    let mut three = Three::new(3, 1);
    assert_eq!(kinds(&three.policy(8, 2, &[10])), [(12, TransferKind::Seed)]);
    let round = three.push(9);
    assert_eq!(round.answers.len(), 0);
    three.stores.retain(|(id, _)| *id != 12);
    let drop = three.policy(8, 3, &[10]);
    assert_eq!((kinds(&drop), drop.answers.len()), (vec![(10, TransferKind::Drop)], 0));
    let forgotten = three.give(8, &drop.transfers[0]);
    assert_eq!(three.give(10, &forgotten.transfers[0]).answers.len(), 1);
}

#[test]
fn a_piece_that_came_back_keeps_its_new_copy() {
    let mut three = Three::new(2, 1);
    let name = |term| PieceName { key: key(), from: 0, to: LENGTH, term };
    let seed = Transfer::Seed(WrittenPiece {
        piece: name(TERM + 4),
        version: 5,
        length: LENGTH,
        dtype: 0,
        row_len: 0,
        marks: Vec::new(),
        has_master: false,
        state: None,
        generation: 0,
    });
    let frames = vec![
        Bytes::copy_from_slice(&key().to_ne_bytes()),
        Bytes::from(vec![0; LENGTH as usize * 4]),
    ];
    for transfer in [seed, Transfer::Drop(name(TERM + 1))] {
        three.give(8, &Outgoing { to: 10, transfer, frames: frames.clone() });
    }
    assert_eq!(three.holds(10), [(Holding::Replica, 5)]);
    let transfer = Transfer::Drop(name(TERM + 4));
    three.give(8, &Outgoing { to: 10, transfer, frames: Vec::new() });
    assert_eq!(three.holds(10), []);
}

/// What a former copy's confirmation says is not said of the piece as it is here again.
#[test]
fn a_confirmation_of_an_earlier_time_makes_nothing_safe() {
    let mut three = Three::new(2, 1);
    let round = three.push(9);
    assert_eq!(kinds(&round), [(10, TransferKind::Round)]);
    let piece = PieceName { key: key(), from: 0, to: LENGTH, term: TERM - 1 };
    let transfer = Transfer::Confirmed { piece, version: 7 };
    let out = three.give(10, &Outgoing { to: 8, transfer, frames: Vec::new() });
    assert!(out.answers.is_empty());
    assert_eq!(three.settle(8, round), 1);
}

/// It may be let go by the next policy, as it has claimed nothing.
#[test]
fn who_has_claimed_nothing_confirms_nothing_before_the_next_policy() {
    let mut three = Three::new(3, 1);
    assert!(
        !three.store(10).collect(2, &[]).is_empty() && three.store(12).collect(2, &[]).is_empty()
    );
    let round = three.push(9);
    assert_eq!(three.settle(8, round), 1, "10 has claimed its copy");
    let seed = three.policy(8, 2, &[10]);
    assert_eq!(kinds(&seed), [(12, TransferKind::Seed)]);
    let round = three.push(9);
    for sent in [&seed.transfers[0], &round.transfers[0]] {
        assert_eq!(kinds(&three.give(8, sent)), []);
    }
    let said = three.policy(12, 2, &[10]);
    assert_eq!(kinds(&said), [(8, TransferKind::Confirmed)], "of the last version");
    assert_eq!(kinds(&three.give(12, &said.transfers[0])), [(10, TransferKind::Drop)]);
}

/// If the new owner and its replica died together, what the old one keeps would count.
#[test]
fn what_has_come_is_answered_when_its_old_owner_has_forgotten_it() {
    let mut three = Three::new(3, 1);
    let order = Order { key: key(), from: 0, to: LENGTH, owner: 12 };
    let mut leaves = Outbound::default();
    three.store(8).orders(&[order], &mut leaves);
    assert_eq!(kinds(&leaves), [(12, TransferKind::Move)]);
    let seed = three.give(8, &leaves.transfers[0]);
    let round = three.push_to(12, 9);
    assert_eq!(
        (kinds(&seed), kinds(&round)),
        (vec![(8, TransferKind::Seed)], vec![(8, TransferKind::Round)])
    );
    let confirmed = three.give(12, &seed.transfers[0]);
    let moved = three.give(8, &confirmed.transfers[0]);
    assert_eq!(kinds(&moved), [(8, TransferKind::Moved)]);
    let confirmed = three.give(12, &round.transfers[0]);
    let safe = three.give(8, &confirmed.transfers[0]);
    assert!(safe.answers.is_empty(), "8 would claim it as it was");
    assert!(three.holds(8).contains(&(Holding::Leaving, 1)));
    let known = three.give(12, &moved.transfers[0]);
    assert_eq!(kinds(&known), [(10, TransferKind::Drop), (12, TransferKind::Confirmed)]);
    assert!(!three.holds(8).contains(&(Holding::Leaving, 1)));
    assert_eq!(three.give(8, &known.transfers[1]).answers.len(), 1);
}

#[test]
fn nothing_leaves_for_one_of_whose_death_the_claims_are() {
    let mut three = Three::new(3, 2);
    let open = three.push(9);
    assert_eq!(kinds(&open), []);
    let order = Order { key: key(), from: 0, to: LENGTH, owner: 12 };
    three.store(8).orders(&[order], &mut Outbound::default());
    let claims = three.store(8).collect(2, &[12]);
    assert_eq!(claims.iter().filter(|claim| claim.holding == Holding::Owner as i32).count(), 1);
    let round = three.push(11);
    assert_eq!(kinds(&round), [(10, TransferKind::Round)], "it stays where it was claimed");
    assert_eq!(three.settle(8, round), 2);
}

/// An order that names the owner takes back what is not begun of an earlier one.
#[test]
fn what_is_taken_back_stays() {
    let mut three = Three::new(3, 2);
    let open = three.push(9);
    assert_eq!(kinds(&open), []);
    let order = |from, to, owner| Order { key: key(), from, to, owner };
    let orders = [order(0, LENGTH, 12), order(16, 32, 8)];
    three.store(8).orders(&orders, &mut Outbound::default());
    let round = three.push(11);
    let part = |sent: &Outgoing| match &sent.transfer {
        Transfer::Move(written) => Some((written.piece.from, written.piece.to)),
        _ => None,
    };
    let parts: Vec<_> = round.transfers.iter().filter_map(part).collect();
    assert_eq!(parts, [(0, 16), (32, LENGTH)]);
}

#[test]
fn orders_about_two_pieces_of_one_key_are_both_carried_out() {
    let mut three = Three::new(3, 1);
    let key = key();
    let order = |from, to, owner| Order { key, from, to, owner };
    let mut carry_out = |owner, orders: &[Order]| {
        let mut out = Outbound::default();
        three.store(owner).orders(orders, &mut out);
        three.settle(owner, out);
        three.holds(owner).iter().filter(|(holding, _)| *holding == Holding::Owner).count()
    };
    assert_eq!(carry_out(8, &[order(16, LENGTH, 10)]), 1);
    assert_eq!(carry_out(10, &[order(16, LENGTH, 8)]), 0);
    assert_eq!(carry_out(8, &[order(0, 16, 10), order(16, LENGTH, 12)]), 0, "both are gone");
    assert_eq!(carry_out(10, &[]), 1);
    assert_eq!(carry_out(12, &[]), 1);
}
