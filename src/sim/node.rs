//! One process of a simulated job: the real membership, resender and requests, joined as the van
//! of `node` joins them, with a scripted application on top. What the van's threads do at once is
//! here done one after the other, in the order that the network decides.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::app::{Input, Output, View};
use super::ledger::Ledger;
use super::network::{ConnectionId, Network, Process, Sealed};
use super::server::Server;
use super::trace::Trace;
use super::worker::Worker;
use crate::cluster::{Action, Cluster, ClusterConfig, Event, Level};
use crate::delivery::{ResendConfig, Resender, Verdict};
use crate::wire::{
    ALL_GROUP, Command, EMPTY, Message, Node as Described, NodeId, Role, SCHEDULER, decode_meta,
    encode_meta,
};

/// The longest sleep of the thread that keeps time, as in the van.
const TICK: Duration = Duration::from_millis(50);
/// The shortest.
const TICK_MIN: Duration = Duration::from_millis(1);
/// How long a node that has ended waits for the confirmation of what it sent.
const DRAIN: Duration = Duration::from_secs(10);
/// Enters the job, and leaves it: the scheduler's two barriers.
const START: u64 = 1;
const EXIT: u64 = 2;

/// What a node works with.
pub(super) struct World<'a> {
    pub(super) now: Duration,
    pub(super) network: &'a mut Network,
    pub(super) trace: &'a mut Trace,
    pub(super) ledger: &'a mut Ledger,
}

/// The application of a node.
pub(super) enum App {
    /// Waits in the exit barrier for the whole job, as MXNet's scheduler does.
    Scheduler,
    Server(Server),
    Worker(Worker),
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
pub(super) struct Options {
    /// The resender's timeout, if it is on.
    pub(super) resend: Option<Duration>,
    /// The first number on its links.
    pub(super) first_sequence: u64,
    /// It does not end before what it sent is confirmed.
    pub(super) drain: bool,
    /// Planted: repetitions are delivered.
    pub(super) deliver_repetitions: bool,
    /// Planted: broken links are not noticed.
    pub(super) ignore_broken_links: bool,
}

/// One process.
pub(super) struct Node {
    process: Process,
    options: Options,
    cluster: Cluster,
    resender: Option<Resender>,
    connections: BTreeMap<NodeId, ConnectionId>,
    lost: BTreeMap<NodeId, String>,
    app: App,
    inbox: VecDeque<Input>,
    state: State,
    next_tick: Duration,
    next_wake: Option<Duration>,
}

impl Node {
    /// Binds, connects to the scheduler and registers, as the van does.
    pub(super) fn start(
        process: Process,
        config: ClusterConfig,
        options: Options,
        app: App,
        world: &mut World<'_>,
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
            cluster: Cluster::new(config, world.now),
            resender,
            connections: BTreeMap::new(),
            lost: BTreeMap::new(),
            app,
            inbox: VecDeque::new(),
            state: State::Running,
            next_tick: world.now,
            next_wake: None,
        };
        world.network.listen(world.now, process, &me.address());
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

    /// True if it is known to the others.
    pub(super) const fn is_ready(&self) -> bool {
        self.cluster.is_ready()
    }

    /// When [`Self::wake`] is due.
    pub(super) fn next_wake(&self) -> Option<Duration> {
        if self.is_over() {
            return None;
        }
        let resend = self.resender.as_ref().and_then(Resender::next_deadline);
        Some([resend, self.next_wake].into_iter().flatten().fold(self.next_tick, Duration::min))
    }

    /// A message came.
    pub(super) fn arrived(&mut self, world: &mut World<'_>, from: Option<NodeId>, sealed: Sealed) {
        if self.is_over() {
            return;
        }
        let mut meta = match decode_meta(&sealed.meta) {
            Ok(meta) => meta,
            Err(error) => return world.ledger.fault(format!("unreadable metadata: {error}")),
        };
        meta.sender = from.unwrap_or(EMPTY);
        meta.recver = self.cluster.me().id;
        let command = meta.control.as_ref().map(|control| control.command);
        if self.is_refused(from, command) {
            return;
        }
        let message = Message { meta, data: sealed.data };
        if !self.accept(world, from, &message) {
            return;
        }
        match command {
            None => self.tell(world, Input::Message(message)),
            Some(Command::Ack | Command::Terminate) => {}
            Some(_) => self.event(world, Event::Received { from, message }),
        }
    }

    /// Anonymous ones may register, strangers may do nothing (as the van's `refuse`).
    fn is_refused(&self, from: Option<NodeId>, command: Option<Command>) -> bool {
        let Some(id) = from else { return command != Some(Command::AddNode) };
        let known = id == SCHEDULER || self.cluster.node(id).is_some();
        self.cluster.is_ready() && !known
    }

    fn accept(&mut self, world: &mut World<'_>, from: Option<NodeId>, message: &Message) -> bool {
        let (Some(resender), Some(from)) = (&mut self.resender, from) else { return true };
        let ours = message.meta.sequence != 0 || self.cluster.is_ours(from);
        let outcome = resender.incoming(world.now, from, message, ours);
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
    pub(super) fn link(&mut self, world: &mut World<'_>, connection: ConnectionId, up: bool) {
        let of = |(_, own): &(&NodeId, &ConnectionId)| **own == connection;
        let Some((id, _)) = self.connections.iter().find(of) else { return };
        let id = *id;
        world.trace.line(
            world.now,
            format_args!("p{} link {id} {}", self.process, if up { "up" } else { "down" }),
        );
        if matches!(self.state, State::Draining { .. }) && !up {
            // Nobody is left to confirm anything.
            self.resender.iter_mut().for_each(|resender| resender.forget(id));
        }
        if up {
            self.event(world, Event::LinkUp { id });
        } else if !self.options.ignore_broken_links {
            self.event(world, Event::LinkDown { id });
        }
    }

    /// Does what time demands.
    pub(super) fn wake(&mut self, world: &mut World<'_>) {
        if self.is_over() {
            return;
        }
        self.resend_due(world);
        if self.next_wake.is_some_and(|at| at <= world.now) {
            self.next_wake = None;
            self.tell(world, Input::Wake);
        }
        self.event(world, Event::Tick);
        let deadline = self.cluster.next_deadline().unwrap_or(Duration::MAX);
        self.next_tick = deadline.clamp(world.now + TICK_MIN, world.now + TICK);
        self.end_drain(world);
    }

    fn resend_due(&mut self, world: &mut World<'_>) {
        let Some(resender) = &mut self.resender else { return };
        let (mut again, mut gave_up) = (Vec::new(), Vec::new());
        resender.tick(world.now, &mut again, &mut gave_up);
        for (to, message) in again {
            self.post(world, to, &message);
        }
        for id in gave_up {
            self.event(world, Event::Unreachable { id });
        }
    }

    // ---- the membership and what it decides --------------------------------------------------

    fn event(&mut self, world: &mut World<'_>, event: Event) {
        self.decide(world, event);
        self.run_app(world);
    }

    fn decide(&mut self, world: &mut World<'_>, event: Event) {
        if let Event::Received { from: Some(id), .. } = &event {
            self.cluster.heard(world.now, *id);
        }
        let mut actions = Vec::new();
        self.cluster.handle(world.now, event, &mut actions);
        let mut queue = VecDeque::from(actions);
        while let Some(action) = queue.pop_front() {
            if let Some(echo) = self.apply(world, action) {
                let mut more = Vec::new();
                self.cluster.handle(world.now, echo, &mut more);
                queue.extend(more);
            }
        }
    }

    /// Applies one action; a message to myself comes back as an event.
    fn apply(&mut self, world: &mut World<'_>, action: Action) -> Option<Event> {
        match action {
            Action::Connect { node, identity } => self.connect(world, &node, identity),
            Action::ConnectPending { key, node } => {
                self.connect(world, &Described { id: key, ..node }, Some(SCHEDULER));
            }
            Action::Rename { from, to } => {
                if let Some(connection) = self.connections.remove(&from) {
                    self.connections.insert(to, connection);
                }
            }
            Action::Disconnect { id } => self.disconnect(world, id),
            Action::Send { to, message } => return self.send_control(world, to, message),
            Action::Ready => {
                let id = self.cluster.me().id;
                self.resender.iter_mut().for_each(|resender| resender.set_my_id(id));
                self.inbox.push_back(Input::Ready);
            }
            Action::BarrierDone { ticket, result } => {
                let result = result.map_err(|failure| failure.text);
                self.inbox.push_back(Input::Barrier { ticket, result });
            }
            Action::NodeLost { id, reason } => {
                self.lost.insert(id, reason.clone());
                self.resender.iter_mut().for_each(|resender| resender.forget(id));
                self.disconnect(world, id);
                self.inbox.push_back(Input::NodeLost { id, reason });
            }
            Action::NodeReplaced { node } => {
                self.lost.remove(&node.id);
                self.resender.iter_mut().for_each(|resender| resender.forget(node.id));
            }
            Action::CustomerLeft { id, customer_id } => {
                self.inbox.push_back(Input::CustomerLeft { id, customer_id });
            }
            Action::Failed(failure) => self.inbox.push_back(Input::Failed(failure.text)),
            Action::Log { level, text } if level != Level::Verbose => {
                world.trace.line(world.now, format_args!("p{} says {text}", self.process));
            }
            Action::Log { .. } => {}
        }
        None
    }

    fn connect(&mut self, world: &mut World<'_>, node: &Described, identity: Option<NodeId>) {
        let connection = world.network.connect(world.now, self.process, &node.address(), identity);
        if let Some(old) = self.connections.insert(node.id, connection) {
            world.network.close(old);
        }
    }

    fn disconnect(&mut self, world: &mut World<'_>, id: NodeId) {
        if let Some(connection) = self.connections.remove(&id) {
            world.network.close(connection);
        }
    }

    fn send_control(
        &mut self,
        world: &mut World<'_>,
        to: NodeId,
        mut message: Message,
    ) -> Option<Event> {
        let me = self.cluster.me().id;
        if to == me && me != EMPTY {
            (message.meta.sender, message.meta.recver) = (me, me);
            return Some(Event::Received { from: Some(me), message });
        }
        if to > 0 && self.cluster.is_ready() {
            let ours = self.cluster.is_ours(to);
            if let Some(resender) = &mut self.resender {
                resender.outgoing(world.now, to, &mut message, ours);
            }
        }
        self.post(world, to, &message);
        None
    }

    fn post(&mut self, world: &mut World<'_>, to: NodeId, message: &Message) {
        let Some(connection) = self.connections.get(&to) else { return };
        let mut meta = Vec::with_capacity(64);
        encode_meta(&message.meta, &mut meta);
        let sealed = Sealed { meta, data: message.data.clone() };
        world.network.send(world.now, *connection, sealed);
    }

    // ---- the application -----------------------------------------------------------------------

    fn tell(&mut self, world: &mut World<'_>, input: Input) {
        self.inbox.push_back(input);
        self.run_app(world);
    }

    fn run_app(&mut self, world: &mut World<'_>) {
        while let Some(input) = self.inbox.pop_front() {
            if !matches!(self.state, State::Running) {
                continue;
            }
            let mut out = Vec::new();
            let view = View { now: world.now, cluster: &self.cluster };
            match &mut self.app {
                App::Scheduler => schedule(input, &mut out),
                App::Server(server) => server.input(&view, input, &mut out),
                App::Worker(worker) => worker.input(&view, input, world.ledger, &mut out),
            }
            for output in out {
                self.do_for_app(world, output);
            }
        }
    }

    fn do_for_app(&mut self, world: &mut World<'_>, output: Output) {
        match output {
            Output::Send(message) => self.send_data(world, *message),
            Output::Barrier { ticket, group, leaving } => {
                self.decide(world, Event::EnterBarrier { ticket, customer_id: 0, group, leaving });
            }
            Output::WakeAfter(time) => self.next_wake = Some(world.now + time),
            Output::End(result) => self.end_app(world, result),
        }
    }

    fn send_data(&mut self, world: &mut World<'_>, mut message: Message) {
        let to = message.meta.recver;
        message.meta.sender = self.cluster.me().id;
        let failure = self.cluster.failure().map(|failure| failure.text.clone());
        if let Some(reason) = self.lost.get(&to).cloned().or(failure) {
            self.inbox.push_back(Input::Unsent { meta: Box::new(message.meta), reason });
            return;
        }
        let ours = self.cluster.is_ours(to);
        if let Some(resender) = &mut self.resender {
            resender.outgoing(world.now, to, &mut message, ours);
        }
        self.post(world, to, &message);
    }

    fn end_app(&mut self, world: &mut World<'_>, result: Result<(), String>) {
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
        self.state = State::Draining { until: world.now + DRAIN, end };
        self.end_drain(world);
    }

    fn end_drain(&mut self, world: &mut World<'_>) {
        let State::Draining { until, end } = &self.state else { return };
        let pending = self.resender.as_ref().map_or(0, Resender::pending);
        if !self.options.drain || pending == 0 || world.now >= *until {
            self.state = State::Over(end.clone());
            world.network.end(world.now, self.process);
        }
    }
}

/// MXNet's scheduler: in, and then in the exit barrier until all are.
fn schedule(input: Input, out: &mut Vec<Output>) {
    match input {
        Input::Ready => {
            out.push(Output::Barrier { ticket: START, group: ALL_GROUP, leaving: false });
        }
        Input::Barrier { ticket: EXIT, result } => out.push(Output::End(result)),
        Input::Barrier { result: Ok(()), .. } => {
            out.push(Output::Barrier { ticket: EXIT, group: ALL_GROUP, leaving: true });
        }
        Input::Barrier { result: Err(text), .. } | Input::Failed(text) => {
            out.push(Output::End(Err(text)));
        }
        _ => {}
    }
}
