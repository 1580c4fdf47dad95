//! A customer without a van: what it sends is kept, what comes is handed to it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::delivery::Delivery;
use crate::recipient::Recipient;
use crate::running::fake::FakeNode;
use crate::running::{NodeRef, RunningNode};
use crate::sync::lock;
use pslite_core::values::server_key_ranges;
use pslite_core::wire::elastic::PartAsk;
use pslite_core::wire::word::{Policy, RoutedPolicy};
use pslite_core::wire::{Frames, Message, NodeId, Payload, server_id, worker_id};

fn keys(keys: &[u64]) -> Bytes {
    keys.iter().flat_map(|key| key.to_ne_bytes()).collect()
}

/// A customer on that node, and what its handler was given.
fn customer(node: &Arc<FakeNode>) -> (Customer, Arc<Mutex<Vec<Message>>>) {
    let given: Arc<Mutex<Vec<Message>>> = Arc::default();
    let got = Arc::clone(&given);
    let handler = Box::new(move |message| lock(&got).push(message));
    let customers = Arc::new(Customers::default());
    (Customer::new(customers, node.slot(), 0, 0, handler).unwrap(), given)
}

/// A push of a key of each of the two servers, and how often its end was run.
fn push(handle: &CustomerHandle) -> (Result<i32>, Arc<AtomicU32>) {
    let ended = Arc::new(AtomicU32::new(0));
    push_counting(handle, &ended)
}

/// The same, counted there.
fn push_counting(handle: &CustomerHandle, ended: &Arc<AtomicU32>) -> (Result<i32>, Arc<AtomicU32>) {
    let counted = Arc::clone(ended);
    let kv = KvPairs {
        keys: keys(&[1, server_key_ranges(2)[1].begin]),
        vals: Bytes::from(vec![7; 8]),
        lens: Bytes::new(),
    };
    let request =
        Request { kv, cmd: 0, priority: 0, push: true, pull: false, values: Values::default() };
    let done: Done = Box::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    (handle.request(&request, None, done), Arc::clone(ended))
}

fn answer(to: &Message, error: &str) -> Delivery {
    let mut meta = to.meta.clone();
    (meta.request, meta.sender, meta.error) = (false, to.meta.recver, error.to_owned());
    Delivery::Message(Message { meta, data: Frames::new() })
}

fn receivers(sent: &[Message]) -> Vec<NodeId> {
    sent.iter().map(|message| message.meta.recver).collect()
}

#[test]
fn a_push_goes_once_to_each_server_and_ends_with_the_last_answer() {
    let node = FakeNode::new("worker", worker_id(0));
    let (customer, given) = customer(&node);
    let handle = customer.handle();
    handle.attach_worker(4);
    let (timestamp, ended) = push(handle);
    let timestamp = timestamp.unwrap();
    let sent = node.take_sent();
    assert_eq!(receivers(&sent), [server_id(0), server_id(1)]);
    handle.shared().handle(answer(&sent[0], ""));
    handle.shared().handle(answer(&sent[0], ""));
    assert_eq!(ended.load(Ordering::SeqCst), 0, "one of two has answered, twice");
    handle.shared().handle(answer(&sent[1], ""));
    assert_eq!(ended.load(Ordering::SeqCst), 1);
    handle.wait(timestamp).unwrap();
    assert!(lock(&given).is_empty(), "a KVWorker's answers do not reach the handler");
}

#[test]
fn a_push_ends_when_a_server_refuses_or_is_lost() {
    let node = FakeNode::new("worker", worker_id(0));
    let (customer, _) = customer(&node);
    let handle = customer.handle();
    handle.attach_worker(4);
    let (first, ended) = push(handle);
    let sent = node.take_sent();
    handle.shared().handle(answer(&sent[0], "no such key"));
    handle.shared().handle(Delivery::NodeLost { id: server_id(1), reason: "gone".to_owned() });
    assert_eq!(ended.load(Ordering::SeqCst), 1);
    assert!(handle.wait(first.unwrap()).is_err());
    // One that cannot be sent has failed at once, and its end is dropped: the caller has the error.
    lock(&node.lost).push(server_id(0));
    let (second, ended) = push(handle);
    assert!(matches!(second, Err(NodeError::PeerLost(_))));
    assert_eq!((ended.load(Ordering::SeqCst), node.take_sent().len()), (0, 0));
}

/// Its end runs, or the caller has the error: what belongs to the request is freed once.
#[test]
fn a_request_whose_job_fails_while_it_is_sent_has_one_end() {
    let node = FakeNode::new("worker", worker_id(0));
    let (customer, _) = customer(&node);
    let handle = customer.handle();
    handle.attach_worker(4);
    lock(&node.lost).push(server_id(0));
    let (refused, ended) = push(handle);
    assert!(refused.is_err());
    assert_eq!(ended.load(Ordering::SeqCst), 0);
    let other = handle.clone();
    *lock(&node.meanwhile) = Some(Box::new(move || {
        other.shared().handle(Delivery::Failed(NodeError::PeerLost("lost scheduler".to_owned())));
    }));
    let (sent, ended) = push(handle);
    let why = handle.wait(sent.unwrap()).unwrap_err().to_string();
    assert!(why.contains("lost scheduler"), "{why}");
    assert_eq!(ended.load(Ordering::SeqCst), 1);
    // The two halves of a pull: it ends in between.
    let ended = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&ended);
    let done: Done = Box::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let timestamp = handle.expect_push(done).unwrap();
    handle.shared().handle(Delivery::Failed(NodeError::PeerLost("lost scheduler".to_owned())));
    let (kv, values) = (KvPairs { keys: keys(&[1]), ..KvPairs::default() }, Values::default());
    let request = Request { kv, cmd: 0, priority: 0, push: true, pull: false, values };
    handle.send(timestamp, &request).unwrap();
    assert_eq!(ended.load(Ordering::SeqCst), 1);
    assert!(handle.wait(timestamp).is_err());
}

/// Customers are told once that the job has failed.
#[test]
fn a_request_that_begins_after_the_job_has_failed_fails_at_once() {
    for elastic in [false, true] {
        let node = FakeNode::new("worker", worker_id(0));
        if elastic {
            let servers = vec![server_id(0), server_id(1)];
            let policy = Policy { epoch: 1, servers, ..Policy::default() };
            node.state().set_policy(Arc::new(RoutedPolicy { policy, routes: Vec::new() }));
        }
        let (customer, _) = customer(&node);
        let handle = customer.handle();
        handle.attach_worker(4);
        lock(&node.lost).push(server_id(0));
        let (id, reason) = (server_id(0), "it is gone".to_owned());
        handle.shared().handle(Delivery::NodeLost { id, reason });
        let failure = NodeError::PeerLost("nobody has its keys".to_owned());
        *lock(&node.failure) = Some(failure.clone());
        handle.shared().handle(Delivery::Failed(failure));
        let (sent, ended) = push(handle);
        assert!(matches!(sent, Err(NodeError::PeerLost(_))), "elastic: {elastic}, {sent:?}");
        assert_eq!(ended.load(Ordering::SeqCst), 0, "its caller has the error");
    }
}

/// The one who made it goes on using what the end frees (worker/calls.rs).
#[test]
fn a_request_that_is_answered_while_it_is_sent_ends_after_its_call() {
    let node = FakeNode::new("worker", worker_id(0));
    let (customer, _) = customer(&node);
    let handle = customer.handle();
    handle.attach_worker(4);
    let (first, _) = push(handle);
    let messages = node.take_sent();
    let next = first.unwrap() + 1;
    let answers: Vec<Delivery> = messages
        .into_iter()
        .map(|mut message| {
            message.meta.timestamp = next;
            answer(&message, "")
        })
        .collect();
    // It is over while its first message is sent, and is sent for long enough to end.
    let ended = Arc::new(AtomicU32::new(0));
    let (other, seen) = (handle.clone(), Arc::clone(&ended));
    *lock(&node.meanwhile) = Some(Box::new(move || {
        answers.into_iter().for_each(|answer| other.shared().handle(answer));
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(1));
            assert_eq!(seen.load(Ordering::SeqCst), 0, "its call has not returned");
        }
    }));
    let (second, _) = push_counting(handle, &ended);
    assert_eq!(second.as_ref().unwrap(), &next);
    handle.wait(next).unwrap();
    assert_eq!(ended.load(Ordering::SeqCst), 1);
}

/// Of a customer whose application destroys it meanwhile the end runs nevertheless.
#[test]
fn a_request_ends_though_its_customer_does() {
    let node = FakeNode::new("worker", worker_id(0));
    let (customer, _) = customer(&node);
    let handle = customer.handle().clone();
    handle.attach_worker(4);
    let ended = Arc::new(AtomicU32::new(0));
    let (other, seen) = (handle.clone(), Arc::clone(&ended));
    *lock(&node.meanwhile) = Some(Box::new(move || {
        other.shared().handle(Delivery::Failed(NodeError::PeerLost("lost scheduler".to_owned())));
        assert_eq!(seen.load(Ordering::SeqCst), 0, "its call has not returned");
        drop(customer);
        assert_eq!(seen.load(Ordering::SeqCst), 1);
    }));
    push_counting(&handle, &ended).0.unwrap();
    assert_eq!(ended.load(Ordering::SeqCst), 1);
}

#[test]
fn a_request_reaches_the_handler_and_its_answer_goes_to_who_asked() {
    let node = FakeNode::new("server", server_id(0));
    let (customer, given) = customer(&node);
    let handle = customer.handle();
    handle.attach_server();
    let meta =
        Meta { request: true, push: true, timestamp: 5, sender: worker_id(0), ..Meta::default() };
    let data = Frames::from_iter([keys(&[1]), Bytes::from(vec![7; 4])]);
    handle.shared().handle(Delivery::Message(Message { meta, data }));
    let request = lock(&given).pop().unwrap().meta;
    handle.respond(&request, KvPairs::default()).unwrap();
    let sent = node.take_sent();
    assert_eq!(receivers(&sent), [worker_id(0)]);
    assert!(sent[0].meta.push && !sent[0].meta.request && sent[0].meta.timestamp == 5);
    // Keys without values are no request of a KVServer's.
    let data = Frames::from_iter([keys(&[1])]);
    handle.shared().handle(Delivery::Message(Message { meta: request, data }));
    assert!(lock(&given).is_empty());
}

#[test]
fn without_a_node_nothing_is_asked_and_what_comes_is_given_all_the_same() {
    let customers = Arc::new(Customers::default());
    let given = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&given);
    let handler = Box::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let customer = Customer::new(customers, NodeSlot::default(), 0, 0, handler).unwrap();
    let handle = customer.handle();
    handle.attach_worker(4);
    assert!(matches!(push(handle).0, Err(NodeError::NotStarted(_))));
    let meta = Meta { request: true, simple_app: true, ..Meta::default() };
    handle.shared().handle(Delivery::Message(Message { meta, data: Frames::new() }));
    assert_eq!(given.load(Ordering::SeqCst), 1);
}

/// An application that keeps nothing between rounds.
struct Stateless;

impl KeyState for Stateless {
    fn is_stateless(&self) -> bool {
        true
    }

    fn export(&self, _: u64) -> std::result::Result<Bytes, String> {
        Err("it keeps nothing".to_owned())
    }

    fn import(&self, _: u64, _: Bytes) -> std::result::Result<(), String> {
        Err("it keeps nothing".to_owned())
    }

    fn can_forget(&self) -> bool {
        false
    }

    fn forget(&self, _: u64) {}

    fn released(&self) {}
}

#[test]
fn a_request_that_comes_while_a_node_ends_reaches_no_handler_whose_keys_have_moved() {
    for elastic in [true, false] {
        let node = FakeNode::new("server", server_id(0));
        if elastic {
            node.state().set_policy(Arc::new(RoutedPolicy::default()));
        }
        let slot = node.slot();
        let given = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&given);
        let handler = Box::new(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        let customers = Arc::new(Customers::default());
        let customer = Customer::new(customers, Arc::clone(&slot), 0, 0, handler).unwrap();
        let handle = customer.handle();
        handle.attach_movable(Box::new(Stateless)).unwrap();
        let pull = |timestamp| {
            let payload = elastic.then(PartAsk::default).into();
            let meta = Meta { request: true, pull: true, timestamp, payload, ..Meta::default() };
            let meta = Meta { sender: worker_id(0), recver: server_id(0), ..meta };
            let data = Frames::from_iter([keys(&[1]), Bytes::new()]);
            handle.shared().handle(Delivery::Message(Message { meta, data }));
        };
        pull(1);
        assert_eq!(given.load(Ordering::SeqCst), 1, "elastic: {elastic}");
        // The node has left, and its last connection still brings something.
        slot.write().unwrap().take();
        pull(2);
        assert_eq!(given.load(Ordering::SeqCst), 2 - u32::from(elastic), "elastic: {elastic}");
    }
}

/// Requests overtake the policy in a customer's queue.
#[test]
fn a_request_before_the_first_policy_is_answered_where_the_environment_lets_keys_move() {
    let node = FakeNode::with("server", server_id(0), &[("PSLITE_SERVER_STATELESS", "1")]);
    let slot = NodeSlot::default();
    let given: Arc<Mutex<Vec<Message>>> = Arc::default();
    let got = Arc::clone(&given);
    let handler = Box::new(move |message| lock(&got).push(message));
    let customers = Arc::new(Customers::default());
    let customer = Customer::new(customers, Arc::clone(&slot), 0, 0, handler).unwrap();
    let handle = customer.handle();
    // Before the node is started, as applications do.
    handle.attach_server();
    let running: NodeRef = Arc::clone(&node) as _;
    *slot.write().unwrap() = Some(running);
    let (servers, homes) = (vec![8, 10], vec![8, 10]);
    let policy = Policy { epoch: 1, servers, homes, ..Policy::default() };
    let policy = Arc::new(RoutedPolicy { policy, routes: Vec::new() });
    node.state().set_policy(Arc::clone(&policy));
    let payload = Payload::Ask(PartAsk { epoch: 1, ..PartAsk::default() });
    let meta = Meta { request: true, push: true, timestamp: 5, payload, ..Meta::default() };
    let meta = Meta { sender: worker_id(0), recver: server_id(0), ..meta };
    let data = Frames::from_iter([keys(&[1]), Bytes::from(vec![7; 8])]);
    handle.shared().handle(Delivery::Message(Message { meta, data }));
    handle.shared().handle(Delivery::Policy(policy));
    let request = lock(&given).pop().expect("the application has the request").meta;
    handle.respond(&request, KvPairs::default()).unwrap();
    let sent = node.take_sent();
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!((sent[0].meta.recver, sent[0].meta.timestamp), (worker_id(0), 5));
}
