//! What runs on the nodes of a job whose keys stay where they are.

use super::app::{Application, Input, Output, View};
use super::batches::Desk;
use super::ledger::Ledger;
use super::server::Server;
use super::worker::Worker;
use pslite_core::cluster::Action;
use pslite_core::wire::ALL_GROUP;
use pslite_core::wire::topic::Topic;

/// Enters the job, and leaves it: the scheduler's two barriers.
const START: u64 = 1;
const EXIT: u64 = 2;

/// The application of a node.
pub(super) enum App {
    /// Waits in the exit barrier for the whole job, as MXNet's scheduler does, and shares out
    /// batches.
    Scheduler(Box<Desk>),
    Server(Server),
    Worker(Box<Worker>),
}

impl Application for App {
    type Ledger = Ledger;

    const TICKS: bool = false;

    fn input(&mut self, view: &View<'_>, input: Input, ledger: &mut Ledger, out: &mut Vec<Output>) {
        match self {
            Self::Scheduler(desk) => {
                share_out(desk, view, &input, ledger, out);
                schedule(input, out);
            }
            Self::Server(server) => server.input(view, input, out),
            Self::Worker(worker) => worker.input(view, input, ledger, out),
        }
    }
}

/// What the scheduler has to do with batches.
fn share_out(
    desk: &mut Desk,
    view: &View<'_>,
    input: &Input,
    ledger: &mut Ledger,
    out: &mut Vec<Output>,
) {
    match input {
        Input::Elastic(action) => {
            if let Action::Told { from, topic: Topic::Batches, bytes } = &**action {
                desk.asked(*from, bytes, ledger, out);
            }
        }
        Input::NodeLost { id, .. } => {
            desk.lost(*id, view.cluster.may_be_replaced(*id), ledger, out);
        }
        Input::CustomerLeft { id, .. } => desk.lost(*id, false, ledger, out),
        _ => {}
    }
}

/// MXNet's scheduler: in, and then in the exit barrier until all are.
pub(super) fn schedule(input: Input, out: &mut Vec<Output>) {
    match input {
        Input::Ready => {
            out.push(Output::Barrier { ticket: START, group: ALL_GROUP, leaving: false });
        }
        Input::Barrier { ticket: EXIT, result } => out.push(Output::End(result)),
        Input::Barrier { result: Ok(()), .. } => {
            out.push(Output::Barrier { ticket: EXIT, group: ALL_GROUP, leaving: true });
        }
        Input::Barrier { result: Err(text), .. } | Input::Failed(text) => {
            out.push(Output::End(Err(text)));
        }
        _ => {}
    }
}
