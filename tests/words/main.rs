//! Words that a reader must not have to ask about: names that several types share, and parameters
//! that are tuples. There is a budget for each, today's number. It only falls: whoever needs fewer
//! lowers it.
//!
//! Only the text of the files is read, and of that only what is shipped: no tests.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod declarations;
mod parameters;
#[path = "../circles/tokens.rs"]
mod tokens;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use declarations::declared;
use parameters::tuples;
use tokens::{Token, tokens};

/// A `Result` with the error of its module: every reader of Rust knows what that is.
const USUAL: [&str; 1] = ["Result"];

/// So many names belong to two types or more.
const SHARED_NAMES: usize = 32;

/// So many parameters of functions are tuples. A struct says what its parts are; a tuple stands
/// there to stay below clippy's limit of arguments.
const TUPLES: usize = 0;

/// In each of these folders no two types have one name at all.
const UNSHARED: [&str; 13] = [
    "src/core/cluster",
    "src/core/delivery",
    "src/core/kv",
    "src/core/placement",
    "src/core/trees",
    "src/core/values",
    "src/core/wire",
    "src/core/worker",
    "src/observe",
    "src/transport/native",
    "src/transport/tunnel",
    "src/transport/zmq",
    "src/bin",
];

/// A file of what is shipped.
struct File {
    /// From the root of the repository.
    path: PathBuf,
    tokens: Vec<Token>,
}

fn is_test(path: &Path) -> bool {
    let of_tests = |part: &str| part.ends_with("tests") || part.ends_with("_simulation");
    path.with_extension("").iter().any(|part| part.to_str().is_some_and(of_tests))
}

fn read(folder: &Path, found: &mut Vec<File>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let path = path.strip_prefix(root).unwrap().to_owned();
            if !is_test(&path) {
                found.push(File { path, tokens: tokens(shipped) });
            }
        }
    }
}

/// The files of all crates.
fn shipped() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in ["src", "ffi"] {
        read(&root.join(folder), &mut found);
    }
    assert!(found.len() > 500, "only {} files were found", found.len());
    found
}

/// Where each name is declared, if it is in several places.
fn shared<'a>(files: impl Iterator<Item = &'a File>) -> BTreeMap<String, Vec<&'a Path>> {
    let mut places = BTreeMap::<String, Vec<&Path>>::new();
    for file in files {
        for name in declared(&file.tokens).into_iter().filter(|name| !USUAL.contains(&&**name)) {
            places.entry(name).or_default().push(&file.path);
        }
    }
    places.retain(|_, places| places.len() > 1);
    places
}

/// Fails unless there are as many as the budget says.
fn keep_budget(name: &str, budget: usize, found: usize, which: &dyn std::fmt::Debug) {
    assert!(found <= budget, "{name} is {budget}, found are {found}: {which:#?}");
    assert!(found == budget, "there are only {found} by now: lower {name}");
}

#[test]
fn few_names_belong_to_several_types() {
    let files = shipped();
    let shared = shared(files.iter());
    keep_budget("SHARED_NAMES", SHARED_NAMES, shared.len(), &shared);
}

#[test]
fn no_names_are_shared_within_these_folders() {
    let files = shipped();
    for folder in UNSHARED {
        let inside: Vec<&File> =
            files.iter().filter(|file| file.path.starts_with(folder)).collect();
        assert!(inside.len() > 1, "{folder}: only {} files", inside.len());
        let shared = shared(inside.into_iter());
        assert!(shared.is_empty(), "{shared:#?}");
    }
}

#[test]
fn few_parameters_are_tuples() {
    let files = shipped();
    let found: Vec<String> = files
        .iter()
        .flat_map(|file| {
            let of_file = tuples(&file.tokens);
            of_file.into_iter().map(|function| format!("{}: {function}", file.path.display()))
        })
        .collect();
    keep_budget("TUPLES", TUPLES, found.len(), &found);
}
