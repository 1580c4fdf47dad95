//! Compressed gradients (MXNet's gradient_compression.h): how the server reads them.
//!
//! MXNet 1.9.1 has one compression: two bits for each number, sixteen numbers in four bytes. `11` stands
//! for the threshold, `10` for minus the threshold, the others for zero; the first number is in the two
//! highest bits of the first byte. (The one-bit compression came after 1.9.1.)

use super::Buffer;
use super::error::StoreError;

/// Numbers in one word of four bytes.
const PER_WORD: usize = 16;
/// Numbers in one byte.
const PER_BYTE: usize = 4;

/// The job's compression.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Compression {
    /// `kSetGradientCompression` never came.
    #[default]
    None,
    /// Two bits for each number.
    TwoBit {
        /// What a number of the gradient is, plus or minus.
        threshold: f32,
    },
}

impl Compression {
    /// From the command's body: the type's number, a comma, the threshold.
    ///
    /// # Errors
    /// It is not that, or another type.
    pub fn read(body: &[u8]) -> Result<Self, StoreError> {
        let text = String::from_utf8_lossy(body);
        let refused = || StoreError::Command(format!("unknown gradient compression {text:?}"));
        let (kind, threshold) = text.split_once(',').ok_or_else(refused)?;
        let threshold = threshold.parse::<f32>().ok().filter(|threshold| *threshold > 0.0);
        match (kind, threshold) {
            ("1", Some(threshold)) => Ok(Self::TwoBit { threshold }),
            _ => Err(refused()),
        }
    }

    /// The gradient of so many numbers, as float32.
    ///
    /// # Errors
    /// There is no compression, or so many numbers have another size.
    pub fn decode(&self, compressed: &[u8], numbers: usize) -> Result<Buffer, StoreError> {
        let Self::TwoBit { threshold } = *self else {
            return Err(StoreError::Malformed("a compressed push, and no compression was set"));
        };
        if compressed.len() != numbers.div_ceil(PER_WORD) * size_of::<f32>() {
            return Err(StoreError::Malformed(
                "the length of a compressed push is not its value's",
            ));
        }
        let values = [0.0, 0.0, -threshold, threshold];
        let mut gradient = Buffer::zeroed(numbers * size_of::<f32>());
        for (four, byte) in gradient.elements_mut::<f32>().chunks_mut(PER_BYTE).zip(compressed) {
            for (at, number) in four.iter_mut().enumerate() {
                *number = values[usize::from(byte >> (6 - 2 * at) & 3)];
            }
        }
        Ok(gradient)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_bits_are_read_from_the_highest() {
        let compression = Compression::read(b"1,0.375000").unwrap();
        let bytes = [0b1110_0001, 0b1100_0000, 0, 0, 0b0000_1100, 0, 0, 0];
        let gradient = compression.decode(&bytes, 19).unwrap();
        let mut expected = [0.0_f32; 19];
        (expected[0], expected[1], expected[4], expected[18]) = (0.375, -0.375, 0.375, 0.375);
        assert_eq!(gradient.elements::<f32>(), expected);
        assert!(compression.decode(&bytes, 16).is_err() && compression.decode(&bytes, 33).is_err());
        assert!(compression.decode(&[], 0).unwrap().is_empty());
    }

    #[test]
    fn other_compressions_are_refused() {
        for body in ["", "1", "1,", "1,x", "1,-1", "1,nan", "2,0.5", "0,0.5", "1bit,0.5"] {
            assert!(Compression::read(body.as_bytes()).is_err(), "{body}");
        }
        assert!(Compression::default().decode(&[0; 4], 16).is_err());
    }
}
