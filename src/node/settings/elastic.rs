//! What `PSLITE_ELASTIC` says: whether a node follows keys that move, and what that means for
//! copies and for what is said at the start. Pure; reads and prints nothing.

/// What a node was told of keys that move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Elastic {
    /// `0`: static, as stock. The default.
    #[default]
    Off,
    /// `moves`: keys move, servers join and drain, and no copies are kept. Where that cannot be,
    /// the job is static, and nothing is said.
    Moves,
    /// `1`: the same with copies, so that servers may die. Where that cannot be, it is said.
    Copies,
}

impl Elastic {
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
