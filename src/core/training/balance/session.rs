//! The workers that share batches under one name, and what they are answered. Decides who takes
//! part; what they get is decided in `leases` or by the `dealer`. A dead member's place is free, or
//! is kept for the process that replaces it, as the job does ([`Gone`]).

use std::collections::{BTreeMap, BTreeSet};

use super::dealer::{Dealer, Dealing};
use super::leases::{Comer, Moved, SampleLeases};
use super::spec;
use super::status::{rule_name, with_sizes};
use super::{Gone, Outbox, Worker, replaced};
use crate::invariant::Valid;
use crate::text;
use crate::wire::balance::{
    BalanceKind, BalanceMessage, BalanceOpen, BalanceOrdered, BalanceRule, BalanceSkip,
    SessionStatus, WorkerSamples,
};
use crate::wire::{NodeId, id_to_rank, worker_id};

/// Of how many epochs the order is kept, to compare it.
const ORDERS_MAX: usize = 8;

/// A worker that takes part.
#[derive(Clone, Copy, Debug)]
struct SessionMember {
    node: NodeId,
    instance: u64,
    /// The library measures its batches.
    measured: bool,
}

/// Where the batches come from.
#[derive(Clone, Debug)]
enum Work {
    SampleLeases(SampleLeases),
    Dealer(Dealer),
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct CoordinatedSession {
    name: String,
    /// What the first worker opened it with.
    spec: BalanceOpen,
    members: Vec<Option<SessionMember>>,
    work: Work,
    /// A worker has closed it after batches had begun. It takes nobody in any more, unless batches
    /// are dealt.
    is_ending: bool,
    /// The nodes that have closed it. If one of them opens it again, it wants the next session of
    /// that name: it waits until all have closed this one.
    closed: BTreeSet<NodeId>,
    /// For each epoch the first hash of its order that a worker said, and that worker's rank.
    orders: BTreeMap<u64, (u64, usize)>,
    /// Ranks of workers that are gone: batches begin without them.
    excused: BTreeSet<usize>,
    /// What has happened that people should know, until it is said.
    notes: Vec<String>,
}

/// Why a process that was not here before cannot take part.
const ENDING: &str = "a worker has closed it, so nobody may join it any more. Open a session of \
                      another name, or this one again when all its workers have closed it";

impl CoordinatedSession {
    /// As the first worker wants it; it has yet to join.
    pub(super) fn new(name: &str, open: &BalanceOpen) -> Self {
        let work = match spec::rule_of(open) {
            Some(BalanceRule::Dealt) => Work::Dealer(Dealer::new(open)),
            _ => Work::SampleLeases(SampleLeases::new(open)),
        };
        let members = vec![None; open.members as usize];
        Self {
            name: name.to_owned(),
            spec: open.clone(),
            members,
            work,
            is_ending: false,
            closed: BTreeSet::new(),
            excused: BTreeSet::new(),
            orders: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    /// True if nobody takes part, and nobody is to come back.
    pub(super) fn is_empty(&self) -> bool {
        (0..self.members.len()).all(|rank| self.members[rank].is_none() && !self.is_vacant(rank))
    }

    /// True if that place is kept for a process that replaces the former one.
    fn is_vacant(&self, rank: usize) -> bool {
        matches!(&self.work, Work::SampleLeases(leases) if leases.is_vacant(rank))
    }

    /// A worker wants to take part, or says so again.
    ///
    /// # Errors
    /// Why it does not.
    pub(super) fn open(
        &mut self,
        worker: Worker,
        open: &BalanceOpen,
        gone: &BTreeSet<NodeId>,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let from = worker.node;
        self.close_former(from, open, out);
        self.excuse(gone);
        if self.closed.contains(&from) {
            out.push((from, self.waiting(open)));
            return Ok(()); // It asks again every second.
        }
        if let Some(difference) = spec::difference(&self.spec, open, self.has_begun()) {
            return Err(format!("its workers do not agree: {difference}"));
        }
        let rank = open.rank as usize;
        match self.members[rank] {
            Some(old) if (old.node, old.instance) == (from, open.instance) => {
                self.opened(rank, self.first_of(rank), out);
                self.answer(rank, out);
                return Ok(());
            }
            Some(old) => {
                let of = format!("worker {}", id_to_rank(old.node));
                return Err(format!("rank {rank} is taken: it is open at {of}"));
            }
            None if self.is_ending
                && matches!(self.work, Work::SampleLeases(_))
                && !self.is_vacant(rank) =>
            {
                return Err(ENDING.to_owned());
            }
            None => {
                let BalanceOpen { instance, measured, .. } = *open;
                self.members[rank] = Some(SessionMember { node: from, instance, measured });
            }
        }
        self.join(rank, worker, open, out);
        self.begin_if_all_are_here(gone, out);
        Ok(())
    }

    /// A process has each session once. So if it opens one again in which it takes part, it has
    /// closed the former one, and its word got lost.
    fn close_former(&mut self, from: NodeId, open: &BalanceOpen, out: &mut Outbox) {
        let former = |m: &Option<SessionMember>| {
            m.is_some_and(|m| m.node == from && m.instance != open.instance)
        };
        let Some(rank) = self.members.iter().position(former) else { return };
        self.closed_by(rank, from, out);
        if self.is_empty() {
            // Nobody is left to wait for.
            *self = Self::new(&self.name, open);
        }
    }

    /// What has happened since the last call that people should know.
    pub(super) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// A worker has its place: it hears from where on, and the others if more may begin.
    fn join(&mut self, rank: usize, worker: Worker, open: &BalanceOpen, out: &mut Outbox) {
        let replaces = self.is_vacant(rank) && self.has_begun();
        let (first, moved) = match &mut self.work {
            Work::Dealer(dealer) => {
                dealer.joined(open.rank);
                (0, Moved::Nothing)
            }
            Work::SampleLeases(leases) => {
                let Worker { node, life } = worker;
                let (bounds, passes) = (spec::bounds_of(open), open.passes);
                leases.joined(rank, &Comer { node, life, bounds, passes })
            }
        };
        if replaces {
            self.notes.push(replaced::text(&self.name, worker.node, first));
        }
        self.opened(rank, first, out);
        if self.has_begun() && matches!(self.work, Work::SampleLeases(_)) {
            self.answer(rank, out);
        }
        self.moved(moved, out);
    }

    /// Nobody waits for these to open it.
    fn excuse(&mut self, gone: &BTreeSet<NodeId>) {
        let all = 0..self.members.len();
        self.excused = all.filter(|rank| gone.contains(&worker_id(*rank))).collect();
    }

    /// The ranks whose opening is waited for.
    fn missing(&self) -> impl Iterator<Item = usize> + '_ {
        let all = 0..self.members.len();
        all.filter(|rank| self.members[*rank].is_none() && !self.excused.contains(rank))
    }

    /// Batches begin when all workers are here but those that are gone.
    pub(super) fn begin_if_all_are_here(&mut self, gone: &BTreeSet<NodeId>, out: &mut Outbox) {
        if self.has_begun() {
            return;
        }
        self.excuse(gone);
        let waits = self.is_empty() || self.missing().next().is_some();
        let Work::SampleLeases(leases) = &mut self.work else { return };
        if waits {
            return;
        }
        if leases.begin() {
            self.grant_all(out);
        } else {
            self.give_up(&spec::bounds_text(&self.spec), out);
        }
    }

    fn moved(&mut self, moved: Moved, out: &mut Outbox) {
        match moved {
            Moved::Lease => {
                self.drop_late(out);
                self.grant_all(out);
            }
            Moved::Nothing => {}
            Moved::Impossible => self.give_up(&spec::bounds_text(&self.spec), out),
        }
    }

    /// Nobody remembers for ever what a worker owes.
    fn drop_late(&mut self, out: &mut Outbox) {
        let Work::SampleLeases(leases) = &self.work else { return };
        let Some(rank) = leases.too_late() else { return };
        if let Some(member) = self.members[rank] {
            let why = "it is too far behind the others, and they do not wait for a worker that \
                       came back: open the session again";
            out.push((member.node, self.refusal(rank as u32, member.instance, why)));
            self.leave(rank, out);
        }
    }

    /// From which iteration on a worker that is here already takes part.
    fn first_of(&self, rank: usize) -> u64 {
        match &self.work {
            Work::SampleLeases(leases) => leases.computed_by(rank),
            Work::Dealer(_) => 0,
        }
    }

    /// A worker has computed some batches, or asks what it may do.
    ///
    /// # Errors
    /// It does not take part, or cannot have computed them.
    pub(super) fn report(
        &mut self,
        from: NodeId,
        message: &BalanceMessage,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let rank = self.member(from, message)?;
        let (computed, reports) = (message.iteration, &message.reports);
        if let Some(ordered) = message.ordered {
            self.check_order(rank, ordered)?;
        }
        if let Some(skip) = message.skip {
            self.skips(rank, skip, out)?;
        }
        match &mut self.work {
            Work::Dealer(dealer) => {
                let called = dealer.computed(message.rank, computed);
                self.deal_all(&called, out);
                Ok(())
            }
            Work::SampleLeases(leases) => {
                let moved = leases.computed(rank, computed, reports)?;
                if moved == Moved::Nothing && message.asks {
                    self.answer(rank, out);
                }
                self.moved(moved, out);
                Ok(())
            }
        }
    }

    /// A worker does not compute some iterations.
    fn skips(&mut self, rank: usize, skip: BalanceSkip, out: &mut Outbox) -> Result<(), String> {
        let Work::SampleLeases(leases) = &mut self.work else { return Ok(()) };
        match leases.skips(rank, skip)? {
            Moved::Lease => self.grant_all(out),
            Moved::Nothing => {}
            Moved::Impossible => self.give_up(&spec::bounds_text(&self.spec), out),
        }
        Ok(())
    }

    /// The orders that applications give for an epoch are compared by their hashes.
    fn check_order(&mut self, rank: usize, ordered: BalanceOrdered) -> Result<(), String> {
        let BalanceOrdered { epoch, hash } = ordered;
        let (first, other) = *self.orders.entry(epoch).or_insert((hash, rank));
        if self.orders.len() > ORDERS_MAX {
            self.orders.pop_first();
        }
        if first == hash {
            return Ok(());
        }
        Err(format!(
            "its workers do not agree: in epoch {epoch} rank {other} takes samples in an order of \
             its own (`order`) with the hash {first:016x}, rank {rank} with {hash:016x}"
        ))
    }

    /// A worker wants the next batch.
    ///
    /// # Errors
    /// As above.
    pub(super) fn ask(
        &mut self,
        from: NodeId,
        message: &BalanceMessage,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let rank = self.member(from, message)?;
        let Work::Dealer(dealer) = &mut self.work else {
            return Err("its rule is not `dealt`: nothing is dealt".to_owned());
        };
        match dealer.ask(message.rank, message.iteration) {
            Dealing::Later if !dealer.is_waiting(message.rank) => Ok(()),
            Dealing::Later => {
                let text = self.unreported_text();
                out.push((from, BalanceMessage { text, ..self.word(rank, BalanceKind::Wait) }));
                Ok(())
            }
            Dealing::Never => Err(format!("rank {rank} has too many batches that it reported not")),
            Dealing::Batch(dealt) => {
                let message = BalanceMessage {
                    iteration: message.iteration,
                    dealt: Some(dealt),
                    ..self.word(rank, BalanceKind::Deal)
                };
                out.push((from, message));
                Ok(())
            }
        }
    }

    /// A worker takes part no more.
    pub(super) fn close(&mut self, from: NodeId, message: &BalanceMessage, out: &mut Outbox) {
        if let Ok(rank) = self.member(from, message) {
            self.closed_by(rank, from, out);
        }
    }

    fn closed_by(&mut self, rank: usize, node: NodeId, out: &mut Outbox) {
        // Before batches have begun, nobody has missed anything: its place is free again.
        if self.has_begun() {
            self.is_ending = true;
            self.closed.insert(node);
        }
        self.leave(rank, out);
    }

    const fn has_begun(&self) -> bool {
        match &self.work {
            Work::SampleLeases(leases) => leases.has_begun(),
            Work::Dealer(_) => true,
        }
    }

    /// A process is gone, with all that it took part as. Who has its id next is another one.
    pub(super) fn lost(&mut self, node: NodeId, gone: Gone, out: &mut Outbox) {
        self.closed.remove(&node);
        for rank in 0..self.members.len() {
            if self.members[rank].is_none_or(|member| member.node != node) {
                continue;
            }
            match (&mut self.work, gone) {
                (Work::SampleLeases(leases), Gone::IsReplaced) => {
                    leases.vacated(rank);
                    self.members[rank] = None;
                }
                _ => self.leave(rank, out),
            }
        }
    }

    fn leave(&mut self, rank: usize, out: &mut Outbox) {
        self.members[rank] = None;
        if self.is_empty() {
            return;
        }
        match &mut self.work {
            Work::Dealer(dealer) => {
                let called = dealer.left(rank as u32);
                self.deal_all(&called, out);
            }
            Work::SampleLeases(leases) => {
                let moved = leases.left(rank);
                self.moved(moved, out);
            }
        }
    }

    /// Nobody can go on.
    fn give_up(&mut self, why: &str, out: &mut Outbox) {
        for (rank, member) in self.members.iter().enumerate() {
            if let Some(member) = member {
                out.push((member.node, self.refusal(rank as u32, member.instance, why)));
            }
        }
        self.members.fill(None);
        if let Work::SampleLeases(leases) = &mut self.work {
            (0..self.members.len()).for_each(|rank| leases.forget(rank));
        }
    }

    /// The rank of who sent it.
    fn member(&self, from: NodeId, message: &BalanceMessage) -> Result<usize, String> {
        let rank = message.rank as usize;
        let member = self.members.get(rank).copied().flatten();
        let same = member.is_some_and(|m| (m.node, m.instance) == (from, message.instance));
        same.then_some(rank).ok_or_else(|| format!("rank {rank} does not take part any more"))
    }

    // ---- what they are told ---------------------------------------------------------------------

    fn word(&self, rank: usize, kind: BalanceKind) -> BalanceMessage {
        BalanceMessage {
            kind: kind as i32,
            session: self.name.clone(),
            rank: rank as u32,
            instance: self.members[rank].map_or(0, |member| member.instance),
            ..BalanceMessage::default()
        }
    }

    /// To a worker that has closed this session and opens it again.
    fn waiting(&self, open: &BalanceOpen) -> BalanceMessage {
        let present = self.members.iter().enumerate().filter(|(_, member)| member.is_some());
        let present = text::few(present.map(|(rank, _)| rank.to_string()));
        BalanceMessage {
            kind: BalanceKind::Wait as i32,
            session: self.name.clone(),
            rank: open.rank,
            instance: open.instance,
            text: format!("rank {present} to close it"),
            ..BalanceMessage::default()
        }
    }

    fn send(&self, rank: usize, message: BalanceMessage, out: &mut Outbox) {
        if let Some(member) = &self.members[rank] {
            out.push((member.node, message));
        }
    }

    fn opened(&self, rank: usize, first: u64, out: &mut Outbox) {
        let missing = text::few(self.missing().map(|rank| rank.to_string()));
        let word = BalanceMessage {
            iteration: first,
            text: if missing.is_empty() { missing } else { format!("rank {missing} to open it") },
            knows_first: true,
            ..self.word(rank, BalanceKind::Opened)
        };
        self.send(rank, word, out);
    }

    /// What a worker may do now; to one that asks, also whom it waits for.
    fn answer(&self, rank: usize, out: &mut Outbox) {
        let Work::SampleLeases(leases) = &self.work else { return };
        if !leases.has_begun() {
            return self.opened(rank, 0, out);
        }
        let mut grant = self.grant(leases, rank);
        grant.text = self.waited_for(leases);
        if let Some((other, to)) = leases.skipped_to() {
            use std::fmt::Write as _;
            let more = "all workers are to skip alike";
            _ = write!(grant.text, " (rank {other} has skipped to iteration {to}: {more})");
        }
        self.send(rank, grant, out);
    }

    /// Whom the others wait for, and what that one has to do.
    fn waited_for(&self, leases: &SampleLeases) -> String {
        let (vacant, slowest): (Vec<usize>, Vec<usize>) =
            leases.slowest().partition(|rank| leases.is_vacant(*rank));
        let ranks = |ranks: Vec<usize>| text::few(ranks.iter().map(usize::to_string));
        let (_, _, iteration) = leases.state();
        let how = slowest.first().map_or("", |rank| self.how(*rank));
        match (vacant.is_empty(), slowest.is_empty()) {
            (true, _) => format!("rank {} to report iteration {iteration} ({how})", ranks(slowest)),
            (false, true) => format!("a process that replaces rank {}", ranks(vacant)),
            (false, false) => {
                let (vacant, slowest) = (ranks(vacant), ranks(slowest));
                format!(
                    "a process that replaces rank {vacant}, and for rank {slowest} to report \
                     iteration {iteration} ({how})"
                )
            }
        }
    }

    /// By whom a worker's reports come.
    fn how(&self, rank: usize) -> &'static str {
        let measured = self.members[rank].is_some_and(|member| member.measured);
        if measured { "when its gradients are pushed" } else { "by its script" }
    }

    /// Where batches are dealt: whose reports are missing.
    fn unreported_text(&self) -> String {
        let Work::Dealer(dealer) = &self.work else { return String::new() };
        let missing = dealer.unreported().map(|(rank, count)| format!("{rank} ({count})"));
        format!("all is dealt; rank {} to report batches", text::few(missing))
    }

    fn grant(&self, leases: &SampleLeases, rank: usize) -> BalanceMessage {
        let (iteration, shares) = leases.grant(rank);
        BalanceMessage { iteration, shares, ..self.word(rank, BalanceKind::Grant) }
    }

    fn grant_all(&self, out: &mut Outbox) {
        let Work::SampleLeases(leases) = &self.work else { return };
        for rank in 0..self.members.len() {
            if self.members[rank].is_some() {
                self.send(rank, self.grant(leases, rank), out);
            }
        }
    }

    fn deal_all(&mut self, ranks: &[u32], out: &mut Outbox) {
        for rank in ranks {
            let Work::Dealer(dealer) = &mut self.work else { return };
            let number = dealer.given(*rank);
            let Dealing::Batch(dealt) = dealer.ask(*rank, number) else { continue };
            let place = *rank as usize;
            let word = self.word(place, BalanceKind::Deal);
            let word = BalanceMessage { iteration: number, dealt: Some(dealt), ..word };
            self.send(place, word, out);
        }
    }

    /// That a worker does not take part.
    fn refusal(&self, rank: u32, instance: u64, why: &str) -> BalanceMessage {
        refusal(&self.name, rank, instance, why)
    }

    // ---- for people -----------------------------------------------------------------------------

    pub(super) fn status(&self) -> SessionStatus {
        let rule = spec::rule_of(&self.spec).unwrap_or(BalanceRule::Fixed);
        let present = self.members.iter().filter(|member| member.is_some()).count();
        let sizes = match &self.work {
            Work::SampleLeases(leases) => leases.state().0.to_vec(),
            Work::Dealer(_) => vec![self.spec.total; self.members.len()],
        };
        let members = self.members.iter().zip(sizes);
        let samples = members.filter_map(|(member, samples)| {
            Some(WorkerSamples { node: member.as_ref()?.node, samples })
        });
        let status = SessionStatus {
            name: self.name.clone(),
            rule: rule_name(rule).to_owned(),
            members: self.members.len(),
            present,
            samples: samples.collect(),
            ..SessionStatus::default()
        };
        match &self.work {
            Work::SampleLeases(leases) => {
                let (sizes, seconds, iteration) = leases.state();
                with_sizes(status, iteration, sizes, seconds)
            }
            Work::Dealer(dealer) => {
                let (epoch, place) = dealer.state();
                let dealt = place as f64 / self.spec.length.max(1) as f64;
                SessionStatus { epoch, dealt, ..status }
            }
        }
    }

    pub(super) fn validate(&self) -> Valid {
        match &self.work {
            Work::SampleLeases(leases) => leases.validate(),
            Work::Dealer(dealer) => dealer.validate(),
        }
    }
}

/// That a worker does not take part.
pub(super) fn refusal(session: &str, rank: u32, instance: u64, why: &str) -> BalanceMessage {
    BalanceMessage {
        kind: BalanceKind::Refused as i32,
        session: session.to_owned(),
        rank,
        instance,
        text: format!("session {session:?}: {why}"),
        ..BalanceMessage::default()
    }
}
