//! The reader of what is asked over HTTP: no bytes may make it panic, and what was decided of a
//! request is not decided otherwise if more follows.

use pslite_web::read_head;

/// Whether the bytes are a request, and not refused.
pub(crate) fn check(data: &[u8]) -> bool {
    let whole = read_head(data);
    let half = data.get(..data.len() / 2).unwrap_or_default();
    let decided = read_head(half);
    assert!(decided.is_none() || decided == whole);
    whole == Some(true)
}
