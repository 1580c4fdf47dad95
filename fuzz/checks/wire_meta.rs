//! The reader of a message's metadata: no bytes may make it panic or take much memory. What it
//! reads can be written, and reads as the same again.

use pslite_core::wire::{decode_meta, encode_meta};

/// Whether the bytes were read, and not refused.
pub(crate) fn check(data: &[u8]) -> bool {
    let Ok(meta) = decode_meta(data) else { return false };
    let mut once = Vec::new();
    encode_meta(&meta, &mut once);
    // A name that is no UTF-8 grows when it is replaced, maybe above its limit.
    let Ok(again) = decode_meta(&once) else {
        assert!(once.windows(3).any(|three| three == "\u{fffd}".as_bytes()));
        return true;
    };
    let mut twice = Vec::new();
    encode_meta(&again, &mut twice);
    assert_eq!(once, twice);
    true
}
