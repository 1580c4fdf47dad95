//! Receives messages: checks and counts each, and hands it to the membership or to a customer. One
//! thread receives. If a customer is idle, its code runs on this thread, which saves a thread
//! switch; if it takes long, another thread goes on receiving (`inline_handler`). May touch the van
//! and the mailboxes of customers; must not trust a length or an id before it is checked.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use smallvec::SmallVec;

use super::early::{Early, EarlyMessage};
use super::inline_handler::{InlineHandler, Watch};
use super::job::Core;
use super::{Van, saving};
use crate::customers::CustomerKey;
use crate::delivery::Delivery;
use crate::recipient::AtOnce;
use crate::running::RunningNode;
use crate::sync::lock;
use pslite_core::cluster::{Cluster, Event};
use pslite_core::delivery::Verdict;
use pslite_core::random::{self, Random};
use pslite_core::wire::{
    self, Command, Dialect, EMPTY, Message, Meta, NodeId, Origin, Payload, Role, SCHEDULER,
};
use pslite_observe::MessageKind;
use pslite_observe::log::{self, Level};
use pslite_transport::address;
use pslite_transport::carrier::{RecvError, SendMode};
use pslite_transport::native::NativeIncoming;
use pslite_transport::zmq::ZmqIncoming;

/// A message as a transport brings it.
pub(super) trait Arrived {
    /// The sender, if its connection tells.
    fn from(&self) -> Option<NodeId>;
    /// Metadata first.
    fn frames(&mut self) -> &mut SmallVec<[Bytes; 4]>;
    /// True if it had more frames than a message may have.
    fn is_oversized(&self) -> bool;
    /// False where data travel elsewhere.
    fn may_be_control(&self) -> bool;
    /// The values are already in the memory of the request that asked for them (`landing`).
    fn has_landed(&self) -> bool;
    /// The sender's network address.
    fn address(&self) -> String;
    /// As the stock wire brought it, if it did.
    fn as_stock(&self) -> Option<&ZmqIncoming>;
}

impl Arrived for ZmqIncoming {
    fn from(&self) -> Option<NodeId> {
        self.from
    }

    fn frames(&mut self) -> &mut SmallVec<[Bytes; 4]> {
        &mut self.frames
    }

    fn is_oversized(&self) -> bool {
        self.oversized
    }

    fn may_be_control(&self) -> bool {
        true
    }

    fn has_landed(&self) -> bool {
        false
    }

    fn address(&self) -> String {
        Self::address(self)
    }

    fn as_stock(&self) -> Option<&ZmqIncoming> {
        Some(self)
    }
}

impl Arrived for NativeIncoming {
    fn from(&self) -> Option<NodeId> {
        self.from
    }

    fn frames(&mut self) -> &mut SmallVec<[Bytes; 4]> {
        &mut self.frames
    }

    fn is_oversized(&self) -> bool {
        false // A connection that brings one is closed by its transport.
    }

    fn may_be_control(&self) -> bool {
        false
    }

    fn has_landed(&self) -> bool {
        self.landed
    }

    fn address(&self) -> String {
        Self::address(self).to_owned()
    }

    fn as_stock(&self) -> Option<&ZmqIncoming> {
        None
    }
}

impl Van {
    /// The thread that receives on the stock wire.
    pub(super) fn receive(self: &Arc<Self>) {
        self.receive_from(&self.inline_handler, || self.transport.recv());
    }

    /// The thread that receives on the native data plane.
    pub(super) fn receive_native(self: &Arc<Self>) {
        if let Some(native) = &self.native {
            self.receive_from(&native.inline_handler, || native.transport.recv());
        }
    }

    fn receive_from<A: Arrived>(
        &self,
        handler: &InlineHandler,
        recv: impl Fn() -> Result<A, RecvError>,
    ) {
        handler.begin();
        loop {
            match recv() {
                Ok(incoming) => {
                    let Some(AtOnce { to, item }) = self.incoming(incoming) else {
                        continue;
                    };
                    let Some((turn, item)) = to.queue.offer(item.priority(), item) else {
                        continue;
                    };
                    let goes_on = handler.run(|| {
                        to.customer.handle(item);
                        drop(turn);
                    });
                    if !goes_on {
                        return;
                    }
                }
                Err(RecvError::Stopped) => return,
                Err(error) => {
                    log::write(Level::Error, &format!("cannot receive any more: {error}"));
                    return;
                }
            }
        }
    }

    /// Starts another receiving thread if a customer's code has kept the present one for too long.
    /// Called by the clock.
    pub(super) fn watch_inline_handlers(self: &Arc<Self>, watches: &mut [Watch; 2]) {
        let [stock, native] = watches;
        self.watch_inline_handler(&self.inline_handler, stock, false);
        if let Some(plane) = &self.native {
            self.watch_inline_handler(&plane.inline_handler, native, true);
        }
    }

    fn watch_inline_handler(
        self: &Arc<Self>,
        handler: &InlineHandler,
        watch: &mut Watch,
        native: bool,
    ) {
        let Some(number) = watch.is_late(handler) else { return };
        // The new thread takes over by itself: if it cannot be started, all stays as it is.
        let started = self.spawn("van", move |van| match &van.native {
            Some(plane) if native => {
                if plane.inline_handler.end(number) {
                    van.receive_native();
                }
            }
            _ => {
                if van.inline_handler.end(number) {
                    van.receive();
                }
            }
        });
        if let Err(error) = started {
            log::write(Level::Warning, &error.to_string());
        }
    }

    /// Checks a message, and handles it unless it is for a customer.
    pub(super) fn incoming<A: Arrived>(&self, mut incoming: A) -> Option<AtOnce> {
        let from = incoming.from();
        let mut meta = match incoming
            .frames()
            .first()
            .map(|frame| self.state.settings.dialect.decode(frame))
        {
            Some(Ok(_)) if incoming.is_oversized() => {
                return self.drop_garbage(&incoming, "too many frames");
            }
            Some(Ok(meta)) if meta.control().is_some() && !incoming.may_be_control() => {
                return self.drop_garbage(&incoming, "control on the way of data");
            }
            Some(Ok(meta)) => meta,
            Some(Err(error)) => {
                let text = format!("{error}: does the sender have another PSLITE_WIRE?");
                let dropped = self.drop_garbage(&incoming, &text);
                self.look_at_other_wires(&mut incoming);
                return dropped;
            }
            None => return self.drop_garbage(&incoming, "no frame"),
        };
        if self.state.settings.drop_percent > 0 && self.job.is_ready() && self.unlucky() {
            return None;
        }
        meta.sender = from.unwrap_or(EMPTY);
        meta.recver = self.my_id();
        if log::enabled(Level::Trace) {
            log::write(Level::Trace, &format!("from {}: {meta:?}", meta.sender));
        }
        if let Some(reason) = self.refuse(from, &meta) {
            return self.drop_garbage(&incoming, &reason);
        }
        let bytes = incoming.frames().iter().map(Bytes::len).sum();
        self.state.traffic.received(meta.sender, MessageKind::of(&meta), bytes);
        let data = incoming.frames().drain(1..).collect();
        let may_repeat = incoming.may_be_control();
        let message = self.unless_early(Message { meta, data }, may_repeat)?;
        let message = self.unless_of_lost(message, may_repeat)?;
        if may_repeat && !self.accept(from, &message, |id| self.is_ours(id)) {
            return None;
        }
        match message.meta.control().map(|control| control.command) {
            None => return self.dispatch(message, Some(&incoming)),
            Some(Command::Ack | Command::Terminate) => {}
            Some(_) => self.control(from, message, incoming.as_stock()),
        }
        None
    }

    /// Bytes that make no sense on this scheduler's wire, before the job is complete: if they are a
    /// registration on another one, it says both.
    fn look_at_other_wires<A: Arrived>(&self, incoming: &mut A) {
        let own = self.state.settings.dialect;
        let forms = self.state.settings.role == Role::Scheduler && !self.job.is_ready();
        if !forms || incoming.from().is_some() {
            return;
        }
        let Some(frame) = incoming.frames().first().cloned() else { return };
        for other in Dialect::ALL.into_iter().filter(|other| *other != own) {
            let payload = other.decode(&frame).map(|meta| meta.payload);
            if let Ok(Payload::Control(control)) = payload
                && control.command == Command::AddNode
                && let [node] = control.nodes.as_slice()
            {
                let (its, ours) = (other.name(), own.name());
                return self.event(Event::OtherWire { node: node.clone(), its, ours });
            }
        }
    }

    /// A control message of somebody else. A scheduler is told where it came from.
    fn control(&self, from: Option<NodeId>, mut message: Message, incoming: Option<&ZmqIncoming>) {
        let is_stranger = from.is_none() && self.state.settings.role == Role::Scheduler;
        if is_stranger && let Some(control) = message.meta.control_mut() {
            control.origin = incoming.and_then(origin);
        }
        let answers = match from {
            None if saving::asks(self.state.settings.role, &message.meta) => {
                self.saved(&message.meta).into_iter().collect()
            }
            _ => self.handle_received(from, message),
        };
        for answer in answers {
            let Some(incoming) = incoming else { continue };
            let mut meta = Vec::new();
            self.state.settings.dialect.encode(&answer.meta, &answer.data, &mut meta);
            if let Err(error) = self.transport.answer(incoming, &meta) {
                let address = incoming.address();
                log::write(Level::Verbose, &format!("no answer to {address}: {error}"));
            }
        }
    }

    /// Shows the message to the resender. Returns false if it must go no further. `is_ours`: what
    /// is known of the sender.
    fn accept(
        &self,
        from: Option<NodeId>,
        message: &Message,
        is_ours: impl FnOnce(NodeId) -> bool,
    ) -> bool {
        let (Some(resender), Some(from)) = (&self.resender, from) else { return true };
        let ours = message.meta.sequence != 0 || is_ours(from);
        let outcome = lock(resender).incoming(self.now(), from, message, ours);
        if let Some(ack) = outcome.ack {
            // The sender asks again if this one is lost.
            let _ = self.post(from, &ack, SendMode::Control);
        }
        outcome.verdict == Verdict::Deliver
    }

    /// Why a message is refused unread, if so. An operator has no id; a scheduler answers it
    /// nevertheless.
    fn refuse(&self, from: Option<NodeId>, meta: &Meta) -> Option<String> {
        let command = meta.control().map(|control| control.command);
        let is_scheduler = self.state.settings.role == Role::Scheduler;
        let asks = |control: &&wire::Control| control.word.is_some() && is_scheduler;
        let by_operator =
            meta.control().filter(asks).is_some() || saving::asks(self.state.settings.role, meta);
        match from {
            None if command != Some(Command::AddNode) && !by_operator => {
                Some("a message of a node that has not registered".to_owned())
            }
            None => None,
            Some(id) => {
                let core = self.job.lock();
                // The scheduler tells those who do not know it yet.
                let is_told = is_scheduler && command.is_some();
                let gone = if is_told { None } else { why_gone(&core.cluster, id) };
                gone.or_else(|| why_unknown(&core.cluster, id))
            }
        }
    }

    /// Keeps a message to a customer as long as the job is not known.
    fn unless_early(&self, message: Message, may_repeat: bool) -> Option<Message> {
        if message.meta.control().is_some() {
            return Some(message);
        }
        match self.early.take(message, may_repeat) {
            Ok(message) => Some(message),
            Err(Early::Waits) => None,
            Err(Early::NoRoom) => {
                let text = "more messages came before the job was complete than have room here";
                self.event(Event::CannotGoOn(text.to_owned()));
                None
            }
        }
    }

    /// Keeps a message of a node that is lost here and may be replaced: it is its successor's, if
    /// the scheduler's word of that comes soon.
    fn unless_of_lost(&self, message: Message, may_repeat: bool) -> Option<Message> {
        if message.meta.control().is_some() || !self.job.is_troubled() {
            return Some(message);
        }
        let sender = message.meta.sender;
        // Under the lock, as `end_lost`: the word does not come in between.
        let core = self.job.lock();
        if !core.lost.contains_key(&sender) || !core.cluster.may_be_replaced(sender) {
            return Some(message);
        }
        if !self.early.keep_of_lost(self.now(), EarlyMessage { message, may_repeat })
            && let Some(total) = self.state.garbage.hit()
        {
            let text = format!("dropped a message of lost node {sender} ({total} so far)");
            log::write(Level::Warning, &text);
        }
        None
    }

    /// Another process has the id of a lost node: hands on what it has sent already.
    pub(super) fn end_lost(&self, core: &Core, successor: NodeId) {
        let early = self.early.take_of(self.now(), successor);
        early.into_iter().for_each(|early| self.hand_on(core, early));
    }

    /// The job may be known now: hands on what came before it was. This node's id and the policy
    /// are set by then, and nobody changes them, since the lock is held.
    pub(super) fn end_early(&self, core: &Core) {
        if core.cluster.is_ready() {
            self.early.end(|early| self.hand_on(core, early));
        }
    }

    /// Gives a message to its customer that came before its time.
    fn hand_on(&self, core: &Core, early: EarlyMessage) {
        let EarlyMessage { mut message, may_repeat } = early;
        let (sender, cluster) = (message.meta.sender, &core.cluster);
        message.meta.recver = self.my_id();
        if let Some(reason) = why_gone(cluster, sender).or_else(|| why_unknown(cluster, sender)) {
            if let Some(total) = self.state.garbage.hit() {
                let text = format!("dropped an early message: {reason} ({total} so far)");
                log::write(Level::Warning, &text);
            }
            return;
        }
        // Repetitions have waited, too.
        if may_repeat && !self.accept(Some(sender), &message, |id| cluster.is_ours(id)) {
            return;
        }
        let key = self.key_of(&message);
        if let Err(text) = self.customers.deliver(key, Delivery::Message(message), false) {
            log::write(Level::Error, &text);
        }
    }

    /// The customer that a message is for. Workers have several customers per application, others
    /// one (van.cc:229).
    fn key_of(&self, message: &Message) -> CustomerKey {
        let Meta { app_id, customer_id, .. } = message.meta;
        match self.state.settings.role {
            Role::Worker => CustomerKey { app_id, customer_id },
            _ => CustomerKey::of_app(app_id),
        }
    }

    fn drop_garbage(&self, incoming: &dyn Arrived, reason: &str) -> Option<AtOnce> {
        if let Some(total) = self.state.garbage.hit() {
            let who = incoming
                .from()
                .map_or_else(|| "an unnamed node".to_owned(), |id| format!("node {id}"));
            log::write(
                Level::Warning,
                &format!(
                    "dropped a message from {who} at {}: {reason} ({total} so far)",
                    incoming.address()
                ),
            );
        }
        None
    }

    /// Hands a data message to its customer, or returns it if the customer's code may run here.
    pub(super) fn dispatch(
        &self,
        message: Message,
        incoming: Option<&dyn Arrived>,
    ) -> Option<AtOnce> {
        // The number of frames is checked where it means something (`customer::made`).
        let sound = message.meta.app_id != EMPTY;
        if !sound {
            return incoming.and_then(|incoming| {
                self.drop_garbage(incoming, "neither control nor a message to an application")
            });
        }
        let key = self.key_of(&message);
        if incoming.is_some_and(Arrived::has_landed) {
            // Its request has withdrawn the memory: nobody waits for the values, and nobody may
            // read them.
            let (timestamp, vals) = (message.meta.timestamp, message.data.get(1));
            let to = self.customers.get(key);
            if !to.is_some_and(|mailbox| mailbox.landings.has(timestamp, vals)) {
                return None;
            }
        }
        // Commands may wait for other threads of the application, and priorities mean something
        // only to what waits in the queue: those take the customer's own thread.
        let at_once =
            incoming.is_some() && !message.meta.simple_app && !self.state.settings.priority_van;
        let item = Delivery::Message(message);
        if at_once && let Some(to) = self.customers.get(key) {
            return Some(AtOnce { to, item });
        }
        if let Err(text) = self.customers.deliver(key, item, incoming.is_some()) {
            log::write(Level::Error, &text);
        }
        None
    }

    /// Decides by chance whether to drop a message (PS_DROP_MSG).
    fn unlucky(&self) -> bool {
        let seed = self.random.fetch_add(random::STRIDE, Ordering::Relaxed);
        Random::new(seed).percent(self.state.settings.drop_percent)
    }
}

/// Where a message came from; none over a Unix socket.
fn origin(incoming: &ZmqIncoming) -> Option<Origin> {
    let address: IpAddr = incoming.address().parse().ok()?;
    let is_here = address.is_loopback()
        || address::interfaces().into_iter().any(|(_, own, _)| IpAddr::V4(own) == address);
    Some(Origin { address, is_here })
}

/// Why nothing of that node is taken any more, if so.
fn why_gone(cluster: &Cluster, id: NodeId) -> Option<String> {
    cluster.is_gone(id).then(|| format!("node {id} is not in this job any more"))
}

/// Why nothing of that node is taken, if it never was in the job. Nobody knows before the job is
/// complete.
fn why_unknown(cluster: &Cluster, id: NodeId) -> Option<String> {
    let is_known = id == SCHEDULER || id == cluster.me().id || cluster.node(id).is_some();
    (cluster.is_ready() && !is_known).then(|| format!("node {id} is not in this job"))
}
