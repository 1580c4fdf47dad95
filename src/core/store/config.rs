//! What a store is told when it is made. Pure.

use crate::wire::NodeId;
#[cfg(test)]
use crate::wire::server_id;

/// In which order the pushes of a round are summed (`PSLITE_DETERMINISTIC`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SumOrder {
    /// As they come.
    #[default]
    Arrival,
    /// By ranks, so that runs repeat bit for bit: so no round goes along a tree.
    Ranks,
    /// Along trees, and at each node in the order of children: so runs with the same trees repeat
    /// bit for bit, and a piece takes the same tree in each round.
    Trees,
}

impl SumOrder {
    /// By ranks, or as they come.
    #[must_use]
    pub const fn by_ranks(by_ranks: bool) -> Self {
        if by_ranks { Self::Ranks } else { Self::Arrival }
    }

    /// True unless sums are made as pushes come.
    #[must_use]
    pub fn is_fixed(self) -> bool {
        self != Self::Arrival
    }
}

/// What a store is told when it is made.
#[derive(Clone, Copy, Debug)]
pub struct StoreConfig {
    /// Workers of the job.
    pub workers: usize,
    /// Servers of the application's view (`DMLC_NUM_SERVER`): keys are counted from the begin of
    /// the range of the one whose range they lie in.
    pub servers: usize,
    /// This server. One that is none of the first `servers` ids joins a job that runs.
    pub id: NodeId,
    /// In which order pushes are summed.
    pub order: SumOrder,
    /// All nodes follow pieces that move (docs/elastic.md).
    pub elastic: bool,
    /// Copies of each piece beside the owner's, until the first policy says so: 0 or 1.
    pub replicas: u32,
    /// Bytes of value of the longest part ([`PART_BYTES`]); where less is held they are shorter
    /// (docs/elastic.md, "Parts").
    pub part_bytes: usize,
}

#[cfg(test)]
impl StoreConfig {
    /// The only server of a job with so many workers, as most tests need it.
    pub(crate) const fn alone(workers: usize) -> Self {
        Self {
            workers,
            servers: 1,
            id: server_id(0),
            order: SumOrder::Arrival,
            elastic: false,
            replicas: 0,
            part_bytes: PART_BYTES,
        }
    }
}

/// The longest part into which long pieces are cut. What was pushed to a part is copied to the
/// replica while the rest of the tensor still comes in; of one piece only when all of it is there.
pub const PART_BYTES: usize = 4 << 20;
