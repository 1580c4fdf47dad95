//! The one table of all variables that something of ours reads, and what a name that is not in it
//! may have been meant for. Pure: is given names, reads no environment.
//!
//! `tests/settings.rs` holds the table equal to docs/env.md, and to what a node asks for.

/// Where a variable is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBy {
    /// By a node when it starts: [`super::Settings`].
    Node,
    /// By a program or script around it, by MXNet or BytePS, or it is only written.
    Others,
}

use ReadBy::{Node, Others};

/// All variables of docs/env.md.
pub const NAMES: &[(&str, ReadBy)] = &[
    ("DMLC_ROLE", Node),
    ("DMLC_NUM_WORKER", Node),
    ("DMLC_NUM_SERVER", Node),
    ("DMLC_PS_ROOT_URI", Node),
    ("DMLC_PS_ROOT_PORT", Node),
    ("DMLC_PS_VAN_TYPE", Node),
    ("DMLC_NODE_HOST", Node),
    ("DMLC_INTERFACE", Node),
    ("PORT", Node),
    ("DMLC_PORT", Node),
    ("DMLC_NUM_PORTS", Node),
    ("DMLC_ENABLE_RDMA", Node),
    ("DMLC_LOCAL", Node),
    ("DMLC_USE_KUBERNETES", Node),
    ("KUBERNETES_SERVICE_HOST", Node),
    ("DMLC_PS_WATER_MARK", Node),
    ("PS_VERBOSE", Node),
    ("PS_RESEND", Node),
    ("PS_RESEND_TIMEOUT", Node),
    ("PS_DROP_MSG", Node),
    ("PS_HEARTBEAT_INTERVAL", Node),
    ("PS_HEARTBEAT_TIMEOUT", Node),
    ("DMLC_RANK", Others),
    ("BYTEPS_ENABLE_MIXED_MODE", Node),
    ("BYTEPS_ORDERED_HOSTS", Node),
    ("BYTEPS_ENABLE_ASYNC", Node),
    ("PSLITE_WIRE", Node),
    ("PSLITE_TRANSPORT", Node),
    ("PSLITE_CONNECTIONS", Node),
    ("PSLITE_PORT_RANGE", Node),
    ("PSLITE_START_TIMEOUT", Node),
    ("PSLITE_REPORT_INTERVAL", Node),
    ("PSLITE_STALL_REPORT", Node),
    ("PSLITE_RANK", Node),
    ("PSLITE_PEER_TIMEOUT", Node),
    ("PSLITE_HEARTBEAT", Node),
    ("PSLITE_SILENCE_LIMIT", Node),
    ("PSLITE_RECOVERY_WAIT", Node),
    ("PSLITE_LEVEL", Node),
    ("PSLITE_STORE", Node),
    ("PSLITE_UNPICKLE", Node),
    ("PSLITE_ELASTIC", Node),
    ("PSLITE_ELASTIC_WORKERS", Node),
    ("PSLITE_PLANNING", Node),
    ("PSLITE_PROBE_AFTER", Node),
    ("PSLITE_TOPOLOGY", Node),
    ("PSLITE_SYNC", Node),
    ("PSLITE_LINKS", Node),
    ("PSLITE_TUNNELS", Node),
    ("PSLITE_REPLICAS", Node),
    ("PSLITE_SHARE_INFLOW", Node),
    ("PSLITE_JOURNAL", Node),
    ("PSLITE_SCHEDULER_WAIT", Node),
    ("PSLITE_JOIN", Node),
    ("PSLITE_HOLD_PUSHES", Node),
    ("PSLITE_SERVER_STATELESS", Node),
    ("PSLITE_DETERMINISTIC", Node),
    ("PSLITE_LOG", Node),
    ("PSLITE_METRICS", Node),
    ("PSLITE_HTTP", Node),
    ("PSLITE_LIBRARY", Others),
    ("PSLITE_LIBPS", Others),
    ("LD_PRELOAD", Others),
    ("XDG_RUNTIME_DIR", Others),
    ("PYTHON", Others),
    ("PSLITE_VENV", Others),
    ("PSLITE_PYTHON", Others),
    ("PSLITE_CARGO_PROFILE", Others),
    ("DMLC_GROUP_SIZE", Others),
    ("DMLC_TASK_ID", Others),
    ("DMLC_JOB_CLUSTER", Others),
    ("RANK", Others),
    ("WORLD_SIZE", Others),
    ("MASTER_ADDR", Others),
    ("MASTER_PORT", Others),
    ("MXNET_KVSTORE_BIGARRAY_BOUND", Node),
    ("MXNET_KVSTORE_SLICE_THRESHOLD", Node),
    ("MXNET_UPDATE_ON_KVSTORE", Node),
    ("DMLC_LOG_STACK_TRACE_DEPTH", Others),
];

/// Names that begin so are ours: one that is not in the table is a mistake.
const OURS: &str = "PSLITE_";
/// But the tests' own (docs/testing.md).
const OF_TESTS: &str = "PSLITE_TEST_";
/// Names that begin so are also of other programs (MXNet, BytePS, trackers): one that is not in
/// the table is a mistake only if it is almost one that a node reads.
const SHARED: [&str; 2] = ["DMLC_", "PS"];
/// A longer name is nobody's misspelling.
const LONGEST: usize = 64;

fn is_known(name: &str) -> bool {
    NAMES.iter().any(|(known, _)| *known == name)
}

/// `None` if a variable of that name is one of ours, or somebody else's; else a sentence that says
/// that it has no effect, and which name may have been meant.
#[must_use]
pub fn unknown(name: &str) -> Option<String> {
    let upper = name.to_ascii_uppercase();
    if is_known(name) || upper.starts_with(OF_TESTS) {
        return None;
    }
    let is_ours = upper.starts_with(OURS);
    let near = nearest(&upper, |known, read| read == Node || known.starts_with(OURS));
    let is_shared = SHARED.iter().any(|start| upper.starts_with(start));
    if !(is_ours || is_shared && near.is_some()) {
        return None;
    }
    Some(format!(
        "{name} has no effect: there is no such variable{} (docs/env.md has all)",
        meant(near)
    ))
}

/// Says that a node has no setting of that name, if it has none: for settings that a program gives
/// itself, all of which are meant for the node.
///
/// # Errors
/// The text says which name may have been meant.
pub fn check(name: &str) -> Result<(), String> {
    if NAMES.contains(&(name, Node)) {
        return Ok(());
    }
    let near = nearest(&name.to_ascii_uppercase(), |_, read| read == Node);
    Err(format!("a node has no setting {name}{} (docs/env.md has all)", meant(near)))
}

fn meant(near: Option<&str>) -> String {
    near.map_or_else(String::new, |name| format!("; did you mean {name}?"))
}

/// The name, of those that may be meant, that differs least, if it differs by little: one letter of
/// six. A name without a prefix is too short to be meant.
fn nearest(name: &str, may_be: impl Fn(&str, ReadBy) -> bool) -> Option<&'static str> {
    if name.len() > LONGEST {
        return None;
    }
    let all = NAMES.iter().filter(|(known, read)| known.contains('_') && may_be(known, *read));
    let found = all.map(|(known, _)| (distance(name, known), *known)).min()?;
    (found.0 <= found.1.len().div_ceil(6)).then_some(found.1)
}

/// How many letters have to be left out, put in, changed, or swapped with their neighbour.
fn distance(one: &str, other: &str) -> usize {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.iter().enumerate() {
        let mut row = vec![at + 1];
        for (to, wanted) in other.iter().enumerate() {
            let changed = last[to] + usize::from(letter != wanted);
            let mut least = changed.min(last[to + 1] + 1).min(row[to] + 1);
            if at > 0 && to > 0 && *letter == other[to - 1] && one[at - 1] == *wanted {
                least = least.min(before[to - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_told_with_the_one_that_was_meant() {
        for (wrong, meant) in [
            ("PSLITE_ELASTIK", "PSLITE_ELASTIC"),
            ("PSLITE_ELASTICS", "PSLITE_ELASTIC"),
            ("PSLITE_ELATSIC", "PSLITE_ELASTIC"),
            ("PSLITE_ELASTIC_WORKER", "PSLITE_ELASTIC_WORKERS"),
            ("pslite_elastic", "PSLITE_ELASTIC"),
            ("PS_LITE_ELASTIC", "PSLITE_ELASTIC"),
            ("PSLITE_CONECTION", "PSLITE_CONNECTIONS"),
            ("PSLITE_LIBRARI", "PSLITE_LIBRARY"),
            ("PSLITE_LIB_PS", "PSLITE_LIBPS"),
            ("DMLC_NUM_WORKERS", "DMLC_NUM_WORKER"),
            ("DMLC_NUM_SERVERS", "DMLC_NUM_SERVER"),
            ("DMLC_PS_ROOT_URL", "DMLC_PS_ROOT_URI"),
            ("PS_HEARTBEAT_TIME_OUT", "PS_HEARTBEAT_TIMEOUT"),
            ("PS_RESEND_TIMOUT", "PS_RESEND_TIMEOUT"),
        ] {
            let text = unknown(wrong).unwrap_or_default();
            assert!(text.contains(&format!("did you mean {meant}?")), "{wrong}: {text}");
            assert!(text.starts_with(wrong) && text.contains("docs/env.md"), "{text}");
        }
        for far in ["PSLITE_X", "PSLITE_", "PSLITE_SOMETHING_ELSE"] {
            let text = unknown(far).unwrap();
            assert!(!text.contains("mean") && text.contains("no such variable"), "{text}");
        }
    }

    /// Of BytePS, MXNet, dmlc's trackers, procps, and whatever else is about.
    #[test]
    fn names_of_others_are_theirs() {
        for other in [
            "DMLC_WORKER_ID",
            "DMLC_ENABLE_UCX",
            "DMLC_TRACKER_URI",
            "DMLC_TRACKER_PORT",
            "DMLC_NUM_ATTEMPT",
            "DMLC_MAX_ATTEMPT",
            "DMLC_WORKER_CORES",
            "DMLC_SERVER_CORES",
            "DMLC_WORKER_MEMORY_MB",
            "DMLC_SERVER_MEMORY_MB",
            "DMLC_JOB_ID",
            "DMLC_JOB_ARCHIVES",
            "DMLC_CONTAINER_ID",
            "DMLC_HDFS_OPTS",
            "DMLC_INTERFACES_UP",
            "DMLC_CPU_VCORES",
            "DMLC_LOG_DEBUG",
            "DMLC_LOG_STACK_TRACE",
            "DMLC_TASK_ID",
            "DMLC_GROUP_SIZE",
            "DMLC_WORKER_STOP_PROCESS_ON_ERROR",
            "DMLC_RDMA_TIMEOUT",
            "DMLC_NODE_RANK",
            "PS1",
            "PS2",
            "PS4",
            "PS_FORMAT",
            "PS_PERSONALITY",
            "PS_SYSTEM_MAP",
            "PSModulePath",
            "PORTS",
            "PATH",
            "BYTEPS_LOG_LEVEL",
            "BYTEPS_ENABLE_ASYN",
            "MXNET_KVSTORE",
            "PSLITE_TEST_SEED",
            "PSLITE_LIBRARY",
            "LD_PRELOAD",
            "HOME",
            "",
            "_",
        ] {
            assert_eq!(unknown(other), None, "{other}");
        }
        let long = "PS_RESEND".repeat(100_000);
        assert_eq!(unknown(&long), None);
        assert!(unknown(&format!("PSLITE_{long}")).is_some());
    }

    #[test]
    fn a_program_can_only_give_what_a_node_reads() {
        for (name, _) in NAMES.iter().filter(|(_, read)| *read == Node) {
            assert_eq!(check(name), Ok(()));
        }
        assert!(check("PSLITE_ELASTIK").unwrap_err().contains("did you mean PSLITE_ELASTIC?"));
        for name in ["PSLITE_LIBRARY", "rank", "", "PSLITE_TEST_SEED", "DMLC_TASK_ID"] {
            let text = check(name).unwrap_err();
            assert!(text.starts_with(&format!("a node has no setting {name}")), "{text}");
        }
    }

    #[test]
    fn distances() {
        for (one, other, apart) in
            [("", "", 0), ("", "abc", 3), ("abc", "acb", 1), ("abcd", "bd", 2), ("ab", "xaby", 2)]
        {
            assert_eq!(distance(one, other), apart, "{one} {other}");
            assert_eq!(distance(other, one), apart, "{other} {one}");
        }
    }
}
