//! Who may come, when, and what becomes of messages for whom nobody comes.

use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use super::tests::{
    LIMIT, Received, TOKEN, listener, number_of, options, pattern, send, sender, wait_for_channel,
};
use super::*;

/// Before a node has joined its job it cannot tell friends from strangers: who comes then waits.
#[test]
fn who_comes_before_the_token_waits_for_it() {
    let (at, endpoint) = listener(NativeOptions { token: None, ..options(Carriers::Auto) });
    let received = Received::by(&at);
    let from = sender(options(Carriers::Auto), &endpoint);
    let nobody = NativeOptions { token: Some([0; 16]), ..options(Carriers::Tcp) };
    let stranger = sender(nobody, &endpoint);
    send(&from, 1, 0);
    send(&stranger, 2, 0);
    received.nothing();
    at.set_token(TOKEN);
    assert_eq!(received.numbers(1), [1]);
    received.nothing();
    assert_eq!(from.counters()[0].connections, 1);
}

/// What cannot go there is given back, in its order, and senders that wait are told.
#[test]
fn what_never_had_a_connection_is_given_back() {
    let (at, endpoint) = listener(options(Carriers::Tcp));
    let received = Received::by(&at);
    let own = NativeOptions { send_queue: 3, ..options(Carriers::Shm) };
    let from = sender(own, &endpoint);
    wait_for_channel(&from, 8, false);
    let data = [pattern(1, 10), pattern(2, 70_000)];
    from.send(8, b"meta", &data, 0, SendMode::Block).unwrap();
    (1..3).for_each(|number| send(&from, number, 0));
    let (tell, told) = mpsc::channel();
    let blocked = Arc::clone(&from);
    let thread = thread::spawn(move || {
        let _ = tell.send(blocked.send(8, b"x", &[], 0, SendMode::Block));
    });
    assert!(told.recv_timeout(Duration::from_millis(50)).is_err(), "it did not wait");
    let taken = from.take_back(8).unwrap();
    let error = told.recv_timeout(LIMIT).unwrap().unwrap_err();
    assert!(matches!(error, SendError::TakenBack), "{error:?}");
    thread.join().unwrap();
    assert_eq!(taken.messages.len(), 3);
    assert_eq!(taken.messages[0].meta, b"meta");
    assert_eq!(taken.messages[0].data[..], data);
    assert_eq!(taken.messages[2].meta, 2_u32.to_ne_bytes());
    assert!(from.take_back(8).is_none());
    assert!(from.is_connected(8));
    from.taken_back(8, &taken);
    assert!(!from.is_connected(8));
    received.nothing();
    // One that had a connection keeps what it has.
    let from = sender(options(Carriers::Tcp), &endpoint);
    wait_for_channel(&from, 8, true);
    assert!(from.take_back(8).is_none());
}

#[test]
fn a_peer_that_nobody_listens_for_is_known_at_once() {
    let (at, endpoint) = listener(options(Carriers::Tcp));
    at.close(Duration::ZERO);
    let began = Instant::now();
    let from = sender(options(Carriers::Auto), &endpoint);
    wait_for_channel(&from, 8, false);
    assert!(began.elapsed() < Duration::from_secs(2));
    assert!(from.take_back(8).is_some());
}

/// A ring that is never empty must not keep others from their turn.
#[test]
fn a_busy_ring_does_not_starve_tcp() {
    let (at, endpoint) = listener(options(Carriers::Auto));
    let busy = sender(options(Carriers::Shm), &endpoint);
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let data = [pattern(1, 30_000)];
            while done.load(Ordering::Relaxed) == 0 && !busy.shared.is_stopping() {
                let _ = busy.send(8, &1_u32.to_ne_bytes(), &data, 0, SendMode::Block);
            }
        });
        let quiet = sender(options(Carriers::Tcp), &endpoint);
        let until = Instant::now() + LIMIT;
        for number in 2..6 {
            send(&quiet, number, 0);
            let mut others = 0;
            while number_of(&at.recv().unwrap()) != number {
                others += 1;
                if Instant::now() > until {
                    busy.stop();
                    panic!("starved by {others} messages");
                }
            }
        }
        done.store(1, Ordering::Relaxed);
        busy.stop();
    });
}

#[test]
fn strangers_are_refused() {
    let (at, endpoint) = listener(options(Carriers::Auto));
    let received = Received::by(&at);
    for carriers in [Carriers::Tcp, Carriers::Shm] {
        let stranger =
            sender(NativeOptions { token: Some([7; 16]), ..options(carriers) }, &endpoint);
        send(&stranger, 1, 0);
        thread::sleep(Duration::from_millis(20));
        assert_eq!(stranger.counters()[0].carrier, "none");
    }
    // Whoever says anything else is not listened to either.
    let Endpoint::Tcp { host, port } = &endpoint else { panic!() };
    let mut socket = std::net::TcpStream::connect((host.as_str(), *port)).unwrap();
    io::Write::write_all(&mut socket, &[b'x'; 2000]).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let mut answer = Vec::new();
    let _ = io::Read::read_to_end(&mut socket, &mut answer);
    received.nothing();
    let member = sender(options(Carriers::Auto), &endpoint);
    send(&member, 2, 0);
    assert_eq!(received.numbers(1), [2]);
}

#[test]
fn a_transport_that_is_forced_is_not_replaced() {
    let (at, endpoint) = listener(options(Carriers::Tcp));
    let received = Received::by(&at);
    let shm = sender(options(Carriers::Shm), &endpoint);
    send(&shm, 1, 0);
    received.nothing();
    let auto = sender(options(Carriers::Auto), &endpoint);
    send(&auto, 2, 0);
    assert_eq!(received.numbers(1), [2]);
    assert_eq!(auto.counters()[0].carrier, "tcp");
}

/// Its confirmations are in messages that wait behind others: who waits for room asks for one by
/// itself.
#[test]
fn a_sender_without_room_asks_what_arrived() {
    let (at, endpoint) = listener(options(Carriers::Shm));
    let (from, back) = listener(NativeOptions { send_queue: 3, ..options(Carriers::Shm) });
    from.connect(8, &endpoint, Some(9), 1).unwrap();
    at.connect(9, &back, Some(8), 1).unwrap();
    // `from` does not read, but its own thread welcomes nobody: a first message makes it.
    at.send(9, b"back", &[], 0, SendMode::Block).unwrap();
    from.recv().unwrap();
    for number in 0..3 {
        send(&from, number, 0);
        assert_eq!(number_of(&at.recv().unwrap()), number);
        // It takes the confirmation along, and nobody receives it.
        at.send(9, b"back", &[], 0, SendMode::Block).unwrap();
    }
    let received = Received::by(&at);
    (3..50).for_each(|number| send(&from, number, 0));
    assert!(received.numbers(47).into_iter().eq(3..50));
}
