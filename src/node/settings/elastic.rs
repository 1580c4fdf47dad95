//! What `PSLITE_ELASTIC` says: whether a node follows keys that move, and what that means for
//! copies and for what is said at the start. Pure; reads and prints nothing.

/// What a node was told of keys that move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elastic {
    /// `0`: static, as stock.
    Off,
    /// `moves`, and what is meant where nothing is set ([`Self::unset`]): keys move, servers join
    /// and drain, and no copies are kept. Where that cannot be, the job is static, and nothing is
    /// said.
    Moves,
    /// `1`: the same with copies, so that servers may die. Where that cannot be, it is said.
    Copies,
}

/// Settings of a node that keep its keys where they are, if `PSLITE_ELASTIC` is not set.
#[derive(Clone, Copy, Debug)]
pub struct StaticReasons {
    /// The priority van: MXNet then cuts tensors and orders their messages by itself.
    pub priority_van: bool,
    /// `PS_HEARTBEAT_TIMEOUT`: lost nodes are to be replaced as with stock.
    pub replaces_lost: bool,
    /// `PSLITE_STORE=mxnet`: the values are in MXNet's own server, which cannot give them away.
    pub foreign_store: bool,
}

impl Elastic {
    /// What it means if `PSLITE_ELASTIC` is not set: keys move, unless another setting needs them
    /// to stay. Each node decides for itself. One whose keys stay does not claim the ability, so
    /// the whole job is static, and nobody logs anything.
    #[must_use]
    pub const fn unset(reasons: StaticReasons) -> Self {
        let StaticReasons { priority_van, replaces_lost, foreign_store } = reasons;
        if priority_van || replaces_lost || foreign_store { Self::Off } else { Self::Moves }
    }

    /// True if this node wants to follow keys that move.
    #[must_use]
    pub const fn moves(self) -> bool {
        !matches!(self, Self::Off)
    }

    /// True if a node that cannot follow keys that move must say so: it was asked for a job that
    /// survives what a static one does not.
    #[must_use]
    pub const fn insists(self) -> bool {
        matches!(self, Self::Copies)
    }

    /// Copies of each piece, where `PSLITE_REPLICAS` does not say; `None`: as many as the number
    /// of servers allows.
    #[must_use]
    pub const fn replicas(self) -> Option<u32> {
        match self {
            Self::Moves => Some(0),
            Self::Off | Self::Copies => None,
        }
    }
}
