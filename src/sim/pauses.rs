//! Processes that stand still for a while: what reaches them meanwhile waits, and happens when they
//! go on. Whoever asks them cannot tell them from the dead.

use std::collections::BTreeMap;
use std::time::Duration;

use super::network::{Happening, Process};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// Until when, and what waits.
    all: BTreeMap<Process, (Duration, Vec<Happening>)>,
    /// When processes that stood still went on.
    over: BTreeMap<Process, Duration>,
}

/// How long it may take until others hear from a process that went on.
const HEARD_AGAIN: Duration = Duration::from_secs(1);

impl Pauses {
    /// The process stands still until then.
    pub(super) fn begin(&mut self, process: Process, until: Duration) {
        self.all.entry(process).or_default().0 = until;
    }

    /// When its clock is due that would be due then.
    pub(super) fn wake(&self, process: Process, due: Duration) -> Duration {
        self.all.get(&process).map_or(due, |(until, _)| due.max(*until))
    }

    /// True if the process stands still.
    pub(super) fn holds(&self, process: Process) -> bool {
        self.all.contains_key(&process)
    }

    /// True if the process stands still, or did until just now: others may yet take it for dead.
    pub(super) fn may_seem_dead(&self, process: Process, now: Duration) -> bool {
        let over = self.over.get(&process);
        self.holds(process) || over.is_some_and(|over| now < *over + HEARD_AGAIN)
    }

    /// Gives back what can happen now: not what reaches somebody who stands still.
    pub(super) fn pass(&mut self, happening: Happening) -> Option<Happening> {
        match self.all.get_mut(&happening.process()) {
            Some((_, waiting)) => {
                waiting.push(happening);
                None
            }
            None => Some(happening),
        }
    }

    /// The process goes on: what waited, in its order.
    pub(super) fn end(&mut self, process: Process, now: Duration) -> Vec<Happening> {
        let Some((_, waiting)) = self.all.remove(&process) else { return Vec::new() };
        self.over.insert(process, now);
        waiting
    }

    /// Who stands still.
    pub(super) fn processes(&self) -> Vec<Process> {
        self.all.keys().copied().collect()
    }
}
