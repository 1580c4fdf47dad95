//! The connections of a process over the stock wire, by peer and the other way round.

use std::collections::BTreeMap;

use crate::network::ConnectionId;
use pslite_core::wire::NodeId;

/// One connection for each peer.
#[derive(Debug, Default)]
pub(super) struct Peers {
    connections: BTreeMap<NodeId, ConnectionId>,
    ids: BTreeMap<ConnectionId, NodeId>,
}

impl Peers {
    /// The connection to a peer.
    pub(super) fn connection(&self, id: NodeId) -> Option<ConnectionId> {
        self.connections.get(&id).copied()
    }

    /// Whom a connection leads to.
    pub(super) fn id(&self, connection: ConnectionId) -> Option<NodeId> {
        self.ids.get(&connection).copied()
    }

    /// That connection leads to that peer from now on. The one that did, if there was one.
    pub(super) fn set(&mut self, id: NodeId, connection: ConnectionId) -> Option<ConnectionId> {
        let old = self.remove(id);
        self.connections.insert(id, connection);
        self.ids.insert(connection, id);
        old
    }

    /// Forgets the connection to a peer.
    pub(super) fn remove(&mut self, id: NodeId) -> Option<ConnectionId> {
        let connection = self.connections.remove(&id)?;
        self.ids.remove(&connection);
        Some(connection)
    }
}
