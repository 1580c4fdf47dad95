//! The frame in which the two ends of a connection greet each other.

use pslite_core::wire::native::{Header, Kind};

/// The frame of a greeting.
pub(super) fn greeting(kind: Kind, content: &[u8]) -> Vec<u8> {
    let header = Header { meta_len: content.len() as u32, ..Header::new(kind) };
    let mut bytes = header.encode().to_vec();
    bytes.extend_from_slice(content);
    bytes
}
