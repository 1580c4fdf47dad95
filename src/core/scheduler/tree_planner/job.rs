//! A job for whoever works trees out, and its answer. That takes 20 ms for nine sites and half a
//! second for thirty, so it is no part of a look: the caller takes the job, works it out on another
//! thread ([`TreeAnswer::of`]), and brings the answer. Pure.

use super::planted::TreeMembers;
use super::site_links::Carrying;
use super::sites::Sites;
use crate::placement::graph::{
    Graph, GraphError, Proposal, Roots, Scheme, ServingOrder, Topology, TransferMode, bound,
    predict, propose,
};
use crate::trees::{PARTS, SHORTEST_PART};
use crate::wire::trees::TreeTable;

/// The network and the job at one moment, and what is asked of them.
#[derive(Clone, Debug)]
pub struct TreeJob {
    pub(super) members: TreeMembers,
    pub(super) sites: Sites,
    pub(super) carrying: Carrying,
    pub(super) graph: Graph,
    /// Which fraction of the model each site owns.
    pub(super) shares: Vec<f64>,
    /// Bytes of the model.
    pub(super) bytes: f64,
    pub(super) topology: Topology,
    /// The trees of now.
    pub(super) scheme: Option<Scheme>,
}

/// What came of a job.
#[derive(Debug)]
pub struct TreeAnswer {
    pub(super) job: TreeJob,
    /// Seconds of a round along the trees of now.
    pub(super) seconds: Option<f64>,
    /// Seconds of a round that goes straight to the servers.
    pub(super) star: Option<f64>,
    /// T*, whoever owns what.
    pub(super) bound: Option<f64>,
    pub(super) proposal: Result<Proposal, GraphError>,
}

/// Hands a job to the caller, and its answer back; one job at a time.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    /// One is being worked out, or waits for somebody to do so.
    open: bool,
    asked: Option<TreeJob>,
    answer: Option<TreeAnswer>,
}

impl Jobs {
    /// True while a job is being worked out.
    pub(super) const fn is_open(&self) -> bool {
        self.open
    }

    /// Has a job worked out.
    pub(super) fn ask(&mut self, job: TreeJob) {
        (self.open, self.asked, self.answer) = (true, Some(job), None);
    }

    /// The caller takes the job, to work it out.
    pub(super) const fn take(&mut self) -> Option<TreeJob> {
        self.asked.take()
    }

    /// What came of it. Nobody waits for the answer to a job that was lost.
    pub(super) fn answered(&mut self, answer: TreeAnswer) {
        self.answer = self.open.then_some(answer);
    }

    /// Nothing will come of it.
    pub(super) fn lost(&mut self) {
        *self = Self::default();
    }

    /// What came of it, once.
    pub(super) fn answer(&mut self) -> Option<TreeAnswer> {
        let answer = self.answer.take()?;
        self.open = false;
        Some(answer)
    }
}

impl TreeAnswer {
    /// Works a job out.
    #[must_use]
    pub fn of(job: TreeJob) -> Self {
        let (graph, bytes, transfer) = (&job.graph, job.model(), job.transfer());
        let scheme = job.scheme.as_ref();
        let seconds = scheme.and_then(|scheme| predict(graph, scheme, bytes, transfer).ok());
        let proposed = |topology| propose(graph, topology, &job.shares, bytes, transfer);
        let proposal = proposed(job.topology);
        let star = proposed(Topology::Star).ok().map(|star| star.seconds);
        let bound = bound(graph, Roots::Free, bytes).ok().map(|bound| bound.seconds);
        Self { seconds, star, bound, proposal, job }
    }
}

impl TreeJob {
    /// The model, or something as small as can be sent while there is none.
    fn model(&self) -> f64 {
        self.bytes.max(SHORTEST_PART as f64)
    }

    fn transfer(&self) -> TransferMode {
        let part = (self.bytes / PARTS as f64).max(SHORTEST_PART as f64);
        TransferMode { part, order: ServingOrder::Round }
    }

    /// The trees of sites as trees of nodes.
    pub(super) fn tables(&self, scheme: &Scheme) -> Vec<TreeTable> {
        let used = scheme.trees.iter().filter(|tree| tree.share > 0.0);
        let tables: Option<Vec<Vec<TreeTable>>> =
            used.map(|tree| self.sites.tables(tree)).collect();
        tables.unwrap_or_default().into_iter().flatten().collect()
    }
}
