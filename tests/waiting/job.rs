//! Whole jobs in one process, and what the tests ask of them.

#[path = "../common/ports.rs"]
mod ports;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pslite::kv::Assembled;
use pslite::node::{Customer, CustomerHandle, Lookup, Postoffice, PullSink, Request, Values};
use pslite::values::KvPairs;
use pslite::wire::Meta;

use ports::free_port;

/// Nothing takes longer.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
/// Carriers of the native data plane.
pub(crate) const CARRIERS: [&str; 2] = ["tcp", "shm"];

/// What a server does with requests.
#[derive(Default)]
pub(crate) struct Manners {
    /// It keeps them to itself.
    pub(crate) silent: AtomicBool,
    /// Bytes of each value that is pulled; 0: one.
    pub(crate) value_bytes: AtomicUsize,
    kept: Mutex<Vec<(CustomerHandle, Meta, KvPairs)>>,
}

impl Manners {
    fn answer(handle: &CustomerHandle, meta: &Meta, kv: KvPairs) {
        let values = if meta.pull { kv } else { KvPairs::default() };
        handle.respond(meta, values).unwrap();
    }

    pub(crate) fn speak(&self) {
        self.silent.store(false, Ordering::SeqCst);
        for (handle, meta, kv) in self.kept.lock().unwrap().drain(..) {
            Self::answer(&handle, &meta, kv);
        }
    }
}

/// A scheduler, servers and one worker.
pub(crate) struct Job {
    pub(crate) scheduler: Arc<Postoffice>,
    pub(crate) servers: Vec<(Arc<Postoffice>, Option<Customer>)>,
    pub(crate) worker: Arc<Postoffice>,
    pub(crate) manners: Arc<Manners>,
    /// Ends the process if the job does not end.
    _guard: mpsc::Sender<()>,
}

impl Job {
    pub(crate) fn new(servers: usize, transport: &'static str) -> Self {
        Self::start(servers, transport, false)
    }

    /// Keys may move, and the servers keep values in the library's own store.
    pub(crate) fn elastic(servers: usize, transport: &'static str) -> Self {
        Self::start(servers, transport, true)
    }

    fn start(servers: usize, transport: &'static str, elastic: bool) -> Self {
        let port = free_port();
        let office = |role: &'static str| {
            let lookup: Lookup = Arc::new(move |name| {
                let text = match name {
                    "DMLC_ROLE" => role.to_owned(),
                    "DMLC_NUM_WORKER" => "1".to_owned(),
                    "DMLC_NUM_SERVER" => servers.to_string(),
                    "DMLC_PS_ROOT_URI" | "DMLC_NODE_HOST" => "127.0.0.1".to_owned(),
                    "DMLC_PS_ROOT_PORT" => port.to_string(),
                    "PSLITE_ELASTIC" => u8::from(elastic).to_string(),
                    "PSLITE_TRANSPORT" => transport.to_owned(),
                    "PSLITE_PEER_TIMEOUT" => "1".to_owned(),
                    _ => return None,
                };
                Some(text)
            });
            Arc::new(Postoffice::new(lookup))
        };
        let manners = Arc::new(Manners::default());
        let job = Self {
            scheduler: office("scheduler"),
            servers: (0..servers)
                .map(|_| {
                    let office = office("server");
                    let customer = serve(&office, &manners);
                    if elastic {
                        customer.handle().attach_store();
                    }
                    (office, Some(customer))
                })
                .collect(),
            worker: office("worker"),
            manners,
            _guard: guard(),
        };
        thread::scope(|scope| {
            let offices = job.servers.iter().map(|(office, _)| office);
            for office in offices.chain([&job.scheduler, &job.worker]) {
                scope.spawn(|| office.start(0, true).unwrap());
            }
        });
        job
    }

    pub(crate) fn customer(&self, id: i32) -> Customer {
        let customer = self.worker.customer(0, id, Box::new(|_| {})).unwrap();
        customer.handle().attach_worker(1);
        customer
    }

    /// Messages that waiting threads of the worker received by themselves.
    pub(crate) fn received_by_waiters(&self) -> u64 {
        let metrics = self.worker.metrics().unwrap();
        let Some(at) = metrics.find("\"received_by_waiters\"") else { return 0 };
        let number = metrics[at..].split("\"value\":").nth(1).unwrap();
        number[..number.find('}').unwrap()].parse().unwrap()
    }

    /// Lets waits follow each other until the waiting thread receives by itself.
    pub(crate) fn warm_up(&self, customer: &CustomerHandle) {
        let before = self.received_by_waiters();
        let until = Instant::now() + LIMIT;
        while self.received_by_waiters() < before + 10 {
            assert!(Instant::now() < until, "no waiter ever received");
            for _ in 0..50 {
                customer.wait(push(customer, Box::new(|| {}))).unwrap();
            }
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        self.worker.stop();
        self.servers.iter().for_each(|(office, _)| office.stop());
        self.scheduler.stop();
    }
}

/// Ends the process after a while, unless what is returned is dropped before.
pub(crate) fn guard() -> mpsc::Sender<()> {
    let (sender, job_ended) = mpsc::channel::<()>();
    thread::spawn(move || {
        if job_ended.recv_timeout(4 * LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("somebody waits for ever");
            std::process::abort();
        }
    });
    sender
}

pub(crate) fn serve(office: &Arc<Postoffice>, manners: &Arc<Manners>) -> Customer {
    let slot: Arc<OnceLock<CustomerHandle>> = Arc::default();
    let (at, manners) = (Arc::clone(&slot), Arc::clone(manners));
    let handler = move |message: pslite::wire::Message| {
        let handle = at.wait();
        if message.meta.simple_app {
            return handle.simple_respond(&message.meta, Bytes::new(), "").unwrap();
        }
        let mut data = message.data.into_iter();
        let kv = KvPairs {
            keys: data.next().unwrap_or_default(),
            vals: data.next().unwrap_or_default(),
            lens: data.next().unwrap_or_default(),
        };
        // A pull is answered with equally many bytes for each key.
        let bytes = manners.value_bytes.load(Ordering::SeqCst).max(1);
        let vals = Bytes::from(vec![7_u8; kv.key_count() * bytes]);
        let kv = if message.meta.pull { KvPairs { vals, ..kv } } else { kv };
        let mut kept = manners.kept.lock().unwrap();
        if manners.silent.load(Ordering::SeqCst) {
            kept.push((handle.clone(), message.meta, kv));
        } else {
            drop(kept);
            Manners::answer(handle, &message.meta, kv);
        }
    };
    let customer = office.customer(0, 0, Box::new(handler)).unwrap();
    customer.handle().attach_server();
    slot.set(customer.handle().clone()).ok().unwrap();
    customer
}

pub(crate) struct Takes(pub(crate) Arc<Mutex<Vec<u8>>>);

impl PullSink for Takes {
    fn wants_lens(&self) -> bool {
        false
    }

    fn take(&mut self, assembled: &Assembled) -> Result<usize, String> {
        *self.0.lock().unwrap() = assembled.vals.concat();
        Ok(assembled.total_vals)
    }
}

pub(crate) type Done = Box<dyn FnOnce() + Send>;

pub(crate) fn count(ends: &Arc<AtomicUsize>) -> Done {
    let ends = Arc::clone(ends);
    Box::new(move || {
        ends.fetch_add(1, Ordering::SeqCst);
    })
}

/// One key for each server.
pub(crate) fn keys(customer: &CustomerHandle, servers: usize) -> Bytes {
    assert_eq!(customer.app_id(), 0);
    let ranges = pslite::values::server_key_ranges(servers);
    ranges.iter().flat_map(|range| (range.begin + 1).to_ne_bytes()).collect()
}

pub(crate) fn begin(customer: &CustomerHandle, servers: usize, done: Done) -> i32 {
    let keys = keys(customer, servers);
    let vals = Bytes::from(vec![1_u8; servers]);
    let kv = KvPairs { keys, vals, lens: Bytes::new() };
    let request =
        Request { kv, cmd: 0, priority: 0, push: true, pull: false, values: Values::default() };
    customer.request(&request, None, Box::new(|_| done())).unwrap()
}

/// To the first server.
pub(crate) fn push(customer: &CustomerHandle, done: Done) -> i32 {
    let kv = KvPairs {
        keys: Bytes::copy_from_slice(&1_u64.to_ne_bytes()),
        vals: Bytes::from(vec![1_u8; 4096]),
        lens: Bytes::new(),
    };
    let request =
        Request { kv, cmd: 0, priority: 0, push: true, pull: false, values: Values::default() };
    customer.request(&request, None, Box::new(|_| done())).unwrap()
}

pub(crate) fn pull(customer: &CustomerHandle, servers: usize) -> (i32, Arc<Mutex<Vec<u8>>>) {
    let values = Arc::new(Mutex::new(Vec::new()));
    let kv = KvPairs { keys: keys(customer, servers), ..KvPairs::default() };
    let request =
        Request { kv, cmd: 0, priority: 0, push: false, pull: true, values: Values::default() };
    let sink = Box::new(Takes(Arc::clone(&values)));
    (customer.request(&request, Some(sink), Box::new(|_| {})).unwrap(), values)
}
