//! No push is lost after its callback: whoever pulls, and whoever owns, has at least what workers
//! were told is done.

use super::owners::Owned;
use super::versions::Wrong;
use pslite_core::wire::NodeId;

/// The first element that lacks a push that was done before the pull began.
pub(super) fn check_counts(
    name: &str,
    counts: &[Option<Vec<u64>>],
    done: &[u64],
) -> Option<String> {
    let lacks = |counts: &Option<Vec<u64>>| {
        counts.as_ref().is_some_and(|counts| counts.iter().zip(done).any(|(n, done)| n < done))
    };
    let at = counts.iter().position(lacks)?;
    Some(format!("{name}, element {at}: counted {:?} pushes, {done:?} were done", counts[at]))
}

/// An element has the value of an older version than the one that was done before the pull began.
pub(super) fn check_versions(name: &str, wrong: &Wrong, from: u64) -> Option<String> {
    let (at, version) = wrong.old?;
    Some(format!("{name}, element {at}: version {version}, but round {from} was done"))
}

/// An owner has less than was done.
pub(super) fn check_owner(server: NodeId, piece: &Owned, last: u64) -> Option<String> {
    (piece.version < last)
        .then(|| format!("server {server} has {piece}, but round {last} was done"))
}
