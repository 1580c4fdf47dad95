//! Where large frames land: in memory of the caller, which it may take back, or in shared memory
//! that the sender lends.

use std::sync::mpsc;

use super::tests::*;
use super::*;
use crate::CallersMemory;
use pslite_core::wire::native::GRANULE;

struct Caller {
    memory: Mutex<Vec<Vec<u8>>>,
    asked: AtomicU64,
}

impl Sink for Caller {
    fn place(&self, from: Option<i32>, meta: &[u8], lengths: &[u64]) -> Option<Place> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        assert_eq!((from, meta, lengths.len()), (Some(9), &b"meta"[..], 3));
        let memory = lock(&self.memory).pop()?;
        Some(Place { frame: 1, memory: Box::new(memory) })
    }
}

#[test]
fn a_large_frame_lands_where_the_sink_says() {
    let (at, endpoint) = listener(options(Carriers::Tcp));
    let own = vec![0; 10 * GRANULE];
    let address = own.as_ptr();
    let caller = Arc::new(Caller { memory: Mutex::new(vec![own]), asked: AtomicU64::new(0) });
    at.set_sink(Arc::clone(&caller) as Arc<dyn Sink>);
    let received = Received::by(&at);
    let from = sender(options(Carriers::Tcp), &endpoint);
    let data = [pattern(1, 8), pattern(2, 10 * GRANULE), pattern(3, 4)];
    for _ in 0..2 {
        from.send(8, b"meta", &data, 0, SendMode::Block).unwrap();
    }
    from.send(8, b"small", &[], 0, SendMode::Block).unwrap();
    for number in 0..2 {
        let message = received.next();
        assert!(message.frames[1..].iter().zip(&data).all(|(came, sent)| came == sent));
        assert_eq!(message.frames[2].as_ptr() == address, number == 0);
    }
    received.next();
    assert_eq!(caller.asked.load(Ordering::Relaxed), 2);
}

/// Takes memory for the first message, and says when.
struct Lender {
    memory: CallersMemory,
    asked: mpsc::Sender<()>,
}

impl Sink for Lender {
    fn place(&self, _: Option<i32>, _: &[u8], lengths: &[u64]) -> Option<Place> {
        let memory = Box::new(self.memory.claim(0..lengths[0] as usize)?);
        let _ = self.asked.send(());
        Some(Place { frame: 0, memory })
    }
}

/// The owner takes his memory back while a message lands there. That goes on, and the connection
/// with it.
#[test]
fn memory_that_is_taken_back_is_not_written_to() {
    let (at, endpoint) = listener(options(Carriers::Tcp));
    let mut own = vec![0; 40_000_000];
    let from = sender_over(2, options(Carriers::Tcp), &endpoint);
    let memory = CallersMemory::of_test(&mut own);
    let (tell, asked) = mpsc::channel();
    let lender = Arc::new(Lender { memory: memory.clone(), asked: tell });
    at.set_sink(lender);
    let received = Received::by(&at);
    from.send(8, &1_u32.to_ne_bytes(), &[pattern(1, own.len())], 0, SendMode::Block).unwrap();
    send(&from, 2, 0);
    asked.recv_timeout(LIMIT).unwrap();
    memory.withdraw();
    own.fill(255);
    let message = received.next();
    assert_eq!((number_of(&message), message.frames[1].len()), (1, own.len()));
    assert!(message.landed && !memory.has(&message.frames[1]));
    assert!(own.iter().all(|byte| *byte == 255));
    assert_eq!(received.numbers(1), [2]);
}

#[test]
fn a_large_frame_is_lent_through_shared_memory_and_its_memory_used_again() {
    let (at, endpoint) = listener(options(Carriers::Shm));
    let received = Received::by(&at);
    let from = sender(options(Carriers::Shm), &endpoint);
    wait_for_channel(&from, 8, true);
    let mut places = std::collections::BTreeSet::new();
    for number in 0..50 {
        let data = [pattern(1, 8), pattern(number, 8 * GRANULE + 5), pattern(3, 4)];
        from.send(8, b"meta", &data, 0, SendMode::Block).unwrap();
        let message = received.next();
        assert!(message.frames[1..].iter().zip(&data).all(|(came, sent)| came == sent));
        places.insert(message.frames[2].as_ptr() as usize);
    }
    // The sender keeps a few until it knows that they arrived.
    assert!(places.len() <= 10, "{places:?}");
    // The receiver copied no more than heads and small frames.
    let came = at.counters().into_iter().find(|counters| !counters.outgoing).unwrap();
    assert!(came.bytes < 50 * 1000 && came.copied_bytes < 50 * 1000, "{came:?}");
    // What the receiver keeps stays as it is, whatever is sent later.
    let kept: Vec<_> = (0..20)
        .map(|number| {
            let data = [pattern(1, 8), pattern(number, GRANULE)];
            from.send(8, b"", &data, 0, SendMode::Block).unwrap();
            (data, received.next())
        })
        .collect();
    assert!(kept.iter().all(|(sent, came)| came.frames[2] == sent[1]));
    // Keys are never lent, however many.
    let data = [pattern(7, 3 * GRANULE), pattern(8, 3 * GRANULE)];
    let copied = || at.counters().into_iter().find(|counters| !counters.outgoing).unwrap().bytes;
    let before = copied();
    from.send(8, b"", &data, 0, SendMode::Block).unwrap();
    assert!(received.next().frames[1..].iter().eq(&data));
    let came = copied() - before;
    assert!((3 * GRANULE as u64..4 * GRANULE as u64).contains(&came), "{came}");
}
