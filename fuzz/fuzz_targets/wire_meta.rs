//! The reader of a message's metadata: no bytes may make it panic or take much memory. What it
//! reads can be written, and reads as the same again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pslite_core::wire::{decode_meta, encode_meta};

fuzz_target!(|data: &[u8]| {
    let Ok(meta) = decode_meta(data) else { return };
    let mut once = Vec::new();
    encode_meta(&meta, &mut once);
    // A name that is no UTF-8 grows when it is replaced, maybe above its limit.
    let Ok(again) = decode_meta(&once) else {
        assert!(once.windows(3).any(|three| three == "\u{fffd}".as_bytes()));
        return;
    };
    let mut twice = Vec::new();
    encode_meta(&again, &mut twice);
    assert_eq!(once, twice);
});
