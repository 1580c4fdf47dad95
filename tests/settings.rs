//! Every variable of docs/env.md with nonsense in it: the start ends at once, and says what it
//! read, what is allowed and what to do. A variable without a row here, and one that a node asks
//! for without a row there, are found.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pslite::node::settings::names::{NAMES, ReadBy};
use pslite::node::{Lookup, Postoffice};

/// What nonsense there is for a variable.
enum Case {
    /// Each of these is refused.
    Refused(&'static [&'static str]),
    /// Likewise, with these settings besides.
    With(&'static [(&'static str, &'static str)], &'static [&'static str]),
    /// Any text means something.
    Any,
    /// `pslite run` refuses it.
    Run(&'static str),
    /// No node of ours reads it.
    NotRead,
}

use Case::{Any, NotRead, Refused, Run, With};

const FLAG: Case = Refused(&["yes", "0x1", "1.0"]);
const SECONDS: Case = Refused(&["soon", "-1", "10s", "nan", "inf", "1e99"]);
const COUNT: Case = Refused(&["two", "0", "-1", "1.5", "100001", "99999999999999999999"]);
const PORT: Case = Refused(&["0", "65536", "http", "-1", "127.0.0.1:80"]);
const HOST: Case = Refused(&[
    "http://127.0.0.1",
    "tcp://127.0.0.1:9091",
    "\"127.0.0.1\"",
    "'127.0.0.1'",
    "127.0.0.1:9091",
    "localhost:9091",
    "no such host",
    "127.0.0.300",
    "::1",
    "*",
    "nosuchhost.invalid",
]);

const CASES: &[(&str, Case)] = &[
    ("DMLC_ROLE", Refused(&["wroker", "Worker", "1"])),
    ("DMLC_NUM_WORKER", COUNT),
    ("DMLC_NUM_SERVER", Refused(&["two", "-1", "1.5", "100001", "99999999999999999999"])),
    ("DMLC_PS_ROOT_URI", HOST),
    ("DMLC_PS_ROOT_PORT", PORT),
    ("DMLC_PS_VAN_TYPE", Refused(&["ibverbs", "rdma", "ZMQ"])),
    ("DMLC_NODE_HOST", HOST),
    ("DMLC_INTERFACE", Refused(&["nosuchnic", "127.0.0.1"])),
    ("PORT", PORT),
    ("DMLC_PORT", With(&[("PSLITE_WIRE", "byteps")], &["0", "65536", "http"])),
    ("DMLC_NUM_PORTS", Refused(&["2", "32", "two", "-1"])),
    ("DMLC_ENABLE_RDMA", Refused(&["multivan"])),
    ("DMLC_LOCAL", FLAG),
    ("DMLC_USE_KUBERNETES", FLAG),
    ("KUBERNETES_SERVICE_HOST", Any),
    ("DMLC_PS_WATER_MARK", Refused(&["many", "-1", "1e3"])),
    ("PS_VERBOSE", Refused(&["yes", "1.5"])),
    ("PS_RESEND", FLAG),
    ("PS_RESEND_TIMEOUT", Refused(&["0", "-1", "1s"])),
    ("PS_DROP_MSG", Refused(&["101", "-1", "10%"])),
    ("PS_HEARTBEAT_INTERVAL", SECONDS),
    ("PS_HEARTBEAT_TIMEOUT", SECONDS),
    ("DMLC_RANK", NotRead),
    ("BYTEPS_ENABLE_MIXED_MODE", FLAG),
    ("BYTEPS_ORDERED_HOSTS", Refused(&["a:1,b,a", "a,,b", "http://a,b"])),
    ("BYTEPS_ENABLE_ASYNC", FLAG),
    ("PSLITE_WIRE", Refused(&["byteps-0.3", "stock"])),
    ("PSLITE_TRANSPORT", Refused(&["rdma", "TCP"])),
    ("PSLITE_CONNECTIONS", Refused(&["0", "9", "two"])),
    ("PSLITE_PORT_RANGE", Refused(&["9000", "9100-9000", "0-10", "9000-70000", "a-b"])),
    ("PSLITE_START_TIMEOUT", SECONDS),
    ("PSLITE_REPORT_INTERVAL", SECONDS),
    ("PSLITE_STALL_REPORT", SECONDS),
    ("PSLITE_RANK", Refused(&["one", "-1", "1.5"])),
    ("PSLITE_PEER_TIMEOUT", SECONDS),
    ("PSLITE_HEARTBEAT", SECONDS),
    ("PSLITE_SILENCE_LIMIT", SECONDS),
    ("PSLITE_RECOVERY_WAIT", SECONDS),
    ("PSLITE_LEVEL", Refused(&["none", "Stock"])),
    ("PSLITE_STORE", Refused(&["redis", "MXNet"])),
    ("PSLITE_UNPICKLE", FLAG),
    ("PSLITE_ELASTIC", Refused(&["yes", "0x1", "1.0", "Moves", "copies"])),
    ("PSLITE_ELASTIC_WORKERS", FLAG),
    ("PSLITE_PLANNING", FLAG),
    ("PSLITE_PROBE_AFTER", SECONDS),
    ("PSLITE_LINKS", With(&[("DMLC_ROLE", "scheduler")], &["no/such/file", "/dev/null", "/"])),
    (
        "PSLITE_TOPOLOGY",
        With(
            &[("DMLC_ROLE", "scheduler")],
            &["packed", "tree", "balanced:0", "balanced", "fapt:3"],
        ),
    ),
    (
        "PSLITE_SYNC",
        With(
            &[("DMLC_ROLE", "scheduler")],
            &[
                "nbsink",
                "fedavg",
                "diloco:steps=0",
                "nbsync:keep=2",
                "nbsync:every=0",
                "esync:sections=2",
            ],
        ),
    ),
    ("PSLITE_TUNNELS", Refused(&["7100", "70000", "-1", "a port"])),
    ("PSLITE_REPLICAS", Refused(&["2", "-1", "one"])),
    ("PSLITE_SHARE_INFLOW", FLAG),
    (
        "PSLITE_JOURNAL",
        With(
            &[("DMLC_ROLE", "scheduler"), ("PSLITE_ELASTIC", "1")],
            &["/nowhere/journal", "/", "/dev/full"],
        ),
    ),
    ("PSLITE_SCHEDULER_WAIT", SECONDS),
    ("PSLITE_JOIN", FLAG),
    ("PSLITE_HOLD_PUSHES", FLAG),
    ("PSLITE_SERVER_STATELESS", FLAG),
    ("PSLITE_DETERMINISTIC", FLAG),
    ("PSLITE_LOG", Refused(&["debug", "INFO"])),
    ("PSLITE_METRICS", Refused(&["m.jsonl:0", "m.jsonl:-1", ":10"])),
    (
        "PSLITE_HTTP",
        Refused(&[
            "http",
            "70000",
            "9409-9400",
            "http://127.0.0.1:9400",
            "0.0.0.0:9400",
            "10.0.0.1:9400",
            "[::]:0",
            "nosuchhost.invalid:9400-9409",
        ]),
    ),
    ("PSLITE_LIBRARY", Run("/nowhere/lib.so")),
    ("PSLITE_LIBPS", NotRead),
    ("LD_PRELOAD", NotRead),
    ("XDG_RUNTIME_DIR", NotRead),
    ("PYTHON", NotRead),
    ("PSLITE_VENV", NotRead),
    ("PSLITE_PYTHON", NotRead),
    ("PSLITE_CARGO_PROFILE", NotRead),
    ("DMLC_GROUP_SIZE", NotRead),
    ("DMLC_TASK_ID", NotRead),
    ("DMLC_JOB_CLUSTER", NotRead),
    ("RANK", NotRead),
    ("WORLD_SIZE", NotRead),
    ("MASTER_ADDR", NotRead),
    ("MASTER_PORT", NotRead),
    ("MXNET_KVSTORE_BIGARRAY_BOUND", Any),
    ("MXNET_KVSTORE_SLICE_THRESHOLD", Any),
    ("MXNET_UPDATE_ON_KVSTORE", Any),
    ("DMLC_LOG_STACK_TRACE_DEPTH", NotRead),
];

/// The names in the first column of the tables of docs/env.md.
fn documented() -> BTreeSet<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/env.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let names = rows.flat_map(|cell| cell.split('`').step_by(2).map(str::to_owned));
    let names: BTreeSet<String> = names.filter(|name| name.len() > 2).collect();
    assert!(names.len() > 50, "{names:?}");
    names
}

type ProgramSettings = Arc<Mutex<BTreeSet<String>>>;

/// Settings of a worker with those besides, and the names that are asked for.
fn lookup(extra: &[(&str, &str)]) -> (Lookup, ProgramSettings) {
    let mut all = BTreeMap::from([
        ("DMLC_ROLE", "worker"),
        ("DMLC_NUM_WORKER", "1"),
        ("DMLC_NUM_SERVER", "1"),
        ("DMLC_PS_ROOT_URI", "127.0.0.1"),
        ("DMLC_PS_ROOT_PORT", "9"),
    ]);
    all.extend(extra.iter().copied());
    let all: BTreeMap<String, String> =
        all.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
    let asked = ProgramSettings::default();
    let names = Arc::clone(&asked);
    let lookup: Lookup = Arc::new(move |name| {
        names.lock().unwrap().insert(name.to_owned());
        all.get(name).cloned()
    });
    (lookup, asked)
}

/// What the start of a node says, and how long that took. Nobody may wait for a job here.
fn start(extra: &[(&str, &str)]) -> (String, Duration) {
    let node = Postoffice::new(lookup(extra).0);
    let (tell, told) = std::sync::mpsc::channel();
    let began = Instant::now();
    std::thread::spawn(move || tell.send(node.start(0, false)));
    let result = told.recv_timeout(Duration::from_secs(10));
    let result = result.unwrap_or_else(|_| panic!("{extra:?}: waits"));
    (result.expect_err("a job of one").to_string(), began.elapsed())
}

#[test]
fn nonsense_in_any_variable_is_said_at_once() {
    const TO_DO: [&str; 5] = ["set it so", "; write ", "choose", "name each host once", "give it"];
    for (name, case) in CASES {
        let (extra, values): (&[_], &[_]) = match case {
            Refused(values) => (&[], values),
            With(extra, values) => (extra, values),
            Run(value) => {
                let mut run = Command::new(env!("CARGO_BIN_EXE_pslite"));
                run.args(["run", "-n", "1", "-s", "1", "--", "true"]).env(name, value);
                let output = run.output().unwrap();
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(!output.status.success() && said.contains(value), "{name}: {said}");
                continue;
            }
            Any | NotRead => continue,
        };
        for value in values {
            let mut all = extra.to_vec();
            all.push((*name, *value));
            let (error, took) = start(&all);
            assert!(error.contains(&format!("{name}={value}")), "{name}={value}: {error}");
            assert!(TO_DO.iter().any(|word| error.contains(word)), "{name}={value}: {error}");
            assert!(took < Duration::from_secs(5), "{name}={value}: {took:?}");
        }
    }
}

#[test]
fn every_variable_of_the_documentation_has_its_nonsense() {
    let here: BTreeSet<String> = CASES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(here.len(), CASES.len(), "a name is here twice");
    assert_eq!(here, documented());
}

#[test]
fn what_a_node_asks_for_is_documented_and_nothing_else_is_read() {
    let mut asked = BTreeSet::new();
    for extra in [("PS_VERBOSE", "0"), ("PSLITE_WIRE", "byteps")] {
        let (lookup, names) = lookup(&[extra, ("PSLITE_START_TIMEOUT", "0.1")]);
        Postoffice::new(lookup).start(0, false).unwrap_err();
        asked.append(&mut names.lock().unwrap());
    }
    let read = |case: &Case| matches!(case, Refused(_) | With(..) | Any);
    let expected = CASES.iter().filter(|(_, case)| read(case));
    assert_eq!(asked, expected.map(|(name, _)| (*name).to_owned()).collect());
    let of_node = NAMES.iter().filter(|(_, read)| *read == ReadBy::Node);
    assert_eq!(asked, of_node.map(|(name, _)| (*name).to_owned()).collect());
}

#[test]
fn the_table_of_names_is_that_of_the_documentation() {
    let table: BTreeSet<String> = NAMES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(table.len(), NAMES.len(), "a name is in src/node/settings/names.rs twice");
    assert_eq!(table, documented());
}

/// A name without an address ends the start, unless something says that it may get one: the
/// scheduler's at each node, and a node's own.
#[test]
fn a_name_is_waited_for_only_where_it_may_come() {
    const NOWHERE: &str = "nosuchhost.invalid";
    const LIMIT: (&str, &str) = ("PSLITE_START_TIMEOUT", "1.2");
    let root = ("DMLC_PS_ROOT_URI", NOWHERE);
    let scheduler = ("DMLC_ROLE", "scheduler");
    let (error, _) = start(&[root]);
    assert!(
        error.contains("does not resolve") && error.contains("PSLITE_START_TIMEOUT"),
        "{error}"
    );
    for needs in [vec![root], vec![root, scheduler], vec![("DMLC_NODE_HOST", NOWHERE)]] {
        let (error, took) = start(&needs);
        assert!(error.contains(&format!("={NOWHERE}: ")), "{needs:?}: {error}");
        assert!(took < Duration::from_secs(1), "{needs:?}: {took:?}");
        let (error, took) = start(&[&needs[..], &[LIMIT]].concat());
        let name = if needs.contains(&root) { "DMLC_PS_ROOT_URI" } else { "DMLC_NODE_HOST" };
        let begin = format!("PSLITE_START_TIMEOUT has passed: {name}={NOWHERE}: ");
        // The limit leaves the resolver no time: what it said before is the reason.
        assert!(error.starts_with(&begin) && error.contains("does not resolve"), "{error}");
        assert!(took >= Duration::from_millis(1200), "{took:?}");
        let pod = ("KUBERNETES_SERVICE_HOST", "10.96.0.1");
        assert!(waits(&[&needs[..], &[pod]].concat()), "{needs:?}: did not wait");
    }
    assert!(waits(&[root, ("DMLC_USE_KUBERNETES", "1")]), "did not wait");
}

/// True if the start of a node does not end soon.
fn waits(extra: &[(&str, &str)]) -> bool {
    let node = Postoffice::new(lookup(extra).0);
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(node.start(0, false)));
    told.recv_timeout(Duration::from_millis(1500)).is_err()
}
