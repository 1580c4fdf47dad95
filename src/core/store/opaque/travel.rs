//! An opaque key as a transfer, and back. What comes is believed only as far as its frames go. May
//! touch what the module may.

use bytes::Bytes;

use super::first_pushes::FirstPushes;
use super::visitors::Visitors;
use super::{Opaque, Owned};
use crate::store::error::StoreError;
use crate::wire::Key;
use crate::wire::transfer::{OpaqueKey, PieceName};

/// Terms count up from small numbers: none is ever near their end.
const TERMS_MAX: u64 = u64::MAX / 2;
/// Customers of workers that may have pushed to one key.
const MARKS_MAX: usize = 1 << 20;

/// The key, and either its state or its first pushes.
pub(super) fn write(key: Key, owned: &Owned, state: Option<Bytes>) -> (OpaqueKey, Vec<Bytes>) {
    let mut opaque = OpaqueKey {
        piece: PieceName::opaque(key, owned.term + 1),
        bytes: owned.bytes,
        marks: owned.marks.to_wire(),
        first_pushes: Vec::new(),
    };
    let mut frames = vec![Bytes::copy_from_slice(&key.to_ne_bytes())];
    match state {
        Some(state) => frames.push(state),
        None => {
            let all = owned.first.all();
            opaque.first_pushes = all.iter().map(|kept| kept.push).collect();
            frames.extend(all.iter().flat_map(|kept| &kept.frames).cloned());
        }
    }
    (opaque, frames)
}

impl Opaque {
    /// What a transfer brings, and its state, if the application keeps one.
    pub(super) fn read(
        &self,
        opaque: &OpaqueKey,
        frames: &[Bytes],
    ) -> Result<(Owned, Option<Bytes>), StoreError> {
        let malformed = StoreError::Transfer;
        let PieceName { key, term, .. } = opaque.piece;
        if !(1..TERMS_MAX).contains(&term) {
            return Err(malformed("its term is impossible"));
        }
        if self.view.rank(key).is_none() || opaque.marks.len() > MARKS_MAX {
            return Err(malformed("its key is in no server's range, or it has too many marks"));
        }
        let [own, rest @ ..] = frames else { return Err(malformed("frames are missing")) };
        if own[..] != key.to_ne_bytes() {
            return Err(malformed("its frame of keys has not its key"));
        }
        let mut owned = Owned { term, bytes: opaque.bytes, ..Owned::default() };
        owned.marks.add(&opaque.marks);
        let state = match (self.config.stateless, rest) {
            (true, rest) => {
                owned.first = FirstPushes::read(&opaque.first_pushes, key, rest)?;
                owned.visitors = Visitors::of(owned.first.customers().into_iter());
                None
            }
            (false, [state]) if opaque.first_pushes.is_empty() => Some(state.clone()),
            _ => {
                return Err(malformed(
                    "only one of the two servers keeps something between rounds",
                ));
            }
        };
        Ok((owned, state))
    }
}
