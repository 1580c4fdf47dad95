//! Writes to the log what a machine of `core` says for people. Names nothing of the crate.

use pslite_core::cluster;
use pslite_core::scheduler::LogLine;
use pslite_observe::log::{self, Level};

/// Writes lines to the log, in order.
pub(crate) fn write(lines: impl IntoIterator<Item = LogLine>) {
    lines.into_iter().for_each(|LogLine { level, text }| write_line(level, &text));
}

/// Writes one line to the log.
pub(crate) fn write_line(level: cluster::Level, text: &str) {
    let level = match level {
        cluster::Level::Error => Level::Error,
        cluster::Level::Warning => Level::Warning,
        cluster::Level::Info => Level::Info,
        cluster::Level::Verbose => Level::Verbose,
    };
    log::write(level, text);
}
