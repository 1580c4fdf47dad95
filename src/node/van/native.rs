//! Data between two nodes of ours over the native data plane: who has it is connected with the
//! stock wire, and what is sent goes there from the first message on. A peer that it never reaches
//! gets all that waited for it over the stock wire, in the same order. Membership, and whether a
//! peer lives, are no matter of this module: the stock wire tells.

use std::sync::Arc;
use std::time::Duration;

use super::{Core, Van};
use crate::address;
use crate::error::Result;
use crate::sync::lock;
use pslite_core::wire::{Message, Meta, Node, NodeId, Role, SCHEDULER};
use pslite_observe::MessageKind;
use pslite_observe::log::{self, Level};
use pslite_transport::native::{FIRST, NativeTransport, TakenBack};
use pslite_transport::zmq::{Endpoint, LinkEvent, SendError, SendMode};

/// Connections from one server to another, at least, if data go over TCP. They carry copies, for
/// which every worker waits, through queues that pushes fill. One connection whose first packets
/// met full queues, or that lost some, sends little, and more only over seconds (RFC 9438,
/// HyStart): rounds of 6 s were rounds of 8 s until then.
const BETWEEN_SERVERS: u8 = 4;

impl Van {
    /// Opens the native data plane to a node that has one; to any other, closes what a former life
    /// had.
    pub(super) fn connect_native(&self, core: &Core, node: &Node, identity: Option<NodeId>) {
        let Some(native) = &self.native else { return };
        let scheduler = core.cluster.node(SCHEDULER).map_or(0, |scheduler| scheduler.incarnation);
        if identity.is_none() || scheduler == 0 || node.id == self.my_id() {
            return;
        }
        native.set_token(address::token(scheduler));
        if node.native_port == 0 {
            return native.disconnect(node.id, Duration::ZERO);
        }
        let endpoint = Endpoint::Tcp { host: node.hostname.clone(), port: node.native_port };
        let between_servers = self.state.settings.role == Role::Server && node.role == Role::Server;
        let least = if between_servers { BETWEEN_SERVERS } else { 1 };
        let connections = self.state.settings.connections.max(least);
        if let Err(error) = native.connect(node.id, &endpoint, identity, connections) {
            native.disconnect(node.id, Duration::ZERO);
            let to = node.describe();
            log::write(Level::Warning, &format!("data to {to} take the stock wire: {error}"));
        }
    }

    pub(super) fn disconnect_native(&self, id: NodeId, linger: Duration) {
        if let Some(native) = &self.native {
            native.disconnect(id, linger);
        }
    }

    /// Which messages to the same peer a message may go before.
    fn class_of(&self, meta: &Meta) -> i32 {
        match meta.overtakes {
            true => FIRST,
            false if self.state.settings.priority_van => meta.priority,
            false => 0,
        }
    }

    /// Sends over the native data plane; `None` if the message is to take the stock wire.
    pub(super) fn post_native(
        &self,
        native: &NativeTransport,
        to: NodeId,
        message: &Message,
    ) -> Option<Result<()>> {
        let sent = self.with_encoded(message, to, |meta| {
            native.send(to, meta, &message.data, self.class_of(&message.meta), SendMode::Block)
        });
        match sent {
            Ok(bytes) => {
                self.state.traffic.sent(to, MessageKind::of(&message.meta), bytes);
                Some(Ok(()))
            }
            Err(SendError::TakenBack) => {
                // What was sent before goes first.
                drop(lock(&self.falling_back));
                None
            }
            Err(error) => Some(Err(self.send_error(to, &error))),
        }
    }

    /// Sees which links came up, and which cannot. Called by the clock.
    pub(super) fn watch_native(self: &Arc<Self>) {
        let Some(native) = &self.native else { return };
        let mut events: Vec<LinkEvent> = Vec::new();
        native.link_events(&mut events);
        for LinkEvent { key, up } in events {
            if up {
                self.say_carrier(native, key);
            } else {
                self.fall_back(native, key);
            }
        }
    }

    /// The same at the end, when nothing is to fall back any more: a job may be shorter than a tick
    /// of the clock.
    pub(super) fn say_last_carriers(&self) {
        let Some(native) = &self.native else { return };
        let mut events: Vec<LinkEvent> = Vec::new();
        native.link_events(&mut events);
        for event in events.iter().filter(|event| event.up) {
            self.say_carrier(native, event.key);
        }
    }

    fn say_carrier(&self, native: &NativeTransport, key: NodeId) {
        if !log::enabled(Level::Verbose) {
            return;
        }
        let by = match (native.last_carrier(key), native.address(key)) {
            ("shm", _) => "through shared memory".to_owned(),
            ("tcp", Some(address)) => format!("over TCP to {address}"),
            _ => return,
        };
        let to = lock(&self.core).cluster.describe(key);
        log::write(Level::Verbose, &format!("data to {to} go {by}"));
    }

    /// Sends over the stock wire what a link without any connection kept, and says so once. A link
    /// that had one comes again, or its peer is dead.
    fn fall_back(self: &Arc<Self>, native: &NativeTransport, key: NodeId) {
        if !native.never_connected(key) {
            return;
        }
        // A thread of its own, as the stock wire may be full. It holds the lock before the messages
        // are taken, so that whoever learns that they were waits for them.
        let started = self.spawn("back", move |van| {
            let _turn = lock(&van.falling_back);
            let Some(native) = &van.native else { return };
            if let Some(taken) = native.take_back(key) {
                van.send_taken_back(native, key, &taken);
            }
        });
        if let Err(error) = started {
            log::write(Level::Error, &format!("data to node {key} wait: {error}"));
        }
    }

    fn send_taken_back(&self, native: &NativeTransport, key: NodeId, taken: &TakenBack) {
        let to = lock(&self.core).cluster.describe(key);
        log::write(Level::Warning, &format!("data to {to} take the stock wire: {}", taken.why));
        for message in &taken.messages {
            let priority = message.priority;
            let sent =
                self.transport.send(key, &message.meta, &message.data, priority, SendMode::Block);
            if let Err(error) = sent {
                log::write(Level::Verbose, &format!("no message to {to}: {error}"));
                break;
            }
        }
        native.taken_back(key, taken);
    }
}
