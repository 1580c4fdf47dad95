//! Why no plan is made, for people: the name of the gate that is closed, and a text.

use std::fmt;

use crate::placement::tuning::THETA;

/// Why no plan is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The gate that is closed.
    pub gate: &'static str,
    /// What it is closed for, for people.
    pub text: String,
}

impl Reason {
    /// No gate is closed, but nothing is worth moving.
    pub(super) fn no_gain() -> Self {
        let percent = THETA * 100.0;
        Self { gate: "no_gain", text: format!("no move makes rounds {percent:.0} % shorter") }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
