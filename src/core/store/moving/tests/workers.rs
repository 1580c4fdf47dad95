//! Workers that die, come back and leave (docs/elastic.md, "Workers"): whose pushes a round has,
//! and whom it waits for. Without an optimizer the sum of a round is the value, and each worker
//! pushes a power of two of its own: so a pull says who was counted.

use std::time::Duration;

use bytes::Bytes;

use super::{MOMENTUM, pickled};
use crate::store::Outbound;
use crate::store::command::Head;
use crate::store::moving::Due;
use crate::store::{PART_BYTES, Store, StoreConfig, SumOrder};
use crate::values::server_key_ranges;
use crate::wire::elastic::{Claim, KeyRoute, LiveWorker, PartAsk, Route};
use crate::wire::word::{Policy, RoutedPolicy};
use crate::wire::{Key, Meta, NodeId, Payload};

const LENGTH: usize = 4;
const A: NodeId = 9;
const B: NodeId = 11;
const C: NodeId = 13;

fn key() -> Key {
    server_key_ranges(1)[0].begin + 3
}

/// What a worker adds to each element.
fn load(worker: NodeId) -> f32 {
    [1.0, 2.0, 4.0][(worker as usize - 9) / 2]
}

/// A worker's process, as far as servers see it.
#[derive(Clone, Copy)]
struct Process {
    worker: NodeId,
    life: u64,
    epoch: u64,
    timestamp: i32,
    /// One more than the timestamp of its last push.
    after: u32,
}

impl Process {
    const fn new(worker: NodeId, life: u64) -> Self {
        Self { worker, life, epoch: if life == 0 { 1 } else { life }, timestamp: 0, after: 0 }
    }

    fn meta(&mut self, push: bool, init: bool) -> Meta {
        let after = if push { self.after } else { 0 };
        let placed =
            PartAsk { epoch: self.epoch, life: self.life, after, init, ..PartAsk::default() };
        let timestamp = self.timestamp;
        self.timestamp += 1;
        if push && !init {
            self.after = timestamp as u32 + 1;
        }
        Meta {
            head: 0,
            sender: self.worker,
            customer_id: 0,
            timestamp,
            push,
            pull: !push,
            request: true,
            payload: Payload::Ask(placed),
            ..Meta::default()
        }
    }
}

/// One server, or one and its replica.
struct Job {
    stores: Vec<(NodeId, Store)>,
    epoch: u64,
    /// Of each worker, from the next policy on.
    customers: Vec<i32>,
}

impl Job {
    /// A key is here, with the value 100. Workers A, B and C.
    fn new(servers: usize) -> (Self, [Process; 3]) {
        let ids: Vec<NodeId> = (0..servers).map(crate::wire::server_id).collect();
        let store = |id: &NodeId| {
            let mut store = Store::new(StoreConfig {
                workers: 3,
                servers,
                id: *id,
                order: SumOrder::Arrival,
                elastic: true,
                replicas: u32::from(servers > 1),
                part_bytes: PART_BYTES,
            });
            store.held.set_sync(0).unwrap();
            (*id, store)
        };
        let mut job =
            Self { stores: ids.iter().map(store).collect(), epoch: 0, customers: vec![0] };
        let mut workers = [A, B, C].map(|worker| Process::new(worker, 0));
        job.policy(&[(A, 0), (B, 0), (C, 0)], &[]);
        let made = job.push_value(&mut workers[0], 100.0, false);
        assert_eq!(made, [(A, 0)]);
        (job, workers)
    }

    fn store(&mut self, id: NodeId) -> &mut Store {
        &mut self.stores.iter_mut().find(|(of, _)| *of == id).unwrap().1
    }

    /// The next policy: who lives, since when, and which servers are dead. Who is answered.
    fn policy(&mut self, live: &[(NodeId, u64)], lost: &[NodeId]) -> Vec<(NodeId, i32)> {
        self.epoch += 1;
        let epoch = self.epoch;
        self.stores.retain(|(id, _)| !lost.contains(id));
        let servers: Vec<NodeId> = self.stores.iter().map(|(id, _)| *id).collect();
        let of_the_dead = |claim: &Claim| lost.contains(&claim.peer);
        let routes = self.stores.iter().flat_map(|(owner, store)| {
            let claims = store.claims().into_iter().filter(of_the_dead);
            claims.map(|Claim { key, from, to, .. }| KeyRoute {
                key,
                route: Route { from, to, term: epoch << 32, owner: *owner },
            })
        });
        let customers = self.customers.clone();
        let live = live.iter().map(|&(node, since)| LiveWorker {
            node,
            since,
            customers: customers.clone(),
            incarnation: 0,
        });
        let word = RoutedPolicy {
            policy: Policy {
                epoch,
                homes: servers.clone(),
                lost: lost.to_vec(),
                replicas: u32::from(servers.len() > 1),
                live: live.collect(),
                servers,
                ..Policy::default()
            },
            routes: routes.collect(),
        };
        let mut answered = Vec::new();
        for id in word.policy.servers.clone() {
            let mut out = Outbound::default();
            self.store(id).policy(&word, &mut out);
            answered.extend(self.settle(id, out));
        }
        answered
    }

    /// All that follows from what a server sends. Who is answered, and to which request.
    fn settle(&mut self, from: NodeId, out: Outbound) -> Vec<(NodeId, i32)> {
        let answer = |meta: &Meta| {
            assert_eq!(meta.error, "");
            (meta.sender, meta.timestamp)
        };
        let mut answered: Vec<_> = out.answers.iter().map(|a| answer(&a.request)).collect();
        for sent in out.transfers {
            let mut next = Outbound::default();
            let Some((_, store)) = self.stores.iter_mut().find(|(id, _)| *id == sent.to) else {
                continue;
            };
            store.transfer(from, &sent.transfer, &sent.frames, &mut next).unwrap();
            answered.extend(self.settle(sent.to, next));
        }
        answered.sort_unstable();
        answered
    }

    fn push_value(&mut self, by: &mut Process, value: f32, init: bool) -> Vec<(NodeId, i32)> {
        let meta = by.meta(true, init);
        self.push_as(meta, value)
    }

    fn push_as(&mut self, meta: Meta, value: f32) -> Vec<(NodeId, i32)> {
        let (owner, out) = (self.stores[0].0, self.serve_push(meta, value));
        self.settle(owner, out)
    }

    fn serve_push(&mut self, meta: Meta, value: f32) -> Outbound {
        let values = vec![value; LENGTH];
        let frames = [
            Bytes::copy_from_slice(&key().to_ne_bytes()),
            Bytes::copy_from_slice(bytemuck::cast_slice(&values)),
            Bytes::copy_from_slice(&(LENGTH as i32 * 4).to_ne_bytes()),
        ];
        let mut out = Outbound::default();
        self.stores[0].1.serve(meta, &frames, &mut out);
        out
    }

    /// A gradient whose worker wants the values ahead. Who is answered, and whether with values.
    fn push_wanting(&mut self, by: &mut Process) -> Vec<(NodeId, bool)> {
        let mut meta = by.meta(true, false);
        meta.ask_mut().unwrap().ahead = true;
        let answers = self.serve_push(meta, load(by.worker)).answers;
        let mut found: Vec<_> =
            answers.iter().map(|a| (a.request.sender, !a.kv.vals.is_empty())).collect();
        found.sort_unstable();
        found
    }

    /// A worker's gradient. Who is answered.
    fn push(&mut self, by: &mut Process) -> Vec<NodeId> {
        let answered = self.push_value(by, load(by.worker), false);
        answered.into_iter().map(|(worker, _)| worker).collect()
    }

    /// Whom the oldest round that waits waits for; nobody if none does.
    fn missing(&mut self) -> Vec<NodeId> {
        let second = Duration::from_secs(1);
        let stall = self.stores[0].1.stalled(second, second);
        let missing = stall.map(|stall| stall.missing).unwrap_or_default();
        missing.into_iter().map(|(worker, _)| worker).collect()
    }

    fn push_all(&mut self, by: [&mut Process; 3]) {
        for worker in by {
            self.push(worker);
        }
    }

    /// The value, as A sees it.
    fn value(&mut self) -> f32 {
        self.pulled_by(&mut Process { timestamp: 1000, ..Process::new(A, 0) })
    }

    fn pulled_by(&mut self, asks: &mut Process) -> f32 {
        let (meta, mut out) = (asks.meta(false, false), Outbound::default());
        let frames = [Bytes::copy_from_slice(&key().to_ne_bytes())];
        self.stores[0].1.serve(meta, &frames, &mut out);
        let bytes = out.answers[0].kv.vals.chunks_exact(4);
        let values: Vec<f32> = bytes.map(bytemuck::pod_read_unaligned).collect();
        assert_eq!(values, [values[0]; LENGTH]);
        values[0]
    }
}

#[test]
fn a_round_does_not_wait_for_the_dead() {
    let (mut job, [mut a, mut b, mut c]) = Job::new(1);
    assert!(job.push(&mut a).is_empty() && job.push(&mut b).is_empty());
    assert_eq!(job.push(&mut c), [A, B, C]);
    assert_eq!(job.value(), 7.0);
    assert!(job.push(&mut a).is_empty() && job.push(&mut b).is_empty());
    let answered = job.policy(&[(A, 0), (B, 0)], &[]);
    assert_eq!(answered.iter().map(|(worker, _)| *worker).collect::<Vec<_>>(), [A, B]);
    assert_eq!(job.value(), 3.0, "the round that only it was missing in ends at once");
    assert!(job.push(&mut a).is_empty());
    assert_eq!(job.push(&mut b), [A, B]);
}

/// What the dead one pushed counts in the open round with what others pushed to it; but not alone,
/// and not in a later one. Nobody is answered who is dead.
#[test]
fn the_last_push_of_the_dead_counts_once_or_not_at_all() {
    let (mut job, [mut a, mut b, mut c]) = Job::new(1);
    job.push(&mut c);
    job.push(&mut c);
    job.push(&mut a);
    assert!(job.policy(&[(A, 0), (B, 0)], &[]).is_empty());
    assert_eq!(job.push(&mut b), [A, B]);
    assert_eq!(job.value(), 7.0, "it was in the round that A had begun");
    job.push(&mut a);
    assert_eq!(job.push(&mut b), [A, B]);
    assert_eq!(job.value(), 3.0, "what it sent for the next one is forgotten");

    let (mut job, [mut a, mut b, mut c]) = Job::new(1);
    job.push(&mut c);
    assert!(job.store(8).has_open_rounds());
    job.policy(&[(A, 0), (B, 0)], &[]);
    assert!(
        !job.store(8).has_open_rounds(),
        "nobody is there to complete it, and nothing could move"
    );
    assert!(job.push(&mut c).is_empty() && !job.store(8).has_open_rounds(), "it comes too late");
    job.push(&mut a);
    assert_eq!(job.push(&mut b), [A, B]);
    assert_eq!(job.value(), 3.0);
}

/// One that came back is in a round if it is in time, and holds up nobody; its timestamps begin
/// anew.
#[test]
fn one_that_comes_back_is_in_and_not_waited_for() {
    let (mut job, [mut a, mut b, mut c]) = Job::new(1);
    for _ in 0..3 {
        job.push_all([&mut a, &mut b, &mut c]);
    }
    job.push(&mut c);
    job.policy(&[(A, 0), (B, 0)], &[]);
    job.push(&mut a);
    job.policy(&[(A, 0), (B, 0), (C, 3)], &[]);
    assert_eq!(job.push(&mut b), [A, B], "nobody waits while it starts");
    let mut back = Process::new(C, 3);
    job.push(&mut a);
    assert!(job.push(&mut back).is_empty());
    assert_eq!(job.push(&mut b), [A, B, C]);
    assert_eq!(job.value(), 7.0);
    job.push(&mut a);
    assert_eq!(job.push(&mut b), [A, B], "nor later");
    assert_eq!(job.value(), 3.0);
    assert!(job.push(&mut back).is_empty(), "it is in the next one");
    assert!(job.push(&mut c).is_empty(), "the one that was given up is not");
    job.push(&mut a);
    assert_eq!(job.push(&mut b), [A, B, C]);
    assert_eq!(job.value(), 7.0);
}

/// Found by the simulation (seed 2542 and four more of 5,000): rounds end without one that came
/// back, so what it got with its last push may be older than what a pull brings.
#[test]
fn values_come_ahead_only_to_whom_rounds_wait_for() {
    let (mut job, [mut a, mut b, _]) = Job::new(1);
    job.policy(&[(A, 0), (B, 0)], &[]);
    job.policy(&[(A, 0), (B, 0), (C, 3)], &[]);
    let mut back = Process::new(C, 3);
    assert!(job.push_wanting(&mut a).is_empty() && job.push_wanting(&mut back).is_empty());
    assert_eq!(job.push_wanting(&mut b), [(A, true), (B, true), (C, false)]);
    job.push(&mut a);
    job.push(&mut b);
    assert_eq!(job.pulled_by(&mut back), 3.0, "a round without it");
    // If it is the only one that is left, no round ends without it.
    job.policy(&[(C, 3)], &[]);
    assert_eq!(job.push_wanting(&mut back), [(C, true)]);
}

/// If none of the beginning is left, the one that has been back for longest is waited for.
#[test]
fn the_eldest_leads() {
    let (mut job, [mut a, ..]) = Job::new(1);
    job.policy(&[(A, 0), (C, 0)], &[]);
    job.policy(&[(A, 0), (B, 3), (C, 3)], &[]);
    let [mut b, mut c] = [Process::new(B, 3), Process::new(C, 3)];
    job.push(&mut c);
    job.push(&mut b);
    assert_eq!(job.push(&mut a), [A, B, C]);
    job.push(&mut c);
    assert!(job.push(&mut b).is_empty());
    assert_eq!(job.policy(&[(B, 3), (C, 3)], &[]).len(), 2, "B has its push in it");
    assert_eq!(job.pulled_by(&mut b), 6.0);
    assert!(job.push(&mut c).is_empty());
    assert_eq!(job.push(&mut b), [B, C]);
    let mut out = Outbound::default();
    job.store(8).customer_left(B, 0, &mut out);
    assert_eq!(job.push(&mut c), [C], "then the next one");
}

/// The server hears of the policy after the worker that it lets in.
#[test]
fn what_comes_before_the_policy_waits_for_it() {
    let (mut job, [mut a, mut b, _]) = Job::new(1);
    job.policy(&[(A, 0), (B, 0)], &[]);
    let mut back = Process::new(C, 3);
    assert!(job.push(&mut back).is_empty() && !job.store(8).has_open_rounds());
    assert!(job.policy(&[(A, 0), (B, 0), (C, 3)], &[]).is_empty());
    assert!(job.store(8).has_open_rounds());
    job.push(&mut a);
    assert_eq!(job.push(&mut b), [A, B, C]);
    assert_eq!(job.value(), 7.0);
}

/// MXNet's rank 0 pushes its initial values at its start, also where all others train.
#[test]
fn the_values_of_a_rank_0_that_comes_back_do_not_count() {
    let (mut job, [mut a, mut b, mut c]) = Job::new(1);
    job.push_all([&mut a, &mut b, &mut c]);
    job.policy(&[(B, 0), (C, 0)], &[]);
    job.policy(&[(A, 3), (B, 0), (C, 0)], &[]);
    let mut back = Process::new(A, 3);
    assert_eq!(job.push_value(&mut back, 100.0, true), [(A, 0)], "it is answered at once");
    job.push(&mut b);
    assert_eq!(job.push(&mut c), [B, C], "and no round waits for it");
    job.push(&mut back);
    job.push(&mut b);
    assert_eq!(job.push(&mut c), [A, B, C]);
    let mut new = Process::new(A, 3);
    let other = key() + 1;
    let frames = [
        Bytes::copy_from_slice(&other.to_ne_bytes()),
        Bytes::copy_from_slice(bytemuck::bytes_of(&5.0_f32)),
        Bytes::copy_from_slice(&4_i32.to_ne_bytes()),
    ];
    let mut out = Outbound::default();
    let meta = Meta { timestamp: 77, ..new.meta(true, true) };
    job.store(8).serve(meta, &frames, &mut out);
    assert_eq!(
        (out.answers.len(), job.store(8).len()),
        (1, 2),
        "a key that nobody has made is made"
    );
}

#[test]
fn who_took_leave_is_not_waited_for() {
    let (mut job, [mut a, mut b, mut c]) = Job::new(1);
    job.push(&mut c);
    job.push(&mut b);
    let mut out = Outbound::default();
    job.store(8).customer_left(A, 0, &mut out);
    assert_eq!(job.settle(8, out).len(), 2, "only A was missing");
    assert_eq!(job.value(), 6.0);
    job.push(&mut c);
    assert_eq!(job.push(&mut b), [B, C]);
    // What it sent before counts all the same.
    job.push(&mut a);
    job.push(&mut c);
    assert_eq!(job.push(&mut b), [A, B, C]);
}

/// The replica knows from the marks what of it counted.
#[test]
fn what_counted_of_who_came_back_is_known_where_a_piece_goes() {
    let (mut job, [mut a, mut b, _]) = Job::new(2);
    job.policy(&[(A, 0), (B, 0)], &[]);
    job.policy(&[(A, 0), (B, 0), (C, 3)], &[]);
    let mut back = Process::new(C, 3);
    job.push(&mut a);
    job.push(&mut back);
    assert_eq!(job.push(&mut b), [A, B, C]);
    job.policy(&[(A, 0), (B, 0), (C, 3)], &[8]);
    assert_eq!((job.stores.len(), job.value()), (1, 7.0));
    let again =
        Meta { timestamp: back.timestamp - 1, ..Process { after: 0, ..back }.meta(true, false) };
    assert_eq!(job.push_as(again, 4.0).len(), 1, "it has counted");
    job.push(&mut back);
    job.push(&mut a);
    assert_eq!(job.push(&mut b), [A, B, C]);
    assert_eq!(job.value(), 7.0);
}

/// MXNet's scripts send the optimizer at their start (kvstore.py, set_optimizer).
#[test]
fn the_optimizer_of_one_that_comes_back_resets_nothing() {
    let (mut job, [mut a, mut b, mut c]) = Job::new(1);
    let tell = |job: &mut Job, from: Meta| {
        let body = pickled("SGD", MOMENTUM);
        let head = Head::Controller.number();
        let meta = Meta { head, body, simple_app: true, push: false, pull: false, ..from };
        assert_eq!(job.store(8).obey(&meta, &mut Outbound::default()).unwrap(), Due::Now);
    };
    for worker in [&mut a, &mut b, &mut c] {
        let from = Meta { payload: Payload::Plain, ..worker.meta(false, false) };
        tell(&mut job, from);
    }
    job.push_all([&mut a, &mut b, &mut c]);
    let state = job.store(8).bytes().1;
    assert!(state > 0, "the momentum");
    job.policy(&[(A, 0), (B, 0)], &[]);
    job.policy(&[(A, 0), (B, 0), (C, 3)], &[]);
    job.store(8).forget_node(C);
    let payload = Payload::Ask(PartAsk { life: 3, ..PartAsk::default() });
    tell(&mut job, Meta { payload, sender: C, customer_id: 0, timestamp: 0, ..Meta::default() });
    assert_eq!(job.store(8).bytes().1, state);
}

#[test]
fn a_round_that_waits_names_who_is_awaited() {
    let (mut job, [mut a, mut b, _]) = Job::new(1);
    assert!(job.missing().is_empty());
    job.push(&mut a);
    assert_eq!(job.missing(), [B, C]);
    job.push(&mut b);
    assert_eq!(job.missing(), [C]);
    job.policy(&[(A, 0), (B, 0)], &[]);
    assert!(job.missing().is_empty());
    // Nobody who lives has pushed to this one: it is given up, and out of the books.
    job.push(&mut b);
    assert_eq!(job.stores[0].1.held.stalls.count(), 1);
    job.policy(&[(A, 0)], &[]);
    assert!(job.missing().is_empty());
    assert_eq!(job.stores[0].1.held.stalls.count(), 0);
}

#[test]
fn a_worker_is_awaited_while_one_of_its_customers_is() {
    let (mut job, [mut a, mut b, _]) = Job::new(1);
    job.customers = vec![0, 1];
    job.policy(&[(A, 0), (B, 0)], &[]);
    job.push(&mut a);
    job.push(&mut b);
    assert_eq!(job.missing(), [A, B], "the other customer of each");
    for worker in [A, B] {
        let mut out = Outbound::default();
        assert_eq!(job.missing()[0], worker);
        job.stores[0].1.customer_left(worker, 1, &mut out);
    }
    assert!(job.missing().is_empty());
}
