//! A worker's commands in a job whose servers come and go (docs/elastic.md, "Joining and leaving").
//! May touch the side of the worker.

use bytes::Bytes;

use super::{WorkerOutput, WorkerSide};
use crate::kv::commands::Again;
use crate::store::command::Head;
use crate::wire::NodeId;

impl<D> WorkerSide<D> {
    /// A command to these servers: the request that they answer.
    pub fn command(&mut self, head: i32, body: &Bytes, servers: &[NodeId]) -> Again {
        let timestamp = self.requests.new_request(servers);
        let again = Again { timestamp, head, body: body.clone() };
        self.commands.said(again.clone(), servers, Head::from(head).stays());
        again
    }

    /// It could not be sent.
    pub fn withdraw_command(&mut self, timestamp: i32, why: String) {
        self.commands.forget(timestamp);
        // A command leaves nothing for its end.
        drop(self.requests.fail(timestamp, why));
    }

    /// A server is gone: commands do not wait for it. Those that are left have them, or may have.
    /// What none of them has waits for a policy.
    pub fn end_commands(&mut self, server: NodeId, out: &mut WorkerOutput<D>) {
        self.commands.lost(server);
        let waiting = self.requests.tracker().waiting_for(server).into_iter();
        let bound: Vec<i32> = waiting.filter(|ts| self.is_bound(*ts)).collect();
        out.over.extend(bound.into_iter().filter_map(|ts| self.requests.skip(ts, server)));
    }

    /// True for a request that nobody but the servers it was sent to can answer.
    fn is_bound(&self, timestamp: i32) -> bool {
        let moves = self.flights().is_some_and(|flights| flights.has(timestamp));
        let here = self.is_ahead(timestamp) || self.is_local(timestamp);
        !moves && !here && !self.commands.is_orphan(timestamp)
    }

    /// By a new policy commands go to these servers: what is to be said to them again.
    pub fn command_again(&mut self, servers: &[NodeId], out: &mut WorkerOutput<D>) -> Vec<Again> {
        let again = self.commands.again(servers);
        for one in &again {
            out.over.extend(self.requests.redirect(one.timestamp, servers));
        }
        again
    }
}
