//! What trees were planned for: who is in the job, how large the model is, and over which links.
//! Trees that need no rates are made here. Asks the membership; pure but for that.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::cluster::Cluster;
use crate::placement::graph::{Scheme, Topology, blind};
use crate::wire::trees::{TreeNode, TreeTable};
use crate::wire::{NodeId, WORKER_GROUP};

/// Whom trees are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TreeMembers {
    /// Servers that serve and are not being emptied.
    pub(super) servers: Vec<NodeId>,
    /// Workers that rounds wait for.
    pub(super) workers: Vec<NodeId>,
}

/// What the last trees were planned for.
#[derive(Clone, Debug, Default)]
pub(super) struct Planted {
    pub(super) members: TreeMembers,
    /// Bytes of the model.
    pub(super) bytes: f64,
    /// Which fraction of it each site owned; empty: it does not matter.
    pub(super) shares: Vec<f64>,
    /// The overlay before them.
    pub(super) before: u64,
    /// The trees of sites, if they were planned by rates.
    pub(super) scheme: Option<Scheme>,
    /// Links, from site to site, over which nothing got through.
    pub(super) cut: BTreeSet<(usize, usize)>,
    /// The trees were taken away because nothing gets through one of their hops.
    pub(super) blocked: bool,
    /// The star is best for that model, or there can be no trees.
    pub(super) star: bool,
    /// Why rounds go straight, for people.
    pub(super) why: String,
}

/// Fraction of the model. If a site owns so much more or less than before, other trees are best.
const OTHER_SHARE: f64 = 0.05;

impl Planted {
    /// True if the sites owned about the same.
    pub(super) fn is_for(&self, shares: &[f64]) -> bool {
        let mut pairs = self.shares.iter().zip(shares);
        self.shares.is_empty() || pairs.all(|(one, other)| (one - other).abs() < OTHER_SHARE)
    }
}

/// The model, as it was last seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Growth {
    bytes: f64,
    /// When it was first seen to have so many.
    since: Duration,
}

/// Keys that are made in a row come within that time of each other.
const GROWS_FOR: Duration = Duration::from_secs(1);

impl Growth {
    /// It has so many bytes now. True if it had fewer a moment ago.
    pub(super) fn goes_on(&mut self, now: Duration, bytes: f64) -> bool {
        if bytes > self.bytes {
            *self = Self { bytes, since: now };
        }
        bytes > 0.0 && now.saturating_sub(self.since) < GROWS_FOR
    }
}

/// True if sums or values of trees go over one of those links.
pub(super) fn uses(scheme: &Scheme, cut: &BTreeSet<(usize, usize)>) -> bool {
    let used = scheme.trees.iter().filter(|tree| tree.share > 0.0);
    used.flat_map(|tree| {
        let up = tree.up.iter().enumerate().filter_map(|(site, to)| Some((site, (*to)?)));
        let down = tree.down.iter().enumerate().filter_map(|(site, from)| Some(((*from)?, site)));
        up.chain(down).collect::<Vec<_>>()
    })
    .any(|link| cut.contains(&link))
}

/// Who is in the job now.
pub(super) fn members(cluster: &Cluster) -> TreeMembers {
    let live = &cluster.policy().live;
    let workers = if live.is_empty() {
        cluster.ids_of(WORKER_GROUP).unwrap_or_default()
    } else {
        live.iter().filter(|worker| worker.since == 0).map(|worker| worker.node).collect()
    };
    TreeMembers { servers: cluster.able_servers(), workers }
}

/// Bytes of the model, as far as servers have said.
pub(super) fn bytes(cluster: &Cluster) -> f64 {
    let pieces = cluster.pieces().values().flat_map(|key| &key.pieces);
    pieces.map(|piece| piece.bytes as f64).sum()
}

/// The tree of a server that needs no rates. Each node is a site of its own, and the server comes
/// first.
pub(super) fn balanced(
    topology: Topology,
    root: NodeId,
    members: &TreeMembers,
) -> Option<TreeTable> {
    let sites: Vec<NodeId> = std::iter::once(root).chain(members.workers.iter().copied()).collect();
    let mut shares = vec![0.0; sites.len()];
    *shares.first_mut()? = 1.0;
    let Scheme { trees } = blind(topology, &shares)?;
    let tree = trees.first()?;
    let at = |parents: &[Option<usize>], site: usize| {
        let parent = parents.get(site).copied().flatten()?;
        sites.get(parent).copied()
    };
    let node = |site: usize| {
        let (node, up, down) = (*sites.get(site)?, at(&tree.up, site)?, at(&tree.down, site)?);
        Some(TreeNode { node, up, down })
    };
    let nodes = (1..sites.len()).map(node).collect::<Option<Vec<TreeNode>>>()?;
    Some(TreeTable { root, nodes, weight: 1 })
}
