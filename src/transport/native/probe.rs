//! A probe on the receiver's side: frames of padding, one after the other. Only the part after
//! [`PROBE_HEAD`] is timed, and only if nothing came in between. No I/O; the time is an argument.

use std::time::Instant;

use super::rates::{RateSample, SampleOf};
use pslite_core::wire::NodeId;
use pslite_core::wire::native::{PROBE_BYTES, PROBE_HEAD};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Probe {
    /// How much came of the one that is under way.
    came: Option<u64>,
    /// When the timed part began, and how many bytes of it were there.
    timed: Option<(Instant, u64)>,
    /// Some of it was held back by TCP's window, as its sender said: that does not show what the
    /// link carries.
    by_window: bool,
}

impl Probe {
    /// Padding begins to come, of that place in its probe; `there`: so many bytes, from it on, had
    /// arrived by `now`.
    /// `more`: it may show what the link carries.
    pub(super) fn begins(&mut self, offset: u64, there: u64, more: bool, now: Instant) {
        if offset == 0 {
            *self = Self { came: Some(0), ..Self::default() };
        }
        self.by_window |= !more;
        if self.came != Some(offset) {
            return self.interrupted();
        }
        if offset == PROBE_HEAD {
            self.timed = Some((now, there.min(PROBE_BYTES - PROBE_HEAD)));
        }
    }

    /// Something else came.
    pub(super) fn interrupted(&mut self) {
        *self = Self::default();
    }

    /// That much padding came to its end; a sample if it was the last of a whole probe.
    pub(super) fn ended(&mut self, len: u64, peer: Option<NodeId>, now: Instant) -> Ended {
        let Some(came) = &mut self.came else { return Ended::default() };
        *came += len;
        if *came < PROBE_BYTES {
            return Ended::default();
        }
        let Self { timed, by_window, .. } = *self;
        self.interrupted();
        let sample = timed.zip(peer).map(|((first, head), peer)| RateSample {
            peer,
            bytes: PROBE_BYTES - PROBE_HEAD,
            head,
            first,
            last: now,
            more: !by_window,
            follows: true,
            of: SampleOf::Probe,
        });
        Ended { whole: true, sample }
    }
}

/// What the end of some padding means.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// It was the end of a whole probe.
    pub(super) whole: bool,
    /// What that tells of the link.
    pub(super) sample: Option<RateSample>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use pslite_core::wire::native::GRANULE;
    use std::time::Duration;

    const LEN: u64 = GRANULE as u64;

    /// Plays frames with these offsets, 10 ms each.
    fn play(probe: &mut Probe, offsets: &[u64]) -> Option<RateSample> {
        play_narrow(probe, offsets, None)
    }

    /// The same, where TCP's window holds back the frame of that offset.
    fn play_narrow(probe: &mut Probe, offsets: &[u64], narrow: Option<u64>) -> Option<RateSample> {
        let mut now = Instant::now();
        let mut sample = None;
        for offset in offsets {
            probe.begins(*offset, 1000, Some(*offset) != narrow, now);
            now += Duration::from_millis(10);
            sample = probe.ended(LEN, Some(9), now).sample;
        }
        sample
    }

    #[test]
    fn a_whole_probe_is_timed_behind_its_head() {
        let mut probe = Probe::default();
        for _ in 0..2 {
            let sample = play(&mut probe, &[0, LEN, 2 * LEN, 3 * LEN]).unwrap();
            assert_eq!((sample.peer, sample.bytes, sample.head), (9, PROBE_BYTES / 2, 1000));
            assert_eq!(sample.last - sample.first, Duration::from_millis(20));
            assert!(sample.more && sample.of == SampleOf::Probe);
        }
    }

    #[test]
    fn a_probe_that_the_window_held_back_does_not_show_the_link() {
        for narrow in 0..4 {
            let mut probe = Probe::default();
            let offsets = [0, LEN, 2 * LEN, 3 * LEN];
            let sample = play_narrow(&mut probe, &offsets, Some(narrow * LEN)).unwrap();
            assert!(!sample.more, "{narrow}");
            assert!(play(&mut probe, &offsets).unwrap().more, "the next one is another");
        }
    }

    #[test]
    fn a_probe_that_is_not_whole_says_nothing() {
        let mut probe = Probe::default();
        for offsets in [
            &[LEN, 2 * LEN, 3 * LEN][..],
            &[0, 2 * LEN, 3 * LEN],
            &[0, LEN, 2 * LEN],
            &[3 * LEN, 3 * LEN, 3 * LEN, 3 * LEN],
            &[0, LEN, LEN, 2 * LEN, 3 * LEN],
        ] {
            assert!(play(&mut probe, offsets).is_none(), "{offsets:?}");
        }
        assert!(play(&mut probe, &[0, LEN, 2 * LEN]).is_none());
        probe.interrupted();
        assert!(play(&mut probe, &[3 * LEN]).is_none(), "data came between");
    }
}
