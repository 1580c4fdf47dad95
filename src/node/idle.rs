//! Detects that a process of ours has been idle for a while after work, so that it can give the
//! memory of that work back. After a round of very many small keys, memory is left free between
//! blocks in use, as much as the requests needed, and the allocator keeps it. Pure: the times are
//! arguments.

use std::time::Duration;

/// How long it is to be idle.
const QUIET: Duration = Duration::from_secs(1);
/// It is, if it used that part of the time at most.
const PART: u32 = 50;
/// After less work than that there is nothing to give back.
const WORK: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Idle {
    /// When the present look began, and what the process had used by then.
    since: Duration,
    used: Duration,
    /// What it had used when it was idle last.
    given: Duration,
}

impl Idle {
    /// To be called now and then, with the time, and the processor time that the process has used.
    /// True once after each work, when it was idle for a second.
    pub(super) fn look(&mut self, now: Duration, used: Duration) -> bool {
        let looked = now.saturating_sub(self.since);
        if looked < QUIET {
            return false;
        }
        let busy = used.saturating_sub(self.used) > looked / PART;
        (self.since, self.used) = (now, used);
        if busy || used.saturating_sub(self.given) < WORK {
            return false;
        }
        self.given = used;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_after_each_work() {
        let mut idle = Idle::default();
        let mut looks = |from: u64, to: u64, used: &dyn Fn(u64) -> u64| -> Vec<u64> {
            let at = |ms| (Duration::from_millis(ms), Duration::from_millis(used(ms)));
            let steps = (from..to).step_by(50).map(|ms| (ms, at(ms)));
            steps.filter_map(|(ms, (now, used))| idle.look(now, used).then_some(ms)).collect()
        };
        assert_eq!(looks(0, 5_000, &|ms| ms / 100), [0; 0], "it has never worked");
        assert_eq!(looks(5_000, 10_000, &|ms| ms / 2), [0; 0], "it works");
        assert_eq!(looks(10_000, 20_000, &|ms| 5_000 + ms / 1000), [11_000], "it rests");
        assert_eq!(looks(20_000, 21_000, &|ms| ms), [0; 0], "it works again");
        assert_eq!(looks(21_000, 30_000, &|_| 21_000), [22_000], "and rests again");
    }
}
