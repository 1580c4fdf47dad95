//! T*: what no split of the bytes can beat (docs/algorithms.md 1).

use super::level::{self, Share};
use super::{Exchange, Model, program};

/// As [`Model::bound`].
pub(super) fn bound(model: &Model, total: f64) -> f64 {
    let usable = model.servers.iter().filter(|server| server.usable).count();
    if total <= 0.0 {
        return 0.0;
    }
    if usable == 0 {
        return f64::INFINITY;
    }
    let fixed = model.servers.iter().any(|server| server.usable && server.fixed > 0.0);
    let open = level::joined(model) || (fixed && model.exchange == Exchange::Sequential);
    if open
        && usable <= program::MOST_SERVERS
        && let Some(seconds) = program::shortest(model, total)
    {
        return seconds;
    }
    // Beyond that many servers: still a bound, but perhaps a loose one.
    level::seconds(model, total, Share::Best)
        .unwrap_or_else(|| bound(&without_memory(model), total))
}

/// The same job with memory without end.
fn without_memory(model: &Model) -> Model {
    let mut model = model.clone();
    model.servers.iter_mut().for_each(|server| server.memory = None);
    model
}
