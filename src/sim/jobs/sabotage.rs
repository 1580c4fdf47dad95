//! Mistakes planted on purpose, for the tests of the oracle: each breaks one rule of
//! docs/elastic.md, and must be caught. None is in the code that it breaks: messages and words are
//! altered on their way in and out of it.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;

use bytes::Bytes;

use pslite_core::cluster::journal::Change;
use pslite_core::kv::flights::{AheadSlice, Brought, Outgoing as Sent};
use pslite_core::store::{Outbound, Outgoing};
use pslite_core::values::{KeyPart, KvPairs};
use pslite_core::wire::balance::{BalanceMessage, BalanceShare};
use pslite_core::wire::elastic::{Claim, Holding, Mark, PartAsk, PartReply, Route};
use pslite_core::wire::transfer::{CommandsEnd, RoundSum, Transfer, WrittenPiece};
use pslite_core::wire::trees::{HopKind, Overlay, PushName, Ticket};
use pslite_core::wire::word::{Policy, RoutedPolicy};
use pslite_core::wire::{Frames, Key, Meta, NodeId, Payload};

mod exchange;
mod placement;
mod plant;
mod sites;
mod stays;

pub use plant::Plant;

use exchange::times;

/// Between two rounds that [`Plant::ReplicaSkipsRound`] skips.
const SKIPPED_EVERY: u64 = 4;

/// What a planted mistake does at one node; nothing, if none is planted.
#[derive(Clone, Debug, Default)]
pub(super) struct Sabotage {
    plant: Option<Plant>,
    /// What comes at the next tick, as if from these servers.
    forged: Vec<(NodeId, Transfer)>,
    /// Sent at the next tick.
    late: Vec<Outgoing>,
    policy: Option<RoutedPolicy>,
    claims: Vec<Claim>,
    routes: BTreeMap<Key, Vec<Route>>,
    brought: BTreeMap<Key, Brought>,
    tickets: BTreeMap<KeyPart, Ticket>,
    values: BTreeMap<KeyPart, Bytes>,
    share: Option<BalanceShare>,
    /// Pushes that came.
    pushes: u64,
    /// Questions that are not answered yet.
    questions: BTreeSet<AskedPart>,
}

/// Who asked, which customer, with which timestamp, about which slice, from which element.
type AskedPart = (NodeId, i32, i32, u32, u64);

impl Sabotage {
    pub(super) fn new(plant: Option<Plant>) -> Self {
        Self { plant, ..Self::default() }
    }

    fn is(&self, plant: Plant) -> bool {
        self.plant == Some(plant)
    }

    // ---- at a worker's customer -----------------------------------------------------------------

    /// True if a second customer has no keys of its own.
    pub(super) fn mixes_keys(&self) -> bool {
        self.is(Plant::CustomersMixed)
    }

    // ---- at a server ----------------------------------------------------------------------------

    /// True if what comes from a server that was declared dead is taken.
    pub(super) fn takes_from_the_dead(&self) -> bool {
        self.is(Plant::TakesFromTheDead)
    }

    /// Who is dead, as the store is told.
    pub(super) fn lost(&self, lost: Vec<NodeId>) -> Vec<NodeId> {
        if self.is(Plant::TakesFromTheDead) { Vec::new() } else { lost }
    }

    /// The policies that a server follows when one comes.
    pub(super) fn followed(&mut self, policy: RoutedPolicy) -> Vec<RoutedPolicy> {
        let before = self.policy.take().filter(|_| self.is(Plant::OldEpochAccepted));
        self.policy = Some(policy.clone());
        std::iter::once(policy).chain(before).collect()
    }

    /// A policy as the store is given it.
    pub(super) fn policy(&self, mut routed: RoutedPolicy) -> RoutedPolicy {
        let Policy { servers, lost, live, .. } = &mut routed.policy;
        if self.is(Plant::DeadAwaited) || self.is(Plant::LeftAwaited) {
            live.clear();
        } else if self.is(Plant::TakesFromTheDead) {
            servers.append(lost);
        }
        routed
    }

    /// What the scheduler is told.
    pub(super) fn claims(&mut self, mut claims: Vec<Claim>) -> Vec<Claim> {
        if self.is(Plant::ReplicaClaimsToOwn) {
            for claim in &mut claims {
                claim.holding = claim.holding.max(Holding::Owner as i32);
            }
        }
        if self.is(Plant::OldClaims) {
            return std::mem::replace(&mut self.claims, claims);
        }
        claims
    }

    /// A request as the store is given it, and whether it comes again as another one.
    pub(super) fn request(&mut self, mut meta: Meta, epoch: u64) -> Vec<Meta> {
        if meta.ask().is_some_and(|ask| ask.asks) {
            self.questions.extend(question(&meta));
        }
        if let Some(ask) = meta.ask_mut() {
            ask.init &= !self.is(Plant::InitCounted);
            ask.life *= u64::from(!self.is(Plant::LivesMixed));
        }
        let newer = meta.ask().is_some_and(|ask| ask.epoch > epoch);
        if self.is(Plant::ParkedRequestLost) && newer {
            return Vec::new();
        }
        if self.is(Plant::DuplicateCounted) && meta.push && meta.timestamp % 16 == 5 {
            // An answer to that nobody awaits.
            let twice = Meta { timestamp: meta.timestamp + (1 << 20), ..meta.clone() };
            return vec![meta, twice];
        }
        vec![meta]
    }

    /// A command as the store is given it.
    pub(super) fn command(&self, meta: Meta) -> Meta {
        Meta { own_keys: meta.own_keys && !self.is(Plant::CommandsMixed), ..meta }
    }

    /// What another server sent, as the store is given it.
    pub(super) fn incoming(
        &self,
        transfer: &Transfer,
        data: &Frames,
        joined: bool,
    ) -> Option<(Transfer, Vec<Bytes>)> {
        let (mut transfer, mut frames) = (transfer.clone(), data.to_vec());
        match (self.plant, &mut transfer) {
            (Some(Plant::MarksNotMoved), Transfer::Move(WrittenPiece { marks, .. }))
            | (Some(Plant::RoundWithoutMarks), Transfer::Round(RoundSum { marks, .. })) => {
                marks.clear();
            }
            (
                Some(Plant::StateNotMoved),
                Transfer::Move(WrittenPiece { state: state @ Some(_), .. }),
            ) => {
                *state = None;
                frames.truncate(2);
            }
            (Some(Plant::ReplicaSkipsRound), Transfer::Round(sum))
                if sum.version % SKIPPED_EVERY == 0 =>
            {
                if let Some(values) = frames.get_mut(1) {
                    *values = vec![0; values.len()].into();
                }
            }
            (Some(Plant::DividedTwice), Transfer::Round(_)) => {
                if let Some(values) = frames.get_mut(1) {
                    *values = times(values, 0.5);
                }
            }
            (
                Some(Plant::JoinerServesEarly),
                Transfer::Command(_) | Transfer::OptimizerCount(_),
            ) if joined => return None,
            _ => {}
        }
        Some((transfer, frames))
    }

    /// What the store says, as it is sent.
    pub(super) fn outgoing(&mut self, mut sent: Outbound) -> Outbound {
        match self.plant {
            Some(Plant::AnswerBeforeReplica) => self.confirm_at_once(&mut sent),
            Some(Plant::ForgottenBeforeSafe) => self.forget_at_once(&sent),
            Some(Plant::MoveShipsOpenRound) => ship_early_pushes(&mut sent),
            Some(plant @ (Plant::AskersApart | Plant::CountedPushedAgain)) => {
                for request in sent.answers.iter_mut().map(|answer| &mut answer.request) {
                    if question(request).is_some_and(|asked| self.questions.remove(&asked)) {
                        mislead(plant, request);
                    }
                }
            }
            _ => {}
        }
        sent
    }

    /// To the replica later, and confirmed now.
    fn confirm_at_once(&mut self, sent: &mut Outbound) {
        let is_copy = |one: &Outgoing| {
            matches!(
                one.transfer,
                Transfer::Round(_) | Transfer::Seed(_) | Transfer::Cut(_) | Transfer::Drop(_)
            )
        };
        let (copies, rest) = take(&mut sent.transfers).into_iter().partition(is_copy);
        sent.transfers = rest;
        let copies: Vec<Outgoing> = copies;
        for Outgoing { to, transfer, .. } in &copies {
            if let &Transfer::Round(RoundSum { piece, version, .. })
            | &Transfer::Seed(WrittenPiece { piece, version, .. }) = transfer
            {
                self.forged.push((*to, Transfer::Confirmed { piece, version }));
            }
        }
        self.late.extend(copies);
    }

    /// As if the new owner had said that the piece is safe.
    fn forget_at_once(&mut self, sent: &Outbound) {
        for Outgoing { to, transfer, .. } in &sent.transfers {
            if let Transfer::Move(written) = transfer {
                self.forged.push((*to, Transfer::Moved(written.piece)));
            }
        }
    }

    /// What the store is to be given besides, as if it had come.
    pub(super) fn forged(&mut self) -> Vec<(NodeId, Transfer)> {
        take(&mut self.forged)
    }

    /// What was held back, at a tick.
    pub(super) fn late(&mut self) -> Vec<Outgoing> {
        take(&mut self.late)
    }

    /// As if the server with the lowest id had said that there are no commands.
    pub(super) fn end_of_commands(&self, servers: &[NodeId]) -> Option<(NodeId, Transfer)> {
        let first = servers.first().filter(|_| self.is(Plant::JoinerServesEarly))?;
        let end = CommandsEnd { until: 0, epoch: u64::MAX, agreed: Vec::new() };
        Some((*first, Transfer::CommandsEnd(end)))
    }

    // ---- at a worker ----------------------------------------------------------------------------

    /// What an answer teaches.
    pub(super) fn taught(&mut self, key: Key, reply: &mut PartReply) {
        if !self.is(Plant::StaleRouteWins) {
            return;
        }
        let known = self.routes.entry(key).or_default();
        for route in &mut reply.routes {
            let before = known.iter().find(|old| old.from <= route.from && route.from < old.to);
            if let Some(old) = before.filter(|old| old.owner != route.owner) {
                route.owner = old.owner;
            } else {
                known.push(*route);
            }
        }
    }

    /// The values of a pull, which came ahead.
    pub(super) fn ahead(&mut self, all: &mut [AheadSlice]) {
        if !self.is(Plant::AheadOfAnEarlier) {
            return;
        }
        for AheadSlice { key, brought, .. } in all {
            if let Some(earlier) = self.brought.insert(*key, brought.clone()) {
                *brought = earlier;
            }
        }
    }

    // ---- batches --------------------------------------------------------------------------------

    /// The life of a worker as sessions see it.
    pub(super) fn life(&self, life: u64) -> u64 {
        life * u64::from(!self.is(Plant::LeaseAwaitsReturned))
    }

    /// True if sessions do not hear of the dead.
    pub(super) fn awaits_the_dead(&self) -> bool {
        self.is(Plant::LeaseAwaitsDead)
    }

    /// What a worker may begin, as it hears it.
    pub(super) fn shares(&mut self, message: &mut BalanceMessage) {
        if !self.is(Plant::ShareKept) || message.shares.is_empty() {
            return;
        }
        let kept = *self.share.get_or_insert(message.shares[0]);
        for share in &mut message.shares {
            (share.start, share.size) = (kept.start, kept.size);
        }
    }

    // ---- along trees ----------------------------------------------------------------------------

    /// An overlay as the store is given it.
    pub(super) fn overlay(&self, overlay: Overlay) -> Overlay {
        let floor = if self.is(Plant::FloorNotHeard) { 0 } else { overlay.floor };
        Overlay { floor, ..overlay }
    }

    /// What came along a tree, as the relay is given it. `number`: the newest overlay that it
    /// knows.
    pub(super) fn hop_in(
        &mut self,
        mut meta: Meta,
        mut kv: KvPairs,
        number: u64,
    ) -> Option<(Meta, KvPairs)> {
        let (Some(span), Some(hop)) = (meta.span(), meta.hop_mut()) else {
            return Some((meta, kv));
        };
        let part = KeyPart { key: hop.key, from: span.start, to: span.end };
        if self.is(Plant::EarlyHopLost) && hop.ticket.overlay > number {
            return None;
        }
        match hop.kind() {
            HopKind::Up if self.is(Plant::RoundsMerged) => {
                // As if it were of the round before.
                let before = self.tickets.insert(part, hop.ticket);
                hop.ticket = before.filter(|_| hop.ticket.round % 4 == 0).unwrap_or(hop.ticket);
            }
            HopKind::Down if self.is(Plant::EarlierValues) && !kv.vals.is_empty() => {
                let before = self.values.insert(part, kv.vals.clone());
                kv.vals = before.filter(|vals| vals.len() == kv.vals.len()).unwrap_or(kv.vals);
            }
            _ => {}
        }
        Some((meta, kv))
    }

    /// What a worker sends, as it is sent: sums go up a tree with a mistake. Whatever a relay
    /// answers itself, as if it had come, goes to `forged`.
    pub(super) fn passed_on(
        &mut self,
        messages: Vec<Sent>,
        me: NodeId,
        forged: &mut Vec<Meta>,
    ) -> Vec<Sent> {
        let mut done = Vec::new();
        for Sent { mut meta, kv } in messages {
            if let Some(hop) = meta.hop_mut().filter(|hop| hop.kind() == HopKind::Up) {
                match self.plant {
                    Some(Plant::NameForgotten) if hop.names.len() > 1 => _ = hop.names.pop(),
                    Some(Plant::NameTwice) => hop.names.extend(hop.names.first().copied()),
                    Some(Plant::SumAgain) => {
                        let again = Ticket { round: hop.ticket.round + 1, ..hop.ticket };
                        let mut twice = meta.clone();
                        twice.hop_mut().into_iter().for_each(|hop| hop.ticket = again);
                        done.push(Sent { meta, kv: kv.clone() });
                        done.push(Sent { meta: twice, kv });
                        continue;
                    }
                    Some(Plant::RelayAnswers) => forged.extend(acknowledge(&meta, me)),
                    _ => {}
                }
            }
            done.push(Sent { meta, kv });
        }
        done
    }

    /// What goes down from an owner: to some, by another tree of the next round than to others.
    pub(super) fn down(&mut self, sent: &mut [(Meta, KvPairs)]) {
        if !self.is(Plant::TreeChanged) {
            return;
        }
        for (meta, _) in sent.iter_mut().skip(1) {
            if let Some(ticket) = meta.answering().and_then(|reply| reply.ticket.as_mut()) {
                ticket.tree ^= 1;
            }
        }
    }

    /// True if the clock of a node goes on while its process stands still.
    pub(super) fn counts_pauses(plant: Option<Plant>) -> bool {
        plant == Some(Plant::PausesCounted)
    }

    // ---- at the scheduler -----------------------------------------------------------------------

    /// True if a record does not reach the journal.
    pub(super) const fn loses(plant: Option<Plant>, change: &Change) -> bool {
        match plant {
            Some(Plant::EpochsNotNoted) => matches!(change, Change::Epoch(_)),
            Some(Plant::OverlaysNotNoted) => matches!(change, Change::Overlay(_)),
            Some(Plant::JoinsNotNoted) => matches!(change, Change::Joined(_)),
            _ => false,
        }
    }
}

/// Pushes that are told to come again count as if they had been in the piece that leaves.
fn ship_early_pushes(sent: &mut Outbound) {
    let again = |request: &&Meta| request.reply().is_some_and(|reply| reply.again);
    let early: Vec<Mark> = sent
        .answers
        .iter()
        .map(|answer| &answer.request)
        .filter(again)
        .filter(|request| request.push)
        .map(|request| Mark {
            worker: request.sender,
            customer: request.customer_id,
            timestamp: request.timestamp,
            life: 0,
        })
        .collect();
    for Outgoing { transfer, .. } in &mut sent.transfers {
        if let Transfer::Move(WrittenPiece { marks, .. }) = transfer {
            marks.retain(|mark| {
                !early.iter().any(|e| (e.worker, e.customer) == (mark.worker, mark.customer))
            });
            marks.extend(&early);
        }
    }
}

/// What a push that only asks is known by, and its answer.
fn question(meta: &Meta) -> Option<AskedPart> {
    let PartReply { slice, from, .. } = meta.answered()?;
    meta.push.then_some((meta.sender, meta.customer_id, meta.timestamp, slice, from))
}

/// The answer to a question, with a mistake.
fn mislead(plant: Plant, request: &mut Meta) {
    // Ids of workers are odd.
    let other = u32::from(request.sender / 2 % 2 == 0);
    let Some(reply) = request.answering() else { return };
    if plant == Plant::CountedPushedAgain {
        reply.again = true;
        return;
    }
    reply.ticket.iter_mut().for_each(|ticket| ticket.tree ^= other);
    let parts = reply.tickets.iter_mut().filter_map(|part| part.ticket.as_mut());
    parts.for_each(|ticket| ticket.tree ^= other);
}

/// The answer to the first push of a sum, as if it had counted.
fn acknowledge(sum: &Meta, me: NodeId) -> Option<Meta> {
    let Payload::Up(ask, hop) = &sum.payload else { return None };
    // The relay's own push is among them; others ignore what is not theirs.
    let name = hop.names.iter().find(|name| name.worker == me)?;
    let &PartAsk { from, to, term, .. } = ask;
    let PushName { slice, life, .. } = *name;
    let reply = PartReply { from, to, term, slice, life, ..PartReply::default() };
    Some(Meta {
        request: false,
        timestamp: name.timestamp,
        sender: me,
        recver: name.worker,
        payload: Payload::Reply(reply),
        ..sum.clone()
    })
}
