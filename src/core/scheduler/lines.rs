//! Lines for people. Whoever drives a machine of the scheduler writes them to its log. Values only.

use crate::cluster::Level;

/// A line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// How much it matters.
    pub level: Level,
    /// The line.
    pub text: String,
}

impl LogLine {
    pub(super) const fn warning(text: String) -> Self {
        Self { level: Level::Warning, text }
    }
}

/// The lines that came of one call, in order.
#[derive(Clone, Debug, Default)]
pub struct LogLines {
    verbose: bool,
    said: Vec<LogLine>,
}

impl LogLines {
    /// None yet. `verbose`: those of [`Level::Verbose`] are wanted; else nobody makes their texts.
    #[must_use]
    pub const fn new(verbose: bool) -> Self {
        Self { verbose, said: Vec::new() }
    }

    /// True if lines of [`Level::Verbose`] are wanted.
    #[must_use]
    pub const fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// Adds a line.
    pub fn say(&mut self, level: Level, text: impl Into<String>) {
        if level != Level::Verbose || self.verbose {
            self.said.push(LogLine { level, text: text.into() });
        }
    }

    /// What was said, in order.
    #[must_use]
    pub fn into_lines(self) -> Vec<LogLine> {
        self.said
    }
}
