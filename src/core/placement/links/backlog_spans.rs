//! Computes the spans of time in which peers had a backlog, that is, more to send, from what came
//! in from them. Only in these does what came show how fast data can come: otherwise the peer
//! decided. Pure; the time is an argument.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{MOST_PEERS, Sample};
use crate::placement::tuning::SENDING_PAUSE_MAX;
use crate::wire::NodeId;

/// Something that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BacklogSpan {
    /// Its sender.
    pub(super) peer: NodeId,
    /// Its bytes.
    pub(super) bytes: u64,
    /// When it began to come: with the pause before it, if the sender had more then.
    pub(super) first: Duration,
    /// When all of it was there.
    pub(super) last: Duration,
    /// The sender had more all the time.
    pub(super) backlogged: bool,
}

impl BacklogSpan {
    /// What of it lies between two times: seconds, and bytes.
    pub(super) fn inside(&self, begin: Duration, end: Duration) -> (f64, f64) {
        let all = self.last.saturating_sub(self.first).as_secs_f64();
        let inside = self.last.min(end).saturating_sub(self.first.max(begin)).as_secs_f64();
        let fraction = if all > 0.0 { inside / all } else { 1.0 };
        (inside, crate::placement::cost::bytes(self.bytes) * fraction)
    }
}

/// Up to when each peer that has more to send has been counted.
#[derive(Clone, Debug, Default)]
pub(super) struct BacklogSpans {
    ends: BTreeMap<NodeId, Duration>,
}

impl BacklogSpans {
    /// Adds something that came. None: its times make no sense.
    pub(super) fn add(&mut self, sample: &Sample) -> Option<BacklogSpan> {
        if sample.last < sample.first {
            return None;
        }
        let follows = |end: &Duration| {
            *end <= sample.last && sample.first <= end.saturating_add(SENDING_PAUSE_MAX)
        };
        let before = self.ends.remove(&sample.peer).filter(follows);
        if sample.backlogged && self.ends.len() < MOST_PEERS {
            self.ends.insert(sample.peer, sample.last);
        }
        Some(BacklogSpan {
            peer: sample.peer,
            bytes: sample.bytes,
            first: before.unwrap_or(sample.first),
            last: sample.last,
            backlogged: sample.backlogged || before.is_some(),
        })
    }

    /// A peer is gone.
    pub(super) fn forget(&mut self, peer: NodeId) {
        self.ends.remove(&peer);
    }

    /// The time before which nothing more is expected: a message is reported only when a fragment
    /// of it is complete, and then belongs to the time before as well.
    pub(super) fn settled(&self, now: Duration) -> Duration {
        let awaited = |end: &&Duration| end.saturating_add(SENDING_PAUSE_MAX) > now;
        self.ends.values().filter(awaited).min().copied().unwrap_or(now).min(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn sample(first: u64, last: u64, backlogged: bool) -> Sample {
        Sample { peer: 9, bytes: 100, head: 0, first: ms(first), last: ms(last), backlogged }
    }

    #[test]
    fn the_pause_before_belongs_to_whoever_had_more() {
        let mut spans = BacklogSpans::default();
        let mut span = |first, last, more| {
            spans.add(&sample(first, last, more)).map(|s| (s.first, s.last, s.backlogged))
        };
        assert_eq!(span(10, 20, false), Some((ms(10), ms(20), false)));
        assert_eq!(span(50, 60, true), Some((ms(50), ms(60), true)));
        assert_eq!(span(90, 95, true), Some((ms(60), ms(95), true)));
        // That was the last one for now; but until then there was more.
        assert_eq!(span(99, 120, false), Some((ms(95), ms(120), true)));
        assert_eq!(span(150, 160, true), Some((ms(150), ms(160), true)));
        assert_eq!(span(1161, 1170, true), Some((ms(1161), ms(1170), true)), "too long a pause");
        assert_eq!(span(1300, 1200, true), None);
    }

    #[test]
    fn what_is_under_way_is_not_settled() {
        let mut spans = BacklogSpans::default();
        assert_eq!(spans.settled(ms(500)), ms(500));
        spans.add(&sample(100, 200, true));
        assert_eq!(spans.settled(ms(500)), ms(200));
        assert_eq!(spans.settled(ms(1200)), ms(1200), "it will not come any more");
        spans.add(&sample(300, 400, false));
        assert_eq!(spans.settled(ms(500)), ms(500));
    }

    #[test]
    fn a_span_is_cut() {
        let span = BacklogSpans::default().add(&sample(100, 200, true)).unwrap();
        let cut = |from, to| span.inside(ms(from), ms(to));
        assert_eq!((cut(100, 125), cut(0, 300)), ((0.025, 25.0), (0.1, 100.0)));
        let at_once = BacklogSpans::default().add(&sample(100, 100, true)).unwrap();
        assert_eq!(at_once.inside(ms(100), ms(110)), (0.0, 100.0));
    }
}
