//! A worker of a job whose keys stay where they are: it follows nothing. One that takes the place
//! of a dead worker asks the servers how far the job is, and goes on from there.

use super::super::ledger::Ledger;
use super::{Purpose, START, Worker};
use crate::app::{Output, View};
use pslite_core::wire::ALL_GROUP;

impl Worker {
    /// It is in the job.
    pub(super) fn enter(&mut self, view: &View<'_>, ledger: &mut Ledger, out: &mut Vec<Output>) {
        if !view.cluster.me().is_recovery {
            return out.push(Output::Barrier { ticket: START, group: ALL_GROUP, leaving: false });
        }
        self.came_back = true;
        self.stage = self.first_training();
        self.open = self.config.tensors.len();
        for tensor in 0..self.open {
            self.ask_values(view, tensor, Purpose::CatchUp { tensor }, ledger, out);
        }
    }

    /// A pull shows how far the job is with a tensor.
    pub(super) fn caught_up(
        &mut self,
        view: &View<'_>,
        tensor: usize,
        values: &[u8],
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let round = ledger.caught_up(self.rank, tensor, values);
        self.paces.change(tensor, |pace| (pace.begun, pace.done) = (round, round));
        self.open -= 1;
        if self.open > 0 {
            return;
        }
        let least = self.paces.all().iter().map(|pace| pace.done).min().unwrap_or(0);
        if let Some(batches) = &mut self.batches {
            batches.goes_on_from(least);
        }
        self.begin_stage(view, ledger, out);
    }

    /// The round after which it takes its leave, if it does before the end.
    pub(super) fn leaves_after(&self) -> Option<u64> {
        let (rank, round) = self.config.stays?.leaves?;
        (rank == self.rank).then_some(round)
    }
}
