//! One process of a simulated job: the real membership, resender and requests, joined as the van
//! of `node` joins them, with a scripted application on top. What the van's threads do at once is
//! here done one after the other, in the order that the network decides.
//!
//! `membership` applies what the membership decides, `send` brings messages onto their connections,
//! `peers` has those. `gauge` gives what the network shows to what evaluates measurements.
//! `own_clock` is what the van's clock shows.

mod gauge;
mod membership;
mod own_clock;
mod peers;
mod send;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;

pub(super) use self::gauge::Mismeasure;
use self::own_clock::OwnClock;
use self::peers::Peers;
use super::app::{Application, Input, Judge, Output, View};
use super::disk::Disk;
use super::network::{ConnectionId, Network, Process, Sealed};
use super::steps::{Fate, Step, Steps};
use super::telling::Telling;
use super::trace::Trace;
use pslite_core::cluster::{Cluster, ClusterConfig, Event};
use pslite_core::delivery::{ResendConfig, Resender, Verdict};
use pslite_core::measuring::Measuring;
use pslite_core::wire::{Command, EMPTY, Message, NodeId, Role, SCHEDULER, decode_meta};

/// The longest sleep of the thread that keeps time, as in the van.
const TICK: Duration = Duration::from_millis(50);
/// The shortest.
const TICK_MIN: Duration = Duration::from_millis(1);
/// How long a node that has ended waits for the confirmation of what it sent.
const DRAIN: Duration = Duration::from_secs(10);
/// A peer whose channel is down for that long is gone, as everywhere (`PSLITE_PEER_TIMEOUT`).
const GONE_AFTER: Duration = Duration::from_secs(3);

/// What a node works with.
pub(super) struct World<'a, L> {
    pub(super) now: Duration,
    pub(super) network: &'a mut Network,
    pub(super) trace: &'a mut Trace,
    pub(super) ledger: &'a mut L,
    /// What outlives processes.
    pub(super) disk: &'a mut Disk,
    pub(super) steps: &'a mut Steps,
}

/// How a process ended, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It went through its program and left.
    Done,
    /// It ended with this text.
    Failed(String),
    /// It was killed.
    Killed,
    /// It still waits: the job hangs.
    Running,
}

enum State {
    Running,
    /// The application has ended; what it sent is not confirmed yet.
    Draining {
        until: Duration,
        end: End,
    },
    Over(End),
}

/// What chance and the test decide about a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    /// The resender's timeout, if it is on.
    pub(super) resend: Option<Duration>,
    /// The first number on its channels.
    pub(super) first_sequence: u64,
    /// It does not end before what it sent is confirmed.
    pub(super) drain: bool,
    /// Planted: repetitions are delivered.
    pub(super) deliver_repetitions: bool,
    /// Planted: broken channels are not noticed.
    pub(super) ignore_broken_channels: bool,
    /// Planted: what comes of lost nodes is answered, though nothing can be sent there.
    pub(super) answers_the_lost: bool,
    /// Planted: its own pauses count as time in which others are silent.
    pub(super) pauses_count: bool,
    /// Servers that the application counts with.
    pub(super) servers: usize,
    /// Planted: all that it sends has one class.
    pub(super) forgets_classes: bool,
    /// It measures, and tells the scheduler.
    pub(super) measures: bool,
    /// Planted: what it does wrong then.
    pub(super) mismeasures: Option<Mismeasure>,
}

/// One process.
pub(super) struct Node<A> {
    process: Process,
    options: Options,
    /// All times of a node are its own.
    clock: OwnClock,
    cluster: Cluster,
    resender: Option<Resender>,
    /// The stock wire.
    connections: Peers,
    /// The native data plane, to those who have one.
    native: BTreeMap<NodeId, ConnectionId>,
    lost: BTreeMap<NodeId, String>,
    measuring: Option<Measuring>,
    /// Its first report, if it says nothing else.
    first_report: Option<Bytes>,
    app: A,
    inbox: VecDeque<Input>,
    /// What came for the application before the job was known; if true, on the native data plane.
    early: Vec<(Message, bool)>,
    /// What came of lost nodes, which their successors may have sent.
    of_lost: Vec<(Message, bool)>,
    state: State,
    /// Channels that broke while it waits for the last confirmations, and when.
    broken: BTreeMap<NodeId, Duration>,
    next_tick: Duration,
    next_wake: Option<Duration>,
    /// It died at a step: nothing of it happens any more.
    doomed: bool,
}

/// Where the native data plane of a process listens: another process at the same address is not
/// meant.
fn native_address(address: &str, incarnation: u64) -> String {
    format!("{address}#{incarnation}")
}

impl<A: Application> Node<A> {
    /// Binds, connects to the scheduler and registers, as the van does. The membership may know
    /// something already.
    pub(super) fn join(
        process: Process,
        cluster: Cluster,
        config: &ClusterConfig,
        options: Options,
        app: A,
        world: &mut World<'_, A::Ledger>,
    ) -> Self {
        let (me, scheduler) = (config.node.clone(), config.scheduler.clone());
        let resender = options.resend.map(|timeout| {
            Resender::new(ResendConfig {
                timeout,
                retries_max: 50,
                my_id: me.id,
                first_sequence: options.first_sequence,
            })
        });
        let mut node = Self {
            process,
            options,
            clock: OwnClock::new(world.now, options.pauses_count),
            cluster,
            resender,
            connections: Peers::default(),
            native: BTreeMap::new(),
            lost: BTreeMap::new(),
            measuring: None,
            first_report: None,
            app,
            inbox: VecDeque::new(),
            early: Vec::new(),
            of_lost: Vec::new(),
            state: State::Running,
            broken: BTreeMap::new(),
            next_tick: world.now,
            next_wake: None,
            doomed: false,
        };
        world.network.listen(world.now, process, &me.address());
        if me.native_port != 0 {
            let native = native_address(&me.address(), me.incarnation);
            world.network.listen(world.now, process, &native);
        }
        if me.role != Role::Scheduler {
            node.connect(world, &scheduler, None);
        }
        node.event(world, Event::Start);
        node.event(world, Event::Register { customer_id: 0 });
        node
    }

    /// How it ended.
    pub(super) fn end(&self) -> End {
        match &self.state {
            State::Over(end) | State::Draining { end, .. } => end.clone(),
            State::Running => End::Running,
        }
    }

    pub(super) const fn is_over(&self) -> bool {
        matches!(self.state, State::Over(_))
    }

    pub(super) fn kill(&mut self) {
        self.state = State::Over(End::Killed);
    }

    /// True if it died at a step: its process is to be removed.
    pub(super) const fn is_doomed(&self) -> bool {
        self.doomed && !self.is_over()
    }

    /// True if it is known to the others.
    pub(super) const fn is_ready(&self) -> bool {
        self.cluster.is_ready()
    }

    /// The membership, to look at.
    pub(super) const fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The application, to look at.
    pub(super) const fn app(&self) -> &A {
        &self.app
    }

    /// When [`Self::wake`] is due, in the world's time.
    pub(super) fn next_wake(&self) -> Option<Duration> {
        if self.is_over() {
            return None;
        }
        let resend = self.resender.as_ref().and_then(Resender::next_deadline);
        let own =
            [resend, self.next_wake].into_iter().flatten().fold(self.next_tick, Duration::min);
        Some(self.clock.in_world(own))
    }

    /// A message came, over a connection of the native data plane if `kept`.
    pub(super) fn arrived(
        &mut self,
        world: &mut World<'_, A::Ledger>,
        from: Option<NodeId>,
        kept: bool,
        sealed: Sealed,
    ) {
        if self.is_over() {
            return;
        }
        let mut meta = match decode_meta(&sealed.meta) {
            Ok(meta) => meta,
            Err(error) => return world.ledger.fault(format!("unreadable metadata: {error}")),
        };
        meta.sender = from.unwrap_or(EMPTY);
        meta.recver = self.cluster.me().id;
        let command = meta.control().map(|control| control.command);
        if self.is_refused(from, command) {
            return;
        }
        let message = Message { meta, data: sealed.data };
        if command.is_none() && !self.cluster.is_ready() {
            return self.early.push((message, kept));
        }
        let sender = message.meta.sender;
        let is_lost = self.lost.contains_key(&sender) && self.cluster.may_be_replaced(sender);
        if command.is_none() && is_lost && !self.options.answers_the_lost {
            return self.of_lost.push((message, kept));
        }
        self.admit(world, message, kept);
    }

    /// The job may be known now, or who has replaced a lost node: takes what came before that
    /// (`node/van/early`).
    fn end_early(&mut self, world: &mut World<'_, A::Ledger>) {
        if !self.cluster.is_ready() {
            return;
        }
        let (of_lost, come): (Vec<_>, Vec<_>) = std::mem::take(&mut self.of_lost)
            .into_iter()
            .partition(|(message, _)| self.lost.contains_key(&message.meta.sender));
        self.of_lost = of_lost;
        for (mut message, kept) in std::mem::take(&mut self.early).into_iter().chain(come) {
            message.meta.recver = self.cluster.me().id;
            if !self.is_refused(Some(message.meta.sender), None) {
                self.admit(world, message, kept);
            }
        }
    }

    fn admit(&mut self, world: &mut World<'_, A::Ledger>, message: Message, kept: bool) {
        let from = Some(message.meta.sender).filter(|from| *from != EMPTY);
        let command = message.meta.control().map(|control| control.command);
        if !kept && !self.accept(world, from, &message) {
            return;
        }
        if !is_sign_of_life(&message) {
            let me = self.process;
            world.trace.note(world.now, format_args!("p{me}, {}", Telling(&message)));
        }
        let fate = world.steps.fate(self.cluster.me().role, false, &message);
        if fate == Fate::DiesBefore {
            self.doomed = true;
            return;
        }
        match command {
            None => self.tell(world, Input::Message(message)),
            Some(Command::Ack | Command::Terminate) => {}
            Some(_) => self.event(world, Event::Received { from, message }),
        }
        self.doomed |= fate == Fate::DiesAfter;
    }

    /// Anonymous ones may register, strangers may do nothing (as the van's `refuse`).
    fn is_refused(&self, from: Option<NodeId>, command: Option<Command>) -> bool {
        let Some(id) = from else { return command != Some(Command::AddNode) };
        let known = id == SCHEDULER || self.cluster.node(id).is_some();
        self.cluster.is_ready() && !known
    }

    fn accept(
        &mut self,
        world: &mut World<'_, A::Ledger>,
        from: Option<NodeId>,
        message: &Message,
    ) -> bool {
        let (Some(resender), Some(from)) = (&mut self.resender, from) else { return true };
        let ours = message.meta.sequence != 0 || self.cluster.is_ours(from);
        let now = self.clock.read(world.now);
        let outcome = resender.incoming(now, from, message, ours);
        if let Some(ack) = outcome.ack {
            self.post(world, from, &ack);
        }
        match outcome.verdict {
            Verdict::Deliver => true,
            Verdict::Duplicate => self.options.deliver_repetitions,
            Verdict::AckConsumed => false,
        }
    }

    /// A connection came up or went down.
    pub(super) fn channel(
        &mut self,
        world: &mut World<'_, A::Ledger>,
        connection: ConnectionId,
        up: bool,
    ) {
        let Some(id) = self.connections.id(connection) else { return };
        world.trace.line(
            world.now,
            format_args!("p{} channel {id} {}", self.process, if up { "up" } else { "down" }),
        );
        if up {
            self.broken.remove(&id);
        } else if matches!(self.state, State::Draining { .. }) {
            self.broken.entry(id).or_insert(self.clock.read(world.now));
        }
        if up {
            self.event(world, Event::ChannelUp { id });
        } else if !self.options.ignore_broken_channels {
            self.event(world, Event::ChannelDown { id });
        }
    }

    /// Does what time demands.
    pub(super) fn wake(&mut self, world: &mut World<'_, A::Ledger>) {
        if self.is_over() {
            return;
        }
        let now = self.clock.read(world.now);
        if self.clock.stood_still() {
            self.event(world, Event::StoodStill);
        }
        self.resend_due(world);
        if self.next_wake.is_some_and(|at| at <= now) {
            self.next_wake = None;
            self.tell(world, Input::Wake);
        }
        self.tell(world, Input::Tick);
        self.measure(world);
        self.event(world, Event::Tick);
        let deadline = self.cluster.next_deadline().unwrap_or(Duration::MAX);
        self.next_tick = deadline.clamp(now + TICK_MIN, now + TICK);
        self.end_drain(world);
    }

    fn resend_due(&mut self, world: &mut World<'_, A::Ledger>) {
        let Some(resender) = &mut self.resender else { return };
        let (mut again, mut gave_up) = (Vec::new(), Vec::new());
        resender.tick(self.clock.read(world.now), &mut again, &mut gave_up);
        for (to, message) in again {
            self.post(world, to, &message);
        }
        for id in gave_up {
            self.event(world, Event::Unreachable { id });
        }
    }

    // ---- the application -----------------------------------------------------------------------

    fn tell(&mut self, world: &mut World<'_, A::Ledger>, input: Input) {
        self.inbox.push_back(input);
        self.run_app(world);
    }

    fn run_app(&mut self, world: &mut World<'_, A::Ledger>) {
        while let Some(input) = self.inbox.pop_front() {
            if !matches!(self.state, State::Running) || self.doomed {
                continue;
            }
            let mut out = Vec::new();
            let now = self.clock.read(world.now);
            let outside = world.now;
            let view = View { now, outside, process: self.process, cluster: &self.cluster };
            self.app.input(&view, input, world.ledger, &mut out);
            for output in out {
                self.do_for_app(world, output);
            }
        }
    }

    fn do_for_app(&mut self, world: &mut World<'_, A::Ledger>, output: Output) {
        match output {
            Output::Send(message) => self.send_data(world, *message),
            Output::Barrier { ticket, group, leaving } => {
                self.decide(
                    world,
                    Event::EnterBarrier { ticket, customer_id: 0, group, leaving, instance: false },
                );
            }
            Output::WakeAfter(time) => {
                self.next_wake = Some(self.clock.read(world.now) + time);
            }
            Output::Elastic(event) => self.decide(world, event),
            Output::End(result) => self.end_app(world, result),
        }
    }

    fn end_app(&mut self, world: &mut World<'_, A::Ledger>, result: Result<(), String>) {
        if !matches!(self.state, State::Running) {
            return;
        }
        let end = match result {
            Ok(()) => {
                self.decide(world, Event::Finalizing);
                End::Done
            }
            Err(text) => End::Failed(text),
        };
        world.trace.line(world.now, format_args!("p{} ends: {end:?}", self.process));
        self.state = State::Draining { until: self.clock.read(world.now) + DRAIN, end };
        self.end_drain(world);
    }

    fn end_drain(&mut self, world: &mut World<'_, A::Ledger>) {
        let State::Draining { until, end } = &self.state else { return };
        let now = self.clock.read(world.now);
        if let Some(resender) = &mut self.resender {
            // Nobody is left there to confirm anything. One that is cut off for a moment comes
            // back.
            let gone = self.broken.iter().filter(|(_, at)| now.saturating_sub(**at) >= GONE_AFTER);
            gone.for_each(|(id, _)| resender.forget(*id));
        }
        let pending = self.resender.as_ref().map_or(0, Resender::pending);
        if !self.options.drain || pending == 0 || now >= *until {
            self.state = State::Over(end.clone());
            world.network.end(world.now, self.process);
        }
    }
}

/// One that says nothing but that.
fn is_sign_of_life(message: &Message) -> bool {
    message.meta.control().is_some_and(|control| {
        control.command == Command::Heartbeat
            && control.notice.is_none()
            && Step::of(message).is_none()
    })
}
