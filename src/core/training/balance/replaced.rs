//! What people are told of a process that replaces a worker of a session. Knows no session.

use crate::wire::{NodeId, id_to_rank};

/// What a process that replaces another does to rounds. Servers count pushes (as on stock), and the
/// coordinator knows reports: it cannot tell whether the former process had pushed what it had not
/// reported.
pub(super) fn text(session: &str, node: NodeId, first: u64) -> String {
    let worker = id_to_rank(node);
    let why = match worker {
        0 => "As worker 0 it pushes initial values again, which servers of dist_sync count as \
              gradients, so"
            .to_owned(),
        _ => format!(
            "If the former process had pushed gradients of iteration {first} or later, which it \
             had not reported, servers of dist_sync have counted these, and"
        ),
    };
    format!(
        "session {session:?}: the process that replaces worker {worker} goes on with iteration \
         {first}. {why} what it pushes from now on counts one round late, up to the end. \
         PSLITE_ELASTIC_WORKERS=1 has no such limit (docs/lbbsp.md)"
    )
}
