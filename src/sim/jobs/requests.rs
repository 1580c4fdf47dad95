//! The requests of one customer of a simulated worker: `core::worker` decides all that a node's
//! customer would, here planted mistakes alter what goes in and out of it, and the ledger looks on.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::exchange;
use super::ledger::Ledger;
use super::sabotage::Sabotage;
use crate::app::{APP, Output};
use pslite_core::invariant::Valid;
use pslite_core::kv::commands::Again;
use pslite_core::kv::flights::Outgoing;
use pslite_core::kv::messages::{pairs_of, with_data};
use pslite_core::kv::rounds::Round;
use pslite_core::kv::{Answerer, Assembled, Finished, Pending, Slices, slice};
use pslite_core::values::kind::form_of;
use pslite_core::values::{KeySpace, KvPairs, Space, key_at};
use pslite_core::wire::elastic::{KeyRoute, PartAsk};
use pslite_core::wire::trees::Overlay;
use pslite_core::wire::word::RoutedPolicy;
use pslite_core::wire::{
    EMPTY, Frames, Key, Message, Meta, NodeId, Payload, id_to_rank, server_id,
};
use pslite_core::worker::{Follower, LocalSent, LocalStep, WorkerOutput, WorkerSide};

/// Every second worker asks about values of so many bytes.
const LEAST_ASKED: u64 = 96;

/// What is over: whose, and with what values or error.
pub(super) type Over<D> = (i32, D, Result<Assembled, String>);

/// A request that is to be made.
pub(super) struct NewRequest<D> {
    /// The command.
    pub(super) head: i32,
    pub(super) push: bool,
    pub(super) pull: bool,
    /// As the customer knows its keys.
    pub(super) kv: KvPairs,
    /// What it is for.
    pub(super) payload: D,
}

/// See the module. `D` says what a request is for.
pub(super) struct CustomerRequests<D> {
    customer: i32,
    servers: usize,
    /// Where its keys lie, if they are its own.
    space: Option<KeySpace>,
    side: WorkerSide<D>,
    /// Which wire key each slice of a request is about.
    keys: BTreeMap<(i32, u32), Key>,
    pub(super) sabotage: Sabotage,
    me: NodeId,
    /// What a planted mistake answers, at the next tick.
    later: Vec<Meta>,
}

impl<D> CustomerRequests<D> {
    pub(super) fn new(servers: usize, sabotage: Sabotage, customer: Space) -> Self {
        let customer = customer as i32;
        let has_own = customer != APP && !sabotage.mixes_keys();
        let space = has_own.then(|| KeySpace::of_customer(customer, servers).ok()).flatten();
        let mut side = WorkerSide::default();
        side.set_servers(servers);
        let (keys, later) = (BTreeMap::new(), Vec::new());
        Self { customer, servers, space, side, keys, sabotage, me: EMPTY, later }
    }

    /// It is in the job from now on: as that node, in that life of its id.
    pub(super) fn follow(&mut self, me: NodeId, life: u64, makes_keys: bool) {
        self.me = me;
        self.side.follow(Follower {
            me,
            homes: (0..self.servers).map(server_id).collect(),
            life,
            makes_keys,
            // Every second one sums in the order of its children.
            keeps_order: id_to_rank(me) % 2 == 0,
        });
        // Values are short here, and workers need not agree from where on they ask.
        self.side.set_asks_from(if me / 2 % 2 == 0 { 0 } else { LEAST_ASKED });
    }

    /// Pushes, pulls, or both.
    ///
    /// # Errors
    /// The request does not fit the ranges, or what is known of the pieces.
    pub(super) fn values(
        &mut self,
        now: Duration,
        request: NewRequest<D>,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Result<i32, String> {
        let (meta, slices) = self.open(request)?;
        match self.side.who_answers(false, &meta, &slices) {
            Answerer::Ahead(mut all) => {
                self.sabotage.ahead(&mut all);
                self.side.keep_ahead(meta.timestamp, all);
            }
            Answerer::Servers | Answerer::Local => self.go(now, &meta, slices, ledger, out)?,
        }
        Ok(self.name_of(meta.timestamp))
    }

    /// A new request, of which nobody has heard: what it says, and what of it is for each server.
    ///
    /// # Errors
    /// It does not fit the ranges.
    fn open(&mut self, request: NewRequest<D>) -> Result<(Meta, Slices), String> {
        let NewRequest { head, push, pull, kv, payload } = request;
        let ranks: Vec<NodeId> = (0..self.servers).map(server_id).collect();
        let timestamp = self.side.requests_mut().new_request(&ranks);
        let placed = self.space.map(|space| space.place(&kv.keys)).transpose();
        let keys = placed.map_err(|error| error.to_string())?.unwrap_or_else(|| kv.keys.clone());
        let kv = KvPairs { keys, ..kv };
        let pending = if pull {
            Pending::pull(kv.keys.clone(), false, payload)
        } else {
            Pending::push(payload)
        };
        let slices = slice(&kv, 1, self.side.ranges()).map_err(|error| error.to_string())?;
        if self.side.requests_mut().open(timestamp, pending).is_err() {
            return Err("a new request is over already".to_owned());
        }
        let meta = Meta { head, push, pull, ..self.meta(timestamp) };
        for rank in slices.iter().enumerate().filter(|(_, slice)| slice.is_none()) {
            // Each tensor has a key: somebody is asked.
            drop(self.side.requests_mut().skip(timestamp, server_id(rank.0)));
        }
        Ok((meta, slices))
    }

    /// A request goes to the servers.
    fn go(
        &mut self,
        now: Duration,
        meta: &Meta,
        slices: Slices,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Result<(), String> {
        self.note_keys(meta, &slices);
        let slices = slices.into_iter().enumerate();
        let slices = slices.filter_map(|(rank, slice)| slice.map(|kv| (rank, kv)));
        if !self.side.follows() {
            // Each slice is one message, to the server in whose range it lies.
            let sent = |(rank, kv)| with_data(Meta { recver: server_id(rank), ..meta.clone() }, kv);
            out.extend(slices.map(|slice| Output::Send(Box::new(sent(slice)))));
            return Ok(());
        }
        let mut done = WorkerOutput::default();
        let begun = self.side.begin(now, meta, slices, &mut done);
        let over = self.perform(done, ledger, out);
        debug_assert!(over.is_empty(), "nothing was answered");
        begun.map_err(|error| error.to_string())
    }

    /// Which keys the slices of a request are about.
    fn note_keys(&mut self, meta: &Meta, slices: &Slices) {
        for (rank, kv) in slices.iter().enumerate() {
            let Some(kv) = kv else { continue };
            let first = self.side.ranges().get(rank).map_or(0, |range| range.begin);
            self.keys.insert((meta.timestamp, rank as u32), form_of(meta, kv, first).1);
        }
    }

    // ---- what the local model answers (docs/nbsync.md) ------------------------------------------

    /// A request for the local model: what it says, its slices, and its name.
    ///
    /// # Errors
    /// It does not fit the ranges.
    pub(super) fn ask_local(
        &mut self,
        request: NewRequest<D>,
    ) -> Result<(Meta, Slices, i32), String> {
        let (meta, slices) = self.open(request)?;
        self.side.keep_local(meta.timestamp);
        let name = self.name_of(meta.timestamp);
        Ok((meta, slices, name))
    }

    /// Does what the local model says. The name of the request of its own that has begun, and the
    /// requests that are over.
    pub(super) fn do_local(
        &mut self,
        now: Duration,
        step: LocalStep,
        own: impl FnOnce(Key) -> D,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> (Option<i32>, Vec<Over<D>>) {
        let mut about = None;
        match &step {
            LocalStep::Forward(asked) => self.note_keys(&asked.0, &asked.1),
            LocalStep::Send(own) => about = Some((own.rank, own.key)),
            LocalStep::Answer(..) | LocalStep::Refuse(..) | LocalStep::Say(_) => {}
        }
        let mut done = WorkerOutput::default();
        let mut begun = None;
        if let LocalSent::Own(timestamp) = self.side.do_local(now, step, own, &mut done) {
            let key = about.map(|(rank, key)| ((timestamp, rank), key));
            self.keys.extend(key);
            begun = Some(self.name_of(timestamp));
        }
        (begun, self.perform(done, ledger, out))
    }

    // ---- what comes back ------------------------------------------------------------------------

    /// A request of this customer among those of all customers of its worker.
    const fn name_of(&self, timestamp: i32) -> i32 {
        timestamp + self.customer * (1 << 24)
    }

    fn meta(&self, timestamp: i32) -> Meta {
        let (customer_id, own_keys) = (self.customer, self.space.is_some());
        Meta { app_id: APP, customer_id, own_keys, timestamp, request: true, ..Meta::default() }
    }

    /// Ends one pull whose values came ahead.
    pub(super) fn end_ahead(
        &mut self,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Option<Vec<Over<D>>> {
        let timestamp = self.side.first_ahead()?;
        Some(self.step(ledger, out, |side, done| side.end_ahead(timestamp, done)))
    }

    /// Others may go on without this worker.
    pub(super) fn drop_ahead(&mut self) {
        self.side.drop_ahead();
    }

    /// What the real bookkeeping promises of itself.
    ///
    /// # Errors
    /// The first promise that does not hold.
    pub(super) fn validate(&self) -> Valid {
        self.side.validate()
    }

    /// The rounds that are over since the last call.
    pub(super) fn take_rounds(&mut self) -> Vec<Round> {
        self.side.take_rounds()
    }

    /// How much is in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.keys.len()
    }

    /// The wire key that a slice of a request in flight is about.
    pub(super) fn key_of(&self, timestamp: i32, slice: u32) -> Option<Key> {
        self.keys.get(&(timestamp, slice)).copied()
    }

    /// A command to these servers. `None` if there is none of them.
    pub(super) fn command(
        &mut self,
        servers: &[NodeId],
        head: i32,
        body: &Bytes,
        payload: D,
        out: &mut Vec<Output>,
    ) -> Option<i32> {
        let again = if self.side.follows() {
            self.side.command(head, body, servers)
        } else {
            let timestamp = self.side.requests_mut().new_request(servers);
            Again { timestamp, head, body: body.clone() }
        };
        let pending = Pending::push(payload);
        self.side.requests_mut().open(again.timestamp, pending).ok()?;
        self.send_command(&again, servers, out);
        Some(self.name_of(again.timestamp))
    }

    /// Commands go to these servers now: says again what nobody has who lives.
    pub(super) fn command_again(
        &mut self,
        servers: &[NodeId],
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Vec<Over<D>> {
        let mut done = WorkerOutput::default();
        for again in self.side.command_again(servers, &mut done) {
            self.send_command(&again, servers, out);
        }
        self.perform(done, ledger, out)
    }

    fn send_command(&self, again: &Again, servers: &[NodeId], out: &mut Vec<Output>) {
        let life = self.side.life();
        let ask = (life > 0).then(|| PartAsk { life, ..PartAsk::default() });
        for recver in servers.iter().copied() {
            let meta = Meta {
                head: again.head,
                body: again.body.clone(),
                simple_app: true,
                recver,
                payload: ask.clone().into(),
                ..self.meta(again.timestamp)
            };
            out.push(Output::Send(Box::new(Message { meta, data: Frames::new() })));
        }
    }

    /// An answer came.
    pub(super) fn answered(
        &mut self,
        now: Duration,
        message: Message,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Vec<Over<D>> {
        let Message { mut meta, data } = message;
        let mut done = WorkerOutput::default();
        if meta.simple_app {
            self.side.obeyed(meta.timestamp, meta.sender, &meta.error, &mut done);
        } else {
            let timestamp = meta.timestamp;
            if let Payload::Reply(reply) = &mut meta.payload {
                let key = self.keys.get(&(timestamp, reply.slice));
                key.into_iter().for_each(|key| self.sabotage.taught(*key, reply));
            }
            self.side.answered(now, &meta, pairs_of(data), &mut done);
        }
        self.perform(done, ledger, out)
    }

    fn over(&mut self, finished: Finished<D>) -> Over<D> {
        let Finished { ts, payload, outcome } = finished;
        let of_it = self.keys.range((ts, 0)..=(ts, u32::MAX)).map(|(name, _)| *name);
        for name in of_it.collect::<Vec<_>>() {
            self.keys.remove(&name);
        }
        self.side.complete(ts);
        let result = outcome.map(Option::unwrap_or_default).map_err(|error| error.to_string());
        (self.name_of(ts), payload, result)
    }

    /// A server is gone: what was sent to it waits, or fails where keys stay. Commands to it are
    /// obeyed by those that are left; if none is left that has one, or may have it, that waits for
    /// a policy.
    pub(super) fn lost(
        &mut self,
        now: Duration,
        server: NodeId,
        reason: &str,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Vec<Over<D>> {
        self.step(ledger, out, |side, done| side.lost(now, server, reason, done))
    }

    /// A message could not be sent: its receiver is gone. What it carried waits; where keys stay,
    /// its request has failed.
    pub(super) fn unsent(
        &mut self,
        now: Duration,
        meta: &Meta,
        reason: &str,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Vec<Over<D>> {
        if self.side.follows() {
            return self.lost(now, meta.recver, reason, ledger, out);
        }
        self.step(ledger, out, |side, done| side.fail(meta.timestamp, reason, done))
    }

    /// A new policy.
    pub(super) fn policy(
        &mut self,
        now: Duration,
        routed: &RoutedPolicy,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Vec<Over<D>> {
        self.step(ledger, out, |side, done| {
            side.policy(now, routed, done);
            // Commands that they did not answer before they left are obeyed by the others.
            let released = &routed.policy.released;
            released.iter().for_each(|server| side.end_commands(*server, done));
        })
    }

    /// Pieces have moved.
    pub(super) fn learn(
        &mut self,
        now: Duration,
        routes: &[KeyRoute],
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Vec<Over<D>> {
        self.step(ledger, out, |side, done| side.learn(now, routes, done))
    }

    /// Time has passed: what waits may go now, and what was put off comes.
    pub(super) fn tick(
        &mut self,
        now: Duration,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Vec<Over<D>> {
        let later = std::mem::take(&mut self.later);
        self.step(ledger, out, |side, done| {
            for meta in later {
                side.answered(now, &meta, KvPairs::default(), done);
            }
            side.retry(now, done);
        })
    }

    // ---- along trees ----------------------------------------------------------------------------

    /// These trees are in force.
    pub(super) fn overlay(
        &mut self,
        now: Duration,
        overlay: &Overlay,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Vec<Over<D>> {
        ledger.overlay(overlay);
        self.step(ledger, out, |side, done| side.overlay(now, overlay, done))
    }

    /// Something came along a tree.
    pub(super) fn hop(
        &mut self,
        now: Duration,
        message: Message,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Vec<Over<D>> {
        let Message { meta, data } = message;
        let newest = self.side.relay().map_or(0, |relay| relay.trees().number());
        let mut done = WorkerOutput::default();
        if let Some((meta, kv)) = self.sabotage.hop_in(meta, pairs_of(data), newest) {
            self.side.hop(now, meta, kv, &mut done);
        }
        self.perform(done, ledger, out)
    }

    // ---- what is to be done ---------------------------------------------------------------------

    /// Does that to the side, and then what it says. The requests that are over.
    fn step(
        &mut self,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
        step: impl FnOnce(&mut WorkerSide<D>, &mut WorkerOutput<D>),
    ) -> Vec<Over<D>> {
        let mut done = WorkerOutput::default();
        step(&mut self.side, &mut done);
        self.perform(done, ledger, out)
    }

    /// Does what the side says. The requests that are over.
    fn perform(
        &mut self,
        mut done: WorkerOutput<D>,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) -> Vec<Over<D>> {
        for Outgoing { meta, kv } in done.parts().iter().filter(|one| one.is_for_relay(self.me)) {
            // Of a compressed push the first key says how many elements there are.
            let key = key_at(&kv.keys, kv.key_count().saturating_sub(1)).unwrap_or_default();
            ledger.pushed_by_tree(&Meta { sender: self.me, ..meta.clone() }, kv, key);
        }
        let messages = self.side.messages(&mut done);
        for Outgoing { mut meta, kv } in self.sabotage.passed_on(messages, self.me, &mut self.later)
        {
            if meta.payload.is_hop() {
                meta.sender = self.me;
                ledger.sent_by_tree(&meta, &kv);
            }
            out.push(Output::Send(Box::new(with_data(meta, kv))));
        }
        out.extend(done.reports.iter().map(exchange::tell));
        done.over.into_iter().map(|finished| self.over(finished)).collect()
    }
}
