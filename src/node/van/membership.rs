//! Feeds events to the membership state machine and applies the actions that follow, in order,
//! under one lock: opens and closes connections, sends control messages, tells customers. Sending a
//! control message never blocks, so the lock is held shortly. May touch the van; decides nothing
//! itself.

use std::sync::MutexGuard;
use std::time::Duration;

use super::job::Core;
use super::{Van, error_of};
use crate::delivery::Delivery;
use crate::lines;
use crate::sync::lock;
use pslite_core::chronicle::{JobEventKind, NewEvent};
use pslite_core::cluster::{Action, Event, JobFailure};
use pslite_core::training::balance::Gone;
use pslite_core::wire::{EMPTY, Message, Node, NodeId, SCHEDULER};
use pslite_observe::MessageKind;
use pslite_observe::log::{self, Level};
use pslite_transport::carrier::{Endpoint, SendMode};
use pslite_transport::zmq::NumberedEvent;

impl Van {
    /// Feeds one event and applies the actions that follow, in order, under the lock.
    pub(super) fn handle_event(&self, event: Event) {
        // What does not come over a connection is not answered over one.
        let _ = self.handle_with(self.job.lock(), event);
    }

    /// The same for a message that came; what is to go back over its connection.
    pub(super) fn handle_received(&self, from: Option<NodeId>, message: Message) -> Vec<Message> {
        self.handle_with(self.job.lock(), Event::Received { from, message })
    }

    /// A connection came up or went down. The node that it leads to is read under the lock that
    /// guards changes of it. Otherwise an event with an outdated key would stay in the list of
    /// channels, and a scheduler would wait for that channel for ever.
    pub(super) fn handle_channel(&self, event: NumberedEvent) {
        let mut core = self.job.lock();
        let Some(id) = self.transport.key_of(event.number) else { return };
        core.channels.insert(id, event.up);
        let event = if event.up { Event::ChannelUp { id } } else { Event::ChannelDown { id } };
        let _ = self.handle_with(core, event);
    }

    fn handle_with(&self, mut core: MutexGuard<'_, Core>, event: Event) -> Vec<Message> {
        let failed_before = core.failure.is_some();
        let now = self.now();
        if let Event::Received { from: Some(id), .. } = &event {
            let id = *id;
            core.cluster.heard(now, id);
        }
        let mut actions = Vec::new();
        core.cluster.handle(now, event, &mut actions);
        let mut queue: std::collections::VecDeque<Action> = actions.into();
        let mut answers = Vec::new();
        while let Some(action) = queue.pop_front() {
            if let Action::Answer { message } = action {
                answers.push(message);
                continue;
            }
            if let Some(echo) = self.apply(&mut core, action) {
                let mut more = Vec::new();
                core.cluster.handle(self.now(), echo, &mut more);
                queue.extend(more);
            }
        }
        self.end_early(&core);
        let failure = core.failure.as_ref().filter(|_| !failed_before).map(|f| f.text.clone());
        drop(core);
        if let Some(reason) = failure {
            (self.on_failure)(&reason);
        }
        answers
    }

    /// Applies one action. A message to this node itself comes back as an event.
    fn apply(&self, core: &mut MutexGuard<'_, Core>, action: Action) -> Option<Event> {
        match action {
            Action::Connect { node, identity } => {
                self.connect(&node, identity);
                self.connect_native(core, &node, identity);
            }
            Action::ConnectPending { key, node } => {
                self.connect(&Node { id: key, ..node }, Some(SCHEDULER));
            }
            Action::Rename { from, to } => {
                self.transport.rename(from, to);
                if let Some(up) = core.channels.remove(&from) {
                    core.channels.insert(to, up);
                }
            }
            Action::Disconnect { id } => {
                self.transport.disconnect(id, Duration::from_millis(100));
                self.disconnect_native(id, Duration::from_millis(100));
                core.channels.remove(&id);
            }
            Action::Send { to, message } => return self.send_control(core, to, message),
            Action::Ready => self.ready(core),
            Action::BarrierDone { ticket, result } => {
                if let Some(slot) = core.barriers.get_mut(&ticket) {
                    *slot = Some(result);
                }
                self.job.tell();
            }
            Action::NodeLost { id, reason } => {
                self.lost(core, id, reason);
                let gone = self.gone(core, id);
                return self.balance_without(core, id, gone);
            }
            Action::NodeReplaced { node } => self.replaced(core, &node),
            Action::CustomerLeft { id, customer_id } => {
                self.customers.broadcast(&Delivery::CustomerLeft { id, customer_id });
                core.waits.left(id);
                if customer_id == 0 {
                    return self.balance_without(core, id, Gone::HasLeft);
                }
            }
            Action::Failed(failure) => self.failed(core, &failure),
            Action::Note(event) => self.state.say(&event),
            Action::Log { text } => lines::step(&text),
            Action::Answer { .. } => {} // `handle_with` has it.
            Action::Told { from, topic, bytes } => return self.told(core, from, topic, &bytes),
            Action::StatusAsked { guest, chronicle } => {
                return Some(self.status_asked(core, guest, chronicle));
            }
            Action::Policy(_)
            | Action::Routes { .. }
            | Action::Overlay(_)
            | Action::Collect { .. }
            | Action::Orders { .. }
            | Action::Leave
            | Action::Stop
            | Action::Record(_) => return self.elastic(core, action),
        }
        None
    }

    fn send_control(&self, core: &Core, to: NodeId, mut message: Message) -> Option<Event> {
        let me = core.cluster.me().id;
        if to == me && me != EMPTY {
            message.meta.sender = me;
            message.meta.recver = me;
            return Some(Event::Received { from: Some(me), message });
        }
        if let Some(resender) = &self.resender
            && to > 0
            && core.cluster.is_ready()
        {
            lock(resender).outgoing(self.now(), to, &mut message, core.cluster.is_ours(to));
        }
        self.post_control(to, &message);
        None
    }

    /// Sends a control message while the lock is held. (`post` would take the lock again to
    /// describe an error.)
    fn post_control(&self, to: NodeId, message: &Message) {
        let mut meta = Vec::with_capacity(64);
        self.state.settings.dialect.encode(&message.meta, &message.data, &mut meta);
        if log::enabled(Level::Trace) {
            log::write(Level::Trace, &format!("to {to}: {:?}", message.meta));
        }
        let priority = message.meta.priority;
        match self.transport.send(to, &meta, &message.data, priority, SendMode::Control) {
            Ok(bytes) => self.state.traffic.sent(to, MessageKind::of(&message.meta), bytes),
            Err(error) => {
                log::write(Level::Verbose, &format!("no control message to node {to}: {error}"));
            }
        }
    }

    fn ready(&self, core: &mut Core) {
        let me = core.cluster.me().clone();
        self.state.set_my_id(me.id);
        self.job.set_ready();
        if let Some(resender) = &self.resender {
            lock(resender).set_my_id(me.id);
        }
        log::write(
            Level::Verbose,
            &format!(
                "this is {} of {} workers and {} servers after {:.1} ms{}",
                me.describe(),
                self.state.settings.num_workers,
                self.state.settings.num_servers,
                self.now().as_secs_f64() * 1e3,
                if me.is_recovery { ", in place of one that died" } else { "" }
            ),
        );
    }

    fn lost(&self, core: &mut Core, id: NodeId, reason: String) {
        self.state.say(&NewEvent::error(JobEventKind::Node, &*reason).of(id));
        self.job.lose(core, id, reason.clone());
        self.gauge.forget(id);
        self.early.forget(id);
        if let Some(resender) = &self.resender {
            lock(resender).forget(id);
        }
        self.transport.disconnect(id, Duration::ZERO);
        self.disconnect_native(id, Duration::ZERO);
        self.customers.broadcast(&Delivery::NodeLost { id, reason });
    }

    fn replaced(&self, core: &mut Core, node: &Node) {
        self.job.replace(core, node.id);
        if let Some(resender) = &self.resender {
            lock(resender).forget(node.id);
        }
        self.end_lost(core, node.id);
        let text = format!("{} took the place of a dead node", node.describe());
        self.state.say(&NewEvent::info(JobEventKind::Node, text).of(node.id));
    }

    fn failed(&self, core: &mut Core, failure: &JobFailure) {
        self.state.say(&NewEvent::error(JobEventKind::Phase, &*failure.text));
        self.job.fail(core, failure);
        self.training.fail(&failure.text);
        self.early.clear();
        self.customers.broadcast(&Delivery::Failed(error_of(failure)));
    }

    /// A failure is only logged: without a connection the peer stays silent, and the job reports it
    /// when it misses the peer.
    pub(super) fn connect(&self, node: &Node, identity: Option<NodeId>) {
        if let Err(text) = self.try_connect(node, identity) {
            self.state.say(&NewEvent::error(JobEventKind::Node, text).of(node.id));
        }
    }

    /// Opens a connection. The error says why there is none.
    pub(super) fn try_connect(&self, node: &Node, identity: Option<NodeId>) -> Result<(), String> {
        let endpoint = if self.state.settings.local {
            Endpoint::Ipc { path: format!("/tmp/{}", node.port) }
        } else {
            Endpoint::Tcp { host: node.hostname.clone(), port: node.port as u16 }
        };
        let fail = |error: &dyn std::fmt::Display| {
            format!("cannot connect to {}: {error}", node.describe())
        };
        let entrance = match (&self.tunnels, &endpoint) {
            (Some(tunnels), Endpoint::Tcp { host, port }) => tunnels.entrance(host, *port),
            _ => Ok(None),
        };
        let entrance = entrance.map_err(|error| fail(&error))?;
        let connected = self.transport.connect_through(node.id, &endpoint, entrance, identity);
        connected.map_err(|error| fail(&error))
    }
}
