//! The settings of a node, read once from the environment (`docs/env.md` lists them all).
//!
//! Reads through a lookup function, because MXNet can override the environment
//! (`ps::Environment::Init`, env.h:34). No I/O, no defaults hidden elsewhere. `reader` makes values
//! of texts, and says what is wrong with those that are none. `names` is the table of all
//! variables; `effects` says which settings do nothing beside others.

mod alike;
mod effects;
mod elastic;
pub mod names;
mod reader;
mod tunnels;

use std::sync::Arc;
use std::time::Duration;

pub use self::elastic::{Elastic, StaticReasons};
use self::reader::SettingsReader;
pub use self::tunnels::TunnelSettings;
use crate::error::{NodeError, Result};
use pslite_core::cluster::RankOrder;
use pslite_core::placement::graph::{NamedGraph, Topology};
use pslite_core::placement::links::PROBE_AFTER;
use pslite_core::store::SumOrder;
use pslite_core::wire::exchange::ExchangeSpec;
use pslite_core::wire::{Dialect, Role, Setting};
use pslite_observe::MetricsFile;
use pslite_observe::log::Level;
use pslite_transport::native::Carriers;
use pslite_web::WebPlace;

/// Finds the text of a setting; `None` if it is not set.
pub type Lookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What the program says of a node before it starts, in addition to the environment (BytePS's
/// `StartPS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramSettings {
    /// In place of `DMLC_ROLE`.
    pub role: Option<Role>,
    /// The rank that it wants; if a node of a job wishes one, all must.
    pub wished_rank: Option<u32>,
    /// Nodes of its role in its process, and in every other: BytePS's groups. Their ranks follow
    /// each other. 1 if not said.
    pub group_size: Option<u16>,
    /// The wire, unless `PSLITE_WIRE` names one.
    pub dialect: Option<Dialect>,
    /// Whether a server holds pushes back ([`pslite_core::kv::gate`]), unless `PSLITE_HOLD_PUSHES`
    /// says.
    pub holds_pushes: Option<bool>,
}

/// What one node was told by its environment.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `DMLC_ROLE`, unless the program says it.
    pub role: Role,
    /// Customers that register as workers: `DMLC_NUM_WORKER`, times the size of groups.
    pub num_workers: usize,
    /// Servers: `DMLC_NUM_SERVER`, times the size of groups.
    pub num_servers: usize,
    /// See [`ProgramSettings::group_size`].
    pub group_size: usize,
    /// See [`ProgramSettings::wished_rank`].
    pub wished_rank: Option<u32>,
    /// `PSLITE_RANK`: the number by which its launcher knows it among the nodes of its role. Ranks
    /// follow these numbers if they can.
    pub launched_as: Option<u32>,
    /// `PSLITE_WIRE`: what this node speaks with its peers.
    pub dialect: Dialect,
    /// `PSLITE_HOLD_PUSHES`: whether a server holds the pushes of a round back until all have
    /// pulled the round before. `None`: as its application asks.
    pub holds_pushes: Option<bool>,
    /// `BYTEPS_ENABLE_MIXED_MODE`, `BYTEPS_ORDERED_HOSTS`: the order of ranks. The scheduler's
    /// counts.
    pub rank_order: RankOrder,
    /// `DMLC_PS_ROOT_URI`.
    pub root_host: String,
    /// `DMLC_PS_ROOT_PORT`.
    pub root_port: u16,
    /// `DMLC_NODE_HOST`.
    pub node_host: Option<String>,
    /// `DMLC_INTERFACE`.
    pub interface: Option<String>,
    /// `PORT`, or `DMLC_PORT` on the wire of BytePS's later releases: a fixed port to listen on.
    pub port: Option<u16>,
    /// `PSLITE_PORT_RANGE`: the ports that the firewall lets through, both ends included.
    pub port_range: Option<(u16, u16)>,
    /// `DMLC_LOCAL`: Unix sockets in place of TCP.
    pub local: bool,
    /// `DMLC_USE_KUBERNETES`: the scheduler listens on all addresses.
    pub kubernetes: bool,
    /// `KUBERNETES_SERVICE_HOST`: this is a pod, and a name may get its address later.
    pub names_may_come: bool,
    /// `DMLC_PS_VAN_TYPE=p3`: messages wait in order of priority.
    pub priority_van: bool,
    /// `DMLC_PS_WATER_MARK`: messages that may wait inside one connection.
    pub water_mark: Option<i32>,
    /// `PS_VERBOSE`.
    pub verbose: i32,
    /// What to log: `PSLITE_LOG`, or as `PS_VERBOSE` says.
    pub log_level: Level,
    /// `PS_RESEND` and `PS_RESEND_TIMEOUT`.
    pub resend: Option<Duration>,
    /// `PS_DROP_MSG`: percent of the received messages to throw away, for tests.
    pub drop_percent: u32,
    /// `PS_HEARTBEAT_INTERVAL`, or our own `PSLITE_HEARTBEAT`, which is at most a quarter of the
    /// timeout if it is not set.
    pub heartbeat_interval: Option<Duration>,
    /// `PS_HEARTBEAT_TIMEOUT`: allows dead nodes to be replaced.
    pub heartbeat_timeout: Option<Duration>,
    /// `PSLITE_SILENCE_LIMIT`: a node of ours that stays silent for that long is dead.
    pub silence_limit: Duration,
    /// `PSLITE_PEER_TIMEOUT`: a node whose connection stays down for that long is dead.
    pub peer_timeout: Duration,
    /// `PSLITE_START_TIMEOUT`.
    pub start_timeout: Option<Duration>,
    /// `PSLITE_REPORT_INTERVAL`: how often to say who is missing.
    pub report_interval: Duration,
    /// `PSLITE_STALL_REPORT`: a round, or a barrier, that has waited for so long is said.
    pub stall_report: Duration,
    /// `PSLITE_RECOVERY_WAIT`: how long the others wait for a replacement.
    pub recovery_wait: Duration,
    /// `PSLITE_TRANSPORT`: what carries data between nodes of ours; `None` is the stock wire.
    pub native: Option<Carriers>,
    /// `PSLITE_CONNECTIONS`: TCP connections to each peer on the native data plane.
    pub connections: u8,
    /// `PSLITE_STORE`: values are in the library's own store, not in MXNet's server.
    pub native_store: bool,
    /// `PSLITE_DETERMINISTIC`: in which order sums are made.
    pub sum_order: SumOrder,
    /// `PSLITE_LEVEL=stock`: advertise nothing, behave as stock does on the wire.
    pub stock_level: bool,
    /// `PSLITE_PLANNING`: where keys are and along which trees rounds go follows what is measured.
    pub planning: bool,
    /// `PSLITE_TOPOLOGY`: the trees along which the rounds of a job of this scheduler go.
    pub topology: Topology,
    /// `PSLITE_SYNC`, on the scheduler: how the job's workers train while deltas travel. `None`:
    /// they push gradients.
    pub exchange: Option<ExchangeSpec>,
    /// `PSLITE_LINKS`: the links of the hosts, by name, and their rates.
    pub links: Option<NamedGraph>,
    /// `PSLITE_TUNNELS`: the port of each host on which connections are passed on between hosts
    /// that have no link.
    pub tunnels: Option<u16>,
    /// `PSLITE_SHARE_INFLOW`: a server of an elastic job lets all workers send to it at the same
    /// rate, and copies out of it before what workers get.
    pub share_inflow: bool,
    /// `PSLITE_PROBE_AFTER`: a link to this node that is idle for so long is probed; `None`: none
    /// is.
    pub probe_after: Option<Duration>,
    /// `PSLITE_ELASTIC`: whether this node follows keys that move, and servers that come and go.
    pub elastic: Elastic,
    /// `PSLITE_ELASTIC_WORKERS`: this node goes on without workers that die, and takes them back.
    pub elastic_workers: bool,
    /// `PSLITE_REPLICAS`: copies of each piece beside the owner's. The scheduler's counts; see
    /// [`Self::copies`].
    pub replicas: Option<u32>,
    /// `PSLITE_JOURNAL`: the scheduler's file, with which it can be started again.
    pub journal: Option<std::path::PathBuf>,
    /// `PSLITE_SCHEDULER_WAIT`: how long nodes wait for a scheduler with a journal to come back.
    pub scheduler_wait: Duration,
    /// `PSLITE_JOIN`: a server that joins a job that runs.
    pub joins: bool,
    /// `PSLITE_SERVER_STATELESS`: this server's application keeps nothing between rounds, so that
    /// its keys may move.
    pub stateless: bool,
    /// `PSLITE_METRICS`: where the numbers of the event list are written, and how often.
    pub metrics: Option<MetricsFile>,
    /// `PSLITE_HTTP`: where this node answers over HTTP; `None`: nowhere.
    pub http: Option<WebPlace>,
    /// `PSLITE_UNPICKLE`: a server's store may hand what it cannot serve to MXNet's own server,
    /// which unpickles it, and so runs code that workers sent.
    pub unpickles: bool,
    /// What other nodes of the job must have alike, as they are told it.
    pub alike: Vec<Setting>,
}

/// How long the others wait for a replacement if neither `PSLITE_RECOVERY_WAIT` nor a longer
/// `PS_HEARTBEAT_TIMEOUT` says otherwise.
const RECOVERY_WAIT_AT_LEAST: Duration = Duration::from_secs(10);

/// Seconds between two signs of life, where nobody set them: several within the silence that is
/// allowed, so that a node that is a little late is not taken for dead.
fn default_heartbeat(timeout: Option<Duration>) -> f64 {
    timeout.map_or(2.0, |timeout| (timeout.as_secs_f64() / 4.0).min(2.0))
}

impl Settings {
    /// What was set by `lookup`, from which these were read, and has no effect beside the rest: a
    /// sentence for each.
    #[must_use]
    pub fn without_effect(&self, lookup: &Lookup) -> Vec<String> {
        effects::without_effect(&SettingsReader { lookup }, self)
    }

    /// True if keys may move in a job of this node: if it was asked to follow them, and its data do
    /// not take the resender's way. That repeats what was lost and keeps no order, and servers that
    /// give each other pieces and copies need one.
    #[must_use]
    pub const fn follows_pieces(&self) -> bool {
        let can = self.resend.is_none() && self.speaks_extensions() && self.group_size == 1;
        self.elastic.moves() && can
    }

    /// Copies of each piece in a job whose scheduler has these settings: what `PSLITE_REPLICAS`
    /// says, else what `PSLITE_ELASTIC` means. `None`: as the number of servers allows.
    #[must_use]
    pub fn copies(&self) -> Option<u32> {
        self.replicas.or_else(|| self.elastic.replicas())
    }

    /// TCP connections from one server to another, at least [`Self::connections`]. Copies, for
    /// which every worker waits, go through queues that pushes fill. One connection whose first
    /// packets met full queues, or that lost some, sends little, and more only over seconds (RFC
    /// 9438, HyStart): rounds of 6 s were rounds of 8 s until then. More than two make it worse in
    /// short rounds: they share what may be under way, and those that the first part of a round
    /// does not need have rested, so TCP begins anew with each of them (docs/placement.md).
    #[must_use]
    pub fn connections_between_servers(&self) -> u8 {
        const OF_COPIES: u8 = 2;
        let copies = self.elastic.insists() || self.copies() == Some(1);
        if copies { self.connections.max(OF_COPIES) } else { self.connections }
    }

    /// True if what stock does not know can be said to peers.
    #[must_use]
    pub const fn speaks_extensions(&self) -> bool {
        !self.stock_level && !self.dialect.is_byteps()
    }

    /// How many parts the keys are in: one for each process of servers.
    #[must_use]
    pub const fn server_groups(&self) -> usize {
        self.num_servers / self.group_size
    }

    /// Reads all settings.
    ///
    /// # Errors
    /// [`NodeError::Config`] names the first variable that is missing or holds nonsense, what it
    /// holds, what is allowed there and what to do.
    pub fn read(lookup: &Lookup, asked: &ProgramSettings) -> Result<Self> {
        let env = SettingsReader { lookup };
        let group_size = usize::from(asked.group_size.unwrap_or(1).max(1));
        let dialect = env.dialect()?.or(asked.dialect).unwrap_or_default();
        env.one_port()?;
        let verbose = env.number("PS_VERBOSE", 0, i32::MIN, i32::MAX)?;
        let heartbeat_timeout = env.seconds("PS_HEARTBEAT_TIMEOUT", None)?;
        let own_heartbeat =
            env.seconds("PSLITE_HEARTBEAT", Some(default_heartbeat(heartbeat_timeout)))?;
        let default_recovery_wait =
            heartbeat_timeout.unwrap_or_default().max(RECOVERY_WAIT_AT_LEAST);
        let resend = env.flag("PS_RESEND", false)?;
        if resend && dialect == Dialect::Byteps {
            // Its number that means "not set" is one of its messages' numbers too, which stock ends
            // at.
            let text =
                "PS_RESEND=1 is not possible with PSLITE_WIRE=byteps; unset it on every node";
            return Err(NodeError::Config(text.to_owned()));
        }
        let resend_timeout = env.number("PS_RESEND_TIMEOUT", 1000, 1, i32::MAX)?;
        let role = asked.role.map_or_else(|| env.role(), Ok)?;
        let (workers, servers) = env.counts(role)?;
        let tunnels = env.tunnels()?;
        let (topology, links) = env.trees(role, tunnels.is_some())?;
        let unpickles = env.unpickles()?;
        let mut settings = Self {
            role,
            num_workers: workers * group_size,
            num_servers: servers * group_size,
            group_size,
            wished_rank: asked.wished_rank,
            launched_as: env
                .text("PSLITE_RANK")
                .map(|_| env.number("PSLITE_RANK", 0, 0, i32::MAX))
                .transpose()?
                .map(|number| number as u32),
            dialect,
            holds_pushes: env.holds_pushes(asked, dialect)?,
            rank_order: env.rank_order()?,
            root_host: env.root_host(role, dialect)?,
            root_port: env.port_of("DMLC_PS_ROOT_PORT", &env.required("DMLC_PS_ROOT_PORT")?)?,
            node_host: env.node_host(dialect)?,
            interface: env.text("DMLC_INTERFACE"),
            port: env.fixed_port(dialect)?,
            port_range: env.port_range("PSLITE_PORT_RANGE")?,
            local: env.flag("DMLC_LOCAL", false)?,
            kubernetes: env.number("DMLC_USE_KUBERNETES", 0, i32::MIN, i32::MAX)? > 0,
            names_may_come: env.text("KUBERNETES_SERVICE_HOST").is_some(),
            priority_van: env.van_type()?,
            water_mark: env
                .text("DMLC_PS_WATER_MARK")
                .map(|_| env.number("DMLC_PS_WATER_MARK", 0, 0, i32::MAX))
                .transpose()?,
            verbose,
            log_level: env.log_level(verbose)?,
            resend: resend.then(|| Duration::from_millis(resend_timeout as u64)),
            drop_percent: env.number("PS_DROP_MSG", 0, 0, 100)? as u32,
            heartbeat_interval: env.seconds("PS_HEARTBEAT_INTERVAL", None)?.or(own_heartbeat),
            heartbeat_timeout,
            silence_limit: env
                .seconds("PSLITE_SILENCE_LIMIT", Some(60.0))?
                .unwrap_or(Duration::MAX),
            peer_timeout: env.seconds("PSLITE_PEER_TIMEOUT", Some(3.0))?.unwrap_or(Duration::MAX),
            start_timeout: env.seconds("PSLITE_START_TIMEOUT", None)?,
            report_interval: env
                .seconds("PSLITE_REPORT_INTERVAL", Some(10.0))?
                .unwrap_or(Duration::MAX),
            stall_report: env.seconds("PSLITE_STALL_REPORT", Some(10.0))?.unwrap_or(Duration::MAX),
            recovery_wait: env
                .seconds("PSLITE_RECOVERY_WAIT", Some(default_recovery_wait.as_secs_f64()))?
                .unwrap_or(Duration::MAX),
            native: env.transport()?,
            connections: env.connections()?,
            native_store: env.native_store()?,
            sum_order: env.sum_order()?,
            stock_level: env.stock_level()?,
            planning: env.flag("PSLITE_PLANNING", true)?,
            topology,
            exchange: env.exchange(role)?,
            links,
            tunnels,
            share_inflow: env.flag("PSLITE_SHARE_INFLOW", true)?,
            probe_after: env.seconds("PSLITE_PROBE_AFTER", Some(PROBE_AFTER.as_secs_f64()))?,
            elastic: env.elastic(StaticReasons {
                priority_van: env.van_type()?,
                replaces_lost: heartbeat_timeout.is_some(),
                foreign_store: !env.native_store()?,
            })?,
            elastic_workers: env.flag("PSLITE_ELASTIC_WORKERS", false)?,
            replicas: env.replicas()?,
            journal: env.text("PSLITE_JOURNAL").map(Into::into),
            scheduler_wait: env
                .seconds("PSLITE_SCHEDULER_WAIT", Some(60.0))?
                .unwrap_or(Duration::MAX),
            joins: env.flag("PSLITE_JOIN", false)?,
            stateless: env.flag("PSLITE_SERVER_STATELESS", false)?,
            metrics: env.metrics()?,
            http: env.http()?,
            unpickles,
            alike: Vec::new(),
        };
        settings.alike = alike::all(&settings, &env);
        Ok(settings)
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
