//! What the kernel says of this process, under the names that everybody's dashboards know. Reads
//! `/proc` and nothing else; what cannot be read is left out.

use std::fs;

use super::events::EventKind;
use super::exposition::{ExposedValue, Exposition, FamilyRow, SampleLabels};
use pslite_core::wire::counters::NodeTotals;

/// Clock ticks in a second, as `/proc` counts them: the same on every machine (`USER_HZ`).
const TICKS: f64 = 100.0;

/// The numbers of a process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessNumbers {
    /// Seconds of processor time, of all its threads.
    pub cpu_seconds: Option<f64>,
    /// Bytes of memory that it has.
    pub resident_bytes: Option<u64>,
    /// Descriptors that it has open.
    pub open_fds: Option<u64>,
    /// Descriptors that it may have open. None: there is no limit, or it is not known.
    pub max_fds: Option<u64>,
    /// When it began, in seconds since 1970.
    pub start_seconds: Option<f64>,
}

const CPU: FamilyRow = row(
    "process_cpu_seconds_total",
    EventKind::Counter,
    "Processor time of the process, user and system.",
);
const RESIDENT: FamilyRow =
    row("process_resident_memory_bytes", EventKind::Gauge, "Memory that the process has.");
const OPEN: FamilyRow =
    row("process_open_fds", EventKind::Gauge, "Descriptors that the process has open.");
const MAX: FamilyRow =
    row("process_max_fds", EventKind::Gauge, "Descriptors that the process may have open.");
const START: FamilyRow =
    row("process_start_time_seconds", EventKind::Gauge, "When the process began, since 1970.");

/// All families of this file.
pub const PROCESS_FAMILIES: &[FamilyRow] = &[CPU, RESIDENT, OPEN, MAX, START];

const fn row(name: &'static str, kind: EventKind, text: &'static str) -> FamilyRow {
    FamilyRow { name, kind, labels: &["node"], text }
}

impl ProcessNumbers {
    /// Those of this process now.
    #[must_use]
    pub fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).ok();
        let stat = text("/proc/self/stat").as_deref().and_then(StatLine::parse);
        let began = text("/proc/stat").as_deref().and_then(boot_seconds);
        // The folder that is read is open meanwhile.
        let fds = fs::read_dir("/proc/self/fd").ok().map(|all| all.flatten().count() as u64);
        Self {
            cpu_seconds: stat.map(|stat| stat.cpu / TICKS),
            resident_bytes: text("/proc/self/status").as_deref().and_then(resident),
            open_fds: fds.map(|count| count.saturating_sub(1)),
            max_fds: text("/proc/self/limits").as_deref().and_then(most_fds),
            start_seconds: stat.zip(began).map(|(stat, boot)| boot + stat.began / TICKS),
        }
    }

    /// Adds them to what is shown of that node.
    pub fn expose(&self, node: &str, exposition: &mut Exposition) {
        let number = |number: Option<f64>| number.map(ExposedValue::Number);
        let count = |count: Option<u64>| count.map(ExposedValue::Count);
        for (row, value) in [
            (&CPU, number(self.cpu_seconds)),
            (&RESIDENT, count(self.resident_bytes)),
            (&OPEN, count(self.open_fds)),
            (&MAX, count(self.max_fds)),
            (&START, number(self.start_seconds)),
        ] {
            if let Some(value) = value {
                exposition.set(row, vec![("node", node.to_owned().into())], value);
            }
        }
    }
}

/// Adds what another node has told of its process.
pub(super) fn expose_totals(node: &SampleLabels, totals: &NodeTotals, to: &mut Exposition) {
    to.set(&CPU, node.clone(), ExposedValue::seconds(totals.cpu_micros));
    to.set(&RESIDENT, node.clone(), ExposedValue::Count(totals.resident_bytes));
    to.set(&OPEN, node.clone(), ExposedValue::Count(totals.open_fds));
}

/// In ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct StatLine {
    cpu: f64,
    /// After the machine's start.
    began: f64,
}

impl StatLine {
    /// Of `/proc/self/stat` (proc(5)). The name in brackets may have blanks and brackets.
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The first one is field 3: 14 and 15 are user and system, 22 the start.
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        Some(Self { cpu: field(14)? + field(15)?, began: field(22)? })
    }
}

/// When the machine began, in seconds since 1970: of `/proc/stat`.
fn boot_seconds(text: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

/// Of `/proc/self/status`.
fn resident(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The soft limit, of `/proc/self/limits`.
fn most_fds(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_read() {
        let stat = "7 (a) b) S 1 1 1 0 -1 0 9 9 9 9 120 30 5 5 20 0 9 0 4500 1000 50 1";
        assert_eq!(StatLine::parse(stat), Some(StatLine { cpu: 150.0, began: 4500.0 }));
        assert_eq!(StatLine::parse("7 (a) S 1 1"), None);
        assert_eq!(boot_seconds("cpu 1 2\nbtime 1700000000\nx 1\n"), Some(1.7e9));
        assert_eq!(resident("VmSize:\t9 kB\nVmRSS:\t  12 kB\n"), Some(12 * 1024));
        assert_eq!(resident("VmSize:\t9 kB\n"), None);
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files  1024  4096  files\n";
        assert_eq!(most_fds(limits), Some(1024));
        assert_eq!(most_fds("Max open files  unlimited  unlimited  files\n"), None);
    }

    #[test]
    fn this_process_has_all_of_them() {
        let before = ProcessNumbers::read();
        let [one, other] = [(); 2].map(|()| fs::File::open("/proc/self/stat").unwrap());
        let after = ProcessNumbers::read();
        // Other tests open files meanwhile, and close them.
        assert!(after.open_fds.unwrap() >= 2 && before.open_fds.is_some());
        drop((one, other));
        assert!(after.cpu_seconds.unwrap() >= before.cpu_seconds.unwrap());
        assert!(after.resident_bytes.unwrap() > 100_000);
        // The kernel works it out anew from a clock that is corrected now and then.
        let began = [before, after].map(|numbers| numbers.start_seconds.unwrap());
        assert!((began[0] - began[1]).abs() < 5.0 && began[0] > 1.6e9, "{began:?}");
        let mut exposition = Exposition::default();
        after.expose("server1", &mut exposition);
        ProcessNumbers::default().expose("server2", &mut exposition);
        let text = exposition.text();
        for family in PROCESS_FAMILIES.iter().filter(|family| family.name != MAX.name) {
            assert!(text.contains(&format!("\n{}{{node=\"server1\"}} ", family.name)), "{text}");
        }
        assert!(!text.contains("server2"), "what is not known is left out: {text}");
    }
}
