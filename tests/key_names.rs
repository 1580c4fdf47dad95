//! Texts for people name a key as its application counts it, through `core::keys::KeyName`. The
//! compiler cannot see that, so the sources are searched for a text about a key in a file that has
//! no such name. `ALLOWED` says which files name keys otherwise, and why.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};

/// Files whose texts may have another number of a key.
const ALLOWED: [(&str, &str); 13] = [
    ("core/placement/layout.rs", "it knows no wire: its keys are what the caller has numbered"),
    ("core/values/spaces.rs", "the caller gave a key that is too large, by that number"),
    ("core/kv/routes.rs", "a broken promise, for whoever mends pslite"),
    ("core/kv/flights/order.rs", "likewise"),
    ("optimizers/error.rs", "the application's number; whoever refuses says whose it is"),
    ("core/cluster/claimed.rs", "a broken promise"),
    ("core/cluster/order_book.rs", "a broken promise"),
    ("core/cluster/validate.rs", "a broken promise"),
    ("core/store/validate.rs", "a broken promise"),
    ("core/store/opaque/validate.rs", "a broken promise"),
    ("core/training/exchange/machine.rs", "a broken promise"),
    ("core/worker/local.rs", "a broken promise"),
    ("core/store/holdings/commands.rs", "`cut_key` gives a name"),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.contains("tests") {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

/// True if the line is part of a text that names a key.
fn names_a_key(line: &str) -> bool {
    let code = line.trim_start();
    !code.starts_with("//")
        && code.contains('"')
        && (code.contains("key {") || code.contains("key `{"))
}

#[test]
fn every_text_about_a_key_names_it_as_its_application_does() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    ["core", "node"].iter().for_each(|room| sources(&root.join(room), &mut files));
    let (mut looked_at, mut wrong) = (0, Vec::new());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let place = file.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
        let own = text.split("#[cfg(test)]").next().unwrap();
        let named: Vec<&str> = own.lines().filter(|line| names_a_key(line)).collect();
        looked_at += named.len();
        let is_allowed = ALLOWED.iter().any(|(allowed, _)| *allowed == place);
        if !named.is_empty() && !is_allowed && !own.contains("KeyName") && !own.contains(".name_of")
        {
            wrong.push(format!("{place}: {named:?}"));
        }
    }
    assert!(looked_at > 25, "the texts are not found any more");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
