//! A worker's commands in a job whose servers come and go (docs/elastic.md, "Joining and leaving"):
//! sends what `core::worker` decides. May touch the customer and the node.

use bytes::Bytes;

use super::WorkerCustomer;
use crate::error::{NodeError, Result};
use crate::running::NodeRef;
use crate::sync::lock;
use pslite_core::kv::commands::Again;
use pslite_core::wire::elastic::PartAsk;
use pslite_core::wire::{Frames, Message, Meta, NodeId, SERVER_GROUP};
use pslite_core::worker::WorkerOutput;

impl WorkerCustomer {
    /// True for a worker of a job whose servers come and go.
    pub(super) fn follows_pieces(&self) -> bool {
        let Ok(node) = self.node() else { return false };
        let mut state = lock(&self.requests);
        if state.value_size.is_some() {
            state.follow_pieces(&node, self.makes_keys());
        }
        state.side.follows()
    }

    /// A command to all servers that commands go to now; the number of the request.
    pub(super) fn command(&self, head: i32, body: &Bytes) -> Result<i32> {
        let node = self.node()?;
        let servers = command_servers(&node);
        let again = {
            let mut state = lock(&self.requests);
            let again = state.side.command(head, body, &servers);
            state.asked(node.traffic(), again.timestamp);
            again
        };
        self.send_command(&node, &again, &servers).inspect_err(|error| {
            lock(&self.requests).side.withdraw_command(again.timestamp, error.to_string());
        })?;
        Ok(again.timestamp)
    }

    /// By a new policy some servers are released, and others may be those that commands go to: says
    /// again what nobody has who lives.
    pub(super) fn commands_by_policy(&self, released: &[NodeId]) {
        let Ok(node) = self.node() else { return };
        let servers = command_servers(&node);
        let mut out = WorkerOutput::default();
        let again = {
            let side = &mut lock(&self.requests).side;
            released.iter().for_each(|id| side.end_commands(*id, &mut out));
            side.command_again(&servers, &mut out)
        };
        for again in again {
            // Who fails the job tells those who wait.
            let _ = self.send_command(&node, &again, &servers);
        }
        self.perform(Some(&node), lock(&self.requests), out);
        self.tell_waiters(lock(&self.requests));
    }

    /// A server that is lost meanwhile does not obey: the others do. If the job is over, nobody
    /// does.
    fn send_command(&self, node: &NodeRef, again: &Again, servers: &[NodeId]) -> Result<()> {
        node.failure().map_or(Ok(()), Err)?;
        let life = lock(&self.requests).side.life();
        // Its commands are counted apart from those of the process that had the id before.
        let ask = (life > 0).then(|| PartAsk { life, ..PartAsk::default() });
        for server in servers {
            let meta = Meta {
                payload: ask.clone().into(),
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
                let mut out = WorkerOutput::default();
                let mut state = lock(&self.requests);
                state.side.end_commands(*server, &mut out);
                self.perform(Some(node), state, out);
            }
        }
        Ok(())
    }
}

fn command_servers(node: &NodeRef) -> Vec<NodeId> {
    node.with_cluster(|cluster, _| cluster.ids_of(SERVER_GROUP)).unwrap_or_default()
}
