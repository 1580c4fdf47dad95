//! Making requests and sending them. May touch the customer; how requests are cut and counted is
//! decided in `kv`.

use std::sync::MutexGuard;

use bytes::Bytes;
use smallvec::SmallVec;

use super::{Done, Request, RequestEnd, Requests, WorkerCustomer};
use crate::error::{NodeError, Result};
use crate::landing::PullSink;
use crate::running::NodeRef;
use crate::sync::lock;
use pslite_core::kv::messages::with_data;
use pslite_core::kv::{Answerer, Finished, Pending, Slices, slice};
use pslite_core::values::KvPairs;
use pslite_core::wire::{
    Frames, Message, Meta, NodeId, SCHEDULER, SERVER_GROUP, is_server, is_worker,
};

impl WorkerCustomer {
    /// A new request to a node or group; its number.
    ///
    /// # Errors
    /// The node is not started, or there is no such node or group.
    pub(crate) fn new_request(&self, recver: i32) -> Result<i32> {
        let ids = ids_of(&self.node()?, recver)?;
        Ok(lock(&self.requests).side.requests_mut().new_request(&ids))
    }

    /// How many responses to the request have arrived.
    pub(crate) fn num_response(&self, timestamp: i32) -> i32 {
        lock(&self.requests).side.requests().tracker().num_response(timestamp)
    }

    /// Counts responses that will not come (customer.cc:45).
    pub(crate) fn add_response(&self, timestamp: i32, count: i32) {
        let finished = lock(&self.requests).side.requests_mut().add_response(timestamp, count);
        if let Some(finished) = finished {
            self.finish(finished);
        }
        self.tell_waiters(lock(&self.requests));
    }

    /// Sends a command to every node behind `recver` (simple_app.h:104).
    ///
    /// # Errors
    /// A receiver is lost, or the node is not started.
    pub(crate) fn simple_request(&self, head: i32, body: &Bytes, recver: i32) -> Result<i32> {
        let node = self.node()?;
        let ids = ids_of(&node, recver)?;
        reaches(node.my_id(), &ids)?;
        if recver == SERVER_GROUP && self.follows_pieces() {
            return match self.command_here(head, body)? {
                Some(over) => Ok(over),
                None => self.command(head, body),
            };
        }
        let timestamp = {
            let mut state = lock(&self.requests);
            let timestamp = state.side.requests_mut().new_request(&ids);
            state.asked(node.traffic(), timestamp);
            timestamp
        };
        for id in ids {
            let meta = Meta {
                head,
                body: body.clone(),
                simple_app: true,
                request: true,
                app_id: self.base.app_id,
                customer_id: self.base.customer_id,
                timestamp,
                recver: id,
                own_keys: self.has_own_keys() && is_server(id),
                ..Meta::default()
            };
            let sent = node.send(Message { meta, data: Frames::new() });
            if let Err(error) = sent {
                lock(&self.requests).side.requests_mut().fail(timestamp, error.to_string());
                return Err(error);
            }
        }
        Ok(timestamp)
    }

    /// Registers a request whose messages follow by [`Self::send`] or [`Self::send_parts`].
    ///
    /// # Errors
    /// The node is not started, or this customer is no KVWorker.
    pub(crate) fn open_request(
        &self,
        keys: Bytes,
        sink: Option<Box<dyn PullSink>>,
        done: Done,
    ) -> Result<i32> {
        let keys = self.placed(&keys)?.unwrap_or(keys);
        self.begin(&self.node()?, keys, sink, done)
    }

    /// Pushes, pulls or both; the number of the request.
    ///
    /// # Errors
    /// The keys do not fit the servers' ranges, a server is lost, the node is not started. Then
    /// `done` was not and will not be called. (If another thread ends the request meanwhile, as
    /// when the job fails, this is no error: `done` gets it.)
    pub(crate) fn request(
        &self,
        request: &Request,
        sink: Option<Box<dyn PullSink>>,
        done: Done,
    ) -> Result<i32> {
        let (node, kv) = (self.node()?, self.placed_pairs(request)?);
        let timestamp = self.begin(&node, kv.keys.clone(), sink, done)?;
        let _call = self.calls.begin(timestamp, node.settings().priority_van);
        self.note_push(&node, request, &kv.keys);
        self.failing(timestamp, self.try_send(&node, timestamp, request, &kv))?;
        Ok(timestamp)
    }

    /// Cuts the pairs by server and sends them (kv_app.h:574).
    ///
    /// # Errors
    /// As [`Self::request`]; the request has failed then. No error if it had ended before.
    pub(crate) fn send(&self, timestamp: i32, request: &Request) -> Result<()> {
        let node = self.node();
        let _call = self.calls.begin(timestamp, is_p3(&node));
        let sent = node.and_then(|node| {
            let kv = self.placed_pairs(request)?;
            self.note_push(&node, request, &kv.keys);
            self.try_send(&node, timestamp, request, &kv)
        });
        self.failing(timestamp, sent)
    }

    fn begin(
        &self,
        node: &NodeRef,
        keys: Bytes,
        sink: Option<Box<dyn PullSink>>,
        done: Done,
    ) -> Result<i32> {
        let mut state = lock(&self.requests);
        if state.value_size.is_none() {
            return Err(NodeError::Invalid("this customer is no KVWorker".to_owned()));
        }
        let servers = node.settings().server_groups();
        if servers == 0 {
            return Err(NodeError::Invalid("this job has no servers to ask".to_owned()));
        }
        state.side.set_servers(servers);
        let ids: SmallVec<[NodeId; 16]> = (0..servers).map(|range| node.server_of(range)).collect();
        let timestamp = state.side.requests_mut().new_request(&ids);
        let want_lens = sink.as_ref().map(|sink| sink.wants_lens());
        let destination =
            sink.as_ref().filter(|_| node.native().is_some() && node.settings().group_size == 1);
        let destination = destination.and_then(|sink| sink.destination());
        let payload = RequestEnd::Program { sink, done };
        let pending = match want_lens {
            Some(want_lens) => Pending::pull(keys, want_lens, payload),
            None => Pending::push(payload),
        };
        state
            .side
            .requests_mut()
            .open(timestamp, pending)
            .map_err(|_| NodeError::PeerLost("the request failed before it was sent".to_owned()))?;
        if let Some(destination) = destination {
            self.landings.open(timestamp, destination);
        }
        Ok(timestamp)
    }

    /// If a request could not be sent, it has failed, and its end is dropped: the caller has the
    /// error. But another thread may have taken that end meanwhile, as when the job fails: it runs
    /// there, and the caller is not told a second time.
    pub(super) fn failing(&self, timestamp: i32, sent: Result<()>) -> Result<()> {
        let Err(error) = sent else { return Ok(()) };
        self.landings.close(timestamp);
        let mut state = lock(&self.requests);
        state.side.forget(timestamp);
        self.note_waits(&state);
        if !state.side.requests_mut().withdraw(timestamp, error.to_string()) {
            return Ok(());
        }
        self.tell_waiters(state);
        Err(error)
    }

    /// `kv`: the pairs of the request, with their keys where they lie.
    fn try_send(
        &self,
        node: &NodeRef,
        timestamp: i32,
        request: &Request,
        kv: &KvPairs,
    ) -> Result<()> {
        let state = lock(&self.requests);
        let value_size = state.value_size.unwrap_or(1);
        let slices = slice(kv, value_size, state.side.ranges())
            .map_err(|error| NodeError::Invalid(error.to_string()))?;
        self.send_slices(node, state, timestamp, request, slices)
    }

    /// Sends what each server is to get; the others are not asked.
    pub(super) fn send_slices(
        &self,
        node: &NodeRef,
        mut state: MutexGuard<'_, Requests>,
        timestamp: i32,
        request: &Request,
        slices: Slices,
    ) -> Result<()> {
        if request.push && request.pull && node.settings().dialect.is_byteps() {
            let text = "a push that pulls too: PSLITE_WIRE has no such message";
            return Err(NodeError::Invalid(text.to_owned()));
        }
        state.asked(node.traffic(), timestamp);
        if state.side.requests().tracker().waiting_count() > 1 {
            node.need_receiver();
        }
        state.follow_pieces(node, self.makes_keys());
        let mut nobody_asked = None;
        for (rank, _) in slices.iter().enumerate().filter(|(_, slice)| slice.is_none()) {
            let server = node.server_of(rank);
            nobody_asked = state.side.requests_mut().skip(timestamp, server).or(nobody_asked);
        }
        if let Some(finished) = nobody_asked {
            drop(state);
            // Nothing was asked for, so nothing is missing (kv_app.h:590).
            self.end(Finished { outcome: Ok(None), ..finished });
            return Ok(());
        }
        let meta = self.request_meta(timestamp, request);
        match state.who_answers(&meta, &slices) {
            Answerer::Local => {
                state.ask_here(meta.clone(), slices);
                drop(state);
                self.ask_soon(&meta);
                return Ok(());
            }
            Answerer::Ahead(all) => {
                state.side.keep_ahead(timestamp, all);
                drop(state);
                self.end_with_ahead(&meta);
                return Ok(());
            }
            Answerer::Servers => {}
        }
        if request.pull {
            state.cut_landing(&self.landings, &meta, &slices);
        }
        let slices = slices.into_iter().enumerate();
        let slices = slices.filter_map(|(rank, slice)| slice.map(|kv| (rank, kv)));
        if state.side.follows() {
            return self.begin_and_send(node, state, &meta, slices);
        }
        drop(state);
        for (rank, kv) in slices {
            let meta = Meta { recver: node.server_of(rank), ..meta.clone() };
            node.send(with_data(meta, kv))?;
        }
        Ok(())
    }

    /// Before a push is sent, and before the customer is locked: who hears of it may lock the node.
    pub(super) fn note_push(&self, node: &NodeRef, request: &Request, keys: &[u8]) {
        if request.push {
            node.note_push(self.base.customer_id, keys, request.pull);
        }
    }

    fn request_meta(&self, timestamp: i32, request: &Request) -> Meta {
        Meta {
            head: request.cmd,
            app_id: self.base.app_id,
            customer_id: self.base.customer_id,
            timestamp,
            request: true,
            push: request.push,
            pull: request.pull,
            priority: request.priority,
            value_type: request.values.data_type,
            devices: request.values.devices,
            own_keys: self.has_own_keys(),
            ..Meta::default()
        }
    }
}

/// True in p3 mode, where a request does not end before its caller has moved on (`calls`).
pub(super) fn is_p3(node: &Result<NodeRef>) -> bool {
    node.as_ref().is_ok_and(|node| node.settings().priority_van)
}

/// Workers do not command workers, nor servers servers. As with stock, whose nodes have no
/// connection for that; where keys move, servers do have one, for pieces.
fn reaches(me: NodeId, all: &[NodeId]) -> Result<()> {
    let same = |id: &&NodeId| {
        **id != me && ![me, **id].contains(&SCHEDULER) && is_worker(**id) == is_worker(me)
    };
    all.iter().find(same).map_or(Ok(()), |id| {
        let text =
            format!("node {id} and this one have the same role: no commands go between them");
        Err(NodeError::Invalid(text))
    })
}

fn ids_of(node: &NodeRef, recver: i32) -> Result<Vec<NodeId>> {
    node.with_cluster(|cluster, _| cluster.ids_of(recver)).ok_or_else(|| {
        NodeError::Invalid(format!("{recver} is neither a node of this job nor a group"))
    })
}
