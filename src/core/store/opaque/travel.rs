//! An opaque key as a transfer, and back. What comes is believed only as far as its frames go. May
//! touch what the module may.

use bytes::Bytes;

use super::first_pushes::FirstPushes;
use super::visitors::Visitors;
use super::{Opaque, Owned};
use crate::store::error::StoreError;
use crate::wire::Key;
use crate::wire::elastic::{OPAQUE_END, Transfer, TransferKind};

/// Terms count up from small numbers: none is ever near their end.
const TERMS_MAX: u64 = u64::MAX / 2;
/// Customers of workers that may have pushed to one key.
const MARKS_MAX: usize = 1 << 20;

/// A transfer that says something about a key.
pub(super) fn about(kind: TransferKind, key: Key, term: u64) -> Transfer {
    let (kind, to) = (kind.into(), OPAQUE_END);
    Transfer { kind, key, to, term, length: OPAQUE_END, ..Transfer::default() }
}

/// The key, and either its state or its first pushes.
pub(super) fn write(key: Key, owned: &Owned, state: Option<Bytes>) -> (Transfer, Vec<Bytes>) {
    let mut transfer = about(TransferKind::Move, key, owned.term + 1);
    transfer.marks = owned.marks.to_wire();
    transfer.version = owned.bytes;
    let mut frames = vec![Bytes::copy_from_slice(&key.to_ne_bytes())];
    match state {
        Some(state) => frames.push(state),
        None => {
            let all = owned.first.all();
            transfer.first_pushes = all.iter().map(|kept| kept.push).collect();
            frames.extend(all.iter().flat_map(|kept| &kept.frames).cloned());
        }
    }
    (transfer, frames)
}

impl Opaque {
    /// What a transfer brings, and its state, if the application keeps one.
    pub(super) fn read(
        &self,
        transfer: &Transfer,
        frames: &[Bytes],
    ) -> Result<(Owned, Option<Bytes>), StoreError> {
        let malformed = StoreError::Transfer;
        let Transfer { key, from, to, term, .. } = *transfer;
        if (from, to) != (0, OPAQUE_END) || !(1..TERMS_MAX).contains(&term) {
            return Err(malformed("it is no whole key of an application's handler"));
        }
        if self.view.rank(key).is_none() || transfer.marks.len() > MARKS_MAX {
            return Err(malformed("its key is in no server's range, or it has too many marks"));
        }
        let [own, rest @ ..] = frames else { return Err(malformed("frames are missing")) };
        if own[..] != key.to_ne_bytes() {
            return Err(malformed("its frame of keys has not its key"));
        }
        let mut owned = Owned { term, bytes: transfer.version, ..Owned::default() };
        owned.marks.add(&transfer.marks);
        let state = match (self.config.stateless, rest) {
            (true, rest) => {
                owned.first = FirstPushes::read(&transfer.first_pushes, key, rest)?;
                owned.visitors = Visitors::of(owned.first.customers().into_iter());
                None
            }
            (false, [state]) if transfer.first_pushes.is_empty() => Some(state.clone()),
            _ => {
                return Err(malformed(
                    "only one of the two servers keeps something between rounds",
                ));
            }
        };
        Ok((owned, state))
    }
}
