//! The body of the command that sets gradient compression, and compressed bytes of any length.

use pslite_core::values::compression::Compression;

/// Whether the bytes were read, and not refused.
pub(crate) fn check(data: &[u8]) -> bool {
    // The body, then after a line's end the bytes of a push.
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let (body, push) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Ok(compression) = Compression::from_body(body) else { return false };
    let told = compression.to_body();
    let again = Compression::from_body(told.as_bytes()).expect("what is written can be read");
    assert_eq!(again.to_body(), told);
    if let Compression::TwoBit(two_bit) = compression {
        for elements in [0, 1, 15, 16, 17, 4 * push.len()] {
            let mut into = vec![f32::NAN; elements];
            if two_bit.decompress(push, &mut into).is_ok() {
                let threshold = two_bit.threshold();
                assert!(into.iter().all(|value| [0.0, threshold, -threshold].contains(value)));
            }
        }
    }
    true
}
