//! Why a server is slow. Three causes call for the same cure, other shares, but people want to know
//! which one it is (docs/algorithms.md 4.1 and 4.3).

use crate::placement::tuning::{CAUSE_DIFFERENT, HANDLER_BUSY, UNEXPLAINED_SLOWDOWN};
use std::fmt;

/// What keeps a straggler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It holds more than its share.
    Assignment,
    /// Its link has become slower than those of the others.
    Bandwidth,
    /// It computes, or something else computes on its host.
    Computation,
    /// None of these shows.
    Unknown,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Assignment => "imbalanced assignment",
            Self::Bandwidth => "bandwidth contention",
            Self::Computation => "computation interference",
            Self::Unknown => "unknown",
        })
    }
}

/// What is known of a straggler, and of the usual server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// Seconds of a round that workers wait for it.
    pub seconds: f64,
    /// Seconds of a round that it spends with requests: receiving not counted, waiting for its
    /// processor counted. None: it does not say.
    pub handler_seconds: Option<f64>,
    /// Its threads wait for a processor, and that is why it is slow.
    pub starved: bool,
    /// How much longer it takes than its card explains, compared with the others.
    pub slowdown: f64,
    /// Bytes that it holds, over what the mean server holds.
    pub load: f64,
    /// The rate of its card, over the median of all; 1 if unknown.
    pub rate: f64,
}

/// The cause that the evidence speaks for.
#[must_use]
pub fn cause(evidence: &Evidence) -> Cause {
    let busy =
        evidence.handler_seconds.is_some_and(|handler| handler >= HANDLER_BUSY * evidence.seconds);
    let (heavy, narrow) = (evidence.load, 1.0 / evidence.rate.max(f64::MIN_POSITIVE));
    // The processor of whoever holds too much is busy as well.
    if evidence.starved || busy && heavy < evidence.slowdown.max(CAUSE_DIFFERENT) {
        return Cause::Computation;
    }
    if narrow.max(heavy) >= CAUSE_DIFFERENT && narrow.max(heavy) >= evidence.slowdown {
        return if narrow > heavy { Cause::Bandwidth } else { Cause::Assignment };
    }
    if evidence.slowdown >= UNEXPLAINED_SLOWDOWN || busy {
        return Cause::Computation;
    }
    if narrow.max(heavy) < CAUSE_DIFFERENT {
        return Cause::Unknown;
    }
    if narrow > heavy { Cause::Bandwidth } else { Cause::Assignment }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_causes() {
        let usual = Evidence {
            starved: false,
            seconds: 1.0,
            handler_seconds: Some(0.1),
            slowdown: 1.0,
            load: 1.0,
            rate: 1.0,
        };
        assert_eq!(cause(&usual), Cause::Unknown);
        assert_eq!(cause(&Evidence { load: 2.2, ..usual }), Cause::Assignment);
        assert_eq!(cause(&Evidence { rate: 0.25, ..usual }), Cause::Bandwidth);
        assert_eq!(cause(&Evidence { slowdown: 3.3, ..usual }), Cause::Computation);
        // Its receiver is slow, so that its links look slow; but its handlers say where the time
        // goes.
        let waits = Evidence { starved: true, rate: 0.3, load: 1.5, ..usual };
        assert_eq!(cause(&waits), Cause::Computation);
        let starved = Evidence { rate: 0.3, handler_seconds: Some(0.8), ..usual };
        assert_eq!(cause(&starved), Cause::Computation);
        // Who holds twice as much computes twice as long.
        let heavy = Evidence { load: 2.2, handler_seconds: Some(0.7), slowdown: 1.1, ..usual };
        assert_eq!(cause(&heavy), Cause::Assignment);
        assert_eq!(
            cause(&Evidence { handler_seconds: None, load: 1.5, rate: 0.25, ..usual }),
            Cause::Bandwidth
        );
        assert_eq!(cause(&Evidence { rate: 0.0, ..usual }), Cause::Bandwidth);
    }
}
