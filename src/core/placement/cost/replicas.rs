//! Where copies of pieces lie, and what keeping them costs.

use crate::wire::NodeId;

/// Whether each piece has a copy at another server, which is brought up to date each round.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Replicas {
    /// No copies.
    #[default]
    None,
    /// One copy, at the next usable server in ascending order of ids, cyclic.
    Next {
        /// Bytes sent to the copy in a round for each byte of value: 1 if the value alone goes.
        ratio: f64,
    },
    /// One copy, at the server that is named: pairs of owner and holder of the copy. Of a server
    /// that is not named, or whose holder is not usable, as in `Next`.
    Given {
        /// As in `Next`.
        ratio: f64,
        /// Who copies to whom.
        pairs: Vec<(NodeId, NodeId)>,
    },
}

impl Replicas {
    /// Bytes to the copy for each byte of value; 0 without copies.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Next { ratio } | Self::Given { ratio, .. } if ratio.is_finite() => ratio.max(0.0),
            _ => 1.0,
        }
    }
}
