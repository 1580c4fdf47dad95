//! What a message is, beyond a request or an answer of stock: exactly one of control, a part of a
//! key that may move, a message along a tree, or one between two servers. Plain data; may touch
//! what `message` may. Who decodes learns it once, and nobody asks again.
//!
//! The bytes have a field for control, a transfer, a part and a tree each, and `request` says
//! whether the part asks or answers. What they hold together and nobody sends is settled here: of
//! control nothing else counts, and of a transfer nothing but that; the rest is left out, as fields
//! of another kind are of words and transfers. A message along a tree says which part it is about,
//! or it is none.

use std::ops::Range;

use super::decode::{DecodeError, elastic};
use super::elastic::{PartAsk, PartReply};
use super::message::{Control, Meta};
use super::transfer::Transfer;
use super::trees::Hop;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Payload {
    /// Nothing but what stock says: a request or an answer of a node that does not follow pieces,
    /// or of a SimpleApp.
    #[default]
    Plain,
    /// A control message.
    Control(Box<Control>),
    /// Extension 102 of a request: of a worker that follows pieces. (A command has it if it must
    /// say in which life of its worker it was sent.)
    Ask(PartAsk),
    /// Extension 102 of an answer to such a request.
    Reply(PartReply),
    /// Extension 105, beside 102 of a request: a sum, to the parent.
    Up(PartAsk, Box<Hop>),
    /// Extension 105, beside 102 of what is no request: to a child.
    Down(PartReply, Box<Hop>),
    /// Extension 103: it is no request of a worker, but goes from server to server.
    Transfer(Box<Transfer>),
}

impl From<Option<PartAsk>> for Payload {
    fn from(ask: Option<PartAsk>) -> Self {
        ask.map_or(Self::Plain, Self::Ask)
    }
}

impl From<Option<PartReply>> for Payload {
    fn from(reply: Option<PartReply>) -> Self {
        reply.map_or(Self::Plain, Self::Reply)
    }
}

impl From<Control> for Payload {
    fn from(control: Control) -> Self {
        Self::Control(Box::new(control))
    }
}

impl Payload {
    /// True if it goes along a tree.
    #[must_use]
    pub const fn is_hop(&self) -> bool {
        matches!(self, Self::Up(..) | Self::Down(..))
    }
}

impl Meta {
    /// The control part of a control message.
    #[must_use]
    pub fn control(&self) -> Option<&Control> {
        if let Payload::Control(control) = &self.payload { Some(control) } else { None }
    }

    /// The same, to change it.
    pub fn control_mut(&mut self) -> Option<&mut Control> {
        if let Payload::Control(control) = &mut self.payload { Some(control) } else { None }
    }

    /// What it asks about a part of a key, alone or as a sum.
    #[must_use]
    pub const fn ask(&self) -> Option<&PartAsk> {
        if let Payload::Ask(ask) | Payload::Up(ask, _) = &self.payload { Some(ask) } else { None }
    }

    /// The same, to change it.
    pub const fn ask_mut(&mut self) -> Option<&mut PartAsk> {
        if let Payload::Ask(ask) | Payload::Up(ask, _) = &mut self.payload {
            Some(ask)
        } else {
            None
        }
    }

    /// What it answers about a part of a key, to one worker or down a tree.
    #[must_use]
    pub const fn reply(&self) -> Option<&PartReply> {
        if let Payload::Reply(reply) | Payload::Down(reply, _) = &self.payload {
            Some(reply)
        } else {
            None
        }
    }

    /// What goes back of it: what was asked becomes what is answered, once. `None`: it is about no
    /// part.
    pub fn answering(&mut self) -> Option<&mut PartReply> {
        self.payload = match std::mem::take(&mut self.payload) {
            Payload::Ask(ask) => Payload::Reply(PartReply::from(&ask)),
            Payload::Up(ask, hop) => Payload::Down(PartReply::from(&ask), hop),
            other => other,
        };
        match &mut self.payload {
            Payload::Reply(reply) | Payload::Down(reply, _) => Some(reply),
            _ => None,
        }
    }

    /// The part that goes back of it, as it is, or, where nothing was said of it yet, as it was
    /// asked about.
    #[must_use]
    pub fn answered(&self) -> Option<PartReply> {
        self.reply().cloned().or_else(|| self.ask().map(PartReply::from))
    }

    /// The elements that it is about, if it says so. What ends at 0 is the whole key.
    #[must_use]
    pub fn span(&self) -> Option<Range<u64>> {
        let ask = self.ask().map(|ask| ask.from..ask.to);
        ask.or_else(|| self.reply().map(|reply| reply.from..reply.to))
    }

    /// What a message along a tree says beside its part.
    #[must_use]
    pub fn hop(&self) -> Option<&Hop> {
        if let Payload::Up(_, hop) | Payload::Down(_, hop) = &self.payload {
            Some(hop)
        } else {
            None
        }
    }

    /// The same, to change it.
    pub fn hop_mut(&mut self) -> Option<&mut Hop> {
        if let Payload::Up(_, hop) | Payload::Down(_, hop) = &mut self.payload {
            Some(hop)
        } else {
            None
        }
    }

    /// What one server says to another.
    #[must_use]
    pub fn transfer(&self) -> Option<&Transfer> {
        if let Payload::Transfer(transfer) = &self.payload { Some(transfer) } else { None }
    }
}

/// What the bytes of a message hold of a payload, together or not.
#[derive(Debug, Default)]
pub(super) struct FlatPayload<'a> {
    pub(super) control: Option<Box<Control>>,
    /// The bytes of what it says of a part.
    pub(super) part: Option<&'a [u8]>,
    pub(super) transfer: Option<Box<Transfer>>,
    pub(super) hop: Option<Box<Hop>>,
}

impl FlatPayload<'_> {
    /// That of a message which is a request, or none.
    pub(super) fn read(self, request: bool) -> Result<Payload, DecodeError> {
        Ok(match self {
            Self { control: Some(control), .. } => Payload::Control(control),
            Self { transfer: Some(transfer), .. } => Payload::Transfer(transfer),
            Self { part: None, hop: None, .. } => Payload::Plain,
            Self { part: None, hop: Some(_), .. } => {
                return Err(DecodeError::Missing("the part that goes along a tree"));
            }
            Self { part: Some(part), hop, .. } => match (hop, request) {
                (None, true) => Payload::Ask(elastic(part)?),
                (None, false) => Payload::Reply(elastic(part)?),
                (Some(hop), true) => Payload::Up(elastic(part)?, hop),
                (Some(hop), false) => Payload::Down(elastic(part)?, hop),
            },
        })
    }
}

#[cfg(test)]
impl Meta {
    /// The same message along a tree: up if it is a request, else down.
    pub(crate) fn along(mut self, hop: Hop) -> Self {
        let hop = Box::new(hop);
        self.payload = if self.request {
            Payload::Up(self.ask().cloned().unwrap_or_default(), hop)
        } else {
            Payload::Down(self.answered().unwrap_or_default(), hop)
        };
        self
    }
}
