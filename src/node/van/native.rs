//! The van's use of the native data plane, which carries data between two nodes of ours. A peer
//! that has one is connected there too, and gets data there from the first message on. If the
//! native connection never comes up, all that waited goes over the stock wire, in the same order.
//! May touch the van. Does not decide who is in the job or whether a peer lives: the stock wire
//! tells.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::inline_handler::InlineHandler;
use super::job::Core;
use super::{Van, mode_of};
use crate::address;
use crate::running::NodeState;
use crate::sync::{lock, try_lock};
use pslite_core::trees::place_in_round;
use pslite_core::wire::{Message, Meta, Node, NodeId, Role, SCHEDULER};
use pslite_observe::MessageKind;
use pslite_observe::log::{self, Level};
use pslite_transport::carrier::{ChannelEvent, Endpoint, SendError, SendMode};
use pslite_transport::native::{FIRST_CLASS, NativeTransport, TakenBack};
use pslite_transport::tunnel::Tunnels;

/// The native data plane of a van, and what only it needs.
pub(super) struct DataPlane {
    pub(super) transport: NativeTransport,
    /// For the thread that receives there.
    pub(super) inline_handler: InlineHandler,
    /// Held while messages that cannot go there are sent over the stock wire, so that later
    /// messages stay behind them.
    falling_back: Mutex<()>,
}

impl DataPlane {
    pub(super) fn new(transport: NativeTransport) -> Self {
        Self { transport, inline_handler: InlineHandler::default(), falling_back: Mutex::default() }
    }

    /// Connects to `node` if it has a native data plane and is in the job of that scheduler. If
    /// not, closes the connection that a former life of the node had.
    fn connect(
        &self,
        state: &NodeState,
        tunnels: Option<&Tunnels>,
        scheduler: u64,
        node: &Node,
        identity: Option<NodeId>,
    ) {
        let native = &self.transport;
        if identity.is_none() || scheduler == 0 || node.id == state.my_id() {
            return;
        }
        native.set_token(address::token(scheduler));
        if node.native_port == 0 {
            return native.disconnect(node.id, Duration::ZERO);
        }
        let endpoint = Endpoint::Tcp { host: node.hostname.clone(), port: node.native_port };
        let connections = match (state.settings.role, node.role) {
            (Role::Server, Role::Server) => state.settings.connections_between_servers(),
            _ => state.settings.connections,
        };
        let ways = tunnels.map_or(Ok(Vec::new()), |t| t.ways(&node.hostname, node.native_port));
        let connected = match ways {
            Ok(ways) if ways.is_empty() => native
                .connect(node.id, &endpoint, identity, connections)
                .map_err(|error| error.to_string()),
            Ok(ways) => {
                native.connect_by(node.id, ways, identity, connections);
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = connected {
            native.disconnect(node.id, Duration::ZERO);
            let to = node.describe();
            log::write(Level::Warning, &format!("data to {to} take the stock wire: {error}"));
        }
    }

    /// What carries data to that node; `None` before the first connection.
    fn carried_by(&self, key: NodeId) -> Option<String> {
        match (self.transport.last_carrier(key), self.transport.address(key)) {
            ("shm", _) => Some("through shared memory".to_owned()),
            ("tcp", Some(address)) => Some(format!("over TCP to {address}")),
            _ => None,
        }
    }
}

impl Van {
    /// Connects to `node` if it has a native data plane. If not, closes the connection that a
    /// former life of the node had.
    pub(super) fn connect_native(&self, core: &Core, node: &Node, identity: Option<NodeId>) {
        let Some(native) = &self.native else { return };
        let scheduler = core.cluster.node(SCHEDULER).map_or(0, |scheduler| scheduler.incarnation);
        native.connect(&self.state, self.tunnels.as_ref(), scheduler, node, identity);
    }

    pub(super) fn disconnect_native(&self, id: NodeId, linger: Duration) {
        if let Some(native) = &self.native {
            native.transport.disconnect(id, linger);
        }
    }

    /// The class of a message: it may overtake messages of other classes to the same peer.
    fn class_of(&self, meta: &Meta) -> i32 {
        if let (Some(hop), Some(span)) = (meta.hop(), meta.span()) {
            return place_in_round(hop.key, span.start, self.state.settings.num_servers);
        }
        match meta.overtakes {
            true => FIRST_CLASS,
            false if self.state.settings.priority_van => meta.priority,
            false => 0,
        }
    }

    /// Sends over the native data plane. `None`: the message has to take the stock wire.
    pub(super) fn post_native(
        &self,
        native: &DataPlane,
        to: NodeId,
        message: &Message,
    ) -> Option<Result<(), SendError>> {
        let sent = self.with_encoded(message, to, |meta| {
            native.transport.send(
                to,
                meta,
                &message.data,
                self.class_of(&message.meta),
                mode_of(message),
            )
        });
        match sent {
            Ok(bytes) => {
                self.state.traffic.sent(to, MessageKind::of(&message.meta), bytes);
                Some(Ok(()))
            }
            // What was sent before goes first.
            Err(SendError::TakenBack) => match mode_of(message) {
                SendMode::Block => {
                    drop(lock(&native.falling_back));
                    None
                }
                // Its sender must not wait for the stock wire.
                SendMode::Queue | SendMode::Control => match try_lock(&native.falling_back) {
                    Some(_) => None,
                    None => Some(Err(SendError::QueueFull)),
                },
            },
            Err(error) => Some(Err(error)),
        }
    }

    /// Looks which channels came up and which cannot. Called by the clock.
    pub(super) fn watch_native(self: &Arc<Self>) {
        let Some(native) = &self.native else { return };
        let mut events: Vec<ChannelEvent> = Vec::new();
        native.transport.channel_events(&mut events);
        for ChannelEvent { key, up } in events {
            if up {
                self.say_carrier(native, key);
            } else {
                self.fall_back(native, key);
            }
        }
    }

    /// The same at the end of the node, but nothing falls back any more. A job may be shorter than
    /// a tick of the clock.
    pub(super) fn say_last_carriers(&self) {
        let Some(native) = &self.native else { return };
        let mut events: Vec<ChannelEvent> = Vec::new();
        native.transport.channel_events(&mut events);
        for event in events.iter().filter(|event| event.up) {
            self.say_carrier(native, event.key);
        }
    }

    fn say_carrier(&self, native: &DataPlane, key: NodeId) {
        if !log::enabled(Level::Verbose) {
            return;
        }
        let Some(by) = native.carried_by(key) else { return };
        let to = self.job.lock().cluster.describe(key);
        log::write(Level::Verbose, &format!("data to {to} go {by}"));
    }

    /// If a channel has never had a connection: sends what it kept over the stock wire, and says so
    /// once. A channel that had one reconnects, or its peer is dead.
    fn fall_back(self: &Arc<Self>, native: &DataPlane, key: NodeId) {
        if !native.transport.never_connected(key) {
            return;
        }
        // A thread of its own, as the stock wire may be full. It holds the lock before the messages
        // are taken, so that whoever learns that they were waits for them.
        let started = self.spawn("back", move |van| {
            let Some(native) = &van.native else { return };
            let _turn = lock(&native.falling_back);
            if let Some(taken) = native.transport.take_back(key) {
                van.send_taken_back(native, key, &taken);
            }
        });
        if let Err(error) = started {
            log::write(Level::Error, &format!("data to node {key} wait: {error}"));
        }
    }

    fn send_taken_back(&self, native: &DataPlane, key: NodeId, taken: &TakenBack) {
        let to = self.job.lock().cluster.describe(key);
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
        native.transport.taken_back(key, taken);
    }
}
