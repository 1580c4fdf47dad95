use super::*;
use pslite_core::wire::native::{GRANULE, Header, Kind};

fn session() -> (Session, Arc<Pool>) {
    (Session::new(1, Some(9), Arc::from("here")), Pool::new(0))
}

fn head(sequence: u64, after: u64, total: u64) -> Head {
    let header = Header { frames: 1, sequence, after, ..Header::new(Kind::Message) };
    Head { header, lengths: [total].into_iter().collect(), total, size: 0 }
}

/// A message that carries its number, whole.
fn arrive(
    session: &mut Session,
    pool: &Arc<Pool>,
    sequence: u64,
    after: u64,
    out: &mut VecDeque<NativeIncoming>,
) -> Result<(), SessionError> {
    assert!(session.wants(sequence)?);
    let mut landing = Landing::new(pool, &head(sequence, after, 8), b"", None).unwrap();
    assert!(landing.write(0, &sequence.to_le_bytes()));
    session.complete(sequence, after, landing, out)
}

fn numbers(out: &mut VecDeque<NativeIncoming>) -> Vec<u64> {
    out.drain(..)
        .map(|message| u64::from_le_bytes(*message.frames[1].first_chunk().unwrap()))
        .collect()
}

#[test]
fn messages_follow_their_predecessors() {
    let (mut session, pool) = session();
    let mut out = VecDeque::new();
    // Two classes: 1, 2, 5 and 3, 4.
    for (sequence, after) in [(5, 2), (4, 3), (2, 1)] {
        arrive(&mut session, &pool, sequence, after, &mut out).unwrap();
    }
    assert!(out.is_empty());
    assert_eq!((session.received(), session.beyond()), (0, vec![2, 4, 5]));
    arrive(&mut session, &pool, 3, 0, &mut out).unwrap();
    assert_eq!(numbers(&mut out), [3, 4]);
    arrive(&mut session, &pool, 1, 0, &mut out).unwrap();
    assert_eq!(numbers(&mut out), [1, 2, 5]);
    assert_eq!((session.received(), session.beyond()), (5, vec![]));
    arrive(&mut session, &pool, 6, 4, &mut out).unwrap();
    assert_eq!(numbers(&mut out), [6]);
}

#[test]
fn a_message_is_wanted_once() {
    let (mut session, pool) = session();
    let mut out = VecDeque::new();
    arrive(&mut session, &pool, 1, 0, &mut out).unwrap();
    arrive(&mut session, &pool, 3, 0, &mut out).unwrap();
    arrive(&mut session, &pool, 5, 4, &mut out).unwrap();
    let wanted: Vec<_> = (1..=6).map(|sequence| session.wants(sequence).unwrap()).collect();
    assert_eq!(wanted, [false, true, false, true, false, true]);
    assert_eq!(session.wants(1 + WINDOW_MAX), Ok(true));
    assert_eq!(session.wants(2 + WINDOW_MAX), Err(SessionError::TooFar(2 + WINDOW_MAX)));
    let twice = arrive(&mut session, &pool, 6, 4, &mut out);
    assert_eq!(twice, Err(SessionError::Order(4)));
}

#[test]
fn fragments_come_in_any_order_and_come_again_after_a_break() {
    let (mut session, pool) = session();
    let mut out = VecDeque::new();
    let granule = GRANULE as u64;
    let total = 3 * granule + 1;
    let fragment = |number: u64| {
        let mut head = head(1, 0, total);
        head.header.offset = number * granule;
        head.header.fragment_len = granule.min(total - number * granule) as u32;
        head
    };
    let land = |session: &mut Session, number: u64, out: &mut VecDeque<_>| {
        let head = fragment(number);
        session.begin_fragment(&pool, &head, b"", None)?;
        let bytes = vec![number as u8; head.header.fragment_len as usize];
        assert!(session.landing(1).unwrap().write(head.header.offset, &bytes));
        session.landed(1, bytes.len() as u64, out)
    };
    land(&mut session, 2, &mut out).unwrap();
    assert_eq!(land(&mut session, 2, &mut out), Err(SessionError::Fragment(1)));
    land(&mut session, 3, &mut out).unwrap();
    session.forget_fragments();
    assert!(!session.is_begun(1));
    for number in [3, 0, 2, 1] {
        assert!(out.is_empty());
        land(&mut session, number, &mut out).unwrap();
    }
    let frame = &out[0].frames[1];
    assert_eq!(frame.len() as u64, total);
    assert!(frame.iter().enumerate().all(|(at, byte)| at / GRANULE == usize::from(*byte)));
    assert!(!session.wants(1).unwrap() && !session.is_begun(1));
}

#[test]
fn strange_parts_are_refused() {
    let (mut session, pool) = session();
    let granule = GRANULE as u64;
    let mut first = head(1, 0, 2 * granule);
    first.header.fragment_len = granule as u32;
    session.begin_fragment(&pool, &first, b"", None).unwrap();
    let mut other = head(1, 0, 3 * granule);
    other.header.offset = granule;
    other.header.fragment_len = granule as u32;
    assert_eq!(session.begin_fragment(&pool, &other, b"", None), Err(SessionError::Fragment(1)));
    for sequence in 2..=ASSEMBLIES_MAX as u64 {
        first.header.sequence = sequence;
        session.begin_fragment(&pool, &first, b"", None).unwrap();
    }
    first.header.sequence += 1;
    assert_eq!(session.begin_fragment(&pool, &first, b"", None), Err(SessionError::TooMany));
}
