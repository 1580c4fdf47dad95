//! Packing trees into a graph (docs/algorithms.md 1 and 5.10): as much of a model per second as
//! goes, where each part takes one tree up to its owner and another one down. A linear program over
//! all pairs of trees; column generation (Gilmore and Gomory 1961) finds the few that matter: price
//! each resource, add the cheapest pair of trees of each root, solve again. It starts from what
//! `weighted` finds.
//!
//! What comes out is proved, whatever the solver did: the rate by adding up what the trees take,
//! and a ceiling by weak duality: with any prices, a unit of the model costs at least what the
//! cheapest trees cost, so all that the resources are worth buys at most so many units.
//!
//! Pure; deterministic. Two trees of a pair do not know of each other.

use super::cells::{add, at, put};
use super::costed_edges::{CostedEdges, taken};
use super::master::{Master, Variable};
use super::weighted::weighted;
use super::{Graph, Roots, Tree};

/// The rate may be that much below the ceiling.
const GAP: f64 = 1e-4;
/// What a resource costs at least, as a part of its inverse rate: among ties faster ones win.
const CHEAPEST: f64 = 1e-9;
/// A pair of trees gains if it is cheaper than what its root pays by that part.
const GAIN: f64 = 1e-7;

/// The program starts with about so many trees.
const FIRST_TREES: f64 = 96.0;
/// As [`Effort::cells`], to solve a program over trees that are given: many times what some dozens
/// of them need.
const RESOLVE_CELLS: u64 = 200_000_000;

/// How much work a packing may be. Counts, not seconds: the same input gives the same trees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Rounds of pricing.
    pub(super) rounds: u32,
    /// Cells of the linear program's inverse that its steps may touch, all rounds together.
    pub(super) cells: u64,
}

/// Trees, and how near they come to what is possible.
#[derive(Clone, Debug)]
pub(super) struct Packing {
    /// Pairs of trees that share the model; their shares add up to 1.
    pub(super) trees: Vec<Tree>,
    /// Bytes of the model per second that they carry together.
    pub(super) rate: f64,
    /// Bytes per second that no trees can exceed.
    pub(super) ceiling: f64,
    /// What it took.
    pub(super) rounds: u32,
    /// Steps of the linear program.
    pub(super) pivots: u64,
}

/// Packs. The graph is connected, has two sites or more, and the shares are some.
pub(super) fn pack(graph: &Graph, roots: Roots<'_>, effort: Effort) -> Packing {
    let mut search = Search::new(graph, roots);
    let mut packing =
        Packing { trees: Vec::new(), rate: 0.0, ceiling: f64::INFINITY, rounds: 0, pivots: 0 };
    let even = search.prices();
    let Some(first) = search.price(&even) else { return packing };
    packing.ceiling = search.ceiling(&even, &first);
    search.begin(first);
    for tree in weighted(graph, &search.starting_shares(), FIRST_TREES) {
        search.take(tree);
    }
    while packing.rounds < effort.rounds {
        packing.rounds += 1;
        let done = search.solve(effort.cells);
        let found = search.shares();
        let rate = carried(graph, &found);
        if rate > packing.rate {
            (packing.rate, packing.trees) = (rate, found);
        }
        let prices = search.prices();
        let Some(priced) = search.price(&prices) else { break };
        packing.ceiling = search.ceiling(&prices, &priced).min(packing.ceiling);
        let near = packing.ceiling <= packing.rate * (1.0 + GAP);
        if near || !done || !search.extend(priced) {
            break;
        }
    }
    packing.pivots = search.pivots();
    packing
}

/// The rate at which the resources carry trees with those shares.
pub(super) fn carried(graph: &Graph, trees: &[Tree]) -> f64 {
    let mut load = vec![0.0; graph.resources().len()];
    for tree in trees {
        for (resource, times) in taken(graph, tree) {
            add(&mut load, resource, times * tree.share);
        }
    }
    let loaded = graph.resources().iter().zip(&load).filter(|(_, load)| **load > 0.0);
    let slowest = loaded.map(|(rate, load)| rate / load).fold(f64::INFINITY, f64::min);
    if slowest.is_finite() { slowest } else { 0.0 }
}

/// The cheapest pair of trees of a root.
struct PricedPair {
    pair: Tree,
    cost: f64,
}

/// The linear program over the trees that were found so far. Rates are in units of the fastest
/// resource, so that they are of the order of 1.
struct Search<'a> {
    graph: &'a Graph,
    /// Who may be a root, and its share; without shares all may, with any.
    roots: Vec<(usize, Option<f64>)>,
    with_shares: bool,
    unit: f64,
    /// None before the first trees.
    master: Option<Master>,
    /// By variable; None is the one that stands for the rate of the whole model.
    trees: Vec<Option<Tree>>,
}

impl<'a> Search<'a> {
    fn new(graph: &'a Graph, shares: Roots<'_>) -> Self {
        let unit = graph.resources().iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let roots = match shares {
            Roots::Free => (0..graph.sites()).map(|site| (site, None)).collect(),
            Roots::Shares(shares) => owners(shares),
        };
        let with_shares = matches!(shares, Roots::Shares(_));
        Self { graph, roots, with_shares, unit, master: None, trees: Vec::new() }
    }

    /// The cheapest pair of trees of each root.
    fn price(&self, prices: &[f64]) -> Option<Vec<PricedPair>> {
        let costed = CostedEdges::new(self.graph, prices);
        let pair = |(root, _): &(usize, Option<f64>)| {
            let pair = costed.pair(*root)?;
            let cost = taken(self.graph, &pair).iter().map(|(r, n)| n * at(prices, *r)).sum();
            Some(PricedPair { pair, cost })
        };
        self.roots.iter().map(pair).collect()
    }

    /// What no packing can exceed, by those prices.
    fn ceiling(&self, prices: &[f64], priced: &[PricedPair]) -> f64 {
        let worth: f64 =
            self.graph.resources().iter().zip(prices).map(|(rate, price)| rate * price).sum();
        let costs = self.roots.iter().zip(priced);
        let unit = if self.with_shares {
            costs.map(|((_, share), it)| share.unwrap_or(0.0) * it.cost).sum()
        } else {
            costs.map(|(_, it)| it.cost).fold(f64::INFINITY, f64::min)
        };
        if unit > 0.0 { worth / unit } else { f64::INFINITY }
    }

    /// The shares for which the first trees are made.
    fn starting_shares(&self) -> Vec<f64> {
        let mut shares = vec![0.0; self.graph.sites()];
        #[allow(clippy::cast_precision_loss, reason = "at most 256")]
        let even = 1.0 / self.roots.len().max(1) as f64;
        for (root, share) in &self.roots {
            put(&mut shares, *root, share.unwrap_or(even));
        }
        shares
    }

    /// The variable of a pair of trees: with shares, one more row counts those of its root.
    fn variable(&self, pair: &Tree) -> Variable {
        let place = self.roots.iter().position(|(root, _)| *root == pair.root).unwrap_or(0);
        let counted = self.with_shares.then(|| (self.graph.resources().len() + place, 1.0));
        let takes = taken(self.graph, pair).into_iter().chain(counted).collect();
        Variable { gain: if self.with_shares { 0.0 } else { 1.0 }, takes }
    }

    /// Takes the trees that gain into the program; false if none does.
    fn extend(&mut self, priced: Vec<PricedPair>) -> bool {
        let before = self.trees.len();
        for PricedPair { pair, .. } in priced {
            let variable = self.variable(&pair);
            let gains =
                self.master.as_ref().is_some_and(|master| master.net_gain(&variable) > GAIN);
            if gains {
                self.take(pair);
            }
        }
        self.trees.len() > before
    }

    /// Takes trees into the program, unless it has them.
    fn take(&mut self, pair: Tree) {
        let pair = Tree { share: 0.0, ..pair };
        let variable = self.variable(&pair);
        if self.trees.iter().flatten().any(|known| *known == pair) {
            return;
        }
        if let Some(master) = &mut self.master {
            master.add(variable);
            self.trees.push(Some(pair));
        }
    }

    /// The program over the first trees, one pair of each root: with shares, one equality for each.
    fn begin(&mut self, first: Vec<PricedPair>) {
        let resources = self.graph.resources();
        let limits: Vec<f64> = resources.iter().map(|rate| rate / self.unit).collect();
        let variables: Vec<Variable> = first.iter().map(|it| self.variable(&it.pair)).collect();
        self.trees = first.into_iter().map(|it| Some(it.pair)).collect();
        self.master = Some(if self.with_shares {
            let mut master = Master::new(&limits, variables);
            let whole = self.roots.iter().enumerate();
            let takes =
                whole.map(|(place, (_, share))| (resources.len() + place, -share.unwrap_or(0.0)));
            master.add(Variable { gain: 1.0, takes: takes.collect() });
            self.trees.push(None);
            master
        } else {
            let mut master = Master::new(&limits, Vec::new());
            variables.into_iter().for_each(|variable| master.add(variable));
            master
        });
    }

    /// False: that did not suffice.
    fn solve(&mut self, most: u64) -> bool {
        let Some(master) = &mut self.master else { return false };
        master.solve(most)
    }

    fn pivots(&self) -> u64 {
        self.master.as_ref().map_or(0, Master::pivots)
    }

    /// The price of each resource, but never nothing: where some are slack, the faster one is to
    /// win. Before there is a solution: what all of each are worth is the same.
    fn prices(&self) -> Vec<f64> {
        let price = |(resource, rate): (usize, &f64)| {
            let even = if *rate > 0.0 { self.unit / rate } else { 0.0 };
            let solved = |master: &Master| at(master.prices(), resource).max(CHEAPEST * even);
            self.master.as_ref().map_or(even, solved)
        };
        self.graph.resources().iter().enumerate().map(price).collect()
    }

    /// The trees of the solution with their shares, which are made exact: those of a root add up to
    /// what it owns.
    fn shares(&self) -> Vec<Tree> {
        let Some(master) = &self.master else { return Vec::new() };
        let solution = master.solution();
        let used = self.trees.iter().zip(solution).filter(|(_, rate)| *rate > 0.0);
        let trees: Vec<Tree> =
            used.filter_map(|(tree, share)| Some(Tree { share, ..tree.clone()? })).collect();
        normalised(trees, &self.roots)
    }
}

/// The trees with shares that add up to those of their owners.
pub(super) fn with_shares(trees: Vec<Tree>, shares: &[f64]) -> Vec<Tree> {
    normalised(trees, &owners(shares))
}

fn owners(shares: &[f64]) -> Vec<(usize, Option<f64>)> {
    let some = shares.iter().enumerate().filter(|(_, share)| **share > 0.0);
    some.map(|(site, share)| (site, Some(*share))).collect()
}

/// The trees with shares that add up as they should: to each root's share, or to 1. Roots none of
/// whose trees is left make it nothing.
fn normalised(mut trees: Vec<Tree>, roots: &[(usize, Option<f64>)]) -> Vec<Tree> {
    let sites = roots.iter().map(|(root, _)| root + 1).max().unwrap_or(0);
    let mut sums = vec![0.0; sites];
    for tree in &trees {
        add(&mut sums, tree.root, tree.share);
    }
    let total: f64 = sums.iter().sum();
    let mut factors = vec![0.0; sites];
    for (root, share) in roots {
        let sum = at(&sums, *root);
        let factor = match share {
            Some(share) => share / sum,
            None => 1.0 / total,
        };
        if factor.is_finite() {
            put(&mut factors, *root, factor);
        } else if share.is_some() {
            return Vec::new();
        }
    }
    for tree in &mut trees {
        tree.share *= at(&factors, tree.root);
    }
    trees.retain(|tree| tree.share > 0.0);
    trees
}

/// The same trees, with the shares at which they carry most together; trees that are not needed are
/// left out. Of each root there is one at least, as before.
pub(super) fn resolved(graph: &Graph, shares: &[f64], trees: Vec<Tree>) -> Vec<Tree> {
    let mut search = Search::new(graph, Roots::Shares(shares));
    let given = normalised(trees, &search.roots);
    let first = |(root, _): &(usize, Option<f64>)| {
        let pair = given.iter().find(|tree| tree.root == *root)?;
        Some(PricedPair { pair: Tree { share: 0.0, ..pair.clone() }, cost: 0.0 })
    };
    let Some(first) = search.roots.iter().map(first).collect() else { return given };
    search.begin(first);
    given.iter().for_each(|tree| search.take(tree.clone()));
    search.solve(RESOLVE_CELLS);
    let found = search.shares();
    if carried(graph, &found) > carried(graph, &given) { found } else { given }
}
