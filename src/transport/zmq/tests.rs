//! The transport with real sockets. Every wait has an end: what does not come in [`LIMIT`] fails.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc;
use std::thread;

use super::*;

/// Longer than anything here takes, on a busy machine too.
const LIMIT: Duration = Duration::from_secs(20);

const OPTIONS: ZmqOptions = ZmqOptions {
    send_queue: 1000,
    recv_queue: 1000,
    priority_mode: false,
    max_frame: 1 << 20,
    name_seed: 0,
    answers: Answers::OwnWay,
};

fn transport(options: &ZmqOptions) -> Arc<ZmqTransport> {
    Arc::new(ZmqTransport::new(options.clone()).unwrap())
}

/// A transport that listens, and where.
fn listener(options: &ZmqOptions) -> (Arc<ZmqTransport>, Endpoint) {
    let transport = transport(options);
    let host = "127.0.0.1".to_owned();
    let port = transport.bind(&Endpoint::Tcp { host: host.clone(), port: 0 }).unwrap();
    (transport, Endpoint::Tcp { host, port })
}

/// A transport of the node with that id, connected to `to` under key 8.
fn sender(options: &ZmqOptions, to: &Endpoint, id: i32) -> Arc<ZmqTransport> {
    let transport = transport(options);
    transport.connect(8, to, Some(id)).unwrap();
    transport
}

/// An address where nobody listens until a test does: what is sent there waits. A file, because a
/// TCP port could be taken by somebody else meanwhile.
fn nobody_yet(name: &str) -> Endpoint {
    // What one user left there another one could not replace.
    let user = std::fs::metadata("/proc/self").unwrap().uid();
    let file = format!("pslite-{user}-{}-{name}.sock", std::process::id());
    Endpoint::Ipc { path: std::env::temp_dir().join(file).to_string_lossy().into_owned() }
}

/// The next `count` messages; what waits at `senders` is flushed meanwhile, as the clock does.
fn receive(at: &Arc<ZmqTransport>, count: usize, senders: &[&ZmqTransport]) -> Vec<ZmqIncoming> {
    let (tell, told) = mpsc::channel();
    let receiver = Arc::clone(at);
    let thread = thread::spawn(move || {
        for _ in 0..count {
            let Ok(incoming) = receiver.recv() else { return };
            if tell.send(incoming).is_err() {
                return;
            }
        }
    });
    let until = Instant::now() + LIMIT;
    let mut all = Vec::new();
    while all.len() < count {
        for sender in senders {
            sender.flush();
        }
        match told.recv_timeout(Duration::from_millis(2)) {
            Ok(incoming) => all.push(incoming),
            Err(_) if Instant::now() < until => {}
            Err(_) => {
                at.stop();
                panic!("{} of {count} messages came", all.len());
            }
        }
    }
    thread.join().unwrap();
    all
}

/// Waits until the channel of that key reports `up`.
fn wait_for_channel(transport: &ZmqTransport, key: i32, up: bool) {
    let until = Instant::now() + LIMIT;
    let mut events: Vec<NumberedEvent> = Vec::new();
    let is_it =
        |event: &NumberedEvent| event.up == up && transport.key_of(event.number) == Some(key);
    while !events.iter().any(is_it) {
        assert!(Instant::now() < until, "no {up} of {key} in {events:?}");
        thread::sleep(Duration::from_millis(1));
        transport.channel_events(&mut events);
    }
}

fn send(transport: &ZmqTransport, number: u32, priority: i32, mode: SendMode) -> usize {
    transport.send(8, &number.to_ne_bytes(), &[], priority, mode).unwrap()
}

fn number(incoming: &ZmqIncoming) -> u32 {
    u32::from_ne_bytes(incoming.frames[0][..].try_into().unwrap())
}

fn numbers(all: &[ZmqIncoming]) -> Vec<u32> {
    all.iter().map(number).collect()
}

/// How long it took, and what came of it.
fn timed<T>(act: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = act();
    (start.elapsed(), result)
}

#[test]
fn messages_of_each_peer_come_whole_and_in_order() {
    const COUNT: u32 = 3000;
    let options = ZmqOptions { send_queue: 50, recv_queue: 50, ..OPTIONS };
    let (at, endpoint) = listener(&options);
    let threads: Vec<_> = [9, 11, 13]
        .into_iter()
        .map(|id| {
            let sender = sender(&options, &endpoint, id);
            thread::spawn(move || {
                for number in 0..COUNT {
                    let size = (number as usize * 37) % 4096;
                    let data = [vec![id as u8; size].into(), vec![number as u8; 8].into()];
                    let meta = number.to_ne_bytes();
                    sender.send(8, &meta, &data, 0, SendMode::Block).unwrap();
                }
                sender.close(LIMIT);
            })
        })
        .collect();
    let mut next = BTreeMap::from([(9, 0), (11, 0), (13, 0)]);
    for incoming in receive(&at, 3 * COUNT as usize, &[]) {
        let id = incoming.from.unwrap();
        let expected = next.get_mut(&id).unwrap();
        assert_eq!(number(&incoming), *expected, "from {id}");
        let size = (*expected as usize * 37) % 4096;
        assert_eq!(incoming.frames.len(), 3);
        assert!(
            incoming.frames[1].len() == size && incoming.frames[1].iter().all(|b| *b == id as u8)
        );
        assert_eq!(incoming.frames[2][..], [*expected as u8; 8]);
        *expected += 1;
    }
    assert!(next.values().all(|count| *count == COUNT));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Threads that share a connection do not mix the frames of their messages.
#[test]
fn threads_share_a_connection() {
    let (at, endpoint) = listener(&OPTIONS);
    let sender = sender(&OPTIONS, &endpoint, 9);
    let threads: Vec<_> = (0..3_u8)
        .map(|thread| {
            let sender = Arc::clone(&sender);
            thread::spawn(move || {
                let data: Vec<Bytes> = (0..3).map(|_| vec![thread; 2000].into()).collect();
                for _ in 0..500 {
                    sender.send(8, &[thread], &data, 0, SendMode::Block).unwrap();
                }
            })
        })
        .collect();
    for incoming in receive(&at, 1500, &[]) {
        let thread = incoming.frames[0][0];
        assert_eq!(incoming.frames.len(), 4);
        assert!(incoming.frames[1..].iter().flatten().all(|byte| *byte == thread));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(sender.bytes().0, at.bytes().1);
    assert_eq!(sender.bytes().0, 1500 * 6001);
}

#[test]
fn in_priority_mode_the_urgent_go_first_and_equals_keep_their_order() {
    let options = ZmqOptions { priority_mode: true, send_queue: 1, ..OPTIONS };
    let endpoint = nobody_yet("priority");
    let sender = sender(&options, &endpoint, 9);
    // One message is with libzmq, the next was the most urgent when libzmq had no room.
    let priorities = [0, 0, -1, 5, 0, 5, 7, -1, 0];
    for (number, priority) in priorities.into_iter().enumerate() {
        send(&sender, number as u32, priority, SendMode::Block);
    }
    let at = transport(&options);
    at.bind(&endpoint).unwrap();
    let all = receive(&at, priorities.len(), &[&sender]);
    assert_eq!(numbers(&all), [0, 1, 6, 3, 5, 4, 8, 2, 7]);
}

#[test]
fn without_priority_mode_the_order_is_that_of_sending() {
    let endpoint = nobody_yet("fifo");
    let sender = sender(&OPTIONS, &endpoint, 9);
    (0..9).for_each(|number| {
        send(&sender, number, number as i32 % 3, SendMode::Block);
    });
    let at = transport(&OPTIONS);
    at.bind(&endpoint).unwrap();
    assert_eq!(numbers(&receive(&at, 9, &[])), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn control_never_waits_and_its_place_is_bounded() {
    const DATA: u32 = 100;
    let options = ZmqOptions { send_queue: DATA as i32, ..OPTIONS };
    let endpoint = nobody_yet("control");
    let sender = sender(&options, &endpoint, 9);
    (0..DATA).for_each(|number| {
        send(&sender, number, 0, SendMode::Block);
    });
    let total = DATA + ASIDE_MAX as u32;
    let (took, ()) = timed(|| {
        (DATA..total).for_each(|number| {
            send(&sender, number, 0, SendMode::Control);
        });
    });
    assert!(took < LIMIT / 4, "{took:?}");
    let refused = sender.send(8, b"late", &[], 0, SendMode::Control);
    assert!(matches!(refused, Err(SendError::QueueFull)), "{refused:?}");
    // Data that come later do not overtake what waits aside.
    let blocked = Arc::clone(&sender);
    let last = thread::spawn(move || send(&blocked, total, 0, SendMode::Block));
    thread::sleep(Duration::from_millis(20));
    assert!(!last.is_finished());
    let at = transport(&OPTIONS);
    at.bind(&endpoint).unwrap();
    let all = receive(&at, total as usize + 1, &[&sender]);
    assert!(numbers(&all).into_iter().eq(0..=total));
    last.join().unwrap();
}

#[test]
fn what_is_queued_never_waits_and_leaves_room_for_control() {
    const DATA: u32 = 100;
    for priority_mode in [false, true] {
        let options = ZmqOptions { priority_mode, send_queue: DATA as i32, ..OPTIONS };
        let sender = sender(&options, &nobody_yet("queued"), 9);
        let post = |mode| sender.send(8, b"x", &[], 0, mode);
        let queued = (0..).take_while(|_| post(SendMode::Queue).is_ok()).count();
        assert!((QUEUED_MAX..QUEUED_MAX + PRIORITY_MAX + 200).contains(&queued), "{queued}");
        assert!(matches!(post(SendMode::Queue), Err(SendError::QueueFull)));
        (0..ASIDE_MAX - QUEUED_MAX).for_each(|_| assert!(post(SendMode::Control).is_ok()));
        assert!(matches!(post(SendMode::Control), Err(SendError::QueueFull)));
    }
}

/// The same in priority mode: beyond what data may take there is room for control, and an end.
#[test]
fn control_is_bounded_in_priority_mode_too() {
    let options = ZmqOptions { priority_mode: true, send_queue: 1, ..OPTIONS };
    let sender = sender(&options, &nobody_yet("bounded"), 9);
    // One is with libzmq and one aside, as the most urgent of its time.
    for number in 0..PRIORITY_MAX + 2 {
        send(&sender, number as u32, 0, SendMode::Block);
    }
    for number in 0..ASIDE_MAX {
        send(&sender, number as u32, 0, SendMode::Control);
    }
    let refused = sender.send(8, b"late", &[], 0, SendMode::Control);
    assert!(matches!(refused, Err(SendError::QueueFull)), "{refused:?}");
}

#[test]
fn sending_to_nobody_is_an_error() {
    let transport = transport(&OPTIONS);
    let sent = transport.send(8, b"x", &[], 0, SendMode::Block);
    assert!(matches!(sent, Err(SendError::NoSuchPeer)), "{sent:?}");
}

/// A sender that waits for a peer that does not come is freed when that is given up, or by the end.
#[test]
fn waiting_senders_are_freed() {
    type Free = fn(&ZmqTransport);
    type Expected = fn(&SendError) -> bool;
    let ways: [(Free, Expected); 2] = [
        (|t| t.disconnect(8, Duration::ZERO), |error| matches!(error, SendError::PeerGone)),
        (ZmqTransport::stop, |error| matches!(error, SendError::Stopped)),
    ];
    for (number, (free, is_expected)) in ways.into_iter().enumerate() {
        let options = ZmqOptions { send_queue: 1, ..OPTIONS };
        let endpoint = nobody_yet(&format!("gone{number}"));
        let sender = sender(&options, &endpoint, 9);
        send(&sender, 0, 0, SendMode::Block);
        let (tell, told) = mpsc::channel();
        let blocked = Arc::clone(&sender);
        let thread = thread::spawn(move || {
            let _ = tell.send(blocked.send(8, b"x", &[], 0, SendMode::Block));
        });
        assert!(told.recv_timeout(Duration::from_millis(50)).is_err(), "it did not wait");
        free(&sender);
        let error = told.recv_timeout(LIMIT).unwrap().unwrap_err();
        assert!(is_expected(&error), "{error:?}");
        thread.join().unwrap();
    }
}

#[test]
fn channels_report_that_they_come_and_go() {
    let (at, endpoint) = listener(&OPTIONS);
    let sender = sender(&OPTIONS, &endpoint, 9);
    wait_for_channel(&sender, 8, true);
    at.close(Duration::ZERO);
    drop(at);
    wait_for_channel(&sender, 8, false);
    // libzmq closes the old socket on a thread of its own.
    let again = transport(&OPTIONS);
    let until = Instant::now() + LIMIT;
    while again.bind(&endpoint).is_err() {
        assert!(Instant::now() < until);
        thread::sleep(Duration::from_millis(5));
    }
    wait_for_channel(&sender, 8, true);
    send(&sender, 5, 0, SendMode::Block);
    assert_eq!(numbers(&receive(&again, 1, &[])), [5]);
}

#[test]
fn closing_a_connection_that_breaks_stops_no_other() {
    let (there, lasting) = listener(&OPTIONS);
    let here = sender(&OPTIONS, &lasting, 9);
    wait_for_channel(&here, 8, true);
    for _ in 0..50 {
        let (brief, endpoint) = listener(&OPTIONS);
        here.connect(10, &endpoint, Some(9)).unwrap();
        wait_for_channel(&here, 10, true);
        let peer = here.peer(10).unwrap();
        here.disconnect(10, Duration::ZERO);
        // The socket is still there, as it is for a thread that sends just now, and its peer goes.
        brief.stop();
        drop(brief);
        thread::sleep(Duration::from_millis(2));
        drop(peer);
    }
    send(&here, 1, 0, SendMode::Block);
    assert_eq!(numbers(&receive(&there, 1, &[&here])), [1]);
}

#[test]
fn a_connection_can_get_another_key() {
    let (at, endpoint) = listener(&OPTIONS);
    let sender = transport(&OPTIONS);
    sender.connect(-1, &endpoint, Some(1)).unwrap();
    sender.send(-1, &0_u32.to_ne_bytes(), &[], 0, SendMode::Block).unwrap();
    sender.rename(-1, 8);
    wait_for_channel(&sender, 8, true);
    send(&sender, 1, 0, SendMode::Block);
    let former = sender.send(-1, b"x", &[], 0, SendMode::Block);
    assert!(matches!(former, Err(SendError::NoSuchPeer)), "{former:?}");
    assert_eq!(numbers(&receive(&at, 2, &[])), [0, 1]);
    // In place of another, whose messages are flushed.
    sender.connect(-2, &endpoint, Some(1)).unwrap();
    send(&sender, 2, 0, SendMode::Block);
    sender.rename(-2, 8);
    send(&sender, 3, 0, SendMode::Block);
    let mut both = numbers(&receive(&at, 2, &[]));
    both.sort_unstable();
    assert_eq!(both, [2, 3]);
    sender.rename(77, 78);
}

/// A connection that was given up costs no descriptor any more, though its socket lives on for
/// others.
#[test]
fn a_closed_connection_is_gone_while_its_socket_is_idle() {
    let (at, endpoint) = listener(&OPTIONS);
    let Endpoint::Tcp { port, .. } = endpoint else { panic!("{endpoint}") };
    let to_it = || {
        let all = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let to_port = format!(" 0100007F:{port:04X} 01 ");
        all.lines().filter(|line| line.contains(&to_port)).count()
    };
    let here = sender(&OPTIONS, &endpoint, 9);
    wait_for_channel(&here, 8, true);
    assert_eq!(to_it(), 1);
    here.disconnect(8, LIMIT);
    let until = Instant::now() + LIMIT / 4;
    while to_it() > 0 {
        assert!(Instant::now() < until, "it still stands");
        here.channel_events(&mut Vec::new());
        thread::sleep(Duration::from_millis(5));
    }
    drop(at);
}

/// Who takes an event and then hears of a new key would believe for ever that the old one stands.
#[test]
fn an_event_is_about_the_connection_whatever_its_key_is_by_then() {
    let (_at, endpoint) = listener(&OPTIONS);
    let here = sender(&OPTIONS, &endpoint, 9);
    here.connect(-1, &endpoint, Some(10)).unwrap();
    let until = Instant::now() + LIMIT;
    let mut events: Vec<NumberedEvent> = Vec::new();
    while events.len() < 2 {
        assert!(Instant::now() < until, "{events:?}");
        here.channel_events(&mut events);
        thread::sleep(Duration::from_millis(1));
    }
    here.rename(-1, 11);
    here.disconnect(8, Duration::ZERO);
    let keys: BTreeSet<_> = events.iter().map(|event| here.key_of(event.number)).collect();
    assert_eq!(keys, BTreeSet::from([None, Some(11)]));
}

/// Somebody sends what no node sends: it is marked, or its connection ends; others do not notice.
#[test]
fn oversized_messages_do_no_harm() {
    let options = ZmqOptions { max_frame: 10_000, ..OPTIONS };
    let (at, endpoint) = listener(&options);
    let sender = sender(&OPTIONS, &endpoint, 9);
    let many: Vec<Bytes> = (0..40).map(|_| Bytes::from_static(b"frame")).collect();
    sender.send(8, &1_u32.to_ne_bytes(), &many, 0, SendMode::Block).unwrap();
    let all = receive(&at, 1, &[]);
    assert!(all[0].oversized && all[0].frames.len() == FRAMES_MAX);
    assert!(all[0].address().contains("127.0.0.1"), "{}", all[0].address());
    wait_for_channel(&sender, 8, true);
    let huge = [Bytes::from(vec![0_u8; 10_001])];
    sender.send(8, &2_u32.to_ne_bytes(), &huge, 0, SendMode::Block).unwrap();
    wait_for_channel(&sender, 8, false);
    wait_for_channel(&sender, 8, true);
    let largest = [Bytes::from(vec![0_u8; 10_000])];
    sender.send(8, &3_u32.to_ne_bytes(), &largest, 0, SendMode::Block).unwrap();
    let all = receive(&at, 1, &[]);
    assert_eq!((number(&all[0]), all[0].oversized, all[0].frames[1].len()), (3, false, 10_000));
}

#[test]
fn stop_ends_a_receiver_that_waits_and_those_that_come_later() {
    let (at, _) = listener(&OPTIONS);
    let (tell, told) = mpsc::channel();
    let receiver = Arc::clone(&at);
    let thread = thread::spawn(move || {
        let _ = tell.send(receiver.recv().map(|_| ()));
    });
    assert!(told.recv_timeout(Duration::from_millis(50)).is_err(), "it did not wait");
    at.stop();
    assert!(matches!(told.recv_timeout(LIMIT), Ok(Err(RecvError::Stopped))));
    thread.join().unwrap();
    assert!(matches!(at.recv(), Err(RecvError::Stopped)));
}

#[test]
fn what_was_sent_before_the_close_arrives() {
    let (at, endpoint) = listener(&OPTIONS);
    let sender = sender(&OPTIONS, &endpoint, 9);
    (0..500).for_each(|number| {
        send(&sender, number, 0, SendMode::Block);
    });
    let (took, ()) = timed(|| sender.close(LIMIT));
    assert!(took < LIMIT, "{took:?}");
    assert!(numbers(&receive(&at, 500, &[])).into_iter().eq(0..500));
    let late = sender.send(8, b"x", &[], 0, SendMode::Control);
    assert!(matches!(late, Err(SendError::NoSuchPeer)), "{late:?}");
}

/// A peer that reads no more, and a sender whose messages to it are stuck, the first of them half
/// written.
fn stuck() -> (Socket, Arc<ZmqTransport>) {
    let peers = Context::new().unwrap();
    let mut peer = peers.socket(SocketKind::Router).unwrap();
    peer.set_int(zmq_sys::ZMQ_LINGER, 0).unwrap();
    peer.set_int(zmq_sys::ZMQ_RCVHWM, 1).unwrap();
    peer.bind("tcp://127.0.0.1:*").unwrap();
    let text = peer.last_endpoint().unwrap();
    let port = text.rsplit(':').next().unwrap().parse().unwrap();
    let place = Endpoint::Tcp { host: "127.0.0.1".to_owned(), port };
    let sender = sender(&OPTIONS, &place, 9);
    wait_for_channel(&sender, 8, true);
    let large = Bytes::from(vec![0; 16 << 20]);
    for _ in 0..4 {
        let data = [large.clone(), large.clone(), Bytes::from_static(b"last")];
        sender.send(8, b"meta", &data, 0, SendMode::Block).unwrap();
    }
    // More than the kernel takes.
    thread::sleep(Duration::from_millis(200));
    (peer, sender)
}

/// libzmq would end the process (`ending`).
#[test]
fn a_peer_may_die_when_a_full_connection_to_it_is_given_up() {
    for linger in [Duration::ZERO, Duration::from_millis(50)] {
        let (peer, sender) = stuck();
        sender.disconnect(8, linger);
        // The clock of the node looks every 50 ms.
        thread::sleep(2 * linger);
        drop(peer);
        let mut events = Vec::new();
        for _ in 0..30 {
            thread::sleep(Duration::from_millis(10));
            sender.channel_events(&mut events);
        }
        assert!(!sender.outs.end_some(), "{linger:?}");
    }
}

#[test]
fn a_full_connection_is_given_up_when_its_time_is_over() {
    let (_peer, sender) = stuck();
    sender.disconnect(8, Duration::from_millis(50));
    let until = Instant::now() + LIMIT;
    while sender.outs.end_some() {
        assert!(Instant::now() < until);
        thread::sleep(Duration::from_millis(1));
    }
    let (_peer, sender) = stuck();
    let (took, ()) = timed(|| sender.close(Duration::from_millis(50)));
    drop(sender);
    assert!(took < LIMIT, "{took:?}");
}

/// Also if it happens to have its very name: stock's ROUTER goes on listening to the dead one
/// (docs/divergences.md).
#[test]
fn a_process_takes_the_place_of_another() {
    let (at, endpoint) = listener(&OPTIONS);
    let former = sender(&OPTIONS, &endpoint, 9);
    send(&former, 1, 0, SendMode::Block);
    assert_eq!(numbers(&receive(&at, 1, &[])), [1]);
    for (number, name_seed) in [(2, 0), (3, 77)] {
        let latter = sender(&ZmqOptions { name_seed, ..OPTIONS }, &endpoint, 9);
        send(&latter, number, 0, SendMode::Block);
        let all = receive(&at, 1, &[]);
        assert_eq!((all[0].from, numbers(&all)), (Some(9), vec![number]));
    }
}

/// Whoever calls himself as members do is told from them all the same.
#[test]
fn a_claimed_name_cuts_nobody_off() {
    let (at, endpoint) = listener(&OPTIONS);
    let member = sender(&OPTIONS, &endpoint, 9);
    send(&member, 1, 0, SendMode::Block);
    assert_eq!(numbers(&receive(&at, 1, &[])), [1]);
    let stranger = Context::new().unwrap();
    let mut socket = stranger.socket(SocketKind::Dealer).unwrap();
    socket.set_int(zmq_sys::ZMQ_LINGER, 0).unwrap();
    socket.set(zmq_sys::ZMQ_ROUTING_ID, b"ps9").unwrap();
    socket.connect(&endpoint.to_string()).unwrap();
    socket.send(Outgoing::Copy(&2_u32.to_ne_bytes()), false, false).unwrap();
    assert_eq!(numbers(&receive(&at, 1, &[])), [2]);
    send(&member, 3, 0, SendMode::Block);
    assert_eq!(numbers(&receive(&at, 1, &[])), [3]);
}

#[test]
fn only_names_of_nodes_are_ids() {
    let (at, endpoint) = listener(&OPTIONS);
    let anonymous = transport(&OPTIONS);
    anonymous.connect(8, &endpoint, None).unwrap();
    send(&anonymous, 1, 0, SendMode::Block);
    assert_eq!(receive(&at, 1, &[])[0].from, None);
    assert_eq!(id_of(b"ps9"), Some(9));
    assert_eq!(id_of(b"ps0009"), Some(9));
    assert_eq!(id_of(b"ps2147483647"), Some(i32::MAX));
    for name in
        [&b"ps"[..], b"ps9x", b"ps-1", b"ps+1", b"psx", b"ps2147483648", b"9", b"", b"\0abcd", WAKE]
    {
        assert_eq!(id_of(name), None, "{name:?}");
    }
}

#[test]
fn a_busy_port_says_who_holds_it() {
    let (_at, endpoint) = listener(&OPTIONS);
    let Endpoint::Tcp { host, port } = &endpoint else { panic!("{endpoint}") };
    let other = transport(&OPTIONS);
    let text = other.bind(&endpoint).unwrap_err().to_string();
    assert!(text.contains(&format!("127.0.0.1:{port}")), "{text}");
    assert!(text.contains(&format!("pid {}", std::process::id())), "{text}");
    let text = other.bind_in_range(host, *port, *port).unwrap_err().to_string();
    assert!(text.contains(&port.to_string()) && text.contains("taken"), "{text}");
}

#[test]
fn an_address_of_another_host_says_what_this_one_has() {
    // Reserved for documentation (RFC 5737).
    let elsewhere = Endpoint::Tcp { host: "192.0.2.1".to_owned(), port: 0 };
    let text = transport(&OPTIONS).bind(&elsewhere).unwrap_err().to_string();
    assert!(text.contains("192.0.2.1") && text.contains("127.0.0.1 (lo)"), "{text}");
}
