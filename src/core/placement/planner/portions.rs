//! Servers that are to be emptied, and live, give up a portion of their pieces in each round: all
//! at once would hold up the round in which they go. What was at servers that are gone moves at
//! once, and so do keys of applications with their own handlers: nobody counts their rounds, and
//! one of them alone may be more than a portion.

use std::time::Duration;

use super::look::PlannerLook;
use super::state::Planner;
use crate::placement::cost::bytes;
use crate::placement::layout::{Plan, apply};
use crate::placement::shares;
use crate::placement::tuning::{PORTION_ROUNDS, PORTION_WAIT, PORTION_WAIT_ROUNDS};
use crate::wire::NodeId;

impl Planner {
    pub(super) fn may_hold(&self, id: NodeId) -> bool {
        let member = self.members.servers.iter().find(|member| member.id == id);
        member.is_some_and(Self::is_usable)
    }

    /// True if all that must move is at servers that live, and in keys whose rounds are counted.
    fn is_no_hurry(&self) -> bool {
        let lives = |id: &NodeId| self.members.servers.iter().any(|member| member.id == *id);
        self.summary.held.keys().all(lives) && !self.summary.opaque
    }

    /// True while the round after a portion is not over.
    pub(super) fn rests(&self, now: Duration, look: &PlannerLook) -> bool {
        let Some(since) = self.portion_at.filter(|_| self.is_no_hurry()) else { return false };
        let usual = look.model.round_seconds(&look.loads) * PORTION_WAIT_ROUNDS;
        let limit = Duration::try_from_secs_f64(usual).unwrap_or(PORTION_WAIT).max(PORTION_WAIT);
        self.newest_round() < self.switch_round && now.saturating_sub(since) < limit
    }

    /// As much of a plan that must be as one round bears; all of it if that is no more, or if it is
    /// urgent.
    pub(super) fn portion(&mut self, now: Duration, look: &PlannerLook, plan: Plan) -> Plan {
        self.portion_at = None;
        if !self.is_no_hurry() {
            return plan;
        }
        #[allow(clippy::cast_precision_loss, reason = "a count of servers")]
        let usable =
            look.model.servers().iter().filter(|server| server.usable).count().max(1) as f64;
        let rate = look.model.pooled_rate() / usable;
        let most = PORTION_ROUNDS * look.model.round_seconds(&look.loads) * rate;
        let mut sum = 0.0;
        let mut given_up = 0;
        let mut moves = Vec::new();
        for step in plan.moves.iter().filter(|step| !self.may_hold(step.owner)) {
            given_up += 1;
            sum += bytes(shares::moved_bytes(&self.layout, std::slice::from_ref(step)));
            if moves.is_empty() || sum <= most {
                moves.push(step.clone());
            }
        }
        let Some(layout) = apply(&self.layout, &moves).ok().filter(|_| moves.len() < given_up)
        else {
            return plan;
        };
        self.portion_at = Some(now);
        Plan {
            predicted: shares::waiting::seconds(&layout, &look.model),
            moved_bytes: shares::moved_bytes(&self.layout, &moves),
            reason: format!("{}, {} of {given_up} moves in this round", plan.reason, moves.len()),
            moves,
            ..plan
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::layout::PieceLoad;
    use crate::placement::planner::{Duty, Members, PlacementSettings, ServerMember, WorkerMember};
    use crate::placement::tests::jobs::piece;
    use crate::wire::elastic::OPAQUE_END;

    const SECOND: Duration = Duration::from_secs(1);

    /// Two workers; three servers with 20 keys each, of which the first is to be emptied, or is
    /// gone.
    fn emptied(gone: bool) -> Planner {
        let layout: Vec<PieceLoad> =
            (0..60).map(|key| piece(key, 0, 10_000, 8 + 2 * (key as i32 % 3))).collect();
        let server = |id, duty| ServerMember { id, host: None, duty };
        let mut servers = vec![server(10, Duty::Active), server(12, Duty::Active)];
        if !gone {
            servers.push(server(8, Duty::Draining));
        }
        let workers = [9, 11].map(|id| WorkerMember { id, host: None }).to_vec();
        let mut planner =
            Planner::new(PlacementSettings { period: SECOND, ..PlacementSettings::default() });
        planner.set_members(Members { workers, servers });
        planner.set_layout(layout).unwrap();
        planner
    }

    fn left(planner: &Planner) -> usize {
        planner.layout.iter().filter(|piece| piece.owner == 8).count()
    }

    /// Carries a plan out.
    fn done(planner: &mut Planner, plan: &Plan) {
        planner.set_layout(apply(&planner.layout, &plan.moves).unwrap()).unwrap();
    }

    #[test]
    fn one_that_lives_gives_up_a_portion_in_each_round() {
        let mut planner = emptied(false);
        let (mut now, mut round, mut portions) = (SECOND, 1, Vec::new());
        while left(&planner) > 0 {
            let plan = planner.tick(now, &mut || 0.5).expect("a round is over");
            let before = left(&planner);
            done(&mut planner, &plan);
            portions.push(before - left(&planner));
            assert!(portions.len() < 20, "{portions:?}");
            now += SECOND / 10;
            if left(&planner) > 0 {
                assert_eq!(planner.tick(now, &mut || 0.5), None, "the round is not over");
            }
            round += 2;
            planner.report(now, super::super::Report::Progress { round });
        }
        // Two workers push 60 keys to two servers: 60 for each of them, an eighth of it is 7; with
        // a state as large, fewer.
        assert!(
            portions.len() >= 3 && portions.iter().all(|portion| *portion <= 7),
            "{portions:?}"
        );
        assert_eq!(planner.portion_at, None);
    }

    #[test]
    fn keys_of_other_applications_move_at_once() {
        let mut planner = emptied(false);
        let whole = |piece: PieceLoad| PieceLoad { to: OPAQUE_END, divisible: false, ..piece };
        let layout: Vec<_> = planner.layout.iter().cloned().map(whole).collect();
        planner.set_layout(layout).unwrap();
        let plan = planner.tick(SECOND, &mut || 0.5).unwrap();
        done(&mut planner, &plan);
        assert_eq!(left(&planner), 0);
    }

    #[test]
    fn where_nobody_trains_it_goes_on_after_a_while() {
        let mut planner = emptied(false);
        let first = planner.tick(SECOND, &mut || 0.5).unwrap();
        done(&mut planner, &first);
        assert_eq!(planner.tick(SECOND + PORTION_WAIT / 2, &mut || 0.5), None);
        assert!(planner.tick(SECOND + 10 * PORTION_WAIT, &mut || 0.5).is_some());
    }

    #[test]
    fn what_a_dead_one_had_moves_at_once() {
        let mut planner = emptied(true);
        let plan = planner.tick(SECOND, &mut || 0.5).unwrap();
        done(&mut planner, &plan);
        assert_eq!(left(&planner), 0);
    }
}
