use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::carrier::SendMode;
use crate::native::outbox::{Beside, FrameOutbox, Limits, Taker, WriteSlices};
use crate::native::pipe::OutPipe;
use pslite_core::wire::native::GRANULE;

struct Rig {
    reader: Reader,
    pipe: InPipe,
    session: Session,
    pool: Arc<Pool>,
    counters: Counters,
    rates: ReceivedRates,
    ready: VecDeque<NativeIncoming>,
    asides: Asides,
}

impl Rig {
    fn new(pipe: InPipe) -> Self {
        Self {
            reader: Reader::new(pipe.ring().is_some()),
            pipe,
            session: Session::new(1, None, Arc::from("test")),
            pool: Pool::new(1 << 20),
            counters: Counters::default(),
            rates: ReceivedRates::default(),
            ready: VecDeque::new(),
            asides: Asides::default(),
        }
    }

    /// Reads until there is no more.
    fn read(&mut self) -> io::Result<()> {
        loop {
            let mut around = Surroundings {
                session: &mut self.session,
                pool: &self.pool,
                sink: None,
                data_max: 1 << 30,
                counters: &self.counters,
                rates: &self.rates,
                ready: &mut self.ready,
            };
            match self.reader.step(&mut self.pipe, &mut around, &mut self.asides) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

fn socket_rig() -> (UnixStream, Rig) {
    let (here, there) = UnixStream::pair().unwrap();
    there.set_nonblocking(true).unwrap();
    (here, Rig::new(InPipe::over_socket(OwnedFd::from(there))))
}

/// Messages as they are sent: with that metadata and those data frames.
fn stream(messages: &[(usize, Vec<usize>)]) -> Vec<u8> {
    let limits = Limits { queue: 1000, bytes: u64::MAX, fragment_bytes: 2 * GRANULE };
    let mut outbox = FrameOutbox::new(limits);
    for (number, (meta, frames)) in messages.iter().enumerate() {
        let data: Vec<_> = frames.iter().map(|len| Bytes::from(content(number, *len))).collect();
        outbox.push(&content(number + 100, *meta), &data, 0, SendMode::Block, Instant::now());
    }
    let mut bytes = Vec::new();
    while let Some(fragment) =
        outbox.next_fragment(Beside { ack: Some((5, 6)), follows: false }, Taker::ANY, None)
    {
        let mut slices = WriteSlices::new();
        outbox.slices(&fragment, &mut slices);
        slices.iter().for_each(|slice| bytes.extend_from_slice(slice));
    }
    bytes
}

fn content(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (number * 31 + at * 7 + at / 256) as u8).collect()
}

fn check(messages: &[(usize, Vec<usize>)], rig: &mut Rig) {
    assert_eq!(rig.ready.len(), messages.len());
    for (number, ((meta, frames), incoming)) in messages.iter().zip(&rig.ready).enumerate() {
        assert_eq!(incoming.frames.len(), frames.len() + 1);
        assert_eq!(incoming.frames[0], content(number + 100, *meta));
        for (len, frame) in frames.iter().zip(&incoming.frames[1..]) {
            assert!(*frame == content(number, *len), "message {number}");
            assert!(frame.is_empty() || frame.as_ptr().align_offset(8) == 0);
        }
    }
    assert_eq!((rig.session.received(), rig.asides.ack), (messages.len() as u64, Some((5, 6))));
}

fn some_messages() -> Vec<(usize, Vec<usize>)> {
    vec![
        (10, vec![8, 64, 4]),
        (0, vec![]),
        (100_000, vec![3]),
        (20, vec![8, 5 * GRANULE + 13, 4]),
        (20, vec![8, 4096, 4]),
        (7, vec![BUFFER + 1]),
        (7, vec![0, 1]),
    ]
}

#[test]
fn messages_are_read_however_the_bytes_come() {
    let messages = some_messages();
    let bytes = stream(&messages);
    for step in [997, 4096, 65_536, 150_000] {
        let (mut socket, mut rig) = socket_rig();
        for chunk in bytes.chunks(step) {
            socket.write_all(chunk).unwrap();
            rig.read().unwrap();
        }
        check(&messages, &mut rig);
        drop(socket);
        assert_eq!(rig.read().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}

#[test]
fn messages_are_read_from_a_ring() {
    let messages = some_messages();
    let bytes = stream(&messages);
    let (here, there) = UnixStream::pair().unwrap();
    let (mut out, descriptors) = OutPipe::over_ring(OwnedFd::from(here), 1 << 16, None).unwrap();
    let pipe = InPipe::over_ring(OwnedFd::from(there), descriptors).unwrap();
    let mut rig = Rig::new(pipe);
    let mut rest = &bytes[..];
    let counters = Counters::default();
    while !rest.is_empty() {
        let slices = [io::IoSlice::new(&rest[..rest.len().min(30_011)])];
        match out.write(&slices, std::time::Duration::ZERO, &counters) {
            Ok(n) => rest = &rest[n..],
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
        rig.read().unwrap();
    }
    check(&messages, &mut rig);
}

#[test]
fn a_message_that_came_before_is_dropped() {
    let messages = some_messages();
    let bytes = stream(&messages);
    let (mut socket, mut rig) = socket_rig();
    for _ in 0..2 {
        for chunk in bytes.chunks(100_000) {
            socket.write_all(chunk).unwrap();
            rig.read().unwrap();
        }
    }
    check(&messages, &mut rig);
    // Every fragment of them was counted.
    assert_eq!(rig.counters.duplicates.load(Relaxed), messages.len() as u64 + 2);
}

#[test]
fn small_messages_are_copied_once_and_large_ones_not() {
    let (mut socket, mut rig) = socket_rig();
    let bytes = stream(&[(20, vec![8, 4096, 4]), (20, vec![8, 64, 4])]);
    socket.write_all(&bytes).unwrap();
    rig.read().unwrap();
    let counted = rig.counters.read(None, false);
    assert_eq!((counted.copies, counted.copied_bytes), (2, 4108 + 76));
    // One read for both, and one that finds no more.
    assert_eq!(counted.syscalls, 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_end_in_messages_or_an_error(
        spoilt in proptest::collection::vec((0_usize..400, any::<u8>()), 0..5),
        step in 1_usize..300,
    ) {
        let mut bytes = stream(&[(3, vec![8, 20]), (3, vec![8, 20]), (0, vec![100])]);
        for (at, value) in spoilt {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        let (mut socket, mut rig) = socket_rig();
        for chunk in bytes.chunks(step) {
            socket.write_all(chunk).unwrap();
            if rig.read().is_err() {
                break;
            }
        }
        prop_assert!(rig.ready.len() <= 3);
    }
}

/// What is too small to be timed ends a train all the same.
#[test]
fn a_sample_follows_what_was_timed_before_it() {
    let (mut socket, mut rig) = socket_rig();
    rig.session.node = Some(9);
    let limits = Limits { queue: 1000, bytes: u64::MAX, fragment_bytes: 2 * GRANULE };
    let mut outbox = FrameOutbox::new(limits);
    let sent = [(5000, false), (5000, true), (10, false), (5000, true), (10, true), (5000, true)];
    for (number, (len, follows)) in sent.into_iter().enumerate() {
        let data = [Bytes::from(content(number, len))];
        outbox.push(b"meta", &data, 0, SendMode::Block, Instant::now());
        let beside = Beside { ack: None, follows };
        let fragment = outbox.next_fragment(beside, Taker::ANY, None).unwrap();
        let mut slices = WriteSlices::new();
        outbox.slices(&fragment, &mut slices);
        slices.iter().for_each(|slice| socket.write_all(slice).unwrap());
    }
    rig.read().unwrap();
    let samples = rig.rates.take();
    let seen: Vec<(u64, bool)> =
        samples.iter().map(|sample| (sample.bytes, sample.follows)).collect();
    assert_eq!(seen, [(5000, false), (5000, true), (5000, false), (10, true), (5000, true)]);
    assert!(samples.iter().all(|sample| sample.of == SampleOf::Message));
}
