//! What the scheduler is told of what a server holds, and when (`docs/elastic.md`, "Claims"): its
//! words are numbered, and say what is new since the last one. Pure.

use crate::store::{Claimant, News};
use crate::wire::elastic::Claim;
use crate::wire::word::{ClaimWord, Difference};

/// Changes that can wait for the next tick wait, while they are of fewer keys than that part of
/// those that are held.
const SHARE: usize = 8;

/// Numbers the words of one server.
#[derive(Debug, Default)]
pub struct Claims {
    /// Words so far.
    number: u64,
}

impl Claims {
    /// What is new, if it is to be told now. `epoch`: the policy that the claimant follows. With
    /// `can_wait` there is a tick soon, and few changes among much that is held are left for it.
    pub fn news(
        &mut self,
        epoch: u64,
        claimant: &mut impl Claimant,
        can_wait: bool,
    ) -> Option<ClaimWord> {
        let changes = claimant.changes();
        if changes == 0 || (can_wait && changes <= claimant.held() / SHARE) {
            return None;
        }
        let News { claims, gone } = claimant.news();
        let since = if gone.is_some() { self.number } else { 0 };
        self.number += 1;
        let gone = gone.unwrap_or_default();
        let difference = Difference { number: self.number, since, gone };
        Some(ClaimWord { epoch, claims, difference, ..ClaimWord::default() })
    }

    /// All that is held, as the scheduler has asked for with the policy of that epoch.
    pub fn all(&mut self, epoch: u64, claims: Vec<Claim>) -> ClaimWord {
        self.number += 1;
        let difference = Difference { number: self.number, ..Difference::default() };
        ClaimWord { epoch, claims, difference, ..ClaimWord::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds so many keys, and so many of them are new.
    struct Held {
        changes: usize,
        held: usize,
        gone: Option<Vec<u64>>,
    }

    impl Claimant for Held {
        fn changes(&self) -> usize {
            self.changes
        }

        fn held(&self) -> usize {
            self.held
        }

        fn news(&mut self) -> News {
            News { claims: Vec::new(), gone: self.gone.clone() }
        }
    }

    #[test]
    fn few_changes_among_much_wait_for_the_tick() {
        let mut claims = Claims::default();
        let mut is_told = |changes, held, can_wait| {
            claims.news(3, &mut Held { changes, held, gone: None }, can_wait).is_some()
        };
        assert!(is_told(1, 0, true) && is_told(1, 7, true) && is_told(1, 8, false));
        assert!(!is_told(1, 8, true) && !is_told(0, 8, false));
    }

    #[test]
    fn a_word_names_the_one_that_it_follows_on() {
        let mut claims = Claims::default();
        let all = claims.all(2, Vec::new());
        assert_eq!((all.epoch, all.difference.number, all.difference.since), (2, 1, 0));
        let mut held = Held { changes: 1, held: 1, gone: Some(vec![4]) };
        let news = claims.news(3, &mut held, false).unwrap();
        assert_eq!((news.epoch, news.difference.number, news.difference.since), (3, 2, 1));
        assert_eq!(news.difference.gone, [4]);
        held.gone = None;
        let whole = claims.news(3, &mut held, false).unwrap();
        assert_eq!((whole.difference.number, whole.difference.since), (3, 0), "it says all");
    }
}
