//! A worker's commands in a job whose servers come and go (docs/elastic.md, "Joining and leaving"):
//! sends what `kv::commands` decides, and ends commands that no server is left to answer. May touch
//! `kv`, `store::command` (which commands stay in force) and the node.

use bytes::Bytes;

use super::{Payload, Requests, WorkerCustomer};
use crate::error::{NodeError, Result};
use crate::running::NodeRef;
use crate::sync::lock;
use pslite_core::kv::Finished;
use pslite_core::kv::commands::Again;
use pslite_core::kv::flights::Flights;
use pslite_core::store::command::Head;
use pslite_core::wire::elastic::Placed;
use pslite_core::wire::{Frames, Message, Meta, NodeId, SERVER_GROUP};

impl Requests {
    /// Commands do not wait for a server that is gone: those that are left have them, or may have.
    /// What none of them has waits for a policy.
    pub(super) fn end_commands(&mut self, server: NodeId) -> Vec<Finished<Payload>> {
        self.commands.lost(server);
        let bound = self.bound_to(server).into_iter();
        let bound: Vec<i32> = bound.filter(|ts| !self.commands.is_orphan(*ts)).collect();
        bound.into_iter().filter_map(|timestamp| self.requests.skip(timestamp, server)).collect()
    }
}

impl WorkerCustomer {
    /// True for a worker of a job whose servers come and go.
    pub(super) fn follows_pieces(&self) -> bool {
        let Ok(node) = self.node() else { return false };
        let mut state = lock(&self.requests);
        if state.value_size.is_some() {
            state.follow_pieces(&node, self.makes_keys());
        }
        state.flights.is_some()
    }

    /// A command to all servers that commands go to now; the number of the request.
    pub(super) fn command(&self, head: i32, body: &Bytes) -> Result<i32> {
        let node = self.node()?;
        let servers = command_servers(&node);
        let (timestamp, again) = {
            let mut state = lock(&self.requests);
            let timestamp = state.requests.new_request(&servers);
            state.asked(node.traffic(), timestamp);
            let again = Again { timestamp, head, body: body.clone() };
            state.commands.said(again.clone(), &servers, Head::from(head).stays());
            (timestamp, again)
        };
        self.send_command(&node, &again, &servers).inspect_err(|error| {
            let mut state = lock(&self.requests);
            state.commands.forget(timestamp);
            state.requests.fail(timestamp, error.to_string());
        })?;
        Ok(timestamp)
    }

    /// By a new policy some servers are released, and others may be those that commands go to: says
    /// again what nobody has who lives.
    pub(super) fn commands_by_policy(&self, released: &[NodeId]) {
        let Ok(node) = self.node() else { return };
        let servers = command_servers(&node);
        let (mut finished, again) = {
            let mut state = lock(&self.requests);
            let finished: Vec<_> = released.iter().flat_map(|id| state.end_commands(*id)).collect();
            (finished, state.commands.again(&servers))
        };
        for again in again {
            finished.extend(lock(&self.requests).requests.redirect(again.timestamp, &servers));
            // Who fails the job tells those who wait.
            let _ = self.send_command(&node, &again, &servers);
        }
        finished.into_iter().for_each(|finished| self.finish(finished));
        self.tell_waiters(lock(&self.requests));
    }

    /// A server that is lost meanwhile does not obey: the others do.
    fn send_command(&self, node: &NodeRef, again: &Again, servers: &[NodeId]) -> Result<()> {
        let life = lock(&self.requests).flights.as_ref().map_or(0, Flights::life);
        // Its commands are counted apart from those of the process that had the id before.
        let placed = (life > 0).then(|| Placed { life, ..Placed::default() });
        for server in servers {
            let meta = Meta {
                placed: placed.clone(),
                head: again.head,
                body: again.body.clone(),
                simple_app: true,
                request: true,
                app_id: self.base.app_id,
                customer_id: self.base.customer_id,
                timestamp: again.timestamp,
                recver: *server,
                own_keys: self.has_own_keys(),
                ..Meta::default()
            };
            if let Err(error) = node.send(Message { meta, data: Frames::new() }) {
                node.failure().map_or(Ok(()), Err)?;
                if !matches!(error, NodeError::PeerLost(_)) {
                    return Err(error);
                }
                let finished = lock(&self.requests).end_commands(*server);
                finished.into_iter().for_each(|finished| self.finish(finished));
            }
        }
        Ok(())
    }
}

fn command_servers(node: &NodeRef) -> Vec<NodeId> {
    node.with_cluster(|cluster, _| cluster.ids_of(SERVER_GROUP)).unwrap_or_default()
}
