//! The readers of BytePS's metadata: no bytes may make one panic or take much memory. What it reads
//! can be written, and reads as the same again. The first byte says which of the two.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pslite_core::wire::Dialect;

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else { return };
    let dialect = if choice % 2 == 0 { Dialect::Byteps025 } else { Dialect::Byteps };
    let Ok(meta) = dialect.decode(bytes) else { return };
    let mut again = Vec::new();
    dialect.encode(&meta, &[], &mut again);
    assert_eq!(dialect.decode(&again), Ok(meta));
});
