//! Sender and receiver with a network between them that is worse than any real one: fragments wait
//! in several connections, and all of these break at any time, with all that is in them. Whatever
//! happens, each message arrives once, and those of one class in their order.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::outbox::{Beside, FrameOutbox, Limits, Taker, WriteSlices};
use super::pool::Pool;
use super::session::Session;
use super::types::NativeIncoming;
use crate::carrier::SendMode;
use pslite_core::wire::native::{GRANULE, Parsed, parse};

const LANES: usize = 3;
const CLASSES: i32 = 3;
/// Fragments in the first connection that leave no room; and the connection that is slow.
const FULL: usize = 2;
const SLOW: usize = 2;

#[derive(Clone, Debug)]
enum Step {
    /// A message of that class, so many granules and a bit long.
    Push(i32, usize),
    /// The next fragment goes into that connection.
    Write(usize),
    /// The first fragment in that connection arrives.
    Arrive(usize),
    /// The sender is told what arrived.
    Confirm,
    /// All connections break.
    Break,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..CLASSES, 0_usize..5).prop_map(|(class, granules)| Step::Push(class, granules)),
        8 => (0..LANES).prop_map(Step::Write),
        8 => (0..LANES).prop_map(Step::Arrive),
        2 => Just(Step::Confirm),
        1 => Just(Step::Break),
    ]
}

struct World {
    outbox: FrameOutbox,
    session: Session,
    pool: Arc<Pool>,
    lanes: [VecDeque<Vec<u8>>; LANES],
    pushed: u32,
    classes: Vec<i32>,
    arrived: VecDeque<NativeIncoming>,
    duplicates: usize,
}

impl World {
    fn new() -> Self {
        let limits = Limits { queue: 10_000, bytes: u64::MAX, fragment_bytes: 2 * GRANULE };
        Self {
            outbox: FrameOutbox::new(limits),
            session: Session::new(1, None, Arc::from("test")),
            pool: Pool::new(1 << 24),
            lanes: Default::default(),
            pushed: 0,
            classes: Vec::new(),
            arrived: VecDeque::new(),
            duplicates: 0,
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Push(class, granules) => {
                let number = self.pushed;
                self.pushed += 1;
                self.classes.push(class);
                let len = granules * GRANULE + number as usize % 7;
                let data = [Bytes::from(vec![number as u8; len])];
                let now = std::time::Instant::now();
                self.outbox.push(&number.to_le_bytes(), &data, class, SendMode::Block, now);
            }
            Step::Write(lane) => {
                let _ = self.write(lane);
            }
            Step::Arrive(lane) => {
                let _ = self.arrive(lane);
            }
            Step::Confirm => assert!(self.outbox.confirm(self.session.received())),
            Step::Break => {
                self.lanes = Default::default();
                self.session.forget_fragments();
                // A receiver lists only some of those that came out of turn.
                let mut beyond = self.session.beyond();
                beyond.truncate(2);
                assert!(self.outbox.resume(self.session.received(), &beyond));
            }
        }
    }

    fn write(&mut self, lane: usize) -> Option<()> {
        // As in a channel: a further connection takes what is small while the first one is full,
        // and a slow one takes less at a time.
        let taker = Taker {
            only_large: lane > 0 && self.lanes[0].len() < FULL,
            most: if lane == SLOW { GRANULE } else { usize::MAX },
        };
        let fragment = self.outbox.next_fragment(Beside::default(), taker, None)?;
        let mut slices = WriteSlices::new();
        self.outbox.slices(&fragment, &mut slices);
        let bytes = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        drop(slices);
        self.lanes[lane].push_back(bytes);
        self.outbox.wrote(&fragment, std::time::Instant::now());
        Some(())
    }

    fn arrive(&mut self, lane: usize) -> Option<()> {
        let bytes = self.lanes[lane].pop_front()?;
        let Ok(Parsed::Head(head)) = parse(&bytes, u64::MAX) else { panic!("no head") };
        let sequence = head.header.sequence;
        if !self.session.wants(sequence).unwrap() {
            self.duplicates += 1;
            return Some(());
        }
        let data = &bytes[head.size..];
        self.session.begin_fragment(&self.pool, &head, &bytes[head.meta()], None).unwrap();
        assert!(self.session.landing(sequence).unwrap().write(head.header.offset, data));
        self.session.landed(sequence, data.len() as u64, &mut self.arrived).unwrap();
        Some(())
    }

    /// Lets everything arrive that is under way.
    fn settle(&mut self) {
        while (0..LANES).any(|lane| self.write(lane).is_some() || self.arrive(lane).is_some()) {}
    }

    fn check(&self) {
        let numbers: Vec<u32> = self
            .arrived
            .iter()
            .map(|message| {
                let number = u32::from_le_bytes(*message.frames[0].first_chunk().unwrap());
                assert_eq!(message.frames[1].len() % GRANULE, number as usize % 7);
                assert!(message.frames[1].iter().all(|byte| *byte == number as u8));
                number
            })
            .collect();
        for class in 0..CLASSES {
            let of_class = |n: &u32| self.classes[*n as usize] == class;
            let came: Vec<_> = numbers.iter().copied().filter(of_class).collect();
            let sent: Vec<_> = (0..self.pushed).filter(of_class).collect();
            assert_eq!(came, sent, "class {class}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn each_message_arrives_once_and_in_order(steps in proptest::collection::vec(step(), 0..120)) {
        let mut world = World::new();
        steps.iter().for_each(|step| world.take(step));
        world.settle();
        world.check();
        world.take(&Step::Confirm);
        prop_assert!(world.outbox.is_empty());
        prop_assert!(world.session.beyond().is_empty());
    }
}

/// The test above would not notice a receiver that asks for everything again: here something does
/// come twice.
#[test]
fn what_came_out_of_turn_may_come_again_and_is_dropped() {
    let mut world = World::new();
    world.take(&Step::Push(0, 4));
    world.take(&Step::Write(0));
    (0..5).for_each(|_| world.take(&Step::Push(1, 0)));
    (0..5).for_each(|_| assert!(world.write(0).is_some()));
    (0..6).for_each(|_| assert!(world.arrive(0).is_some()));
    assert_eq!((world.arrived.len(), world.session.received()), (5, 0));
    world.take(&Step::Break);
    world.settle();
    world.check();
    assert_eq!(world.duplicates, 3);
}
