//! Messages that reach a server before it knows its job. A scheduler and a worker are played by
//! hand here, so that they come in that order: in a job, whether they do is a matter of chance.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "common/ports.rs"]
mod ports;

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pslite::node::{Customer, Lookup, Postoffice};
use pslite::transport::carrier::{Endpoint, SendMode};
use pslite::transport::zmq::{Answers, ZmqOptions, ZmqTransport};
use pslite::wire::elastic::PartAsk;
use pslite::wire::word::{Policy, RoutedPolicy, Word};
use pslite::wire::{
    Command, Control, DataType, Dialect, Message, Meta, Node, NodeId, Payload, Role, SCHEDULER,
    ability, server_id, worker_id,
};

use ports::free_port;

const LIMIT: Duration = Duration::from_secs(30);
const HOST: &str = "127.0.0.1";
const KEY: u64 = 7;
const VALUE: [f32; 3] = [1.0, 2.0, 3.0];

/// A node that is played by hand: what it hears is read message by message.
struct Played {
    me: Node,
    transport: Arc<ZmqTransport>,
    heard: mpsc::Receiver<Meta>,
}

impl Played {
    fn new(role: Role, id: NodeId, port: u16, abilities: u64) -> Self {
        let options = ZmqOptions {
            send_queue: 100,
            recv_queue: 100,
            priority_mode: false,
            max_frame: 1 << 20,
            name_seed: u64::from(port),
            answers: Answers::OwnWay,
        };
        let transport = Arc::new(ZmqTransport::new(options).unwrap());
        transport.bind(&Endpoint::Tcp { host: HOST.to_owned(), port }).unwrap();
        let (tell, heard) = mpsc::channel();
        let receives = Arc::clone(&transport);
        thread::spawn(move || {
            while let Ok(incoming) = receives.recv() {
                let meta = Dialect::default().decode(&incoming.frames[0]).unwrap();
                if tell.send(meta).is_err() {
                    return;
                }
            }
        });
        let me = Node {
            role,
            id,
            customer_id: 0,
            hostname: HOST.to_owned(),
            port: port.into(),
            is_recovery: false,
            abilities,
            incarnation: u64::from(port),
            native_port: 0,
            wished_rank: None,
            launched_as: None,
        };
        Self { me, transport, heard }
    }

    fn connect(&self, to: &Node) {
        let endpoint = Endpoint::Tcp { host: to.hostname.clone(), port: to.port as u16 };
        self.transport.connect(server_id(0), &endpoint, Some(self.me.id)).unwrap();
    }

    fn send(&self, message: &Message) {
        let mut meta = Vec::new();
        Dialect::default().encode(&message.meta, &message.data, &mut meta);
        self.transport.send(server_id(0), &meta, &message.data, 0, SendMode::Control).unwrap();
    }

    /// What the next message that is of interest says.
    fn hear<T>(&self, what: &str, read: impl Fn(&Meta) -> Option<T>) -> T {
        let until = Instant::now() + LIMIT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let meta = self.heard.recv_timeout(left).unwrap_or_else(|_| panic!("no {what}"));
            if let Some(said) = read(&meta) {
                return said;
            }
        }
    }

    /// True if something of interest comes within a moment.
    fn hears(&self, read: impl Fn(&Meta) -> bool) -> bool {
        let until = Instant::now() + Duration::from_millis(300);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.heard.recv_timeout(left) {
                Ok(meta) if read(&meta) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        self.transport.stop();
        self.transport.close(Duration::ZERO);
    }
}

/// A job of one server, which is real, and one worker, whose push is there before the server has
/// its list of nodes.
struct Job {
    scheduler: Played,
    worker: Played,
    server: Arc<Postoffice>,
    starts: thread::JoinHandle<()>,
    _customer: Customer,
}

impl Job {
    /// `copies`: so often the worker sends its push, which is a repetition (`PS_RESEND`).
    fn new(abilities: u64, copies: u64) -> (Self, Control) {
        let root = free_port();
        let lookup: Lookup = Arc::new(move |name| {
            let text = match name {
                "DMLC_ROLE" => "server".to_owned(),
                "DMLC_NUM_WORKER" | "DMLC_NUM_SERVER" => "1".to_owned(),
                "DMLC_PS_ROOT_URI" | "DMLC_NODE_HOST" => HOST.to_owned(),
                "DMLC_PS_ROOT_PORT" => root.to_string(),
                "PSLITE_TRANSPORT" => "zmq".to_owned(),
                "PS_RESEND" => u8::from(copies > 1).to_string(),
                _ => return None,
            };
            Some(text)
        });
        let scheduler = Played::new(Role::Scheduler, SCHEDULER, root, abilities);
        let worker = Played::new(Role::Worker, worker_id(0), free_port(), abilities);
        let server = Arc::new(Postoffice::new(lookup));
        let customer = server.customer(0, 0, Box::new(|_| {})).unwrap();
        customer.handle().attach_server();
        customer.handle().attach_store();
        let office = Arc::clone(&server);
        let starts = thread::spawn(move || office.start(0, false).unwrap());
        let registers = |meta: &Meta| {
            let control = meta.control()?;
            (control.command == Command::AddNode).then(|| control.nodes[0].clone())
        };
        let known = Node { id: server_id(0), ..scheduler.hear("registration", registers) };
        scheduler.connect(&known);
        worker.connect(&known);
        let mut list = Control::new(Command::AddNode);
        list.nodes = vec![known, worker.me.clone(), scheduler.me.clone()];
        let job = Self { scheduler, worker, server, starts, _customer: customer };
        (0..copies).for_each(|_| job.worker.send(&push()));
        let until = Instant::now() + LIMIT;
        while !job.metrics_say("queued", copies) {
            assert!(Instant::now() < until, "the push never came");
            thread::sleep(Duration::from_millis(5));
        }
        assert!(!job.worker.hears(is_answer), "nobody knows yet how to answer");
        (job, list)
    }

    fn metrics_say(&self, name: &str, value: u64) -> bool {
        let metrics = self.server.metrics().unwrap_or_default();
        metrics.split(&format!("\"{name}\"")).nth(1).is_some_and(|behind| {
            let number = behind.split("\"value\":").nth(1).unwrap_or_default();
            number.split('}').next() == Some(&value.to_string())
        })
    }

    fn tell(&self, control: Control) {
        self.scheduler.send(&Message::control(control));
    }

    fn end(self) {
        self.starts.join().unwrap();
        self.server.stop();
    }
}

/// The first push of a key, which makes it.
fn push() -> Message {
    let meta = Meta {
        head: 0,
        app_id: 0,
        customer_id: 0,
        timestamp: 3,
        request: true,
        push: true,
        data_type: [DataType::UInt64, DataType::Other, DataType::Int32]
            .into_iter()
            .map(|of| of as i32)
            .collect(),
        payload: Payload::Ask(PartAsk { init: true, epoch: 1, ..PartAsk::default() }),
        ..Meta::default()
    };
    let values: Vec<u8> = VALUE.iter().flat_map(|value| value.to_le_bytes()).collect();
    let lens = (values.len() as i32).to_le_bytes().to_vec();
    let data = [KEY.to_le_bytes().to_vec(), values, lens].into_iter().map(Bytes::from).collect();
    Message { meta, data }
}

fn is_answer(meta: &Meta) -> bool {
    !meta.request && meta.push && meta.timestamp == 3
}

/// Keys move in this job. A store that is made before the first policy would take it for one whose
/// keys stay, for good: it would never say what it holds.
#[test]
fn a_push_before_the_first_policy_makes_a_key_that_moves() {
    let (job, list) = Job::new(ability::PSLITE | ability::ELASTIC, 1);
    job.tell(list);
    assert!(!job.worker.hears(is_answer), "there is no policy yet");
    let (servers, homes) = (vec![server_id(0)], vec![server_id(0)]);
    let policy = Policy { epoch: 1, servers, homes, workers: 1, ..Policy::default() };
    let policy = RoutedPolicy { policy, routes: Vec::new() };
    job.tell(Control::saying(Word::Policy { policy, text: String::new() }));
    job.worker.hear("answer", |meta| is_answer(meta).then_some(()));
    let claims = job.scheduler.hear("claim", |meta| match meta.control()?.word.as_deref()? {
        Word::Claims(word) if !word.claims.is_empty() => Some(word.claims.clone()),
        _ => None,
    });
    assert_eq!((claims.len(), claims[0].key, claims[0].length), (1, KEY, VALUE.len() as u64));
    job.end();
}

/// Keys stay, since the others do not move them. The push is answered by a server that knows its
/// rank.
#[test]
fn a_push_before_the_list_of_nodes_waits_for_it() {
    let (job, list) = Job::new(ability::PSLITE, 1);
    job.tell(list);
    job.worker.hear("answer", |meta| is_answer(meta).then_some(()));
    job.end();
}

/// Both wait for the list, and only then it shows that they are one push.
#[test]
fn an_early_push_that_is_repeated_counts_once() {
    let (job, list) = Job::new(0, 2);
    job.tell(list);
    job.worker.hear("answer", |meta| is_answer(meta).then_some(()));
    assert!(!job.worker.hears(is_answer), "it was answered twice");
    job.end();
}

/// What a node says that is in no list is not for anybody here.
#[test]
fn an_early_push_of_a_stranger_is_dropped() {
    let (job, mut list) = Job::new(ability::PSLITE, 1);
    list.nodes[1].id = worker_id(1);
    job.tell(list);
    assert!(!job.worker.hears(is_answer));
    assert!(!job.metrics_say("queued", 1), "it is dropped, and not kept");
    job.end();
}
