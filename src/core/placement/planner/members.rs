//! Who is in the job, as the planner is told. Must not know what it makes of them.

use crate::wire::NodeId;

/// What a server is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duty {
    /// It holds pieces.
    #[default]
    Active,
    /// It shall be emptied.
    Draining,
}

/// A worker of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerMember {
    /// The node.
    pub id: NodeId,
    /// Nodes of one host have one number. None: it is alone.
    pub host: Option<u32>,
}

/// A live server of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerMember {
    /// The node.
    pub id: NodeId,
    /// As of workers.
    pub host: Option<u32>,
    /// What it is for.
    pub duty: Duty,
}

/// Who is in the job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Live workers.
    pub workers: Vec<WorkerMember>,
    /// Live servers.
    pub servers: Vec<ServerMember>,
}

/// All nodes of a job.
pub(super) fn ids(members: &Members) -> impl Iterator<Item = NodeId> {
    let workers = members.workers.iter().map(|worker| worker.id);
    workers.chain(members.servers.iter().map(|server| server.id))
}
