//! What is asked of a [`Model`] about other loads than those of now: the shortest round, and the
//! loads towards which to move. Which way that is computed depends on the number of servers.

use super::lanes::ServerLane;
use super::model::Model;
use super::program::{MOST_SERVERS, Start};
use super::{bound, lanes, level, program};

impl Model {
    /// T*: the seconds of a round that no split of `total` bytes over the usable servers can go
    /// below. Infinite without a usable server.
    #[must_use]
    pub fn bound(&self, total: f64) -> f64 {
        bound::bound(self, total)
    }

    /// The loads towards which to move, from what is held now plus `homeless` bytes: shortest
    /// round, then as little moved as possible. A byte moved costs `price` seconds of a round.
    /// None: nothing to do, or no usable server.
    #[must_use]
    pub fn target(&self, loads: &[f64], homeless: f64, price: f64) -> Option<Vec<f64>> {
        if self.servers.iter().filter(|server| server.usable).count() > MOST_SERVERS {
            return level::target(self, loads, homeless);
        }
        program::solve(self, &Start { loads, homeless, price })
    }

    /// What a byte takes at each server alone.
    pub(in crate::placement) fn lanes(&self, loads: &[f64]) -> Vec<ServerLane> {
        lanes::lanes(self, loads)
    }
}
