//! The van of a started node. One thread receives (`receive`), one keeps time (`clock`); messages
//! are sent from the thread of whoever sends them. The van applies the actions of the membership
//! state machine (`membership`, `elastic`) and hands data messages to their customers. `job` is
//! what it knows of the job, `waiting` blocks the application until the job is so far, `native`
//! uses the native data plane, `web` says over HTTP how the node is, `early` and `held` keep
//! messages whose time has not come; `setup` and `end` are the beginning and the end. May touch
//! sockets, threads and files. Must not name a customer: it knows only their mailboxes.

mod clock;
mod early;
mod elastic;
mod end;
mod exposition;
mod held;
mod inline_handler;
mod job;
mod membership;
mod metrics;
mod native;
mod next_totals;
mod receive;
mod saving;
mod setup;
mod status;
mod topics;
mod totals;
mod waiting;
mod web;

pub(crate) use waiting::Meeting;

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::address;
use crate::customers::Customers;
use crate::descriptors;
use crate::error::{NodeError, Result};
use crate::planning::{NodeGauge, PlanningDriver};
use crate::recipient::AtOnce;
use crate::running::{NodeState, RunningNode};
use crate::settings::Settings;
use crate::sink::PullLanding;
use crate::sync::lock;
use crate::training::Training;
use crate::tunnels;
use crate::web_door::WebDoor;
use early::EarlyMessages;
use held::HeldMessages;
use inline_handler::InlineHandler;
use job::Job;
use native::DataPlane;
use next_totals::NextTotals;
use pslite_core::cluster::{Cluster, Event, JobFailure, JobFailureKind};
use pslite_core::delivery::{ResendConfig, Resender};
use pslite_core::wire::{self, Message, Node, NodeId, Role};
use pslite_observe::MessageKind;
use pslite_observe::log::{self, Level};
use pslite_transport::carrier::{SendError, SendMode};
use pslite_transport::fork::Life;
use pslite_transport::native::{NativeIncoming, NativeTransport};
use pslite_transport::tunnel::Tunnels;
use pslite_transport::zmq::{Answers, ZmqOptions, ZmqTransport};
use setup::{cluster_config, journal, scheduler_node};

/// The largest frame that a peer may send, in bytes: 2^31, more than any tensor slice of stock.
const FRAME_BYTES_MAX: usize = 1 << 31;
/// The longest sleep of the thread that keeps time.
const TICK: Duration = Duration::from_millis(50);
/// Resends of one message before its peer counts as unreachable. The wait doubles up to a cap, so
/// this is minutes with the default timeout. A dead peer's connection shows it long before.
const RESENDS_MAX: u32 = 50;

/// Called once, on a thread of the library, when the job cannot go on.
pub type OnFailure = Box<dyn Fn(&str) + Send + Sync>;

/// What every thread of a started node shares.
pub(crate) struct Van {
    _life: Life,
    state: NodeState,
    transport: ZmqTransport,
    job: Job,
    customers: Arc<Customers>,
    resender: Option<Mutex<Resender>>,
    stopping: AtomicBool,
    random: AtomicU64,
    inline_handler: InlineHandler,
    on_failure: OnFailure,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// What this node measures for the scheduler.
    gauge: NodeGauge,
    /// The scheduler's planner.
    planning: PlanningDriver,
    /// Batch sizes.
    training: Training,
    /// Carries data between nodes of ours; all else takes `transport`.
    native: Option<DataPlane>,
    /// What came before the job was known.
    early: EarlyMessages,
    /// What goes along trees and found no room.
    held: HeldMessages,
    /// Lead to hosts without a route to this one, and pass others' connections on.
    tunnels: Option<Tunnels>,
    /// Answers over HTTP, if it was asked to.
    web: Option<WebDoor>,
    /// The warning that the metrics file cannot be written was logged.
    metrics_failed: Mutex<bool>,
    /// When the scheduler is told what this node has counted.
    next_totals: NextTotals,
}

impl Van {
    /// Binds, connects to the scheduler and starts both threads.
    ///
    /// # Errors
    /// The address cannot be used. The text says who holds the port, or which addresses there are.
    pub(crate) fn start(
        settings: Settings,
        customers: Arc<Customers>,
        standing_scheduler: bool,
        on_failure: OnFailure,
    ) -> Result<Arc<Self>> {
        let settings = descriptors::provide(settings)?;
        let incarnation = address::incarnation();
        let web = settings.http.as_ref().map(WebDoor::open).transpose()?;
        let (journal, former) = journal(&settings)?;
        let transport = ZmqTransport::new(ZmqOptions {
            send_queue: settings.water_mark.unwrap_or(1000),
            recv_queue: 1000,
            priority_mode: settings.priority_van,
            max_frame: FRAME_BYTES_MAX,
            name_seed: incarnation,
            answers: answers(&settings),
        })
        .map_err(|error| NodeError::Address(error.to_string()))?;
        let keeps_keys_apart = customers.keep_keys_apart(settings.native_store);
        let mut me = address::bind(&settings, &transport, incarnation, keeps_keys_apart)?;
        let tunnels = tunnels::start(&settings, &me.hostname)?;
        let native = address::native(&settings, &me.hostname, incarnation)?;
        me.native_port = native.as_ref().map_or(0, |(_, port)| *port);
        let scheduler = scheduler_node(&settings, &me);
        let config = cluster_config(&settings, me.clone(), scheduler.clone(), standing_scheduler);
        let cluster = match &former {
            Some(state) => Cluster::resume(config, state, Duration::ZERO)
                .map_err(|why| NodeError::Config(format!("PSLITE_JOURNAL: {why}")))?,
            None => Cluster::new(config, Duration::ZERO),
        };
        let van = Arc::new(Self {
            _life: Life::begin(),
            resender: settings.resend.map(|timeout| {
                Mutex::new(Resender::new(ResendConfig {
                    timeout,
                    retries_max: RESENDS_MAX,
                    my_id: me.id,
                    first_sequence: address::first_sequence(),
                }))
            }),
            job: Job::new(cluster, journal, settings.stall_report),
            customers,
            stopping: AtomicBool::new(false),
            random: AtomicU64::new(incarnation | 1),
            gauge: NodeGauge::default(),
            planning: PlanningDriver::default(),
            training: Training::default(),
            native: native.map(|(transport, _)| DataPlane::new(transport)),
            early: EarlyMessages::default(),
            held: HeldMessages::default(),
            tunnels,
            web,
            inline_handler: InlineHandler::default(),
            metrics_failed: Mutex::default(),
            next_totals: NextTotals::default(),
            on_failure,
            threads: Mutex::new(Vec::new()),
            transport,
            state: NodeState::new(settings, me.id),
        });
        van.customers.set_bounded(true);
        if let Some(native) = &van.native {
            let customers = Arc::clone(&van.customers);
            let is_worker = van.state.settings.role == Role::Worker;
            native.transport.set_sink(Arc::new(PullLanding { customers, is_worker }));
        }
        if let Err(error) = van.begin(&scheduler) {
            // Threads that run have the van: nothing may be left of it.
            van.stop();
            return Err(error);
        }
        log::write(Level::Verbose, &format!("{} listens on {}", me.role.name(), me.address()));
        Ok(van)
    }

    fn begin(self: &Arc<Self>, scheduler: &Node) -> Result<()> {
        if self.settings().role != Role::Scheduler {
            self.try_connect(scheduler, None).map_err(NodeError::Address)?;
        }
        self.event(Event::Start);
        self.spawn("van", |van| van.receive())?;
        if self.native.is_some() {
            self.spawn("data", |van| van.receive_native())?;
        }
        self.spawn("clock", |van| van.keep_time())?;
        if self.state.settings.metrics.is_some() {
            self.spawn("metrics", |van| van.keep_metrics())?;
        }
        if self.web.is_some() {
            self.spawn("http", |van| van.serve_web())?;
        }
        Ok(())
    }

    fn spawn(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) -> Result<()> {
        let van = Arc::clone(self);
        let thread = std::thread::Builder::new()
            .name(format!("pslite-{name}"))
            .spawn(move || body(&van))
            .map_err(|error| NodeError::Config(format!("cannot start a thread: {error}")))?;
        let mut threads = lock(&self.threads);
        // Those whose place another took.
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
        Ok(())
    }

    /// Time since the van started: the clock of all state machines of this node.
    pub(crate) fn now(&self) -> Duration {
        self.state.now()
    }

    pub(crate) const fn settings(&self) -> &Settings {
        &self.state.settings
    }

    fn my_id(&self) -> NodeId {
        self.state.my_id()
    }

    // ---- calls of the application ---------------------------------------------------------

    /// Sends a message that the application made.
    ///
    /// # Errors
    /// As [`RunningNode::send`], or there is no such node.
    pub(crate) fn send_made(&self, message: Message) -> Result<()> {
        let to = message.meta.recver;
        let known = self.with_cluster(|cluster, _| cluster.ids_of(to));
        if known.is_none_or(|ids| ids != [to]) {
            return Err(NodeError::Invalid(format!("{to} is no node of this job")));
        }
        self.send(message)
    }

    /// Tells scheduler and servers that this customer sends no more requests.
    pub(crate) fn leaving(&self, customer_id: i32) {
        self.event(Event::Leaving { customer_id });
    }

    /// True if the node advertises that it is ours.
    fn is_ours(&self, id: NodeId) -> bool {
        self.job.lock().cluster.is_ours(id)
    }

    /// Back-pressure: waits while the peer has too much to confirm, which is kept in memory.
    fn wait_for_room(&self, to: NodeId) -> Result<()> {
        let Some(resender) = &self.resender else { return Ok(()) };
        while lock(resender).is_full(to) {
            if self.stopping.load(Ordering::Relaxed) {
                return Err(stopped());
            }
            self.job.check_peer(to)?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Sends a message without waiting for more room than its mode says.
    fn try_send(&self, to: NodeId, message: &Message) -> std::result::Result<(), SendError> {
        if let Some(native) =
            self.native.as_ref().filter(|native| native.transport.is_connected(to))
            && let Some(result) = self.post_native(native, to, message)
        {
            return result;
        }
        let Some(resender) = &self.resender else {
            return self.post(to, message, mode_of(message));
        };
        let ours = self.is_ours(to);
        let mut message = message.clone();
        let kept = lock(resender).outgoing(self.now(), to, &mut message, ours);
        match self.post(to, &message, mode_of(&message)) {
            // It is sent again.
            Err(SendError::QueueFull) if kept => Ok(()),
            sent => sent,
        }
    }

    fn post(
        &self,
        to: NodeId,
        message: &Message,
        mode: SendMode,
    ) -> std::result::Result<(), SendError> {
        self.with_encoded(message, to, |meta| {
            if self.goes_back(to, &message.meta) {
                return self.transport.reply(to, self.my_id(), meta, &message.data, mode);
            }
            self.transport.send(to, meta, &message.data, message.meta.priority, mode)
        })
        .map(|bytes| self.state.traffic.sent(to, MessageKind::of(&message.meta), bytes))
    }

    /// True if BytePS's nodes send this over the connection that the worker made: all messages to
    /// workers but control messages and commands (zmq_van.h, `NonWorkerSendMsg`).
    fn goes_back(&self, to: NodeId, meta: &wire::Meta) -> bool {
        self.state.settings.dialect.is_byteps()
            && self.state.settings.role != Role::Worker
            && wire::is_worker(to)
            && meta.control().is_none()
            && !meta.simple_app
    }

    /// Encodes into memory that each thread keeps, and sends. Returns the bytes that were sent.
    fn with_encoded(
        &self,
        message: &Message,
        to: NodeId,
        send: impl FnOnce(&[u8]) -> std::result::Result<usize, SendError>,
    ) -> std::result::Result<usize, SendError> {
        thread_local! {
            static META: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        if log::enabled(Level::Trace) {
            log::write(Level::Trace, &format!("to {to}: {:?}", message.meta));
        }
        META.with_borrow_mut(|meta| {
            meta.clear();
            self.state.settings.dialect.encode(&message.meta, &message.data, meta);
            send(meta)
        })
    }

    fn send_error(&self, to: NodeId, error: &SendError) -> NodeError {
        let core = self.job.lock();
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
        read(&self.job.lock().cluster, self.now())
    }

    /// True if this server was emptied and has left the job.
    pub(crate) fn is_released(&self) -> bool {
        self.job.is_released()
    }

    /// True for a node that came to a running job: a server that joined, or a node that replaced a
    /// dead one.
    pub(crate) fn is_recovery(&self) -> bool {
        self.with_cluster(|cluster, _| cluster.me().is_recovery)
    }
}

impl RunningNode for Van {
    fn state(&self) -> &NodeState {
        &self.state
    }

    /// Handles a message to this node itself, without a socket.
    fn send(&self, mut message: Message) -> Result<()> {
        let to = message.meta.recver;
        let me = self.my_id();
        message.meta.sender = me;
        self.job.check_peer(to)?;
        if to == me {
            // Not at once: the caller may hold locks that the customer's code needs.
            let _ = self.dispatch(message, None);
            return Ok(());
        }
        let sent = match mode_of(&message) {
            SendMode::Queue => self.send_or_hold(to, message),
            SendMode::Block | SendMode::Control => {
                self.wait_for_room(to)?;
                self.try_send(to, &message)
            }
        };
        sent.map_err(|error| self.send_error(to, &error))
    }

    fn event(&self, event: Event) {
        self.handle_event(event);
    }

    fn read_cluster(&self, read: &mut dyn FnMut(&Cluster, Duration)) {
        self.with_cluster(read);
    }

    fn failure(&self) -> Option<NodeError> {
        self.job.failure()
    }

    fn native(&self) -> Option<&NativeTransport> {
        self.native.as_ref().map(|native| &native.transport)
    }

    fn training(&self) -> &Training {
        &self.training
    }

    fn sort(&self, incoming: NativeIncoming) -> Option<AtOnce> {
        self.incoming(incoming)
    }
}

/// What goes along a tree is sent while messages are handled, so it must not wait for room: two
/// relays could wait for each other. A round of each piece is under way at a time, so it is at most
/// two models. Nor may a worker's own requests wait where it trains on a local model: the turn that
/// sends them answers the program. Each key has one of them under way at a time.
pub(super) const fn mode_of(message: &Message) -> SendMode {
    let meta = &message.meta;
    if meta.payload.is_hop() || meta.background { SendMode::Queue } else { SendMode::Block }
}

/// The way that answers take.
fn answers(settings: &Settings) -> Answers {
    match settings.dialect.is_byteps() {
        false => Answers::OwnWay,
        true => Answers::Back { asks: settings.role == Role::Worker },
    }
}

fn core_failure(reason: &NodeError) -> JobFailure {
    JobFailure { kind: JobFailureKind::PeerLost, text: reason.to_string() }
}

fn stopped() -> NodeError {
    NodeError::Stopped("the node was finalized meanwhile".to_owned())
}

fn error_of(failure: &JobFailure) -> NodeError {
    let text = failure.text.clone();
    match failure.kind {
        JobFailureKind::PeerLost => NodeError::PeerLost(text),
        JobFailureKind::StartTimeout => NodeError::Timeout(text),
        JobFailureKind::Config => NodeError::Config(text),
        JobFailureKind::Remote => NodeError::Remote(text),
    }
}
