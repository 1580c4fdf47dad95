//! Sends what a store says. May touch the front of its customer; decides nothing.

use bytes::Bytes;

use crate::error::Result;
use crate::running::NodeRef;
use crate::server::front::Front;
use pslite_core::cluster::Event;
use pslite_core::server::{ServerOutput, messages};
use pslite_core::store::{Answer, Outbound};
use pslite_core::values::KvPairs;
use pslite_core::wire::Meta;
use pslite_core::wire::word::ClaimWord;
use pslite_observe::log::{self, Level};

/// Does what a side says: sends messages, then tells the scheduler what is claimed. `fixed`: why
/// its values do not move.
pub(super) fn perform(
    front: &Front,
    node: &Result<NodeRef>,
    out: ServerOutput,
    fixed: Option<&'static str>,
) {
    let ServerOutput { sent, claimed } = out;
    send(front, node, sent);
    let Ok(node) = node else { return };
    for claimed in claimed {
        let fixed = fixed.map(str::to_owned);
        node.event(Event::Claims(ClaimWord { fixed, ..claimed }));
    }
}

/// Sends what the store says, in order: answers first.
fn send(front: &Front, node: &Result<NodeRef>, out: Outbound) {
    for answer in out.answers {
        respond(front, node, answer);
    }
    for (meta, kv) in out.downs {
        send_down(front, meta, kv);
    }
    for transfer in out.transfers {
        front.send_transfer(transfer);
    }
}

/// Sends values down a tree. A worker that is gone: the scheduler says what follows from that.
fn send_down(front: &Front, meta: Meta, kv: KvPairs) {
    let message = messages::down(meta, kv, front.base.app_id);
    let sent = front.node().and_then(|node| node.send(message));
    if let Err(error) = sent {
        log::write(Level::Verbose, &error.to_string());
    }
}

/// Sends one answer, to a push, a pull or a command.
pub(super) fn respond(front: &Front, node: &Result<NodeRef>, answer: Answer) {
    if answer.request.simple_app {
        return answer_command(front, &answer.request, &answer.request.error);
    }
    if let Err(error) = front.respond(node, &answer.request, answer.kv) {
        log::write(Level::Warning, &error.to_string());
    }
}

/// Answers a command; an `error` says why it was not obeyed.
pub(super) fn answer_command(front: &Front, request: &Meta, error: &str) {
    answer_command_with(front, request, Bytes::new(), error);
}

/// The same with something to say.
pub(super) fn answer_command_with(front: &Front, request: &Meta, body: Bytes, error: &str) {
    if let Err(error) = front.simple_respond(request, body, error) {
        log::write(Level::Warning, &error.to_string());
    }
}
