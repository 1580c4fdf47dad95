//! Where copies lie: a slow server that keeps the copies of a fast one holds up every round.

use std::time::Duration;

use super::Planner;
use super::decide::{BASELINE, Candidate};
use super::look::{Basis, Look};
use crate::placement::cost::Replicas;
use crate::wire::NodeId;

/// Pairs of owner and holder of the copies.
pub type CopyPairs = Vec<(NodeId, NodeId)>;

/// Up to so many servers other places for copies are looked for.
const MOST_SERVERS: usize = 24;
/// Copies stay where they are unless the shortest possible round becomes shorter by that part. It
/// is little because it pays more than the bound tells: a slow server that is filled by the copies
/// of a fast one keeps every worker waiting for each of them.
const WORTH: f64 = 0.03;
/// By so much it becomes shorter where the last places were decided before all that changed was
/// seen.
const MUCH: f64 = 0.1;
/// One change that makes less of a difference than this is none.
const STEP: f64 = 0.01;
/// Between two changes of places, at least: of little worth, and of much.
const REST: [Duration; 2] = [Duration::from_secs(20), Duration::from_secs(5)];

impl Planner {
    /// Where copies are kept now, as far as that was decided; all others are at the next server.
    pub fn set_copies(&mut self, pairs: CopyPairs) {
        if let Replicas::Next { ratio } | Replicas::Given { ratio, .. } = self.settings.replicas {
            self.settings.replicas = match pairs.is_empty() {
                true => Replicas::Next { ratio },
                false => Replicas::Given { ratio, pairs },
            };
        }
    }

    /// Better places for copies, if there are any that have been worth it for a while. They should
    /// be taken before pieces are moved: what is best to move depends on them.
    pub fn copies(&mut self, now: Duration) -> Option<CopyPairs> {
        let rested = |rest| self.copies_moved.is_none_or(|at| now.saturating_sub(at) >= rest);
        let [long_ago, a_while_ago] = [rested(REST[0]), rested(REST[1])];
        let early =
            self.last_look.is_some_and(|last| now.saturating_sub(last) < self.settings.period);
        if !a_while_ago || early || !self.settings.enabled || self.moving.is_some() {
            return None;
        }
        let look = self.look(now)?;
        if look.basis != Basis::Links || !self.is_measured() {
            return None;
        }
        let Some(pairs) = better(&look, if long_ago { WORTH } else { MUCH }) else {
            self.copies_wanted = None;
            return None;
        };
        let since = *self.copies_wanted.get_or_insert(now);
        // They are made anew, so what is known of the first seconds alone is no reason.
        if now.saturating_sub(since) < self.settings.settle
            || self.is_without_baseline(now, BASELINE)
        {
            return None;
        }
        (self.copies_wanted, self.copies_moved) = (None, Some(now));
        // The network has held still for long enough: pieces can follow at once.
        let busy = self.busy.at(now).saturating_sub(now.saturating_sub(since));
        self.candidate = Some(Candidate::settled(since, busy));
        // Where pieces are was decided for other places of copies.
        self.expected = None;
        Some(pairs)
    }
}

/// Pairs with which the shortest possible round is shorter by that part: from those of now, one
/// after the other is changed as long as that helps.
fn better(look: &Look, worth: f64) -> Option<CopyPairs> {
    // Where workers limit the round that may change with the next one; a copy at a slow server
    // stays there.
    let (model, total) = (&look.model.without_workers(), look.total());
    let usable = model.servers().iter().filter(|server| server.usable);
    let usable: Vec<NodeId> = usable.map(|server| server.id).collect();
    let now = model.copy_pairs();
    if now.is_empty() || !(3..=MOST_SERVERS).contains(&usable.len()) {
        return None;
    }
    let ratio = model.copy_ratio();
    let with =
        |pairs: &CopyPairs| model.with_replicas(Replicas::Given { ratio, pairs: pairs.clone() });
    let before = model.bound(total);
    let (mut best, mut pairs) = (before, now);
    for _ in 0..usable.len() {
        let changes = changes(&pairs, &usable);
        let bounds = changes.into_iter().map(|pairs| (with(&pairs).bound(total), pairs));
        match bounds.min_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((bound, changed)) if bound < best * (1.0 - STEP) => {
                (best, pairs) = (bound, changed)
            }
            _ => break,
        }
    }
    (before > best * (1.0 + worth)).then_some(pairs)
}

/// All pairs that differ in one holder.
fn changes(pairs: &CopyPairs, usable: &[NodeId]) -> Vec<CopyPairs> {
    let mut all = Vec::new();
    for (index, (owner, holder)) in pairs.iter().enumerate() {
        for other in usable.iter().filter(|other| *other != owner && *other != holder) {
            let mut changed = pairs.clone();
            changed[index].1 = *other;
            all.push(changed);
        }
    }
    all
}
