//! How a server numbers what it tells the scheduler of what it holds, and when it does
//! (`docs/elastic.md`, "Claims"). Pure.

use super::types::Difference;
use crate::wire::Key;

/// Changes that can wait for the next tick wait, while they are of fewer keys than that part of
/// those that are held.
const SHARE: usize = 8;

/// What was told last.
#[derive(Debug, Default)]
pub struct Said {
    /// Words so far.
    number: u64,
}

impl Said {
    /// True if something is to be told: of so many keys something is new, of those that are held.
    /// With `can_wait` there is a tick soon.
    #[must_use]
    pub const fn is_due(changes: usize, held: usize, can_wait: bool) -> bool {
        changes > 0 && (!can_wait || changes > held / SHARE)
    }

    /// What is new since the last word is told, and of which keys nothing is left; without those,
    /// all that is held.
    pub fn tell(&mut self, gone: Option<Vec<Key>>) -> Difference {
        let since = if gone.is_some() { self.number } else { 0 };
        self.number += 1;
        Difference { number: self.number, since, gone: gone.unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_changes_among_much_wait_for_the_tick() {
        let mut said = Said::default();
        let all = said.tell(None);
        assert_eq!((all.number, all.since), (1, 0));
        assert!(Said::is_due(1, 0, true) && Said::is_due(1, 7, true));
        assert!(
            !Said::is_due(1, 8, true) && Said::is_due(1, 8, false) && !Said::is_due(0, 8, false)
        );
        let news = said.tell(Some(vec![4]));
        assert_eq!((news.number, news.since, news.gone), (2, 1, vec![4]));
    }
}
