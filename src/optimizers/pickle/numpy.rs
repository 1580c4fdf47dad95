//! numpy's scalars: `numpy.core.multiarray.scalar(dtype, bytes)`.

use half::f16;

use super::error::PickleError;
use super::node::PickleNode;

/// The longest type name in an error, in bytes.
const SHOWN_TYPE_BYTES_MAX: usize = 32;

/// The type of a scalar: kind, bytes and their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scalar {
    kind: NumpyKind,
    size: usize,
    big_endian: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumpyKind {
    Bool,
    Signed,
    Unsigned,
    Float,
}

impl Scalar {
    /// The type of a name such as `f4`.
    pub(super) fn from_name(name: &str) -> Result<Self, PickleError> {
        let (kind, size) = match name {
            "b1" => (NumpyKind::Bool, 1),
            "i1" => (NumpyKind::Signed, 1),
            "i2" => (NumpyKind::Signed, 2),
            "i4" => (NumpyKind::Signed, 4),
            "i8" => (NumpyKind::Signed, 8),
            "u1" => (NumpyKind::Unsigned, 1),
            "u2" => (NumpyKind::Unsigned, 2),
            "u4" => (NumpyKind::Unsigned, 4),
            "u8" => (NumpyKind::Unsigned, 8),
            "f2" => (NumpyKind::Float, 2),
            "f4" => (NumpyKind::Float, 4),
            "f8" => (NumpyKind::Float, 8),
            _ => {
                let shown = name.chars().take(SHOWN_TYPE_BYTES_MAX).flat_map(char::escape_debug);
                return Err(PickleError::NumpyType(shown.collect()));
            }
        };
        Ok(Self { kind, size, big_endian: false })
    }

    /// Sets the order of bytes: `<`, `>`, `|` (none) or `=` (the sender's, taken as `<`).
    pub(super) fn set_order(&mut self, order: &str) -> Result<(), PickleError> {
        self.big_endian = match order {
            "<" | "|" | "=" => false,
            ">" => true,
            _ => return Err(PickleError::Malformed("numpy byte order")),
        };
        Ok(())
    }

    /// The number in these bytes. Floats become 64 bits, which holds each of them exactly.
    pub(super) fn read(self, bytes: &[u8]) -> Result<PickleNode, PickleError> {
        if bytes.len() != self.size {
            return Err(PickleError::Malformed("numpy scalar"));
        }
        let mut word = [0_u8; 8];
        for (index, byte) in bytes.iter().enumerate() {
            word[if self.big_endian { self.size - 1 - index } else { index }] = *byte;
        }
        let bits = u64::from_le_bytes(word);
        Ok(match self.kind {
            NumpyKind::Bool => PickleNode::Bool(bits != 0),
            NumpyKind::Unsigned => {
                PickleNode::Int(i64::try_from(bits).map_err(|_| PickleError::IntegerTooLarge)?)
            }
            NumpyKind::Signed => {
                // Moved up and down again, the sign fills the word.
                let unused = 64 - 8 * self.size as u32;
                PickleNode::Int((bits << unused) as i64 >> unused)
            }
            NumpyKind::Float => PickleNode::Float(match self.size {
                2 => f16::from_bits(bits as u16).to_f64(),
                4 => f64::from(f32::from_bits(bits as u32)),
                _ => f64::from_bits(bits),
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, order: &str, bytes: &[u8]) -> Result<PickleNode, PickleError> {
        let mut scalar = Scalar::from_name(name)?;
        scalar.set_order(order)?;
        scalar.read(bytes)
    }

    #[test]
    fn numbers_of_every_kind() {
        assert_eq!(
            read("f4", "<", &0.1_f32.to_le_bytes()),
            Ok(PickleNode::Float(f64::from(0.1_f32)))
        );
        assert_eq!(read("f8", ">", &0.1_f64.to_be_bytes()), Ok(PickleNode::Float(0.1)));
        assert_eq!(read("f2", "<", &[0x00, 0x3c]), Ok(PickleNode::Float(1.0)));
        assert_eq!(read("i2", ">", &(-2_i16).to_be_bytes()), Ok(PickleNode::Int(-2)));
        assert_eq!(read("i8", "=", &i64::MIN.to_le_bytes()), Ok(PickleNode::Int(i64::MIN)));
        assert_eq!(read("u1", "|", &[255]), Ok(PickleNode::Int(255)));
        assert_eq!(read("b1", "|", &[1]), Ok(PickleNode::Bool(true)));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        assert_eq!(read("u8", "<", &[0xff; 8]), Err(PickleError::IntegerTooLarge));
        assert_eq!(read("f4", "<", &[0; 8]), Err(PickleError::Malformed("numpy scalar")));
        assert_eq!(read("f4", "x", &[0; 4]), Err(PickleError::Malformed("numpy byte order")));
        assert_eq!(read("O8", "|", &[0; 8]), Err(PickleError::NumpyType("O8".into())));
        let Err(PickleError::NumpyType(shown)) = Scalar::from_name(&"\n".repeat(1000)) else {
            panic!("no error");
        };
        assert!(shown.len() < 100);
    }
}
