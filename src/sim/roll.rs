//! What a job needs to know of all its processes before each step: who is due first, how many are
//! in the job and how many have left it. Kept up by what changes, so that a step costs as much with
//! a thousand processes as with ten.

use std::collections::BTreeSet;
use std::time::Duration;

use super::network::Process;

/// How one process stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// When its clock is due.
    pub(super) wake: Option<Duration>,
    /// The job is not over before it is.
    pub(super) awaited: bool,
    /// It has ended.
    pub(super) over: bool,
}

/// How all processes stand.
#[derive(Clone, Debug)]
pub(super) struct Roll {
    all: Vec<Standing>,
    wakes: BTreeSet<(Duration, Process)>,
    awaited: usize,
    over: usize,
}

impl Roll {
    /// Nobody has started.
    pub(super) fn new(processes: usize) -> Self {
        let all = vec![Standing::default(); processes];
        Self { all, wakes: BTreeSet::new(), awaited: 0, over: 0 }
    }

    /// How a process stands from now on.
    pub(super) fn set(&mut self, process: Process, now: Standing) {
        let Some(known) = self.all.get_mut(process) else { return };
        let before = std::mem::replace(known, now);
        if before.wake != now.wake {
            before.wake.map(|at| self.wakes.remove(&(at, process)));
            now.wake.map(|at| self.wakes.insert((at, process)));
        }
        self.awaited = self.awaited + usize::from(now.awaited) - usize::from(before.awaited);
        self.over = self.over + usize::from(now.over) - usize::from(before.over);
    }

    /// When the first clock is due.
    pub(super) fn next_wake(&self) -> Option<Duration> {
        self.wakes.first().map(|(at, _)| *at)
    }

    /// Those whose clocks are due, in order.
    pub(super) fn due(&self, now: Duration) -> Vec<Process> {
        let due = self.wakes.iter().take_while(|(at, _)| *at <= now);
        let mut due: Vec<Process> = due.map(|(_, process)| *process).collect();
        due.sort_unstable();
        due
    }

    /// True if the job waits for somebody.
    pub(super) const fn awaits_any(&self) -> bool {
        self.awaited > 0
    }

    /// True if somebody has ended.
    pub(super) const fn any_over(&self) -> bool {
        self.over > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_all_follows_what_changes() {
        let second = Duration::from_secs(1);
        let mut roll = Roll::new(3);
        assert_eq!((roll.next_wake(), roll.awaits_any(), roll.any_over()), (None, false, false));
        let waits = |wake| Standing { wake: Some(wake), awaited: true, over: false };
        roll.set(2, waits(second));
        roll.set(0, waits(2 * second));
        roll.set(1, waits(3 * second));
        assert_eq!((roll.next_wake(), roll.due(2 * second)), (Some(second), vec![0, 2]));
        roll.set(2, waits(5 * second));
        assert_eq!((roll.next_wake(), roll.due(second)), (Some(2 * second), vec![]));
        let over = Standing { over: true, ..Standing::default() };
        for process in 0..3 {
            assert!(roll.awaits_any());
            roll.set(process, over);
        }
        assert_eq!((roll.next_wake(), roll.awaits_any(), roll.any_over()), (None, false, true));
    }
}
