//! What a request is about, from its command (kvstore_dist_server.h, DepairDataHandleType): a pair
//! of numbers, by Cantor's pairing, of the kind of request and the type of its elements.

use super::spaces::space_begin;
use super::{Dtype, Form, KvPairs, key_at};
use crate::wire::{Key, Meta};

/// The kind of a request (RequestType).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// One key with all of its elements.
    Default,
    /// Some rows of a matrix: the key, then one key for each row.
    RowSparse,
    /// One key with a compressed gradient, behind a key that says its length.
    Compressed,
}

/// A command that names no known kind and type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownKind(pub i32);

/// Kind and element type of a command.
///
/// # Errors
/// The number is no pair of a known kind and type.
pub fn kind_of(command: i32) -> Result<(RequestKind, Dtype), UnknownKind> {
    let unknown = || UnknownKind(command);
    let pair = i64::from(command);
    if pair < 0 {
        return Err(unknown());
    }
    // The pairs are numbered along the diagonals of equal sum; diagonal w begins at w(w+1)/2.
    let mut diagonal = 0;
    while (diagonal + 1) * (diagonal + 2) / 2 <= pair {
        diagonal += 1;
        if diagonal > 16 {
            return Err(unknown());
        }
    }
    let dtype = pair - diagonal * (diagonal + 1) / 2;
    let kind = match diagonal - dtype {
        0 => RequestKind::Default,
        1 => RequestKind::RowSparse,
        2 => RequestKind::Compressed,
        _ => return Err(unknown()),
    };
    Ok((kind, Dtype::from_number(dtype).ok_or_else(unknown)?))
}

/// The command of that kind and type (GetCommandType).
#[must_use]
pub const fn command_of(kind: RequestKind, dtype: Dtype) -> i32 {
    let first = match kind {
        RequestKind::Default => 0,
        RequestKind::RowSparse => 1,
        RequestKind::Compressed => 2,
    };
    let diagonal = first + dtype as i32;
    diagonal * (diagonal + 1) / 2 + dtype as i32
}

/// How one slice of a request is cut, and which wire key it is about. `first`: the first key of the
/// range that it lies in.
#[must_use]
pub fn form_of(meta: &Meta, kv: &KvPairs, first: Key) -> (Form, Key) {
    let key = |at| key_at(&kv.keys, at).unwrap_or(0);
    match (kind_of(meta.head), kv.key_count()) {
        (Ok((RequestKind::Default, dtype)), 1) => {
            (Form::Dense { size: dtype.size() as u64 }, key(0))
        }
        (Ok((RequestKind::Compressed, _)), 2) if meta.push => {
            // The key in front says how many elements there are, counted from there.
            (Form::TwoBit { first: space_begin(key(1), first) }, key(1))
        }
        // Its answer is as that of a pull of the values.
        (Ok((RequestKind::Compressed, _)), 1) => (Form::Dense { size: 4 }, key(0)),
        _ => (Form::Whole, key(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_those_that_mxnet_sends() {
        // Observed on the wheel.
        assert_eq!(kind_of(0), Ok((RequestKind::Default, Dtype::F32)));
        assert_eq!(kind_of(1), Ok((RequestKind::RowSparse, Dtype::F32)));
        assert_eq!(kind_of(3), Ok((RequestKind::Compressed, Dtype::F32)));
        assert_eq!(kind_of(5), Ok((RequestKind::Default, Dtype::F16)));
    }

    #[test]
    fn every_pair_has_one_number() {
        for kind in [RequestKind::Default, RequestKind::RowSparse, RequestKind::Compressed] {
            for dtype in Dtype::ALL {
                assert_eq!(kind_of(command_of(kind, dtype)), Ok((kind, dtype)));
            }
        }
        for wrong in [-1, 6, i32::MAX, i32::MIN, 1000] {
            assert!(kind_of(wrong).is_err(), "{wrong}");
        }
    }
}
