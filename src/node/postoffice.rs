//! The door of a node: start, finalize, barriers, customers, and what the application asks about
//! the job (postoffice.cc). One of these per node; a process may hold several.

mod exchange;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, mpsc};
use std::time::Duration;

use crate::address;
use crate::batch_session::BatchSession;
use crate::customer::{Customer, Handler, check_frames};
use crate::customers::{CustomerKey, Customers};
use crate::delivery::Delivery;
use crate::error::{NodeError, Result, refuse_forked};
use crate::farewell;
use crate::idle::Idle;
use crate::naming;
use crate::notices;
use crate::running::{NodeRef, NodeSlot, RunningNode, running};
use crate::server::StoreServer;
use crate::settings::{Lookup, ProgramSettings, Settings};
use crate::sync::lock;
use crate::threads;
pub use crate::van::OnFailure;
use crate::van::{Meeting, Van};
use pslite_core::chronicle::ChroniclePart;
use pslite_core::cluster::Event;
use pslite_core::scheduler::Status;
use pslite_core::values::{KeyRange, server_key_ranges};
use pslite_core::wire::balance::BalanceOpen;
use pslite_core::wire::chronicle::ChronicleQuestion;
use pslite_core::wire::{ALL_GROUP, EMPTY, Message, NodeId, Role, id_to_rank};
use pslite_observe::log;
use pslite_transport::fork;
use pslite_transport::heap;

/// How often a server without an application looks whether the job still runs.
const CHECK: Duration = Duration::from_millis(50);

/// The least time that a limit leaves.
const NOW: Duration = Duration::from_millis(1);

/// A node of a job, before, while and after it runs.
pub struct Postoffice {
    lookup: Lookup,
    /// The program's own settings for the node.
    asked: Mutex<ProgramSettings>,
    customers: Arc<Customers>,
    van: RwLock<Option<Arc<Van>>>,
    /// The same, for the customers.
    node: NodeSlot,
    /// Held while the van is made or ended, so that customers that start at once share one van.
    lifecycle: Mutex<Option<Settings>>,
    on_failure: Arc<Mutex<Option<OnFailure>>>,
    /// The scheduler's address in the job that this node has left together with all others.
    left: Mutex<Option<(String, u16)>>,
    /// The customers that are started or just start, and the number of each one's start.
    started: Mutex<BTreeMap<i32, u64>>,
    starts: AtomicU64,
    /// How often it was stopped: a start that was under way meanwhile ends.
    stops: AtomicU64,
}

/// What a node knows of itself.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    /// What it does.
    pub role: Role,
    /// Its id, or [`EMPTY`].
    pub id: NodeId,
    /// Its rank within its role; 0 before the job is complete.
    pub rank: i32,
    /// `DMLC_NUM_WORKER`: where a process has several nodes of a role, the number of processes.
    pub num_workers: usize,
    /// `DMLC_NUM_SERVER`, likewise.
    pub num_servers: usize,
    /// Nodes of one role in a process ([`ProgramSettings::group_size`]); ids and ranks count nodes.
    pub group_size: usize,
    /// Where others find it.
    pub hostname: String,
    /// The port there.
    pub port: i32,
    /// `PS_VERBOSE`.
    pub verbose: i32,
    /// It took the place of a node that died.
    pub is_recovery: bool,
    /// The job is complete and runs.
    pub is_ready: bool,
}

impl Postoffice {
    /// A node that reads its settings by `lookup` when it starts. No thread, no socket yet.
    #[must_use]
    pub fn new(lookup: Lookup) -> Self {
        Self {
            lookup,
            asked: Mutex::default(),
            customers: Arc::new(Customers::default()),
            van: RwLock::default(),
            node: NodeSlot::default(),
            lifecycle: Mutex::new(None),
            on_failure: Arc::new(Mutex::new(None)),
            left: Mutex::default(),
            started: Mutex::default(),
            starts: AtomicU64::new(0),
            stops: AtomicU64::new(0),
        }
    }

    /// Changes the program's settings for the node, for its next start.
    pub fn ask(&self, change: impl FnOnce(&mut ProgramSettings)) {
        change(&mut lock(&self.asked));
    }

    fn read_settings(&self) -> Result<Settings> {
        Settings::read(&self.lookup, &lock(&self.asked))
    }

    /// Sets what is called when the job cannot go on.
    pub fn set_on_failure(&self, on_failure: OnFailure) {
        *lock(&self.on_failure) = Some(on_failure);
    }

    /// Creates a customer; may precede [`Self::start`] and outlive [`Self::finalize`].
    ///
    /// # Errors
    /// The ids are taken, or no thread can be started.
    pub fn customer(&self, app_id: i32, customer_id: i32, handler: Handler) -> Result<Customer> {
        refuse_forked()?;
        Customer::new(
            Arc::clone(&self.customers),
            Arc::clone(&self.node),
            app_id,
            customer_id,
            handler,
        )
    }

    /// Sends a message that the application made. The metadata name the node (`recver`), and the
    /// application and customer there. If it answers a request that this node got, the request
    /// counts as answered.
    ///
    /// # Errors
    /// There is no such node, or it is lost; the message has too many frames; this node is not
    /// started.
    pub fn send(&self, message: Message) -> Result<()> {
        let meta = &message.meta;
        if meta.app_id == EMPTY || meta.control().is_some() {
            let text = "only messages to an application can be sent: app_id says to which";
            return Err(NodeError::Invalid(text.to_owned()));
        }
        if !meta.request
            && !meta.simple_app
            && let Some(mailbox) = self.customers.get(CustomerKey::of_app(meta.app_id))
        {
            mailbox.customer.note_answer(meta);
        }
        let van = self.running()?;
        check_frames(&message)?;
        van.send_made(message)
    }

    /// Registers a customer. Returns when the job is complete and, with `do_barrier`, all nodes are
    /// here (postoffice.cc:32).
    ///
    /// # Errors
    /// The settings or the address are bad, a node was lost meanwhile, or a limit has passed.
    /// [`NodeError::NotStarted`]: this process has left the job at that address together with all
    /// others, and no new scheduler is there. [`NodeError::Invalid`]: the customer was started, and
    /// did not leave. [`NodeError::Stopped`]: [`Self::stop`] came meanwhile. Unless another
    /// customer was started, nothing is left of a start that failed.
    pub fn start(&self, customer_id: i32, do_barrier: bool) -> Result<()> {
        let stops = self.stops();
        let number = self.claim(customer_id)?;
        let registered = self.register(customer_id, do_barrier, stops);
        if registered.is_err() && self.unclaim(customer_id, number) {
            self.stop();
        }
        registered
    }

    /// Notes that the customer starts; the number of the start.
    fn claim(&self, customer_id: i32) -> Result<u64> {
        let number = self.starts.fetch_add(1, Ordering::Relaxed);
        match lock(&self.started).entry(customer_id) {
            Entry::Vacant(entry) => Ok(*entry.insert(number)),
            Entry::Occupied(_) => Err(NodeError::Invalid(format!(
                "customer {customer_id} of this node is started already: finalize it first, or \
                 give another customer"
            ))),
        }
    }

    /// The start with that number has failed. True if no other customer is started.
    fn unclaim(&self, customer_id: i32, number: u64) -> bool {
        let mut started = lock(&self.started);
        // A stop meanwhile has forgotten it, and somebody may have started it again.
        if started.get(&customer_id) == Some(&number) {
            started.remove(&customer_id);
        }
        started.is_empty()
    }

    fn register(&self, customer_id: i32, do_barrier: bool, stops: u64) -> Result<()> {
        let van = self.van_for_start(false, stops)?;
        // Asked before: other customers must not wait while this one registers.
        let again = lock(&self.left).as_ref() == Some(&place_of(van.settings()));
        let registered =
            if again { van.register_again(customer_id) } else { van.register(customer_id) };
        if let Err(NodeError::NotStarted(_)) = registered {
            // Nothing is left of a job that is over.
            self.stop();
        }
        registered?;
        // The others met before a server came that joins, or a node that takes a dead one's place.
        if do_barrier && !van.is_recovery() {
            van.barrier(customer_id, ALL_GROUP, Meeting::Start)?;
        }
        Ok(())
    }

    fn stops(&self) -> u64 {
        self.stops.load(Ordering::Acquire)
    }

    /// The van, made if there is none. `stops`: when this start began.
    fn van_for_start(&self, standing_scheduler: bool, stops: u64) -> Result<Arc<Van>> {
        let started = self.start_van(standing_scheduler, stops);
        if let Err(error @ (NodeError::Config(_) | NodeError::Address(_))) = &started {
            farewell::say_why(&self.lookup, &lock(&self.asked).clone(), error);
        }
        started
    }

    fn start_van(&self, standing_scheduler: bool, stops: u64) -> Result<Arc<Van>> {
        refuse_forked()?;
        if let Ok(van) = self.running() {
            return Ok(van);
        }
        // First: a misspelt name may be what keeps the settings from being read.
        notices::say_unknown(&self.lookup);
        let settings = self.read_settings()?;
        log::set_level(settings.log_level);
        // Without the lock: it may take long, and who ends the node, or asks about it, must not
        // wait.
        let waited = naming::wait_for_names(&settings, &|| self.stops() != stops)?;
        let mut lifecycle = lock(&self.lifecycle);
        // A stop found no van to end. One that comes from here on waits for the lock, and finds it.
        if self.stops() != stops {
            return Err(naming::stopped());
        }
        if let Ok(van) = self.running() {
            return Ok(van);
        }
        let mut settings = self.read_settings()?;
        // What the name took counts.
        settings.start_timeout =
            settings.start_timeout.map(|limit| limit.saturating_sub(waited).max(NOW));
        log::set_level(settings.log_level);
        notices::say_without_effect(&settings, &self.lookup);
        *lifecycle = Some(settings.clone());
        let on_failure = Arc::clone(&self.on_failure);
        let van = Van::start(
            settings,
            Arc::clone(&self.customers),
            standing_scheduler,
            Box::new(move |reason| {
                if let Some(tell) = &*lock(&on_failure) {
                    tell(reason);
                }
            }),
        )?;
        let node: NodeRef = Arc::clone(&van) as _;
        *self.node.write().unwrap_or_else(PoisonError::into_inner) = Some(node);
        *self.van.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&van));
        Ok(van)
    }

    /// Leaves the job (postoffice.cc:84). Customer 0 stops the node, others only leave the barrier.
    ///
    /// # Errors
    /// A node was lost before all were here. This node is stopped nevertheless.
    pub fn finalize(&self, customer_id: i32, do_barrier: bool) -> Result<()> {
        let van = match self.running() {
            Ok(van) => van,
            // Another customer ended the node first: nothing is left to leave.
            Err(_) if customer_id != 0 => return Ok(()),
            Err(error) => return Err(error),
        };
        let exchanged = self.finish_exchange(&van, customer_id);
        let result = if do_barrier {
            match van.barrier(customer_id, ALL_GROUP, Meeting::End) {
                // As above, and this one was still waiting for the others.
                Err(NodeError::Stopped(_)) if customer_id != 0 => Ok(()),
                left => left,
            }
        } else {
            van.leaving(customer_id);
            van.failure().map_or(Ok(()), Err)
        };
        let result = result.and(exchanged);
        lock(&self.started).remove(&customer_id);
        if customer_id != 0 {
            return result;
        }
        if do_barrier {
            *lock(&self.left) = Some(place_of(van.settings()));
        }
        van.finalizing();
        self.stop();
        result
    }

    /// A worker's customer is about to leave: what it has changed and not sent goes to the servers.
    fn finish_exchange(&self, van: &Van, customer_id: i32) -> Result<()> {
        match van.settings().role {
            Role::Worker => self.customers.finish_exchange(customer_id),
            _ => Ok(()),
        }
    }

    /// Stops the node if it runs or just starts, without waiting for anybody.
    pub fn stop(&self) {
        if fork::is_forked() {
            return;
        }
        let _lifecycle = lock(&self.lifecycle);
        self.stops.fetch_add(1, Ordering::AcqRel);
        lock(&self.started).clear();
        let van = self.van.write().unwrap_or_else(PoisonError::into_inner).take();
        self.node.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(van) = van {
            van.stop();
            self.customers.broadcast(&Delivery::Failed(NodeError::Stopped(
                "the node was finalized before the request was answered".to_owned(),
            )));
            self.customers.forget_parked();
        }
    }

    /// Waits until every member of the group has come here too (postoffice.cc:142). `leaving`: this
    /// customer sends no more requests.
    ///
    /// # Errors
    /// This node is not in the group, or a member was lost.
    pub fn barrier(&self, customer_id: i32, group: i32, leaving: bool) -> Result<()> {
        let van = self.running()?;
        if leaving {
            self.finish_exchange(&van, customer_id)?;
            van.leaving(customer_id);
        }
        self.customers.drop_ahead();
        van.training().barrier();
        van.barrier(customer_id, group, Meeting::Between)
    }

    /// Takes part in the session of that name, which gives batches to the workers of this job
    /// (`docs/lbbsp.md`). `open.instance` is chosen here. `measured`: the library measures how long
    /// each batch takes.
    ///
    /// # Errors
    /// The node is not started or no worker; the scheduler is not ours, refuses, or gives no
    /// answer.
    pub fn open_batch_session(
        &self,
        name: &str,
        open: &BalanceOpen,
        measured: bool,
    ) -> Result<BatchSession> {
        let node: NodeRef = self.running()?;
        let open = BalanceOpen { instance: address::incarnation() | 1, ..open.clone() };
        BatchSession::open(&node, name, open, measured)
    }

    /// Ends the opening of the session of that name for which another thread waits, if there is
    /// one: it fails with [`NodeError::Stopped`].
    pub fn cancel_batch_session(&self, name: &str) {
        if let Ok(van) = self.running() {
            let node: NodeRef = van;
            BatchSession::cancel(&node, name);
        }
    }

    /// Runs a scheduler without an application until every node has come and left.
    ///
    /// # Errors
    /// As [`Self::start`], and what ended the job early.
    pub fn serve_scheduler(&self) -> Result<()> {
        let van = self.van_for_start(true, self.stops())?;
        let settings = van.settings();
        if settings.role != Role::Scheduler {
            return Err(NodeError::Config("DMLC_ROLE must be scheduler here".to_owned()));
        }
        let result = van.register(0).and_then(|()| van.wait_for_end());
        van.finalizing();
        self.stop();
        result
    }

    /// Runs a server without an application, on the library's own store, until a worker stops it.
    ///
    /// # Errors
    /// As [`Self::start`], what ended the job early, or a command that cannot be obeyed and whose
    /// sender cannot be told.
    pub fn serve_server(&self) -> Result<()> {
        let stops = self.stops();
        let (tell, told) = mpsc::channel();
        let customer = self.customer(0, 0, Box::new(|_| {}))?;
        customer.handle().attach_server();
        customer.handle().attach_store_server(StoreServer::alone(move |result| {
            let _ = tell.send(result); // Nobody listens any more: it has ended.
        }));
        let claimed = self.claim(0).and_then(|_| self.register(0, false, stops));
        let served = claimed.and_then(|()| self.serve_until(&told));
        if let Err(error) = &served {
            self.give_up(error);
            self.stop();
        }
        served
    }

    /// Tells the other nodes why this server ends. Otherwise they would only see that the
    /// connection is gone.
    fn give_up(&self, error: &NodeError) {
        if let Ok(van) = self.running() {
            let rank = van.with_cluster(|cluster, _| id_to_rank(cluster.me().id));
            van.event(Event::CannotGoOn(format!("server {rank} ended: {error}")));
        }
    }

    fn serve_until(&self, told: &mpsc::Receiver<std::result::Result<(), String>>) -> Result<()> {
        let van = self.running()?;
        if van.settings().role != Role::Server {
            return Err(NodeError::Config("DMLC_ROLE must be server here".to_owned()));
        }
        if !van.settings().native_store {
            let text = "PSLITE_STORE=mxnet has no effect on a server without MXNet, but that keys \
                        stay: it has the library's own store";
            notices::say(text.to_owned());
        }
        if !van.is_recovery() {
            van.barrier(0, ALL_GROUP, Meeting::Start)?;
        }
        let mut idle = Idle::default();
        loop {
            if idle.look(van.now(), threads::process_ran()) {
                heap::trim();
            }
            match told.recv_timeout(CHECK) {
                // The others do not wait in their exit barrier for a server that was emptied.
                Ok(Ok(())) => return self.finalize(0, !van.is_released()),
                Ok(Err(text)) => return Err(NodeError::Invalid(text)),
                Err(_) => van.failure().map_or(Ok(()), Err)?,
            }
            if self.running().is_err() {
                return Err(NodeError::Stopped("the node was stopped while it served".to_owned()));
            }
        }
    }

    fn running(&self) -> Result<Arc<Van>> {
        running(&self.van)
    }

    /// What this node knows of itself and of the job.
    ///
    /// # Errors
    /// The settings were never read.
    pub fn describe(&self) -> Result<NodeInfo> {
        refuse_forked()?;
        if let Ok(van) = self.running() {
            let settings = van.settings();
            return Ok(van.with_cluster(|cluster, _| {
                let me = cluster.me();
                NodeInfo {
                    role: settings.role,
                    id: me.id,
                    rank: if me.id == EMPTY { 0 } else { id_to_rank(me.id) },
                    num_workers: settings.num_workers / settings.group_size,
                    num_servers: settings.server_groups(),
                    group_size: settings.group_size,
                    hostname: me.hostname.clone(),
                    port: me.port,
                    verbose: settings.verbose,
                    is_recovery: me.is_recovery,
                    is_ready: cluster.is_ready(),
                }
            }));
        }
        let settings = match lock(&self.lifecycle).clone() {
            Some(settings) => settings,
            None => self.read_settings()?,
        };
        Ok(NodeInfo {
            role: settings.role,
            id: EMPTY,
            rank: 0,
            num_workers: settings.num_workers / settings.group_size,
            num_servers: settings.server_groups(),
            group_size: settings.group_size,
            hostname: String::new(),
            port: 0,
            verbose: settings.verbose,
            is_recovery: false,
            is_ready: false,
        })
    }

    /// All that this node has counted ([`pslite_observe::EVENTS`]): one JSON object, as
    /// `PSLITE_METRICS` writes it (`docs/metrics.md`).
    ///
    /// # Errors
    /// The node is not started.
    pub fn metrics(&self) -> Result<String> {
        Ok(self.running()?.metrics())
    }

    /// How the job is, as this node knows it; the scheduler knows most. May be called by any
    /// thread: it keeps the node from its work for as long as it takes to look, some microseconds
    /// for each node of the job.
    ///
    /// # Errors
    /// The node is not started.
    pub fn job_status(&self) -> Result<Status> {
        Ok(self.running()?.job_status())
    }

    /// What has happened in the job, and how long its rounds took: what comes after the answer
    /// before, 512 events and points at most. May be called by any thread, at any time.
    ///
    /// # Errors
    /// The node is not started, or is not the scheduler, which alone knows.
    pub fn chronicle(&self, asked: ChronicleQuestion) -> Result<ChroniclePart> {
        self.running()?.chronicle(asked).ok_or_else(|| {
            NodeError::Invalid("only the scheduler keeps what happens in a job".to_owned())
        })
    }

    /// The same as an OpenMetrics 1.0 text, which Prometheus reads; of a scheduler also how the job
    /// is, and what the other nodes have counted if its settings say that it shows that
    /// (`docs/metrics.md`).
    ///
    /// # Errors
    /// The node is not started.
    pub fn openmetrics(&self) -> Result<String> {
        Ok(self.running()?.openmetrics())
    }

    /// The ids behind a group or an id: workers, then servers, then the scheduler
    /// (postoffice.cc:44).
    ///
    /// # Errors
    /// The node is not started, or there is no such group.
    pub fn node_ids(&self, group: i32) -> Result<Vec<NodeId>> {
        self.running()?.with_cluster(|cluster, _| cluster.ids_of(group)).ok_or_else(|| {
            NodeError::Invalid(format!("{group} is neither a node of this job nor a group"))
        })
    }

    /// The nodes that were silent for that long (postoffice.cc:196), and those known to be lost.
    ///
    /// # Errors
    /// The node is not started.
    pub fn dead_nodes(&self, timeout: Duration) -> Result<Vec<NodeId>> {
        Ok(self.running()?.with_cluster(|cluster, now| cluster.dead_nodes(now, timeout)))
    }

    /// One key range for each server, or process of servers (postoffice.cc:169).
    ///
    /// # Errors
    /// The settings were never read.
    pub fn server_key_ranges(&self) -> Result<Vec<KeyRange>> {
        Ok(server_key_ranges(self.describe()?.num_servers))
    }
}

fn place_of(settings: &Settings) -> (String, u16) {
    (settings.root_host.clone(), settings.root_port)
}

impl Drop for Postoffice {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests;
