//! How the values of a slice are cut at elements.
//!
//! Pure; never copies values. The forms are those that MXNet sends (docs/mxnet.md).

use bytes::Bytes;

use super::pairs::{KvPairs, key_at};
use crate::wire::Key;

/// Elements of a compressed word: 2 bits each, in 4 bytes.
const ELEMENTS_OF_A_WORD: u64 = 16;
/// Bytes of a compressed word.
const WORD: u64 = 4;

/// How the values of one slice are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One key, with elements of that many bytes.
    Dense {
        /// Bytes of an element, at least 1.
        size: u64,
    },
    /// MXNet's compressed push: a key that says how many elements there are, counted from the first
    /// key of the range, then the key itself, with 2 bits for each element.
    TwoBit {
        /// The first key of the range.
        first: Key,
    },
    /// Something that is never cut: rows, or several keys.
    Whole,
}

/// Why the values of a slice cannot be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// They are not those of all pieces of a key.
    Pieces {
        /// The key.
        key: Key,
        /// Bytes of all of its pieces.
        expected: u64,
        /// Bytes that there are.
        got: usize,
    },
    /// There are fewer values than those asked for.
    Vals {
        /// The key.
        key: Key,
        /// Bytes needed.
        needed: usize,
        /// Bytes there.
        have: usize,
    },
}

impl Form {
    /// A push of a key that is cut must have the values of all pieces, which end at `to`: what is
    /// sent of them says nothing of the rest.
    ///
    /// # Errors
    /// It has more, or fewer.
    pub(crate) fn check(self, kv: &KvPairs, key: Key, to: u64) -> Result<(), Misfit> {
        let (expected, got) = match self {
            Self::Whole => return Ok(()),
            Self::Dense { size } => (to.saturating_mul(size), kv.vals.len()),
            Self::TwoBit { .. } => {
                (to.div_ceil(ELEMENTS_OF_A_WORD).saturating_mul(WORD), kv.vals.len())
            }
        };
        if expected == got as u64 { Ok(()) } else { Err(Misfit::Pieces { key, expected, got }) }
    }

    /// Bytes of the key's values, as a pull brings them, by what a push has of them; `None`: it has
    /// not one key with all of its elements.
    pub(crate) fn value_bytes(self, kv: &KvPairs) -> Option<usize> {
        match self {
            Self::Dense { .. } => Some(kv.vals.len()),
            // 2 bits for each element of 4 bytes. The last word may say less.
            Self::TwoBit { first } => {
                let elements = key_at(&kv.keys, 0)?.checked_sub(first)?;
                usize::try_from(elements).ok()?.checked_mul(WORD as usize)
            }
            Self::Whole => None,
        }
    }

    /// The part `[from, to)` of a slice; `to` 0: all of it.
    ///
    /// # Errors
    /// There are no such values in it.
    pub(crate) fn cut(
        self,
        kv: &KvPairs,
        push: bool,
        from: u64,
        to: u64,
    ) -> Result<KvPairs, Misfit> {
        // One without any value is one place with nothing in it (docs/elastic.md).
        if to == 0 || !push || kv.vals.is_empty() {
            return Ok(kv.clone());
        }
        match self {
            Self::Whole => Ok(kv.clone()),
            Self::Dense { size } => {
                let vals = part(kv, from.checked_mul(size), to.checked_mul(size))?;
                let lens = one_len(vals.len());
                Ok(KvPairs { keys: kv.keys.clone(), vals, lens })
            }
            Self::TwoBit { first } => {
                let begin = Some(from / ELEMENTS_OF_A_WORD * WORD);
                let end = to.div_ceil(ELEMENTS_OF_A_WORD).checked_mul(WORD);
                let vals = part(kv, begin, end)?;
                let key = key_at(&kv.keys, 1).unwrap_or(0);
                let keys = [first.wrapping_add(to.saturating_sub(from)), key];
                let lens = [0, vals.len() as i32];
                Ok(KvPairs {
                    keys: Bytes::copy_from_slice(bytemuck::cast_slice(&keys)),
                    vals,
                    lens: Bytes::copy_from_slice(bytemuck::cast_slice(&lens)),
                })
            }
        }
    }
}

/// The frame of lens of one value.
pub(crate) fn one_len(bytes: usize) -> Bytes {
    Bytes::copy_from_slice(&(bytes as i32).to_ne_bytes())
}

fn part(kv: &KvPairs, from: Option<u64>, to: Option<u64>) -> Result<Bytes, Misfit> {
    let have = kv.vals.len();
    let key = key_at(&kv.keys, kv.key_count().saturating_sub(1)).unwrap_or(0);
    let at = |at: Option<u64>| at.and_then(|at| usize::try_from(at).ok()).unwrap_or(usize::MAX);
    let (from, to) = (at(from), at(to));
    if from > to || to > have {
        return Err(Misfit::Vals { key, needed: to, have });
    }
    Ok(kv.vals.slice(from..to))
}
