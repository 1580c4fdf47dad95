//! Lines for people. Whoever drives a machine of the scheduler writes them to its log, and keeps
//! what are events. Values only.

use crate::chronicle::NewEvent;

/// A line for people.
#[derive(Clone, Debug, PartialEq)]
pub enum LogLine {
    /// Something has happened: its text is the line.
    Event(NewEvent),
    /// A step, for whoever wants to see each.
    Step(String),
}

impl LogLine {
    /// The line.
    #[must_use]
    pub fn into_text(self) -> String {
        match self {
            Self::Event(NewEvent { text, .. }) | Self::Step(text) => text,
        }
    }
}

/// The lines that came of one call, in order.
#[derive(Clone, Debug, Default)]
pub struct LogLines {
    verbose: bool,
    said: Vec<LogLine>,
}

impl LogLines {
    /// None yet. `verbose`: steps are wanted; else nobody makes their texts.
    #[must_use]
    pub const fn new(verbose: bool) -> Self {
        Self { verbose, said: Vec::new() }
    }

    /// True if steps are wanted.
    #[must_use]
    pub const fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// Something has happened.
    pub fn say(&mut self, event: NewEvent) {
        self.said.push(LogLine::Event(event));
    }

    /// A step, which is left out if steps are not wanted.
    pub fn step(&mut self, text: impl Into<String>) {
        if self.verbose {
            self.said.push(LogLine::Step(text.into()));
        }
    }

    /// What was said, in order.
    #[must_use]
    pub fn into_lines(self) -> Vec<LogLine> {
        self.said
    }
}
