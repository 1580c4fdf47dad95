//! Circles of files that import each other: none is larger than [`LARGEST`], and none joins two
//! sub-rooms. `TOO_LARGE` and `BETWEEN` list those of today. The lists only shrink: a circle that
//! became smaller than its line says fails, too, until the line follows.
//!
//! `tests/layers.rs` looks at the arrows between rooms; here are those within. Only the text of the
//! files is read.

mod arrows;
mod graph;
mod modules;
mod planted;
mod rooms;
mod tokens;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rooms::{Circle, circles_of};

/// The roots of all crates.
const CRATES: [&str; 8] = [
    "src/core/lib.rs",
    "src/observe/lib.rs",
    "src/transport/lib.rs",
    "src/node/lib.rs",
    "src/sim/lib.rs",
    "src/bin/pslite/main.rs",
    "ffi/capi/src/lib.rs",
    "ffi/mxnet/src/lib.rs",
];

/// A circle of more files than that has to be in the list.
const LARGEST: usize = 5;

/// The larger ones of today: the room that they are in, and of how many files they are.
const TOO_LARGE: &[(&str, usize)] = &[("src/node/server", 6)];

/// Those of today that join two sub-rooms.
const BETWEEN: &[(&str, usize)] = &[("src/node/server", 6)];

/// The text of a file, if it is there.
fn read(file: &Path) -> Option<String> {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).ok()
}

/// The circles of all crates.
fn circles() -> Vec<Circle> {
    CRATES.iter().flat_map(|root| circles_of(Path::new(root), &read)).collect()
}

/// Those that are not in a list of today's, and lines of the list that hold no more.
fn differing(circles: &[&Circle], today: &[(&str, usize)]) -> String {
    let mut lines = today.to_vec();
    let mut text = String::new();
    for circle in circles {
        let line = (circle.room.as_str(), circle.files.len());
        match lines.iter().position(|known| *known == line) {
            Some(at) => drop(lines.remove(at)),
            None => text += &format!("not in the list: {circle}"),
        }
    }
    for (room, size) in lines {
        text += &format!("no longer there: a circle of {size} files in {room}\n");
    }
    text
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
fn no_circle_is_larger_than_the_list_says() {
    let circles = circles();
    let large: Vec<&Circle> =
        circles.iter().filter(|circle| circle.files.len() > LARGEST).collect();
    let text = differing(&large, TOO_LARGE);
    assert!(text.is_empty(), "circles of more than {LARGEST} files:\n{text}");
}

#[test]
fn no_circle_joins_two_sub_rooms_but_those_of_the_list() {
    let circles = circles();
    let between: Vec<&Circle> = circles.iter().filter(|circle| circle.is_between()).collect();
    let text = differing(&between, BETWEEN);
    assert!(text.is_empty(), "circles between sub-rooms:\n{text}");
}
