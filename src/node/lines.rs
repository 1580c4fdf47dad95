//! Writes to the log what a machine of `core` says for people. Names nothing of the crate.

use pslite_core::chronicle::{self, NewEvent};
use pslite_observe::log::{self, Level};

/// Writes the line of an event.
pub(crate) fn event(event: &NewEvent) {
    let level = match event.level {
        chronicle::Level::Error => Level::Error,
        chronicle::Level::Warning => Level::Warning,
        chronicle::Level::Info => Level::Info,
    };
    log::write(level, &event.text);
}

/// Writes a line for whoever wants to see each step.
pub(crate) fn step(text: &str) {
    log::write(Level::Verbose, text);
}
