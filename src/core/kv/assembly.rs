//! Puts the servers' answers to one pull together: the checks and the order of stock's pull
//! completion (kv_app.h:657-717), with errors instead of aborts.
//!
//! Pure; copies nothing: the caller copies the parts to where its user wants them. Lens are passed
//! through and never compared with values: MXNet's row_sparse answers count elements in lens while
//! their values are bytes.

use super::KvError;
use crate::values::{KEY_SIZE, KvPairs, LEN_SIZE, key_at, lower_bound};
use crate::wire::Key;
use bytes::Bytes;
use smallvec::SmallVec;

/// A complete answer, in the order of the request's keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assembled {
    /// Bytes of values in all parts.
    pub total_vals: usize,
    /// Bytes of lens in all parts; 0 if they were not asked for.
    pub total_lens: usize,
    /// The values, part by part.
    pub vals: Vec<Bytes>,
    /// The lens, part by part; none if they were not asked for.
    pub lens: Vec<Bytes>,
}

/// The answers to one pull so far. The caller adds at most one part per server asked.
#[derive(Clone, Debug)]
pub struct PullAssembly {
    keys: Bytes,
    /// With the values that are not in one piece with the part's own.
    parts: SmallVec<[(KvPairs, Vec<Bytes>); 4]>,
}

impl PullAssembly {
    /// An assembly for the pull of these keys.
    #[must_use]
    pub fn new(keys: Bytes) -> Self {
        Self { keys, parts: SmallVec::new() }
    }

    /// Adds one server's answer; `more`: further values, behind the part's own. Checks wait for
    /// [`Self::finish`], as in stock.
    pub fn add(&mut self, part: KvPairs, more: Vec<Bytes>) {
        self.parts.push((part, more));
    }

    /// How many answers are here.
    pub(super) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Checks and orders the parts.
    ///
    /// # Errors
    /// If a part has no keys, has keys that were not asked for, lacks lens that the caller wants,
    /// or the parts do not cover the request.
    pub fn finish(mut self, want_lens: bool) -> Result<Assembled, KvError> {
        let key = key_at(&self.keys, 0).unwrap_or(0);
        let expected = self.keys.len() / KEY_SIZE;
        for (part, _) in &self.parts {
            check_part(part, want_lens, key, expected)?;
        }
        // Nearly every pull of MXNet asks one server for one key.
        let whole = matches!(&self.parts[..], [(only, _)] if only.keys == self.keys);
        if !whole {
            self.parts.sort_by_key(|(part, _)| key_at(&part.keys, 0));
            self.check_cover(key, expected)?;
        }
        Ok(self.gather(want_lens))
    }

    /// Each part must have as many keys as the request has in its span, and the spans must follow
    /// each other from the first key of the request to the last.
    fn check_cover(&self, key: Key, expected: usize) -> Result<(), KvError> {
        let mut covered = 0;
        let mut gap = false;
        for (part, _) in &self.parts {
            let found = part.key_count();
            let (begin, end) = span(&self.keys, part);
            if end.saturating_sub(begin) != found {
                return Err(KvError::UnmatchedKeys {
                    key: key_at(&part.keys, 0).unwrap_or(0),
                    found,
                    expected: end.saturating_sub(begin),
                });
            }
            gap |= begin != covered;
            covered += found;
        }
        if gap || covered != expected {
            return Err(KvError::MissingKeys { key, found: covered, expected });
        }
        Ok(())
    }

    fn gather(self, want_lens: bool) -> Assembled {
        let mut assembled =
            Assembled { vals: Vec::with_capacity(self.parts.len()), ..Assembled::default() };
        for (part, more) in self.parts {
            for vals in std::iter::once(part.vals).chain(more) {
                assembled.total_vals += vals.len();
                assembled.vals.push(vals);
            }
            if want_lens {
                assembled.total_lens += part.lens.len();
                assembled.lens.push(part.lens);
            }
        }
        assembled
    }
}

/// The indices in `keys` of the span from the part's first key to its last (range.h FindRange).
fn span(keys: &Bytes, part: &KvPairs) -> (usize, usize) {
    let first = key_at(&part.keys, 0).unwrap_or(0);
    let last = key_at(&part.keys, part.key_count().saturating_sub(1)).unwrap_or(0);
    let end = last.checked_add(1).map_or(keys.len() / KEY_SIZE, |next| lower_bound(keys, next));
    (lower_bound(keys, first), end)
}

/// What must hold for a part on its own.
fn check_part(part: &KvPairs, want_lens: bool, key: Key, asked: usize) -> Result<(), KvError> {
    let (bytes, element) = (part.keys.len(), KEY_SIZE);
    if !bytes.is_multiple_of(element) {
        return Err(KvError::ShapeMismatch { frame: "keys", key, bytes, element });
    }
    let Some(first) = key_at(&part.keys, 0) else {
        return Err(KvError::EmptyPart { key, keys: asked });
    };
    if want_lens {
        let (keys, lens) = (part.key_count(), part.lens.len() / LEN_SIZE);
        if lens != keys || !part.lens.len().is_multiple_of(LEN_SIZE) {
            return Err(KvError::LensMismatch { key: first, keys, lens });
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "assembly_tests.rs"]
mod tests;
