//! Circles: sets of files in which each leads to each other one (strongly connected components).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::arrows::Arrows;

/// The circles of two files and more, the largest first.
pub(crate) fn circles(arrows: &Arrows) -> Vec<BTreeSet<PathBuf>> {
    let mut search = Search { arrows, seen: BTreeMap::new(), open: Vec::new(), found: Vec::new() };
    for file in arrows.keys() {
        if !search.seen.contains_key(file.as_path()) {
            search.visit(file);
        }
    }
    search.found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    search.found
}

/// Tarjan's search.
struct Search<'a> {
    arrows: &'a Arrows,
    /// The number of files that had been seen before it.
    seen: BTreeMap<&'a Path, usize>,
    /// Seen, and in no circle yet.
    open: Vec<&'a Path>,
    found: Vec<BTreeSet<PathBuf>>,
}

impl<'a> Search<'a> {
    /// Looks at all that a file leads to, and gives the earliest of them.
    fn visit(&mut self, file: &'a Path) -> usize {
        let number = self.seen.len();
        self.seen.insert(file, number);
        self.open.push(file);
        let mut earliest = number;
        for next in self.arrows.get(file).into_iter().flat_map(|names| names.keys()) {
            let reached = match self.seen.get(next.as_path()) {
                None => self.visit(next),
                Some(number) if self.open.contains(&next.as_path()) => *number,
                Some(_) => continue,
            };
            earliest = earliest.min(reached);
        }
        if earliest == number {
            let begin = self.open.iter().position(|open| *open == file).unwrap_or_default();
            let circle: BTreeSet<PathBuf> =
                self.open.drain(begin..).map(Path::to_path_buf).collect();
            if circle.len() > 1 {
                self.found.push(circle);
            }
        }
        earliest
    }
}
