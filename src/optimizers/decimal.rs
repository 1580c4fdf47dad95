//! How a number of a Python optimizer reaches MXNet's operators.
//!
//! Python hands every parameter over as text (`repr`), and the operator reads the text back. Two
//! readers exist, and they differ in the last bit for one value in seven: lists of floats are read
//! by the C++ stream operator (rounded correctly), single floats by dmlc-core's own parser
//! (dmlc/strtonum.h, `ParseFloat`), which rounds after the point, and once more for the exponent.
//! Results can be equal to the last bit only if the parameters are.

use std::fmt::{self, Write as _};

/// The longest text of a double: sign, 17 digits, point, exponent; in plain notation 4 zeros more.
const TEXT_BYTES_MAX: usize = 32;
/// Digits after the point that dmlc-core reads (`kStrtofMaxDigits`).
const DIGITS_READ: usize = 19;
/// `repr` writes an exponent below 1e-4 and from 1e16 on.
const PLAIN_EXPONENTS: std::ops::Range<i32> = -4..16;

/// The value that an operator's single parameter of type `float` gets.
pub(super) fn parameter(value: f64) -> f32 {
    if !value.is_finite() {
        return value as f32;
    }
    let parts = NumberText::of(value);
    let mut read = parts.before as f32;
    read += (parts.after as f64 / parts.scale as f64) as f32;
    let scale = power_of_ten(parts.exponent.unsigned_abs(), 1e8_f32, 10.0_f32);
    read = if parts.exponent < 0 { read / scale } else { read * scale };
    if value.is_sign_negative() { -read } else { read }
}

/// The value that an operator's single parameter of type `double` gets.
pub(super) fn double_parameter(value: f64) -> f64 {
    if !value.is_finite() {
        return value;
    }
    let parts = NumberText::of(value);
    let mut read = parts.before as f64;
    read += parts.after as f64 / parts.scale as f64;
    let scale = power_of_ten(parts.exponent.unsigned_abs(), 1e8_f64, 10.0_f64);
    read = if parts.exponent < 0 { read / scale } else { read * scale };
    if value.is_sign_negative() { -read } else { read }
}

/// The value that an element of a list of floats gets: the nearest one to the text.
pub(super) fn list_element(value: f64) -> f32 {
    let mut text = Text::default();
    // Display of a double is its shortest text, as `repr` is; only the place of the point differs.
    match write!(text, "{value:e}") {
        Ok(()) => text.as_str().parse().unwrap_or(value as f32),
        Err(fmt::Error) => value as f32,
    }
}

fn power_of_ten<T: std::ops::MulAssign + Copy + From<u8>>(mut exponent: u32, big: T, ten: T) -> T {
    let mut scale = T::from(1);
    while exponent >= 8 {
        scale *= big;
        exponent -= 8;
    }
    while exponent > 0 {
        scale *= ten;
        exponent -= 1;
    }
    scale
}

/// What dmlc-core's parser sees in the text of a number.
struct NumberText {
    /// The digits before the point, as a number.
    before: u64,
    /// The digits after it, as a number.
    after: u64,
    /// Ten to the power of how many digits those are.
    scale: u64,
    /// What follows the `e`.
    exponent: i32,
}

impl NumberText {
    fn of(value: f64) -> Self {
        let mut text = Text::default();
        // Never fails: a double's shortest digits fit.
        let _ = write!(text, "{:e}", value.abs());
        let (mantissa, exponent) = text.as_str().split_once('e').unwrap_or(("0", "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let digits = mantissa.bytes().filter(u8::is_ascii_digit).map(|digit| digit - b'0');
        let plain = PLAIN_EXPONENTS.contains(&exponent);
        // Where the point stands: digits before it, possibly a negative number of them.
        let point = if plain { exponent + 1 } else { 1 };
        let mut parts =
            Self { before: 0, after: 0, scale: 1, exponent: if plain { 0 } else { exponent } };
        let mut after = 0;
        for _ in point..0 {
            parts.push_after(0, &mut after);
        }
        let mut place = 0;
        for digit in digits {
            if place < point {
                parts.push_before(digit);
            } else {
                parts.push_after(digit, &mut after);
            }
            place += 1;
        }
        // "100": the zeros that the shortest digits leave out.
        for _ in place..point {
            parts.push_before(0);
        }
        parts
    }

    fn push_before(&mut self, digit: u8) {
        self.before = self.before.wrapping_mul(10).wrapping_add(u64::from(digit));
    }

    fn push_after(&mut self, digit: u8, read: &mut usize) {
        if *read < DIGITS_READ {
            self.after = self.after * 10 + u64::from(digit);
            self.scale *= 10;
        }
        *read += 1;
    }
}

/// Text on the stack: an update must not allocate.
#[derive(Default)]
struct Text {
    bytes: [u8; TEXT_BYTES_MAX],
    len: usize,
}

impl Text {
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or("")
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_numbers_are_read_right() {
        for value in [0.0, 1.0, 0.1, 0.9, 0.999, 1e-8, 1e-5, 100.0, 0.25, 1e16, 1e-4, -0.5, 3e20] {
            assert_eq!(parameter(value), value as f32, "{value}");
            assert_eq!(list_element(value), value as f32, "{value}");
            assert_eq!(double_parameter(value), value, "{value}");
        }
    }

    /// Values whose last bit differs, observed in the stock wheel: `sgd_update` with a weight of 0
    /// and a gradient of -1 returns its learning rate.
    #[test]
    fn long_numbers_are_read_as_by_dmlc() {
        for (value, bits) in [
            (2.766463e-07, 0x3494_85fb),
            (1.839948e-06, 0x35f6_f421),
            (1.8066717762043165e-06, 0x35f2_7cc6),
            (8.394798821720923e-07, 0x3561_589f),
        ] {
            assert_eq!(parameter(value).to_bits(), bits, "{value}");
            assert_ne!(list_element(value).to_bits(), bits, "{value}");
        }
    }

    #[test]
    fn extremes_do_not_panic() {
        for value in [f64::MAX, f64::MIN_POSITIVE, 5e-324, f64::INFINITY, f64::NAN, 1e22, -1e300] {
            let _ = (parameter(value), double_parameter(value), list_element(value));
        }
    }
}
