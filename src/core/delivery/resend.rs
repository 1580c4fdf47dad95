//! Resending (`PS_RESEND`): every message is kept until its receipt is confirmed, sent again if
//! it is not, and delivered once however often it arrives (resender.h:15-139, without its bugs).
//!
//! Between our own nodes a message is named by its number on its channel; towards stock peers by
//! stock's signature, which we must compute as they do, aliases and all, but which we never trust
//! alone for telling messages apart.
//!
//! Pure: the caller sends what comes out, passes what comes in, and tells the time. One instance
//! per node, all channels.

use super::seen::{SeenNames, SeenNumber, SeenSequences, StockName};
use crate::wire::{Command, Control, EMPTY, Message, Meta, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// From so many unconfirmed messages on, [`Resender::is_full`] asks the caller to wait.
pub const UNCONFIRMED_MESSAGES: usize = 8192;

/// From so many unconfirmed bytes of data on, [`Resender::is_full`] asks the caller to wait.
pub const UNCONFIRMED_BYTES: usize = 256 << 20;

/// Control messages may go past [`UNCONFIRMED_MESSAGES`], up to this; beyond, nothing is kept.
pub const UNCONFIRMED_MESSAGES_HARD: usize = 2 * UNCONFIRMED_MESSAGES;

/// The wait between two attempts doubles up to this multiple of the timeout.
pub const BACKOFF_LIMIT: u32 = 8;

/// A peer that is heard from, but does not confirm a message, gets this multiple of the retries
/// before it is given up: loss of confirmations is not silence.
pub const RETRIES_WHEN_HEARD: u32 = 4;

/// How to resend.
#[derive(Clone, Copy, Debug)]
pub struct ResendConfig {
    /// Wait for a confirmation before the first repetition (`PS_RESEND_TIMEOUT`).
    pub timeout: Duration,
    /// Repetitions before a silent peer is given up (10 in stock).
    pub retries_max: u32,
    /// This node's id, or [`EMPTY`] before it has one.
    pub my_id: NodeId,
    /// The number of the first message on every channel. A node that starts again must begin above
    /// the numbers of its former life (say, the start time in µs), or its first messages look
    /// like repetitions to peers that have not yet heard of the restart. At least 1.
    pub first_sequence: u64,
}

impl Default for ResendConfig {
    fn default() -> Self {
        Self {
            timeout: Duration::from_millis(1000),
            retries_max: 10,
            my_id: EMPTY,
            first_sequence: 1,
        }
    }
}

/// What to do with an incoming message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is new: process it.
    Deliver,
    /// It was delivered before, or must come again: drop it.
    Duplicate,
    /// It was a confirmation: nothing is left to do.
    AckConsumed,
}

/// The outcome of [`Resender::incoming`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// What to do with the message.
    pub verdict: Verdict,
    /// The confirmation to send back, whatever the verdict.
    pub ack: Option<Message>,
}

/// The name of an unconfirmed message on its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MessageName {
    /// To one of ours: the number on the channel.
    Sequence(u64),
    /// To a stock peer: the signature, and a serial number because signatures alias.
    Signature(u64, u64),
}

/// A message whose receipt is not confirmed.
#[derive(Clone, Debug)]
struct Unconfirmed {
    message: Message,
    first_sent: Duration,
    next_try: Duration,
    retries: u32,
}

/// One channel.
#[derive(Clone, Debug, Default)]
struct ResendChannel {
    /// Messages numbered so far; survives [`Resender::forget`], for the peer may be alive.
    numbered: u64,
    unconfirmed: BTreeMap<MessageName, Unconfirmed>,
    unconfirmed_bytes: usize,
    last_heard: Option<Duration>,
    sequences: SeenSequences,
    names: SeenNames,
}

/// The resender of one node.
#[derive(Clone, Debug)]
pub struct Resender {
    config: ResendConfig,
    channels: BTreeMap<NodeId, ResendChannel>,
    /// When to try again, over all channels.
    deadlines: BTreeSet<(Duration, NodeId, MessageName)>,
    untracked: u64,
}

impl Resender {
    /// Nothing sent yet.
    #[must_use]
    pub const fn new(config: ResendConfig) -> Self {
        Self { config, channels: BTreeMap::new(), deadlines: BTreeSet::new(), untracked: 0 }
    }

    /// The scheduler gave this node its id.
    pub const fn set_my_id(&mut self, id: NodeId) {
        self.config.my_id = id;
    }

    /// True if no more data should be sent to that node before it confirms some. Control messages
    /// may still go.
    #[must_use]
    pub fn is_full(&self, to: NodeId) -> bool {
        self.channels.get(&to).is_some_and(|channel| {
            channel.unconfirmed.len() >= UNCONFIRMED_MESSAGES
                || channel.unconfirmed_bytes >= UNCONFIRMED_BYTES
        })
    }

    /// To be called with every message before it is sent for the first time: numbers it and keeps
    /// a copy (the data is shared). False if it is not kept: confirmations, TERMINATE, signs of
    /// life without a notice, messages without a known receiver, everything before this node has
    /// an id (nobody could confirm to it: a registration is repeated by who sends it), and what
    /// comes after [`UNCONFIRMED_MESSAGES_HARD`].
    pub fn outgoing(
        &mut self,
        now: Duration,
        to: NodeId,
        message: &mut Message,
        peer_is_ours: bool,
    ) -> bool {
        message.meta.sequence = 0;
        if to == EMPTY || self.config.my_id == EMPTY || !is_tracked(&message.meta) {
            return false;
        }
        let channel = self.channels.entry(to).or_default();
        if channel.unconfirmed.len() >= UNCONFIRMED_MESSAGES_HARD {
            self.untracked = self.untracked.saturating_add(1);
            return false;
        }
        message.meta.recver = to;
        channel.numbered = channel.numbered.saturating_add(1);
        let number = self.config.first_sequence.max(1).saturating_add(channel.numbered - 1);
        let name = if peer_is_ours {
            message.meta.sequence = number;
            MessageName::Sequence(number)
        } else {
            MessageName::Signature(stock_signature(&message.meta, self.config.my_id), number)
        };
        let next_try = now.saturating_add(self.config.timeout);
        let kept = Unconfirmed { message: message.clone(), first_sent: now, next_try, retries: 0 };
        channel.unconfirmed_bytes += kept.message.data_bytes();
        channel.unconfirmed.insert(name, kept);
        self.deadlines.insert((next_try, to, name));
        true
    }

    /// To be called with every message that arrives.
    pub fn incoming(
        &mut self,
        now: Duration,
        from: NodeId,
        message: &Message,
        peer_is_ours: bool,
    ) -> Incoming {
        let control = message.meta.control();
        match control.map(|control| control.command) {
            Some(Command::Terminate) => return deliver(),
            Some(Command::Ack) => {
                self.confirmed(now, from, control);
                return Incoming { verdict: Verdict::AckConsumed, ack: None };
            }
            _ => {}
        }
        if from == EMPTY {
            return deliver(); // Nobody to confirm to, and nothing to tell repetitions by.
        }
        let my_id = self.config.my_id;
        let channel = self.channels.entry(from).or_default();
        channel.last_heard = Some(now);
        // The message tells how it is named, not what we know of the peer: it may have heard of us
        // before we heard of it.
        let sequence = message.meta.sequence;
        let (seen, confirmation) = if sequence != 0 {
            (channel.sequences.insert(sequence), acknowledge(from, my_id, 0, sequence))
        } else if my_id == EMPTY || (peer_is_ours && !is_tracked(&message.meta)) {
            // The signature holds an id that we do not know yet; or ours does not keep it.
            return deliver();
        } else {
            let signature = signature(&message.meta, from, my_id);
            let name = stock_name(&message.meta, signature);
            (channel.names.insert(name), acknowledge(from, my_id, signature, 0))
        };
        let verdict = if seen == SeenNumber::New { Verdict::Deliver } else { Verdict::Duplicate };
        // Without an id our confirmation would be anonymous: the repetition will get it.
        let ack = (seen != SeenNumber::NoRoom && my_id != EMPTY).then_some(confirmation);
        Incoming { verdict, ack }
    }

    fn confirmed(&mut self, now: Duration, from: NodeId, control: Option<&Control>) {
        let (Some(channel), Some(control)) = (self.channels.get_mut(&from), control) else {
            return;
        };
        channel.last_heard = Some(now);
        let name = if control.ack_sequence != 0 {
            MessageName::Sequence(control.ack_sequence)
        } else {
            // Stock confirms every copy it gets; the oldest message of that signature is meant.
            let first = MessageName::Signature(control.signature, 0);
            let last = MessageName::Signature(control.signature, u64::MAX);
            let Some((name, _)) = channel.unconfirmed.range(first..=last).next() else { return };
            *name
        };
        if let Some(kept) = channel.unconfirmed.remove(&name) {
            channel.unconfirmed_bytes =
                channel.unconfirmed_bytes.saturating_sub(kept.message.data_bytes());
            self.deadlines.remove(&(kept.next_try, from, name));
        }
    }

    /// Puts what is due into `out`, to be sent as it is, and the peers that did not confirm a
    /// message after all its retries into `gave_up`; what was kept for those is dropped.
    pub fn tick(
        &mut self,
        now: Duration,
        out: &mut Vec<(NodeId, Message)>,
        gave_up: &mut Vec<NodeId>,
    ) {
        while let Some(&(due, to, name)) = self.deadlines.first() {
            if due > now {
                return;
            }
            self.deadlines.pop_first();
            let Some(channel) = self.channels.get_mut(&to) else { continue };
            let last_heard = channel.last_heard;
            let Some(kept) = channel.unconfirmed.get_mut(&name) else { continue };
            if is_hopeless(kept, now, last_heard, &self.config) {
                gave_up.push(to);
                self.drop_unconfirmed(to);
                continue;
            }
            kept.retries = kept.retries.saturating_add(1);
            kept.next_try = now.saturating_add(backoff(self.config.timeout, kept.retries));
            self.deadlines.insert((kept.next_try, to, name));
            out.push((to, kept.message.clone()));
        }
    }

    /// When [`Self::tick`] has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(due, _, _)| *due)
    }

    /// A node was lost, or another process took its place: drops what was kept for it and what
    /// was seen from it.
    pub fn forget(&mut self, node: NodeId) {
        self.drop_unconfirmed(node);
        if let Some(channel) = self.channels.get_mut(&node) {
            *channel = ResendChannel { numbered: channel.numbered, ..ResendChannel::default() };
        }
    }

    fn drop_unconfirmed(&mut self, node: NodeId) {
        let Some(channel) = self.channels.get_mut(&node) else { return };
        for (name, kept) in std::mem::take(&mut channel.unconfirmed) {
            self.deadlines.remove(&(kept.next_try, node, name));
        }
        channel.unconfirmed_bytes = 0;
    }

    /// How many messages are not confirmed, over all channels.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.deadlines.len()
    }

    /// How many messages to that node are not confirmed.
    #[must_use]
    pub fn pending_to(&self, node: NodeId) -> usize {
        self.channels.get(&node).map_or(0, |channel| channel.unconfirmed.len())
    }

    /// Messages that were not kept because a channel had [`UNCONFIRMED_MESSAGES_HARD`].
    #[must_use]
    pub const fn untracked(&self) -> u64 {
        self.untracked
    }

    /// Entries kept for telling repetitions, over all channels.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.channels.values().map(|channel| channel.sequences.runs() + channel.names.len()).sum()
    }
}

/// Deliver, confirm nothing.
const fn deliver() -> Incoming {
    Incoming { verdict: Verdict::Deliver, ack: None }
}

/// Stock does not keep confirmations and TERMINATE; a bare sign of life is repeated by nature.
fn is_tracked(meta: &Meta) -> bool {
    let Some(control) = meta.control() else { return true };
    match control.command {
        Command::Ack | Command::Terminate => false,
        Command::Heartbeat => control.notice.is_some(),
        Command::AddNode | Command::Barrier | Command::InstanceBarrier => true,
    }
}

/// True if a message has had all its retries: the usual number while the peer has been silent for
/// as long as those take, a multiple if it was heard from.
fn is_hopeless(
    kept: &Unconfirmed,
    now: Duration,
    last_heard: Option<Duration>,
    config: &ResendConfig,
) -> bool {
    if kept.retries < config.retries_max {
        return false;
    }
    let sign = last_heard.map_or(kept.first_sent, |heard| heard.max(kept.first_sent));
    let silent = now.saturating_sub(sign) >= all_retries(config);
    silent || kept.retries >= config.retries_max.saturating_mul(RETRIES_WHEN_HEARD)
}

/// How long all retries of a silent peer take, the last wait included.
fn all_retries(config: &ResendConfig) -> Duration {
    let doubling = BACKOFF_LIMIT.ilog2().min(config.retries_max);
    let capped = config.retries_max - doubling + 1;
    let before = (1_u32 << doubling) - 1;
    let units = before.saturating_add(capped.saturating_mul(1 << doubling));
    config.timeout.saturating_mul(units)
}

/// The wait after that many repetitions.
fn backoff(timeout: Duration, retries: u32) -> Duration {
    let factor = 1_u32.checked_shl(retries).unwrap_or(BACKOFF_LIMIT).min(BACKOFF_LIMIT);
    timeout.saturating_mul(factor)
}

/// The confirmation of one message (resender.h:63-69).
fn acknowledge(to: NodeId, my_id: NodeId, signature: u64, sequence: u64) -> Message {
    let control = Control { signature, ack_sequence: sequence, ..Control::new(Command::Ack) };
    let mut ack = Message::control(control);
    ack.meta.recver = to;
    ack.meta.sender = my_id;
    ack
}

/// What tells this message of a stock peer from its others.
fn stock_name(meta: &Meta, signature: u64) -> StockName {
    let command = meta.control().map_or(0, |control| control.command as u32);
    let flags = [meta.push, meta.pull, meta.simple_app];
    let kind = flags.iter().fold(command, |kind, flag| kind << 1 | u32::from(*flag));
    StockName { signature, customer_id: meta.customer_id, kind }
}

/// Stock's name of a message that we send (resender.h:95, `GetKey`).
///
/// Made here and not in `wire`: it is a number that stock computes from its structures, sender and
/// receiver included, which are in no bytes of the metadata. What travels is the result alone
/// (`Control::signature`), and what it is good for is the resender's business.
fn stock_signature(meta: &Meta, my_id: NodeId) -> u64 {
    let sender = if meta.sender == EMPTY { my_id } else { meta.sender };
    signature(meta, sender, meta.recver)
}

/// Ids are cut to 8 bits, the application to 16, and `timestamp << 1` is an `int` that is then
/// sign-extended over all of them: exactly as stock computes it.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as stock does")]
fn signature(meta: &Meta, sender: NodeId, recver: NodeId) -> u64 {
    u64::from(meta.app_id as u16) << 48
        | u64::from(sender as u8) << 40
        | u64::from(recver as u8) << 32
        | i64::from(meta.timestamp.wrapping_shl(1)) as u64
        | u64::from(meta.request)
}

#[cfg(test)]
#[path = "resend_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "resend_simulation.rs"]
mod simulation;
