//! The settings of a node, read once from the environment (`docs/env.md` lists them all).
//!
//! Reads through a lookup function, because MXNet can override the environment
//! (`ps::Environment::Init`, env.h:34). No I/O, no defaults hidden elsewhere.

use std::sync::Arc;
use std::time::Duration;

use super::error::{NodeError, Result};
use crate::cluster::RankOrder;
use crate::observe::MetricsFile;
use crate::observe::log::Level;
use crate::placement::links::PROBE_AFTER;
use crate::transport::native::Carriers;
use crate::wire::byteps::HOSTNAME_BYTES;
use crate::wire::{Dialect, Role};

/// Finds the text of a setting; `None` if it is not set.
pub type Lookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What the program says of a node before it starts, in addition to the environment (BytePS's `StartPS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// In place of `DMLC_ROLE`.
    pub role: Option<Role>,
    /// The rank that it wants; if a node of a job wishes one, all must.
    pub wished_rank: Option<u32>,
    /// Nodes of its role in its process, and in every other: BytePS's groups. Their ranks follow each other. 1 if not said.
    pub group_size: Option<u16>,
    /// The wire, unless `PSLITE_WIRE` names one.
    pub dialect: Option<Dialect>,
    /// Whether a server holds pushes back ([`crate::kv::gate`]), unless `PSLITE_HOLD_PUSHES` says.
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
    /// See [`Asked::group_size`].
    pub group_size: usize,
    /// See [`Asked::wished_rank`].
    pub wished_rank: Option<u32>,
    /// `PSLITE_WIRE`: what this node speaks with its peers.
    pub dialect: Dialect,
    /// `PSLITE_HOLD_PUSHES`: whether a server holds the pushes of a round back until all have pulled the round before.
    /// `None`: as its application asks.
    pub holds_pushes: Option<bool>,
    /// `BYTEPS_ENABLE_MIXED_MODE`, `BYTEPS_ORDERED_HOSTS`: the order of ranks. The scheduler's counts.
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
    /// `PS_HEARTBEAT_INTERVAL`, or our own `PSLITE_HEARTBEAT`.
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
    /// `PSLITE_RECOVERY_WAIT`: how long the others wait for a replacement.
    pub recovery_wait: Duration,
    /// `PSLITE_TRANSPORT`: what carries data between nodes of ours; `None` is the stock wire.
    pub native: Option<Carriers>,
    /// `PSLITE_CONNECTIONS`: TCP connections to each peer on the native data plane.
    pub connections: u8,
    /// `PSLITE_STORE`: values are in the library's own store, not in MXNet's server.
    pub native_store: bool,
    /// `PSLITE_DETERMINISTIC`: sums are made in the order of ranks.
    pub deterministic: bool,
    /// `PSLITE_LEVEL=stock`: advertise nothing, behave as stock does on the wire.
    pub stock_level: bool,
    /// `PSLITE_PLANNING`: the scheduler moves keys to where the network carries them best.
    pub planning: bool,
    /// `PSLITE_SHARE_INFLOW`: a server of an elastic job lets all workers send to it at the same rate, and copies out of it
    /// before what workers get.
    pub share_inflow: bool,
    /// `PSLITE_PROBE_AFTER`: a link to this node that is idle for so long is probed; `None`: none is.
    pub probe_after: Option<Duration>,
    /// `PSLITE_ELASTIC`: this node follows keys that move, and servers that come and go.
    pub elastic: bool,
    /// `PSLITE_ELASTIC_WORKERS`: this node goes on without workers that die, and takes them back.
    pub elastic_workers: bool,
    /// `PSLITE_REPLICAS`: copies of each piece beside the owner's. The scheduler's counts.
    pub replicas: Option<u32>,
    /// `PSLITE_JOURNAL`: the scheduler's file, with which it can be started again.
    pub journal: Option<std::path::PathBuf>,
    /// `PSLITE_SCHEDULER_WAIT`: how long nodes wait for a scheduler with a journal to come back.
    pub scheduler_wait: Duration,
    /// `PSLITE_JOIN`: a server that joins a job that runs.
    pub joins: bool,
    /// `PSLITE_SERVER_STATELESS`: this server's application keeps nothing between rounds, so that its keys may move.
    pub stateless: bool,
    /// `PSLITE_METRICS`: where the numbers of the event list are written, and how often.
    pub metrics: Option<MetricsFile>,
}

/// How long the others wait for a replacement if neither `PSLITE_RECOVERY_WAIT` nor a longer
/// `PS_HEARTBEAT_TIMEOUT` says otherwise.
const RECOVERY_WAIT_AT_LEAST: Duration = Duration::from_secs(10);

impl Settings {
    /// True if keys may move in a job of this node: if it was asked to follow them, and its data do not take the
    /// resender's way. That repeats what was lost and keeps no order, and servers that give each other pieces and copies
    /// need one.
    #[must_use]
    pub const fn follows_pieces(&self) -> bool {
        self.elastic && self.resend.is_none() && self.speaks_extensions() && self.group_size == 1
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
    /// [`NodeError::Config`] names the first variable that is missing or holds nonsense.
    pub fn read(lookup: &Lookup, asked: &Asked) -> Result<Self> {
        let env = Reader { lookup };
        let group_size = usize::from(asked.group_size.unwrap_or(1).max(1));
        let dialect = env.dialect()?.or(asked.dialect).unwrap_or_default();
        let verbose = env.number("PS_VERBOSE", 0)?;
        let own_heartbeat = env.seconds("PSLITE_HEARTBEAT", Some(2.0))?;
        let heartbeat_timeout = env.seconds("PS_HEARTBEAT_TIMEOUT", None)?;
        let default_recovery_wait =
            heartbeat_timeout.unwrap_or_default().max(RECOVERY_WAIT_AT_LEAST);
        let resend = env.number("PS_RESEND", 0)? != 0;
        if resend && dialect == Dialect::Byteps {
            // Its number that means "not set" is one of its messages' numbers too, which stock ends at.
            let text = "PS_RESEND=1 is not possible with PSLITE_WIRE=byteps";
            return Err(NodeError::Config(text.to_owned()));
        }
        let resend_timeout = env.number("PS_RESEND_TIMEOUT", 1000)?;
        Ok(Self {
            role: asked.role.map_or_else(|| env.role(), Ok)?,
            num_workers: env.count("DMLC_NUM_WORKER")? * group_size,
            num_servers: env.count("DMLC_NUM_SERVER")? * group_size,
            group_size,
            wished_rank: asked.wished_rank,
            dialect,
            holds_pushes: env.holds_pushes(asked, dialect)?,
            rank_order: env.rank_order()?,
            root_host: env.host("DMLC_PS_ROOT_URI", dialect)?,
            root_port: env.port_of("DMLC_PS_ROOT_PORT", &env.required("DMLC_PS_ROOT_PORT")?)?,
            node_host: env
                .text("DMLC_NODE_HOST")
                .map(|_| env.host("DMLC_NODE_HOST", dialect))
                .transpose()?,
            interface: env.text("DMLC_INTERFACE"),
            port: env.fixed_port(dialect)?,
            port_range: env.port_range("PSLITE_PORT_RANGE")?,
            local: env.number("DMLC_LOCAL", 0)? != 0,
            kubernetes: env.number("DMLC_USE_KUBERNETES", 0)? > 0,
            priority_van: env.van_type()?,
            water_mark: env
                .text("DMLC_PS_WATER_MARK")
                .map(|_| env.number("DMLC_PS_WATER_MARK", 0))
                .transpose()?,
            verbose,
            log_level: env.log_level(verbose)?,
            resend: resend.then(|| Duration::from_millis(resend_timeout.max(1) as u64)),
            drop_percent: env.number("PS_DROP_MSG", 0)?.clamp(0, 100) as u32,
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
            recovery_wait: env
                .seconds("PSLITE_RECOVERY_WAIT", Some(default_recovery_wait.as_secs_f64()))?
                .unwrap_or(Duration::MAX),
            native: env.transport()?,
            connections: env.connections()?,
            native_store: env.native_store()?,
            deterministic: env.number("PSLITE_DETERMINISTIC", 0)? != 0,
            stock_level: env.stock_level()?,
            planning: env.number("PSLITE_PLANNING", 1)? != 0,
            share_inflow: env.number("PSLITE_SHARE_INFLOW", 1)? != 0,
            probe_after: env.seconds("PSLITE_PROBE_AFTER", Some(PROBE_AFTER.as_secs_f64()))?,
            elastic: env.number("PSLITE_ELASTIC", 0)? != 0,
            elastic_workers: env.number("PSLITE_ELASTIC_WORKERS", 0)? != 0,
            replicas: env.replicas()?,
            journal: env.text("PSLITE_JOURNAL").map(Into::into),
            scheduler_wait: env
                .seconds("PSLITE_SCHEDULER_WAIT", Some(60.0))?
                .unwrap_or(Duration::MAX),
            joins: env.number("PSLITE_JOIN", 0)? != 0,
            stateless: env.number("PSLITE_SERVER_STATELESS", 0)? != 0,
            metrics: env.metrics()?,
        })
    }
}

struct Reader<'a> {
    lookup: &'a Lookup,
}

impl Reader<'_> {
    /// An empty text counts as not set, as stock treats DMLC_NODE_HOST (van.cc:282).
    fn text(&self, name: &str) -> Option<String> {
        (self.lookup)(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    fn required(&self, name: &str) -> Result<String> {
        self.text(name).ok_or_else(|| {
            NodeError::Config(format!(
                "{name} is not set; every node of a job needs DMLC_ROLE, DMLC_NUM_WORKER, \
                 DMLC_NUM_SERVER, DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT"
            ))
        })
    }

    /// Stock parses with atoi, where nonsense is 0; we say so instead.
    fn number(&self, name: &str, default: i32) -> Result<i32> {
        let Some(text) = self.text(name) else { return Ok(default) };
        text.parse().map_err(|_| NodeError::Config(format!("{name}={text} is not a whole number")))
    }

    fn count(&self, name: &str) -> Result<usize> {
        let text = self.required(name)?;
        match text.parse::<u32>() {
            Ok(count) if count <= MAX_NODES => Ok(count as usize),
            _ => Err(NodeError::Config(format!(
                "{name}={text} is not a number from 0 to {MAX_NODES}"
            ))),
        }
    }

    /// Seconds, with fractions; 0 and "not set" mean none, unless there is a default.
    fn seconds(&self, name: &str, default: Option<f64>) -> Result<Option<Duration>> {
        let value = match self.text(name) {
            None => default,
            Some(text) => {
                Some(text.parse::<f64>().ok().filter(|s| (0.0..1e9).contains(s)).ok_or_else(
                    || NodeError::Config(format!("{name}={text} is not a number of seconds")),
                )?)
            }
        };
        Ok(value.filter(|seconds| *seconds > 0.0).map(Duration::from_secs_f64))
    }

    fn port_of(&self, name: &str, text: &str) -> Result<u16> {
        text.parse::<u16>()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| NodeError::Config(format!("{name}={text} is not a port (1 to 65535)")))
    }

    fn fixed_port(&self, dialect: Dialect) -> Result<Option<u16>> {
        let name = if dialect == Dialect::Byteps { "DMLC_PORT" } else { "PORT" };
        self.text(name).map(|text| self.port_of(name, &text)).transpose()
    }

    fn port_range(&self, name: &str) -> Result<Option<(u16, u16)>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let wrong =
            || NodeError::Config(format!("{name}={text} is not a range of ports like 9000-9100"));
        let (low, high) = text.split_once(['-', ':']).ok_or_else(wrong)?;
        let low: u16 = low.trim().parse().map_err(|_| wrong())?;
        let high: u16 = high.trim().parse().map_err(|_| wrong())?;
        if low == 0 || low > high { Err(wrong()) } else { Ok(Some((low, high))) }
    }

    fn role(&self) -> Result<Role> {
        let text = self.required("DMLC_ROLE")?;
        match text.as_str() {
            "worker" => Ok(Role::Worker),
            "server" => Ok(Role::Server),
            "scheduler" => Ok(Role::Scheduler),
            _ => Err(NodeError::Config(format!(
                "DMLC_ROLE={text} is none of worker, server, scheduler"
            ))),
        }
    }

    fn dialect(&self) -> Result<Option<Dialect>> {
        let Some(text) = self.text("PSLITE_WIRE") else { return Ok(None) };
        let names = Dialect::ALL.map(Dialect::name).join(", ");
        let wrong = || NodeError::Config(format!("PSLITE_WIRE={text} is none of {names}"));
        Dialect::from_name(&text).map(Some).ok_or_else(wrong)
    }

    /// A host that other nodes are told of.
    fn host(&self, name: &str, dialect: Dialect) -> Result<String> {
        let text = self.required(name)?;
        if dialect.is_byteps() && text.len() > HOSTNAME_BYTES {
            return Err(NodeError::Config(format!(
                "{name}={text} is longer than {HOSTNAME_BYTES} bytes, which is all that PSLITE_WIRE={} has room for",
                dialect.name()
            )));
        }
        Ok(text)
    }

    /// In BytePS's asynchronous mode there are no rounds.
    fn holds_pushes(&self, asked: &Asked, dialect: Dialect) -> Result<Option<bool>> {
        if self.text("PSLITE_HOLD_PUSHES").is_some() {
            return Ok(Some(self.number("PSLITE_HOLD_PUSHES", 0)? != 0));
        }
        let has_rounds = self.number("BYTEPS_ENABLE_ASYNC", 0)? == 0;
        let usual = dialect.is_byteps().then_some(has_rounds);
        Ok(asked.holds_pushes.or(usual).or((!has_rounds).then_some(false)))
    }

    fn rank_order(&self) -> Result<RankOrder> {
        let mixed = self.number("BYTEPS_ENABLE_MIXED_MODE", 0)? != 0;
        match (mixed, self.text("BYTEPS_ORDERED_HOSTS")) {
            (false, None) => Ok(RankOrder::Address),
            (true, None) => Ok(RankOrder::Mixed),
            (false, Some(text)) => {
                // With or without a port.
                let host =
                    |word: &str| word.split(':').next().unwrap_or_default().trim().to_owned();
                let hosts: Vec<String> = text.split(',').map(host).collect();
                let twice = |host: &&String| hosts.iter().filter(|other| other == host).count() > 1;
                match hosts.iter().find(twice) {
                    None => Ok(RankOrder::Hosts(hosts)),
                    Some(host) => Err(NodeError::Config(format!(
                        "BYTEPS_ORDERED_HOSTS={text} names {host} twice"
                    ))),
                }
            }
            (true, Some(_)) => Err(NodeError::Config(
                "BYTEPS_ENABLE_MIXED_MODE and BYTEPS_ORDERED_HOSTS exclude each other".to_owned(),
            )),
        }
    }

    fn van_type(&self) -> Result<bool> {
        match self.text("DMLC_PS_VAN_TYPE").as_deref() {
            None | Some("zmq") => Ok(false),
            Some("p3") => Ok(true),
            Some(other) => Err(NodeError::Config(format!(
                "DMLC_PS_VAN_TYPE={other} is not supported; use zmq or p3"
            ))),
        }
    }

    fn log_level(&self, verbose: i32) -> Result<Level> {
        match self.text("PSLITE_LOG").as_deref() {
            Some("error") => Ok(Level::Error),
            Some("warning") => Ok(Level::Warning),
            Some("info") => Ok(Level::Info),
            Some("verbose") => Ok(Level::Verbose),
            Some("trace") => Ok(Level::Trace),
            Some(other) => Err(NodeError::Config(format!(
                "PSLITE_LOG={other} is none of error, warning, info, verbose, trace"
            ))),
            None => Ok(match verbose {
                ..=0 => Level::Warning,
                1 => Level::Verbose,
                _ => Level::Trace,
            }),
        }
    }

    fn transport(&self) -> Result<Option<Carriers>> {
        match self.text("PSLITE_TRANSPORT").as_deref() {
            Some("zmq") => Ok(None),
            None | Some("auto") => Ok(Some(Carriers::Auto)),
            Some("tcp") => Ok(Some(Carriers::Tcp)),
            Some("shm") => Ok(Some(Carriers::Shm)),
            Some(other) => Err(NodeError::Config(format!(
                "PSLITE_TRANSPORT={other} is none of zmq, auto, tcp, shm"
            ))),
        }
    }

    fn connections(&self) -> Result<u8> {
        let Some(text) = self.text("PSLITE_CONNECTIONS") else { return Ok(1) };
        text.parse().ok().filter(|count| (1..=CONNECTIONS_MAX).contains(count)).ok_or_else(|| {
            NodeError::Config(format!(
                "PSLITE_CONNECTIONS={text} is not a number from 1 to {CONNECTIONS_MAX}"
            ))
        })
    }

    fn native_store(&self) -> Result<bool> {
        match self.text("PSLITE_STORE").as_deref() {
            None | Some("native") => Ok(true),
            Some("mxnet") => Ok(false),
            Some(other) => {
                Err(NodeError::Config(format!("PSLITE_STORE={other} is neither native nor mxnet")))
            }
        }
    }

    fn replicas(&self) -> Result<Option<u32>> {
        match self.text("PSLITE_REPLICAS").as_deref() {
            None => Ok(None),
            Some("0") => Ok(Some(0)),
            Some("1") => Ok(Some(1)),
            Some(other) => {
                Err(NodeError::Config(format!("PSLITE_REPLICAS={other} is neither 0 nor 1")))
            }
        }
    }

    fn metrics(&self) -> Result<Option<MetricsFile>> {
        let Some(text) = self.text("PSLITE_METRICS") else { return Ok(None) };
        let wrong = || {
            let text =
                format!("PSLITE_METRICS={text} is not a file, or a file:seconds like m.jsonl:10");
            NodeError::Config(text)
        };
        MetricsFile::parse(&text).map(Some).ok_or_else(wrong)
    }

    fn stock_level(&self) -> Result<bool> {
        match self.text("PSLITE_LEVEL").as_deref() {
            None | Some("native") => Ok(false),
            Some("stock") => Ok(true),
            Some(other) => {
                Err(NodeError::Config(format!("PSLITE_LEVEL={other} is neither stock nor native")))
            }
        }
    }
}

/// More connections to one peer gain nothing and cost descriptors.
const CONNECTIONS_MAX: u8 = 8;

/// More nodes than that per role are a slip of the pen.
const MAX_NODES: u32 = 100_000;

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
