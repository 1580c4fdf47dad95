//! Where copies lie: a slow server that keeps the copies of a fast one holds up every round.

use std::time::Duration;

use super::candidate::Candidate;
use super::look::{Basis, PlannerLook};
use super::state::Planner;
use crate::placement::cost::Replicas;
use crate::placement::tuning::{
    COPIES_GAIN, COPIES_GAIN_EARLY, COPIES_PAUSE, COPIES_SERVERS_MAX, COPIES_STEP_GAIN,
    FIRST_TIMES_WAIT,
};
use crate::wire::NodeId;

/// Pairs of owner and holder of the copies.
pub type CopyPairs = Vec<(NodeId, NodeId)>;

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
        let [long_ago, a_while_ago] = [rested(COPIES_PAUSE[0]), rested(COPIES_PAUSE[1])];
        let early =
            self.last_look.is_some_and(|last| now.saturating_sub(last) < self.settings.period);
        if !a_while_ago || early || !self.settings.enabled || self.moving.is_some() {
            return None;
        }
        let look = self.look(now)?;
        if look.basis != Basis::Links || !self.is_measured() {
            return None;
        }
        let Some(pairs) = better(&look, if long_ago { COPIES_GAIN } else { COPIES_GAIN_EARLY })
        else {
            self.copies_wanted = None;
            return None;
        };
        let since = *self.copies_wanted.get_or_insert(now);
        // They are made anew, so what is known of the first seconds alone is no reason.
        if now.saturating_sub(since) < self.settings.settle
            || self.is_without_baseline(now, FIRST_TIMES_WAIT)
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

/// Pairs with which the shortest possible round is shorter by that fraction: from those of now,
/// one after the other is changed as long as that helps.
fn better(look: &PlannerLook, worth: f64) -> Option<CopyPairs> {
    // Where workers limit the round that may change with the next one; a copy at a slow server
    // stays there.
    let (model, total) = (&look.model.without_workers(), look.total());
    let usable = model.servers().iter().filter(|server| server.usable);
    let usable: Vec<NodeId> = usable.map(|server| server.id).collect();
    let now = model.copy_pairs();
    if now.is_empty() || !(3..=COPIES_SERVERS_MAX).contains(&usable.len()) {
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
            Some((bound, changed)) if bound < best * (1.0 - COPIES_STEP_GAIN) => {
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
