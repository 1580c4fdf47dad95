//! What this process can have of its host: processors and memory. Reads `/proc` and the control
//! group's limits, and nothing else. What the kernel does not tell is 0: not known.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::threads;

/// Between two looks: more often the kernel's counts say nothing.
const PERIOD: Duration = Duration::from_millis(50);
/// What the kernel counts processor time in, per second (`USER_HZ`; always so on Linux).
const TICKS: f64 = 100.0;

/// Shares from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct AvailableShares {
    /// Of the host's processors: what this process used and what nobody used, within its limit.
    pub(super) cpu: f64,
    /// Of the host's memory: what nobody uses.
    pub(super) memory: f64,
}

/// One reading.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Duration,
    /// Seconds in which processors did nothing, all together.
    idle: f64,
    /// Seconds that this process ran.
    ran: f64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Available {
    last: Option<Reading>,
    shares: AvailableShares,
    /// Where the limits of the control group are.
    group: Option<Group>,
}

impl Available {
    /// What it can have now.
    pub(super) fn look(&mut self, now: Duration) -> AvailableShares {
        if self.last.is_some_and(|last| now < last.at.saturating_add(PERIOD)) {
            return self.shares;
        }
        let Some((idle, processors)) =
            fs::read_to_string("/proc/stat").ok().and_then(|text| stat(&text))
        else {
            return self.shares;
        };
        let reading = Reading { at: now, idle, ran: threads::process_ran().as_secs_f64() };
        let limit = self.group.get_or_insert_with(Group::find).limit().unwrap_or(processors);
        let free = self.last.replace(reading).map_or(processors, |last| {
            let seconds = now.saturating_sub(last.at).as_secs_f64();
            (reading.idle - last.idle + reading.ran - last.ran) / seconds
        });
        self.shares = AvailableShares {
            cpu: free.clamp(0.0, limit.min(processors)) / processors,
            memory: fs::read_to_string("/proc/meminfo")
                .ok()
                .and_then(|t| memory(&t))
                .unwrap_or(0.0),
        };
        self.shares
    }
}

/// Idle seconds, and how many processors there are (proc(5), `/proc/stat`).
fn stat(text: &str) -> Option<(f64, f64)> {
    let all = text.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<f64> = all.split_ascii_whitespace().map_while(|f| f.parse().ok()).collect();
    let idle = fields.get(3)? + fields.get(4)?;
    let one = |line: &&str| line.strip_prefix("cpu").is_some_and(|l| !l.starts_with(' '));
    let processors = text.lines().filter(one).count();
    (processors > 0).then_some((idle / TICKS, processors as f64))
}

/// The share of memory that is free (proc(5), `/proc/meminfo`).
fn memory(text: &str) -> Option<f64> {
    let field = |name: &str| -> Option<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    };
    Some(field("MemAvailable:")? / field("MemTotal:").filter(|total| *total > 0.0)?)
}

/// The files that limit this process's processor time (cgroups(7)).
#[derive(Debug)]
enum Group {
    /// Version 2: `cpu.max` has the quota and the period.
    Second(PathBuf),
    /// Version 1: two files.
    First(PathBuf),
    /// There is no limit that can be read.
    None,
}

impl Group {
    fn find() -> Self {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        for line in own.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            let path = path.trim_start_matches('/');
            if controllers.is_empty() {
                for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
                    let file = PathBuf::from(root).join(path).join("cpu.max");
                    if file.exists() {
                        return Self::Second(file);
                    }
                }
            } else if controllers.split(',').any(|name| name == "cpu") {
                let folder = PathBuf::from("/sys/fs/cgroup/cpu").join(path);
                if folder.join("cpu.cfs_quota_us").exists() {
                    return Self::First(folder);
                }
            }
        }
        Self::None
    }

    /// Processors that the group may use at once.
    fn limit(&self) -> Option<f64> {
        let (quota, period) = match self {
            Self::None => return None,
            Self::Second(file) => {
                let text = fs::read_to_string(file).ok()?;
                let (quota, period) = text.trim().split_once(' ')?;
                (quota.parse().ok()?, period.parse().ok()?)
            }
            Self::First(folder) => {
                let read = |name: &str| -> Option<f64> {
                    fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok()
                };
                (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?)
            }
        };
        limit(quota, period)
    }
}

fn limit(quota: f64, period: f64) -> Option<f64> {
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        let text = "cpu  100 0 50 700 200 0 0\ncpu0 1 2 3 4\ncpu1 1 2 3 4\nintr 5\n";
        assert_eq!(stat(text), Some((9.0, 2.0)));
        assert_eq!((stat(""), stat("cpu  1 2\ncpu0 1\n")), (None, None));
        let text = "MemTotal: 200 kB\nMemFree: 10 kB\nMemAvailable: 50 kB\n";
        assert_eq!(memory(text), Some(0.25));
        assert_eq!(memory("MemTotal: 0 kB\nMemAvailable: 50 kB\n"), None);
        assert_eq!((limit(50_000.0, 100_000.0), limit(-1.0, 100_000.0)), (Some(0.5), None));
    }

    #[test]
    fn a_host_has_something_to_give() {
        let mut available = Available::default();
        let first = available.look(Duration::from_secs(1));
        assert!((0.0..=1.0).contains(&first.cpu) && (0.0..=1.0).contains(&first.memory));
        // Too soon: the same again.
        assert_eq!(available.look(Duration::from_millis(1001)), first);
        let next = available.look(Duration::from_secs(2));
        assert!((0.0..=1.0).contains(&next.cpu) && next.memory > 0.0, "{next:?}");
    }
}
