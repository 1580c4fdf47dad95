//! The OpenMetrics texts of a job, for tests, and what they cost. A scheduler, two servers and two
//! workers in one process push and pull 1 MB in rounds; each half second the text of each node goes
//! into a folder, with the totals that `PSLITE_METRICS` would write beside it.
//!
//! ```text
//! cargo run --release --example openmetrics -- job FOLDER SECONDS
//! cargo run --release --example openmetrics -- cost
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use nix::time::{ClockId, clock_gettime};
use pslite::cluster::{Action, Cluster, ClusterConfig, Event, RankOrder};
use pslite::kv::Assembled;
use pslite::node::{Customer, CustomerHandle, Lookup, Postoffice, PullSink, Request, Values};
use pslite::observe::histogram::Histogram;
use pslite::observe::job::expose_job;
use pslite::observe::{Counted, Exposition, Label, ProcessNumbers, Snapshot, Value};
use pslite::scheduler::{Status, StatusParts};
use pslite::values::KvPairs;
use pslite::wire::counters::NodeTotals;
use pslite::wire::{Command, Control, Message, Meta, Node, Payload, Role, SCHEDULER, ability};

const WORKERS: usize = 2;
const SERVERS: usize = 2;
const SERVER_GROUP: i32 = 2;
/// MXNet's `kSyncMode`.
const SYNC_MODE: i32 = 3;
const VALUES: usize = 1 << 18;
const WRITE_EVERY: Duration = Duration::from_millis(500);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["job", folder, seconds] => job(Path::new(folder), seconds.parse().unwrap()),
        ["cost"] => costs(),
        _ => panic!("openmetrics job FOLDER SECONDS, or openmetrics cost"),
    }
}

// ---- a job --------------------------------------------------------------------------------------

struct Ignores;

impl PullSink for Ignores {
    fn wants_lens(&self) -> bool {
        false
    }

    fn take(&mut self, assembled: &Assembled) -> Result<usize, String> {
        Ok(assembled.total_vals)
    }
}

fn free_port() -> u16 {
    let first = 61_000 + (std::process::id() % 4000) as u16;
    let free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    (first..first + 400).find(free).expect("no port is free")
}

fn office(role: &'static str, host: usize, port: u16) -> Arc<Postoffice> {
    let lookup: Lookup = Arc::new(move |name| {
        let text = match name {
            "DMLC_ROLE" => role.to_owned(),
            "DMLC_NUM_WORKER" => WORKERS.to_string(),
            "DMLC_NUM_SERVER" => SERVERS.to_string(),
            "DMLC_PS_ROOT_URI" => "127.0.0.1".to_owned(),
            // Links within a host are not what limits rounds.
            "DMLC_NODE_HOST" => format!("127.0.0.{host}"),
            "DMLC_PS_ROOT_PORT" => port.to_string(),
            "PSLITE_TRANSPORT" => "tcp".to_owned(),
            "PSLITE_ELASTIC" => "1".to_owned(),
            "PSLITE_HTTP" if role == "scheduler" => "0".to_owned(),
            _ => return None,
        };
        Some(text)
    });
    Arc::new(Postoffice::new(lookup))
}

fn server(host: usize, port: u16) -> (Arc<Postoffice>, Customer) {
    let office = office("server", host, port);
    // Commands of which the store takes note go on to the application, which answers them.
    let slot: Arc<OnceLock<CustomerHandle>> = Arc::default();
    let answers = Arc::clone(&slot);
    let handler = move |message: Message| {
        answers.wait().simple_respond(&message.meta, Bytes::new(), "").unwrap();
    };
    let customer = office.customer(0, 0, Box::new(handler)).unwrap();
    customer.handle().attach_server();
    customer.handle().attach_store();
    slot.set(customer.handle().clone()).ok().unwrap();
    (office, customer)
}

fn worker(host: usize, port: u16) -> (Arc<Postoffice>, Customer) {
    let office = office("worker", host, port);
    let customer = office.customer(0, 0, Box::new(|_| {})).unwrap();
    customer.handle().attach_worker(1);
    (office, customer)
}

fn job(folder: &Path, seconds: f64) {
    fs::create_dir_all(folder).unwrap();
    let port = free_port();
    let scheduler = office("scheduler", 1, port);
    let servers: Vec<_> = (0..SERVERS).map(|rank| server(2 + rank, port)).collect();
    let workers: Vec<_> = (0..WORKERS).map(|rank| worker(2 + SERVERS + rank, port)).collect();
    let members = servers.iter().chain(&workers).map(|(office, _)| office);
    let offices: Vec<&Arc<Postoffice>> = members.chain([&scheduler]).collect();
    thread::scope(|scope| {
        for office in &offices {
            scope.spawn(|| office.start(0, true).unwrap());
        }
    });
    let (first, end) = (workers[0].1.handle(), Instant::now() + Duration::from_secs_f64(seconds));
    let sync = first.simple_request(SYNC_MODE, &Bytes::new(), SERVER_GROUP).unwrap();
    first.wait(sync).unwrap();
    let stop = AtomicBool::new(false);
    // All end after the same round.
    let rounds = Barrier::new(WORKERS);
    let is_last = AtomicBool::new(false);
    push(first_of(&workers));
    thread::scope(|scope| {
        for (_, customer) in &workers {
            let (rounds, stop, is_last) = (&rounds, &stop, &is_last);
            scope.spawn(move || {
                loop {
                    push(customer.handle());
                    pull(customer.handle());
                    if rounds.wait().is_leader() {
                        is_last.store(stop.load(Ordering::SeqCst), Ordering::SeqCst);
                    }
                    rounds.wait();
                    if is_last.load(Ordering::SeqCst) {
                        return;
                    }
                }
            });
        }
        while Instant::now() < end {
            thread::sleep(WRITE_EVERY);
            offices.iter().for_each(|office| write(folder, office));
        }
        stop.store(true, Ordering::SeqCst);
    });
    offices.iter().for_each(|office| write(folder, office));
    drop(workers.into_iter().map(|(office, _)| office.stop()).collect::<Vec<_>>());
    drop(servers.into_iter().map(|(office, _)| office.stop()).collect::<Vec<_>>());
    scheduler.stop();
}

fn first_of(workers: &[(Arc<Postoffice>, Customer)]) -> &CustomerHandle {
    let first = workers.iter().find(|(office, _)| office.describe().unwrap().rank == 0);
    first.expect("a worker of rank 0").1.handle()
}

/// Whoever reads a file finds a whole one.
fn write(folder: &Path, office: &Postoffice) {
    let info = office.describe().unwrap();
    let name = match info.role {
        Role::Scheduler => "scheduler".to_owned(),
        role => format!("{}{}", role.name(), info.rank),
    };
    for (end, text) in [("txt", office.openmetrics()), ("json", office.metrics())] {
        let part = folder.join(format!("{name}.part"));
        fs::write(&part, text.unwrap()).unwrap();
        fs::rename(&part, folder.join(format!("{name}.{end}"))).unwrap();
    }
}

fn request(customer: &CustomerHandle, push: bool, vals: Bytes) {
    let lens = (VALUES * 4) as i32;
    let kv = KvPairs {
        keys: Bytes::copy_from_slice(&1_u64.to_ne_bytes()),
        vals,
        lens: if push { Bytes::copy_from_slice(&lens.to_ne_bytes()) } else { Bytes::new() },
    };
    let request = Request { kv, cmd: 0, priority: 0, push, pull: !push, values: Values::default() };
    let sink = (!push).then(|| Box::new(Ignores) as Box<dyn PullSink>);
    let made = customer.request(&request, sink, Box::new(|_| {})).unwrap();
    customer.wait(made).unwrap();
}

fn push(customer: &CustomerHandle) {
    request(customer, true, vec![1_u8; VALUES * 4].into());
}

fn pull(customer: &CustomerHandle) {
    request(customer, false, Bytes::new());
}

// ---- costs --------------------------------------------------------------------------------------

/// Processor time of this process.
fn ran() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap().into()
}

/// The median of some runs, in ms.
fn median(of: impl Fn() -> usize) -> (f64, usize) {
    let mut times = Vec::new();
    let mut bytes = 0;
    for _ in 0..15 {
        let before = ran();
        bytes = of();
        times.push((ran() - before).as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], bytes)
}

fn costs() {
    let snapshot = many_peers();
    let (millis, bytes) = median(|| {
        let mut exposition = Exposition::default();
        exposition.add_snapshot("worker0", snapshot());
        ProcessNumbers::read().expose("worker0", &mut exposition);
        exposition.text().len()
    });
    println!("a node with 100 peers: {millis:.2} ms of processor time, {bytes} bytes");
    let (cluster, totals) = many_nodes();
    let status = || Status::of(&cluster, StatusParts { totals: totals(), ..Default::default() });
    let (millis, nodes) = median(|| status().nodes.len());
    println!("  how a job of {nodes} nodes is, under the lock: {millis:.2} ms");
    let (millis, bytes) = median(|| {
        let mut exposition = Exposition::default();
        expose_job(&status(), &mut exposition);
        exposition.text().len()
    });
    println!("a scheduler with 1000 nodes: {millis:.2} ms of processor time, {bytes} bytes");
}

/// As a worker of 100 servers counts, over TCP.
fn many_peers() -> impl Fn() -> Snapshot {
    let traffic = pslite::observe::Traffic::new(100, 100);
    let times = Arc::new(Mutex::new(Histogram::default()));
    for micros in 0..40 {
        times.lock().unwrap().add(Duration::from_micros(1 << (micros % 30)));
    }
    for server in 0..100 {
        let id = pslite::wire::server_id(server);
        for kind in [
            pslite::observe::MessageKind::Push,
            pslite::observe::MessageKind::Pull,
            pslite::observe::MessageKind::Response,
            pslite::observe::MessageKind::Control,
        ] {
            traffic.sent(id, kind, 1000);
            traffic.received(id, kind, 1000);
            traffic.answered(id, kind, Duration::ZERO);
            traffic.served(id, kind, Duration::from_millis(3));
        }
    }
    move || {
        let mut snapshot = Snapshot::default();
        traffic.read(&mut snapshot);
        for server in 0..100 {
            let peer = format!("server{server}");
            for direction in ["sent", "received"] {
                let labels =
                    [(Label::Peer, &*peer), (Label::Direction, direction), (Label::Carrier, "tcp")];
                for event in [
                    Counted::CarriedMessages,
                    Counted::CarriedBytes,
                    Counted::Copies,
                    Counted::CopiedBytes,
                    Counted::Syscalls,
                    Counted::Connections,
                    Counted::Duplicates,
                    Counted::Probes,
                ] {
                    snapshot.add(event, &labels, Value::Number(123_456));
                }
            }
            let labels = [(Label::Peer, &*peer), (Label::Carrier, "tcp")];
            for event in [Counted::Waiting, Counted::WaitingMax, Counted::Unconfirmed] {
                snapshot.add(event, &labels, Value::Number(12));
            }
            let times = Value::Times(Box::new(times.lock().unwrap().read()));
            snapshot.add(Counted::SendTime, &labels, times);
        }
        snapshot
    }
}

const MANY_WORKERS: usize = 900;
const MANY_SERVERS: usize = 100;

fn described(role: Role, host: usize) -> Node {
    let is_scheduler = role == Role::Scheduler;
    Node {
        role,
        id: if is_scheduler { SCHEDULER } else { pslite::wire::EMPTY },
        customer_id: 0,
        hostname: format!("10.0.{}.{}", host / 250, host % 250),
        port: 9000,
        is_recovery: false,
        abilities: ability::PSLITE | ability::SIGNS_OF_LIFE,
        incarnation: host as u64 + 1,
        native_port: 0,
        wished_rank: None,
        launched_as: None,
    }
}

/// The membership of a scheduler with which 1,000 nodes have registered, and what these tell.
fn many_nodes() -> (Cluster, impl Fn() -> std::collections::BTreeMap<i32, NodeTotals>) {
    let scheduler = described(Role::Scheduler, 0);
    let config = ClusterConfig {
        role: Role::Scheduler,
        num_workers: MANY_WORKERS,
        num_servers: MANY_SERVERS,
        scheduler: scheduler.clone(),
        node: scheduler,
        heartbeat_interval: Some(Duration::from_secs(1)),
        heartbeat_timeout: None,
        silence_limit: Duration::from_secs(60),
        channel_down_limit: Duration::from_secs(3),
        start_timeout: None,
        report_interval: Duration::from_secs(10),
        trees: false,
        exchange: None,
        recovery_wait: Duration::from_secs(60),
        standing_scheduler: true,
        replicas: None,
        planned: false,
        scheduler_wait: Duration::from_secs(60),
        group_size: 1,
        instance_barriers: false,
        rank_order: RankOrder::default(),
        settings: Vec::new(),
        doubt: String::new(),
    };
    let mut cluster = Cluster::new(config, Duration::ZERO);
    let mut actions = Vec::new();
    cluster.handle(Duration::ZERO, Event::Start, &mut actions);
    for host in 1..=MANY_WORKERS + MANY_SERVERS {
        let role = if host <= MANY_SERVERS { Role::Server } else { Role::Worker };
        let mut control = Control::new(Command::AddNode);
        control.nodes = vec![described(role, host)];
        let meta = Meta { payload: Payload::from(control), ..Meta::default() };
        let message = Message { meta, data: Default::default() };
        cluster.handle(Duration::ZERO, Event::Received { from: None, message }, &mut actions);
        for action in std::mem::take(&mut actions) {
            if let Action::ConnectPending { key, .. } = action {
                cluster.handle(Duration::ZERO, Event::ChannelUp { id: key }, &mut actions);
            }
        }
    }
    assert!(cluster.is_ready(), "the job is not complete");
    let ids: Vec<i32> = cluster.members().keys().copied().collect();
    let totals = NodeTotals {
        messages_sent: 123_456,
        bytes_sent: 1 << 40,
        requests: 123_456,
        request_micros: 1 << 40,
        ..NodeTotals::default()
    };
    (cluster, move || ids.iter().map(|id| (*id, totals)).collect())
}
