//! The messages of a customer that serves. Pure.

use bytes::Bytes;

use crate::kv::messages::with_data;
use crate::store::Outgoing;
use crate::values::KvPairs;
use crate::wire::transfer::Transfer;
use crate::wire::{Frames, Message, Meta, Payload};

/// The metadata of the answer to a push or pull, with the reason in `error` if it was refused
/// (kv_app.h:507).
#[must_use]
pub fn answer(request: &Meta, kv: &KvPairs, app_id: i32) -> Meta {
    let reply = request.answered();
    Meta {
        head: request.head,
        app_id,
        customer_id: request.customer_id,
        timestamp: request.timestamp,
        recver: request.sender,
        push: request.push,
        pull: request.pull,
        error: request.error.clone(),
        // Without values it is waited for by somebody who then asks for more.
        overtakes: reply.is_some() && !request.pull && kv.keys.is_empty(),
        payload: reply.into(),
        ..Meta::default()
    }
}

/// The answer to a command; an `error` says why it was not obeyed.
#[must_use]
pub fn command_answer(request: &Meta, app_id: i32, body: Bytes, error: &str) -> Message {
    let meta = Meta {
        head: request.head,
        body,
        simple_app: true,
        app_id,
        customer_id: request.customer_id,
        timestamp: request.timestamp,
        recver: request.sender,
        error: error.to_owned(),
        ..Meta::default()
    };
    Message { meta, data: Frames::new() }
}

/// Values on their way down a tree, or the word that a ticket is void, which answers no request.
#[must_use]
pub fn down(mut meta: Meta, kv: KvPairs, app_id: i32) -> Message {
    meta.app_id = app_id;
    with_data(meta, kv)
}

/// A transfer to another server.
#[must_use]
pub fn transfer(outgoing: Outgoing, app_id: i32) -> Message {
    let Outgoing { to, transfer, frames } = outgoing;
    let meta = Meta {
        app_id,
        customer_id: app_id,
        recver: to,
        request: true,
        // A round waits for it, and the sender's own copies may fill the way for a second. What
        // else there is for that server is about other things, or was asked for by what that sent
        // later: so it need not wait behind that.
        overtakes: matches!(transfer, Transfer::Confirmed { .. }),
        payload: Payload::Transfer(Box::new(transfer)),
        ..Meta::default()
    };
    Message { meta, data: frames.into_iter().collect() }
}
