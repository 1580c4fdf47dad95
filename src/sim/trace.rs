//! What happened, in order: two runs were the same if and only if their traces are.

use std::fmt::{Arguments, Write};
use std::time::Duration;

/// The trace of a run: a hash over every line, and the lines themselves if they were asked for.
#[derive(Clone, Debug)]
pub struct Trace {
    hash: u64,
    lines: u64,
    buffer: String,
    text: Option<String>,
}

impl Trace {
    /// An empty trace.
    #[must_use]
    pub fn new(keep_text: bool) -> Self {
        // The offset basis of FNV-1a.
        let hash = 0xCBF2_9CE4_8422_2325;
        Self { hash, lines: 0, buffer: String::new(), text: keep_text.then(String::new) }
    }

    /// Adds a line.
    pub fn line(&mut self, now: Duration, line: Arguments<'_>) {
        self.buffer.clear();
        // Writing into a String does not fail.
        let _ = writeln!(self.buffer, "{:>14} {line}", now.as_nanos());
        self.hash = fnv1a(self.hash, self.buffer.as_bytes());
        self.lines += 1;
        if let Some(text) = &mut self.text {
            text.push_str(&self.buffer);
        }
    }

    /// Adds a line that only helps to read the others: it is not part of what was the same.
    pub fn note(&mut self, now: Duration, line: Arguments<'_>) {
        if let Some(text) = &mut self.text {
            // Writing into a String does not fail.
            let _ = writeln!(text, "{:>14}   {line}", now.as_nanos());
        }
    }

    /// The hash over all lines so far.
    #[must_use]
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// The number of lines so far.
    #[must_use]
    pub const fn lines(&self) -> u64 {
        self.lines
    }

    /// All lines, if they are kept.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }
}

/// FNV-1a, going on from `hash`.
pub(super) fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3))
}
