//! What one small message may cost on the native data plane, both sides together: system calls,
//! allocations, copies. Counted, not timed, so the result does not depend on the machine's mood.
#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use pslite::transport::carrier::{Endpoint, SendMode};
use pslite::transport::native::{Carriers, NativeOptions, NativeTransport};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes on to the system's allocator, unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller keeps to the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const WARM_UP: u64 = 500;
const TRIPS: u64 = 2000;
/// One-way messages that are counted.
const MESSAGES: u64 = 2 * TRIPS;

#[derive(Clone, Copy, Debug)]
struct Cost {
    allocations: u64,
    syscalls: u64,
    sender_copies: u64,
    receiver_copies: u64,
    copied_bytes: u64,
}

fn cost(nodes: &[&NativeTransport; 2]) -> Cost {
    let counters: Vec<_> = nodes.iter().flat_map(|node| node.counters()).collect();
    let copies = |outgoing| {
        counters.iter().filter(|c| c.outgoing == outgoing).map(|c| c.copies).sum::<u64>()
    };
    Cost {
        syscalls: counters.iter().map(|c| c.syscalls).sum::<u64>()
            + nodes.iter().map(|node| node.waits()).sum::<u64>(),
        sender_copies: copies(true),
        receiver_copies: copies(false),
        copied_bytes: counters.iter().map(|c| c.copied_bytes).sum(),
        allocations: ALLOCATIONS.load(Relaxed),
    }
}

fn node(carriers: Carriers, life: u64) -> (NativeTransport, Endpoint) {
    let options = NativeOptions { carriers, ..NativeOptions::new(life, Some([3; 16])) };
    let node = NativeTransport::new(options).unwrap();
    let host = "127.0.0.1".to_owned();
    let port = node.bind(&Endpoint::Tcp { host: host.clone(), port: 0 }).unwrap();
    (node, Endpoint::Tcp { host, port })
}

/// Round trips of 4 KB with keys, values and lengths; what they cost after a warm-up.
fn measure(carriers: Carriers) -> Cost {
    let life = u64::from(std::process::id()) << 8 | (carriers as u64) << 4;
    let ((one, to_one), (two, to_two)) = (node(carriers, life | 1), node(carriers, life | 2));
    one.connect(8, &to_two, Some(9), 1).unwrap();
    two.connect(9, &to_one, Some(8), 1).unwrap();
    let data = [vec![1_u8; 8], vec![2; 4096], vec![3; 4]].map(Bytes::from);
    let meta = [5_u8; 40];
    let nodes = [&one, &two];
    let mut before = None;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let data = data.clone();
            while two.recv().is_ok() {
                two.send(9, &meta, &data, 0, SendMode::Block).unwrap();
            }
        });
        for trip in 0..WARM_UP + TRIPS {
            if trip == WARM_UP {
                before = Some(cost(&nodes));
            }
            one.send(8, &meta, &data, 0, SendMode::Block).unwrap();
            let answer = one.recv().unwrap();
            assert_eq!((answer.frames.len(), answer.frames[2].len()), (4, 4096));
        }
        two.stop();
    });
    let (before, after) = (before.unwrap(), cost(&nodes));
    one.close(Duration::ZERO);
    two.close(Duration::ZERO);
    Cost {
        allocations: after.allocations - before.allocations,
        syscalls: after.syscalls - before.syscalls,
        sender_copies: after.sender_copies - before.sender_copies,
        receiver_copies: after.receiver_copies - before.receiver_copies,
        copied_bytes: after.copied_bytes - before.copied_bytes,
    }
}

/// The bars of docs: at most 4 system calls, 2 allocations, no copy on the sender and one on the
/// receiver for each message one way. A few more in all are allowed for what happens by the clock.
#[test]
fn a_small_message_keeps_to_its_budget() {
    for carriers in [Carriers::Tcp, Carriers::Shm] {
        let cost = measure(carriers);
        let per = |number: u64| number as f64 / MESSAGES as f64;
        println!(
            "{carriers:?}, for each message one way: {:.2} system calls, {:.2} allocations, {:.2} \
             copies",
            per(cost.syscalls),
            per(cost.allocations),
            per(cost.receiver_copies)
        );
        assert!(cost.syscalls <= 4 * MESSAGES, "{cost:?}");
        assert!(cost.allocations <= 2 * MESSAGES, "{cost:?}");
        assert_eq!(cost.sender_copies, 0, "{cost:?}");
        assert!(cost.receiver_copies <= MESSAGES + 1, "{cost:?}");
        assert!(cost.copied_bytes <= 4108 * (MESSAGES + 1), "{cost:?}");
    }
}
