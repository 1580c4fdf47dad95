use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use super::*;

/// What is sent to this address comes from another one, as between hosts.
pub(super) const OTHER_HOST: &str = "127.0.0.2";
pub(super) const LIMIT: Duration = Duration::from_secs(60);
pub(super) const TOKEN: [u8; 16] = *b"token of the job";

pub(super) fn options(carriers: Carriers) -> NativeOptions {
    static LIFE: AtomicU64 = AtomicU64::new(1);
    let life = u64::from(std::process::id()) << 32 | LIFE.fetch_add(1, Ordering::Relaxed);
    NativeOptions { carriers, ..NativeOptions::new(life, Some(TOKEN)) }
}

pub(super) fn transport(options: NativeOptions) -> Arc<NativeTransport> {
    Arc::new(NativeTransport::new(options).unwrap())
}

pub(super) fn listener(options: NativeOptions) -> (Arc<NativeTransport>, Endpoint) {
    listener_at("127.0.0.1", options)
}

pub(super) fn listener_at(host: &str, options: NativeOptions) -> (Arc<NativeTransport>, Endpoint) {
    let transport = transport(options);
    let any = Endpoint::Tcp { host: host.to_owned(), port: 0 };
    let port = transport.bind(&any).unwrap();
    (transport, Endpoint::Tcp { host: host.to_owned(), port })
}

pub(super) fn sender(options: NativeOptions, to: &Endpoint) -> Arc<NativeTransport> {
    sender_over(1, options, to)
}

/// One whose channel has so many connections.
pub(super) fn sender_over(
    connections: u8,
    options: NativeOptions,
    to: &Endpoint,
) -> Arc<NativeTransport> {
    let transport = transport(options);
    transport.connect(8, to, Some(9), connections).unwrap();
    transport
}

/// A thread that receives as long as the test lives.
pub(super) struct Received {
    messages: mpsc::Receiver<NativeIncoming>,
    transport: Arc<NativeTransport>,
    thread: Option<JoinHandle<()>>,
}

impl Received {
    pub(super) fn by(transport: &Arc<NativeTransport>) -> Self {
        let (tell, messages) = mpsc::channel();
        let at = Arc::clone(transport);
        let thread = thread::spawn(move || {
            while let Ok(message) = at.recv() {
                if tell.send(message).is_err() {
                    return;
                }
            }
        });
        Self { messages, transport: Arc::clone(transport), thread: Some(thread) }
    }

    pub(super) fn next(&self) -> NativeIncoming {
        self.messages.recv_timeout(LIMIT).unwrap()
    }

    pub(super) fn numbers(&self, count: usize) -> Vec<u32> {
        (0..count).map(|_| number_of(&self.next())).collect()
    }

    pub(super) fn nothing(&self) {
        assert!(self.messages.recv_timeout(Duration::from_millis(30)).is_err());
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        self.transport.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(super) fn number_of(message: &NativeIncoming) -> u32 {
    u32::from_ne_bytes(*message.frames[0].first_chunk().unwrap())
}

pub(super) fn send(transport: &NativeTransport, number: u32, class: i32) {
    transport.send(8, &number.to_ne_bytes(), &[], class, SendMode::Block).unwrap();
}

pub(super) fn wait_for_channel(transport: &NativeTransport, key: i32, up: bool) {
    let until = Instant::now() + LIMIT;
    let mut events = Vec::new();
    while !events.contains(&ChannelEvent { key, up }) {
        assert!(Instant::now() < until, "no event: {events:?}");
        transport.channel_events(&mut events);
        thread::sleep(Duration::from_millis(1));
    }
}

pub(super) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

pub(super) fn pattern(seed: usize, len: usize) -> Bytes {
    (0..len).map(|at| (seed + at * 3 + at / 1000) as u8).collect()
}

#[test]
fn messages_arrive_whole_by_either_carrier() {
    for carriers in [Carriers::Tcp, Carriers::Shm, Carriers::Auto] {
        let (at, endpoint) = listener(options(carriers));
        let received = Received::by(&at);
        let from = sender(options(carriers), &endpoint);
        let sizes = [0, 1, 4096, 65_536, 65_537, 5_000_001];
        for (seed, size) in sizes.into_iter().enumerate() {
            let data = [pattern(seed, 8), pattern(seed, size), pattern(seed, 4)];
            let sent = from.send(8, b"meta", &data, 0, SendMode::Block).unwrap();
            assert_eq!(sent, size + 16);
        }
        for (seed, size) in sizes.into_iter().enumerate() {
            let message = received.next();
            assert_eq!((message.from, message.frames.len()), (Some(9), 4));
            assert_eq!(&message.frames[0][..], b"meta");
            assert!(message.frames[1] == pattern(seed, 8));
            assert!(message.frames[2] == pattern(seed, size), "{carriers:?} {size}");
            assert!(message.frames[3] == pattern(seed, 4));
        }
        let carrier = if carriers == Carriers::Tcp { "tcp" } else { "shm" };
        assert_eq!(from.counters()[0].carrier, carrier);
        assert_eq!(at.counters()[0].carrier, carrier);
        assert_eq!(from.bytes().0, at.bytes().1);
    }
}

#[test]
fn many_messages_keep_their_order() {
    for carriers in [Carriers::Tcp, Carriers::Shm] {
        let (at, endpoint) = listener(options(carriers));
        let received = Received::by(&at);
        let from = sender(options(carriers), &endpoint);
        let large = pattern(1, 300_000);
        for number in 0..20_000_u32 {
            let data = if number % 500 == 0 { vec![large.clone()] } else { vec![] };
            from.send(8, &number.to_ne_bytes(), &data, 0, SendMode::Block).unwrap();
        }
        assert!(received.numbers(20_000).into_iter().eq(0..20_000));
    }
}

/// The connection breaks again and again while messages of all sizes are sent: each arrives once,
/// and those of one priority in their order.
#[test]
fn what_breaks_is_mended_and_nothing_is_lost_or_doubled() {
    const MESSAGES: u32 = 1500;
    const SIZES: [usize; 6] = [0, 100, 5000, 70_000, 200_000, 1_500_000];
    let base = pattern(0, 2_000_000);
    let content = move |number: u32| {
        let size = SIZES[(number * 7 % 83 / 14) as usize];
        base.slice(number as usize..number as usize + size)
    };
    // The second frame is lent through shared memory, the first one goes through the ring.
    let ways = [
        (Carriers::Tcp, 1, false, 1),
        (Carriers::Tcp, 3, true, 1),
        (Carriers::Shm, 1, true, 1),
        (Carriers::Shm, 1, true, 2),
    ];
    for (carriers, connections, overtaking, frame) in ways {
        let (at, endpoint) = listener(options(carriers));
        let received = Received::by(&at);
        let own = NativeOptions { overtaking, ..options(carriers) };
        let from = sender_over(connections, own, &endpoint);
        let done = AtomicU64::new(0);
        let mut last = [None; 3];
        thread::scope(|scope| {
            scope.spawn(|| {
                // Not for ever: on a busy machine a large message may need longer than this.
                for _ in 0..60 {
                    if done.load(Ordering::Relaxed) != 0 {
                        return;
                    }
                    thread::sleep(Duration::from_millis(10));
                    from.peer(8).unwrap().cut();
                }
            });
            scope.spawn(|| {
                for number in 0..MESSAGES {
                    let mut data = vec![Bytes::new(); frame];
                    data[frame - 1] = content(number);
                    let class = (number % 3) as i32;
                    let meta = number.to_ne_bytes();
                    from.send(8, &meta, &data, class, SendMode::Block).unwrap();
                }
            });
            for arrived in 1..=MESSAGES {
                let message = received.next();
                if arrived % 100 == 0 {
                    // However slow the machine is, or fast: it breaks on the way.
                    from.peer(8).unwrap().cut();
                }
                let number = number_of(&message);
                let before = last[(number % 3) as usize].replace(number);
                assert!(
                    before.map_or(0..3, |n| n + 3..n + 4).contains(&number),
                    "{before:?} {number}"
                );
                assert!(message.frames[frame] == content(number), "{number}");
            }
            done.store(1, Ordering::Relaxed);
        });
        received.nothing();
        // A cut while there is no connection does nothing, so there may be fewer than cuts.
        assert!(at.counters()[0].connections > 1, "{:?}", at.counters());
        wait_until("all confirmed", || from.peer(8).unwrap().is_empty());
    }
}

/// Over TCP each fragment of a large message is a sample; all but the last have more behind them.
#[test]
fn the_receiver_knows_how_fast_fragments_came() {
    let (at, endpoint) = listener(options(Carriers::Tcp));
    let received = Received::by(&at);
    let from = sender(options(Carriers::Tcp), &endpoint);
    let large = [pattern(0, 30_000_000)];
    from.send(8, &0_u32.to_ne_bytes(), &large, 0, SendMode::Block).unwrap();
    assert_eq!(received.next().frames[1].len(), large[0].len());
    let samples = at.take_rates();
    assert_eq!(samples.iter().map(|sample| sample.bytes).sum::<u64>(), 30_000_000);
    assert_eq!(samples.iter().filter(|sample| !sample.more).count(), 1);
    assert!(samples.iter().all(|s| s.peer == 9 && s.first <= s.last && s.head <= s.bytes));
    assert!(at.take_rates().is_empty());
}

#[test]
fn an_urgent_message_overtakes_what_waits() {
    let (at, endpoint) = listener(options(Carriers::Tcp));
    let from = sender(NativeOptions { overtaking: true, ..options(Carriers::Tcp) }, &endpoint);
    let large = [pattern(0, 30_000_000)];
    send(&from, 0, 0);
    assert_eq!(number_of(&at.recv().unwrap()), 0);
    // Nobody receives meanwhile: the kernel takes a part of the first one, no more.
    from.send(8, &1_u32.to_ne_bytes(), &large, 0, SendMode::Block).unwrap();
    from.send(8, &2_u32.to_ne_bytes(), &large, 0, SendMode::Block).unwrap();
    send(&from, 3, 0);
    send(&from, 4, 5);
    let order: Vec<_> = (0..4).map(|_| number_of(&at.recv().unwrap())).collect();
    assert_eq!(order, [4, 1, 2, 3]);
}

#[test]
fn a_large_message_uses_all_connections() {
    let (at, endpoint) = listener(options(Carriers::Tcp));
    let from = sender_over(4, options(Carriers::Tcp), &endpoint);
    send(&from, 0, 0);
    assert_eq!(number_of(&at.recv().unwrap()), 0);
    let channel = from.peer(8).unwrap();
    thread::scope(|scope| {
        // Connections are taken by whoever receives.
        scope.spawn(|| assert_eq!(number_of(&at.recv().unwrap()), 1));
        wait_until("four connections", || channel.lanes().0 == 4);
        send(&from, 1, 0);
    });
    for counters in [at.counters(), from.counters()] {
        assert_eq!(counters[0].connections, 4, "{counters:?}");
    }
    // Nobody receives: each of them takes what the kernel has room for.
    let data = [pattern(3, 20_000_000)];
    from.send(8, &2_u32.to_ne_bytes(), &data, 0, SendMode::Block).unwrap();
    from.send(8, &3_u32.to_ne_bytes(), &data, 0, SendMode::Block).unwrap();
    wait_until("all are full", || channel.lanes() == (4, 4));
    let received = Received::by(&at);
    assert_eq!(received.numbers(2), [2, 3]);
    for number in 4..20_u32 {
        from.send(8, &number.to_ne_bytes(), &data, 0, SendMode::Block).unwrap();
        send(&from, number + 100, 0);
    }
    for number in 4..20 {
        let message = received.next();
        assert_eq!(number_of(&message), number);
        assert!(message.frames[1] == data[0]);
        assert_eq!(received.numbers(1), [number + 100]);
    }
}

/// A small message keeps to the first connection while that has room. If it waited for room there,
/// all that is behind it would wait too, while the others have nothing to do.
#[test]
fn a_small_message_keeps_no_connection_idle() {
    let (at, endpoint) = listener(options(Carriers::Tcp));
    let from = sender_over(4, options(Carriers::Tcp), &endpoint);
    let channel = from.peer(8).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(number_of(&at.recv().unwrap()), 0));
        wait_until("four connections", || channel.lanes().0 == 4);
        send(&from, 0, 0);
    });
    // Nobody receives, and only the kernels' buffers take something.
    let data = [pattern(3, 256 << 10)];
    for number in 0..150_u32 {
        from.send(8, &(2 * number).to_ne_bytes(), &data, 0, SendMode::Block).unwrap();
        send(&from, 2 * number + 1, 0);
    }
    wait_until("a connection stays idle", || channel.lanes() == (4, 4));
    let received = Received::by(&at);
    assert_eq!(received.numbers(300), (0..300).collect::<Vec<_>>());
}

/// Another process answers at the same address: it gets nothing that was meant for the former one.
#[test]
fn another_life_of_the_peer_starts_anew() {
    let (at, endpoint) = listener(options(Carriers::Tcp));
    let received = Received::by(&at);
    let from = sender(options(Carriers::Tcp), &endpoint);
    send(&from, 1, 0);
    assert_eq!(received.numbers(1), [1]);
    wait_for_channel(&from, 8, true);
    drop(received);
    at.close(Duration::ZERO);
    wait_for_channel(&from, 8, false);
    send(&from, 2, 0);
    let again = transport(options(Carriers::Tcp));
    again.bind(&endpoint).unwrap();
    let received = Received::by(&again);
    wait_for_channel(&from, 8, true);
    send(&from, 3, 0);
    assert_eq!(received.numbers(1), [3]);
}

#[test]
fn senders_wait_for_room_and_control_does_not() {
    let (at, endpoint) = listener(options(Carriers::Tcp));
    let few = NativeOptions { send_queue: 4, ..options(Carriers::Tcp) };
    let from = sender(few, &endpoint);
    (0..4).for_each(|number| send(&from, number, 0));
    let (tell, told) = mpsc::channel();
    let blocked = {
        let from = Arc::clone(&from);
        thread::spawn(move || {
            tell.send(from.send(8, &4_u32.to_ne_bytes(), &[], 0, SendMode::Block))
        })
    };
    assert!(told.recv_timeout(Duration::from_millis(50)).is_err(), "it did not wait");
    for number in 0..outbox::ASIDE_MAX {
        from.send(8, &(5 + number as u32).to_ne_bytes(), &[], 0, SendMode::Control).unwrap();
    }
    let refused = from.send(8, b"late", &[], 0, SendMode::Control);
    assert!(matches!(refused, Err(SendError::QueueFull)), "{refused:?}");
    let received = Received::by(&at);
    let mut all = received.numbers(5 + outbox::ASIDE_MAX);
    assert!(told.recv_timeout(LIMIT).unwrap().is_ok());
    blocked.join().unwrap().unwrap();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..5 + outbox::ASIDE_MAX as u32));
}

/// A sender that waits for a peer that does not come is freed when that is given up, or by the end.
#[test]
fn waiting_senders_are_freed() {
    type Free = fn(&NativeTransport);
    type Expected = fn(&SendError) -> bool;
    let ways: [(Free, Expected); 2] = [
        (|t| t.disconnect(8, Duration::ZERO), |error| matches!(error, SendError::PeerGone)),
        (NativeTransport::stop, |error| matches!(error, SendError::Stopped)),
    ];
    for (free, is_expected) in ways {
        let (_at, endpoint) = listener(options(Carriers::Tcp));
        let from = sender(NativeOptions { send_queue: 1, ..options(Carriers::Tcp) }, &endpoint);
        send(&from, 0, 0);
        let (tell, told) = mpsc::channel();
        let blocked = Arc::clone(&from);
        let thread = thread::spawn(move || {
            let _ = tell.send(blocked.send(8, b"x", &[], 0, SendMode::Block));
        });
        assert!(told.recv_timeout(Duration::from_millis(50)).is_err(), "it did not wait");
        free(&from);
        let error = told.recv_timeout(LIMIT).unwrap().unwrap_err();
        assert!(is_expected(&error), "{error:?}");
        thread.join().unwrap();
    }
}

#[test]
fn a_channel_can_get_another_key_and_be_replaced() {
    let (at, endpoint) = listener(options(Carriers::Auto));
    let received = Received::by(&at);
    let from = transport(options(Carriers::Auto));
    from.connect(-1, &endpoint, Some(1), 1).unwrap();
    from.send(-1, &0_u32.to_ne_bytes(), &[], 0, SendMode::Block).unwrap();
    from.rename(-1, 8);
    // Its event may name the former key: it may come before the new one.
    wait_until("the channel stands", || from.carrier(8) != "none");
    send(&from, 1, 0);
    let former = from.send(-1, b"x", &[], 0, SendMode::Block);
    assert!(matches!(former, Err(SendError::NoSuchPeer)), "{former:?}");
    assert_eq!(received.numbers(2), [0, 1]);
    from.connect(-2, &endpoint, Some(1), 1).unwrap();
    send(&from, 2, 0);
    from.rename(-2, 8);
    send(&from, 3, 0);
    let mut both = received.numbers(2);
    both.sort_unstable();
    assert_eq!(both, [2, 3]);
    from.rename(77, 78);
    wait_until("one channel left", || from.plane.all_channels().len() == 1);
}

#[test]
fn what_was_sent_before_the_close_arrives() {
    for carriers in [Carriers::Tcp, Carriers::Shm] {
        let (at, endpoint) = listener(options(carriers));
        let received = Received::by(&at);
        let from = sender(options(carriers), &endpoint);
        (0..500).for_each(|number| send(&from, number, 0));
        let began = Instant::now();
        from.close(LIMIT);
        assert!(began.elapsed() < LIMIT / 4, "{:?}", began.elapsed());
        assert!(received.numbers(500).into_iter().eq(0..500));
        let late = from.send(8, b"x", &[], 0, SendMode::Control);
        assert!(matches!(late, Err(SendError::NoSuchPeer)), "{late:?}");
    }
}

/// Both close at the same time, each with a channel to the other. Neither waits in vain.
#[test]
fn two_that_close_at_once_do_not_wait_for_each_other() {
    let (one, to_one) = listener(options(Carriers::Tcp));
    let (two, to_two) = listener(options(Carriers::Tcp));
    one.connect(8, &to_two, Some(1), 1).unwrap();
    two.connect(8, &to_one, Some(2), 1).unwrap();
    let (by_one, by_two) = (Received::by(&one), Received::by(&two));
    send(&one, 1, 0);
    send(&two, 2, 0);
    assert_eq!((by_one.numbers(1), by_two.numbers(1)), (vec![2], vec![1]));
    send(&one, 3, 0);
    send(&two, 4, 0);
    drop((by_one, by_two));
    let began = Instant::now();
    let other = thread::spawn(move || two.close(LIMIT));
    one.close(LIMIT);
    other.join().unwrap();
    assert!(began.elapsed() < LIMIT / 4, "{:?}", began.elapsed());
}

#[test]
fn stop_ends_a_receiver_that_waits_and_those_that_come_later() {
    let (at, _) = listener(options(Carriers::Auto));
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
fn a_busy_port_and_a_strange_address_are_named() {
    let (_at, endpoint) = listener(options(Carriers::Tcp));
    let Endpoint::Tcp { host, port } = &endpoint else { panic!("{endpoint}") };
    let other = transport(options(Carriers::Tcp));
    let text = other.bind(&endpoint).unwrap_err().to_string();
    assert!(text.contains(&format!("127.0.0.1:{port}")), "{text}");
    let text = other.bind_in_range(host, *port, *port).unwrap_err().to_string();
    assert!(text.contains(&port.to_string()) && text.contains("taken"), "{text}");
    let elsewhere = Endpoint::Tcp { host: "192.0.2.1".to_owned(), port: 0 };
    let text = other.bind(&elsewhere).unwrap_err().to_string();
    assert!(text.contains("192.0.2.1") && text.contains("127.0.0.1 (lo)"), "{text}");
}

#[test]
fn a_peer_that_dies_is_noticed_at_once() {
    for carriers in [Carriers::Tcp, Carriers::Shm] {
        let (at, endpoint) = listener(options(carriers));
        let received = Received::by(&at);
        let from = sender(options(carriers), &endpoint);
        wait_for_channel(&from, 8, true);
        let began = Instant::now();
        drop(received);
        drop(at);
        wait_for_channel(&from, 8, false);
        assert!(began.elapsed() < Duration::from_secs(2));
    }
}

/// Whoever handles what it received, and sends while it does, must not wait for the other one to do
/// the same.
#[test]
fn two_that_only_send_do_not_wait_for_each_other() {
    const MESSAGES: u32 = 3000;
    let few = || NativeOptions { send_queue: 4, ..options(Carriers::Tcp) };
    let (at, endpoint) = listener(few());
    let from = sender(few(), &endpoint);
    let data = [pattern(0, 10_000)];
    let (tell, told) = mpsc::channel();
    let sending = {
        let from = Arc::clone(&from);
        thread::spawn(move || {
            for number in 0..MESSAGES {
                from.send(8, &number.to_ne_bytes(), &data, 0, SendMode::Queue).unwrap();
            }
            tell.send(()).unwrap();
        })
    };
    // Nobody receives.
    told.recv_timeout(LIMIT).unwrap();
    sending.join().unwrap();
    // Those that wait for room have theirs, and control too.
    send(&from, MESSAGES, 0);
    from.send(8, &(MESSAGES + 1).to_ne_bytes(), &[], 0, SendMode::Control).unwrap();
    let received = Received::by(&at);
    assert_eq!(received.numbers(MESSAGES as usize + 2), (0..MESSAGES + 2).collect::<Vec<_>>());
    wait_until("all confirmed", || from.peer(8).unwrap().is_empty());
}

#[test]
fn whoever_does_not_wait_is_told_that_there_is_no_room() {
    let (at, endpoint) = listener(options(Carriers::Tcp));
    let from = sender(options(Carriers::Tcp), &endpoint);
    let post = |number: u32| from.send(8, &number.to_ne_bytes(), &[], 0, SendMode::Queue);
    let most = outbox::QUEUED_MAX as u32;
    for number in 0..most {
        post(number).unwrap();
    }
    let refused = post(most);
    assert!(matches!(refused, Err(SendError::QueueFull)), "{refused:?}");
    let received = Received::by(&at);
    assert_eq!(received.numbers(most as usize), (0..most).collect::<Vec<_>>());
    wait_until("there is room again", || post(most).is_ok());
    assert_eq!(received.numbers(1), [most]);
}

/// A proxy that passes on what is sent to it, but never that one end has ended, like a gateway on a
/// host that is cut off.
fn silent_proxy(to: &Endpoint) -> Endpoint {
    let Endpoint::Tcp { host, port } = to else { panic!("{to}") };
    let place = (host.clone(), *port);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = listener.accept() {
            let onward = std::net::TcpStream::connect(&place).unwrap();
            for (from, to) in [(&stream, &onward), (&onward, &stream)] {
                let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                thread::spawn(move || io::copy(&mut from, &mut to));
            }
            kept.push((stream, onward));
        }
    });
    Endpoint::Tcp { host: "127.0.0.1".to_owned(), port }
}

/// What is left of a connection that was replaced is read, but not waited for: its other end may
/// never tell that it has ended.
#[test]
fn a_connection_that_never_ends_is_not_waited_for() {
    let (at, endpoint) = listener(options(Carriers::Tcp));
    let proxy = silent_proxy(&endpoint);
    let received = Received::by(&at);
    let from = sender(options(Carriers::Tcp), &proxy);
    // More than the kernel takes: each break is in the middle of one.
    let data = pattern(1, 24_000_000);
    for number in 0..6_u32 {
        from.send(8, &number.to_le_bytes(), std::slice::from_ref(&data), 0, SendMode::Block)
            .unwrap();
        if number % 2 == 1 {
            from.peer(8).unwrap().cut();
        }
    }
    for number in 0..6_u32 {
        let message = received.next();
        assert_eq!(message.frames[0], number.to_le_bytes()[..]);
        assert!(message.frames[1] == data);
    }
    from.close(Duration::ZERO);
    at.close(Duration::ZERO);
}
