//! What a tree takes of the resources, and which trees are the cheapest where each resource has a
//! price. `pack` and `weighted` set the prices.

use super::arborescence::{Arc, cheapest_arborescence};
use super::cells::at;
use super::{Edge, Graph, Tree};

/// How often each byte of a tree takes which resource: once for each edge, up and down.
pub(super) fn taken(graph: &Graph, tree: &Tree) -> Vec<(usize, f64)> {
    let mut all: Vec<usize> = Vec::new();
    let up = tree.up.iter().enumerate().filter_map(|(site, parent)| Some((site, (*parent)?)));
    let down = tree.down.iter().enumerate().filter_map(|(site, parent)| Some(((*parent)?, site)));
    for (from, to) in up.chain(down) {
        all.extend(graph.edge(from, to).into_iter().flat_map(|edge| edge.resources.iter()));
    }
    all.sort_unstable();
    let mut taken: Vec<(usize, f64)> = Vec::new();
    for resource in all {
        match taken.last_mut() {
            Some((last, times)) if *last == resource => *times += 1.0,
            _ => taken.push((resource, 1.0)),
        }
    }
    taken
}

/// The edges of a graph with what each byte over them costs, in either direction.
pub(super) struct CostedEdges {
    sites: usize,
    down: Vec<Arc>,
    up: Vec<Arc>,
}

impl CostedEdges {
    /// By the prices of resources.
    pub(super) fn new(graph: &Graph, prices: &[f64]) -> Self {
        let costed = |edge: &Edge| {
            let cost = edge.resources.iter().map(|resource| at(prices, *resource)).sum();
            Arc { from: edge.from, to: edge.to, cost }
        };
        let down: Vec<Arc> = graph.edges().map(costed).collect();
        let turned = |arc: &Arc| Arc { from: arc.to, to: arc.from, cost: arc.cost };
        let up = down.iter().map(turned).collect();
        Self { sites: graph.sites(), down, up }
    }

    /// The cheapest trees of a root; they have no share.
    pub(super) fn pair(&self, root: usize) -> Option<Tree> {
        let up = cheapest_arborescence(self.sites, root, &self.up)?;
        let down = cheapest_arborescence(self.sites, root, &self.down)?;
        Some(Tree { root, up, down, share: 0.0 })
    }
}
