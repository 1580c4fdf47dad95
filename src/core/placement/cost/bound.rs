//! T*: what no split of the bytes can beat (docs/algorithms.md 1).

use super::level::{self, Share};
use super::{Model, program};

/// As [`Model::bound`].
pub(super) fn bound(model: &Model, total: f64) -> f64 {
    let usable = model.servers.iter().filter(|server| server.usable).count();
    if total <= 0.0 {
        return 0.0;
    }
    if usable == 0 {
        return f64::INFINITY;
    }
    if level::joined(model)
        && usable <= program::MOST_SERVERS
        && let Some(seconds) = program::shortest(model, total)
    {
        return seconds;
    }
    // Beyond that many servers: still a bound, but perhaps a loose one.
    level::seconds(model, total, Share::Best).unwrap_or(f64::INFINITY)
}
