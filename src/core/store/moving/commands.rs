//! Commands of workers, and what servers tell each other of them (docs/elastic.md, "Joining and
//! leaving"). A server that joined hears of none itself. One that did not may hear of one later
//! than the server that sends it a piece. So before each transfer that depends on commands goes
//! what the receiver may not know. May touch what the store may.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use pslite_optimizers::Optimizer;

use super::limits::COMMANDS_MAX;
use super::settings::CommandedSettings;
use super::state::Elastic;
use crate::invariant::{Valid, debug, require};
use crate::store::command::Head;
use crate::store::command::generations::Sent;
use crate::store::command::modes::space_of;
use crate::store::error::StoreError;
use crate::store::outbound::{Outbound, Outgoing, done, refused};
use crate::store::pieces::name::Customer;
use crate::store::state::Store;
use crate::wire::elastic::Mark;
use crate::wire::transfer::{CommandsEnd, OptimizerCount, ToldCommand, Transfer};
use crate::wire::{Key, Meta, NodeId, server_id};

/// When the answer to a command may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Now.
    Now,
    /// When the servers that joined have obeyed too: it comes in an [`Outbound`].
    Later,
}

impl Elastic {
    /// What a command waits for may still come, and nobody was told what this server does not know.
    pub(super) fn validate_commands(&self) -> Valid {
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
            *server != self.me && ended.get(server).is_none_or(|epoch| epoch < sponsored_since)
        };
        *joins
            && match self.servers.first() {
                Some(first) if *first == self.me => asked.iter().any(lacks),
                first => first.is_none_or(lacks),
            }
    }

    /// True if that server joined the job.
    fn joined(&self, server: NodeId) -> bool {
        server >= server_id(self.homes.len())
    }
}

impl Store {
    /// A command of a worker, in a job whose pieces move: obeys it, unless it is stop or the
    /// profiler's, which are its owner's, and sees to it that servers that joined obey it before it
    /// is answered.
    ///
    /// # Errors
    /// It cannot be obeyed; nothing has changed.
    pub fn obey(&mut self, request: &Meta, out: &mut Outbound) -> Result<Due, StoreError> {
        let due = self.obey_now(request, out);
        let elastic = self.elastic.as_ref();
        debug(|| elastic.map_or(Ok(()), |elastic| elastic.validate_commands()));
        due
    }

    fn obey_now(&mut self, request: &Meta, out: &mut Outbound) -> Result<Due, StoreError> {
        if let Some(elastic) = &mut self.elastic
            && elastic.waits_for_commands()
            && elastic.settings.early.len() < COMMANDS_MAX
        {
            elastic.settings.early.push(request.clone());
            return Ok(Due::Later);
        }
        let (head, body) = (Head::from(request.head), &request.body);
        let (space, from) = (space_of(request), Customer::of(request));
        let before = self.elastic.as_ref().map_or(0, |elastic| elastic.settings.stamp);
        if head == Head::Controller {
            let new = self.optimizer_at(space, from, Some(request.timestamp), body)?;
            if let Some(elastic) = &mut self.elastic {
                if new {
                    elastic.settings.note(space, head, body);
                }
                elastic.settings.count(space, from);
            }
        } else {
            self.command(space, head, body)?;
            if let Some(elastic) = &mut self.elastic {
                elastic.settings.note(space, head, body);
            }
        }
        let stamp = self.elastic.as_ref().map_or(0, |elastic| elastic.settings.stamp);
        if stamp == before {
            return Ok(Due::Now);
        }
        let told = self.tell_joined(out);
        match &mut self.elastic {
            Some(elastic)
                if !told.is_empty() && elastic.settings.unanswered.len() < COMMANDS_MAX =>
            {
                elastic.settings.unanswered.push((request.clone(), stamp, told));
                Ok(Due::Later)
            }
            _ => Ok(Due::Now),
        }
    }

    /// Tells servers that joined what they do not know yet. Who was told.
    pub(in crate::store) fn tell_joined(&mut self, out: &mut Outbound) -> BTreeSet<NodeId> {
        let Some(elastic) = &self.elastic else { return BTreeSet::new() };
        let others = elastic.servers.iter().copied().filter(|server| *server != elastic.me);
        let joined: BTreeSet<NodeId> = others.filter(|id| elastic.joined(*id)).collect();
        for server in &joined {
            self.end_of_commands(*server, out);
        }
        joined
    }

    /// Tells a server what it does not know yet, and that there is no more.
    fn end_of_commands(&mut self, server: NodeId, out: &mut Outbound) {
        let Some(elastic) = &mut self.elastic else { return };
        let so_far = self.agreements.told();
        let told = elastic.settings.agreed.insert(server, so_far).unwrap_or(0);
        let (until, epoch) = (elastic.settings.stamp, elastic.epoch);
        let agreed = self.agreements.since(told).to_vec();
        let end = Transfer::CommandsEnd(CommandsEnd { until, epoch, agreed });
        self.send(server, end, Vec::new(), out);
    }

    /// Tells a server what it may not know of the commands of workers.
    pub(super) fn tell(&mut self, server: NodeId, out: &mut Outbound) {
        let Some(elastic) = &mut self.elastic else { return };
        let settings = &mut elastic.settings;
        let stamp = settings.stamp;
        let told = settings.told.insert(server, stamp).unwrap_or(0);
        if told == stamp {
            return;
        }
        let news = settings.since(told, &self.modes).into_iter();
        let send = |(transfer, frames)| Outgoing { to: server, transfer, frames };
        out.transfers.extend(news.map(send));
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
                let optimizer = self.read_optimizer(space, body);
                let generations = &mut self.modes.change(space)?.generations;
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
                self.set_optimizer(space, optimizer)?;
            }
            Head::SyncMode | Head::MultiPrecision | Head::Compression => {
                self.command(space, head, body)?;
            }
            _ => return Err(no_command()),
        }
        if let Some(elastic) = &mut self.elastic {
            elastic.settings.note(space, head, body);
        }
        Ok(())
    }

    /// Another server tells how many optimizers a worker sent it.
    pub(super) fn take_count(&mut self, count: &OptimizerCount) -> Result<(), StoreError> {
        let &OptimizerCount { space, last, count, .. } = count;
        let Mark { worker, customer, timestamp, life } = last;
        let from = Customer { worker, customer, life };
        let sent = Sent { count, last: Some(timestamp) };
        if self.modes.change(space)?.generations.learn(from, sent)
            && let Some(elastic) = &mut self.elastic
        {
            elastic.settings.count(space, from);
        }
        Ok(())
    }

    /// There are no more commands so far.
    pub(super) fn take_commands_end(
        &mut self,
        from: NodeId,
        end: &CommandsEnd,
        out: &mut Outbound,
    ) {
        self.agreements.learn(&end.agreed);
        let Some(elastic) = &mut self.elastic else { return };
        let waited = elastic.waits_for_commands();
        let ended = elastic.settings.ended.entry(from).or_default();
        *ended = end.epoch.max(*ended);
        self.send(from, Transfer::CommandsConfirmed { until: end.until }, Vec::new(), out);
        self.commands_are_here(waited, out);
    }

    /// This server may know now all that workers told the others: it tells those for which it is
    /// the one with the lowest id, and does what waited.
    fn commands_are_here(&mut self, waited: bool, out: &mut Outbound) {
        let Some(elastic) = &mut self.elastic else { return };
        if elastic.waits_for_commands() {
            return;
        }
        let early = std::mem::take(&mut elastic.settings.early);
        if waited && elastic.servers.first() == Some(&elastic.me) {
            self.tell_joined(out);
        }
        for request in early {
            if self.is_former(&request) {
                continue;
            }
            match self.obey_now(&request, out) {
                Ok(Due::Later) => {}
                Ok(Due::Now) => out.answers.push(done(request)),
                Err(error) => out.answers.push(refused(request, &error)),
            }
        }
        self.unpark_all(out);
    }

    /// A server that joined has obeyed all commands up to a change.
    pub(super) fn told(&mut self, from: NodeId, until: u64, out: &mut Outbound) {
        let Some(elastic) = &mut self.elastic else { return };
        for (_, stamp, servers) in &mut elastic.settings.unanswered {
            if *stamp <= until {
                servers.remove(&from);
            }
        }
        self.answer_commands(out);
    }

    fn answer_commands(&mut self, out: &mut Outbound) {
        let Some(elastic) = &mut self.elastic else { return };
        let all = std::mem::take(&mut elastic.settings.unanswered);
        let (due, rest) = all.into_iter().partition(|(.., servers)| servers.is_empty());
        elastic.settings.unanswered = rest;
        let due: Vec<(Meta, u64, BTreeSet<NodeId>)> = due;
        let due = due.into_iter().map(|(request, ..)| request);
        out.answers.extend(due.filter(|request| !elastic.is_former(request)).map(done));
    }

    /// By a new policy this server may have to tell who joined, or be told anew: by the one that
    /// has now the lowest id.
    pub(super) fn policy_for_joiners(&mut self, former: &[NodeId], out: &mut Outbound) {
        let Some(elastic) = &mut self.elastic else { return };
        let servers: BTreeSet<NodeId> = elastic.servers.iter().copied().collect();
        if former.first() != elastic.servers.first() {
            elastic.settings.sponsored_since = elastic.epoch;
            // Those that come by the same policy know no more than the others.
            let known = |id: &NodeId| former.is_empty() || former.contains(id);
            elastic.settings.asked = servers.iter().copied().filter(known).collect();
        }
        elastic.settings.asked.retain(|server| servers.contains(server));
        elastic.settings.told.retain(|server, _| servers.contains(server));
        elastic.settings.agreed.retain(|server, _| servers.contains(server));
        for (.., waits) in &mut elastic.settings.unanswered {
            waits.retain(|server| servers.contains(server));
        }
        self.answer_commands(out);
        // One that has yet to hear of the others tells nobody that there is no more, but for the
        // one that asks all.
        let Some(elastic) = &self.elastic else { return };
        let Some(&first) = elastic.servers.first() else { return };
        if first == elastic.me {
            self.commands_are_here(true, out);
        } else if elastic.joined(first) {
            self.end_of_commands(first, out);
        }
    }

    /// Which optimizer applies the gradients of a key now; 0: none.
    pub(super) fn generation(&self, key: Key) -> u64 {
        self.mode(key).generations.current()
    }

    /// The optimizer of a generation, of the space of that key; `None` if nobody had sent one.
    ///
    /// # Errors
    /// It did not come, or is too old.
    pub(super) fn optimizer_of(
        &self,
        key: Key,
        generation: u64,
    ) -> Result<Option<&Arc<Optimizer>>, StoreError> {
        match self.mode(key).generations.optimizer(generation) {
            None if generation == 0 => Ok(None),
            None => Err(StoreError::Transfer("it names an optimizer that is not here")),
            optimizer => Ok(optimizer),
        }
    }
}
