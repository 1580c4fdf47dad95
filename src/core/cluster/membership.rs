//! [`Cluster`]: the state of a node's membership, and what each event leads to. What follows from
//! it is in the files beside this one, a question each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::alike::Alike;
use super::barrier::{BarrierTicket, Meetings};
use super::elastic::Elastic;
use super::guests::Guests;
use super::reach::Reach;
use super::refusals::Refusals;
use super::registrant::Registrant;
use super::signs::Signs;
use super::types::{Action, ClusterConfig, Event, JobFailure, JobFailureKind};
use crate::chronicle::{JobEventKind, NewEvent};
use crate::wire::{
    ALL_GROUP, Command, Control, EMPTY, Message, Meta, Node, NodeId, Notice, NoticeKind, Role,
    SCHEDULER, SERVER_GROUP, WORKER_GROUP, ability, worker_id,
};

/// Who comes, and what a job that is not complete waits for.
#[derive(Debug)]
pub(super) struct Arrivals {
    pub(super) started: Duration,
    /// Scheduler: who has registered so far, by the key of its pending channel.
    pub(super) registrants: BTreeMap<NodeId, Registrant>,
    /// The key of the next pending channel.
    pub(super) next_pending: NodeId,
    /// Scheduler: newcomers that wait for somebody to be declared dead.
    pub(super) waiting: Vec<Node>,
    /// The scheduler has said something: it is one, and one of ours.
    pub(super) scheduler_seen: bool,
    /// Something listens at the scheduler's address.
    pub(super) scheduler_reached: bool,
    /// Scheduler: what those who have registered must have alike.
    pub(super) alike: Alike,
    /// Scheduler: who reaches whom of them.
    pub(super) reach: Reach,
    /// Scheduler: who was refused before the job was complete, and the end of a job that cannot
    /// begin.
    pub(super) refusals: Refusals,
    pub(super) next_report: Duration,
    /// What the scheduler said last of who is missing.
    pub(super) progress: String,
}

/// One node's view of the job.
#[derive(Debug)]
pub struct Cluster {
    pub(super) config: ClusterConfig,
    pub(super) me: Node,
    pub(super) ready: bool,
    pub(super) finalizing: bool,
    pub(super) failure: Option<JobFailure>,
    pub(super) timestamp: i32,
    pub(super) arrivals: Arrivals,
    /// Everybody in the job by id, me and the scheduler included; empty before it is complete.
    pub(super) members: BTreeMap<NodeId, Node>,
    /// Second ids of processes with several customers, to their first id (van.cc:70).
    pub(super) aliases: BTreeMap<NodeId, NodeId>,
    /// Scheduler: the customers that each process had when the job was formed.
    pub(super) customers: BTreeMap<NodeId, BTreeSet<i32>>,
    pub(super) signs: Signs,
    /// The dead, with the reason and the time of death.
    pub(super) lost: BTreeMap<NodeId, (Duration, String)>,
    /// Customers that announced that they send no more.
    pub(super) left: BTreeSet<(NodeId, i32)>,
    pub(super) meetings: Meetings,
    pub(super) elastic: Elastic,
    /// Scheduler: channels to those who have no place here.
    pub(super) guests: Guests,
}

impl Cluster {
    /// A node that has not registered yet.
    #[must_use]
    pub fn new(config: ClusterConfig, now: Duration) -> Self {
        let mut me = config.node.clone();
        if me.is_ours() && me.role != Role::Scheduler && config.heartbeat_interval.is_some() {
            me.abilities |= ability::SIGNS_OF_LIFE;
        }
        let next_report = now.saturating_add(config.report_interval);
        let mut alike = Alike::default();
        if config.role == Role::Scheduler {
            let by = format!("the scheduler ({})", me.address());
            alike.take(config.role, config.trees, &config.settings, &by);
        }
        let arrivals = Arrivals {
            started: now,
            registrants: BTreeMap::new(),
            next_pending: -1,
            waiting: Vec::new(),
            scheduler_seen: false,
            scheduler_reached: false,
            alike,
            reach: Reach::default(),
            refusals: Refusals::default(),
            next_report,
            progress: String::new(),
        };
        Self {
            me,
            ready: false,
            finalizing: false,
            failure: None,
            timestamp: 0,
            arrivals,
            members: BTreeMap::new(),
            aliases: BTreeMap::new(),
            customers: BTreeMap::new(),
            signs: Signs::default(),
            lost: BTreeMap::new(),
            left: BTreeSet::new(),
            meetings: Meetings::default(),
            elastic: Elastic::default(),
            guests: Guests::default(),
            config,
        }
    }

    /// Takes one event in; what is to be done goes to `out`, in order.
    pub fn handle(&mut self, now: Duration, event: Event, out: &mut Vec<Action>) {
        self.take(now, event, out);
        self.look();
    }

    fn take(&mut self, now: Duration, event: Event, out: &mut Vec<Action>) {
        match event {
            Event::Start => {
                self.go_on_with_job(now, out);
                self.form_if_complete(now, out);
            }
            Event::Register { customer_id } => self.register(now, customer_id, out),
            Event::Received { from, message } => self.received(now, from, &message, out),
            Event::EnterBarrier { ticket, customer_id, group, leaving, instance } => {
                let timestamp = 0;
                let ticket =
                    BarrierTicket { ticket, customer_id, group, leaving, instance, timestamp };
                self.enter(now, ticket, out);
            }
            Event::Leaving { customer_id } => self.announce_leaving(customer_id, out),
            Event::OtherWire { node, its, ours } => {
                self.other_wire(now, &node, its, ours, out);
            }
            Event::CannotGoOn(text) => {
                let (kind, me) = (JobFailureKind::Remote, self.me.id);
                self.fail_everywhere(me, JobFailure { kind, text }, out);
            }
            Event::Claims(word) => self.claim(word, out),
            Event::Orders(orders) => self.order(now, &orders, out),
            Event::Copies(copies) => self.place_copies(now, copies, out),
            Event::Overlay { over, .. } if over != self.elastic.overlay.number => {}
            Event::Overlay { trees, lossy, .. } => self.plant(trees, lossy, out),
            Event::Drain { id } => {
                if let Err(why) = self.drain(now, id, out) {
                    Self::say(out, NewEvent::warning(JobEventKind::Operator, why).of(id));
                }
            }
            Event::StatusTold { guest, text } => self.answer_operator(guest, Ok(text), out),
            Event::Tell(words) => self.tell(words, out),
            Event::Meet { id } => self.connect_relay(id, out),
            Event::ChannelDown { id: SCHEDULER } if self.scheduler_may_return() => {
                self.scheduler_in_doubt(now);
            }
            // Whoever dies is missed by the scheduler, too. A link that is cut is none.
            Event::ChannelDown { id } | Event::Unreachable { id } if self.is_relay(id) => {}
            Event::ChannelDown { id } if self.guest_left(now, id) => {}
            Event::ChannelDown { id } => {
                self.signs.down.entry(id).or_insert(now);
            }
            Event::ChannelUp { id } => {
                self.signs.down.remove(&id);
                self.arrivals.scheduler_reached |= id == SCHEDULER;
                self.reconnected(now, id, out);
            }
            Event::Unreachable { id } => {
                let reason = "it confirms no message any more".to_owned();
                self.node_lost(now, id, &reason, out);
            }
            Event::Tick => self.tick(now, out),
            Event::StoodStill => self.stood_still(now),
            Event::Finalizing => {
                self.finalizing = true;
                self.end_journal(out);
            }
        }
    }

    fn received(
        &mut self,
        now: Duration,
        from: Option<NodeId>,
        message: &Message,
        out: &mut Vec<Action>,
    ) {
        let Some(control) = message.meta.control() else { return };
        match control.command {
            Command::AddNode => self.add_node(now, from, control, out),
            Command::Barrier | Command::InstanceBarrier => {
                self.barrier_message(now, from, message, control, out);
            }
            Command::Heartbeat => self.heartbeat(now, from, control, out),
            Command::Terminate | Command::Ack => {}
        }
    }

    /// The node has been heard from, in whatever way.
    pub fn heard(&mut self, now: Duration, id: NodeId) {
        if let Some(at) = self.signs.heard.get_mut(&id) {
            *at = now;
        }
    }

    /// True once the scheduler's list is here.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.ready
    }

    /// True while the job is complete, and goes on.
    #[must_use]
    pub const fn goes_on(&self) -> bool {
        self.ready && self.failure.is_none() && !self.finalizing
    }

    /// What this node was told of itself and the job.
    #[must_use]
    pub const fn config(&self) -> &ClusterConfig {
        &self.config
    }

    /// True if this node is the scheduler.
    #[must_use]
    pub fn is_scheduler(&self) -> bool {
        self.config.role == Role::Scheduler
    }

    /// This node as others see it.
    #[must_use]
    pub const fn me(&self) -> &Node {
        &self.me
    }

    /// Everybody in the job, by id.
    #[must_use]
    pub const fn members(&self) -> &BTreeMap<NodeId, Node> {
        &self.members
    }

    /// A member by id.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.members.get(&id)
    }

    /// Why the job is over, if it is.
    #[must_use]
    pub const fn failure(&self) -> Option<&JobFailure> {
        self.failure.as_ref()
    }

    /// True if the member advertises that it is ours.
    #[must_use]
    pub fn is_ours(&self, id: NodeId) -> bool {
        self.members.get(&id).is_some_and(Node::is_ours)
    }

    /// True for a node that needs nobody any more: it has taken leave, or the job is over.
    #[must_use]
    pub fn is_done(&self, id: NodeId) -> bool {
        self.job_is_over() || self.left.iter().any(|(node, _)| *node == id)
    }

    /// The node for people: role, id, address.
    #[must_use]
    pub fn describe(&self, id: NodeId) -> String {
        if let Some(node) = self.members.get(&id) {
            return node.describe();
        }
        if let Some(registrant) = self.arrivals.registrants.get(&id) {
            return registrant.node.describe();
        }
        if id == SCHEDULER { self.config.scheduler.describe() } else { format!("node {id}") }
    }

    /// The ids behind a group or an id: workers, then servers, then the scheduler
    /// (postoffice.cc:44-65). Servers that join, leave or die in an elastic job: see
    /// [`Self::first_servers`].
    #[must_use]
    pub fn ids_of(&self, group: i32) -> Option<Vec<NodeId>> {
        if (1..=7).contains(&group) {
            let mut ids = Vec::new();
            if group & WORKER_GROUP != 0 {
                ids.extend((0..self.config.num_workers).map(worker_id));
            }
            if group & SERVER_GROUP != 0 {
                ids.extend(self.first_servers());
            }
            if group & SCHEDULER != 0 {
                ids.push(SCHEDULER);
            }
            return (!ids.is_empty()).then_some(ids);
        }
        let joined = self.elastic.on && self.members.contains_key(&group);
        let known = joined || self.ids_of(ALL_GROUP)?.contains(&group);
        known.then(|| vec![group])
    }

    /// Members that are silent for that long, or known to be lost (postoffice.cc:196-215).
    #[must_use]
    pub fn dead_nodes(&self, now: Duration, timeout: Duration) -> Vec<NodeId> {
        if !self.ready || timeout.is_zero() {
            return Vec::new();
        }
        let silent = |id: &NodeId| {
            self.signs.heard.get(id).is_some_and(|at| at.saturating_add(timeout) < now)
        };
        let watched = self.members.keys().filter(|id| **id != self.me.id);
        watched.filter(|id| self.lost.contains_key(id) || silent(id)).copied().collect()
    }

    /// When [`Event::Tick`] is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        let down =
            self.signs.down.values().map(|at| at.saturating_add(self.config.channel_down_limit));
        let report = (!self.ready).then_some(self.arrivals.next_report);
        let guests = self.guests.next_deadline();
        let farewell = self.arrivals.refusals.next_deadline();
        down.chain(self.signs.next_heartbeat).chain(report).chain(guests).chain(farewell).min()
    }

    // ---- helpers of all parts -------------------------------------------------------------------

    pub(super) fn next_timestamp(&mut self) -> i32 {
        let timestamp = self.timestamp;
        self.timestamp = self.timestamp.wrapping_add(1) & i32::MAX;
        timestamp
    }

    /// A control message with a timestamp of this van.
    pub(super) fn control(&mut self, control: Control) -> Message {
        let timestamp = self.next_timestamp();
        let mut message = Message::control(control);
        message.meta.timestamp = timestamp;
        message
    }

    pub(super) fn send(out: &mut Vec<Action>, to: NodeId, mut message: Message) {
        message.meta.recver = to;
        out.push(Action::Send { to, message });
    }

    /// Something has happened.
    pub(super) fn say(out: &mut Vec<Action>, event: NewEvent) {
        out.push(Action::Note(event));
    }

    /// A line for whoever wants to see each step.
    pub(super) fn log(out: &mut Vec<Action>, text: impl Into<String>) {
        out.push(Action::Log { text: text.into() });
    }

    /// A word to a node of ours: rides in a heartbeat, which stock peers take for one.
    pub(super) fn notice(&mut self, to: NodeId, notice: Notice, out: &mut Vec<Action>) {
        let mut control = Control::new(Command::Heartbeat);
        control.nodes = vec![self.me.clone()];
        control.notice = Some(notice);
        let message = self.control(control);
        Self::send(out, to, message);
    }

    /// Ends the job at this node; the first reason counts.
    pub(super) fn fail(&mut self, failure: JobFailure, out: &mut Vec<Action>) {
        if self.failure.is_some() {
            return;
        }
        self.failure = Some(failure.clone());
        self.end_journal(out);
        self.over(failure, out);
    }

    /// What waits at this node ends with the job.
    pub(super) fn over(&mut self, failure: JobFailure, out: &mut Vec<Action>) {
        for ticket in std::mem::take(&mut self.meetings.tickets) {
            out.push(Action::BarrierDone { ticket: ticket.ticket, result: Err(failure.clone()) });
        }
        out.push(Action::Failed(failure));
    }

    /// Ends the job everywhere, as far as the others are ours.
    pub(super) fn fail_everywhere(
        &mut self,
        about: NodeId,
        failure: JobFailure,
        out: &mut Vec<Action>,
    ) {
        if self.failure.is_some() {
            return;
        }
        if self.is_scheduler() {
            self.tell_failure(about, &failure, out);
        } else if about != SCHEDULER && self.ready && self.is_ours(SCHEDULER) {
            self.notice(SCHEDULER, of_failure(NoticeKind::NodeLost, about, &failure), out);
        } else if !self.ready && self.arrivals.scheduler_seen {
            self.give_up(&failure.text, out);
        }
        self.fail(failure, out);
    }

    /// Scheduler: tells all of ours that the job is over.
    pub(super) fn tell_failure(
        &mut self,
        about: NodeId,
        failure: &JobFailure,
        out: &mut Vec<Action>,
    ) {
        let members = self.members.values().filter(|node| node.is_ours() && node.id != about);
        let pending =
            self.arrivals.registrants.iter().filter(|(_, r)| r.node.is_ours()).map(|(k, _)| *k);
        let to: Vec<NodeId> =
            members.map(|node| node.id).filter(|id| *id != self.me.id).chain(pending).collect();
        for id in to {
            self.notice(id, of_failure(NoticeKind::JobFailed, about, failure), out);
        }
    }

    pub(super) fn meta_of_barrier(customer_id: i32, timestamp: i32, request: bool) -> Meta {
        Meta { app_id: 0, customer_id, timestamp, request, ..Meta::default() }
    }
}

fn of_failure(kind: NoticeKind, node: NodeId, failure: &JobFailure) -> Notice {
    Notice { kind, node, customer: EMPTY, incarnation: 0, text: failure.text.clone() }
}
