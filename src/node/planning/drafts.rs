//! Trees are planned on a thread of their own: that takes 20 ms for nine sites and half a second
//! for thirty, and neither the clock nor the van's lock waits for it. One draft at a time; the
//! thread ends with its owner. Pure but for that thread.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread;

use super::planted::Members;
use super::site_links::Carrying;
use super::sites::Sites;
use pslite_core::placement::graph::{
    Graph, GraphError, Proposal, Roots, Scheme, ServingOrder, Topology, Transfer, bound, predict,
    propose,
};
use pslite_core::trees::{PARTS, SHORTEST_PART};
use pslite_core::wire::trees::TreeTable;
use pslite_observe::log::{self, Level};

/// The network and the job at one moment, and what is asked of them.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) members: Members,
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

/// What came of a draft.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) draft: Draft,
    /// Seconds of a round along the trees of now.
    pub(super) seconds: Option<f64>,
    /// Seconds of a round that goes straight to the servers.
    pub(super) star: Option<f64>,
    /// T*, whoever owns what.
    pub(super) bound: Option<f64>,
    pub(super) proposal: Result<Proposal, GraphError>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Drafts {
    thread: Option<(SyncSender<Draft>, Receiver<Answer>)>,
    /// One is being planned.
    open: bool,
    /// One that was planned at once, since there is no thread.
    ready: Option<Answer>,
}

impl Drafts {
    /// True while a draft is being planned.
    pub(super) const fn is_open(&self) -> bool {
        self.open
    }

    /// Has a draft planned.
    pub(super) fn ask(&mut self, draft: Draft) {
        if self.thread.is_none() {
            self.thread = started();
        }
        self.open = true;
        let refused = match &self.thread {
            Some((asked, _)) => asked.try_send(draft).err().map(|error| match error {
                TrySendError::Full(draft) | TrySendError::Disconnected(draft) => draft,
            }),
            None => Some(draft),
        };
        self.ready = refused.map(Answer::of);
    }

    /// What came of it, once.
    pub(super) fn answer(&mut self) -> Option<Answer> {
        let answer = match (self.ready.take(), &self.thread) {
            (Some(answer), _) => answer,
            (None, Some((_, answers))) => match answers.try_recv() {
                Ok(answer) => answer,
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => {
                    log::write(Level::Error, "the thread that plans trees is gone");
                    (self.thread, self.open) = (None, false);
                    return None;
                }
            },
            (None, None) => return None,
        };
        self.open = false;
        Some(answer)
    }
}

fn started() -> Option<(SyncSender<Draft>, Receiver<Answer>)> {
    let (asked, drafts) = sync_channel::<Draft>(1);
    let (answered, answers) = sync_channel(1);
    let work = move || {
        // Ends when either end of the owner's is gone.
        while let Ok(draft) = drafts.recv()
            && answered.send(Answer::of(draft)).is_ok()
        {}
    };
    match thread::Builder::new().name("pslite-trees".to_owned()).spawn(work) {
        Ok(_) => Some((asked, answers)),
        Err(error) => {
            log::write(Level::Warning, &format!("trees are planned between other work: {error}"));
            None
        }
    }
}

impl Answer {
    fn of(draft: Draft) -> Self {
        let (graph, bytes, transfer) = (&draft.graph, draft.model(), draft.transfer());
        let scheme = draft.scheme.as_ref();
        let seconds = scheme.and_then(|scheme| predict(graph, scheme, bytes, transfer).ok());
        let proposed = |topology| propose(graph, topology, &draft.shares, bytes, transfer);
        let proposal = proposed(draft.topology);
        let star = proposed(Topology::Star).ok().map(|star| star.seconds);
        let bound = bound(graph, Roots::Free, bytes).ok().map(|bound| bound.seconds);
        Self { seconds, star, bound, proposal, draft }
    }
}

impl Draft {
    /// The model, or something as small as can be sent while there is none.
    fn model(&self) -> f64 {
        self.bytes.max(SHORTEST_PART as f64)
    }

    fn transfer(&self) -> Transfer {
        let part = (self.bytes / PARTS as f64).max(SHORTEST_PART as f64);
        Transfer { part, order: ServingOrder::Round }
    }

    /// The trees of sites as trees of nodes.
    pub(super) fn tables(&self, scheme: &Scheme) -> Vec<TreeTable> {
        let used = scheme.trees.iter().filter(|tree| tree.share > 0.0);
        let tables: Option<Vec<Vec<TreeTable>>> =
            used.map(|tree| self.sites.tables(tree)).collect();
        tables.unwrap_or_default().into_iter().flatten().collect()
    }
}
