//! Circles with the room that they are in, and the arrows that make them.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use super::arrows::{Arrows, arrows};
use super::graph::circles;
use super::modules::{Module, modules};

/// A circle of files.
#[derive(Debug)]
pub(crate) struct Circle {
    /// The innermost module that has all of it, as a folder.
    pub(crate) room: String,
    pub(crate) files: BTreeSet<PathBuf>,
    /// The sub-rooms of the files: a module that has others, else the one around it.
    pub(crate) sub_rooms: BTreeSet<Vec<String>>,
    /// Those between its files.
    arrows: Arrows,
}

impl Circle {
    /// Whether its files are in several sub-rooms.
    pub(crate) fn is_between(&self) -> bool {
        self.sub_rooms.len() > 1
    }
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} files in {}", self.files.len(), self.room)?;
        for (file, named) in &self.arrows {
            for (other, names) in named {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                writeln!(f, "  {} -> {}: {}", file.display(), other.display(), names.join(", "))?;
            }
        }
        Ok(())
    }
}

/// The circles of the crate with that root, the largest first.
pub(crate) fn circles_of(root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Vec<Circle> {
    let modules = modules(root, read);
    let arrows = arrows(&modules);
    let found = circles(&arrows);
    found.into_iter().map(|files| circle(root, &modules, &arrows, files)).collect()
}

fn circle(root: &Path, modules: &[Module], arrows: &Arrows, files: BTreeSet<PathBuf>) -> Circle {
    let of_circle = modules
        .iter()
        .enumerate()
        .filter(|(_, module)| is_outermost(modules, module))
        .filter(|(_, module)| files.contains(&module.file));
    let places: Vec<usize> = of_circle.map(|(place, _)| place).collect();
    let first = &modules[places[0]].path;
    let shared = places.iter().map(|place| {
        modules[*place]
            .path
            .iter()
            .zip(first)
            .take_while(|(name, of_first)| name == of_first)
            .count()
    });
    let shared = shared.min().unwrap_or(0);
    let mut room = root.parent().unwrap_or(Path::new("")).to_owned();
    room.extend(&first[..shared]);
    let sub_rooms = places.iter().map(|place| sub_room(modules, &modules[*place])).collect();
    let of_circle = files.iter().filter_map(|file| {
        let mut named = arrows.get(file)?.clone();
        named.retain(|other, _| files.contains(other));
        Some((file.clone(), named))
    });
    let arrows = of_circle.collect();
    Circle { room: room.display().to_string(), files, sub_rooms, arrows }
}

/// Whether a module is the whole of its file.
fn is_outermost(modules: &[Module], module: &Module) -> bool {
    module.parent.is_none_or(|parent| modules[parent].file != module.file)
}

fn sub_room(modules: &[Module], module: &Module) -> Vec<String> {
    let has_files = module.children.values().any(|child| modules[*child].file != module.file);
    let depth = if has_files { module.path.len() } else { module.path.len().saturating_sub(1) };
    module.path[..depth].to_vec()
}
