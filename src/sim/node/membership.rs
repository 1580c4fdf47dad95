//! What the membership decides, applied to connections and the application, as the van's
//! `membership` does.

use std::collections::VecDeque;

use super::{Node, World, native_address};
use crate::app::{Application, Input};
use pslite_core::cluster::{Action, Event};
use pslite_core::wire::topic::Topic;
use pslite_core::wire::{EMPTY, Message, Node as Described, NodeId, SCHEDULER};

impl<A: Application> Node<A> {
    pub(super) fn event(&mut self, world: &mut World<'_, A::Ledger>, event: Event) {
        self.decide(world, event);
        self.end_early(world);
        self.run_app(world);
    }

    pub(super) fn decide(&mut self, world: &mut World<'_, A::Ledger>, event: Event) {
        if self.doomed {
            return;
        }
        let now = self.clock.read(world.now);
        if let Event::Received { from: Some(id), .. } = &event {
            self.cluster.heard(now, *id);
        }
        let mut actions = Vec::new();
        self.cluster.handle(now, event, &mut actions);
        let mut queue = VecDeque::from(actions);
        while let Some(action) = queue.pop_front() {
            if let Some(echo) = self.apply(world, action) {
                let mut more = Vec::new();
                self.cluster.handle(now, echo, &mut more);
                queue.extend(more);
            }
        }
    }

    /// Applies one action; a message to myself comes back as an event.
    fn apply(&mut self, world: &mut World<'_, A::Ledger>, action: Action) -> Option<Event> {
        match action {
            Action::Connect { node, identity } => self.connect(world, &node, identity),
            Action::ConnectPending { key, node } => {
                self.connect(world, &Described { id: key, ..node }, Some(SCHEDULER));
            }
            Action::Rename { from, to } => {
                if let Some(connection) = self.connections.remove(from) {
                    self.connections.set(to, connection);
                }
            }
            Action::Disconnect { id } => self.disconnect(world, id),
            Action::Send { to, message } => return self.send_control(world, to, message),
            Action::Ready => {
                let id = self.cluster.me().id;
                self.resender.iter_mut().for_each(|resender| resender.set_my_id(id));
                self.inbox.push_back(Input::Ready);
            }
            Action::BarrierDone { ticket, result } => {
                let result = result.map_err(|failure| failure.text);
                self.inbox.push_back(Input::Barrier { ticket, result });
            }
            Action::NodeLost { id, reason } => {
                self.lost.insert(id, reason.clone());
                self.early.retain(|(message, _)| message.meta.sender != id);
                self.measuring.iter_mut().for_each(|measuring| measuring.forget(id));
                self.resender.iter_mut().for_each(|resender| resender.forget(id));
                self.disconnect(world, id);
                self.inbox.push_back(Input::NodeLost { id, reason });
            }
            Action::NodeReplaced { node } => {
                self.lost.remove(&node.id);
                self.resender.iter_mut().for_each(|resender| resender.forget(node.id));
            }
            Action::CustomerLeft { id, customer_id } => {
                self.inbox.push_back(Input::CustomerLeft { id, customer_id });
            }
            Action::Failed(failure) => self.inbox.push_back(Input::Failed(failure.text)),
            Action::Note(event) => {
                world.trace.line(world.now, format_args!("p{} says {}", self.process, event.text));
            }
            // Nobody asks from outside.
            Action::Log { .. } | Action::Answer { .. } | Action::StatusAsked { .. } => {}
            Action::Record(record) => world.disk.write(record.to_bytes()),
            Action::Told { topic: Topic::Probe, bytes, .. } => self.asked_to_probe(world, &bytes),
            Action::Policy(_) | Action::Routes { .. } => {
                self.switched(self.clock.read(world.now));
                self.inbox.push_back(Input::Elastic(Box::new(action)));
            }
            Action::Overlay(_)
            | Action::Collect { .. }
            | Action::Orders { .. }
            | Action::Leave
            | Action::Stop
            | Action::Told { .. } => self.inbox.push_back(Input::Elastic(Box::new(action))),
        }
        None
    }

    pub(super) fn connect(
        &mut self,
        world: &mut World<'_, A::Ledger>,
        node: &Described,
        identity: Option<NodeId>,
    ) {
        let (now, me) = (world.now, self.process);
        let connection = world.network.connect(now, me, &node.address(), identity);
        if let Some(old) = self.connections.set(node.id, connection) {
            world.network.close(old);
        }
        let own = self.cluster.me().native_port;
        let Some(identity) = identity.filter(|_| own != 0 && node.native_port != 0) else { return };
        let address = native_address(&node.address(), node.incarnation);
        let connection = world.network.connect_kept(now, me, &address, identity);
        if let Some(old) = self.native.insert(node.id, connection) {
            world.network.close(old);
        }
    }

    fn disconnect(&mut self, world: &mut World<'_, A::Ledger>, id: NodeId) {
        let both = [self.connections.remove(id), self.native.remove(&id)];
        both.into_iter().flatten().for_each(|connection| world.network.close(connection));
    }

    fn send_control(
        &mut self,
        world: &mut World<'_, A::Ledger>,
        to: NodeId,
        mut message: Message,
    ) -> Option<Event> {
        let me = self.cluster.me().id;
        if to == me && me != EMPTY {
            (message.meta.sender, message.meta.recver) = (me, me);
            return Some(Event::Received { from: Some(me), message });
        }
        if to > 0 && self.cluster.is_ready() {
            let ours = self.cluster.is_ours(to);
            if let Some(resender) = &mut self.resender {
                resender.outgoing(self.clock.read(world.now), to, &mut message, ours);
            }
        }
        self.leave(world, to, &message, false);
        None
    }
}
