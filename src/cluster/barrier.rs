//! Barriers: the scheduler counts who is in and releases all at once (postoffice.cc:142-167,
//! van.cc:191-221). Unlike stock it counts members, not messages, and says which barrier it
//! releases, so that one group's release does not free another's waiters.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::journal::{Change, Entry, Passed, Record};
use super::{Action, Cluster, Failure, FailureKind, Level};
use crate::wire::{
    ALL_GROUP, Command, Control, EMPTY, Message, Meta, Node, NodeId, Role, SCHEDULER, SERVER_GROUP,
    WORKER_GROUP, server_id,
};

/// A customer of this process that waits.
#[derive(Clone, Debug)]
pub(super) struct Ticket {
    pub(super) ticket: u64,
    pub(super) customer_id: i32,
    pub(super) group: i32,
    pub(super) leaving: bool,
    /// Every node enters it by itself, not one of each process.
    pub(super) instance: bool,
    /// The number of the message that entered the barrier.
    pub(super) timestamp: i32,
}

/// Who is in a barrier at the scheduler.
#[derive(Clone, Debug, Default)]
pub(super) struct Entered {
    /// Nodes and their customers, with the number of the message by which each came in.
    pub(super) members: BTreeMap<(NodeId, i32), i32>,
}

/// The domain of the customers that the job was formed with. A customer that came later has a
/// domain of its own, named by its id.
pub(super) const FIRST: i32 = -1;
/// The domain of barriers between start and end where those two have a command of their own: some nodes may be in
/// the exit barrier while others, of which it is not awaited, are in such a one.
const BETWEEN: i32 = -2;

impl Cluster {
    pub(super) fn enter(&mut self, _now: Duration, mut ticket: Ticket, out: &mut Vec<Action>) {
        let number = ticket.ticket;
        match self.check_entry(&ticket) {
            Err(failure) => out.push(Action::BarrierDone { ticket: number, result: Err(failure) }),
            Ok(false) => out.push(Action::BarrierDone { ticket: number, result: Ok(()) }),
            Ok(true) => {
                if ticket.leaving {
                    self.announce_leaving(ticket.customer_id, out);
                }
                ticket.timestamp = self.next_timestamp();
                Self::send(out, SCHEDULER, self.entry(&ticket));
                self.tickets.push(ticket);
            }
        }
    }

    /// The request to be let in.
    fn entry(&self, ticket: &Ticket) -> Message {
        let mut control = Control::new(self.barrier_command(ticket.instance));
        control.barrier_group = ticket.group;
        let meta = Self::meta_of_barrier(ticket.customer_id, ticket.timestamp, true);
        let mut message = Message::control(control);
        message.meta = Meta { control: message.meta.control.take(), ..meta };
        message
    }

    /// Says again where this node waits: the scheduler may not have heard, or be another one.
    pub(super) fn enter_again(&self, out: &mut Vec<Action>) {
        for ticket in &self.tickets {
            Self::send(out, SCHEDULER, self.entry(ticket));
        }
    }

    /// The command of a barrier, as this job's wire has it.
    const fn barrier_command(&self, instance: bool) -> Command {
        if instance && self.config.instance_barriers {
            Command::InstanceBarrier
        } else {
            Command::Barrier
        }
    }

    /// False if the barrier has nobody to wait for.
    fn check_entry(&self, ticket: &Ticket) -> Result<bool, Failure> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let wrong = |text: String| Err(Failure { kind: FailureKind::Config, text });
        if !self.ready {
            return wrong("a barrier needs a started node".to_owned());
        }
        let bit = match self.config.role {
            Role::Worker => WORKER_GROUP,
            Role::Server => SERVER_GROUP,
            Role::Scheduler => SCHEDULER,
        };
        let Some(ids) = self.ids_of(ticket.group).filter(|_| ticket.group <= ALL_GROUP) else {
            return wrong(format!("{} is no group of nodes", ticket.group));
        };
        if ticket.group & bit == 0 {
            return wrong(format!(
                "a {} is not in group {}",
                self.config.role.name(),
                ticket.group
            ));
        }
        let alone = if ticket.instance { 1 } else { self.config.group_size };
        Ok(ids.len() > alone)
    }

    pub(super) fn barrier_message(
        &mut self,
        _now: Duration,
        from: Option<NodeId>,
        message: &Message,
        control: &Control,
        out: &mut Vec<Action>,
    ) {
        let (group, command) = (control.barrier_group, control.command);
        let customer_id = message.meta.customer_id;
        if !message.meta.request {
            if from == Some(SCHEDULER) {
                self.released((group, command), (customer_id, message.meta.head), out);
            }
            return;
        }
        let Some(from) = from.filter(|_| self.is_scheduler() && (1..=ALL_GROUP).contains(&group))
        else {
            return Self::log(
                out,
                Level::Warning,
                format!("dropped a request for a barrier of group {group}"),
            );
        };
        let domain = self.domain_of(from, customer_id, command);
        let timestamp = message.meta.timestamp;
        let came_out = self.passed.get(&(from, customer_id, group));
        let released = self.elastic.policy.released.contains(&from);
        if self.elastic.on && (came_out == Some(&timestamp) || released) {
            return self.let_out(from, (group, command), (customer_id, timestamp), out);
        }
        let entered = self.entered.entry((group, domain)).or_default();
        entered.members.insert((from, customer_id), timestamp);
        if self.is_full(group, domain) {
            self.release(group, domain, customer_id, out);
        }
        if self.elastic.workers {
            // Who is about to leave is waited for nowhere else.
            self.settle_barriers(out);
            self.stop_servers(out);
        }
    }

    fn is_full(&self, group: i32, domain: i32) -> bool {
        let Some(entered) = self.entered.get(&(group, domain)) else { return false };
        if !self.elastic.on || domain != FIRST {
            return entered.members.len() >= self.expected(group, domain);
        }
        let workers_are_in = || {
            if self.elastic.workers {
                return self.workers_missing(group, entered).is_empty();
            }
            let workers = entered.members.keys().filter(|(id, _)| self.is_worker(*id)).count();
            workers >= self.config.num_workers
        };
        let here = |id: NodeId| entered.members.keys().any(|(member, _)| *member == id);
        let servers = self.servers_expected();
        (group & WORKER_GROUP == 0 || workers_are_in())
            && (group & SERVER_GROUP == 0 || servers.into_iter().all(here))
            && (group & SCHEDULER == 0 || self.config.standing_scheduler || here(SCHEDULER))
    }

    /// The servers that a barrier of an elastic job waits for: those of the beginning that are left. Those that
    /// joined wait for the scheduler's word.
    pub(super) fn servers_expected(&self) -> Vec<NodeId> {
        self.live_servers().into_iter().filter(|id| !self.has_joined(*id)).collect()
    }

    /// Scheduler: the job is over, and nobody else tells those that joined.
    fn let_joined_go(&mut self, out: &mut Vec<Action>) {
        let mut joined = self.live_servers();
        joined.retain(|id| self.has_joined(*id));
        for id in joined {
            self.let_go(id, out);
        }
    }

    /// True for a server that the job did not begin with.
    pub(super) fn has_joined(&self, id: NodeId) -> bool {
        let is_server = self.node(id).is_some_and(|node| node.role == Role::Server);
        is_server && id >= server_id(self.config.num_servers)
    }

    /// Scheduler: true once all that the job began with have come out of the exit barrier.
    pub(super) const fn job_is_over(&self) -> bool {
        self.releases_of_all >= 2
    }

    /// Scheduler: a server died, or left: barriers do not wait for it any more.
    pub(super) fn settle_barriers(&mut self, out: &mut Vec<Action>) {
        if self.failure.is_some() {
            return;
        }
        let full = |key: &&(i32, i32)| self.is_full(key.0, key.1);
        let all: Vec<(i32, i32)> = self.entered.keys().filter(full).copied().collect();
        for (group, domain) in all {
            let entered = self.entered.get(&(group, domain));
            let customer = entered.and_then(|entered| entered.members.keys().next()).map(|m| m.1);
            self.release(group, domain, customer.unwrap_or(0), out);
        }
    }

    fn domain_of(&self, from: NodeId, customer_id: i32, command: Command) -> i32 {
        let first = self.customers.get(&from).is_none_or(|known| known.contains(&customer_id));
        match (first, command) {
            (false, _) => customer_id,
            (true, Command::Barrier) if self.config.instance_barriers => BETWEEN,
            (true, _) => FIRST,
        }
    }

    /// How many entries free a barrier: one for each customer the job was formed with.
    fn expected(&self, group: i32, domain: i32) -> usize {
        if !is_of_first(domain) {
            let gone = |id: NodeId| self.elastic.workers && self.is_gone(id);
            let worker = |node: &&Node| node.role == Role::Worker && !gone(node.id);
            return self.members.values().filter(worker).count();
        }
        let mut count = 0;
        // Of the nodes of one process only one comes to a barrier that is not of instances.
        let together = if domain == BETWEEN { self.config.group_size } else { 1 };
        if group & WORKER_GROUP != 0 {
            count += self.config.num_workers / together;
        }
        if group & SERVER_GROUP != 0 {
            count += self.config.num_servers / together;
        }
        if group & SCHEDULER != 0 && !self.config.standing_scheduler {
            count += 1;
        }
        count
    }

    fn release(&mut self, group: i32, domain: i32, customer_id: i32, out: &mut Vec<Action>) {
        let entered = self.entered.remove(&(group, domain)).unwrap_or_default();
        let group_of = if is_of_first(domain) { group } else { WORKER_GROUP };
        let all = group == ALL_GROUP && domain == FIRST;
        self.releases_of_all += u32::from(all);
        let command = self.barrier_command(domain == FIRST);
        if self.elastic.on {
            self.note_passed(group, all, &entered, out);
            if all && entered.members.keys().any(|member| self.left.contains(member)) {
                self.let_joined_go(out);
            }
            for ((id, customer), number) in entered.members {
                if self.is_let_out(id) {
                    self.let_out(id, (group, command), (customer, number), out);
                }
            }
            return;
        }
        let mut ids = self.ids_of(group_of).unwrap_or_default();
        if domain == BETWEEN && self.config.group_size > 1 {
            ids.retain(|id| entered.members.keys().any(|(member, _)| member == id));
        }
        for id in ids {
            if self.is_let_out(id) {
                self.let_out(id, (group, command), (customer_id, EMPTY), out);
            }
        }
    }

    /// True for a node that hears of releases.
    fn is_let_out(&self, id: NodeId) -> bool {
        let absent = !self.members.contains_key(&id) || self.lost.contains_key(&id);
        !absent && (id != self.me.id || !self.config.standing_scheduler)
    }

    /// `number`: of the message by which it entered, in an elastic job, where that may be asked and answered twice: the second
    /// answer must not free the next barrier. It travels as `head`, which control messages do not use.
    fn let_out(
        &mut self,
        id: NodeId,
        (group, command): (i32, Command),
        (customer_id, number): (i32, i32),
        out: &mut Vec<Action>,
    ) {
        let mut control = Control::new(command);
        control.barrier_group = group;
        let timestamp = self.next_timestamp();
        let meta = Meta { head: number, ..Self::meta_of_barrier(customer_id, timestamp, false) };
        let mut message = Message::control(control);
        message.meta = Meta { control: message.meta.control.take(), ..meta };
        Self::send(out, id, message);
    }

    /// Whoever asks again after this was let out, and only has not heard of it.
    fn note_passed(&mut self, group: i32, all: bool, entered: &Entered, out: &mut Vec<Action>) {
        let others = entered.members.iter().filter(|((id, _), _)| *id != SCHEDULER);
        let entries: Vec<Entry> = others
            .map(|((node, customer), timestamp)| Entry {
                node: *node,
                customer: *customer,
                group,
                timestamp: *timestamp,
            })
            .collect();
        self.passed.extend(
            entries
                .iter()
                .map(|entry| ((entry.node, entry.customer, entry.group), entry.timestamp)),
        );
        out.push(Action::Record(Record::new(Change::Passed(Passed { entries, all }))));
    }

    /// The scheduler's word that a barrier is passed; `number` as in [`Self::let_out`].
    fn released(
        &mut self,
        (group, command): (i32, Command),
        (customer_id, number): (i32, i32),
        out: &mut Vec<Action>,
    ) {
        let late = |customer: i32| self.late.contains(&customer).then_some(customer);
        let domain = late(customer_id);
        let groups: BTreeSet<i32> = self.tickets.iter().map(|ticket| ticket.group).collect();
        // A stock scheduler sends uninitialised memory as the group: if only one is waited for it
        // must be that one, else all go, as in stock.
        let exact = self.is_scheduler() || self.is_ours(SCHEDULER) || groups.contains(&group);
        let (passed, waiting) = std::mem::take(&mut self.tickets).into_iter().partition(|ticket| {
            self.barrier_command(ticket.instance) == command
                && (!self.elastic.on || number == EMPTY || number == ticket.timestamp)
                && (!exact || (ticket.group == group && late(ticket.customer_id) == domain))
        });
        self.tickets = waiting;
        let passed: Vec<Ticket> = passed;
        for ticket in passed {
            // Past its exit barrier a node tolerates every loss.
            self.finalizing |= ticket.leaving && ticket.customer_id == 0;
            out.push(Action::BarrierDone { ticket: ticket.ticket, result: Ok(()) });
        }
    }

    /// A stock scheduler is gone. It ends by itself when it has freed all from the exit barrier, and then closes its
    /// sockets without waiting for what they still hold (zmq_van.h:54-62): so whoever is in there was freed, and only
    /// has not heard of it. (On stock he waits for ever.) True if this node is, and in no other barrier.
    pub(super) fn freed_unheard(&mut self, text: &str, out: &mut Vec<Action>) -> bool {
        if self.tickets.is_empty() || !self.tickets.iter().all(|ticket| ticket.leaving) {
            return false;
        }
        let text = format!("{text}; this node was about to leave, and does");
        Self::log(out, Level::Warning, text);
        for ticket in std::mem::take(&mut self.tickets) {
            self.finalizing |= ticket.customer_id == 0;
            out.push(Action::BarrierDone { ticket: ticket.ticket, result: Ok(()) });
        }
        true
    }

    /// Scheduler: a barrier that waits for somebody who is gone, or has taken leave, will never be passed
    /// (in stock those who wait hang). Where the
    /// dead may be replaced it waits for the new one, as long as [`Self::check_recovery`] allows:
    /// MXNet's scheduler and servers sit in the exit barrier for the whole job.
    pub(super) fn check_barriers(&mut self, out: &mut Vec<Action>) {
        let mut broken = None;
        for ((group, domain), entered) in &self.entered {
            let missing = self.missing(*group, *domain, entered);
            let missing: Vec<NodeId> =
                missing.into_iter().filter(|id| !self.is_gone(*id)).collect();
            let dead = missing.iter().filter(|id| !self.may_be_replaced(**id));
            let dead = dead.filter_map(|id| self.lost.get(id).map(|lost| (*id, lost.1.clone())));
            let waits = |id: &&NodeId| !self.elastic.workers || !self.is_worker(**id);
            // Of the nodes of a process any may come.
            let each = *domain != BETWEEN || self.config.group_size == 1;
            let gone = missing.iter().filter(|id| each && self.has_left(**id)).filter(waits);
            let gone = gone.map(|id| (*id, format!("{} has left", self.describe(*id))));
            if let Some((id, reason)) = dead.chain(gone).next() {
                broken =
                    Some((id, format!("a barrier of group {group} waits for it, but {reason}")));
            }
        }
        if let Some((id, text)) = broken {
            let failure = Failure { kind: FailureKind::PeerLost, text };
            self.fail_everywhere(id, failure, out);
        }
    }

    /// True if every customer of that node has taken leave and it waits in the exit barrier: it
    /// enters no other one.
    pub(super) fn has_left(&self, id: NodeId) -> bool {
        let is_in = |entered: &Entered| entered.members.keys().any(|(member, _)| *member == id);
        self.entered.get(&(ALL_GROUP, FIRST)).is_some_and(is_in)
            && self
                .customers
                .get(&id)
                .is_some_and(|all| all.iter().all(|customer| self.left.contains(&(id, *customer))))
    }

    fn missing(&self, group: i32, domain: i32, entered: &Entered) -> Vec<NodeId> {
        let group = if is_of_first(domain) { group } else { WORKER_GROUP };
        let mut ids = self.ids_of(group).unwrap_or_default();
        if self.elastic.on && group & SERVER_GROUP != 0 {
            ids.extend(self.servers_expected());
            ids.sort_unstable();
            ids.dedup();
        }
        ids.into_iter()
            .filter(|id| self.members.contains_key(id))
            .filter(|id| !entered.members.keys().any(|(member, _)| member == id))
            .filter(|id| *id != self.me.id || !self.config.standing_scheduler)
            .collect()
    }

    /// Scheduler: says which members barriers wait for.
    pub(super) fn report_barriers(&self, out: &mut Vec<Action>) {
        for ((group, domain), entered) in &self.entered {
            let missing: Vec<String> = self
                .missing(*group, *domain, entered)
                .into_iter()
                // The scheduler and the servers wait in the exit barrier for the whole job.
                .map(|id| self.describe(id))
                .collect();
            let text = format!("a barrier of group {group} waits for {}", missing.join(", "));
            Self::log(out, Level::Verbose, text);
        }
    }
}

/// True unless it is that of a customer that came later.
const fn is_of_first(domain: i32) -> bool {
    domain < 0
}
