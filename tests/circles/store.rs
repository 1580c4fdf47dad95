//! The sub-rooms of the store, from the bottom up, and what each may name. Who takes a file out of
//! one of them, or names another one, changes the list.

use std::path::Path;

use super::arrows::{Arrows, arrows};
use super::modules::modules;

use super::read;

/// A file or a folder of the store, and what it may name beside itself.
type SubRoom = (&'static str, &'static [&'static str]);

const STORE: [SubRoom; 19] = [
    ("error", &[]),
    ("config", &[]),
    ("view", &[]),
    ("profile", &["error"]),
    ("saved", &["view"]),
    ("pieces", &["error"]),
    ("command", &["error", "pieces"]),
    ("local", &["command", "error", "pieces", "view"]),
    ("outbound", &["command", "error"]),
    ("holdings", &["command", "config", "error", "outbound", "pieces", "view"]),
    ("moving", &["command", "config", "error", "holdings", "outbound", "pieces", "view"]),
    ("opaque", &["error", "moving", "outbound", "pieces", "view"]),
    ("state", &["config", "holdings", "moving", "outbound", "pieces"]),
    ("validate", &["state"]),
    ("save", &["pieces", "state"]),
    ("agreement", &["command", "error", "outbound", "pieces", "state"]),
    ("exchange", &["command", "error", "holdings", "pieces", "state"]),
    ("mxnet", &["command", "error", "holdings", "moving", "outbound", "pieces", "state"]),
    ("events", &["command", "error", "moving", "outbound", "state"]),
];

/// The sub-room of a file of the store.
fn sub_room(file: &Path) -> Option<String> {
    let first = file.strip_prefix("src/core/store").ok()?.iter().next()?;
    Some(Path::new(first).with_extension("").display().to_string())
}

/// What names something that it may not, by that list; and how many arrows were looked at.
fn wrong(arrows: &Arrows, rooms: &[SubRoom]) -> (Vec<String>, usize) {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for (file, named) in arrows {
        let Some(from) = sub_room(file).filter(|room| room != "mod") else { continue };
        let below = rooms.iter().find(|(room, _)| *room == from).map(|(_, below)| *below);
        for (other, names) in named {
            let Some(to) = sub_room(other).filter(|to| *to != from) else { continue };
            seen += 1;
            if !below.is_some_and(|below| below.contains(&to.as_str())) {
                wrong.push(format!("{} -> {to}: {names:?}", file.display()));
            }
        }
    }
    (wrong, seen)
}

#[test]
fn sub_rooms_of_the_store_name_only_those_below() {
    for (at, (room, below)) in STORE.iter().enumerate() {
        let before = |name: &&str| STORE[..at].iter().any(|(known, _)| known == name);
        assert!(below.iter().all(before), "{room} is to name one that is not before it");
    }
    let (wrong, seen) = wrong(&arrows(&modules(Path::new("src/core/lib.rs"), &read)), &STORE);
    assert!(wrong.is_empty(), "arrows that point up or aside: {wrong:#?}");
    assert!(seen > 100, "only {seen} arrows were found");
}

/// The search itself, on arrows that are planted here.
#[test]
fn an_arrow_that_points_up_is_found() {
    let planted = |from: &str, to: &str| {
        let place = |file: &str| Path::new("src/core/store").join(file);
        let named = [(place(to), ["crate::x".to_owned()].into())];
        wrong(&[(place(from), named.into())].into(), &STORE)
    };
    let found = planted("pieces/round.rs", "moving/state.rs");
    let text = "src/core/store/pieces/round.rs -> moving: {\"crate::x\"}";
    assert_eq!(found, (vec![text.to_owned()], 1));
    assert_eq!(planted("state.rs", "mxnet/mod.rs").0.len(), 1);
    assert_eq!(planted("moving/rounds.rs", "state.rs").0.len(), 1);
    assert_eq!(planted("new/file.rs", "error.rs").0.len(), 1, "it is in no list");
    assert_eq!(planted("mxnet/apply.rs", "pieces/round.rs"), (Vec::new(), 1));
    assert_eq!(planted("mod.rs", "mxnet/apply.rs"), (Vec::new(), 0), "the root may name all");
    assert_eq!(planted("pieces/round.rs", "pieces/tensor.rs"), (Vec::new(), 0));
}
