//! Each server as a tap of its own: exact where no limit joins two servers; elsewhere either the
//! best case, for a bound, or the even case, for a target when there are too many servers for the
//! linear program.

use super::closed::{Tap, TwoTaps, pour};
use super::rows::Row;
use super::{Exchange, Model};

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

/// Seconds of a phase for each byte that a server holds; 0 if nothing limits it.
fn slope(model: &Model, index: usize, phase: usize, share: Share) -> f64 {
    let rows = model.rows.iter().filter(|row| row.phase == phase);
    rows.filter_map(|row| slope_of(row, index, share)).fold(0.0, f64::max)
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
            let slope = slope(model, index, 0, share) + slope(model, index, 1, share);
            // A server that nothing limits takes everything at once.
            let rate = if slope > 0.0 { 1.0 / slope } else { f64::MAX.sqrt() };
            let room = server.memory.unwrap_or(f64::INFINITY);
            (index, Tap { rate, starts: server.fixed, room })
        })
        .collect()
}

/// The usable servers with push and pull one after the other.
pub(super) fn two_taps(model: &Model, share: Share) -> Vec<TwoTaps> {
    let usable = model.servers.iter().enumerate().filter(|(_, server)| server.usable);
    let rate = |slope: f64| if slope > 0.0 { 1.0 / slope } else { f64::MAX.sqrt() };
    usable
        .map(|(index, server)| TwoTaps {
            push: rate(slope(model, index, 0, share)),
            pull: rate(slope(model, index, 1, share)),
            room: server.memory.unwrap_or(f64::INFINITY),
        })
        .collect()
}

/// Seconds of each phase that pass whoever holds what.
pub(super) fn floors(model: &Model, total: f64) -> [f64; 2] {
    let mut floors = [0.0_f64; 2];
    for row in &model.rows {
        let least = row.terms.iter().map(|(_, factor)| *factor).fold(0.0, f64::min);
        if let Some(floor) = floors.get_mut(row.phase) {
            *floor = floor.max((row.base + least) * total / row.rate);
        }
    }
    floors
}

/// The seconds of a round with the servers as taps.
pub(super) fn seconds(model: &Model, total: f64, share: Share) -> Option<f64> {
    let floors = floors(model, total);
    match model.exchange {
        Exchange::Overlapped => {
            let taps: Vec<Tap> = taps(model, share).into_iter().map(|(_, tap)| tap).collect();
            pour(&taps, total).map(|seconds| seconds.max(floors[0]))
        }
        Exchange::Sequential => {
            let both = super::closed::sequential(&two_taps(model, share), floors, total);
            both.map(|[push, pull]| push + pull)
        }
    }
}

/// As [`Model::target`], with limits that join servers taken as evenly shared.
pub(super) fn target(model: &Model, loads: &[f64], homeless: f64) -> Option<Vec<f64>> {
    let total = loads.iter().sum::<f64>() + homeless;
    let taps = taps(model, Share::Even);
    let plain: Vec<Tap> = taps.iter().map(|(_, tap)| *tap).collect();
    let seconds = pour(&plain, total)?.max(floors(model, total).iter().sum());
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
