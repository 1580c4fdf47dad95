//! How a server numbers what it tells the scheduler of what it holds, and when it does (`docs/elastic.md`, "Claims").
//! Pure.

use super::types::Difference;
use crate::wire::Key;

/// Changes that can wait for the next tick wait, while they are of fewer keys than that part of those that are held.
const SHARE: usize = 8;

/// What was told last.
#[derive(Debug, Default)]
pub struct Said {
    /// Words so far.
    number: u64,
}

impl Said {
    /// True if something is to be told: of so many keys something is new, of those that are held. With `can_wait` there
    /// is a tick soon.
    #[must_use]
    pub const fn is_due(&self, changes: usize, held: usize, can_wait: bool) -> bool {
        self.is_first() || (changes > 0 && (!can_wait || changes > held / SHARE))
    }

    /// True if nothing was told yet: then all has to be.
    #[must_use]
    pub const fn is_first(&self) -> bool {
        self.number == 0
    }

    /// All that is held is told, as the answer to a question for claims, or by itself.
    pub const fn all(&mut self) -> Difference {
        self.number += 1;
        Difference { number: self.number, since: 0, gone: Vec::new() }
    }

    /// What is new since the last word is told; of some keys nothing is left.
    pub const fn news(&mut self, gone: Vec<Key>) -> Difference {
        let since = self.number;
        self.number += 1;
        Difference { number: self.number, since, gone }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_changes_among_much_wait_for_the_tick() {
        let mut said = Said::default();
        assert!(said.is_due(0, 0, true), "that there is nothing is news, too");
        let all = said.all();
        assert_eq!((all.number, all.since), (1, 0));
        assert!(said.is_due(1, 0, true) && said.is_due(1, 7, true));
        assert!(!said.is_due(1, 8, true) && said.is_due(1, 8, false) && !said.is_due(0, 8, false));
        let news = said.news(vec![4]);
        assert_eq!((news.number, news.since, news.gone), (2, 1, vec![4]));
    }
}
