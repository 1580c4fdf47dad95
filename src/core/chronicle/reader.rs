//! Follows a chronicle from answer to answer: what is to be asked next, what is missed, and when it
//! is the chronicle of another scheduler. Values only.

use super::part::ChroniclePart;
use crate::wire::chronicle::ChronicleQuestion;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct ChronicleReader {
    first: ChronicleQuestion,
    asks: ChronicleQuestion,
    began: Option<f64>,
}

/// What an answer is to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChronicleNews {
    /// It goes on. So many events before its first one are not kept any more.
    GoesOn {
        /// How many.
        lost: u64,
    },
    /// The scheduler was started again and numbers anew. The question was not about its numbers, so
    /// the answer is to be left: all of it comes with the next one.
    BeginsAnew,
}

impl ChronicleReader {
    /// One whose first question is that.
    #[must_use]
    pub const fn new(first: ChronicleQuestion) -> Self {
        Self { first, asks: first, began: None }
    }

    /// What it asks next.
    #[must_use]
    pub const fn asks(&self) -> ChronicleQuestion {
        self.asks
    }

    /// True if it has heard something.
    #[must_use]
    pub const fn has_heard(&self) -> bool {
        self.began.is_some()
    }

    /// It hears the answer to its question.
    pub fn hear(&mut self, part: &ChroniclePart) -> ChronicleNews {
        if self.began.replace(part.began).is_some_and(|began| began != part.began) {
            self.asks = self.first;
            return ChronicleNews::BeginsAnew;
        }
        let lost = part.lost(self.asks);
        self.asks = part.next(self.asks);
        ChronicleNews::GoesOn { lost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_asks_for_all_of_another_chronicle() {
        let part = |began, first| ChroniclePart { began, first, ..ChroniclePart::default() };
        let first = ChronicleQuestion { after_event: 0, after_point: 7 };
        let mut reader = ChronicleReader::new(first);
        assert!(!reader.has_heard());
        assert_eq!(reader.hear(&part(1.0, 5)), ChronicleNews::GoesOn { lost: 4 });
        assert_eq!(reader.asks(), ChronicleQuestion { after_event: 4, after_point: 7 });
        assert_eq!(reader.hear(&part(1.0, 5)), ChronicleNews::GoesOn { lost: 0 });
        assert_eq!(reader.hear(&part(2.0, 1)), ChronicleNews::BeginsAnew);
        assert_eq!(reader.asks(), first);
        assert_eq!(reader.hear(&part(2.0, 1)), ChronicleNews::GoesOn { lost: 0 });
    }
}
