//! Circles of files that import each other: none is larger than [`LARGEST`], and none joins two
//! sub-rooms.
//!
//! `tests/layers.rs` looks at the arrows between rooms; here are those within. Only the text of the
//! files is read.

mod arrows;
mod graph;
mod modules;
mod planted;
mod rooms;
mod store;
mod tokens;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rooms::{Circle, circles_of};

/// The roots of all crates.
const CRATES: [&str; 11] = [
    "src/elements/lib.rs",
    "src/optimizers/lib.rs",
    "src/core/lib.rs",
    "src/observe/lib.rs",
    "src/web/lib.rs",
    "src/transport/lib.rs",
    "src/node/lib.rs",
    "src/sim/lib.rs",
    "src/bin/pslite/main.rs",
    "ffi/capi/src/lib.rs",
    "ffi/mxnet/src/lib.rs",
];

/// No circle has more files.
const LARGEST: usize = 5;

/// The text of a file, if it is there.
fn read(file: &Path) -> Option<String> {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).ok()
}

/// The circles of all crates.
fn circles() -> Vec<Circle> {
    CRATES.iter().flat_map(|root| circles_of(Path::new(root), &read)).collect()
}

/// Those of which that is true, with the arrows that make them.
fn those(is: impl Fn(&Circle) -> bool) -> String {
    circles().iter().filter(|circle| is(circle)).map(Circle::to_string).collect()
}

/// Where nothing is found, nothing is wrong either.
#[test]
fn the_files_and_their_arrows_are_found() {
    let arrows_of = |root: &&str| {
        let arrows = arrows::arrows(&modules::modules(Path::new(root), &read));
        arrows.values().map(BTreeMap::len).sum::<usize>()
    };
    let found: Vec<usize> = CRATES.iter().map(arrows_of).collect();
    assert!(found.iter().sum::<usize>() > 2000, "{found:?}");
}

#[test]
fn no_circle_is_large() {
    let text = those(|circle| circle.files.len() > LARGEST);
    assert!(text.is_empty(), "circles of more than {LARGEST} files:\n{text}");
}

#[test]
fn no_circle_joins_two_sub_rooms() {
    let text = those(Circle::is_between);
    assert!(text.is_empty(), "circles between sub-rooms:\n{text}");
}
