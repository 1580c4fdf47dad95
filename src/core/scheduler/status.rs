//! How the job is, for operators: who is in it, in which state, and who has how much.

use serde::{Deserialize, Serialize};

use crate::chronicle::ChroniclePart;
use crate::cluster::alike::SettingStatus;
use crate::wire::NodeId;
use crate::wire::balance::SessionStatus;
use crate::wire::counters::NodeTotals;
use crate::wire::exchange::status::ExchangeStatus;

/// What `pslite status` shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The scheduler's `host:port`.
    pub scheduler: String,
    /// Where the job is: `forming`, `running`, `changing` (a policy is being made), `failed`.
    pub phase: String,
    /// Worker customers of the job.
    pub workers: usize,
    /// Servers that the job began, or begins, with: as many ranks does the application see.
    pub servers: usize,
    /// Servers come and go.
    pub elastic: bool,
    /// The newest policy.
    pub epoch: u64,
    /// Copies of each piece.
    pub replicas: u32,
    /// Everybody.
    pub nodes: Vec<NodeStatus>,
    /// Seconds that a round is expected to take with the placement in force; none if nobody knows.
    pub predicted: Option<f64>,
    /// Seconds that it took lately the worker that waits least for the others.
    pub measured: Option<f64>,
    /// Seconds of an iteration, median over workers: from the first push of a round to that of the
    /// next one. None with an exchange of deltas, where a worker's steps are in `exchanges`.
    #[serde(default)]
    pub iteration: Option<f64>,
    /// The lower bound T*, in seconds: no placement can be faster.
    pub bound: Option<f64>,
    /// `bound` by `measured`: 1 is the best that can be. None with an exchange of deltas: workers
    /// compute within its rounds, so the bound is not one of them.
    pub eta: Option<f64>,
    /// What limits a round.
    pub limit: String,
    /// Why the planner moves nothing; empty while it does, and without a planner.
    #[serde(default)]
    pub no_plan: String,
    /// Whether one server more, or one fewer, would pay, and what it would bring; else empty.
    #[serde(default)]
    pub advice: String,
    /// Why the job cannot go on, or who is missing.
    pub note: String,
    /// Barriers in which workers wait, rounds at servers that have waited for long, and who waits
    /// for each other: a line for each.
    #[serde(default)]
    pub waits: Vec<String>,
    /// The same as values, but for who waits for each other.
    #[serde(default)]
    pub waiting: Vec<WaitStatus>,
    /// Who waits for each other: each for the next one, and the last one for the first; empty:
    /// nobody does.
    #[serde(default)]
    pub circle: Vec<CircleStatus>,
    /// Workers that share batches.
    #[serde(default)]
    pub sessions: Vec<SessionStatus>,
    /// The trees that rounds go along, if the scheduler was told to make some.
    #[serde(default)]
    pub trees: Option<TreesStatus>,
    /// How workers train while deltas travel (`docs/nbsync.md`), if they do: `nbsync, 8 sections,
    /// nesterov 0.5 x 1`.
    #[serde(default)]
    pub exchange: Option<String>,
    /// The same of each kvstore.
    #[serde(default)]
    pub exchanges: Vec<ExchangeStatus>,
    /// In a job without an exchange: what one would bring, if that is much; else empty.
    #[serde(default)]
    pub exchange_advice: String,
    /// Pieces without a copy, where copies are to be kept.
    #[serde(default)]
    pub uncopied: usize,
    /// Settings that nodes must have alike.
    #[serde(default)]
    pub settings: Vec<SettingStatus>,
    /// What has happened, and how long rounds took, if that was asked for. None: it was not, or the
    /// scheduler is of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chronicle: Option<ChroniclePart>,
    /// The newest round that a worker has told of; none: no worker measures.
    #[serde(default)]
    pub rounds: Option<u64>,
    /// What the planner has ordered to move so far, by reason.
    #[serde(default)]
    pub moved: Vec<MovedStatus>,
    /// How many servers are advised: as many as hold values, or are to, and one more or one fewer
    /// if that would pay. None before the job is complete.
    #[serde(default)]
    pub advised_servers: Option<usize>,
    /// The longest wait for each node for which somebody waits.
    #[serde(default)]
    pub oldest_waits: Vec<OldestWait>,
}

/// A barrier, or a round, that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitStatus {
    /// What it is, for people.
    pub what: String,
    /// Since when, in seconds since the scheduler began.
    pub since: f64,
    /// For how many seconds.
    pub waited: f64,
    /// For which nodes. None: all workers have pushed, or nobody knows.
    #[serde(rename = "for")]
    pub missing: Vec<NodeId>,
}

/// One of those that wait for each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CircleStatus {
    /// What waits, for people.
    pub what: String,
    /// For which node, which is in the next one.
    pub node: NodeId,
}

/// What has moved for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedStatus {
    /// `shorter` (rounds become shorter), `joins` (a server has nothing yet), `leaves` (a server
    /// gives up what it has, or is dead), `back` (rounds had become longer).
    pub reason: String,
    /// Bytes of values, and of what belongs to them.
    pub bytes: u64,
}

/// The longest wait for a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OldestWait {
    /// For whom.
    pub node: NodeId,
    /// For so many seconds.
    pub seconds: f64,
}

/// Trees of sites, and the links between these; or of nodes, if they were not planned for links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TreesStatus {
    /// How they are made (`PSLITE_TOPOLOGY`).
    pub topology: String,
    /// The number of the overlay in force.
    pub overlay: u64,
    /// The trees.
    pub trees: Vec<TreeStatus>,
    /// All links, each in both directions.
    pub links: Vec<LinkStatus>,
    /// Why rounds go straight to the servers, if they do.
    #[serde(default)]
    pub why: String,
}

/// One tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TreeStatus {
    /// The fraction of the model that takes it.
    pub share: f64,
    /// The site of the server that owns that.
    pub root: String,
    /// How sums come to it: each site, and in brackets those that send to it.
    pub up: String,
    /// How values go from it: each site, and in brackets those that it sends to.
    pub down: String,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkStatus {
    /// The site that sends.
    pub from: String,
    /// The site that receives.
    pub to: String,
    /// What it carries, in Mbit/s of data; 0: nothing gets through.
    pub mbit: f64,
    /// That was measured; else it is what the scheduler was told.
    pub measured: bool,
}

/// One node of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// What it does: `server` or `worker`.
    pub role: String,
    /// Its rank.
    pub rank: i32,
    /// Its id.
    pub id: NodeId,
    /// `host:port`.
    pub address: String,
    /// `live`, `joining`, `draining`, `fixed` (its values do not move), `dead`, `released`, `back`
    /// (a worker that took the place of a dead one); `registered` before the job is complete.
    pub state: String,
    /// Of a server: pieces that it owns.
    pub pieces: usize,
    /// Of a server: bytes of the values that it owns.
    pub bytes: u64,
    /// Of a server: bytes of what belongs to these values.
    pub state_bytes: u64,
    /// Of a worker: seconds of an iteration in which none of its requests was under way.
    #[serde(default)]
    pub computes: Option<f64>,
    /// Of a worker: seconds of an iteration in which some were: it waited for the network, or for
    /// other workers.
    #[serde(default)]
    pub waits: Option<f64>,
    /// Seconds since something was heard of it; none if it sends no signs of life, or is gone.
    #[serde(default)]
    pub heard: Option<f64>,
    /// What it has counted, if the scheduler shows that, and the node is not gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub totals: Option<NodeTotals>,
}

impl Status {
    /// One JSON object on one line.
    #[must_use]
    pub fn json(&self) -> String {
        // Texts and numbers only: there is nothing that JSON cannot say.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads what [`Self::json`] wrote; none if the text is something else.
    #[must_use]
    pub fn from_json(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}
