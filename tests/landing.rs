//! Whole jobs in one process: large values are received straight into the memory of who pulls them,
//! and that memory is his alone again when the request ends, however it ends.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "waiting/job.rs"]
#[allow(dead_code, reason = "shared with tests/waiting.rs")]
mod job;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use bytes::Bytes;
use pslite::kv::Assembled;
use pslite::node::{CallersMemory, CustomerHandle, Destination, PullSink, Request, Values};
use pslite::values::KvPairs;

use job::{Job, LIMIT, keys};

/// Bytes of each value.
const VALUE: usize = 3 << 20;

/// Where a pull goes, and what came of it.
struct Into {
    memory: CallersMemory,
    lens: Bytes,
    copied: Arc<AtomicU64>,
    values: Arc<Mutex<Vec<u8>>>,
}

impl Into {
    fn new(bytes: usize) -> Self {
        Self {
            memory: CallersMemory::owned(vec![0; bytes].into()),
            lens: Bytes::new(),
            copied: Arc::default(),
            values: Arc::default(),
        }
    }
}

impl PullSink for Into {
    fn wants_lens(&self) -> bool {
        false
    }

    fn destination(&self) -> Option<Destination> {
        Some(Destination { memory: self.memory.clone(), lens: self.lens.clone() })
    }

    fn take(&mut self, assembled: &Assembled) -> Result<usize, String> {
        assert!(self.memory.is_withdrawn(), "somebody may still write to it");
        let (mut at, mut copied) = (0, 0);
        for part in &assembled.vals {
            copied += if self.memory.is_at(at, part) { 0 } else { part.len() };
            at += part.len();
        }
        self.copied.store(copied as u64, Ordering::SeqCst);
        *self.values.lock().unwrap() = assembled.vals.concat();
        Ok(copied)
    }
}

fn pull_into(handle: &CustomerHandle, keys: Bytes, into: Into) -> i32 {
    let kv = KvPairs { keys, ..KvPairs::default() };
    let request =
        Request { kv, cmd: 0, priority: 0, push: false, pull: true, values: Values::default() };
    let memory = into.memory.clone();
    let done = move |_| assert!(memory.is_withdrawn(), "somebody may still write to it");
    handle.request(&request, Some(Box::new(into)), Box::new(done)).unwrap()
}

/// How much of a pull from three servers was copied.
fn copied(job: &Job, handle: &CustomerHandle, into: Into) -> u64 {
    let (copied, values) = (Arc::clone(&into.copied), Arc::clone(&into.values));
    handle.wait(pull_into(handle, keys(handle, job.servers.len()), into)).unwrap();
    let bytes = job.servers.len() * VALUE;
    assert!(values.lock().unwrap().iter().eq(vec![7_u8; bytes].iter()));
    copied.load(Ordering::SeqCst)
}

#[test]
fn large_values_land_where_they_are_wanted_and_no_others() {
    let all = 3 * VALUE as u64;
    for (carrier, expected) in [("tcp", 0), ("shm", all)] {
        let job = Job::new(3, carrier);
        job.manners.value_bytes.store(VALUE, Ordering::SeqCst);
        let customers = [job.customer(0), job.customer(1)];
        for round in 0..5 {
            for customer in &customers {
                let into = Into::new(3 * VALUE);
                assert_eq!(copied(&job, customer.handle(), into), expected, "{carrier} {round}");
            }
        }
        let handle = customers[0].handle();
        // Other lens than those that come, and other sizes: only what is where it belongs is not
        // copied.
        let lens = |lens: [usize; 3]| -> Bytes {
            lens.iter().flat_map(|len| (*len as i32).to_ne_bytes()).collect()
        };
        let wrong = Into { lens: lens([VALUE, 1, 2 * VALUE - 1]), ..Into::new(3 * VALUE) };
        assert_eq!(
            copied(&job, handle, wrong),
            if expected == 0 { all - VALUE as u64 } else { all }
        );
        let wrong = Into { lens: lens([1, VALUE, 2 * VALUE - 1]), ..Into::new(3 * VALUE) };
        assert_eq!(copied(&job, handle, wrong), all);
        assert_eq!(copied(&job, handle, Into::new(3 * VALUE + 1)), all);
        assert_eq!(copied(&job, handle, Into::new(VALUE)), all);
        let number = job.worker.metrics().unwrap();
        assert!(number.contains("\"pulls_copied_bytes\""), "{number}");
    }
}

/// Values that are wanted in the same memory at the same time: each request still ends with its
/// own.
#[test]
fn requests_for_the_same_keys_have_their_own_memory() {
    let job = Job::new(3, "tcp");
    job.manners.value_bytes.store(VALUE, Ordering::SeqCst);
    let customer = job.customer(0);
    let handle = customer.handle();
    let (timestamps, ends): (Vec<_>, Vec<_>) = (0..8)
        .map(|_| {
            let into = Into::new(3 * VALUE);
            let end = (Arc::clone(&into.copied), Arc::clone(&into.values));
            (pull_into(handle, keys(handle, 3), into), end)
        })
        .unzip();
    timestamps.into_iter().for_each(|timestamp| handle.wait(timestamp).unwrap());
    for (copied, values) in ends {
        assert_eq!(copied.load(Ordering::SeqCst), 0);
        assert_eq!(values.lock().unwrap().len(), 3 * VALUE);
    }
}

/// A server goes away before it answers, or while it does; a customer ends with requests that have
/// no end.
#[test]
fn memory_is_given_back_however_a_request_ends() {
    for while_it_answers in [false, true] {
        let job = Job::new(2, "tcp");
        job.manners.value_bytes.store(64 << 20, Ordering::SeqCst);
        let customer = job.customer(0);
        let handle = customer.handle();
        job.manners.silent.store(true, Ordering::SeqCst);
        let into = Into::new(128 << 20);
        let memory = into.memory.clone();
        let timestamp = pull_into(handle, keys(handle, 2), into);
        let office = Arc::clone(&job.servers[0].0);
        let (tell, told) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                if while_it_answers {
                    job.manners.speak();
                }
                office.stop();
                tell.send(()).unwrap();
            });
            // What had come whole before is the end of it, too.
            let ended = handle.wait(timestamp);
            assert!(while_it_answers || ended.is_err(), "{ended:?}");
            assert!(memory.is_withdrawn());
            told.recv_timeout(LIMIT).unwrap();
        });
    }
    let job = Job::new(2, "tcp");
    let customer = job.customer(0);
    job.manners.silent.store(true, Ordering::SeqCst);
    let into = Into::new(2 * VALUE);
    let memory = into.memory.clone();
    pull_into(customer.handle(), keys(customer.handle(), 2), into);
    assert!(!memory.is_withdrawn());
    drop(customer);
    assert!(memory.is_withdrawn());
}

/// In an elastic job, where a key may be cut into pieces and moved.
#[test]
fn values_of_a_store_whose_keys_may_move_land_too() {
    let job = Job::elastic(2, "tcp");
    let customer = job.customer(0);
    let handle = customer.handle();
    let keys = keys(handle, 2);
    let vals: Bytes = (0..2 * VALUE / 4).flat_map(|n| (n as f32).to_ne_bytes()).collect();
    let lens: Bytes = [VALUE as i32; 2].iter().flat_map(|len| len.to_ne_bytes()).collect();
    let kv = KvPairs { keys: keys.clone(), vals: vals.clone(), lens: lens.clone() };
    let push =
        Request { kv, cmd: 0, priority: 0, push: true, pull: false, values: Values::default() };
    handle.wait(handle.request(&push, None, Box::new(|_| {})).unwrap()).unwrap();
    for _ in 0..3 {
        let into = Into { lens: lens.clone(), ..Into::new(2 * VALUE) };
        let (copied, values) = (Arc::clone(&into.copied), Arc::clone(&into.values));
        handle.wait(pull_into(handle, keys.clone(), into)).unwrap();
        assert_eq!(copied.load(Ordering::SeqCst), 0);
        assert!(values.lock().unwrap()[..] == vals[..]);
    }
}
