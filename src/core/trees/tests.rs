//! Relays of one tree joined by hand: what goes up and down, and what becomes of it when trees
//! change.

use bytes::Bytes;

use super::*;
use crate::values::kind::{RequestKind, command_of};
use crate::values::{Buffer, Dtype, KeyPart, KvPairs};
use crate::wire::elastic::{PartAsk, PartReply};
use crate::wire::trees::{Hop, HopKind, PushName, TreeNode, TreeTable};
use crate::wire::{Meta, Payload, server_id, worker_id};

const KEY: u64 = 5;
const ROOT: NodeId = server_id(0);

/// Up: worker 2 to 1, 1 to 0, 0 to the root. Down: from the root to 2, from 2 to 0 and 1.
fn overlay(number: u64, floor: u64) -> Overlay {
    let [a, b, c] = [0, 1, 2].map(worker_id);
    let node = |node, up, down| TreeNode { node, up, down };
    let nodes = vec![node(a, ROOT, c), node(b, a, c), node(c, b, ROOT)];
    Overlay { number, floor, trees: vec![TreeTable { root: ROOT, nodes, weight: 1 }] }
}

fn ticket(overlay: u64, round: u64) -> Ticket {
    Ticket { overlay, tree: 0, round }
}

fn relays(overlay: &Overlay) -> [Relay; 3] {
    [0, 1, 2].map(|rank| {
        let mut relay = Relay::new(worker_id(rank));
        assert!(relay.overlay(overlay, &mut Vec::new()));
        relay
    })
}

fn push(rank: usize, ticket: Ticket, dtype: Dtype) -> Meta {
    let (timestamp, ticket) = (ticket.round as i32, Some(Box::new(ticket)));
    let placed = PartAsk { to: 2, term: 1, ahead: rank != 1, ticket, ..PartAsk::default() };
    Meta {
        sender: worker_id(rank),
        customer_id: 0,
        timestamp,
        request: true,
        push: true,
        head: command_of(RequestKind::Default, dtype),
        payload: Payload::Ask(placed),
        ..Meta::default()
    }
}

fn values(bytes: &[u8]) -> KvPairs {
    KvPairs {
        keys: Bytes::copy_from_slice(&KEY.to_ne_bytes()),
        vals: Bytes::copy_from_slice(bytes),
        lens: Bytes::copy_from_slice(&(bytes.len() as i32).to_ne_bytes()),
    }
}

fn floats(values: &[f32]) -> KvPairs {
    self::values(bytemuck::cast_slice(values))
}

fn read(kv: &KvPairs) -> Vec<f32> {
    Buffer::copy_of(&kv.vals).elements::<f32>().to_vec()
}

/// Worker `rank` pushes that.
fn pushes(relays: &mut [Relay; 3], rank: usize, ticket: Ticket, kv: KvPairs) -> Vec<Step> {
    let mut steps = Vec::new();
    relays[rank].push(push(rank, ticket, Dtype::F32), kv, &mut steps);
    carry(relays, steps)
}

/// Carries what workers send to each other; what is left goes to the root, or to applications.
fn carry(relays: &mut [Relay; 3], mut steps: Vec<Step>) -> Vec<Step> {
    let mut left = Vec::new();
    while !steps.is_empty() {
        for step in std::mem::take(&mut steps) {
            let to = match &step {
                Step::Send(meta, _) => (0..3).find(|rank| worker_id(*rank) == meta.recver),
                Step::Answer(..) | Step::Void(..) => None,
            };
            match (to, step) {
                (Some(to), Step::Send(meta, kv)) => relays[to].came(meta, kv, &mut steps),
                (_, step) => left.push(step),
            }
        }
        relays.iter().for_each(|relay| relay.validate().unwrap());
    }
    left
}

/// The one sum that came to the root.
fn at_root(steps: &[Step]) -> (Meta, KvPairs) {
    match steps {
        [Step::Send(meta, kv)] if meta.recver == ROOT => (meta.clone(), kv.clone()),
        _ => panic!("{steps:?}"),
    }
}

fn names(meta: &Meta) -> Vec<PushName> {
    meta.hop().map(|hop| hop.names.clone()).unwrap_or_default()
}

/// What the owner says of a sum, carried down.
fn tell(relays: &mut [Relay; 3], sum: &Meta, reply: PartReply, kv: &KvPairs) -> Vec<Step> {
    let trees = std::sync::Arc::clone(relays[0].trees());
    let hop = sum.hop().cloned().map(Box::new).unwrap();
    let answered = Meta { payload: Payload::Down(reply, hop), ..sum.clone() };
    let down = down_from_root(&trees, ROOT, &answered, kv);
    let down = down.into_iter().map(|(meta, kv)| Step::Send(meta, kv)).collect();
    carry(relays, down)
}

#[test]
fn a_round_is_one_sum_and_its_values_come_down() {
    let mut relays = relays(&overlay(1, 0));
    for round in 1..4 {
        let ticket = ticket(1, round);
        let order = [[0, 1, 2], [2, 1, 0], [1, 2, 0]][round as usize - 1];
        let mut left = Vec::new();
        for rank in order {
            assert!(left.is_empty(), "it lacks somebody");
            let own = [rank as f32, 10.0 * round as f32];
            left = pushes(&mut relays, rank, ticket, floats(&own));
        }
        let (sum, kv) = at_root(&left);
        assert_eq!(read(&kv), [3.0, 30.0 * round as f32]);
        assert_eq!(names(&sum).iter().map(|name| name.worker).collect::<Vec<_>>(), [9, 11, 13]);
        assert_eq!(
            names(&sum).iter().map(|name| name.wants).collect::<Vec<_>>(),
            [true, false, true]
        );
        let next = Some(Box::new(self::ticket(1, round + 1)));
        let reply = PartReply { to: 2, ticket: next.clone(), epoch: 7, ..PartReply::default() };
        let left = tell(&mut relays, &sum, reply, &floats(&[5.0, 6.0]));
        let mut told = Vec::new();
        for step in left {
            let Step::Answer(meta, kv) = step else { panic!("{step:?}") };
            let reply = meta.reply().unwrap();
            assert_eq!((reply.ticket.clone(), reply.epoch, reply.again), (next.clone(), 7, false));
            assert_eq!((meta.timestamp, meta.request), (round as i32, false));
            // Who did not ask for the values does not get them.
            let expected = if meta.recver == worker_id(1) { vec![] } else { vec![5.0, 6.0] };
            assert_eq!(read(&kv), expected);
            told.push(meta.recver);
        }
        told.sort_unstable();
        assert_eq!(told, [0, 1, 2].map(worker_id));
    }
}

#[test]
fn half_floats_are_summed_as_floats() {
    let mut relays = relays(&overlay(1, 0));
    // 2048 + 1 is 2048 in half floats, 2048 + 2 is not.
    let halves = |half: u16| values(bytemuck::cast_slice(&[half, half]));
    let (big, one) = (0x6800, 0x3c00);
    let mut left = Vec::new();
    for (rank, half) in [(2, one), (1, one), (0, big)] {
        let mut steps = Vec::new();
        relays[rank].push(push(rank, ticket(1, 1), Dtype::F16), halves(half), &mut steps);
        left = carry(&mut relays, steps);
    }
    let (_, kv) = at_root(&left);
    assert_eq!(Buffer::copy_of(&kv.vals).elements::<u16>(), [0x6801, 0x6801]);
}

#[test]
fn pushes_that_do_not_fit_fail_for_all_of_the_sum() {
    let mut relays = relays(&overlay(1, 0));
    pushes(&mut relays, 2, ticket(1, 1), floats(&[1.0]));
    pushes(&mut relays, 1, ticket(1, 1), floats(&[1.0, 2.0]));
    let left = pushes(&mut relays, 0, ticket(1, 1), floats(&[1.0]));
    let (sum, kv) = at_root(&left);
    assert!(sum.error.contains("different types"), "{}", sum.error);
    assert!(kv.vals.is_empty() && names(&sum).len() == 3);
    let refused = Meta { error: "no".to_owned(), ..sum };
    let left =
        tell(&mut relays, &refused, PartReply { to: 2, ..PartReply::default() }, &floats(&[]));
    let told =
        left.iter().filter(|step| matches!(step, Step::Answer(meta, _) if meta.error == "no"));
    assert_eq!(told.count(), 3);
}

#[test]
fn a_void_ticket_sends_every_push_back() {
    let mut relays = relays(&overlay(1, 0));
    pushes(&mut relays, 2, ticket(1, 1), floats(&[1.0]));
    pushes(&mut relays, 0, ticket(1, 1), floats(&[1.0]));
    let hop = Hop { ticket: ticket(1, 1), key: KEY, ..Hop::default() };
    let sum = Meta::default().along(hop);
    let next = Some(ticket(2, 1));
    let mut reply = PartReply { to: 2, again: true, ..PartReply::default() };
    reply.ticket = next.map(Box::new);
    let left = tell(&mut relays, &sum, reply, &KvPairs::default());
    let void = Void { ticket: ticket(1, 1), next };
    const PART: KeyPart = KeyPart { key: KEY, from: 0, to: 2 };
    let told = |step: &&Step| matches!(step, Step::Void(PART, told) if *told == void);
    let void = left.iter().filter(told).count();
    let again = left.iter().filter_map(|step| match step {
        Step::Answer(meta, _) => {
            let reply = meta.reply()?;
            assert_eq!(reply.ticket.as_deref(), next.as_ref());
            Some((meta.recver, reply.again))
        }
        _ => None,
    });
    let mut again: Vec<_> = again.collect();
    again.sort_unstable();
    assert_eq!((void, again), (3, vec![(worker_id(0), true), (worker_id(2), true)]));
    // Nothing of it is left: the next round is whole.
    for rank in [1, 0] {
        assert!(pushes(&mut relays, rank, ticket(1, 2), floats(&[1.0])).is_empty());
    }
    let (_, kv) = at_root(&pushes(&mut relays, 2, ticket(1, 2), floats(&[1.0])));
    assert_eq!(read(&kv), [3.0]);
}

#[test]
fn what_comes_before_its_overlay_waits_and_what_is_below_the_floor_is_forgotten() {
    let mut relays = relays(&overlay(1, 0));
    relays[0].overlay(&overlay(2, 0), &mut Vec::new());
    relays[2].overlay(&overlay(2, 0), &mut Vec::new());
    assert!(pushes(&mut relays, 2, ticket(2, 1), floats(&[1.0])).is_empty());
    let mut steps = Vec::new();
    relays[1].overlay(&overlay(2, 0), &mut steps);
    assert!(carry(&mut relays, steps).is_empty());
    assert!(pushes(&mut relays, 0, ticket(2, 1), floats(&[1.0])).is_empty());
    let (sum, _) = at_root(&pushes(&mut relays, 1, ticket(2, 1), floats(&[1.0])));
    // What comes down by a tree below the floor answers nobody.
    for relay in &mut relays {
        assert!(relay.overlay(&overlay(3, 3), &mut Vec::new()));
        assert!(!relay.overlay(&overlay(2, 0), &mut Vec::new()), "it is below the floor");
    }
    let mut steps = Vec::new();
    let down = Hop { kind: HopKind::Down.into(), ..sum.hop().cloned().unwrap() };
    let meta = sum.along(down);
    relays[2].came(meta, floats(&[1.0]), &mut steps);
    assert!(steps.is_empty());
}

#[test]
fn a_sum_takes_nobody_twice_and_no_stranger() {
    let mut relays = relays(&overlay(1, 0));
    let left = pushes(&mut relays, 1, ticket(1, 1), floats(&[1.0]));
    assert!(left.is_empty());
    // Worker 0 does not push through worker 1, and worker 2 comes twice.
    for (rank, twice) in [(0, false), (2, false), (2, true)] {
        let name = name_of(&push(rank, ticket(1, 1), Dtype::F32));
        let names = if twice { vec![name, name] } else { vec![name] };
        let hop = Hop { kind: HopKind::Up.into(), ticket: ticket(1, 1), names, key: KEY };
        let meta = push(rank, ticket(1, 1), Dtype::F32).along(hop);
        let mut steps = Vec::new();
        relays[1].came(meta, floats(&[1.0]), &mut steps);
        let sent = steps.iter().any(|step| matches!(step, Step::Send(..)));
        assert_eq!(sent, rank == 2 && !twice, "{rank} {steps:?}");
    }
}

#[test]
fn old_overlays_are_forgotten() {
    let mut trees = Trees::default();
    for number in 1..=OVERLAYS_KEPT + 1 {
        assert!(trees.learn(&overlay(number, 0)));
    }
    assert_eq!(trees.floor(), 2);
    assert!(matches!(trees.find(&ticket(1, 1)), Found::Gone));
    assert!(matches!(trees.find(&ticket(2, 1)), Found::Here(_)));
    assert!(matches!(trees.find(&ticket(OVERLAYS_KEPT + 2, 1)), Found::NotYet));
    assert!(matches!(trees.find(&Ticket { tree: 1, ..ticket(2, 1) }), Found::Strange));
    assert_eq!(trees.of_root(ROOT).count(), 1);
    assert_eq!(trees.of_root(ROOT + 2).count(), 0);
}

#[test]
fn an_overlay_may_come_after_a_newer_one() {
    let mut trees = Trees::default();
    assert!(!trees.learn(&overlay(0, 0)), "that is none");
    assert!(trees.learn(&overlay(1, 0)) && trees.learn(&overlay(4, 0)));
    assert!(matches!(trees.find(&ticket(3, 1)), Found::NotYet));
    assert!(trees.learn(&overlay(3, 0)) && !trees.learn(&overlay(3, 0)));
    assert!(matches!(trees.find(&ticket(3, 1)), Found::Here(_)));
    assert!(matches!(trees.find(&ticket(2, 1)), Found::NotYet));
    assert_eq!(trees.number(), 4);
    assert!(trees.learn(&overlay(5, 4)) && !trees.learn(&overlay(2, 0)), "below the floor");
    assert!(matches!(trees.find(&ticket(3, 1)), Found::Gone));
}

/// What came by an overlay that was lost is summed when that comes, after a newer one.
#[test]
fn a_hop_waits_for_an_overlay_that_was_lost() {
    let mut relays = relays(&overlay(1, 0));
    assert!(relays[0].overlay(&overlay(3, 0), &mut Vec::new()));
    for relay in &mut relays[1..] {
        assert!(relay.overlay(&overlay(2, 0), &mut Vec::new()));
    }
    for rank in [2, 1] {
        assert!(pushes(&mut relays, rank, ticket(2, 1), floats(&[1.0])).is_empty());
    }
    assert!(relays[0].overlay(&overlay(2, 0), &mut Vec::new()));
    let (_, kv) = at_root(&pushes(&mut relays, 0, ticket(2, 1), floats(&[1.0])));
    assert_eq!(read(&kv), [3.0]);
}

/// The same bits whoever comes first, if that is wanted.
#[test]
fn sums_can_be_made_in_the_order_of_children() {
    let pushed = [1e8_f32, 1.0, -1e8];
    let mut star = overlay(1, 0);
    for (rank, node) in star.trees[0].nodes.iter_mut().enumerate() {
        let parent = if rank == 0 { ROOT } else { worker_id(0) };
        (node.up, node.down) = (parent, parent);
    }
    let sums = |keeps_order: bool| {
        let mut sums = Vec::new();
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut relays = relays(&star);
            if keeps_order {
                relays.iter_mut().for_each(Relay::keep_order);
            }
            let all =
                order.map(|rank| pushes(&mut relays, rank, ticket(1, 1), floats(&[pushed[rank]])));
            sums.push(read(&at_root(&all[2]).1)[0]);
        }
        sums
    };
    assert_eq!(sums(true), [(1e8_f32 + 1.0) - 1e8; 6]);
    assert!(sums(false).contains(&1.0), "in the order of arrival some sums are others");
}

/// Worker `rank` pushes these words, which are compressed.
fn pushes_compressed(relays: &mut [Relay; 3], rank: usize, words: &[u8]) -> Vec<Step> {
    let head = command_of(RequestKind::Compressed, Dtype::F32);
    let push = Meta { head, ..push(rank, ticket(1, 1), Dtype::F32) };
    let lens = [0, words.len() as i32];
    let kv = KvPairs {
        keys: Bytes::copy_from_slice(bytemuck::cast_slice(&[2_u64, KEY])),
        vals: Bytes::copy_from_slice(words),
        lens: Bytes::copy_from_slice(bytemuck::cast_slice(&lens)),
    };
    let mut steps = Vec::new();
    relays[rank].push(push, kv, &mut steps);
    carry(relays, steps)
}

#[test]
fn compressed_pushes_go_up_as_they_are_and_values_come_down() {
    let mut relays = relays(&overlay(1, 0));
    let mut sums = Vec::new();
    for rank in [1, 0, 2] {
        let words = [rank as u8; 4];
        let (sum, kv) = at_root(&pushes_compressed(&mut relays, rank, &words));
        assert_eq!((kv.vals.as_ref(), kv.keys.len(), kv.lens.len()), (&words[..], 16, 8));
        let name = name_of(&push(rank, ticket(1, 1), Dtype::F32));
        assert_eq!((names(&sum), sum.hop().unwrap().key), (vec![name], KEY));
        sums.push(sum);
    }
    // The owner answers all of them at once.
    let mut all = sums.remove(0);
    let hop = all.hop_mut().unwrap();
    hop.names.extend(sums.iter().flat_map(names));
    let reply = all.answered().unwrap();
    let left = tell(&mut relays, &all, reply, &floats(&[7.0, 8.0]));
    let mut answered: Vec<(NodeId, Vec<f32>)> = left
        .iter()
        .map(|step| match step {
            Step::Answer(meta, kv) => (meta.sender, read(kv)),
            Step::Send(..) | Step::Void(..) => panic!("{step:?}"),
        })
        .collect();
    answered.sort_by_key(|(worker, _)| *worker);
    let wants = |rank| if rank == 1 { vec![] } else { vec![7.0, 8.0] };
    let expected: Vec<_> = (0..3).map(|rank| (worker_id(rank), wants(rank))).collect();
    assert_eq!(answered, expected);
}

/// A worker that compresses is not in the sum of those who do not, and nobody waits for it.
#[test]
fn a_sum_does_not_wait_for_pushes_that_went_up_as_they_were() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for compressed in 0..3 {
            let mut relays = relays(&overlay(1, 0));
            let mut left = Vec::new();
            for rank in order {
                left.extend(match rank == compressed {
                    true => pushes_compressed(&mut relays, rank, &[1; 4]),
                    false => pushes(&mut relays, rank, ticket(1, 1), floats(&[2.0])),
                });
            }
            let at_root = |step: &Step| match step {
                Step::Send(meta, kv) => (names(meta).len(), kv.vals.to_vec()),
                Step::Answer(..) | Step::Void(..) => panic!("{step:?}"),
            };
            let mut all: Vec<_> = left.iter().map(at_root).collect();
            all.sort();
            let sum = 4.0_f32.to_ne_bytes().to_vec();
            assert_eq!(all, [(1, vec![1; 4]), (2, sum)], "{order:?} {compressed}");
        }
    }
}
