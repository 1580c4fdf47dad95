//! Commands of workers, and what servers tell each other of them (docs/elastic.md, "Joining and
//! leaving"). A server that joined hears of none itself. One that did not may hear of one later
//! than the server that sends it a piece. So before each transfer that depends on commands goes
//! what the receiver may not know. May touch what a `Mover` may.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::limits::COMMANDS_MAX;
use super::mover::Mover;
use super::settings::CommandedSettings;
use super::state::Elsewhere;
use crate::invariant::{Valid, require};
use crate::store::command::Head;
use crate::store::command::generations::Sent;
use crate::store::command::modes::space_of;
use crate::store::error::StoreError;
use crate::store::outbound::{Outgoing, done, refused};
use crate::store::pieces::name::Customer;
use crate::wire::elastic::Mark;
use crate::wire::transfer::{CommandsEnd, OptimizerCount, ToldCommand, Transfer};
use crate::wire::{Meta, NodeId};

/// When the answer to a command may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Now.
    Now,
    /// When the servers that joined have obeyed too: it comes in an
    /// [`Outbound`](crate::store::Outbound).
    Later,
}

impl Elsewhere {
    /// What a command waits for may still come, and nobody was told what this server does not know.
    pub(in crate::store) fn validate_commands(&self) -> Valid {
        let CommandedSettings { stamp, told, unanswered, early, .. } = &self.settings;
        require(told.values().all(|told| told <= stamp), || {
            format!("others were told up to {told:?}, and there are changes up to {stamp}")
        })?;
        for (request, until, servers) in unanswered {
            let (from, number) = (request.sender, request.timestamp);
            require(!servers.is_empty() && until <= stamp, || {
                format!("command {number} of {from} waits for change {until} at {servers:?}")
            })?;
        }
        require(early.is_empty() || self.waits_for_commands(), || {
            format!("{} commands wait for earlier ones that are here", early.len())
        })
    }

    /// True on a server that joined and has not heard yet what workers told the others: of the one
    /// with the lowest id, and if that is this one, of all others.
    pub(in crate::store) fn waits_for_commands(&self) -> bool {
        let CommandedSettings { joins, sponsored_since, ended, asked, .. } = &self.settings;
        let lacks = |server: &NodeId| {
            *server != self.servers.me
                && ended.get(server).is_none_or(|epoch| epoch < sponsored_since)
        };
        *joins
            && match self.servers.live.first() {
                Some(first) if *first == self.servers.me => asked.iter().any(lacks),
                first => first.is_none_or(lacks),
            }
    }
}

impl Mover<'_> {
    /// See `Store::obey`.
    pub(in crate::store) fn obey(&mut self, request: &Meta) -> Result<Due, StoreError> {
        if !self.held.config.elastic {
            // Nobody joins who would have to be told.
            return self.held.obey(request).map(|_| Due::Now);
        }
        let early = self.known.waits_for_commands();
        if early && self.known.settings.early.len() < COMMANDS_MAX {
            self.known.settings.early.push(request.clone());
            return Ok(Due::Later);
        }
        let before = self.known.settings.stamp;
        let new = self.held.obey(request)?;
        let (head, space) = (Head::from(request.head), space_of(request));
        if new {
            self.known.settings.note(space, head, &request.body);
        }
        if head == Head::Controller {
            self.known.settings.count(space, Customer::of(request));
        }
        let stamp = self.known.settings.stamp;
        if stamp == before {
            return Ok(Due::Now);
        }
        let told = self.tell_joined();
        let unanswered = &mut self.known.settings.unanswered;
        if told.is_empty() || unanswered.len() >= COMMANDS_MAX {
            return Ok(Due::Now);
        }
        unanswered.push((request.clone(), stamp, told));
        Ok(Due::Later)
    }

    /// Tells servers that joined what they do not know yet. Who was told.
    pub(in crate::store) fn tell_joined(&mut self) -> BTreeSet<NodeId> {
        let others = self
            .known
            .servers
            .live
            .iter()
            .copied()
            .filter(|server| *server != self.known.servers.me);
        let joined: BTreeSet<NodeId> = others.filter(|id| self.known.servers.joined(*id)).collect();
        for server in &joined {
            self.end_of_commands(*server);
        }
        joined
    }

    /// Tells a server what it does not know yet, and that there is no more.
    fn end_of_commands(&mut self, server: NodeId) {
        let so_far = self.held.agreements.told();
        let told = self.known.settings.agreed.insert(server, so_far).unwrap_or(0);
        let (until, epoch) = (self.known.settings.stamp, self.known.servers.epoch);
        let agreed = self.held.agreements.since(told).to_vec();
        let end = Transfer::CommandsEnd(CommandsEnd { until, epoch, agreed });
        self.send(server, end, Vec::new());
    }

    /// Tells a server what it may not know of the commands of workers.
    pub(super) fn tell(&mut self, server: NodeId) {
        let settings = &mut self.known.settings;
        let stamp = settings.stamp;
        let told = settings.told.insert(server, stamp).unwrap_or(0);
        if told == stamp {
            return;
        }
        let news = settings.since(told, &self.held.modes).into_iter();
        let send = |(transfer, frames)| Outgoing { to: server, transfer, frames };
        self.out.transfers.extend(news.map(send));
    }

    /// Another server tells what a worker told it.
    pub(super) fn take_command(
        &mut self,
        command: &ToldCommand,
        frames: &[Bytes],
    ) -> Result<(), StoreError> {
        let &ToldCommand { space, head, generation, .. } = command;
        let head = Head::from(head);
        let no_command =
            || StoreError::Transfer("its command is none that servers tell each other");
        let body = frames.first().ok_or_else(no_command)?;
        match head {
            Head::Controller => {
                let optimizer = self.held.read_optimizer(space, body);
                let generations = &mut self.held.modes.change(space)?.generations;
                if generation <= generations.current() {
                    // Who tells it has not heard of the newer one, and will send what it did by
                    // this one.
                    if let Ok(optimizer) = optimizer {
                        generations.keep_former(generation, Arc::new(optimizer));
                    }
                    return Ok(());
                }
                let optimizer = optimizer?;
                generations.advance(generation);
                self.held.set_optimizer(space, optimizer)?;
            }
            Head::SyncMode | Head::MultiPrecision | Head::Compression => {
                self.held.command(space, head, body)?;
            }
            _ => return Err(no_command()),
        }
        self.known.settings.note(space, head, body);
        Ok(())
    }

    /// Another server tells how many optimizers a worker sent it.
    pub(super) fn take_count(&mut self, count: &OptimizerCount) -> Result<(), StoreError> {
        let &OptimizerCount { space, last, count, .. } = count;
        let Mark { worker, customer, timestamp, life } = last;
        let from = Customer { worker, customer, life };
        let sent = Sent { count, last: Some(timestamp) };
        if self.held.modes.change(space)?.generations.learn(from, sent) {
            self.known.settings.count(space, from);
        }
        Ok(())
    }

    /// There are no more commands so far.
    pub(super) fn take_commands_end(&mut self, from: NodeId, end: &CommandsEnd) {
        self.held.agreements.learn(&end.agreed);
        let waited = self.known.waits_for_commands();
        let ended = self.known.settings.ended.entry(from).or_default();
        *ended = end.epoch.max(*ended);
        self.send(from, Transfer::CommandsConfirmed { until: end.until }, Vec::new());
        self.commands_are_here(waited);
    }

    /// This server may know now all that workers told the others: it tells those for which it is
    /// the one with the lowest id, and does what waited. All that is parked is due then.
    fn commands_are_here(&mut self, waited: bool) {
        if self.known.waits_for_commands() {
            return;
        }
        let early = std::mem::take(&mut self.known.settings.early);
        if waited && self.known.servers.live.first() == Some(&self.known.servers.me) {
            self.tell_joined();
        }
        for request in early {
            if self.held.attendance.is_former(&request) {
                continue;
            }
            match self.obey(&request) {
                Ok(Due::Later) => {}
                Ok(Due::Now) => self.out.answers.push(done(request)),
                Err(error) => self.out.answers.push(refused(request, &error)),
            }
        }
        self.known.due.extend(self.known.parked.keys());
    }

    /// A server that joined has obeyed all commands up to a change.
    pub(super) fn told(&mut self, from: NodeId, until: u64) {
        for (_, stamp, servers) in &mut self.known.settings.unanswered {
            if *stamp <= until {
                servers.remove(&from);
            }
        }
        self.answer_commands();
    }

    fn answer_commands(&mut self) {
        let (known, attendance) = (&mut *self.known, &self.held.attendance);
        let all = std::mem::take(&mut known.settings.unanswered);
        let (due, rest) = all.into_iter().partition(|(.., servers)| servers.is_empty());
        known.settings.unanswered = rest;
        let due: Vec<(Meta, u64, BTreeSet<NodeId>)> = due;
        let due = due.into_iter().map(|(request, ..)| request);
        self.out.answers.extend(due.filter(|request| !attendance.is_former(request)).map(done));
    }

    /// By a new policy this server may have to tell who joined, or be told anew: by the one that
    /// has now the lowest id.
    pub(super) fn policy_for_joiners(&mut self, former: &[NodeId]) {
        let servers: BTreeSet<NodeId> = self.known.servers.live.iter().copied().collect();
        if former.first() != self.known.servers.live.first() {
            self.known.settings.sponsored_since = self.known.servers.epoch;
            // Those that come by the same policy know no more than the others.
            let known = |id: &NodeId| former.is_empty() || former.contains(id);
            self.known.settings.asked = servers.iter().copied().filter(known).collect();
        }
        self.known.settings.asked.retain(|server| servers.contains(server));
        self.known.settings.told.retain(|server, _| servers.contains(server));
        self.known.settings.agreed.retain(|server, _| servers.contains(server));
        for (.., waits) in &mut self.known.settings.unanswered {
            waits.retain(|server| servers.contains(server));
        }
        self.answer_commands();
        // One that has yet to hear of the others tells nobody that there is no more, but for the
        // one that asks all.
        let Some(&first) = self.known.servers.live.first() else { return };
        if first == self.known.servers.me {
            self.commands_are_here(true);
        } else if self.known.servers.joined(first) {
            self.end_of_commands(first);
        }
    }
}
