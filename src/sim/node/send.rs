//! Messages onto their connections, and deaths at a step on the way.

use super::{Node, World};
use crate::app::{Application, Input};
use crate::network::Sealed;
use crate::steps::Fate;
use pslite_core::trees::place_in_round;
use pslite_core::wire::{Message, NodeId, encode_meta};

impl<A: Application> Node<A> {
    /// A message of the application: over the native data plane if the peer has one.
    pub(super) fn send_data(&mut self, world: &mut World<'_, A::Ledger>, mut message: Message) {
        let to = message.meta.recver;
        message.meta.sender = self.cluster.me().id;
        let failure = self.cluster.failure().map(|failure| failure.text.clone());
        if let Some(reason) = self.lost.get(&to).cloned().or(failure) {
            self.inbox.push_back(Input::Unsent { meta: Box::new(message.meta), reason });
            return;
        }
        let native = self.native.contains_key(&to);
        let ours = self.cluster.is_ours(to);
        if let Some(resender) = self.resender.as_mut().filter(|_| !native) {
            resender.outgoing(self.clock.read(world.now), to, &mut message, ours);
        }
        self.leave(world, to, &message, native);
    }

    /// Sends a message for the first time, unless the process dies at that.
    pub(super) fn leave(
        &mut self,
        world: &mut World<'_, A::Ledger>,
        to: NodeId,
        message: &Message,
        native: bool,
    ) {
        if self.doomed {
            return;
        }
        let fate = world.steps.fate(self.cluster.me().role, true, message);
        self.doomed = fate != Fate::Lives;
        if fate == Fate::DiesBefore {
            return;
        }
        let connection = match native {
            true => self.native.get(&to).copied(),
            false => self.connections.connection(to),
        };
        if let Some(connection) = connection {
            let class = self.class_of(world, message);
            world.network.send(world.now, connection, Sealed { class, ..seal(message) });
        }
    }

    /// The class of a message on the native data plane, as the van decides it (`van/native`). A
    /// value of the simulation stands for several.
    fn class_of(&self, world: &World<'_, A::Ledger>, message: &Message) -> i32 {
        let meta = &message.meta;
        if self.options.forgets_classes {
            return 0;
        }
        if let (Some(hop), Some(span)) = (meta.hop(), meta.span()) {
            let from = span.start.saturating_mul(world.network.weight());
            return place_in_round(hop.key, from, self.options.servers);
        }
        if meta.overtakes { i32::MAX } else { 0 }
    }

    /// Sends over the stock wire what is no step of anything, or was sent before.
    pub(super) fn post(&mut self, world: &mut World<'_, A::Ledger>, to: NodeId, message: &Message) {
        if self.doomed {
            return;
        }
        let Some(connection) = self.connections.connection(to) else { return };
        world.network.send(world.now, connection, seal(message));
    }
}

fn seal(message: &Message) -> Sealed {
    let mut meta = Vec::with_capacity(64);
    encode_meta(&message.meta, &mut meta);
    Sealed { meta, data: message.data.clone(), overtakes: message.meta.overtakes, class: 0 }
}
