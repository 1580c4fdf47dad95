//! The bytes of a pickle: numbers, counted bytes, lines, texts.

use super::error::PickleError;
use super::limits::{LINE_BYTES_MAX, TEXT_BYTES_MAX};

type Result<T> = std::result::Result<T, PickleError>;

/// What is left to read.
pub(super) struct PickleInput<'a>(pub(super) &'a [u8]);

impl<'a> PickleInput<'a> {
    /// The next bytes.
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count).ok_or(PickleError::Truncated)?;
        self.0 = tail;
        Ok(head)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk().ok_or(PickleError::Truncated)?;
        self.0 = tail;
        Ok(*head)
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// So many bytes of a text or of a `bytes` object.
    pub(super) fn counted(&mut self, count: u64) -> Result<&'a [u8]> {
        match usize::try_from(count) {
            Ok(count) if count <= TEXT_BYTES_MAX => self.take(count),
            _ => Err(PickleError::TooMuch("bytes of one text")),
        }
    }

    /// Up to the end of the line, without it.
    pub(super) fn line(&mut self) -> Result<&'a [u8]> {
        let window = &self.0[..self.0.len().min(LINE_BYTES_MAX + 1)];
        match window.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                let line = self.take(end)?;
                self.take(1)?;
                Ok(line)
            }
            None if window.len() > LINE_BYTES_MAX => Err(PickleError::TooMuch("bytes of one line")),
            None => Err(PickleError::Truncated),
        }
    }

    /// A line of ASCII or UTF-8.
    pub(super) fn text_line(&mut self, what: &'static str) -> Result<&'a str> {
        std::str::from_utf8(self.line()?).map_err(|_| PickleError::Malformed(what))
    }
}

/// A text of UTF-8.
pub(super) fn utf8(bytes: &[u8]) -> Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| PickleError::Malformed("text"))
}

/// A text of a Python 2 `str`: ASCII only, since nothing says what other bytes mean.
pub(super) fn ascii(bytes: &[u8]) -> Result<String> {
    if bytes.is_ascii() { utf8(bytes) } else { Err(PickleError::Malformed("text")) }
}

/// A decimal integer; Python 2 ended a long one with `L`.
pub(super) fn decimal(text: &str) -> Result<i64> {
    let digits = text.strip_suffix('L').unwrap_or(text);
    let unsigned = digits.strip_prefix('-').unwrap_or(digits);
    if unsigned.is_empty() || !unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(PickleError::Malformed("integer"));
    }
    digits.parse().map_err(|_| PickleError::IntegerTooLarge)
}

/// An integer of little-endian bytes, two's complement.
pub(super) fn integer(bytes: &[u8]) -> Result<i64> {
    let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut whole = if negative { [0xff; 8] } else { [0; 8] };
    whole.get_mut(..bytes.len()).ok_or(PickleError::IntegerTooLarge)?.copy_from_slice(bytes);
    Ok(i64::from_le_bytes(whole))
}

/// Python's "raw-unicode-escape": Latin-1, in which `\u` and four hexadecimal digits, or `\U` and
/// eight, are a code point.
pub(super) fn raw_unicode_escape(bytes: &[u8]) -> Result<String> {
    let mut text = String::with_capacity(bytes.len());
    let mut rest = PickleInput(bytes);
    while let Some(byte) = rest.0.first().copied() {
        rest.take(1)?;
        if byte != b'\\' {
            text.push(char::from(byte));
            continue;
        }
        let digits = match rest.0.first() {
            Some(b'u') => 4,
            Some(b'U') => 8,
            // A backslash and what it stands before are themselves.
            Some(other) => {
                text.extend(['\\', char::from(*other)]);
                rest.take(1)?;
                continue;
            }
            None => {
                text.push('\\');
                continue;
            }
        };
        rest.take(1)?;
        text.push(code_point(rest.take(digits)?)?);
    }
    if text.len() > TEXT_BYTES_MAX {
        return Err(PickleError::TooMuch("bytes of one text"));
    }
    Ok(text)
}

fn code_point(digits: &[u8]) -> Result<char> {
    let malformed = PickleError::Malformed("text");
    let mut number = 0_u32;
    for digit in digits {
        let digit = char::from(*digit).to_digit(16).ok_or_else(|| malformed.clone())?;
        number = number << 4 | digit;
    }
    char::from_u32(number).ok_or(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_any_width() {
        assert_eq!(integer(&[]), Ok(0));
        assert_eq!((integer(&[0xff]), integer(&[0xff, 0])), (Ok(-1), Ok(255)));
        assert_eq!(integer(&i64::MIN.to_le_bytes()), Ok(i64::MIN));
        assert_eq!(integer(&[0; 9]), Err(PickleError::IntegerTooLarge));
        assert_eq!((decimal("-12L"), decimal("007")), (Ok(-12), Ok(7)));
        for wrong in ["", "-", "1 ", "0x1", "--1", "1LL", "+1"] {
            assert_eq!(decimal(wrong), Err(PickleError::Malformed("integer")), "{wrong}");
        }
        assert_eq!(decimal("9223372036854775808"), Err(PickleError::IntegerTooLarge));
    }

    #[test]
    fn escapes_are_pythons() {
        for (bytes, text) in [
            (&b"plain"[..], "plain"),
            (b"b\xe9\\u000abias", "b\u{e9}\nbias"),
            (b"\\U0001f600", "\u{1f600}"),
            (b"\\\\u0041\\", "\\\\u0041\\"),
            (b"\\n\\", "\\n\\"),
        ] {
            assert_eq!(raw_unicode_escape(bytes).as_deref(), Ok(text));
        }
        for wrong in [&b"\\ud800"[..], b"\\u00g0", b"\\UFFFFFFFF"] {
            assert_eq!(raw_unicode_escape(wrong), Err(PickleError::Malformed("text")));
        }
        assert_eq!(raw_unicode_escape(b"\\u00"), Err(PickleError::Truncated));
    }
}
