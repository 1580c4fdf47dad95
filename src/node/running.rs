//! The running node as its customers know it. `NodeState` is what anybody may read at any time;
//! through `RunningNode` customers send, and ask and tell the membership. The van is a
//! `RunningNode`; tests have others. May name settings, `training`, state machines of `core` and
//! the native transport; must not name the van or a customer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::error::{NodeError, Result, refuse_forked};
use crate::lines;
use crate::recipient::AtOnce;
use crate::settings::Settings;
use crate::sync::lock;
use crate::training::Training;
use pslite_core::chronicle::{Chronicle, ChroniclePart, NewEvent, RoundPoint};
use pslite_core::cluster::{Cluster, Event, Tell};
use pslite_core::scheduler::LogLine;
use pslite_core::training::balance::clock::PushedKey;
use pslite_core::wire::chronicle::ChronicleQuestion;
use pslite_core::wire::topic::Topic;
use pslite_core::wire::trees::OVERLAYS_KEPT;
use pslite_core::wire::trees::Overlay;
use pslite_core::wire::word::RoutedPolicy;
use pslite_core::wire::{self, Key, Message, NodeId, Role, SCHEDULER, id_to_rank};
use pslite_observe::Traffic;
use pslite_observe::awake;
use pslite_observe::log::RateLimit;
use pslite_transport::native::{LentMemory, NativeIncoming, NativeTransport};

/// What a customer needs from its node.
pub(crate) trait RunningNode: Send + Sync {
    /// What may be read without a lock.
    fn state(&self) -> &NodeState;

    /// Sends one message of a customer.
    ///
    /// # Errors
    /// The receiver is lost, or the node is stopped.
    fn send(&self, message: Message) -> Result<()>;

    /// Gives the membership an event.
    fn event(&self, event: Event);

    /// Runs `read` once on the membership, with the node's time.
    fn read_cluster(&self, read: &mut dyn FnMut(&Cluster, Duration));

    /// Why the job is over, if it is. From then on nothing is answered. Customers are told once
    /// (`Delivery::Failed`), after this says so: what begins to wait later asks here first. Costs
    /// no lock while no node is lost.
    fn failure(&self) -> Option<NodeError>;

    /// The native data plane, if this node has one.
    fn native(&self) -> Option<&NativeTransport>;

    /// Batch sizes: this worker's sessions, or the scheduler's.
    fn training(&self) -> &Training;

    /// Handles a message that a thread received while it waits. If it is for a customer, returns it
    /// with the customer.
    fn sort(&self, incoming: NativeIncoming) -> Option<AtOnce>;
}

/// The node of a customer.
pub(crate) type NodeRef = Arc<dyn RunningNode>;

/// Where a customer finds its node, if that runs.
pub(crate) type NodeSlot = Arc<RwLock<Option<NodeRef>>>;

/// The node in that slot.
///
/// # Errors
/// It is not started, or was finalized, or this process is a fork of the one that has it.
pub(crate) fn running<N: ?Sized>(slot: &RwLock<Option<Arc<N>>>) -> Result<Arc<N>> {
    refuse_forked()?;
    slot.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(|| {
        NodeError::NotStarted("the node is not started, or was finalized".to_owned())
    })
}

/// What every thread of a started node may read at any time.
pub(crate) struct NodeState {
    pub(crate) settings: Settings,
    pub(crate) traffic: Arc<Traffic>,
    /// Messages that were dropped.
    pub(crate) garbage: RateLimit,
    pub(crate) started: Instant,
    my_id: AtomicI32,
    /// Keys may move in this job.
    elastic: AtomicBool,
    /// The newest policy.
    policy: Mutex<Option<Arc<RoutedPolicy>>>,
    /// The newest overlays that came, as many as are remembered anywhere, by their numbers.
    overlays: Mutex<BTreeMap<u64, Arc<Overlay>>>,
    /// A scheduler's: what has happened in the job. May be locked within the membership's lock, not
    /// the other way round.
    chronicle: Option<Mutex<Chronicle>>,
}

impl NodeState {
    /// For a node that starts now and has that id so far.
    pub(crate) fn new(settings: Settings, my_id: NodeId) -> Self {
        Self {
            traffic: Arc::new(Traffic::new(settings.num_workers, settings.num_servers)),
            garbage: RateLimit::new(Duration::from_secs(5)),
            started: awake::now(),
            my_id: AtomicI32::new(my_id),
            elastic: AtomicBool::new(false),
            policy: Mutex::default(),
            overlays: Mutex::default(),
            chronicle: (settings.role == Role::Scheduler)
                .then(|| Mutex::new(Chronicle::new(on_the_wall()))),
            settings,
        }
    }

    /// Time since the start: the clock of all state machines of this node.
    pub(crate) fn now(&self) -> Duration {
        awake::since(self.started)
    }

    /// My id, or [`wire::EMPTY`] before the job is complete.
    pub(crate) fn my_id(&self) -> NodeId {
        self.my_id.load(Ordering::Relaxed)
    }

    pub(crate) fn set_my_id(&self, id: NodeId) {
        self.my_id.store(id, Ordering::Relaxed);
    }

    /// True if keys may move in this job.
    pub(crate) fn is_elastic(&self) -> bool {
        self.elastic.load(Ordering::Relaxed)
    }

    /// The newest policy of the scheduler.
    pub(crate) fn policy(&self) -> Option<Arc<RoutedPolicy>> {
        lock(&self.policy).clone()
    }

    /// A policy has come: from now on keys may move.
    pub(crate) fn set_policy(&self, policy: Arc<RoutedPolicy>) {
        *lock(&self.policy) = Some(policy);
        self.elastic.store(true, Ordering::Relaxed);
    }

    /// The newest overlays that came, in order: for those that begin now.
    pub(crate) fn overlays(&self) -> Vec<Arc<Overlay>> {
        lock(&self.overlays).values().cloned().collect()
    }

    /// An overlay came.
    pub(crate) fn add_overlay(&self, overlay: Arc<Overlay>) {
        let mut overlays = lock(&self.overlays);
        overlays.insert(overlay.number, overlay);
        while overlays.len() as u64 > OVERLAYS_KEPT {
            overlays.pop_first();
        }
    }

    /// Something has happened: keeps it, if this is the scheduler, and writes its line to the log.
    pub(crate) fn say(&self, event: &NewEvent) {
        if let Some(chronicle) = &self.chronicle {
            let mut chronicle = lock(chronicle);
            chronicle.add(self.now(), on_the_wall(), event.clone());
        }
        lines::event(event);
    }

    /// The same for lines, in order.
    pub(crate) fn say_lines(&self, said: impl IntoIterator<Item = LogLine>) {
        for line in said {
            match line {
                LogLine::Event(event) => self.say(&event),
                LogLine::Step(text) => lines::step(&text),
            }
        }
    }

    /// True if this is the scheduler, and would keep a round point of now.
    pub(crate) fn is_point_due(&self) -> bool {
        self.chronicle.as_ref().is_some_and(|chronicle| lock(chronicle).is_point_due(self.now()))
    }

    /// So long do rounds take now.
    pub(crate) fn add_point(&self, point: RoundPoint) {
        if let Some(chronicle) = &self.chronicle {
            lock(chronicle).add_point(self.now(), point);
        }
    }

    /// What has happened in the job, for a reader that asks so. None: this is not the scheduler.
    pub(crate) fn chronicle(&self, asked: ChronicleQuestion) -> Option<ChroniclePart> {
        self.chronicle.as_ref().map(|chronicle| lock(chronicle).answer(self.now(), asked))
    }

    /// How long rounds took, as far as that is kept. Empty: this is not the scheduler.
    pub(crate) fn round_points(&self) -> Vec<RoundPoint> {
        let kept = self.chronicle.as_ref();
        kept.map_or_else(Vec::new, |chronicle| lock(chronicle).points_since(0).to_vec())
    }

    /// The server that a worker asks for keys of that range. If a process holds several servers:
    /// the one at the same place in it as this node has in its own.
    pub(crate) fn server_of(&self, range: usize) -> NodeId {
        wire::server_id(range * self.settings.group_size + self.place_of(self.my_id()))
    }

    /// True if the two nodes ask and answer each other: they have the same place in their
    /// processes.
    pub(crate) fn deals_with(&self, id: NodeId) -> bool {
        self.place_of(id) == self.place_of(self.my_id())
    }

    /// Which of the nodes of its process it is.
    fn place_of(&self, id: NodeId) -> usize {
        usize::try_from(id_to_rank(id)).unwrap_or(0) % self.settings.group_size
    }
}

/// Now by the clock on the wall, since 1970.
fn on_the_wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Built from the calls above. Each costs one of them at most.
impl dyn RunningNode + '_ {
    pub(crate) fn now(&self) -> Duration {
        self.state().now()
    }

    pub(crate) fn my_id(&self) -> NodeId {
        self.state().my_id()
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.state().settings
    }

    pub(crate) fn traffic(&self) -> &Arc<Traffic> {
        &self.state().traffic
    }

    pub(crate) fn is_elastic(&self) -> bool {
        self.state().is_elastic()
    }

    pub(crate) fn policy(&self) -> Option<Arc<RoutedPolicy>> {
        self.state().policy()
    }

    pub(crate) fn server_of(&self, range: usize) -> NodeId {
        self.state().server_of(range)
    }

    pub(crate) fn deals_with(&self, id: NodeId) -> bool {
        self.state().deals_with(id)
    }

    /// Runs `read` on the membership.
    pub(crate) fn with_cluster<T: Default>(&self, read: impl FnOnce(&Cluster, Duration) -> T) -> T {
        let (mut read, mut result) = (Some(read), T::default());
        self.read_cluster(&mut |cluster, now| {
            if let Some(read) = read.take() {
                result = read(cluster, now);
            }
        });
        result
    }

    /// True if the node advertises that it is ours.
    pub(crate) fn is_ours(&self, id: NodeId) -> bool {
        self.with_cluster(|cluster, _| cluster.is_ours(id))
    }

    /// True if what is sent to that node is kept until the node confirms it, which may be after its
    /// next request.
    pub(crate) fn keeps_sent(&self, to: NodeId) -> bool {
        self.settings().resend.is_some()
            || self.native().is_some_and(|native| native.is_connected(to))
    }

    /// The native data plane, if threads that wait for an answer may receive there. They may not
    /// where priorities count, since then everything goes through the customers' queues.
    pub(crate) fn lets_receive(&self) -> Option<&NativeTransport> {
        self.native().filter(|_| !self.settings().priority_van)
    }

    /// Tells the native plane that several answers are under way: waiting threads alone will not
    /// do.
    pub(crate) fn need_receiver(&self) {
        if let Some(native) = self.native() {
            native.need_receiver();
        }
    }

    /// A worker pushes, and perhaps pulls by the same request: an iteration may be computed by
    /// that. First values are pushed by worker 0, without a pull (kvstore_dist.h, `InitImpl`).
    pub(crate) fn note_push(&self, customer_id: i32, keys: &[u8], pulls_too: bool) {
        let Some(key) = keys.first_chunk().map(|key| Key::from_le_bytes(*key)) else { return };
        let may_set = !pulls_too && self.my_id() == wire::worker_id(0);
        let push = PushedKey { customer_id, key };
        let words = self.training().pushed(|| self.now(), push, may_set);
        if !words.is_empty() {
            self.event(Event::Tell(words));
        }
    }

    /// Tells the scheduler something of a topic.
    pub(crate) fn tell(&self, topic: Topic, bytes: Bytes) {
        self.event(Event::Tell(vec![Tell { to: SCHEDULER, topic, bytes }]));
    }

    /// Makes a thread that receives while it waits check whether it still has to wait.
    pub(crate) fn call_waiting(&self) {
        if let Some(native) = self.native() {
            native.call_waiting();
        }
    }

    /// Memory that may be lent to peers of this host. `None`: no data go through shared memory
    /// here.
    pub(crate) fn lent_memory(&self) -> Option<LentMemory> {
        self.native()?.lent_memory()
    }
}

#[cfg(test)]
pub(crate) mod fake;
