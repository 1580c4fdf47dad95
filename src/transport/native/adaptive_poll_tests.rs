//! Whoever stays awake for one peer's next small message (`adaptive_poll`) sees to everything else
//! all the same.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Instant;

use super::tests::{LIMIT, listener, options, pattern, transport, wait_until};
use super::*;

const META: &[u8] = b"a small message";

/// Two nodes that answer each other, one message at a time.
struct Chat {
    nodes: [Arc<NativeTransport>; 2],
    to_second: Endpoint,
    trips: Arc<AtomicU64>,
    strangers: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Chat {
    fn begin() -> Self {
        let (one, to_one) = listener(options(Carriers::Tcp));
        let (two, to_two) = listener(options(Carriers::Tcp));
        one.connect(8, &to_two, Some(9), 1).unwrap();
        two.connect(9, &to_one, Some(8), 1).unwrap();
        let mut chat = Self {
            nodes: [one, two],
            to_second: to_two,
            trips: Arc::default(),
            strangers: Arc::default(),
            over: Arc::default(),
            threads: Vec::new(),
        };
        chat.spawn_asker();
        chat.spawn_answerer();
        wait_until("nobody answers", || chat.trips() > 500);
        chat
    }

    fn spawn_asker(&mut self) {
        let node = Arc::clone(&self.nodes[0]);
        let (trips, over) = (Arc::clone(&self.trips), Arc::clone(&self.over));
        self.threads.push(thread::spawn(move || {
            let data = [pattern(1, 4096)];
            while !over.load(Ordering::SeqCst) {
                if node.send(8, META, &data, 0, SendMode::Block).is_err() || node.recv().is_err() {
                    return;
                }
                trips.fetch_add(1, Ordering::SeqCst);
            }
        }));
    }

    fn spawn_answerer(&mut self) {
        let node = Arc::clone(&self.nodes[1]);
        let strangers = Arc::clone(&self.strangers);
        self.threads.push(thread::spawn(move || {
            while let Ok(message) = node.recv() {
                if message.from != Some(9) {
                    strangers.fetch_add(1, Ordering::SeqCst);
                } else if node.send(9, META, &message.frames[1..], 0, SendMode::Block).is_err() {
                    return;
                }
            }
        }));
    }

    fn trips(&self) -> u64 {
        self.trips.load(Ordering::SeqCst)
    }

    /// Both nodes stop; whether their threads ended soon.
    fn ends(&mut self) -> bool {
        self.nodes.iter().for_each(|node| node.stop());
        let until = Instant::now() + LIMIT;
        while !self.threads.iter().all(JoinHandle::is_finished) && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        self.threads.drain(..).all(|thread| thread.is_finished())
    }
}

impl Drop for Chat {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        self.nodes.iter().for_each(|node| node.stop());
    }
}

#[test]
fn others_come_and_are_heard_while_two_chat() {
    let mut chat = Chat::begin();
    for number in 1..=5 {
        let third = transport(options(Carriers::Tcp));
        third.connect(8, &chat.to_second, Some(11), 1).unwrap();
        third.send(8, META, &[pattern(2, 100)], 0, SendMode::Block).unwrap();
        wait_until("it is not heard", || chat.strangers.load(Ordering::SeqCst) == number);
        third.close(Duration::ZERO);
    }
    let before = chat.trips();
    wait_until("the chat has ended", || chat.trips() > before + 500);
    assert!(chat.ends());
}

#[test]
fn a_large_message_among_small_ones_arrives_whole() {
    let chat = Chat::begin();
    let third = transport(options(Carriers::Tcp));
    third.connect(8, &chat.to_second, Some(11), 2).unwrap();
    for number in 1..=3 {
        third.send(8, META, &[pattern(3, 3_000_001)], 0, SendMode::Block).unwrap();
        wait_until("it is lost", || chat.strangers.load(Ordering::SeqCst) == number);
    }
    third.close(Duration::from_secs(1));
}

#[test]
fn who_stays_awake_is_stopped_at_once() {
    for _ in 0..5 {
        let mut chat = Chat::begin();
        let began = Instant::now();
        assert!(chat.ends());
        assert!(began.elapsed() < LIMIT / 2);
    }
}
