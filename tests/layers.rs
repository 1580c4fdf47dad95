//! What cargo cannot see: inside `core`, no room names one above or beside it; inside `node`, each
//! names only rooms that come before it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};

/// The rooms of `core`, and what each may name.
const ROOMS: [(&str, &[&str]); 21] = [
    ("awake", &[]),
    ("random", &[]),
    ("fifo", &[]),
    ("invariant", &[]),
    ("text", &[]),
    ("keys", &[]),
    ("wire", &[]),
    ("lives", &["wire"]),
    ("chronicle", &["wire", "invariant"]),
    ("values", &["wire", "keys", "invariant"]),
    ("trees", &["wire", "values", "invariant"]),
    ("cluster", &["awake", "chronicle", "lives", "text", "keys", "wire", "invariant"]),
    ("kv", &["wire", "keys", "values", "trees", "invariant"]),
    ("delivery", &["wire"]),
    ("store", &["text", "keys", "wire", "values", "trees", "invariant", "lives"]),
    ("placement", &["text", "wire"]),
    ("measuring", &["kv", "placement", "wire"]),
    ("training", &["text", "wire", "invariant", "random", "lives"]),
    (
        "scheduler",
        &["chronicle", "cluster", "keys", "placement", "random", "text", "trees", "values", "wire"],
    ),
    ("worker", &["wire", "values", "kv", "trees", "store", "training", "invariant"]),
    ("server", &["wire", "values", "kv", "store", "cluster"]),
];

/// The rooms of `node`, from the bottom up, and what each may name: only rooms before it. A room is
/// a file and the folder of its name. Not looked at is what files of one room name of each other:
/// all of `van` names `van::Van`, all of `worker` and `server` their customer.
const NODE: [(&str, &[&str]); 31] = [
    ("sync", &[]),
    ("lines", &[]),
    ("error", &[]),
    ("idle", &[]),
    ("threads", &[]),
    ("files", &[]),
    ("settings", &["error", "files"]),
    ("notices", &["settings", "sync"]),
    ("farewell", &["error", "settings"]),
    ("address", &["error", "settings"]),
    ("descriptors", &["error", "settings"]),
    ("naming", &["error", "settings"]),
    ("tunnels", &["error", "settings"]),
    ("journal", &["error", "files"]),
    ("operator", &["address", "error"]),
    ("web_door", &["error", "sync"]),
    ("work_queue", &["sync"]),
    ("landing", &["sync"]),
    ("delivery", &["error"]),
    // `landing`: the memory is asked for while a message comes in, before it is an item.
    ("recipient", &["delivery", "error", "landing", "work_queue"]),
    ("training", &["error", "sync", "threads"]),
    // `recipient`: a thread that waits receives in the van's place, and needs to know for whom.
    ("running", &["error", "lines", "recipient", "settings", "sync", "training"]),
    ("batch_session", &["error", "running", "training"]),
    ("customers", &["delivery", "error", "recipient", "sync"]),
    ("sink", &["customers", "landing"]),
    ("planning", &["lines", "running", "settings", "sync", "threads"]),
    ("base", &["delivery", "error", "work_queue", "running"]),
    (
        "worker",
        // `recipient`: what a waiting thread receives may be for another customer.
        &["base", "delivery", "error", "landing", "work_queue", "recipient", "running", "sync"],
    ),
    ("server", &["base", "delivery", "error", "files", "running", "sync"]),
    (
        "customer",
        &[
            "base",
            "customers",
            "delivery",
            "error",
            "landing",
            "work_queue",
            "recipient",
            "running",
            "server",
            "worker",
        ],
    ),
    (
        "van",
        &[
            "address",
            "customers",
            "delivery",
            "descriptors",
            "error",
            "journal",
            "lines",
            "planning",
            "recipient",
            "running",
            "settings",
            "sink",
            "sync",
            "training",
            "tunnels",
            "web_door",
        ],
    ),
];

/// Above them all: these put a node together, and may name any room.
const NODE_TOP: [&str; 2] = ["postoffice", "lib"];

/// The files of a room.
fn files(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            files(&entry.unwrap().path(), found);
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        found.push(path.to_owned());
    }
}

/// Tests may play a neighbour, and draw numbers from a seed.
fn is_test(path: &Path) -> bool {
    let of_tests = |part: &str| part.ends_with("tests") || part.ends_with("_simulation");
    path.with_extension("").iter().any(|part| part.to_str().is_some_and(of_tests))
}

/// The names that follow `crate::` in a file, up to its tests.
fn named(text: &str) -> Vec<&str> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let paths = code.split("crate::").skip(1);
    paths
        .map(|path| path.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap())
        .collect()
}

/// What the files of a room in that crate name that they may not; and how many names were seen.
fn arrows(crate_root: &Path, (room, below): (&str, &[&str])) -> (Vec<String>, usize) {
    let (mut wrong, mut seen, mut found) = (Vec::new(), 0, Vec::new());
    for place in [crate_root.join(room), crate_root.join(room).with_extension("rs")] {
        if place.exists() {
            files(&place, &mut found);
        }
    }
    assert!(!found.is_empty(), "{room} is gone");
    for path in found.iter().filter(|path| !is_test(path.strip_prefix(crate_root).unwrap())) {
        for name in named(&fs::read_to_string(path).unwrap()) {
            seen += 1;
            if name != room && !below.contains(&name) {
                wrong.push(format!("{}: {name}", path.display()));
            }
        }
    }
    (wrong, seen)
}

fn check(folder: &str, rooms: &[(&str, &[&str])]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for room in rooms {
        let (more, names) = arrows(&root, *room);
        wrong.extend(more);
        seen += names;
    }
    assert!(wrong.is_empty(), "arrows that point up or aside: {wrong:#?}");
    assert!(seen > 100, "only {seen} paths were found");
}

#[test]
fn rooms_of_the_core_name_only_those_below() {
    check("src/core", &ROOMS);
}

#[test]
fn rooms_of_a_node_name_only_those_before_them() {
    for (at, (room, below)) in NODE.iter().enumerate() {
        let before = |name: &&str| NODE[..at].iter().any(|(known, _)| known == name);
        assert!(below.iter().all(before), "{room} is to name one after it");
    }
    check("src/node", &NODE);
}

/// The van brings what comes to customers, and customers send through the van: neither is to know
/// the other.
#[test]
fn van_and_customers_do_not_know_each_other() {
    let below = |room| NODE.iter().find(|(known, _)| *known == room).unwrap().1;
    for side in ["base", "worker", "server", "customer"] {
        assert!(!below("van").contains(&side) && !below(side).contains(&"van"), "{side}");
    }
    assert!(!below("worker").contains(&"server") && !below("server").contains(&"worker"));
}

/// A file of `node` that belongs to no room, or that names a neighbour by another way than
/// `crate::`, would be looked at by nobody.
#[test]
fn every_file_of_a_node_is_in_a_room() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/node");
    let mut found = Vec::new();
    files(&root, &mut found);
    assert!(found.len() > 50, "{}", found.len());
    for path in found.iter().map(|path| path.strip_prefix(&root).unwrap()) {
        let first = Path::new(path.iter().next().unwrap()).with_extension("");
        let room = first.to_str().unwrap();
        let known = NODE.iter().any(|(known, _)| *known == room) || NODE_TOP.contains(&room);
        assert!(known || is_test(path), "{} is in no room", path.display());
        let text = fs::read_to_string(root.join(path)).unwrap();
        let by_another_way = |line: &&str| match path.iter().count() {
            // The parent of such a file is the crate.
            1 => line.contains("super::") && !line.contains("super::*"),
            _ => line.contains("super::super::"),
        };
        let aside: Vec<&str> = text.lines().filter(by_another_way).collect();
        assert!(is_test(path) || aside.is_empty(), "{}: {aside:?}", path.display());
    }
}

/// A room that is not in the table above would be looked at by nobody.
#[test]
fn every_room_is_known() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/core/lib.rs"));
    let text = text.unwrap();
    let rooms = text.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    let unknown: Vec<&str> =
        rooms.filter(|room| !ROOMS.iter().any(|(known, _)| known == room)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
