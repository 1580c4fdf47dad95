//! How long a round takes by a scheme: each part of the model on its way over each resource, one
//! after the other. The same program for every scheme, for cards and for links.
//!
//! A site that has the sums of its children, its own among them, passes their sum on when all of a
//! part is there; so does one that only passes it on. A resource carries one part at a time, to its
//! end. Everybody has computed at the start, and sums take no time. What is left out: the length of
//! ways (only rates count), the kernels' queues, and what else is on the wire.
//!
//! Pure; in the time of the simulation, which is a number.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::cells::{add, at, put};
use super::routes::SiteRoutes;
use super::{Graph, GraphError, Scheme};

/// Parts times sites of a prediction, at most: each is two messages at least.
const MOST_MESSAGES: u64 = 1 << 22;
/// Resources that all messages of a prediction pass together, at most: some seconds of work.
const MOST_PASSES: usize = 1 << 24;

/// Which of the parts that wait for a resource goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServingOrder {
    /// The one that comes first in the round, the same order at all sites; of one part the value
    /// before the sum. So what has to travel farthest does not wait behind what came by chance.
    Round,
    /// The one that came first, as in stock and in NetStorm.
    Arrival,
}

/// How values travel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransferMode {
    /// Bytes of a part. The last one is not smaller: all parts are a little smaller instead.
    pub part: f64,
    /// Who goes first.
    pub order: ServingOrder,
}

impl TransferMode {
    /// What NetStorm and stock do: 4 MB (NetStorm's chunk of 10^6 elements), first come, first
    /// served.
    pub const PUBLISHED: Self = Self { part: 4e6, order: ServingOrder::Arrival };
    /// What is planned here.
    pub const OURS: Self = Self { part: 250e3, order: ServingOrder::Round };
}

/// Seconds until every site has every value of a model of so many bytes.
///
/// # Errors
/// The scheme is not one of that graph, or sizes are none, or the parts are too many.
pub fn predict(
    graph: &Graph,
    scheme: &Scheme,
    bytes: f64,
    transfer: TransferMode,
) -> Result<f64, GraphError> {
    scheme.validate(graph)?;
    let parts = parts(bytes, transfer.part)?;
    if parts.saturating_mul(graph.sites() as u64) > MOST_MESSAGES {
        return Err(GraphError::TooFine { parts, sites: graph.sites() });
    }
    if parts == 0 {
        return Ok(0.0);
    }
    #[allow(clippy::cast_precision_loss, reason = "at most 2^22")]
    let part = bytes / parts as f64;
    let mut round = SimulatedRound::new(graph, scheme, parts, transfer.order);
    if round.passes() > MOST_PASSES {
        return Err(GraphError::TooFine { parts, sites: graph.sites() });
    }
    let seconds = graph.resources().iter().map(|rate| part / rate).collect();
    Ok(round.run(seconds))
}

fn parts(bytes: f64, part: f64) -> Result<u64, GraphError> {
    if !bytes.is_finite() || bytes < 0.0 {
        return Err(GraphError::Size("the size of a model is a number of bytes from 0"));
    }
    if !part.is_finite() || part <= 0.0 {
        return Err(GraphError::Size("the size of a part is a number of bytes above 0"));
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let parts = (bytes / part).ceil() as u64;
    Ok(parts)
}

/// A part on its way between a site and its parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TravellingPart {
    part: usize,
    /// The child: it sends up, and receives down.
    child: usize,
    down: bool,
    /// How many resources it has passed.
    passed: usize,
}

/// A message that waits for a resource; the greatest goes first.
#[derive(PartialEq, Eq)]
struct WaitingPart {
    /// (part, whether it is a sum) and when it came; all least first.
    key: Reverse<(usize, bool, u64)>,
    message: TravellingPart,
}

impl Ord for WaitingPart {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl PartialOrd for WaitingPart {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// That a resource has carried what it carried; the earliest is the greatest.
struct CarriedPart {
    time: f64,
    number: u64,
    resource: usize,
}

impl Ord for CarriedPart {
    fn cmp(&self, other: &Self) -> Ordering {
        other.time.total_cmp(&self.time).then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for CarriedPart {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for CarriedPart {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for CarriedPart {}

/// A tree with the ways of its edges.
struct RoutedTree {
    root: usize,
    up: Vec<Option<usize>>,
    /// The sites that get values from each.
    children: Vec<Vec<usize>>,
    /// The resources on the way from each site to its parent, ...
    way_up: Vec<Vec<usize>>,
    /// ... and on the way to it.
    way_down: Vec<Vec<usize>>,
    /// How many sums each site waits for, its own among them.
    wanted: Vec<u32>,
}

struct SimulatedRound {
    trees: Vec<RoutedTree>,
    /// The tree of each part.
    dealt: Vec<usize>,
    sites: usize,
    order: ServingOrder,
    waiting: Vec<BinaryHeap<WaitingPart>>,
    carries: Vec<Option<TravellingPart>>,
    seconds: Vec<f64>,
    events: BinaryHeap<CarriedPart>,
    counter: u64,
    /// Sums that are still to come, by part and site.
    missing: Vec<u32>,
}

impl SimulatedRound {
    fn new(graph: &Graph, scheme: &Scheme, parts: u64, order: ServingOrder) -> Self {
        let routes = SiteRoutes::new(graph);
        let trees: Vec<RoutedTree> =
            scheme.trees.iter().map(|tree| routed(graph, &routes, tree)).collect();
        let dealt = scheme.deal(parts);
        let of = |tree: &usize| trees.get(*tree).map_or(&[] as &[_], |tree| tree.wanted.as_slice());
        let missing = dealt.iter().flat_map(of).copied().collect();
        let resources = graph.resources().len();
        let sites = graph.sites();
        Self {
            trees,
            dealt,
            sites,
            order,
            waiting: (0..resources).map(|_| BinaryHeap::new()).collect(),
            carries: vec![None; resources],
            seconds: Vec::new(),
            events: BinaryHeap::new(),
            counter: 0,
            missing,
        }
    }

    /// How many resources all messages pass together.
    fn passes(&self) -> usize {
        let of = |tree: &RoutedTree| {
            tree.way_up.iter().chain(&tree.way_down).map(Vec::len).sum::<usize>()
        };
        let each: Vec<usize> = self.trees.iter().map(of).collect();
        self.dealt.iter().map(|tree| at(&each, *tree)).sum()
    }

    fn run(&mut self, seconds: Vec<f64>) -> f64 {
        self.seconds = seconds;
        for part in 0..self.dealt.len() {
            for site in 0..self.sites {
                self.sum_arrived(0.0, part, site);
            }
        }
        let mut now = 0.0;
        while let Some(CarriedPart { time, resource, .. }) = self.events.pop() {
            now = time;
            let carried = self.carries.get_mut(resource).and_then(Option::take);
            if let Some(message) = carried {
                self.go_on(now, TravellingPart { passed: message.passed + 1, ..message });
            }
            self.start(now, resource);
        }
        now
    }

    fn tree(&self, part: usize) -> Option<&RoutedTree> {
        self.trees.get(at(&self.dealt, part))
    }

    /// One more sum of a part is at a site.
    fn sum_arrived(&mut self, now: f64, part: usize, site: usize) {
        let place = part * self.sites + site;
        let missing = at(&self.missing, place).saturating_sub(1);
        put(&mut self.missing, place, missing);
        if missing > 0 {
            return;
        }
        if self.tree(part).is_some_and(|tree| tree.root == site) {
            self.value_arrived(now, part, site);
        } else {
            self.go_on(now, TravellingPart { part, child: site, down: false, passed: 0 });
        }
    }

    /// A site has the value of a part.
    fn value_arrived(&mut self, now: f64, part: usize, site: usize) {
        let children = self.tree(part).and_then(|tree| tree.children.get(site)).cloned();
        for child in children.unwrap_or_default() {
            self.go_on(now, TravellingPart { part, child, down: true, passed: 0 });
        }
    }

    /// The message needs its next resource, or has arrived.
    fn go_on(&mut self, now: f64, message: TravellingPart) {
        let TravellingPart { part, child, down, passed } = message;
        let Some(tree) = self.tree(part) else { return };
        let way = if down { tree.way_down.get(child) } else { tree.way_up.get(child) };
        let next = way.and_then(|way| way.get(passed)).copied();
        let parent = at(&tree.up, child);
        match next {
            Some(resource) => self.enqueue(now, resource, message),
            None if down => self.value_arrived(now, part, child),
            None => {
                if let Some(parent) = parent {
                    self.sum_arrived(now, part, parent);
                }
            }
        }
    }

    fn enqueue(&mut self, now: f64, resource: usize, message: TravellingPart) {
        self.counter += 1;
        let (part, sum) = match self.order {
            ServingOrder::Round => (message.part, !message.down),
            ServingOrder::Arrival => (0, false),
        };
        if let Some(waiting) = self.waiting.get_mut(resource) {
            waiting.push(WaitingPart { key: Reverse((part, sum, self.counter)), message });
        }
        self.start(now, resource);
    }

    /// An idle resource takes what waits for it.
    fn start(&mut self, now: f64, resource: usize) {
        if at(&self.carries, resource).is_some() {
            return;
        }
        let Some(next) = self.waiting.get_mut(resource).and_then(BinaryHeap::pop) else { return };
        put(&mut self.carries, resource, Some(next.message));
        self.counter += 1;
        let time = now + at(&self.seconds, resource);
        self.events.push(CarriedPart { time, number: self.counter, resource });
    }
}

fn routed(graph: &Graph, routes: &SiteRoutes, tree: &super::Tree) -> RoutedTree {
    let sites = graph.sites();
    let way = |from: usize, to: usize| -> Vec<usize> {
        let path = routes.path(from, to);
        let hops = path.iter().zip(path.iter().skip(1));
        let edges = hops.filter_map(|(a, b)| graph.edge(*a, *b));
        edges.flat_map(|edge| edge.resources.iter().copied()).collect()
    };
    let mut children = vec![Vec::new(); sites];
    let mut wanted = vec![1; sites];
    for (site, parent) in tree.down.iter().enumerate() {
        if let Some(children) = parent.and_then(|parent| children.get_mut(parent)) {
            children.push(site);
        }
    }
    for parent in tree.up.iter().flatten() {
        add(&mut wanted, *parent, 1);
    }
    let parents = |parents: &[Option<usize>]| parents.to_vec();
    let both = |site: usize, parent: Option<usize>, up: bool| match parent {
        Some(parent) if up => way(site, parent),
        Some(parent) => way(parent, site),
        None => Vec::new(),
    };
    let ways = |parents: &[Option<usize>], up: bool| -> Vec<Vec<usize>> {
        parents.iter().enumerate().map(|(site, parent)| both(site, *parent, up)).collect()
    };
    RoutedTree {
        root: tree.root,
        up: parents(&tree.up),
        children,
        way_up: ways(&tree.up, true),
        way_down: ways(&tree.down, false),
        wanted,
    }
}
