//! A worker that goes from iteration to iteration: it pushes all tensors, and pulls them, before it
//! computes the next one, as a training loop does.

use super::super::ledger::Ledger;
use super::super::requests::CustomerRequests;
use super::Worker;
use crate::app::{Output, View};
use pslite_core::kv::rounds::Round;

impl Worker {
    /// Computes, then pushes all tensors; waits until all are pulled.
    pub(super) fn iterate(&mut self, view: &View<'_>, ledger: &mut Ledger, out: &mut Vec<Output>) {
        if self.paces.is_any_under_way() {
            return;
        }
        if self.paces.are_over() {
            return self.next_stage(view, ledger, out);
        }
        let computed = *self.computed.get_or_insert_with(|| {
            ledger.iteration_begun(self.rank, view.outside);
            view.now + self.random.time(self.config.compute)
        });
        if view.now < computed {
            return out.push(Output::WakeAfter(computed - view.now));
        }
        self.computed = None;
        for tensor in 0..self.config.tensors.len() {
            self.paces.change(tensor, |pace| pace.begun += 1);
            let round = self.paces.all()[tensor].begun;
            self.push(view, tensor, round, ledger, out);
        }
    }

    /// The rounds that are over since the last call.
    pub(in crate::jobs) fn take_rounds(&mut self) -> Vec<Round> {
        self.customers.iter_mut().flat_map(CustomerRequests::take_rounds).collect()
    }
}
