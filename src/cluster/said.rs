//! What a server has told the scheduler of what it holds, so that it says only what changed since
//! (`docs/elastic.md`, "Claims"). Pure: lists of claims in, differences out, and the scheduler's side of it.

use std::collections::BTreeSet;

use super::types::Difference;
use crate::wire::Key;
use crate::wire::elastic::Claim;

/// Changes that can wait for the next tick wait, while they are fewer than that part of what is held: each word
/// is made by a look at all that is held.
const SHARE: u64 = 8;

/// What was told last.
#[derive(Debug, Default)]
pub struct Said {
    /// Words so far.
    number: u64,
    /// One more than the number of the claims that were told last; 0: none were.
    seen: u64,
    /// By key.
    claims: Vec<Claim>,
}

impl Said {
    /// True if something is to be told. `number` is that of the claims; with `can_wait` there is a tick soon.
    #[must_use]
    pub fn is_due(&self, number: u64, can_wait: bool) -> bool {
        let changes = number.saturating_add(1).abs_diff(self.seen);
        let held = self.claims.len() as u64;
        changes > 0 && (!can_wait || self.seen == 0 || changes > held / SHARE)
    }

    /// Says all, as the answer to a question for claims.
    pub fn all(&mut self, mut claims: Vec<Claim>) -> (Vec<Claim>, Difference) {
        sort(&mut claims);
        self.number += 1;
        self.claims.clone_from(&claims);
        (claims, Difference { number: self.number, since: 0, gone: Vec::new() })
    }

    /// Says what is new since the last word; all, if there was none. `number` is that of the claims.
    pub fn news(&mut self, number: u64, mut claims: Vec<Claim>) -> (Vec<Claim>, Difference) {
        self.seen = number.saturating_add(1);
        if self.number == 0 {
            return self.all(claims);
        }
        sort(&mut claims);
        let (news, gone) = difference(&self.claims, &claims);
        let since = self.number;
        self.number += 1;
        self.claims = claims;
        (news, Difference { number: self.number, since, gone })
    }
}

/// Orders claims by key, and those of a key always alike.
pub(super) fn sort(claims: &mut [Claim]) {
    claims.sort_by_key(|claim| (claim.key, claim.holding, claim.peer, claim.from));
}

/// All claims of those keys of which something is new, and the keys of which nothing is left. A round more is
/// nothing new.
fn difference(before: &[Claim], now: &[Claim]) -> (Vec<Claim>, Vec<Key>) {
    let (mut news, mut gone) = (Vec::new(), Vec::new());
    let by_key = |a: &Claim, b: &Claim| a.key == b.key;
    let mut former = before.chunk_by(by_key).peekable();
    for current in now.chunk_by(by_key) {
        let key = current[0].key;
        while let Some(old) = former.next_if(|old| old[0].key < key) {
            gone.push(old[0].key);
        }
        let same = former.next_if(|old| old[0].key == key).is_some_and(|old| {
            old.len() == current.len() && old.iter().zip(current).all(|(a, b)| is_same(a, b))
        });
        if !same {
            news.extend_from_slice(current);
        }
    }
    gone.extend(former.map(|old| old[0].key));
    (news, gone)
}

fn is_same(a: &Claim, b: &Claim) -> bool {
    Claim { version: b.version, ..*a } == *b
}

/// Takes in a difference; the keys that it is about.
pub(super) fn apply(claims: &mut Vec<Claim>, news: &[Claim], gone: &[Key]) -> BTreeSet<Key> {
    let keys: BTreeSet<Key> =
        news.iter().map(|claim| claim.key).chain(gone.iter().copied()).collect();
    if !keys.is_empty() {
        claims.retain(|claim| !keys.contains(&claim.key));
        claims.extend_from_slice(news);
        sort(claims);
    }
    keys
}

/// The claims of one key, of claims in order.
pub(super) fn of_key(claims: &[Claim], key: Key) -> &[Claim] {
    let from = claims.partition_point(|claim| claim.key < key);
    let to = claims.partition_point(|claim| claim.key <= key);
    &claims[from..to]
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::wire::elastic::{Holding, Word};

    fn claim(key: Key) -> Claim {
        let holding = Holding::Owner as i32;
        let (to, length, term, align) = (10, 10, 1, 16);
        Claim { key, to, length, term, align, holding, bytes: 40, ..Claim::default() }
    }

    /// Bytes of all words, and claims looked at to make them, while a server gets so many keys, one by one.
    fn cost(keys: u64) -> (u64, u64) {
        let (mut said, mut known) = (Said::default(), Vec::new());
        let (mut bytes, mut steps) = (0, 0);
        for number in 0..keys {
            if !said.is_due(number, number + 1 < keys) {
                continue;
            }
            let all: Vec<Claim> = (0..=number).rev().map(claim).collect();
            steps += all.len() as u64;
            let (claims, Difference { number, since, gone }) = said.news(number, all);
            if since == 0 {
                known.clone_from(&claims);
            } else {
                apply(&mut known, &claims, &gone);
            }
            bytes += Word { claims, number, since, gone, ..Word::default() }.encoded_len() as u64;
        }
        assert_eq!(known, (0..keys).map(claim).collect::<Vec<_>>());
        (bytes, steps)
    }

    #[test]
    fn what_new_keys_cost_grows_with_their_number_and_not_with_its_square() {
        let ((bytes, steps), (more_bytes, more_steps)) = (cost(2_000), cost(8_000));
        assert!(more_bytes < bytes * 5, "{bytes} and {more_bytes} bytes");
        assert!(more_steps < steps * 5, "{steps} and {more_steps} claims");
    }

    #[test]
    fn a_difference_makes_the_new_list_of_the_old_one() {
        let mut said = Said::default();
        let (mut known, first) = said.news(0, vec![claim(1), claim(2), claim(3)]);
        assert_eq!(first.since, 0);
        let copy = Claim { holding: Holding::Replica as i32, peer: 8, ..claim(2) };
        let newer = Claim { version: 9, ..claim(3) };
        let (news, next) = said.news(1, vec![newer, copy, claim(2), claim(4)]);
        assert_eq!((next.since, next.gone.as_slice()), (first.number, &[1][..]));
        assert_eq!(news.iter().map(|claim| claim.key).collect::<Vec<_>>(), [2, 2, 4]);
        apply(&mut known, &news, &next.gone);
        assert_eq!(known, [copy, claim(2), claim(3), claim(4)]);
        assert_eq!(of_key(&known, 2), [copy, claim(2)]);
    }
}
