//! The numbers of keys, nodes and groups of nodes, as stock has them. Names no message.

/// A parameter key. Stock ps-lite is built with 64-bit keys (base.h:10).
pub type Key = u64;

/// The id of a node: scheduler 1, server of rank r `8 + 2r`, worker of rank r `9 + 2r`
/// (base.h:20-30); or the sum of group bits where a group is allowed.
pub type NodeId = i32;

/// The value that stock uses for "not set" in every `int` field (`Node::kEmpty`, `Meta::kEmpty`).
pub const EMPTY: i32 = i32::MAX;

/// The id of the scheduler.
pub const SCHEDULER: NodeId = 1;

/// The group of all servers, as a bit.
pub const SERVER_GROUP: i32 = 2;

/// The group of all workers, as a bit.
pub const WORKER_GROUP: i32 = 4;

/// Every node: scheduler, servers and workers.
pub const ALL_GROUP: i32 = SCHEDULER + SERVER_GROUP + WORKER_GROUP;

/// The id of the server of that rank (postoffice.h:101).
#[must_use]
pub const fn server_id(rank: usize) -> NodeId {
    8 + 2 * (rank as i32)
}

/// The id of the worker of that rank (postoffice.h:107).
#[must_use]
pub const fn worker_id(rank: usize) -> NodeId {
    9 + 2 * (rank as i32)
}

/// Whether that is the id of a worker: they are odd (postoffice.h:107); the scheduler, and groups,
/// are below.
#[must_use]
pub const fn is_worker(id: NodeId) -> bool {
    id >= worker_id(0) && id % 2 == 1
}

/// Whether that is the id of a server: they are even, and above those of groups.
#[must_use]
pub const fn is_server(id: NodeId) -> bool {
    id >= server_id(0) && id % 2 == 0
}

/// The rank behind an id, as stock computes it; 0 for the scheduler (postoffice.h:113).
#[must_use]
pub const fn id_to_rank(id: NodeId) -> i32 {
    let rank = (id - 8) / 2;
    if rank > 0 { rank } else { 0 }
}
