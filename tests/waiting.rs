//! Whole jobs in one process, in which threads wait for one answer after the other: they then
//! receive by themselves. Whoever comes, goes, blocks or dies meanwhile, each request ends once and
//! nobody waits for ever.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "waiting/job.rs"]
mod job;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pslite::node::{CustomerHandle, Request, Values};
use pslite::values::{KvPairs, server_key_ranges};

use job::{CARRIERS, Job, LIMIT, Takes, begin, count, pull, push};

#[test]
fn who_waits_for_one_answer_after_the_other_receives_it() {
    for carrier in CARRIERS {
        for servers in [1, 3] {
            let job = Job::new(servers, carrier);
            let customer = job.customer(0);
            let handle = customer.handle();
            job.warm_up(handle);
            let ends = Arc::new(AtomicUsize::new(0));
            let before = job.received_by_waiters();
            for round in 1..=1000 {
                handle.wait(begin(handle, servers, count(&ends))).unwrap();
                assert_eq!(ends.load(Ordering::SeqCst), round, "the end comes before the wait's");
                let (timestamp, values) = pull(handle, servers);
                handle.wait(timestamp).unwrap();
                assert_eq!(*values.lock().unwrap(), vec![7; servers]);
                assert_eq!(handle.num_response(timestamp), servers as i32);
            }
            assert!(job.received_by_waiters() > before, "{carrier}, {servers} servers");
        }
    }
}

/// Threads that wait all the time and some that come and go, on customers of their own and on one
/// that they share.
#[test]
fn waiters_come_and_go() {
    for carrier in CARRIERS {
        let job = Job::new(2, carrier);
        let customers: Vec<_> = (0..2).map(|id| job.customer(id)).collect();
        let ends = Arc::new(AtomicUsize::new(0));
        let wait = |customer: &CustomerHandle, times: usize, pause: Option<usize>| {
            for round in 0..times {
                let timestamp = begin(customer, 1 + round % 2, count(&ends));
                customer.wait(timestamp).unwrap();
                if pause.is_some_and(|every| round % every == 0) {
                    thread::sleep(Duration::from_millis(4));
                }
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| wait(customers[0].handle(), 3000, None));
            scope.spawn(|| wait(customers[0].handle(), 1000, Some(50)));
            scope.spawn(|| wait(customers[1].handle(), 1000, Some(30)));
        });
        assert_eq!(ends.load(Ordering::SeqCst), 5000);
        println!("{carrier}: {} received by waiters", job.received_by_waiters());
    }
}

/// The end of one customer's request blocks until a thread has waited, many times, for another
/// one's.
#[test]
fn code_that_blocks_keeps_no_waiter_waiting() {
    for carrier in CARRIERS {
        let job = Job::new(1, carrier);
        let (customer, other) = (job.customer(0), job.customer(1));
        let handle = customer.handle();
        job.warm_up(handle);
        for _ in 0..20 {
            let (go_on, goes_on) = mpsc::channel::<()>();
            let blocked =
                push(other.handle(), Box::new(move || goes_on.recv_timeout(LIMIT).unwrap()));
            // Of the same customer too: it is another request than the one that is waited for.
            for _ in 0..30 {
                handle.wait(push(handle, Box::new(|| {}))).unwrap();
            }
            go_on.send(()).unwrap();
            other.handle().wait(blocked).unwrap();
        }
    }
}

/// The end of a request needs answers itself: while it runs somebody else receives.
#[test]
fn the_end_of_a_request_may_wait_for_another_one() {
    for carrier in CARRIERS {
        let job = Job::new(1, carrier);
        let (customer, other) = (job.customer(0), job.customer(1));
        let handle = customer.handle();
        job.warm_up(handle);
        for _ in 0..50 {
            let asked = other.handle().clone();
            let done = move || {
                let (tell, told) = mpsc::channel();
                push(&asked, Box::new(move || tell.send(()).unwrap()));
                told.recv_timeout(LIMIT).unwrap();
                asked.wait(push(&asked, Box::new(|| {}))).unwrap();
            };
            handle.wait(push(handle, Box::new(done))).unwrap();
        }
    }
}

/// An answer that comes while nobody waits any more is handled all the same, and soon.
#[test]
fn what_comes_after_the_last_wait_is_received() {
    for carrier in CARRIERS {
        let job = Job::new(1, carrier);
        let customer = job.customer(0);
        let handle = customer.handle();
        for _ in 0..20 {
            job.warm_up(handle);
            let (tell, told) = mpsc::channel();
            push(handle, Box::new(move || tell.send(()).unwrap()));
            told.recv_timeout(LIMIT).unwrap();
        }
    }
}

/// Somebody else ends the request that a thread receives for.
#[test]
fn a_waiter_who_receives_is_called_when_his_request_ends_otherwise() {
    for carrier in CARRIERS {
        let job = Job::new(1, carrier);
        let customer = job.customer(0);
        let handle = customer.handle();
        for _ in 0..20 {
            job.warm_up(handle);
            job.manners.silent.store(true, Ordering::SeqCst);
            let timestamp = push(handle, Box::new(|| {}));
            thread::scope(|scope| {
                let waiter = scope.spawn(|| handle.wait(timestamp));
                thread::sleep(Duration::from_millis(3));
                handle.add_response(timestamp, 1);
                waiter.join().unwrap().unwrap();
            });
            job.manners.speak();
        }
    }
}

/// How a wait ends for an answer that never comes, when `event` happens meanwhile.
fn wait_in_vain(job: &Job, event: impl FnOnce()) -> pslite::node::error::Result<()> {
    let customer = job.customer(0);
    let handle = customer.handle();
    job.warm_up(handle);
    job.manners.silent.store(true, Ordering::SeqCst);
    let timestamp = push(handle, Box::new(|| {}));
    thread::scope(|scope| {
        let waiter = scope.spawn(|| handle.wait(timestamp));
        thread::sleep(Duration::from_millis(20));
        event();
        waiter.join().unwrap()
    })
}

#[test]
fn the_death_of_the_server_ends_the_wait() {
    for carrier in CARRIERS {
        let job = Job::new(1, carrier);
        let began = Instant::now();
        let result = wait_in_vain(&job, || job.servers[0].0.stop());
        let text = result.unwrap_err().to_string();
        assert!(text.contains("server"), "{carrier}: {text}");
        assert!(began.elapsed() < LIMIT, "{carrier}");
    }
}

#[test]
fn the_end_of_the_node_ends_the_wait() {
    for carrier in CARRIERS {
        let job = Job::new(1, carrier);
        assert!(wait_in_vain(&job, || job.worker.stop()).is_err(), "{carrier}");
    }
}

/// Customer 0 ends the node. To another one that just waits for the others, that is no error: of
/// two whose barrier ends at once, either may be first.
#[test]
fn who_leaves_a_node_that_is_just_ended_has_left() {
    let job = Job::new(1, "tcp");
    let left = thread::scope(|scope| {
        let other = scope.spawn(|| job.worker.finalize(1, true));
        thread::sleep(Duration::from_millis(20));
        job.worker.finalize(0, false).unwrap();
        other.join().unwrap()
    });
    assert!(left.is_ok(), "{left:?}");
}

/// In a job whose keys may move, answers to parts end requests, and a part may go again.
#[test]
fn who_waits_receives_in_an_elastic_job_too() {
    const SYNC_MODE: i32 = 3;
    const SERVERS: i32 = 2;
    for carrier in CARRIERS {
        let job = Job::elastic(2, carrier);
        let customer = job.customer(0);
        let handle = customer.handle();
        handle.wait(handle.simple_request(SYNC_MODE, &Bytes::new(), SERVERS).unwrap()).unwrap();
        let ends = Arc::new(AtomicUsize::new(0));
        let before = job.received_by_waiters();
        for round in 0..600_usize {
            let number = round as f32;
            let kv = KvPairs {
                keys: Bytes::copy_from_slice(&key_of(round % 2).to_ne_bytes()),
                vals: number.to_ne_bytes().repeat(1024).into(),
                lens: Bytes::copy_from_slice(&4096_i32.to_ne_bytes()),
            };
            let keys = kv.keys.clone();
            let request = Request {
                kv,
                cmd: 0,
                priority: 0,
                push: true,
                pull: false,
                values: Values::default(),
            };
            let timestamp = handle.request(&request, None, ignore(count(&ends))).unwrap();
            handle.wait(timestamp).unwrap();
            assert_eq!(ends.load(Ordering::SeqCst), round + 1);
            let values = Arc::new(Mutex::new(Vec::new()));
            let kv = KvPairs { keys, ..KvPairs::default() };
            let request = Request {
                kv,
                cmd: 0,
                priority: 0,
                push: false,
                pull: true,
                values: Values::default(),
            };
            let sink = Box::new(Takes(Arc::clone(&values)));
            let timestamp = handle.request(&request, Some(sink), Box::new(|_| {})).unwrap();
            handle.wait(timestamp).unwrap();
            assert_eq!(*values.lock().unwrap(), number.to_ne_bytes().repeat(1024));
        }
        assert!(job.received_by_waiters() > before, "{carrier}");
    }
}

/// A key of that server.
fn key_of(rank: usize) -> u64 {
    server_key_ranges(2)[rank].begin + 1
}

fn ignore(done: job::Done) -> pslite::node::customer::Done {
    Box::new(|_| done())
}
