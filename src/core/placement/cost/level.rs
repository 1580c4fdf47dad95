//! Each server as a tap of its own: exact where no limit joins two servers; elsewhere either the
//! best case, for a bound, or the even case, for a target when there are too many servers for the
//! linear program.

use super::Model;
use super::closed::{Tap, pour};
use super::rows::Row;

/// Whether some limit joins two servers, or a server and the workers of its host.
pub(super) fn joined(model: &Model) -> bool {
    model.rows.iter().any(|row| row.terms.len() > 1 || (row.base != 0.0 && !row.terms.is_empty()))
}

/// What a limit that joins servers means for one of them.
#[derive(Clone, Copy)]
pub(super) enum Share {
    /// The others take none of it: cannot be better.
    Best,
    /// All take as many bytes.
    Even,
}

/// Seconds of a round for each byte that a server holds; 0 if nothing limits it.
fn slope(model: &Model, index: usize, share: Share) -> f64 {
    model.rows.iter().filter_map(|row| slope_of(row, index, share)).fold(0.0, f64::max)
}

fn slope_of(row: &Row, index: usize, share: Share) -> Option<f64> {
    let own = row.terms.iter().find(|(term, _)| *term == index).map(|(_, factor)| *factor)?;
    let factor = match share {
        Share::Best if row.terms.iter().any(|(_, factor)| *factor < 0.0) => 0.0,
        Share::Best => own,
        Share::Even => row.terms.iter().map(|(_, factor)| factor).sum(),
    };
    (factor > 0.0).then_some(factor / row.rate)
}

/// The usable servers as taps, with their indices.
pub(super) fn taps(model: &Model, share: Share) -> Vec<(usize, Tap)> {
    let usable = model.servers.iter().enumerate().filter(|(_, server)| server.usable);
    usable
        .map(|(index, server)| {
            let slope = slope(model, index, share);
            // A server that nothing limits takes everything at once.
            let rate = if slope > 0.0 { 1.0 / slope } else { f64::MAX.sqrt() };
            (index, Tap { rate, starts: server.fixed })
        })
        .collect()
}

/// Seconds that pass whoever holds what.
pub(super) fn floor(model: &Model, total: f64) -> f64 {
    let least = |row: &Row| row.terms.iter().map(|(_, factor)| *factor).fold(0.0, f64::min);
    let floor = |row: &Row| (row.base + least(row)) * total / row.rate;
    model.rows.iter().map(floor).fold(0.0, f64::max)
}

/// The seconds of a round with the servers as taps. None: no server takes anything.
pub(super) fn seconds(model: &Model, total: f64, share: Share) -> Option<f64> {
    let taps: Vec<Tap> = taps(model, share).into_iter().map(|(_, tap)| tap).collect();
    pour(&taps, total).map(|seconds| seconds.max(floor(model, total)))
}

/// As [`Model::target`], with limits that join servers taken as evenly shared.
pub(super) fn target(model: &Model, loads: &[f64], homeless: f64) -> Option<Vec<f64>> {
    let total = loads.iter().sum::<f64>() + homeless;
    let taps = taps(model, Share::Even);
    let plain: Vec<Tap> = taps.iter().map(|(_, tap)| *tap).collect();
    let seconds = pour(&plain, total)?.max(floor(model, total));
    let mut target = vec![0.0; loads.len()];
    let mut left = total;
    let mut rooms = Vec::with_capacity(taps.len());
    for (index, tap) in &taps {
        let (most, load) = (tap.within(seconds), loads.get(*index).copied().unwrap_or(0.0));
        let kept = load.min(most);
        left -= kept;
        rooms.push((*index, most.min(total) - kept));
        if let Some(slot) = target.get_mut(*index) {
            *slot = kept;
        }
    }
    let room: f64 = rooms.iter().map(|(_, room)| room).sum();
    for (index, own) in rooms.iter().filter(|_| room > 0.0) {
        if let Some(slot) = target.get_mut(*index) {
            *slot += left.max(0.0) * own / room;
        }
    }
    Some(target)
}
