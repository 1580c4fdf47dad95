//! The side of a worker, without a node around it.

use bytes::Bytes;

use super::*;
use crate::kv::Pending;
use crate::wire::elastic::{KeyRoute, PartReply, Route};
use crate::wire::trees::{Overlay, Ticket, TreeNode, TreeTable};
use crate::wire::word::{Policy, RoutedPolicy};
use crate::wire::{Payload, server_id, worker_id};
use crate::worker::{LocalStep, Own};

const NOW: Duration = Duration::from_secs(1);
const SERVERS: [NodeId; 2] = [server_id(0), server_id(1)];
const ME: NodeId = worker_id(1);

/// The side of worker 1 of a job with two servers.
fn side() -> WorkerSide<&'static str> {
    let mut side = WorkerSide::default();
    side.set_servers(SERVERS.len());
    side
}

/// The same where keys may move.
fn following() -> WorkerSide<&'static str> {
    let mut side = side();
    let (homes, life, makes_keys, keeps_order) = (SERVERS.to_vec(), 0, false, false);
    side.follow(Follower { me: ME, homes, life, makes_keys, keeps_order });
    side
}

fn pairs(keys: &[u64], vals: &[u8]) -> KvPairs {
    let lens = if vals.is_empty() { Vec::new() } else { vec![(vals.len() / keys.len()) as i32] };
    KvPairs {
        keys: keys.iter().flat_map(|key| key.to_ne_bytes()).collect(),
        vals: Bytes::copy_from_slice(vals),
        lens: lens.repeat(keys.len()).iter().flat_map(|len| len.to_ne_bytes()).collect(),
    }
}

/// A request about key 3, which server 0 answers; what it says.
fn asked(side: &mut WorkerSide<&'static str>, push: bool) -> Meta {
    let timestamp = side.requests_mut().new_request(&SERVERS[..1]);
    let keys = pairs(&[3], &[]).keys;
    let pending = if push { Pending::push("push") } else { Pending::pull(keys, false, "pull") };
    side.requests_mut().open(timestamp, pending).unwrap();
    side.note_asked(timestamp, NOW);
    Meta { head: 0, timestamp, push, pull: !push, request: true, sender: ME, ..Meta::default() }
}

/// Begins a push of so many bytes, and what is sent.
fn pushed(side: &mut WorkerSide<&'static str>, bytes: usize) -> Vec<Outgoing> {
    let meta = asked(side, true);
    let mut out = WorkerOutput::default();
    let slice = (0, pairs(&[3], &vec![1; bytes]));
    side.begin(NOW, &meta, std::iter::once(slice), &mut out).unwrap();
    let messages = side.messages(&mut out);
    assert!(out.over.is_empty() && out.parts().is_empty());
    side.validate().unwrap();
    messages
}

/// What the server that got a message answers to it.
fn answer(to: &Outgoing) -> Meta {
    Meta { request: false, sender: to.meta.recver, recver: ME, ..to.meta.clone() }
}

fn ended(out: &WorkerOutput<&'static str>) -> Vec<(&'static str, bool)> {
    out.over.iter().map(|finished| (finished.payload, finished.outcome.is_ok())).collect()
}

#[test]
fn where_keys_stay_one_answer_is_the_end_and_is_timed() {
    let mut side = side();
    let meta = asked(&mut side, true);
    let answer = Meta { request: false, sender: SERVERS[0], ..meta };
    let mut out = WorkerOutput::default();
    side.answered(Duration::ZERO, &answer, KvPairs::default(), &mut out);
    side.answered(Duration::ZERO, &answer, KvPairs::default(), &mut out);
    assert_eq!(ended(&out), [("push", true)], "it was said twice");
    let timed =
        AnsweredBy { server: SERVERS[0], asked: NOW, command: false, push: true, pull: false };
    assert_eq!(out.answered[..], [timed]);
    assert!(side.messages(&mut out).is_empty() && !side.waits());
}

#[test]
fn a_pull_that_is_answered_with_nothing_has_failed() {
    for mut side in [side(), following()] {
        let meta = asked(&mut side, false);
        let mut out = WorkerOutput::default();
        let mut answer = Meta { request: false, sender: SERVERS[0], ..meta.clone() };
        if side.follows() {
            let slice = (0, pairs(&[3], &[]));
            side.begin(NOW, &meta, std::iter::once(slice), &mut out).unwrap();
            let sent = side.messages(&mut out);
            answer.payload = sent[0].meta.answered().into();
        }
        side.answered(NOW, &answer, KvPairs::default(), &mut out);
        let [Finished { outcome: Err(error), .. }] = &out.over[..] else { panic!("{out:?}") };
        assert!(error.to_string().contains("node 8 answered a pull without keys"), "{error}");
    }
}

#[test]
fn a_part_whose_server_is_gone_waits_for_a_policy_and_then_goes_to_another() {
    let mut side = following();
    let sent = pushed(&mut side, 8);
    assert_eq!(sent.iter().map(|message| message.meta.recver).collect::<Vec<_>>(), SERVERS[..1]);
    let mut out = WorkerOutput::default();
    side.lost(NOW, SERVERS[0], "it is gone", &mut out);
    assert!(side.waits() && out.over.is_empty(), "a push is not lost with a server");
    let policy = RoutedPolicy {
        policy: Policy {
            epoch: 1,
            servers: vec![SERVERS[1]],
            homes: vec![SERVERS[1]; 2],
            lost: vec![SERVERS[0]],
            ..Policy::default()
        },
        ..RoutedPolicy::default()
    };
    side.policy(NOW, &policy, &mut out);
    let again = side.messages(&mut out);
    assert_eq!(again.len(), 1, "{again:?}");
    assert_eq!((again[0].meta.recver, side.waits()), (SERVERS[1], false));
    side.answered(NOW, &answer(&again[0]), KvPairs::default(), &mut out);
    assert_eq!(ended(&out), [("push", true)]);
    side.validate().unwrap();
}

#[test]
fn of_a_request_that_does_not_fit_nothing_is_under_way() {
    let mut side = following();
    // The pieces of this key end at the fourth element.
    let short = side.ranges()[1].begin;
    let piece = |from, to| Route { from, to, term: 1, owner: SERVERS[1] };
    let routes = [piece(0, 2), piece(2, 4)].map(|route| KeyRoute { key: short, route });
    let mut out = WorkerOutput::default();
    side.learn(NOW, &routes, &mut out);
    let meta = asked(&mut side, true);
    let slices = [(0, pairs(&[3], &[1; 8])), (1, pairs(&[short], &[1; 8]))];
    let begun = side.begin(NOW, &meta, slices.into_iter(), &mut out);
    assert!(begun.is_err() && out.parts().is_empty(), "{begun:?}, {:?}", out.parts());
    assert!(!side.flights().unwrap().has(meta.timestamp));
    side.validate().unwrap();
}

/// A part that goes along a tree is given to the worker's own relay, which sends a sum.
#[test]
fn nothing_is_sent_to_oneself() {
    let mut side = following();
    let tree = TreeTable {
        root: SERVERS[0],
        weight: 1,
        nodes: vec![TreeNode { node: ME, up: SERVERS[0], down: SERVERS[0] }],
    };
    let overlay = Overlay { number: 1, floor: 0, trees: vec![tree] };
    let mut out = WorkerOutput::default();
    side.overlay(NOW, &overlay, &mut out);
    side.set_asks_from(0);
    // The first push of a key asks its owner by which tree it goes.
    let [asks] = &pushed(&mut side, 8)[..] else { panic!("one message") };
    let asking = asks.meta.ask().unwrap();
    assert!(asking.asks && asks.meta.recver == SERVERS[0], "{asks:?}");
    let ticket = Some(Box::new(Ticket { overlay: 1, tree: 0, round: 1 }));
    let routes = vec![Route { from: 0, to: 2, term: 1, owner: SERVERS[0] }];
    let told = PartReply { again: true, ticket, routes, overlay: 1, ..asking.into() };
    let told = Meta { payload: Payload::Reply(told), ..answer(asks) };
    side.answered(NOW, &told, KvPairs::default(), &mut out);
    assert!(out.parts().iter().all(|part| part.is_for_relay(ME)) && !out.parts().is_empty());
    let sums = side.messages(&mut out);
    assert!(!sums.is_empty() && out.parts().is_empty());
    for Outgoing { meta, .. } in &sums {
        assert!(meta.hop().is_some() && meta.recver == SERVERS[0], "{meta:?}");
    }
    assert!(side.along_tree(sums[0].meta.hop().unwrap().names[0].timestamp).is_some());
    side.validate().unwrap();
}

#[test]
fn a_command_that_no_server_is_left_to_answer_waits_for_the_next_ones() {
    let mut side = following();
    let body = Bytes::from_static(b"body");
    let command = side.command(0, &body, &SERVERS);
    side.note_asked(command.timestamp, NOW);
    let mut out = WorkerOutput::default();
    side.obeyed(command.timestamp, SERVERS[0], "", &mut out);
    assert!(out.answered[0].command && out.answered[0].server == SERVERS[0]);
    side.end_commands(SERVERS[0], &mut out);
    assert_eq!(side.command_again(&[server_id(2)], &mut out), [], "the other one has it");
    side.lost(NOW, SERVERS[1], "it is gone", &mut out);
    assert_eq!(side.command_again(&[server_id(2)], &mut out), std::slice::from_ref(&command));
    assert_eq!(side.requests().tracker().missing(command.timestamp), [server_id(2)]);
    side.obeyed(command.timestamp, server_id(2), "", &mut out);
    assert!(side.requests().tracker().missing(command.timestamp).is_empty());
}

#[test]
fn when_nothing_is_answered_any_more_all_fail_and_nothing_waits() {
    let mut side = following();
    drop(pushed(&mut side, 8));
    let mut out = WorkerOutput::default();
    side.lost(NOW, SERVERS[0], "it is gone", &mut out);
    let local = side.requests_mut().new_request(&SERVERS);
    side.keep_local(local);
    side.requests_mut().open(local, Pending::push("local")).unwrap();
    side.fail_all("the job has failed", &mut out);
    assert_eq!(ended(&out), [("push", false), ("local", false)]);
    assert!(out.has_failed && !side.waits() && !side.is_local(local));
}

#[test]
fn a_request_of_the_local_model_is_of_no_server_until_it_is_left_to_one() {
    let mut side = following();
    let first = asked(&mut side, true);
    let second = asked(&mut side, true);
    side.keep_local(first.timestamp);
    side.keep_local(second.timestamp);
    let mut out = WorkerOutput::default();
    side.lost(NOW, SERVERS[0], "it is gone", &mut out);
    assert!(out.over.is_empty() && side.local_count() == 2, "neither waits for that server");
    let refused = LocalStep::Refuse(first.timestamp, "it does not fit".to_owned());
    assert_eq!(side.do_local(NOW, refused, |_| "own", &mut out), LocalSent::Nothing);
    assert_eq!(ended(&out), [("push", false)]);
    assert!(out.has_failed);
    let mut slices = Slices::new();
    slices.extend([Some(pairs(&[3], &[1; 8])), None]);
    let (timestamp, forward) = (second.timestamp, LocalStep::Forward(Box::new((second, slices))));
    let sent = side.do_local(NOW, forward, |_| "own", &mut out);
    assert_eq!(sent, LocalSent::Forwarded(timestamp));
    assert!(side.waits() && side.local_count() == 0, "its server is gone");
    side.validate().unwrap();
}

#[test]
fn a_request_of_the_workers_own_is_one_of_the_server_in_whose_range_it_lies() {
    let mut side = following();
    let key = side.ranges()[1].begin + 3;
    let meta = Meta { head: 0, push: true, pull: true, request: true, ..Meta::default() };
    let own = |kv| Own { key, rank: 1, round: None, meta: meta.clone(), kv };
    let mut out = WorkerOutput::default();
    let send = LocalStep::Send(Box::new(own(pairs(&[key], &[1; 8]))));
    let begun = side.do_local(NOW, send, |_| "own", &mut out);
    let sent = side.messages(&mut out);
    let timestamp = sent[0].meta.timestamp;
    assert_eq!((sent[0].meta.recver, begun), (SERVERS[1], LocalSent::Own(timestamp)));
    side.fail(sent[0].meta.timestamp, "it cannot be sent", &mut out);
    assert_eq!(ended(&out), [("own", false)]);
    assert!(!side.flights().unwrap().has(sent[0].meta.timestamp));
    side.validate().unwrap();
}
