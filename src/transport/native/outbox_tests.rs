use super::*;
use pslite_core::wire::native::{Head, Parsed, parse};

const FRAGMENT: usize = 2 * GRANULE;

fn outbox() -> FrameOutbox {
    FrameOutbox::new(Limits { queue: 100, bytes: 10_000_000, fragment_bytes: FRAGMENT })
}

fn push(outbox: &mut FrameOutbox, length: usize, class: i32) {
    let data = [Bytes::from(vec![class as u8; length])];
    outbox.push(b"meta", &data, class, SendMode::Block, Instant::now());
}

/// Writes the next fragment as a connection does; its head and the bytes behind it.
fn write(outbox: &mut FrameOutbox) -> Option<(Head, Vec<u8>)> {
    let fragment = outbox.next_fragment(Beside::default(), Taker::ANY, None)?;
    let mut slices = WriteSlices::new();
    outbox.slices(&fragment, &mut slices);
    let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
    drop(slices);
    assert_eq!(bytes.len(), outbox.len_of(&fragment));
    outbox.wrote(&fragment, Instant::now());
    let Ok(Parsed::Head(head)) = parse(&bytes, u64::MAX) else { panic!("{bytes:?}") };
    let data = bytes[head.size..].to_vec();
    assert_eq!(data.len(), head.header.fragment_len as usize);
    Some((head, data))
}

fn numbers(outbox: &mut FrameOutbox) -> Vec<u64> {
    std::iter::from_fn(|| write(outbox)).map(|(head, _)| head.header.sequence).collect()
}

#[test]
fn equals_keep_their_order_and_name_their_predecessor() {
    let mut outbox = outbox();
    for class in [0, 5, 0, 5] {
        push(&mut outbox, 10, class);
    }
    let order: Vec<_> = std::iter::from_fn(|| write(&mut outbox))
        .map(|(head, _)| (head.header.sequence, head.header.after))
        .collect();
    assert_eq!(order, [(2, 0), (4, 2), (1, 0), (3, 1)]);
    assert!(outbox.is_idle() && !outbox.is_empty());
}

#[test]
fn an_urgent_message_overtakes_a_large_one() {
    let mut outbox = outbox();
    push(&mut outbox, 2 * FRAGMENT + 7, 0);
    assert_eq!(write(&mut outbox).unwrap().0.header.sequence, 1);
    push(&mut outbox, 10, 0);
    push(&mut outbox, 10, 1);
    assert_eq!(numbers(&mut outbox), [3, 1, 1, 2]);
}

#[test]
fn further_connections_take_what_is_begun_and_then_what_is_large() {
    let mut outbox = outbox();
    push(&mut outbox, 2 * FRAGMENT, 0);
    push(&mut outbox, GRANULE, 0);
    push(&mut outbox, GRANULE - 1, 0);
    push(&mut outbox, GRANULE, 0);
    let mut next = |only_large| {
        Some(
            outbox
                .next_fragment(Beside::default(), Taker { only_large, ..Taker::ANY }, None)?
                .sequence,
        )
    };
    assert_eq!(next(false), Some(1));
    assert_eq!([next(true), next(true), next(true)], [Some(1), Some(2), None]);
    // The small one goes over the first connection, and what follows it not before.
    assert_eq!([next(false), next(true), next(true)], [Some(3), Some(4), None]);
}

/// The message is there when its last fragment is: a slow connection must not have much of it.
#[test]
fn a_connection_takes_no_longer_fragments_than_it_may() {
    let mut outbox = outbox();
    push(&mut outbox, 3 * FRAGMENT, 0);
    let mut next = |most| {
        let taker = Taker { most, ..Taker::ANY };
        Some(outbox.next_fragment(Beside::default(), taker, None)?.len as usize)
    };
    assert_eq!([next(usize::MAX), next(GRANULE)], [Some(FRAGMENT), Some(GRANULE)]);
    assert_eq!([next(FRAGMENT), next(usize::MAX)], [Some(FRAGMENT), Some(GRANULE)]);
    assert_eq!(next(usize::MAX), None);
}

#[test]
fn slices_go_on_where_a_write_ended() {
    let mut outbox = outbox();
    let data = [Bytes::from_static(b"12345678"), Bytes::new(), Bytes::from_static(b"abc")];
    outbox.push(b"meta", &data, 0, SendMode::Block, Instant::now());
    let mut fragment = outbox
        .next_fragment(Beside { ack: Some((7, 9)), follows: false }, Taker::ANY, None)
        .unwrap();
    let read = |fragment: &Fragment| {
        let mut slices = WriteSlices::new();
        outbox.slices(fragment, &mut slices);
        slices.iter().flat_map(|slice| slice.iter().copied()).collect::<Vec<u8>>()
    };
    let whole = read(&fragment);
    assert_eq!(&whole[HEADER + 24..], b"meta12345678abc");
    for done in 0..=whole.len() {
        fragment.done = done;
        assert_eq!(read(&fragment), whole[done..]);
    }
    let Ok(Parsed::Head(head)) = parse(&whole, 100) else { panic!() };
    assert_eq!((head.header.ack_channel, head.header.ack), (7, 9));
}

#[test]
fn few_messages_are_begun_at_a_time() {
    let mut outbox = outbox();
    for class in 0..BEGUN_MAX as i32 + 3 {
        push(&mut outbox, 2 * FRAGMENT, class);
        write(&mut outbox).unwrap();
    }
    assert_eq!(outbox.begun.len(), BEGUN_MAX - 1, "one had to end for another");
    assert!(outbox.waiting.len() >= 2);
    numbers(&mut outbox);
    assert!(outbox.is_idle());
}

#[test]
fn what_is_confirmed_is_forgotten_and_nothing_else() {
    let mut outbox = outbox();
    (0..3).for_each(|_| push(&mut outbox, 10, 0));
    assert!(!outbox.confirm(1), "not sent yet");
    write(&mut outbox).unwrap();
    write(&mut outbox).unwrap();
    assert!(outbox.confirm(1) && outbox.confirm(1) && outbox.confirm(0));
    assert!(!outbox.confirm(3) && outbox.unconfirmed() == 1);
    write(&mut outbox).unwrap();
    assert!(outbox.confirm(3) && outbox.is_empty() && !outbox.confirm(4));
    assert_eq!(outbox.bytes, 0);
}

#[test]
fn room_is_bounded_in_messages_and_bytes() {
    let mut outbox = outbox();
    let (data, control) = (SendMode::Block, SendMode::Control);
    assert!(outbox.has_room(100_000_000, data), "one message may be larger");
    push(&mut outbox, 9_999_999, 0);
    assert!(outbox.has_room(1, data) && !outbox.has_room(2, data) && outbox.has_room(2, control));
    (0..99).for_each(|_| push(&mut outbox, 0, 0));
    assert!(!outbox.has_room(0, data) && outbox.has_room(0, control));
    (0..ASIDE_MAX).for_each(|_| push(&mut outbox, 0, 0));
    assert!(!outbox.has_room(0, control));
    assert!(outbox.has_room(20_000_000, SendMode::Queue), "that has room apart");
}

#[test]
fn what_has_room_apart_takes_none_from_others_and_is_bounded() {
    let mut outbox = outbox();
    let queue = |outbox: &mut FrameOutbox, length: usize| {
        let data = [Bytes::from(vec![0; length])];
        outbox.push(b"meta", &data, 0, SendMode::Queue, Instant::now());
    };
    assert!(outbox.has_room(100_000_000, SendMode::Queue), "one message may be larger");
    queue(&mut outbox, 19_999_999);
    assert!(outbox.has_room(1, SendMode::Queue) && !outbox.has_room(2, SendMode::Queue));
    (1..QUEUED_MAX).for_each(|_| queue(&mut outbox, 0));
    assert!(!outbox.has_room(0, SendMode::Queue));
    assert!(outbox.has_room(10_000_000, SendMode::Block) && outbox.has_room(0, SendMode::Control));
    push(&mut outbox, 10, 0);
    assert_eq!(numbers(&mut outbox).last(), Some(&(QUEUED_MAX as u64 + 1)));
    assert!(outbox.confirm(1) && outbox.has_room(20_000_000, SendMode::Queue));
    assert!(outbox.confirm(QUEUED_MAX as u64 + 1) && outbox.is_empty());
    assert_eq!((outbox.bytes, outbox.queued.messages, outbox.queued.bytes), (0, 0, 0));
}

#[test]
fn after_a_break_what_did_not_arrive_goes_again() {
    let mut outbox = outbox();
    for length in [10, 3 * FRAGMENT, 10, 10, 10] {
        push(&mut outbox, length, 0);
    }
    let before = numbers(&mut outbox);
    assert_eq!(before, [1, 2, 2, 2, 3, 4, 5]);
    assert!(outbox.resume(1, &[4]));
    push(&mut outbox, 10, 0);
    assert_eq!(numbers(&mut outbox), [2, 2, 2, 3, 5, 6]);
    assert!(outbox.confirm(6) && outbox.is_empty());
    // In the middle of a large one.
    push(&mut outbox, 3 * FRAGMENT, 0);
    write(&mut outbox).unwrap();
    assert!(outbox.resume(6, &[]));
    assert_eq!(numbers(&mut outbox), [7, 7, 7]);
    assert!(!outbox.resume(5, &[]) && !outbox.resume(8, &[]), "that was somebody else");
    assert_eq!(outbox.abandon(0), 1);
    push(&mut outbox, 10, 0);
    assert_eq!(numbers(&mut outbox), [1]);
}
