//! Barriers: the scheduler counts who is in and releases all at once (postoffice.cc:142-167,
//! van.cc:191-221). Unlike stock it counts members, not messages, and says which barrier it
//! releases, so that one group's release does not free another's waiters.
//!
//! Here is the side of those who wait; `count` is the scheduler's, `open` what others may ask of
//! it, and `entered` what both remember.

mod count;
mod entered;
mod open;

pub(super) use entered::{BarrierTicket, BarrierWord, Entered, Meetings};
pub use open::{BarrierPlace, OpenBarrier};

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Action, Cluster, JobFailure, JobFailureKind};
use crate::chronicle::{JobEventKind, NewEvent};
use crate::wire::{
    ALL_GROUP, Command, Control, EMPTY, Message, Meta, NodeId, Role, SCHEDULER, SERVER_GROUP,
    WORKER_GROUP,
};

/// The domain of the customers that the job was formed with. A customer that came later has a
/// domain of its own, named by its id.
pub(super) const FIRST_DOMAIN: i32 = -1;
/// The domain of barriers between start and end where those two have a command of their own: some
/// nodes may be in the exit barrier while others, of which it is not awaited, are in such a one.
const BETWEEN: i32 = -2;

impl Cluster {
    pub(super) fn enter(
        &mut self,
        _now: Duration,
        mut ticket: BarrierTicket,
        out: &mut Vec<Action>,
    ) {
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
                self.meetings.tickets.push(ticket);
            }
        }
    }

    /// The request to be let in.
    fn entry(&self, ticket: &BarrierTicket) -> Message {
        let mut control = Control::new(self.barrier_command(ticket.instance));
        control.barrier_group = ticket.group;
        let meta = Self::meta_of_barrier(ticket.customer_id, ticket.timestamp, true);
        let mut message = Message::control(control);
        message.meta = Meta { payload: std::mem::take(&mut message.meta.payload), ..meta };
        message
    }

    /// Says again where this node waits: the scheduler may not have heard, or be another one.
    pub(super) fn enter_again(&self, out: &mut Vec<Action>) {
        for ticket in &self.meetings.tickets {
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
    fn check_entry(&self, ticket: &BarrierTicket) -> Result<bool, JobFailure> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let wrong = |text: String| Err(JobFailure { kind: JobFailureKind::Config, text });
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
        now: Duration,
        from: Option<NodeId>,
        message: &Message,
        control: &Control,
        out: &mut Vec<Action>,
    ) {
        let (group, command) = (control.barrier_group, control.command);
        let customer_id = message.meta.customer_id;
        if !message.meta.request {
            if from == Some(SCHEDULER) {
                let number = message.meta.head;
                self.released(BarrierWord { group, command, customer_id, number }, out);
            }
            return;
        }
        match from.filter(|_| self.is_scheduler() && (1..=ALL_GROUP).contains(&group)) {
            Some(from) => {
                let number = message.meta.timestamp;
                let word = BarrierWord { group, command, customer_id, number };
                self.let_in_to(now, from, word, out);
            }
            None => {
                let text = format!("dropped a request for a barrier of group {group}");
                Self::say(out, NewEvent::warning(JobEventKind::Note, text));
            }
        }
    }

    /// The scheduler's word that a barrier is passed.
    fn released(&mut self, word: BarrierWord, out: &mut Vec<Action>) {
        let BarrierWord { group, command, customer_id, number } = word;
        let late = |customer: i32| self.meetings.late.contains(&customer).then_some(customer);
        let domain = late(customer_id);
        let groups: BTreeSet<i32> =
            self.meetings.tickets.iter().map(|ticket| ticket.group).collect();
        // A stock scheduler sends uninitialised memory as the group: if only one is waited for it
        // must be that one, else all go, as in stock.
        let exact = self.is_scheduler() || self.is_ours(SCHEDULER) || groups.contains(&group);
        let (passed, waiting) =
            std::mem::take(&mut self.meetings.tickets).into_iter().partition(|ticket| {
                self.barrier_command(ticket.instance) == command
                    && (!self.elastic.on || number == EMPTY || number == ticket.timestamp)
                    && (!exact || (ticket.group == group && late(ticket.customer_id) == domain))
            });
        self.meetings.tickets = waiting;
        let passed: Vec<BarrierTicket> = passed;
        for ticket in passed {
            // Past its exit barrier a node tolerates every loss.
            self.finalizing |= ticket.leaving && ticket.customer_id == 0;
            out.push(Action::BarrierDone { ticket: ticket.ticket, result: Ok(()) });
        }
    }

    /// A stock scheduler is gone. It ends by itself when it has freed all from the exit barrier,
    /// and then closes its sockets without waiting for what they still hold (zmq_van.h:54-62): so
    /// whoever is in there was freed, and only has not heard of it. (On stock he waits for ever.)
    /// True if this node is, and in no other barrier.
    pub(super) fn freed_unheard(&mut self, text: &str, out: &mut Vec<Action>) -> bool {
        if self.meetings.tickets.is_empty()
            || !self.meetings.tickets.iter().all(|ticket| ticket.leaving)
        {
            return false;
        }
        let text = format!("{text}; this node was about to leave, and does");
        Self::say(out, NewEvent::warning(JobEventKind::Phase, text));
        for ticket in std::mem::take(&mut self.meetings.tickets) {
            self.finalizing |= ticket.customer_id == 0;
            out.push(Action::BarrierDone { ticket: ticket.ticket, result: Ok(()) });
        }
        true
    }
}

/// True unless it is that of a customer that came later.
const fn is_of_first(domain: i32) -> bool {
    domain < 0
}
