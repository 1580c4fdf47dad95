//! Of which keys a server has something new to claim (`docs/elastic.md`, "Claims"), so that what it
//! says costs no more than what is new, however much it holds. Pure books: what is claimed of a key
//! is for those who hold it to say.

use std::collections::BTreeSet;

use crate::wire::Key;
use crate::wire::elastic::Claim;

/// Keys of which something is new since the last word. Before the first one all is.
#[derive(Debug)]
pub(in crate::store) struct Changes {
    keys: BTreeSet<Key>,
    /// Perhaps of any key.
    all: bool,
    /// Changes so far.
    number: u64,
}

/// What a server claims now and did not before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// All claims of each key of which something is new.
    pub claims: Vec<Claim>,
    /// Keys of which nothing is left, ascending; none: the claims are all that it holds.
    pub gone: Option<Vec<Key>>,
}

/// What says which of its keys have changed, and what it holds of them.
pub trait Claimant {
    /// Keys of which it may claim something else than before.
    fn changes(&self) -> usize;
    /// Keys of which it holds something; those of which it holds two things may count twice.
    fn held(&self) -> usize;
    /// What it claims and has not said before. It costs no more than what is new.
    fn news(&mut self) -> News;
}

impl Default for Changes {
    fn default() -> Self {
        Self { keys: BTreeSet::new(), all: true, number: 0 }
    }
}

impl Changes {
    /// Something may be new of that key.
    pub(in crate::store) fn of(&mut self, key: Key) {
        self.number += 1;
        if !self.all {
            self.keys.insert(key);
        }
    }

    /// Something may be new of any key.
    pub(in crate::store) fn of_all(&mut self) {
        self.number += 1;
        self.all = true;
        self.keys.clear();
    }

    /// How many there have ever been.
    pub(in crate::store) const fn number(&self) -> u64 {
        self.number
    }

    /// Keys of which something may be new; all of those `held`, if that is not known.
    pub(in crate::store) fn count(&self, held: usize) -> usize {
        if self.all { held.max(1) } else { self.keys.len() }
    }

    /// All was said now.
    pub(in crate::store) fn clear(&mut self) {
        (self.keys, self.all) = (BTreeSet::new(), false);
    }

    /// The keys that are to be said now; `None`: all.
    pub(in crate::store) fn take(&mut self) -> Option<BTreeSet<Key>> {
        let keys = std::mem::take(&mut self.keys);
        (!std::mem::take(&mut self.all)).then_some(keys)
    }
}

impl News {
    /// All that is held.
    pub(in crate::store) const fn all(claims: Vec<Claim>) -> Self {
        Self { claims, gone: None }
    }

    /// What is new of some keys; `list` adds the claims of one.
    pub(in crate::store) fn of(
        keys: BTreeSet<Key>,
        mut list: impl FnMut(Key, &mut Vec<Claim>),
    ) -> Self {
        let (mut claims, mut gone) = (Vec::new(), Vec::new());
        for key in keys {
            let before = claims.len();
            list(key, &mut claims);
            if claims.len() == before {
                gone.push(key);
            }
        }
        Self { claims, gone: Some(gone) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_new_no_more() {
        let mut changes = Changes::default();
        assert_eq!((changes.count(0), changes.take()), (1, None), "nothing was said yet");
        for key in [5, 3, 5] {
            changes.of(key);
        }
        assert_eq!((changes.count(100), changes.number()), (2, 3));
        let news = News::of(changes.take().unwrap(), |key, claims| {
            claims.extend((key == 3).then(|| Claim { key, ..Claim::default() }));
        });
        let claims = vec![Claim { key: 3, ..Claim::default() }];
        assert_eq!(news, News { claims, gone: Some(vec![5]) });
        assert_eq!(changes.count(100), 0);
        changes.of_all();
        changes.of(3);
        assert_eq!((changes.count(100), changes.take(), changes.count(100)), (100, None, 0));
    }
}
