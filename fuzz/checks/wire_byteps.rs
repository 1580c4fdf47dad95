//! The readers of BytePS's metadata: no bytes may make one panic or take much memory. What it reads
//! can be written, and reads as the same again. The first byte says which of the two.

use pslite_core::wire::Dialect;

/// Whether the bytes were read, and not refused.
pub(crate) fn check(data: &[u8]) -> bool {
    let Some((choice, bytes)) = data.split_first() else { return false };
    let dialect = if choice % 2 == 0 { Dialect::Byteps025 } else { Dialect::Byteps };
    let Ok(meta) = dialect.decode(bytes) else { return false };
    let mut again = Vec::new();
    dialect.encode(&meta, &[], &mut again);
    assert_eq!(dialect.decode(&again), Ok(meta));
    true
}
