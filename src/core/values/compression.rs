//! MXNet's 2-bit gradient compression (src/kvstore/gradient_compression*, version 1.9.1): what a
//! server undoes, and what a worker does.
//!
//! A worker sends a sign or nothing for each element and keeps what it did not send, the residual,
//! for the next time. Sixteen elements make one word of four bytes, the first in the highest two
//! bits of the first byte: `11` is the threshold, `10` its negative, the others are zero. Only
//! `float32` is compressed. Version 1.9.1 has no 1-bit compression: its server ends the process
//! over that type.

use thiserror::Error;

/// Elements in a word.
const WORD_ELEMENTS: usize = 16;
/// Bytes of a word.
const WORD_BYTES: usize = 4;
/// Elements in a byte.
const BYTE_ELEMENTS: usize = 4;
/// The code of an element at the threshold or above.
const POSITIVE: u8 = 0b11;
/// The code of an element at the negative threshold or below.
const NEGATIVE: u8 = 0b10;
/// The threshold of a command that has none.
const THRESHOLD_DEFAULT: f32 = 0.5;
/// The longest body of the command that sets compression, in bytes. A threshold that
/// `std::to_string` writes has at most 47.
pub const BODY_BYTES_MAX: usize = 256;

/// Why something is no compression.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CompressionError {
    /// The body of the command is malformed, or its threshold no finite number.
    #[error("the command to compress gradients is malformed")]
    Malformed,
    /// A type other than none and 2-bit.
    #[error("gradient compression of type {0} is unknown: MXNet 1.9.1 has 0 (none) and 1 (2bit)")]
    UnknownType(i32),
    /// The compressed bytes are not those of that many elements.
    #[error("{elements} elements do not compress to {bytes} bytes")]
    Length {
        /// Elements when not compressed.
        elements: usize,
        /// Bytes when compressed.
        bytes: usize,
    },
}

/// What the workers told the servers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Compression {
    /// Gradients come as they are.
    #[default]
    None,
    /// 2-bit compression.
    TwoBit(TwoBit),
}

impl Compression {
    /// Reads the body of the command `kSetGradientCompression`: the type's number, and after a
    /// comma the threshold (`GradientCompression::DecodeParams`).
    ///
    /// # Errors
    /// The body is malformed, where stock ends the process, or of an unknown type, over which stock
    /// ends it at the first compressed push.
    pub fn from_body(body: &[u8]) -> Result<Self, CompressionError> {
        if body.len() > BODY_BYTES_MAX {
            return Err(CompressionError::Malformed);
        }
        let text = std::str::from_utf8(body).map_err(|_| CompressionError::Malformed)?;
        let mut fields = text.split(',').map(str::trim);
        let number = fields.next().unwrap_or_default();
        match number.parse().map_err(|_| CompressionError::Malformed)? {
            0 => Ok(Self::None),
            1 => {
                let threshold = match fields.next().unwrap_or_default() {
                    "" => THRESHOLD_DEFAULT,
                    field => field.parse().map_err(|_| CompressionError::Malformed)?,
                };
                TwoBit::new(threshold).map(Self::TwoBit)
            }
            other => Err(CompressionError::UnknownType(other)),
        }
    }

    /// The body that a worker sends. Six digits after the point, as stock: a threshold below a
    /// millionth becomes 0 for the servers.
    #[must_use]
    pub fn to_body(self) -> String {
        match self {
            Self::None => "0".to_owned(),
            Self::TwoBit(two_bit) => format!("1,{:.6}", two_bit.threshold),
        }
    }
}

/// 2-bit compression with its threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoBit {
    threshold: f32,
}

impl TwoBit {
    /// With that threshold. Zero and negative numbers are allowed, since stock allows them.
    ///
    /// # Errors
    /// The threshold is not finite.
    pub fn new(threshold: f32) -> Result<Self, CompressionError> {
        if threshold.is_finite() {
            Ok(Self { threshold })
        } else {
            Err(CompressionError::Malformed)
        }
    }

    /// The threshold.
    #[must_use]
    pub const fn threshold(self) -> f32 {
        self.threshold
    }

    /// Bytes of that many elements when compressed: whole words.
    #[must_use]
    pub const fn compressed_bytes(elements: usize) -> usize {
        elements.div_ceil(WORD_ELEMENTS).saturating_mul(WORD_BYTES)
    }

    /// Writes the gradients that `compressed` stands for.
    ///
    /// # Errors
    /// The lengths do not belong together; nothing was written.
    pub fn decompress(self, compressed: &[u8], into: &mut [f32]) -> Result<(), CompressionError> {
        self.each(compressed, into, |into, value| *into = value)
    }

    /// Adds the gradients that `compressed` stands for: the same as to decompress and then to add.
    ///
    /// # Errors
    /// The lengths do not belong together; nothing was added.
    pub fn add(self, compressed: &[u8], into: &mut [f32]) -> Result<(), CompressionError> {
        self.each(compressed, into, |into, value| *into += value)
    }

    fn each(
        self,
        compressed: &[u8],
        into: &mut [f32],
        job: impl Fn(&mut f32, f32),
    ) -> Result<(), CompressionError> {
        check_length(compressed, into.len())?;
        let table = self.table();
        let (whole, rest) = into.as_chunks_mut::<BYTE_ELEMENTS>();
        // The last byte may stand for fewer elements; bytes after it fill up the word.
        let (full, last) = compressed.split_at_checked(whole.len()).unwrap_or((compressed, &[]));
        for (into, byte) in whole.iter_mut().zip(full) {
            for (into, value) in into.iter_mut().zip(table[usize::from(*byte)]) {
                job(into, value);
            }
        }
        let last = last.first().copied().unwrap_or_default();
        for (into, value) in rest.iter_mut().zip(table[usize::from(last)]) {
            job(into, value);
        }
        Ok(())
    }

    /// The elements that each byte stands for: four kilobytes, which stay in the first-level cache.
    fn table(self) -> [[f32; BYTE_ELEMENTS]; 256] {
        std::array::from_fn(|byte| {
            std::array::from_fn(|place| match (byte >> shift(place)) as u8 & 0b11 {
                POSITIVE => self.threshold,
                NEGATIVE => -self.threshold,
                _ => 0.0,
            })
        })
    }

    /// Compresses a gradient. What is not sent stays in `residual`, to which the gradient is added
    /// first.
    ///
    /// # Errors
    /// The lengths do not belong together; nothing was written.
    pub fn compress(
        self,
        gradient: &[f32],
        residual: &mut [f32],
        into: &mut [u8],
    ) -> Result<(), CompressionError> {
        check_length(into, gradient.len())?;
        if residual.len() != gradient.len() {
            return Err(CompressionError::Length {
                elements: residual.len(),
                bytes: size_of_val(gradient),
            });
        }
        into.fill(0);
        let elements = gradient.chunks(BYTE_ELEMENTS).zip(residual.chunks_mut(BYTE_ELEMENTS));
        for (into, (gradient, residual)) in into.iter_mut().zip(elements) {
            for (place, (gradient, residual)) in gradient.iter().zip(residual).enumerate() {
                *into |= self.code(*gradient, residual) << shift(place);
            }
        }
        Ok(())
    }

    fn code(self, gradient: f32, residual: &mut f32) -> u8 {
        *residual += gradient;
        if *residual >= self.threshold {
            *residual -= self.threshold;
            POSITIVE
        } else if *residual <= -self.threshold {
            *residual += self.threshold;
            NEGATIVE
        } else {
            0
        }
    }
}

/// How far an element's code lies from the low end of its byte.
const fn shift(place: usize) -> usize {
    6 - 2 * place
}

fn check_length(compressed: &[u8], elements: usize) -> Result<(), CompressionError> {
    if TwoBit::compressed_bytes(elements) == compressed.len() {
        Ok(())
    } else {
        Err(CompressionError::Length { elements, bytes: compressed.len() })
    }
}

#[cfg(test)]
#[path = "compression_tests.rs"]
mod tests;
