//! The scheduler's side of barriers: who is in, whom they wait for, who is let out. Touches the
//! membership's books alone; a barrier that was passed goes to the journal of an elastic job.

use std::time::Duration;

use super::super::journal::{Change, Entry, Passed, Record};
use super::super::{Action, Cluster, JobFailure, JobFailureKind};
use super::{BETWEEN, BarrierWord, Entered, FIRST_DOMAIN, is_of_first};
use crate::wire::{
    ALL_GROUP, Command, Control, EMPTY, Message, Meta, Node, NodeId, Role, SCHEDULER, SERVER_GROUP,
    WORKER_GROUP, server_id,
};

impl Cluster {
    /// A node asks to be let in to a barrier.
    pub(in crate::cluster) fn let_in_to(
        &mut self,
        now: Duration,
        from: NodeId,
        word: BarrierWord,
        out: &mut Vec<Action>,
    ) {
        let BarrierWord { group, command, customer_id, number } = word;
        let domain = self.domain_of(from, customer_id, command);
        let came_out = self.meetings.passed.get(&(from, customer_id, group));
        let released = self.elastic.policy.released.contains(&from);
        if self.elastic.on && (came_out == Some(&number) || released) {
            return self.let_out(from, word, out);
        }
        let entered = self.meetings.entered.entry((group, domain)).or_default();
        entered.came(now, from);
        entered.members.insert((from, customer_id), number);
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
        let Some(entered) = self.meetings.entered.get(&(group, domain)) else { return false };
        if !self.elastic.on || domain != FIRST_DOMAIN {
            return entered.members.len() >= self.expected(group, domain);
        }
        let workers_are_in = || {
            if self.elastic.workers {
                return self.workers_missing(group, entered).next().is_none();
            }
            if entered.members.len() < self.config.num_workers {
                return false;
            }
            let workers = entered.members.keys().filter(|(id, _)| self.is_worker(*id)).count();
            workers >= self.config.num_workers
        };
        (group & WORKER_GROUP == 0 || workers_are_in())
            && (group & SERVER_GROUP == 0 || self.servers_are_in(entered))
            && (group & SCHEDULER == 0 || self.config.standing_scheduler || entered.has(SCHEDULER))
    }

    /// True if all servers are in that a barrier of an elastic job waits for. Nearly all that come
    /// in leave others to be waited for, so that is looked at first.
    fn servers_are_in(&self, entered: &Entered) -> bool {
        let policy = &self.elastic.policy;
        let away = self.lost.len() + policy.lost.len() + policy.released.len();
        entered.members.len() + away >= self.config.num_servers
            && self.servers_expected().into_iter().all(|id| entered.has(id))
    }

    /// The servers that a barrier of an elastic job waits for: those of the beginning that are
    /// left. Those that joined wait for the scheduler's word.
    pub(in crate::cluster) fn servers_expected(&self) -> Vec<NodeId> {
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
    pub(in crate::cluster) fn has_joined(&self, id: NodeId) -> bool {
        let is_server = self.node(id).is_some_and(|node| node.role == Role::Server);
        is_server && id >= server_id(self.config.num_servers)
    }

    /// Scheduler: true once all that the job began with have come out of the exit barrier.
    #[must_use]
    pub const fn job_is_over(&self) -> bool {
        self.meetings.releases_of_all >= 2
    }

    /// Scheduler: a server died, or left: barriers do not wait for it any more.
    pub(in crate::cluster) fn settle_barriers(&mut self, out: &mut Vec<Action>) {
        if self.failure.is_some() {
            return;
        }
        let full = |key: &&(i32, i32)| self.is_full(key.0, key.1);
        let all: Vec<(i32, i32)> = self.meetings.entered.keys().filter(full).copied().collect();
        for (group, domain) in all {
            let entered = self.meetings.entered.get(&(group, domain));
            let customer = entered.and_then(|entered| entered.members.keys().next()).map(|m| m.1);
            self.release(group, domain, customer.unwrap_or(0), out);
        }
    }

    fn domain_of(&self, from: NodeId, customer_id: i32, command: Command) -> i32 {
        let first = self.customers.get(&from).is_none_or(|known| known.contains(&customer_id));
        match (first, command) {
            (false, _) => customer_id,
            (true, Command::Barrier) if self.config.instance_barriers => BETWEEN,
            (true, _) => FIRST_DOMAIN,
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
        let entered = self.meetings.entered.remove(&(group, domain)).unwrap_or_default();
        let group_of = if is_of_first(domain) { group } else { WORKER_GROUP };
        let all = group == ALL_GROUP && domain == FIRST_DOMAIN && self.begins_or_ends(&entered);
        self.meetings.releases_of_all += u32::from(all);
        let command = self.barrier_command(domain == FIRST_DOMAIN);
        if self.elastic.on {
            self.note_passed(group, all, &entered, out);
            if all && entered.members.keys().any(|member| self.left.contains(member)) {
                self.let_joined_go(out);
            }
            for ((id, customer), number) in entered.members {
                if self.is_let_out(id) {
                    self.let_out(
                        id,
                        BarrierWord { group, command, customer_id: customer, number },
                        out,
                    );
                }
            }
            return;
        }
        let mut ids = self.ids_of(group_of).unwrap_or_default();
        if domain == BETWEEN && self.config.group_size > 1 {
            ids.retain(|id| entered.has(*id));
        }
        for id in ids {
            if self.is_let_out(id) {
                self.let_out(id, BarrierWord { group, command, customer_id, number: EMPTY }, out);
            }
        }
    }

    /// True for the barrier of all nodes with which the job begins, and the one with which it ends.
    /// In that one ours take leave. Those between are the application's. Of stock nodes nobody
    /// knows which one they are in, so each counts.
    fn begins_or_ends(&self, entered: &Entered) -> bool {
        let takes_leave =
            |member: &(NodeId, i32)| self.left.contains(member) || !self.is_ours(member.0);
        self.meetings.releases_of_all == 0 || entered.members.keys().any(takes_leave)
    }

    /// True for a node that hears of releases.
    fn is_let_out(&self, id: NodeId) -> bool {
        let absent = !self.members.contains_key(&id) || self.lost.contains_key(&id);
        !absent && (id != self.me.id || !self.config.standing_scheduler)
    }

    fn let_out(&mut self, id: NodeId, word: BarrierWord, out: &mut Vec<Action>) {
        let BarrierWord { group, command, customer_id, number } = word;
        let mut control = Control::new(command);
        control.barrier_group = group;
        let timestamp = self.next_timestamp();
        let meta = Meta { head: number, ..Self::meta_of_barrier(customer_id, timestamp, false) };
        let mut message = Message::control(control);
        message.meta = Meta { payload: std::mem::take(&mut message.meta.payload), ..meta };
        Self::send(out, id, message);
    }

    /// A connection to that node broke: the word that it is let out of a barrier may have been lost
    /// with it. One that has heard so before does not mind.
    pub(in crate::cluster) fn let_out_again(&mut self, id: NodeId, out: &mut Vec<Action>) {
        let all = (id, i32::MIN, i32::MIN)..=(id, i32::MAX, i32::MAX);
        let passed: Vec<_> =
            self.meetings.passed.range(all).map(|(place, number)| (*place, *number)).collect();
        for ((_, customer_id, group), number) in passed {
            let command = Command::Barrier;
            self.let_out(id, BarrierWord { group, command, customer_id, number }, out);
        }
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
        self.meetings.passed.extend(
            entries
                .iter()
                .map(|entry| ((entry.node, entry.customer, entry.group), entry.timestamp)),
        );
        out.push(Action::Record(Record::new(Change::Passed(Passed { entries, all }))));
    }

    /// Scheduler: a barrier that waits for somebody who is gone, or has taken leave, will never be
    /// passed (in stock those who wait hang). Where the dead may be replaced it waits for the new
    /// one, as long as [`Self::check_recovery`] allows: MXNet's scheduler and servers sit in the
    /// exit barrier for the whole job.
    pub(in crate::cluster) fn check_barriers(&mut self, out: &mut Vec<Action>) {
        let mut broken = None;
        for ((group, domain), entered) in &self.meetings.entered {
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
            let failure = JobFailure { kind: JobFailureKind::PeerLost, text };
            self.fail_everywhere(id, failure, out);
        }
    }

    /// True if every customer of that node has taken leave and it waits in the exit barrier: it
    /// enters no other one.
    pub(in crate::cluster) fn has_left(&self, id: NodeId) -> bool {
        self.meetings.entered.get(&(ALL_GROUP, FIRST_DOMAIN)).is_some_and(|entered| entered.has(id))
            && self
                .customers
                .get(&id)
                .is_some_and(|all| all.iter().all(|customer| self.left.contains(&(id, *customer))))
    }

    pub(super) fn missing(&self, group: i32, domain: i32, entered: &Entered) -> Vec<NodeId> {
        let group = if is_of_first(domain) { group } else { WORKER_GROUP };
        let mut ids = self.ids_of(group).unwrap_or_default();
        if self.elastic.on && group & SERVER_GROUP != 0 {
            ids.extend(self.servers_expected());
            ids.sort_unstable();
            ids.dedup();
        }
        ids.into_iter()
            .filter(|id| self.members.contains_key(id))
            .filter(|id| !entered.has(*id))
            .filter(|id| *id != self.me.id || !self.config.standing_scheduler)
            .collect()
    }
}
