//! How to plan: the parameters of the planner, and what they are unless somebody says so.

use std::time::Duration;

use crate::placement::cost::Replicas;
use crate::placement::shares::ShareParameters;
use crate::placement::stragglers::StragglerParameters;
use crate::placement::tuning::{LOOK_PERIOD, SETTLE, STEADY};

/// How to plan.
#[derive(Clone, Debug)]
pub struct PlacementSettings {
    /// False: nothing moves unless it must (a server is drained or gone).
    pub enabled: bool,
    /// Copies of the pieces.
    pub replicas: Replicas,
    /// Planner A. Its horizon is set by [`PlacementSettings::steady`].
    pub shares: ShareParameters,
    /// Planner C.
    pub stragglers: StragglerParameters,
    /// Between two looks at the job, at least (docs/algorithms.md 2.4 looks every 5 s; a look costs
    /// less than a millisecond, and a change of the network should not cost several rounds).
    pub period: Duration,
    /// A plan has to be worth it for that long: longer than it takes until all nodes have noticed a
    /// change.
    pub settle: Duration,
    /// How long the network is expected to stay as it is; what a move costs has to come back in
    /// that time.
    pub steady: Duration,
}

impl Default for PlacementSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            replicas: Replicas::None,
            shares: ShareParameters::default(),
            stragglers: StragglerParameters::default(),
            period: LOOK_PERIOD,
            settle: SETTLE,
            steady: STEADY,
        }
    }
}
