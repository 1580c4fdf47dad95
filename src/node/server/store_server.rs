//! The store in a running server: passes it the requests and commands of one customer, and sends
//! its answers.
//!
//! Under the preload an application, MXNet's own server, stands behind it. That gets only the
//! commands that do not concern values. When an optimizer comes that the store does not know, the
//! application takes over the values for good.

mod pieces;
mod sending;
mod stalls;

use self::sending::{answer_command, answer_command_with, perform, respond};
use self::stalls::StallWatch;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;

use super::front::{Front, HAND_OVER, Owner};
use super::lending::Lending;
use crate::error::Result;
use crate::files::open_regular;
use crate::running::NodeRef;
use crate::sync::lock;
use pslite_core::cluster::Event;
use pslite_core::server::{ServerOutput, ServerSide};
use pslite_core::store::command::Head;
use pslite_core::store::moving::Due;
use pslite_core::store::profile::{Profiler, Served, TraceFile};
use pslite_core::store::{Answer, Outbound, PART_BYTES, StoreConfig};
use pslite_core::values::spaces::space_begin;
use pslite_core::values::{KvPairs, key_at, server_key_ranges};
use pslite_core::wire::save::{SaveAsked, SaveTold};
use pslite_core::wire::{Frames, Message, Meta, NodeId, Payload};
use pslite_observe::awake;
use pslite_observe::log::{self, Level};
use pslite_observe::{MessageKind, Traffic};

/// Why a further customer is refused.
const ONE_CUSTOMER: &str = "MXNet's own server, in Python, knows one kvstore only; it serves where \
    an optimizer comes that pslite does not have";
const NOTHING: KvPairs = KvPairs { keys: Bytes::new(), vals: Bytes::new(), lens: Bytes::new() };

/// The store of one server customer.
pub(crate) struct StoreServer {
    /// Made with the first message: only then is the rank known.
    served: OnceLock<Serving>,
    has_application: bool,
    /// The application has taken over.
    handed_over: AtomicBool,
    /// It was told to stop.
    stopped: AtomicBool,
    /// It was said why no round goes along a tree.
    says_in_order: AtomicBool,
    /// What the store cannot serve was not handed over, since nothing may be unpickled: each worker
    /// hears it, until an optimizer comes that the store has.
    forbidden: AtomicBool,
    why_forbidden: Mutex<String>,
    /// Called when the command to stop comes, or an error that nobody can be told of.
    on_stop: Box<dyn Fn(std::result::Result<(), String>) + Send + Sync>,
}

/// What a server with a rank has.
struct Serving {
    rank: i32,
    first_key: u64,
    traffic: Arc<Traffic>,
    side: Mutex<ServerSide>,
    /// The command that brought the optimizer.
    optimizer: Mutex<Option<Meta>>,
    profiler: Mutex<Profiler>,
    /// Requests are being recorded: looked at for every one.
    profiles: AtomicBool,
    /// Nanoseconds that requests have taken here.
    busy: AtomicU64,
    /// When to say again which round waits.
    watch: Mutex<StallWatch>,
}

impl StoreServer {
    /// A store in front of an application that serves the same protocol.
    pub(crate) fn with_application() -> Self {
        Self {
            served: OnceLock::new(),
            has_application: true,
            handed_over: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            says_in_order: AtomicBool::new(false),
            forbidden: AtomicBool::new(false),
            why_forbidden: Mutex::default(),
            on_stop: Box::new(|_| {}),
        }
    }

    /// A store alone. `on_stop` is called on a thread of the library.
    pub(crate) fn alone(
        on_stop: impl Fn(std::result::Result<(), String>) + Send + Sync + 'static,
    ) -> Self {
        Self { has_application: false, on_stop: Box::new(on_stop), ..Self::with_application() }
    }

    /// Deals with a request of a worker, or leaves it to the application.
    pub(super) fn take(&self, front: &Front, node: &Result<NodeRef>, message: &Message) -> Owner {
        let is_transfer = matches!(message.meta.payload, Payload::Transfer(_));
        if message.meta.simple_app && Head::from(message.meta.head) == Head::Agree && !is_transfer {
            // Whoever keeps the values: what workers say alike is compared here.
            return self.agree(front, &message.meta);
        }
        if self.handed_over.load(Ordering::Acquire) && !is_transfer {
            return self.handed_over(front, node, &message.meta);
        }
        let serving = match self.serving(front) {
            Ok(serving) => serving,
            Err(error) => {
                log::write(Level::Error, &error.to_string());
                return Owner::Application;
            }
        };
        if let Payload::Transfer(transfer) = &message.meta.payload {
            self.transfer(front, serving, message, transfer);
            return Owner::Store;
        }
        if self.handed_over.load(Ordering::Acquire) {
            // From the beginning: PSLITE_STORE=mxnet.
            return self.handed_over(front, node, &message.meta);
        }
        if message.meta.simple_app {
            return self.command(front, serving, &message.meta);
        }
        if self.forbidden.load(Ordering::Acquire) {
            let error = lock(&self.why_forbidden).clone();
            return self.refuse_request(front, &message.meta, error);
        }
        let mut side = lock(&serving.side);
        if let Some(error) = side.store().cannot_take(&message.meta, &message.data) {
            drop(side);
            return self.cannot_take(front, serving, &message.meta, &error.to_string());
        }
        if let Ok(node) = node {
            side.store_mut().hear(node.now(), &message.meta, &message.data);
        }
        let begin = awake::now();
        let mut out = ServerOutput::default();
        side.request(message.meta.clone(), &message.data, &mut out);
        drop(side);
        let took = awake::since(begin);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        serving.busy.fetch_add(nanos, Ordering::Relaxed);
        serving.traffic.served(message.meta.sender, MessageKind::of(&message.meta), took);
        if serving.profiles.load(Ordering::Relaxed)
            && let Ok(node) = node
        {
            let begin = node.now().saturating_sub(took);
            let event = served(serving, message, &out.sent.answers, begin, took);
            lock(&serving.profiler).served(event);
        }
        perform(front, node, out, None);
        Owner::Store
    }

    /// The application serves. It knows one customer: so others are refused, but may end the job.
    fn handed_over(&self, front: &Front, node: &Result<NodeRef>, request: &Meta) -> Owner {
        let stops = request.simple_app && Head::from(request.head) == Head::Stop;
        if !request.own_keys || stops {
            return Owner::Application;
        }
        let error = format!("customer {}: {ONE_CUSTOMER}", request.customer_id);
        log::write(Level::Error, &error);
        respond(front, node, Answer { request: Meta { error, ..request.clone() }, kv: NOTHING });
        Owner::Store
    }

    /// True if no application stands behind it.
    pub(crate) const fn is_alone(&self) -> bool {
        !self.has_application
    }

    /// How long requests have taken here so far.
    pub(crate) fn busy(&self) -> Duration {
        let busy = self.served.get().map(|serving| serving.busy.load(Ordering::Relaxed));
        Duration::from_nanos(busy.unwrap_or(0))
    }

    /// What an operator asks of the values here. `None`: the application has them.
    pub(crate) fn saved(&self, asked: SaveAsked) -> Option<SaveTold> {
        if self.handed_over.load(Ordering::Acquire) {
            return None;
        }
        let serving = self.served.get();
        Some(
            serving.map_or_else(SaveTold::default, |serving| {
                lock(&serving.side).store_mut().saved(asked)
            }),
        )
    }

    /// A node is gone, or another process has its id.
    pub(crate) fn forget_node(&self, node: NodeId) {
        if let Some(serving) = self.served.get() {
            lock(&serving.side).store_mut().forget_node(node);
        }
    }

    /// Says which round has waited for long.
    pub(super) fn report_stalls(&self, front: &Front) {
        let (Ok(node), Some(serving)) = (front.node(), self.served.get()) else { return };
        if !self.handed_over.load(Ordering::Acquire) {
            stalls::report(&serving.watch, &serving.side, &node);
        }
    }

    fn serving(&self, front: &Front) -> Result<&Serving> {
        if let Some(serving) = self.served.get() {
            return Ok(serving);
        }
        let node = front.node()?;
        let settings = node.settings();
        if self.has_application && !settings.native_store {
            self.handed_over.store(true, Ordering::Release);
        }
        let rank = node.with_cluster(|cluster, _| pslite_core::wire::id_to_rank(cluster.me().id));
        let ranges = server_key_ranges(settings.num_servers);
        let routed = node.policy();
        let policy = routed.as_ref().map(|routed| &routed.policy);
        // One that joined has no range of its own.
        let first_key = usize::try_from(rank).ok().and_then(|rank| ranges.get(rank));
        let first_key = first_key.map_or(0, |range| range.begin);
        let workers = policy.map_or(settings.num_workers, |policy| policy.workers as usize);
        let config = StoreConfig {
            workers,
            servers: settings.num_servers,
            id: node.my_id(),
            order: settings.sum_order,
            elastic: node.is_elastic(),
            replicas: policy.map_or(0, |policy| policy.replicas),
            part_bytes: PART_BYTES,
        };
        let mut side = ServerSide::new(config);
        let store = side.store_mut();
        if let Some(memory) = node.lent_memory() {
            store.use_memory(Arc::new(Lending(memory)));
        }
        if let Some(spec) = policy.as_ref().and_then(|policy| policy.exchange)
            && let Err(error) = store.exchange(&spec)
        {
            // Each push is refused with it.
            log::write(Level::Error, &error.to_string());
        }
        for overlay in node.state().overlays() {
            store.overlay(&overlay, &mut Outbound::default());
        }
        Ok(self.served.get_or_init(|| Serving {
            rank,
            first_key,
            traffic: Arc::clone(node.traffic()),
            side: Mutex::new(side),
            optimizer: Mutex::default(),
            profiler: Mutex::default(),
            profiles: AtomicBool::new(false),
            busy: AtomicU64::new(0),
            watch: Mutex::new(StallWatch::new(settings.stall_report)),
        }))
    }

    fn command(&self, front: &Front, serving: &Serving, meta: &Meta) -> Owner {
        let head = Head::from(meta.head);
        match head {
            Head::Controller => return self.optimizer(front, serving, meta),
            Head::Profiler => return self.profiler(front, serving, meta),
            Head::Stop => {
                (self.on_stop)(Ok(()));
                if self.stopped.swap(true, Ordering::AcqRel) {
                    answer_command(front, meta, "");
                    return Owner::Store;
                }
            }
            _ => match self.obey(front, serving, meta) {
                Ok(Due::Now) => {}
                Ok(Due::Later) => {
                    if self.has_application {
                        let meta = Meta { sender: HAND_OVER, ..meta.clone() };
                        front.pass(Message { meta, data: Frames::new() });
                    }
                    return Owner::Store;
                }
                Err(error) => return self.refuse(front, meta, &error.to_string()),
            },
        }
        if self.has_application {
            return Owner::Application;
        }
        answer_command(front, meta, "");
        Owner::Store
    }

    /// A worker says what it makes, and is told whether all say the same.
    fn agree(&self, front: &Front, meta: &Meta) -> Owner {
        let serving = match self.serving(front) {
            Ok(serving) => serving,
            Err(error) => {
                log::write(Level::Error, &error.to_string());
                return Owner::Application;
            }
        };
        let mut out = ServerOutput::default();
        let told = lock(&serving.side).store_mut().agree(meta, &mut out.sent);
        perform(front, &front.node(), out, None);
        let (body, error) = match told {
            Ok(body) => (body, String::new()),
            Err(error) => (Bytes::new(), error.to_string()),
        };
        answer_command_with(front, meta, body, &error);
        Owner::Store
    }

    fn optimizer(&self, front: &Front, serving: &Serving, meta: &Meta) -> Owner {
        let side = &serving.side;
        match self.obey(front, serving, meta) {
            Ok(due) => {
                *lock(&serving.optimizer) = Some(meta.clone());
                self.forbidden.store(false, Ordering::Release);
                if due == Due::Now {
                    answer_command(front, meta, "");
                }
                Owner::Store
            }
            Err(error) if self.has_application && !may_unpickle(front) => {
                self.forbid(front, meta, &error.to_string())
            }
            Err(error)
                if self.has_application
                    && (meta.own_keys || !lock(side).store().is_shared_by_all()) =>
            {
                self.refuse(front, meta, &format!("{error}; {ONE_CUSTOMER}"))
            }
            Err(error) if self.has_application && !lock(side).store().has_open_rounds() => {
                self.hand_over(front, side, &error.to_string());
                Owner::Application
            }
            Err(error) => self.refuse(front, meta, &error.to_string()),
        }
    }

    /// MXNet's own profiler has nothing to record: so it is not told.
    fn profiler(&self, front: &Front, serving: &Serving, meta: &Meta) -> Owner {
        let mut profiler = lock(&serving.profiler);
        let file = match profiler.command(&meta.body) {
            Ok(file) => file,
            Err(error) => return self.refuse(front, meta, &error.to_string()),
        };
        serving.profiles.store(profiler.records(), Ordering::Relaxed);
        drop(profiler);
        let error = file.and_then(|file| write_trace(serving.rank, &file).err());
        if let Some(error) = &error {
            log::write(Level::Error, error);
        }
        answer_command(front, meta, error.as_deref().unwrap_or(""));
        Owner::Store
    }

    /// A command that cannot be obeyed. A worker of ours is told; a stock one takes every answer
    /// for a success and would train with something else than it asked for, so the server ends
    /// instead.
    fn refuse(&self, front: &Front, meta: &Meta, error: &str) -> Owner {
        log::write(Level::Error, error);
        let told = front.node().is_ok_and(|node| node.is_ours(meta.sender));
        if !told {
            (self.on_stop)(Err(error.to_owned()));
        }
        answer_command(front, meta, error);
        Owner::Store
    }

    /// The store cannot serve what that command asks for, and MXNet's own server, which could,
    /// would unpickle it.
    fn forbid(&self, front: &Front, meta: &Meta, error: &str) -> Owner {
        let error = self.forbid_from_now_on(error);
        if let Ok(node) = front.node()
            && !node.is_ours(meta.sender)
        {
            node.event(Event::CannotGoOn(error.clone()));
        }
        self.refuse(front, meta, &error)
    }

    fn forbid_from_now_on(&self, error: &str) -> String {
        let text = format!(
            "{error}; MXNet's own server would unpickle it, in Python, which PSLITE_UNPICKLE=0 \
             forbids on this server (docs/security.md): choose an optimizer that the store has, \
             or unset that variable"
        );
        lock(&self.why_forbidden).clone_from(&text);
        self.forbidden.store(true, Ordering::Release);
        text
    }

    /// A key comes that the optimizer cannot update here. The application takes over if nothing is
    /// lost by that, or the request is refused.
    fn cannot_take(&self, front: &Front, serving: &Serving, request: &Meta, error: &str) -> Owner {
        if self.has_application && !may_unpickle(front) {
            let error = self.forbid_from_now_on(error);
            log::write(Level::Error, &error);
            return self.refuse_request(front, request, error);
        }
        let optimizer = lock(&serving.optimizer).clone();
        if let Some(optimizer) = optimizer.filter(|_| self.has_application)
            && lock(&serving.side).store().is_shared_by_all()
            && lock(&serving.side).store().is_only_values()
        {
            self.hand_over(front, &serving.side, error);
            let meta = Meta { sender: HAND_OVER, ..optimizer };
            front.pass(Message { meta, data: Frames::new() });
            return Owner::Application;
        }
        log::write(Level::Error, error);
        self.refuse_request(front, request, error.to_owned())
    }

    /// A request that cannot be served: its worker is told, or, if it is stock, the server ends.
    fn refuse_request(&self, front: &Front, request: &Meta, error: String) -> Owner {
        let node = front.node();
        if !node.as_ref().is_ok_and(|node| node.is_ours(request.sender)) {
            (self.on_stop)(Err(error.clone()));
            if let (true, Ok(node)) = (self.has_application, &node) {
                node.event(Event::CannotGoOn(error.clone()));
            }
        }
        let request = Meta { error, ..request.clone() };
        respond(front, &front.node(), Answer { request, kv: KvPairs::default() });
        Owner::Store
    }

    /// Gives all values to the application, by the pushes with which workers would have.
    fn hand_over(&self, front: &Front, side: &Mutex<ServerSide>, why: &str) {
        let text = format!("{why}; MXNet's own server takes over, in Python");
        log::write(Level::Info, &text);
        let pushes = lock(side).store_mut().give_away();
        self.handed_over.store(true, Ordering::Release);
        for (meta, frames) in pushes {
            let meta = Meta { sender: HAND_OVER, ..meta };
            front.pass(Message { meta, data: frames.into_iter().collect() });
        }
    }
}

/// True unless `PSLITE_UNPICKLE=0`.
fn may_unpickle(front: &Front) -> bool {
    front.node().is_ok_and(|node| node.settings().unpickles)
}

fn served(
    serving: &Serving,
    message: &Message,
    answers: &[Answer],
    begin: Duration,
    took: Duration,
) -> Served {
    let meta = &message.meta;
    let key = message.data.first().and_then(|keys| key_at(keys, 0)).unwrap_or(0);
    let came: usize = message.data.iter().skip(1).map(Bytes::len).sum();
    let went: usize = answers.iter().map(|answer| answer.kv.vals.len()).sum();
    Served {
        what: match (meta.push, meta.pull) {
            (true, true) => "push-pull",
            (true, false) => "push",
            _ => "pull",
        },
        key: key.wrapping_sub(space_begin(key, serving.first_key)) as i64,
        bytes: came + went,
        from: meta.sender,
        begin,
        took,
    }
}

/// Writes `rank<N>_<file>` in the folder of this process, as MXNet does.
fn write_trace(rank: i32, file: &TraceFile) -> std::result::Result<(), String> {
    if file.name.contains('/') {
        return Err(format!("{:?} is no name of a file in the server's folder", file.name));
    }
    let name = format!("rank{rank}_{}", file.name);
    let mut options = OpenOptions::new();
    let open = open_regular(Path::new(&name), options.write(true).create(true).truncate(true));
    open.and_then(|mut open| open.write_all(file.content.as_bytes()))
        .map_err(|error| format!("cannot write {name}: {error}"))
}
