//! Each push is applied exactly once to each element that it covers: no element has counted more
//! pushes than there were. (That none is missing is `durable`'s, and at the end of a job both are
//! exact.)

use super::owners::Owned;
use super::progress::Progress;
use crate::jobs::workload::COUNT_BASE;
use pslite_core::wire::NodeId;

/// The pushes of each worker that each element has counted; `None` if its value is no count.
pub(super) fn counts(values: &[u8], workers: usize) -> Vec<Option<Vec<u64>>> {
    let (elements, _) = values.as_chunks::<4>();
    elements.iter().map(|bytes| count(f32::from_ne_bytes(*bytes), workers)).collect()
}

fn count(value: f32, workers: usize) -> Option<Vec<u64>> {
    let whole = value >= 0.0 && value.fract() == 0.0 && value < COUNT_BASE.powi(workers as i32);
    let digits = |value: u64| {
        let digit = |worker: u32| value / u64::pow(COUNT_BASE as u64, worker) % COUNT_BASE as u64;
        (0..workers as u32).map(digit).collect()
    };
    whole.then(|| digits(value as u64))
}

/// The first element that has counted what was never pushed.
pub(super) fn check(
    name: &str,
    counts: &[Option<Vec<u64>>],
    progress: &[Progress],
) -> Option<String> {
    let possible = |counts: &Option<Vec<u64>>| {
        let counts = counts.iter().flatten().zip(progress);
        counts.clone().count() == progress.len() && counts.clone().all(|(n, p)| *n <= p.begun)
    };
    let at = counts.iter().position(|counts| !possible(counts))?;
    let begun: Vec<u64> = progress.iter().map(|progress| progress.begun).collect();
    Some(format!("{name}, element {at}: counted {:?} pushes of {begun:?}", counts[at]))
}

/// A round needs a push of every worker.
pub(super) fn check_owner(server: NodeId, piece: &Owned, begun: u64) -> Option<String> {
    (piece.version > begun).then(|| {
        format!("server {server} has {piece}: not every worker has pushed more than {begun} times")
    })
}
