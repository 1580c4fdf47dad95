//! Commands of a worker to all servers, as MXNet's kvstore sends them.

use super::super::ledger::Ledger;
use super::super::script::ScriptStage;
use super::{Purpose, Worker};
use crate::app::{Output, View};
use pslite_core::wire::{NodeId, SERVER_GROUP};

impl Worker {
    /// Sends a command to all servers.
    pub(super) fn command(
        &mut self,
        view: &View<'_>,
        stage: &ScriptStage,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let ScriptStage::Command { customer, head, body, everybody } = stage else { return };
        if self.rank == 0 || *everybody {
            let servers: Vec<NodeId> = view.cluster.ids_of(SERVER_GROUP).unwrap_or_default();
            let customer = &mut self.customers[*customer as usize];
            let asked = customer.command(&servers, *head, body, Purpose::Command, out);
            self.waits(view, asked, format!("command {head} to {servers:?}"), ledger);
        }
    }

    fn waits(&mut self, view: &View<'_>, asked: Option<i32>, what: String, ledger: &mut Ledger) {
        if let Some(timestamp) = asked {
            self.open += 1;
            ledger.wait_begun(view.process, timestamp, what);
        }
    }
}
