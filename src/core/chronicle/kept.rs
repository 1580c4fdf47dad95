//! [`Chronicle`]: what a scheduler keeps of what happened in its job.

use std::collections::VecDeque;
use std::time::Duration;

use super::event::{JobEvent, NewEvent};
use super::part::ChroniclePart;
use super::points::{Points, RoundPoint, seconds_of};
use crate::invariant::{Valid, debug, require};
use crate::wire::chronicle::ChronicleQuestion;

/// Events that are kept, at most.
const EVENTS_MAX: usize = 4096;
/// The longest text of an event that is kept, in bytes. The line of the log has all of it.
const TEXT_MAX: usize = 4096;
/// Stands where the rest of a text is left out.
const CUT: &str = " ...";
/// Events of an answer, at most, and likewise points. Whoever wants more asks again.
const TOLD_MAX: usize = 512;

/// The newest events of a job, numbered from 1 on, and how long its rounds took since it began.
/// When there are too many events, the oldest is dropped. Takes 3 MB at most with texts of 500
/// bytes, however long the job goes on.
#[derive(Debug)]
pub struct Chronicle {
    /// When the scheduler began, since 1970.
    began: Duration,
    /// The number of the newest event.
    last: u64,
    events: VecDeque<JobEvent>,
    points: Points,
}

impl Chronicle {
    /// Nothing has happened yet. `began`: now by the clock on the wall, since 1970. Other times
    /// that it is given, but for those called `wall`, count from now.
    #[must_use]
    pub fn new(began: Duration) -> Self {
        Self { began, last: 0, events: VecDeque::new(), points: Points::default() }
    }

    /// Something happened. `wall`: when by the clock on the wall, since 1970. Returns its number.
    pub fn add(&mut self, now: Duration, wall: Duration, mut what: NewEvent) -> u64 {
        if what.text.len() > TEXT_MAX {
            let end = (0..=TEXT_MAX - CUT.len()).rev().find(|end| what.text.is_char_boundary(*end));
            what.text.truncate(end.unwrap_or(0));
            what.text.push_str(CUT);
        }
        // Two threads may come in another order than that in which they read the clock.
        let at = now.as_secs_f64().max(self.events.back().map_or(0.0, |event| event.at));
        self.last += 1;
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        let time = wall.as_secs_f64();
        self.events.push_back(JobEvent { number: self.last, at, time, what });
        debug(|| self.validate_newest());
        self.last
    }

    /// True if a round point of now would be kept: they are a second apart at least, in a long job
    /// more.
    #[must_use]
    pub fn is_point_due(&self, now: Duration) -> bool {
        self.points.is_due(now)
    }

    /// So long do rounds take now. (The point need not say when that is.) It is left out if it
    /// comes too soon after the last one, or if no round has ended since.
    pub fn add_point(&mut self, now: Duration, point: RoundPoint) {
        self.points.add(now, point);
    }

    /// The number of the oldest event that is kept; with none, that of the next one.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.events.front().map_or(self.last + 1, |event| event.number)
    }

    /// The number of the newest event; 0: there was none.
    #[must_use]
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// The events after that number that are kept, in order. Those below [`Self::first`] are lost.
    pub fn events_since(&self, number: u64) -> impl Iterator<Item = &JobEvent> {
        let known = number.saturating_add(1).saturating_sub(self.first());
        let known = usize::try_from(known).unwrap_or(usize::MAX).min(self.events.len());
        self.events.range(known..)
    }

    /// The round points after that time, in milliseconds since the scheduler began, in order.
    #[must_use]
    pub fn points_since(&self, millis: u64) -> &[RoundPoint] {
        self.points.since(millis)
    }

    /// What a reader is told that asks so: the oldest of what it does not know, 512 events and as
    /// many points at most.
    #[must_use]
    pub fn answer(&self, now: Duration, asked: ChronicleQuestion) -> ChroniclePart {
        let ChronicleQuestion { after_event, after_point } = asked;
        let events: Vec<JobEvent> =
            self.events_since(after_event).take(TOLD_MAX).cloned().collect();
        let points = self.points_since(after_point);
        let told = &points[..points.len().min(TOLD_MAX)];
        let newest = events.last().map_or(self.last, |event| event.number);
        ChroniclePart {
            began: self.began.as_secs_f64(),
            now: seconds_of(u64::try_from(now.as_millis()).unwrap_or(u64::MAX)),
            first: self.first(),
            last: self.last,
            more: newest < self.last || told.len() < points.len(),
            events,
            points: told.to_vec(),
        }
    }

    /// Numbers grow by one, times do not fall, and nothing is kept too long.
    ///
    /// # Errors
    /// What does not hold.
    pub fn validate(&self) -> Valid {
        let Self { events, last, .. } = self;
        require(events.len() <= EVENTS_MAX, || format!("{} events are kept", events.len()))?;
        let newest = events.back().map_or(0, |event| event.number);
        require(newest == *last, || format!("event {newest} is the newest, not {last}"))?;
        for (one, next) in events.iter().zip(events.iter().skip(1)) {
            follows(one, next)?;
        }
        self.points.validate()
    }

    /// The same of what the last event has changed.
    fn validate_newest(&self) -> Valid {
        let mut newest = self.events.iter().rev();
        match (newest.next(), newest.next()) {
            (Some(next), Some(one)) => follows(one, next),
            _ => Ok(()),
        }
    }
}

fn follows(one: &JobEvent, next: &JobEvent) -> Valid {
    let (number, at) = (one.number, one.at);
    require(next.number == number + 1, || format!("event {} follows {number}", next.number))?;
    require(next.at >= at, || {
        format!("event {} of {} s follows one of {at} s", next.number, next.at)
    })?;
    require(next.what.text.len() <= TEXT_MAX, || format!("event {} is too long", next.number))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::event::JobEventKind;
    use super::*;

    const BEGAN: Duration = Duration::from_secs(1_000_000);

    fn event(text: impl Into<String>) -> NewEvent {
        NewEvent::info(JobEventKind::Note, text)
    }

    /// With that many events, a second apart.
    fn chronicle(events: u64) -> Chronicle {
        let mut chronicle = Chronicle::new(BEGAN);
        for number in 1..=events {
            let now = Duration::from_secs(number);
            assert_eq!(chronicle.add(now, BEGAN + now, event(number.to_string())), number);
        }
        chronicle.validate().unwrap();
        chronicle
    }

    fn asked(after_event: u64) -> ChronicleQuestion {
        ChronicleQuestion { after_event, after_point: 0 }
    }

    #[test]
    fn a_reader_gets_each_event_once() {
        let mut chronicle = chronicle(1100);
        let (mut question, mut numbers) = (asked(0), Vec::new());
        for told in [512, 512, 76, 0, 1] {
            if told == 1 {
                chronicle.add(Duration::ZERO, BEGAN, event("more"));
            }
            let part = chronicle.answer(Duration::from_secs(1200), question);
            assert_eq!((part.events.len(), part.more), (told, told == 512));
            assert_eq!((part.began, part.now, part.first), (1e6, 1200.0, 1));
            assert_eq!(part.lost(question), 0);
            numbers.extend(part.events.iter().map(|event| event.number));
            question = part.next(question);
        }
        assert_eq!(numbers, (1..=1101).collect::<Vec<u64>>());
        let newest = chronicle.events_since(1100).next().unwrap();
        assert_eq!((newest.at, newest.time), (1100.0, 1e6), "no event is before another one");
    }

    #[test]
    fn a_reader_learns_what_was_lost() {
        let chronicle = chronicle(5000);
        let (first, last) = (5000 - EVENTS_MAX as u64 + 1, 5000);
        assert_eq!((chronicle.first(), chronicle.last()), (first, last));
        let part = chronicle.answer(Duration::ZERO, asked(100));
        assert_eq!((part.first, part.lost(asked(100))), (first, first - 101));
        assert_eq!(part.events[0].number, first);
        assert_eq!(part.lost(asked(first - 1)), 0);
        let part = chronicle.answer(Duration::ZERO, asked(last + 7));
        assert_eq!((part.events.len(), part.last, part.more), (0, last, false));
    }

    #[test]
    fn before_anything_has_happened() {
        let part = chronicle(0).answer(Duration::ZERO, asked(0));
        assert_eq!((part.first, part.last, part.lost(asked(0)), part.more), (1, 0, 0, false));
        assert_eq!(part.next(asked(0)), asked(0));
    }

    #[test]
    fn a_long_text_is_cut() {
        let mut chronicle = chronicle(0);
        chronicle.add(Duration::ZERO, BEGAN, event("é".repeat(TEXT_MAX)));
        chronicle.add(Duration::ZERO, BEGAN, event("e".repeat(TEXT_MAX)));
        let texts: Vec<&str> = chronicle.events_since(0).map(|event| &*event.what.text).collect();
        assert!(texts[0].len() <= TEXT_MAX && texts[0].ends_with("é ..."), "{}", texts[0].len());
        assert_eq!(texts[1].len(), TEXT_MAX);
        chronicle.validate().unwrap();
    }

    #[test]
    fn points_come_in_parts_too() {
        let mut chronicle = chronicle(1);
        for second in 1..=600 {
            let point = RoundPoint { round: second, ..RoundPoint::default() };
            let now = Duration::from_secs(second);
            assert!(chronicle.is_point_due(now));
            chronicle.add_point(now, point);
            assert!(!chronicle.is_point_due(now + Duration::from_millis(999)));
        }
        let (mut question, mut rounds) = (asked(0), Vec::new());
        for told in [512, 88, 0] {
            let part = chronicle.answer(Duration::ZERO, question);
            assert_eq!((part.points.len(), part.more), (told, told == 512));
            rounds.extend(part.points.iter().map(|point| point.round));
            question = part.next(question);
        }
        assert_eq!(rounds, (1..=600).collect::<Vec<u64>>());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Whatever the clock does, and however often a reader looks.
        #[test]
        fn events_are_bounded_and_in_order(
            times in prop::collection::vec(0_u64..1000, 1..6000),
            every in 1_usize..3000,
        ) {
            let mut chronicle = Chronicle::new(BEGAN);
            let (mut question, mut heard, mut lost) = (asked(0), 0, 0);
            for (place, time) in times.iter().enumerate() {
                chronicle.add(Duration::from_millis(*time), BEGAN, event(""));
                if place % every == 0 {
                    let part = chronicle.answer(Duration::ZERO, question);
                    lost += part.lost(question);
                    heard += part.events.len() as u64;
                    question = part.next(question);
                }
            }
            prop_assert_eq!(chronicle.validate(), Ok(()));
            prop_assert_eq!(chronicle.last(), times.len() as u64);
            prop_assert_eq!(heard + lost, question.after_event);
        }
    }
}
