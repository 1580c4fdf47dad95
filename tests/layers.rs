//! What cargo cannot see: inside `core`, no room names one above or beside it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};

/// The rooms of `core`, and what each may name.
const ROOMS: [(&str, &[&str]); 11] = [
    ("random", &[]),
    ("fifo", &[]),
    ("invariant", &[]),
    ("text", &[]),
    ("wire", &[]),
    ("values", &["wire", "invariant"]),
    ("cluster", &["text", "wire", "invariant"]),
    ("kv", &["wire", "values", "invariant"]),
    ("delivery", &["wire"]),
    ("store", &["wire", "values", "invariant"]),
    ("placement", &["text", "wire"]),
];

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

#[test]
fn rooms_of_the_core_name_only_those_below() {
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/core");
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for (room, below) in ROOMS {
        let mut found = Vec::new();
        for place in [core.join(room), core.join(room).with_extension("rs")] {
            if place.exists() {
                files(&place, &mut found);
            }
        }
        assert!(!found.is_empty(), "{room} is gone");
        for path in found.iter().filter(|path| !is_test(path.strip_prefix(&core).unwrap())) {
            for name in named(&fs::read_to_string(path).unwrap()) {
                seen += 1;
                if name != room && !below.contains(&name) {
                    wrong.push(format!("{}: {name}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that point up or aside: {wrong:#?}");
    assert!(seen > 100, "only {seen} paths were found");
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
