use super::*;
use crate::wire::{Notice, NoticeKind};
use bytes::Bytes;

const SERVER: NodeId = 8;
const WORKER: NodeId = 9;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn config(my_id: NodeId) -> ResendConfig {
    ResendConfig { timeout: ms(100), retries_max: 10, my_id, first_sequence: 1 }
}

fn request(timestamp: i32) -> Message {
    let meta = Meta { app_id: 0, customer_id: 0, timestamp, request: true, ..Meta::default() };
    Message { meta, data: [Bytes::from_static(b"12345678")].into_iter().collect() }
}

fn tick(resender: &mut Resender, now: Duration) -> (Vec<(NodeId, Message)>, Vec<NodeId>) {
    let (mut out, mut gave_up) = (Vec::new(), Vec::new());
    resender.tick(now, &mut out, &mut gave_up);
    (out, gave_up)
}

/// ps-lite.md 3.9: worker 9 to scheduler 1, app 0, timestamp 1, request.
#[test]
fn the_signature_is_that_of_stock() {
    let mut meta = Meta { app_id: 0, timestamp: 1, request: true, recver: 1, ..Meta::default() };
    assert_eq!(stock_signature(&meta, 9), 0x0000_0901_0000_0003);
    meta.sender = 11;
    assert_eq!(stock_signature(&meta, 9), 0x0000_0b01_0000_0003);
    meta.app_id = EMPTY;
    meta.request = false;
    assert_eq!(stock_signature(&meta, 9), 0xffff_0b01_0000_0002);
    (meta.sender, meta.recver) = (9 + 256, 8 + 256);
    assert_eq!(stock_signature(&meta, 9), 0xffff_0908_0000_0002);
    meta.timestamp = 1 << 30; // `timestamp << 1` turns negative and covers the ids.
    assert_eq!(stock_signature(&meta, 9), 0xffff_ffff_8000_0000);
}

#[test]
fn a_confirmed_message_is_not_sent_again() {
    for ours in [true, false] {
        let (mut a, mut b) = (Resender::new(config(WORKER)), Resender::new(config(SERVER)));
        let mut message = request(3);
        assert!(a.outgoing(ms(0), SERVER, &mut message, ours));
        assert_eq!(message.meta.sequence, u64::from(ours));
        assert_eq!((a.pending(), a.next_deadline()), (1, Some(ms(100))));
        let incoming = b.incoming(ms(1), WORKER, &message, ours);
        assert_eq!(incoming.verdict, Verdict::Deliver);
        let ack = incoming.ack.unwrap();
        assert_eq!((ack.meta.recver, ack.meta.timestamp), (WORKER, EMPTY));
        // A copy is confirmed again, but not delivered.
        let copy = b.incoming(ms(2), WORKER, &message, ours);
        assert_eq!((copy.verdict, copy.ack), (Verdict::Duplicate, Some(ack.clone())));
        let consumed = a.incoming(ms(3), SERVER, &ack, ours);
        assert_eq!((consumed.verdict, consumed.ack), (Verdict::AckConsumed, None));
        assert_eq!((a.pending(), a.next_deadline()), (0, None));
        assert_eq!(a.incoming(ms(4), SERVER, &ack, ours).verdict, Verdict::AckConsumed);
        assert_eq!(tick(&mut a, ms(10_000)), (vec![], vec![]));
    }
}

#[test]
fn repetitions_back_off_and_a_silent_peer_is_given_up_once() {
    let mut a = Resender::new(config(WORKER));
    let mut message = request(0);
    a.outgoing(ms(0), SERVER, &mut message, true);
    a.outgoing(ms(0), SERVER, &mut request(1), true);
    a.outgoing(ms(7000), 10, &mut request(2), true);
    let mut sent = Vec::new();
    let mut gave_up = Vec::new();
    while let Some(now) = a.next_deadline().filter(|now| *now <= ms(7100)) {
        let (out, lost) = tick(&mut a, now);
        sent.extend(out.iter().filter(|(_, m)| *m == message).map(|_| now.as_millis()));
        gave_up.extend(lost.into_iter().map(|node| (node, now.as_millis())));
    }
    assert_eq!(sent, [100, 300, 700, 1500, 2300, 3100, 3900, 4700, 5500, 6300]);
    assert_eq!(gave_up, [(SERVER, 7100)]);
    assert_eq!((a.pending(), a.pending_to(SERVER), a.pending_to(10)), (1, 0, 1));
}

#[test]
fn a_peer_that_is_heard_gets_more_retries() {
    let mut a = Resender::new(config(WORKER));
    a.outgoing(ms(0), SERVER, &mut request(0), true);
    let mut last = ms(0);
    let mut retries = 0;
    while let Some(now) = a.next_deadline() {
        let beat = Message::control(Control::new(Command::Heartbeat));
        assert_eq!(a.incoming(now, SERVER, &beat, true), deliver());
        let (out, gave_up) = tick(&mut a, now);
        retries += out.len();
        last = now;
        assert!(out.len() + gave_up.len() == 1);
    }
    assert_eq!(retries, 40);
    assert!(last > ms(30_000));
}

#[test]
fn what_is_not_tracked() {
    let mut a = Resender::new(config(WORKER));
    let notice = Notice {
        kind: NoticeKind::Leaving,
        node: EMPTY,
        customer: 0,
        incarnation: 0,
        text: String::new(),
    };
    let heartbeat = |notice| Control { notice, ..Control::new(Command::Heartbeat) };
    for control in [Control::new(Command::Ack), Control::new(Command::Terminate), heartbeat(None)] {
        assert!(!a.outgoing(ms(0), SERVER, &mut Message::control(control), true));
    }
    assert!(!a.outgoing(ms(0), EMPTY, &mut request(0), true));
    assert_eq!(a.pending(), 0);
    for control in
        [Control::new(Command::AddNode), Control::new(Command::Barrier), heartbeat(Some(notice))]
    {
        assert!(a.outgoing(ms(0), SERVER, &mut Message::control(control), true));
    }
    assert_eq!(a.pending(), 3);
    let terminate = Message::control(Control::new(Command::Terminate));
    assert_eq!(a.incoming(ms(0), SERVER, &terminate, false), deliver());
    assert_eq!(a.incoming(ms(0), SERVER, &terminate, false), deliver());
}

#[test]
fn anonymous_senders_get_no_confirmation() {
    let mut scheduler = Resender::new(config(1));
    let registration = Message::control(Control::new(Command::AddNode));
    for ours in [true, false] {
        assert_eq!(scheduler.incoming(ms(0), EMPTY, &registration, ours), deliver());
    }
    assert_eq!(scheduler.remembered(), 0);
    // A node without id keeps nothing: who should confirm to it?
    let mut node = Resender::new(config(EMPTY));
    assert!(!node.outgoing(ms(0), 1, &mut registration.clone(), false));
    // It delivers once, and confirms the repetition when it has one.
    let mut list = Message::control(Control::new(Command::AddNode));
    scheduler.outgoing(ms(0), WORKER, &mut list, true);
    assert_eq!(node.incoming(ms(1), 1, &list, true), deliver());
    node.set_my_id(WORKER);
    let again = node.incoming(ms(101), 1, &list, true);
    assert_eq!(again.verdict, Verdict::Duplicate);
    scheduler.incoming(ms(102), WORKER, &again.ack.unwrap(), true);
    assert_eq!(scheduler.pending(), 0);
}

/// Stock drops the second one as a repetition: customers of one process share the signature.
#[test]
fn stock_customers_of_one_process_are_told_apart() {
    let mut server = Resender::new(config(SERVER));
    let mut other = request(3);
    other.meta.customer_id = 1;
    let mut barrier = Message::control(Control::new(Command::Barrier));
    barrier.meta = Meta { payload: barrier.meta.payload, ..request(3).meta };
    let mut pull = request(3);
    pull.meta.pull = true;
    for message in [request(3), other, barrier, pull] {
        let first = server.incoming(ms(0), WORKER, &message, false);
        assert_eq!(first.verdict, Verdict::Deliver);
        assert_eq!(server.incoming(ms(0), WORKER, &message, false).verdict, Verdict::Duplicate);
    }
    assert_eq!(server.incoming(ms(0), 11, &request(3), false).verdict, Verdict::Deliver);
}

#[test]
fn aliasing_messages_to_a_stock_peer_are_all_kept() {
    let mut worker = Resender::new(config(WORKER));
    let mut other = request(3);
    other.meta.customer_id = 1;
    worker.outgoing(ms(0), SERVER, &mut request(3), false);
    worker.outgoing(ms(1), SERVER, &mut other, false);
    assert_eq!(worker.pending(), 2);
    let ack = acknowledge(WORKER, SERVER, 0x0000_0908_0000_0007, 0);
    worker.incoming(ms(2), SERVER, &ack, false);
    let (out, _) = tick(&mut worker, ms(200));
    assert_eq!(out, [(SERVER, other)]);
    worker.incoming(ms(201), SERVER, &ack, false);
    assert_eq!(worker.pending(), 0);
}

/// The first messages of a peer may come before the scheduler's list that says it is ours.
#[test]
fn the_message_says_how_it_is_named() {
    let (mut a, mut b) = (Resender::new(config(WORKER)), Resender::new(config(SERVER)));
    let (mut numbered, mut signed) = (request(0), request(1));
    a.outgoing(ms(0), SERVER, &mut numbered, true);
    a.outgoing(ms(0), SERVER, &mut signed, false);
    for message in [&numbered, &signed] {
        for (peer_is_ours, verdict) in [(false, Verdict::Deliver), (true, Verdict::Duplicate)] {
            let incoming = b.incoming(ms(1), WORKER, message, peer_is_ours);
            assert_eq!(incoming.verdict, verdict);
            a.incoming(ms(2), SERVER, &incoming.ack.unwrap(), !peer_is_ours);
        }
    }
    assert_eq!(a.pending(), 0);
    // Stock keeps its signs of life until they are confirmed; ours does not.
    let beat = Message::control(Control::new(Command::Heartbeat));
    assert!(b.incoming(ms(3), WORKER, &beat, false).ack.is_some());
    assert_eq!(b.incoming(ms(3), WORKER, &beat, true), deliver());
}

#[test]
fn a_restarted_peer_is_not_taken_for_its_former_self() {
    let mut server = Resender::new(config(SERVER));
    let mut first = Resender::new(config(WORKER));
    let mut second = Resender::new(ResendConfig { first_sequence: 1 << 40, ..config(WORKER) });
    for round in 0..3 {
        for node in [&mut first, &mut second] {
            let mut message = request(round);
            node.outgoing(ms(0), SERVER, &mut message, true);
            let incoming = server.incoming(ms(1), WORKER, &message, true);
            assert_eq!(incoming.verdict, Verdict::Deliver);
        }
    }
    assert_eq!(server.remembered(), 2);
}

#[test]
fn a_forgotten_peer_leaves_nothing_but_the_numbering() {
    let mut a = Resender::new(config(WORKER));
    a.outgoing(ms(0), SERVER, &mut request(0), true);
    a.outgoing(ms(0), 10, &mut request(0), true);
    a.incoming(ms(0), SERVER, &request(5), false);
    a.forget(SERVER);
    assert_eq!((a.pending(), a.remembered(), a.pending_to(10)), (1, 0, 1));
    let mut next = request(1);
    a.outgoing(ms(0), SERVER, &mut next, true);
    assert_eq!(next.meta.sequence, 2);
    let (out, _) = tick(&mut a, ms(100));
    assert_eq!(out.len(), 2);
    a.forget(77);
}

#[test]
fn buffers_are_bounded() {
    let mut a = Resender::new(config(WORKER));
    for timestamp in 0..UNCONFIRMED_MESSAGES as i32 {
        assert!(!a.is_full(SERVER));
        a.outgoing(ms(0), SERVER, &mut request(timestamp), true);
    }
    assert!(a.is_full(SERVER) && !a.is_full(10));
    for _ in 0..2 * UNCONFIRMED_MESSAGES {
        a.outgoing(ms(0), SERVER, &mut request(0), true);
    }
    assert_eq!(a.pending(), UNCONFIRMED_MESSAGES_HARD);
    assert_eq!(a.untracked(), UNCONFIRMED_MESSAGES as u64);

    let big = Bytes::from(vec![0; UNCONFIRMED_BYTES / 2]);
    let mut message = Message { data: [big.clone(), big].into_iter().collect(), ..request(0) };
    assert!(a.outgoing(ms(0), 10, &mut message, true) && a.is_full(10));
    a.incoming(ms(1), 10, &acknowledge(WORKER, 10, 0, 1), true);
    assert!(!a.is_full(10));
}

#[test]
fn numbers_at_the_end_of_the_world_do_no_harm() {
    let mut a = Resender::new(config(SERVER));
    for sequence in [u64::MAX, u64::MAX - 1, 1, u64::MAX] {
        let mut message = request(0);
        message.meta.sequence = sequence;
        a.incoming(ms(0), WORKER, &message, true);
    }
    assert_eq!(a.remembered(), 2);
    let last = ResendConfig { first_sequence: u64::MAX, ..config(SERVER) };
    let mut b = Resender::new(last);
    b.outgoing(Duration::MAX, WORKER, &mut request(0), true);
    b.outgoing(Duration::MAX, WORKER, &mut request(1), false);
    tick(&mut b, Duration::MAX);
}
