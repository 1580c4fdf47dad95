//! Values that a program steps itself, by the C ABI alone: whole jobs in this process.

#![allow(clippy::unwrap_used, reason = "what a test cannot do is a failure")]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::net::TcpListener;
use std::ptr::{null, null_mut};
use std::thread;

use ps::*;

const SERVERS: i32 = 2;
const WORKERS: i32 = 4;
const STOP: i32 = 2;
const LEAVING: u32 = 1;
const KEY: u64 = 3;
const BYTES: usize = 8;

type Settings = BTreeMap<String, CString>;

fn settings(role: &str, port: u16, more: Option<(&str, &str)>) -> Settings {
    let port = port.to_string();
    let all = [
        ("DMLC_ROLE", role),
        ("DMLC_PS_ROOT_URI", "127.0.0.1"),
        ("DMLC_PS_ROOT_PORT", &port),
        ("DMLC_NODE_HOST", "127.0.0.1"),
        ("DMLC_NUM_WORKER", "2"),
        ("DMLC_NUM_SERVER", "1"),
    ];
    let all = all.into_iter().chain(more);
    all.map(|(name, value)| (name.to_owned(), CString::new(value).unwrap())).collect()
}

unsafe extern "C" fn look_up(arg: *mut c_void, name: *const c_char) -> *const c_char {
    // SAFETY: `made` gives settings that outlive the node, and the library a C string.
    let (settings, name) = unsafe { (&*arg.cast::<Settings>(), CStr::from_ptr(name)) };
    settings.get(name.to_str().unwrap()).map_or(null(), |text| text.as_ptr())
}

unsafe extern "C" fn receive(_: *mut c_void, _: *const CMessage) {}

/// The status of a call, and the text of its failure.
fn said(status: c_int) -> Result<(), (c_int, String)> {
    if status == 0 {
        return Ok(());
    }
    // SAFETY: valid until the next call on this thread.
    let text = unsafe { CStr::from_ptr(pslite_last_error()) };
    Err((status, text.to_str().unwrap().to_owned()))
}

fn done(status: c_int) {
    said(status).unwrap();
}

/// A node of this process, and what it reads.
struct Made {
    node: *mut CNode,
    _settings: Box<Settings>,
}

impl Made {
    fn new(settings: Settings) -> Self {
        let settings = Box::new(settings);
        let (arg, mut node) = (std::ptr::from_ref(&*settings).cast_mut().cast(), null_mut());
        // SAFETY: the settings are freed after the node.
        done(unsafe { pslite_node_new(Some(look_up), arg, &raw mut node) });
        Self { node, _settings: settings }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: it was made, and is freed once.
        unsafe { pslite_node_free(self.node) };
    }
}

/// A KVWorker of a node, with one key of two numbers.
struct Worker {
    node: Made,
    customer: *mut CCustomer,
    values: [f32; 2],
}

fn buffer<T>(items: &[T]) -> CBuffer {
    CBuffer {
        data: items.as_ptr().cast(),
        size: size_of_val(items),
        release: None,
        release_arg: null_mut(),
    }
}

impl Worker {
    fn start(settings: Settings) -> Self {
        let (node, mut customer) = (Made::new(settings), null_mut());
        // SAFETY: handles of this test; `receive` takes any argument.
        unsafe {
            done(pslite_start(node.node, 0, 1));
            let made = &raw mut customer;
            done(pslite_customer_new(node.node, 0, 0, Some(receive), null_mut(), made));
            done(pslite_worker_attach(customer, 1));
        }
        Self { node, customer, values: [0.0; 2] }
    }

    fn rank(&self) -> i32 {
        let mut info = std::mem::MaybeUninit::<CNodeInfo>::zeroed();
        // SAFETY: room for one; all its fields may be zero.
        unsafe {
            done(pslite_node_describe(self.node.node, info.as_mut_ptr()));
            info.assume_init().rank
        }
    }

    /// Pushes the values, pulls them, or both; what came of it.
    fn asks(&mut self, push: bool, pull: bool) -> Result<(), (c_int, String)> {
        let (keys, lens, mut at) = ([KEY], [BYTES as i32], 0);
        let vals = self.values;
        let kv = CKv { keys: buffer(&keys), vals: buffer(&vals), lens: buffer(&lens) };
        let data = self.values.as_mut_ptr().cast();
        let mut array = CArray { data, bytes: BYTES, filled: 0 };
        let into = CDestination {
            place_vals: Some(pslite_place_array),
            place_lens: None,
            arg: (&raw mut array).cast(),
            vals: null_mut(),
            vals_bytes: 0,
            lens: null(),
            lens_count: 0,
        };
        let (worker, stamp) = (self.customer, &raw mut at);
        // SAFETY: all that is lent stays until the request is over, which is waited for here.
        unsafe {
            said(match (push, pull) {
                (true, false) => pslite_worker_push(worker, &kv, 0, 0, None, null_mut(), stamp),
                (false, _) => {
                    pslite_worker_pull(worker, kv.keys, &into, 0, 0, None, null_mut(), stamp)
                }
                (true, true) => {
                    pslite_worker_push_pull(worker, &kv, &into, 0, 0, None, null_mut(), stamp)
                }
            })?;
            said(pslite_customer_wait(worker, at))
        }
    }

    fn barrier(&self, flags: u32) {
        // SAFETY: a handle of this test.
        done(unsafe { pslite_barrier(self.node.node, 0, WORKERS, flags) });
    }

    fn pull_global(&mut self) -> [f32; 2] {
        let own = self.values;
        // SAFETY: a handle of this test.
        done(unsafe { pslite_exchange_pull_global(self.node.node, 1) });
        self.asks(false, true).unwrap();
        // SAFETY: the same.
        done(unsafe { pslite_exchange_pull_global(self.node.node, 0) });
        std::mem::replace(&mut self.values, own)
    }

    fn mode(&self) -> String {
        let (mut text, mut size) = ([0_u8; 256], 0);
        let room = text.as_mut_ptr().cast::<c_char>();
        // SAFETY: room for so many bytes.
        done(unsafe { pslite_exchange_describe(self.node.node, room, text.len(), &raw mut size) });
        String::from_utf8(text[..size].to_vec()).unwrap()
    }

    fn counts(&self) -> Result<CExchangeCounts, (c_int, String)> {
        let mut counts = CExchangeCounts { iterations: 0, sent: 0, done: 0, held: 0.0 };
        // SAFETY: room for one.
        said(unsafe { pslite_exchange_counted(self.customer, &raw mut counts) })?;
        Ok(counts)
    }

    fn end(self) {
        // SAFETY: handles of this test, which are not used any more.
        unsafe {
            if self.rank() == 0 {
                let mut at = 0;
                let stop = &raw mut at;
                done(pslite_simple_request(self.customer, STOP, null(), 0, SERVERS, stop));
                done(pslite_customer_wait(self.customer, at));
            }
            done(pslite_finalize(self.node.node, 0, 1));
            pslite_customer_free(self.customer);
        }
    }
}

/// Runs a job of two workers.
fn job(sync: Option<&str>, program: fn(&mut Worker)) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let more = sync.map(|sync| ("PSLITE_SYNC", sync));
    let mut threads = Vec::new();
    for (role, serve) in [
        ("scheduler", pslite_serve_scheduler as unsafe extern "C" fn(*mut CNode) -> c_int),
        ("server", pslite_serve_server),
    ] {
        let settings = settings(role, port, more.filter(|_| role == "scheduler"));
        threads.push(thread::spawn(move || {
            let made = Made::new(settings);
            // SAFETY: a node that was not started.
            done(unsafe { serve(made.node) });
        }));
    }
    for _ in 0..2 {
        let settings = settings("worker", port, None);
        threads.push(thread::spawn(move || {
            let mut worker = Worker::start(settings);
            program(&mut worker);
            worker.end();
        }));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// The key has those values at the servers and at this worker.
fn makes_the_key(worker: &mut Worker, values: [f32; 2]) {
    if worker.rank() == 0 {
        worker.values = values;
        worker.asks(true, false).unwrap();
    }
    worker.barrier(0);
    worker.asks(false, true).unwrap();
    assert_eq!(worker.values, values);
}

#[test]
fn a_program_steps_its_values() {
    job(Some("fedavg:steps=2"), |worker| {
        assert!(worker.mode().starts_with("fedavg, 2 steps"), "{}", worker.mode());
        // SAFETY: a handle of this test.
        done(unsafe { pslite_exchange_begin(worker.customer) });
        makes_the_key(worker, [1.0, 2.0]);
        let step = (worker.rank() + 1) as f32;
        for round in 0..3 {
            let begun = [1.0 + 3.0 * round as f32, 2.0];
            worker.values[0] += step;
            worker.asks(true, true).unwrap();
            assert_eq!(worker.values, [begun[0] + step, 2.0], "its own value");
            assert_eq!(worker.pull_global(), begun);
            // Before anybody sends.
            worker.barrier(0);
            worker.values[0] += step;
            worker.asks(true, true).unwrap();
            assert_eq!(worker.values, [begun[0] + 3.0, 2.0], "the mean of 2 and 4 is in it");
        }
        let counts = worker.counts().unwrap();
        assert_eq!((counts.iterations, counts.sent, counts.done), (6, 3, 2));
        // Steps that are not pulled count as well, whichever value they began with.
        for _ in 0..3 {
            worker.values[0] += step;
            worker.asks(true, false).unwrap();
        }
        worker.asks(false, true).unwrap();
        assert_eq!(worker.values, [13.0 + step, 2.0]);
        worker.barrier(LEAVING);
    });
}

#[test]
fn a_job_that_exchanges_nothing_says_so() {
    job(None, |worker| {
        assert_eq!(worker.mode(), "");
        // SAFETY: a handle of this test.
        let begun = said(unsafe { pslite_exchange_begin(worker.customer) });
        for (status, text) in [begun.unwrap_err(), worker.counts().unwrap_err()] {
            assert_eq!(status, -2);
            assert!(text.contains("set PSLITE_SYNC at the scheduler"), "{text}");
        }
        makes_the_key(worker, [1.0, 2.0]);
        assert_eq!(worker.pull_global(), [1.0, 2.0], "the servers are asked as ever");
        worker.barrier(LEAVING);
    });
}
