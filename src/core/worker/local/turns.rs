//! What is sent in one iteration goes in the order of rounds, in whatever order a program pushes:
//! the oldest round is the one that a worker takes next. Whose turn it is the machine knows
//! (`Exchange::turn`). A delta that waits is what was changed up to its push, as if it had been
//! sent then.

use super::{LocalStep, LocalTraining, Own};
use crate::invariant::{Valid, require};

impl LocalTraining {
    /// Sends a request of the worker's own, in its turn if it has one.
    pub(super) fn send(&mut self, own: Own, steps: &mut Vec<LocalStep>) {
        let Some(round) = own.round else {
            return steps.push(LocalStep::Send(Box::new(own)));
        };
        self.behind.insert((round, own.key), own);
        self.send_in_turn(steps);
    }

    /// Sends the deltas whose turn it is.
    pub(super) fn send_in_turn(&mut self, steps: &mut Vec<LocalStep>) {
        let turn = self.machine.turn();
        while let Some(first) = self.behind.first_entry()
            && turn.is_none_or(|turn| first.key().0 <= turn)
        {
            steps.push(LocalStep::Send(Box::new(first.remove())));
        }
    }

    /// No delta waits longer than it must.
    pub(super) fn validate_turns(&self) -> Valid {
        let (turn, count) = (self.machine.turn(), self.behind.len());
        let waits = |round: u64| turn.is_some_and(|turn| turn < round);
        require(self.behind.keys().all(|(round, _)| waits(*round)), || {
            format!("{count} deltas wait, and it is the turn of round {turn:?}")
        })
    }
}
