//! The element types that MXNet's kvstore sends (mshadow's type flags, mshadow/base.h).

use std::fmt;

/// The type of a tensor's elements. The numbers are mshadow's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Dtype {
    /// 32-bit float.
    F32 = 0,
    /// 64-bit float.
    F64 = 1,
    /// 16-bit IEEE float.
    F16 = 2,
    /// Unsigned byte.
    U8 = 3,
    /// 32-bit integer.
    I32 = 4,
    /// Signed byte.
    I8 = 5,
    /// 64-bit integer.
    I64 = 6,
}

impl Dtype {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] =
        [Self::F32, Self::F64, Self::F16, Self::U8, Self::I32, Self::I8, Self::I64];

    /// The type of that number.
    #[must_use]
    pub fn from_number(number: i64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// Bytes of one element.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::F16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }

    /// The name that numpy gives it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::F64 => "float64",
            Self::F16 => "float16",
            Self::U8 => "uint8",
            Self::I32 => "int32",
            Self::I8 => "int8",
            Self::I64 => "int64",
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_mshadows() {
        for (number, dtype) in (0..).zip(Dtype::ALL) {
            assert_eq!(dtype as i64, number);
            assert_eq!(Dtype::from_number(number), Some(dtype));
        }
        assert_eq!((Dtype::from_number(7), Dtype::from_number(-1)), (None, None));
    }
}
