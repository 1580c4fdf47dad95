//! What a store gives its owner to send: answers to workers, and what goes to other nodes. Pure.

use bytes::Bytes;

use super::command::modes::space_of;
use super::error::StoreError;
use crate::values::{KvPairs, SHARED};
use crate::wire::transfer::Transfer;
use crate::wire::{Meta, NodeId};

/// An answer to be sent.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The request, with the reason in `error` if it was refused. What it asked about a part has
    /// become what is answered, if there is more to say than that it was done.
    pub request: Meta,
    /// The pulled values; empty for a push.
    pub kv: KvPairs,
}

/// What is to be sent.
#[derive(Debug, Default)]
pub struct Outbound {
    /// To workers.
    pub answers: Vec<Answer>,
    /// Down the trees of this server: metadata with the receiver, and values.
    pub downs: Vec<(Meta, KvPairs)>,
    /// To other servers.
    pub transfers: Vec<Outgoing>,
}

/// A transfer to another server.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The server.
    pub to: NodeId,
    /// What it says.
    pub transfer: Transfer,
    /// Its data frames: the key, then values.
    pub frames: Vec<Bytes>,
}

/// The answer to a request that was served, without values.
pub(super) fn done(request: Meta) -> Answer {
    Answer { request, kv: KvPairs::default() }
}

/// The answer that says why not. A customer with keys of its own is named: its key 0 is not that
/// of others.
pub(super) fn refused(request: Meta, error: &StoreError) -> Answer {
    let error = match space_of(&request) {
        SHARED => error.to_string(),
        _ if error.names_a_key() => error.to_string(),
        customer => format!("customer {customer}: {error}"),
    };
    done(Meta { error, ..request })
}
