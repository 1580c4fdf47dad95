//! The inputs that fuzzing has found (`fuzz/corpus`, `scripts/fuzz`), once through the checks of
//! the fuzz targets (`fuzz/checks`): no coverage counters, no new inputs, but in every run.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::PathBuf;

#[path = "../fuzz/checks/compression_body.rs"]
mod compression_body;
#[path = "../fuzz/checks/http_head.rs"]
mod http_head;
#[path = "../fuzz/checks/native_frames.rs"]
mod native_frames;
#[path = "../fuzz/checks/pickle.rs"]
mod pickle;
#[path = "../fuzz/checks/wire_byteps.rs"]
mod wire_byteps;
#[path = "../fuzz/checks/wire_meta.rs"]
mod wire_meta;

/// A fuzz target: its name, its check, and how many inputs of its corpus are read at least, and
/// refused at least.
struct Target {
    name: &'static str,
    check: fn(&[u8]) -> bool,
    read: usize,
    refused: usize,
}

const TARGETS: [Target; 6] = [
    Target { name: "pickle", check: pickle::check, read: 20, refused: 50 },
    Target { name: "wire_meta", check: wire_meta::check, read: 90, refused: 20 },
    Target { name: "wire_byteps", check: wire_byteps::check, read: 12, refused: 12 },
    Target { name: "compression_body", check: compression_body::check, read: 5, refused: 5 },
    Target { name: "http_head", check: http_head::check, read: 8, refused: 15 },
    Target { name: "native_frames", check: native_frames::check, read: 8, refused: 4 },
];

fn fuzz(folder: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz").join(folder)
}

/// Runs the check of a target on each input of its corpus.
fn replay(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let files = fs::read_dir(fuzz("corpus").join(name)).unwrap().map(|entry| entry.unwrap().path());
    let answers: Vec<bool> = files.map(|path| (target.check)(&fs::read(path).unwrap())).collect();
    let read = answers.iter().filter(|read| **read).count();
    let refused = answers.len() - read;
    assert!(read >= target.read && refused >= target.refused, "{read} read, {refused} refused");
}

#[test]
fn pickles() {
    replay("pickle");
}

#[test]
fn metadata() {
    replay("wire_meta");
}

#[test]
fn metadata_of_byteps() {
    replay("wire_byteps");
}

#[test]
fn compression_bodies() {
    replay("compression_body");
}

#[test]
fn heads_of_http() {
    replay("http_head");
}

#[test]
fn native_frames() {
    replay("native_frames");
}

#[test]
fn every_target_is_one_of_these_and_has_a_corpus() {
    let names = |folder: &str| {
        let entries = fs::read_dir(fuzz(folder)).unwrap().map(|entry| entry.unwrap().path());
        let mut names: Vec<String> =
            entries.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    let mut known = TARGETS.map(|target| target.name);
    known.sort_unstable();
    assert_eq!(names("fuzz_targets"), known);
    assert_eq!(names("checks"), known);
    assert_eq!(names("corpus"), known);
}
