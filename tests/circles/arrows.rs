//! Which file names which: each path of each module, followed to the file that defines its end.
//!
//! A name that a module only passes on (`pub use`) belongs to the file that defines it: who names
//! it there depends on that file, not on the one between. To pass it on is an arrow as well.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::modules::Module;

/// Where a path ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Module(usize),
    /// An item that this module defines.
    Item(usize),
}

/// From a file to those that it names, and the names.
pub(crate) type Arrows = BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>>;

/// The names that are being looked for, each with its module: one that leads to itself has no end.
type Asked<'a> = Vec<(usize, &'a str)>;

/// The arrows between the files of a crate.
pub(crate) fn arrows(modules: &[Module]) -> Arrows {
    let mut found = Arrows::new();
    for (place, module) in modules.iter().enumerate() {
        let mut add = |path: &[String]| {
            let Some(End::Item(end)) = follow(modules, place, path, &mut Asked::new()) else {
                return;
            };
            let to = &modules[end].file;
            if *to != module.file {
                let names = found.entry(module.file.clone()).or_default();
                names.entry(to.clone()).or_default().insert(path.join("::"));
            }
        };
        for path in &module.paths {
            add(path);
        }
        for import in &module.imports {
            match &import.name {
                Some(_) => add(&import.path),
                None => {
                    let Some(End::Module(inside)) =
                        follow(modules, place, &import.path, &mut Asked::new())
                    else {
                        continue;
                    };
                    let own =
                        |name: &String| module.items.contains(name) || is_imported(module, name);
                    for name in module.names.iter().filter(|name| !own(name)) {
                        if defined(modules, inside, name, true, &mut Asked::new()).is_some() {
                            let mut path = import.path.clone();
                            path.push(name.clone());
                            add(&path);
                        }
                    }
                }
            }
        }
    }
    found
}

/// Where a path ends that stands in a module; `None`: in another crate, or with what has no path.
fn follow<'a>(
    modules: &'a [Module],
    place: usize,
    path: &'a [String],
    asked: &mut Asked<'a>,
) -> Option<End> {
    let (mut at, mut is_ours) = (place, false);
    for (step, name) in path.iter().enumerate() {
        match name.as_str() {
            "crate" => at = 0,
            "self" => {}
            "super" => at = modules[at].parent?,
            "Self" => return None,
            _ => match defined(modules, at, name, step + 1 == path.len(), asked) {
                Some(End::Module(inside)) => at = inside,
                Some(end) => return Some(end),
                None if !is_ours || is_imported(&modules[at], name) => return None,
                // What a macro makes there.
                None => return Some(End::Item(at)),
            },
        }
        is_ours = true;
    }
    Some(End::Module(at))
}

/// Whether a module has the name from elsewhere: where it leads nowhere, from another crate.
fn is_imported(module: &Module, name: &str) -> bool {
    module.imports.iter().any(|import| import.name.as_deref() == Some(name))
}

/// What a name means in a module.
fn defined<'a>(
    modules: &'a [Module],
    place: usize,
    name: &'a str,
    is_last: bool,
    asked: &mut Asked<'a>,
) -> Option<End> {
    if asked.contains(&(place, name)) {
        return None;
    }
    let module = &modules[place];
    let item = module.items.contains(name).then_some(End::Item(place));
    let child = module.children.get(name).map(|child| End::Module(*child));
    let own = if is_last { item.or(child) } else { child.or(item) };
    if own.is_some() {
        return own;
    }
    asked.push((place, name));
    let named = module.imports.iter().filter(|import| import.name.as_deref() == Some(name));
    let all = module.imports.iter().filter(|import| import.name.is_none());
    let found = named
        .into_iter()
        .find_map(|import| follow(modules, place, &import.path, asked))
        .or_else(|| {
            all.into_iter().find_map(|import| match follow(modules, place, &import.path, asked)? {
                End::Module(inside) => defined(modules, inside, name, is_last, asked),
                End::Item(_) => None,
            })
        });
    asked.pop();
    found
}
