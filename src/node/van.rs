//! The van of a started node: one thread that receives, one that keeps time, and the sending of
//! every message. It applies what the membership state machine decides and hands data messages to
//! their customers. It never runs application code: that happens on the customers' threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::address;
use super::customer::{Customers, Delivery};
use super::error::{NodeError, Result};
use super::postoffice::OnFailure;
use super::settings::Settings;
use crate::cluster::{self, Action, Cluster, ClusterConfig, Event, Failure, FailureKind};
use crate::delivery::{ResendConfig, Resender, Verdict};
use crate::observe::log::{self, Level, RateLimit};
use crate::transport::zmq::{
    Endpoint, Incoming, LinkEvent, RecvError, SendError, SendMode, ZmqOptions, ZmqTransport,
};
use crate::wire::{self, Command, EMPTY, Message, Node, NodeId, Role, SCHEDULER};

/// The largest frame that a peer may send, in bytes: 2^31, more than any tensor slice of stock.
const FRAME_BYTES_MAX: usize = 1 << 31;
/// How long sockets may take to flush when the node ends.
const LINGER: Duration = Duration::from_secs(1);
/// The longest sleep of the thread that keeps time.
const TICK: Duration = Duration::from_millis(50);
/// Resends of one message before its peer counts as unreachable. The wait doubles up to a cap, so
/// this is minutes with the default timeout; a dead peer is noticed by its connection long before.
const RESENDS_MAX: u32 = 50;

/// What every thread of a started node shares.
pub(crate) struct Van {
    settings: Settings,
    transport: ZmqTransport,
    core: Mutex<Core>,
    /// Signalled when a waiter of `core` may go on.
    changed: Condvar,
    customers: Arc<Customers>,
    resender: Option<Mutex<Resender>>,
    started: Instant,
    my_id: AtomicI32,
    /// Some peer is lost or the job failed: senders must look closer.
    trouble: AtomicBool,
    stopping: AtomicBool,
    random: AtomicU64,
    garbage: RateLimit,
    on_failure: OnFailure,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Core {
    cluster: Cluster,
    barriers: BTreeMap<u64, Option<std::result::Result<(), Failure>>>,
    next_ticket: u64,
    lost: BTreeMap<NodeId, String>,
    failure: Option<Failure>,
    links: BTreeMap<NodeId, bool>,
}

impl Van {
    /// Binds, connects to the scheduler and starts both threads.
    ///
    /// # Errors
    /// The address cannot be used; the text says who holds the port or what exists instead.
    pub(crate) fn start(
        settings: Settings,
        customers: Arc<Customers>,
        standing_scheduler: bool,
        on_failure: OnFailure,
    ) -> Result<Arc<Self>> {
        let transport = ZmqTransport::new(ZmqOptions {
            send_queue: settings.water_mark.unwrap_or(1000),
            recv_queue: 1000,
            priority_mode: settings.priority_van,
            max_frame: FRAME_BYTES_MAX,
        })
        .map_err(|error| NodeError::Address(error.to_string()))?;
        let incarnation = address::incarnation();
        let me = address::bind(&settings, &transport, incarnation)?;
        let scheduler = scheduler_node(&settings, &me);
        let config = cluster_config(&settings, me.clone(), scheduler.clone(), standing_scheduler);
        let van = Arc::new(Self {
            resender: settings.resend.map(|timeout| {
                Mutex::new(Resender::new(ResendConfig {
                    timeout,
                    retries_max: RESENDS_MAX,
                    my_id: me.id,
                    first_sequence: address::first_sequence(),
                }))
            }),
            core: Mutex::new(Core {
                cluster: Cluster::new(config, Duration::ZERO),
                barriers: BTreeMap::new(),
                next_ticket: 0,
                lost: BTreeMap::new(),
                failure: None,
                links: BTreeMap::new(),
            }),
            changed: Condvar::new(),
            customers,
            started: Instant::now(),
            my_id: AtomicI32::new(me.id),
            trouble: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            random: AtomicU64::new(incarnation | 1),
            garbage: RateLimit::new(Duration::from_secs(5)),
            on_failure,
            threads: Mutex::new(Vec::new()),
            transport,
            settings,
        });
        if me.role != Role::Scheduler {
            van.connect(&scheduler, None);
        }
        van.event(Event::Start);
        van.spawn("van", Self::receive)?;
        van.spawn("clock", Self::keep_time)?;
        log::write(Level::Verbose, &format!("{} listens on {}", me.role.name(), me.address()));
        Ok(van)
    }

    fn spawn(self: &Arc<Self>, name: &str, body: fn(&Self)) -> Result<()> {
        let van = Arc::clone(self);
        let thread = std::thread::Builder::new()
            .name(format!("pslite-{name}"))
            .spawn(move || body(&van))
            .map_err(|error| NodeError::Config(format!("cannot start a thread: {error}")))?;
        lock(&self.threads).push(thread);
        Ok(())
    }

    /// Time since the van started: the clock of all state machines of this node.
    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// My id, or [`EMPTY`] before the job is complete.
    pub(crate) fn my_id(&self) -> NodeId {
        self.my_id.load(Ordering::Relaxed)
    }

    // ---- calls of the application ---------------------------------------------------------

    /// Registers a customer and waits until the job is complete.
    pub(crate) fn register(&self, customer_id: i32) -> Result<()> {
        self.event(Event::Register { customer_id });
        let mut core = lock(&self.core);
        loop {
            if let Some(failure) = &core.failure {
                return Err(error_of(failure));
            }
            if core.cluster.is_ready() {
                return Ok(());
            }
            if self.stopping.load(Ordering::Relaxed) {
                return Err(stopped());
            }
            core = self.changed.wait(core).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Enters a barrier and waits for its release.
    pub(crate) fn barrier(&self, customer_id: i32, group: i32, leaving: bool) -> Result<()> {
        let ticket = {
            let mut core = lock(&self.core);
            let ticket = core.next_ticket;
            core.next_ticket += 1;
            core.barriers.insert(ticket, None);
            ticket
        };
        self.event(Event::EnterBarrier { ticket, customer_id, group, leaving });
        let mut core = lock(&self.core);
        loop {
            if core.barriers.get(&ticket).is_some_and(Option::is_some) {
                let result = core.barriers.remove(&ticket).flatten();
                return match result {
                    Some(Err(failure)) => Err(error_of(&failure)),
                    _ => Ok(()),
                };
            }
            if self.stopping.load(Ordering::Relaxed) {
                core.barriers.remove(&ticket);
                return Err(stopped());
            }
            core = self.changed.wait(core).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Tells scheduler and servers that this customer sends no more requests.
    pub(crate) fn leaving(&self, customer_id: i32) {
        self.event(Event::Leaving { customer_id });
    }

    /// Sends one message of a customer. A message to this node itself does not touch a socket.
    ///
    /// # Errors
    /// The receiver is lost, or the node is stopped.
    pub(crate) fn send(&self, mut message: Message) -> Result<()> {
        let to = message.meta.recver;
        let me = self.my_id();
        message.meta.sender = me;
        if self.trouble.load(Ordering::Acquire) {
            self.check_peer(to)?;
        }
        if to == me {
            self.dispatch(message, None);
            return Ok(());
        }
        if let Some(resender) = &self.resender {
            let ours = self.is_ours(to);
            self.wait_for_room(resender, to)?;
            lock(resender).outgoing(self.now(), to, &mut message, ours);
        }
        self.post(to, &message, SendMode::Block)
    }

    /// True if the node advertises that it is ours.
    pub(crate) fn is_ours(&self, id: NodeId) -> bool {
        lock(&self.core).cluster.is_ours(id)
    }

    /// Back-pressure while the peer confirms nothing: what is unconfirmed is kept in memory.
    fn wait_for_room(&self, resender: &Mutex<Resender>, to: NodeId) -> Result<()> {
        while lock(resender).is_full(to) {
            if self.stopping.load(Ordering::Relaxed) {
                return Err(stopped());
            }
            self.check_peer(to)?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn check_peer(&self, to: NodeId) -> Result<()> {
        let core = lock(&self.core);
        if let Some(reason) = core.lost.get(&to) {
            return Err(NodeError::PeerLost(reason.clone()));
        }
        core.failure.as_ref().map_or(Ok(()), |failure| Err(error_of(failure)))
    }

    fn post(&self, to: NodeId, message: &Message, mode: SendMode) -> Result<()> {
        thread_local! {
            static META: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
        }
        if log::enabled(Level::Trace) {
            log::write(Level::Trace, &format!("to {to}: {:?}", message.meta));
        }
        META.with_borrow_mut(|meta| {
            meta.clear();
            wire::encode_meta(&message.meta, meta);
            self.transport.send(to, meta, &message.data, message.meta.priority, mode)
        })
        .map(|_| ())
        .map_err(|error| self.send_error(to, &error))
    }

    fn send_error(&self, to: NodeId, error: &SendError) -> NodeError {
        let core = lock(&self.core);
        if let Some(reason) = core.lost.get(&to) {
            return NodeError::PeerLost(reason.clone());
        }
        match error {
            SendError::Stopped => stopped(),
            _ => NodeError::PeerLost(format!(
                "cannot send to {}: {error}",
                core.cluster.describe(to)
            )),
        }
    }

    // ---- what the application asks about the job ---------------------------------------------

    /// Runs `read` on the membership.
    pub(crate) fn with_cluster<T>(&self, read: impl FnOnce(&Cluster, Duration) -> T) -> T {
        read(&lock(&self.core).cluster, self.now())
    }

    /// Why the job is over, if it is.
    pub(crate) fn failure(&self) -> Option<NodeError> {
        lock(&self.core).failure.as_ref().map(error_of)
    }

    /// For a scheduler without an application: blocks until every node has come and gone.
    pub(crate) fn wait_for_end(&self) -> Result<()> {
        let mut core = lock(&self.core);
        loop {
            if let Some(failure) = &core.failure {
                return Err(error_of(failure));
            }
            let all_gone = core.cluster.is_ready()
                && !core.links.is_empty()
                && core.links.values().all(|up| !up);
            if all_gone || self.stopping.load(Ordering::Relaxed) {
                return Ok(());
            }
            core = self.changed.wait_timeout(core, TICK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    // ---- threads -------------------------------------------------------------------------------

    fn receive(&self) {
        loop {
            match self.transport.recv() {
                Ok(incoming) => self.incoming(&incoming),
                Err(RecvError::Stopped) => return,
                Err(error) => {
                    log::write(Level::Error, &format!("cannot receive any more: {error}"));
                    return;
                }
            }
        }
    }

    fn keep_time(&self) {
        let mut events: Vec<LinkEvent> = Vec::new();
        while !self.stopping.load(Ordering::Relaxed) {
            events.clear();
            self.transport.link_events(&mut events);
            for event in &events {
                lock(&self.core).links.insert(event.key, event.up);
                let id = event.key;
                self.event(if event.up { Event::LinkUp { id } } else { Event::LinkDown { id } });
            }
            self.resend_due();
            self.transport.flush();
            self.event(Event::Tick);
            let sleep = self.sleep();
            std::thread::park_timeout(sleep);
        }
    }

    fn sleep(&self) -> Duration {
        let now = self.now();
        let mut sleep = TICK;
        if let Some(at) = lock(&self.core).cluster.next_deadline() {
            sleep = sleep.min(at.saturating_sub(now));
        }
        if let Some(resender) = &self.resender
            && let Some(at) = lock(resender).next_deadline()
        {
            sleep = sleep.min(at.saturating_sub(now));
        }
        sleep.max(Duration::from_millis(1))
    }

    fn resend_due(&self) {
        let Some(resender) = &self.resender else { return };
        let mut again = Vec::new();
        let mut gave_up = Vec::new();
        lock(resender).tick(self.now(), &mut again, &mut gave_up);
        for (to, message) in again {
            // A failure here is found by the next tick, or by the link itself.
            let _ = self.post(to, &message, SendMode::Control);
        }
        for id in gave_up {
            self.event(Event::Unreachable { id });
        }
    }

    // ---- receiving -----------------------------------------------------------------------------

    fn incoming(&self, incoming: &Incoming) {
        let from = incoming.from;
        let mut meta = match incoming.frames.first().map(|frame| wire::decode_meta(frame)) {
            Some(Ok(meta)) if !incoming.oversized => meta,
            Some(Ok(_)) => return self.drop_garbage(incoming, "too many frames"),
            Some(Err(error)) => return self.drop_garbage(incoming, &error.to_string()),
            None => return self.drop_garbage(incoming, "no frame"),
        };
        if self.settings.drop_percent > 0 && self.my_id() != EMPTY && self.unlucky() {
            return;
        }
        meta.sender = from.unwrap_or(EMPTY);
        meta.recver = self.my_id();
        if log::enabled(Level::Trace) {
            log::write(Level::Trace, &format!("from {}: {meta:?}", meta.sender));
        }
        if let Some(reason) = self.refuse(from, &meta) {
            return self.drop_garbage(incoming, &reason);
        }
        let message = Message { data: incoming.frames[1..].iter().cloned().collect(), meta };
        if !self.accept(from, &message) {
            return;
        }
        match message.meta.control.as_ref().map(|control| control.command) {
            None => self.dispatch(message, Some(incoming)),
            Some(Command::Ack | Command::Terminate) => {}
            Some(_) => self.event(Event::Received { from, message }),
        }
    }

    /// Passes the message through the resender; false if it must go no further.
    fn accept(&self, from: Option<NodeId>, message: &Message) -> bool {
        let (Some(resender), Some(from)) = (&self.resender, from) else { return true };
        let ours = message.meta.sequence != 0 || self.is_ours(from);
        let outcome = lock(resender).incoming(self.now(), from, message, ours);
        if let Some(ack) = outcome.ack {
            // The sender asks again if this one is lost.
            let _ = self.post(from, &ack, SendMode::Control);
        }
        outcome.verdict == Verdict::Deliver
    }

    /// Why a message is not even looked at, if so.
    fn refuse(&self, from: Option<NodeId>, meta: &wire::Meta) -> Option<String> {
        let command = meta.control.as_ref().map(|control| control.command);
        match from {
            None if command != Some(Command::AddNode) => {
                Some("a message of a node that has not registered".to_owned())
            }
            None => None,
            Some(id) => {
                let core = lock(&self.core);
                let unknown = core.cluster.is_ready()
                    && id != SCHEDULER
                    && id != core.cluster.me().id
                    && core.cluster.node(id).is_none();
                unknown.then(|| format!("node {id} is not in this job"))
            }
        }
    }

    fn drop_garbage(&self, incoming: &Incoming, reason: &str) {
        if let Some(total) = self.garbage.hit() {
            let who = incoming
                .from
                .map_or_else(|| "an unnamed node".to_owned(), |id| format!("node {id}"));
            log::write(
                Level::Warning,
                &format!(
                    "dropped a message from {who} at {}: {reason} ({total} so far)",
                    incoming.address()
                ),
            );
        }
    }

    /// Hands a data message to its customer.
    fn dispatch(&self, message: Message, incoming: Option<&Incoming>) {
        let frames = message.data.len();
        let sound = message.meta.app_id != EMPTY
            && (message.meta.simple_app || frames == 0 || frames == 2 || frames == 3);
        if !sound {
            if let Some(incoming) = incoming {
                self.drop_garbage(incoming, "neither control nor a message to an application");
            }
            return;
        }
        // Workers have several customers per application, others one (van.cc:229).
        let customer_id = if self.settings.role == Role::Worker {
            message.meta.customer_id
        } else {
            message.meta.app_id
        };
        let key = (message.meta.app_id, customer_id);
        if let Err(text) = self.customers.deliver(key, Delivery::Message(message)) {
            log::write(Level::Error, &text);
        }
    }

    /// One throw of PS_DROP_MSG's dice: a SplitMix64 step.
    fn unlucky(&self) -> bool {
        let mut z = self.random.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % 100) < u64::from(self.settings.drop_percent)
    }

    // ---- the membership and what it decides -----------------------------------------------------

    /// Feeds one event and applies what follows from it, in order, under the lock: sending control
    /// messages never blocks.
    fn event(&self, event: Event) {
        let mut core = lock(&self.core);
        let failed_before = core.failure.is_some();
        let now = self.now();
        if let Event::Received { from: Some(id), .. } = &event {
            let id = *id;
            core.cluster.heard(now, id);
        }
        let mut actions = Vec::new();
        core.cluster.handle(now, event, &mut actions);
        let mut queue: std::collections::VecDeque<Action> = actions.into();
        while let Some(action) = queue.pop_front() {
            if let Some(echo) = self.apply(&mut core, action) {
                let mut more = Vec::new();
                core.cluster.handle(self.now(), echo, &mut more);
                queue.extend(more);
            }
        }
        let failure = core.failure.as_ref().filter(|_| !failed_before).map(|f| f.text.clone());
        drop(core);
        if let Some(reason) = failure {
            (self.on_failure)(&reason);
        }
    }

    /// Applies one action; a message to myself comes back as an event.
    fn apply(&self, core: &mut MutexGuard<'_, Core>, action: Action) -> Option<Event> {
        match action {
            Action::Connect { node, identity } => self.connect(&node, identity),
            Action::ConnectPending { key, node } => {
                self.connect(&Node { id: key, ..node }, Some(SCHEDULER));
            }
            Action::Rename { from, to } => {
                self.transport.rename(from, to);
                if let Some(up) = core.links.remove(&from) {
                    core.links.insert(to, up);
                }
            }
            Action::Disconnect { id } => {
                self.transport.disconnect(id, Duration::from_millis(100));
                core.links.remove(&id);
            }
            Action::Send { to, message } => return self.send_control(core, to, message),
            Action::Ready => self.ready(core),
            Action::BarrierDone { ticket, result } => {
                if let Some(slot) = core.barriers.get_mut(&ticket) {
                    *slot = Some(result);
                }
                self.changed.notify_all();
            }
            Action::NodeLost { id, reason } => self.lost(core, id, reason),
            Action::NodeReplaced { node } => self.replaced(core, &node),
            Action::CustomerLeft { id, customer_id } => {
                self.customers.broadcast(&Delivery::CustomerLeft { id, customer_id });
            }
            Action::Failed(failure) => self.failed(core, failure),
            Action::Log { level, text } => log::write(log_level(level), &text),
        }
        None
    }

    fn send_control(&self, core: &Core, to: NodeId, mut message: Message) -> Option<Event> {
        let me = core.cluster.me().id;
        if to == me && me != EMPTY {
            message.meta.sender = me;
            message.meta.recver = me;
            return Some(Event::Received { from: Some(me), message });
        }
        if let Some(resender) = &self.resender
            && to > 0
            && core.cluster.is_ready()
        {
            lock(resender).outgoing(self.now(), to, &mut message, core.cluster.is_ours(to));
        }
        self.post_control(to, &message);
        None
    }

    /// Sends without the lock's help: `post` would take it again to describe an error.
    fn post_control(&self, to: NodeId, message: &Message) {
        let mut meta = Vec::with_capacity(64);
        wire::encode_meta(&message.meta, &mut meta);
        if log::enabled(Level::Trace) {
            log::write(Level::Trace, &format!("to {to}: {:?}", message.meta));
        }
        if let Err(error) =
            self.transport.send(to, &meta, &message.data, message.meta.priority, SendMode::Control)
        {
            log::write(Level::Verbose, &format!("no control message to node {to}: {error}"));
        }
    }

    fn ready(&self, core: &mut Core) {
        let me = core.cluster.me().clone();
        self.my_id.store(me.id, Ordering::Relaxed);
        if let Some(resender) = &self.resender {
            lock(resender).set_my_id(me.id);
        }
        log::write(
            Level::Verbose,
            &format!(
                "this is {} of {} workers and {} servers after {:.1} ms{}",
                me.describe(),
                self.settings.num_workers,
                self.settings.num_servers,
                self.now().as_secs_f64() * 1e3,
                if me.is_recovery { ", in place of one that died" } else { "" }
            ),
        );
        self.changed.notify_all();
    }

    fn lost(&self, core: &mut Core, id: NodeId, reason: String) {
        log::write(Level::Error, &reason);
        core.lost.insert(id, reason.clone());
        self.trouble.store(true, Ordering::Release);
        if let Some(resender) = &self.resender {
            lock(resender).forget(id);
        }
        self.transport.disconnect(id, Duration::ZERO);
        core.links.remove(&id);
        self.customers.broadcast(&Delivery::NodeLost { id, reason });
    }

    fn replaced(&self, core: &mut Core, node: &Node) {
        core.lost.remove(&node.id);
        if core.lost.is_empty() && core.failure.is_none() {
            self.trouble.store(false, Ordering::Release);
        }
        if let Some(resender) = &self.resender {
            lock(resender).forget(node.id);
        }
        log::write(Level::Info, &format!("{} took the place of a dead node", node.describe()));
        self.changed.notify_all();
    }

    fn failed(&self, core: &mut Core, failure: Failure) {
        log::write(Level::Error, &failure.text);
        self.trouble.store(true, Ordering::Release);
        let reason = error_of(&failure);
        core.failure = Some(failure);
        for slot in core.barriers.values_mut().filter(|slot| slot.is_none()) {
            *slot = Some(Err(core_failure(&reason)));
        }
        self.changed.notify_all();
        self.customers.broadcast(&Delivery::Failed(reason));
    }

    fn connect(&self, node: &Node, identity: Option<NodeId>) {
        let endpoint = if self.settings.local {
            Endpoint::Ipc { path: format!("/tmp/{}", node.port) }
        } else {
            Endpoint::Tcp { host: node.hostname.clone(), port: node.port as u16 }
        };
        if let Err(error) = self.transport.connect(node.id, &endpoint, identity) {
            log::write(Level::Error, &format!("cannot connect to {}: {error}", node.describe()));
        }
    }

    // ---- the end ---------------------------------------------------------------------------------

    /// The exit barrier is behind us: peers may vanish without anybody's fault.
    pub(crate) fn finalizing(&self) {
        self.event(Event::Finalizing);
    }

    /// Ends both threads and closes every socket. What was sent is flushed for at most a second.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        {
            let _core = lock(&self.core);
            self.changed.notify_all();
        }
        self.transport.stop();
        let me = std::thread::current().id();
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            thread.thread().unpark();
            if thread.thread().id() != me && thread.join().is_err() {
                log::write(Level::Error, "a thread of the van ended by a panic");
            }
        }
        self.transport.close(LINGER);
    }
}

fn core_failure(reason: &NodeError) -> Failure {
    Failure { kind: FailureKind::PeerLost, text: reason.to_string() }
}

/// Locks; a panic of another holder leaves data that is still sound, because every update of it is
/// a single step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stopped() -> NodeError {
    NodeError::Stopped("the node was finalized meanwhile".to_owned())
}

fn error_of(failure: &Failure) -> NodeError {
    let text = failure.text.clone();
    match failure.kind {
        FailureKind::PeerLost => NodeError::PeerLost(text),
        FailureKind::StartTimeout => NodeError::Timeout(text),
        FailureKind::Config => NodeError::Config(text),
        FailureKind::Remote => NodeError::Remote(text),
    }
}

const fn log_level(level: cluster::Level) -> Level {
    match level {
        cluster::Level::Error => Level::Error,
        cluster::Level::Warning => Level::Warning,
        cluster::Level::Info => Level::Info,
        cluster::Level::Verbose => Level::Verbose,
    }
}

fn scheduler_node(settings: &Settings, me: &Node) -> Node {
    if settings.role == Role::Scheduler {
        return me.clone();
    }
    Node {
        role: Role::Scheduler,
        id: SCHEDULER,
        customer_id: 0,
        hostname: settings.root_host.clone(),
        port: i32::from(settings.root_port),
        is_recovery: false,
        abilities: 0,
        incarnation: 0,
    }
}

fn cluster_config(
    settings: &Settings,
    node: Node,
    scheduler: Node,
    standing_scheduler: bool,
) -> ClusterConfig {
    ClusterConfig {
        role: settings.role,
        num_workers: settings.num_workers,
        num_servers: settings.num_servers,
        node,
        scheduler,
        heartbeat_interval: settings.heartbeat_interval,
        heartbeat_timeout: settings.heartbeat_timeout,
        silence_limit: settings.silence_limit,
        link_down_limit: settings.peer_timeout,
        start_timeout: settings.start_timeout,
        report_interval: settings.report_interval,
        recovery_wait: settings.recovery_wait,
        standing_scheduler,
    }
}
