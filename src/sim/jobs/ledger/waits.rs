//! Every wait ends. Who hangs is named with what it waits for; an error ends a job only where one
//! is due.

use std::collections::BTreeMap;

/// Waits that a fault names.
const WAITS_NAMED_MAX: usize = 6;

/// Requests that somebody waits for.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits {
    open: BTreeMap<(usize, i32), String>,
}

impl Waits {
    pub(super) fn begun(&mut self, process: usize, timestamp: i32, what: String) {
        self.open.insert((process, timestamp), what);
    }

    pub(super) fn ended(&mut self, process: usize, timestamp: i32) {
        self.open.remove(&(process, timestamp));
    }

    pub(super) fn check(&self, hung: &[String], failed: &[String]) -> Vec<String> {
        let mut found: Vec<String> =
            failed.iter().map(|process| format!("no error was due: {process}")).collect();
        if !hung.is_empty() {
            let waits = self.open.iter().take(WAITS_NAMED_MAX);
            let waits: Vec<String> =
                waits.map(|((p, ts), what)| format!("p{p} for request {ts} ({what})")).collect();
            found.push(format!("{} hang; requests: {}", hung.join(", "), waits.join(", ")));
        }
        found
    }
}
