//! Settings from texts: each method reads what its name says, and its error names the variable and what it would take.
//! Touches nothing but the lookup function.

use std::time::Duration;

use super::{Asked, Lookup};
use crate::cluster::RankOrder;
use crate::node::error::{NodeError, Result};
use crate::observe::MetricsFile;
use crate::observe::log::Level;
use crate::transport::native::Carriers;
use crate::wire::byteps::HOSTNAME_BYTES;
use crate::wire::{Dialect, Role};

/// More connections to one peer gain nothing and cost descriptors.
const CONNECTIONS_MAX: u8 = 8;

/// More nodes than that per role are a slip of the pen.
const MAX_NODES: u32 = 100_000;

/// Finds settings by their names.
pub(super) struct Reader<'a> {
    pub(super) lookup: &'a Lookup,
}

impl Reader<'_> {
    /// An empty text counts as not set, as stock treats DMLC_NODE_HOST (van.cc:282).
    pub(super) fn text(&self, name: &str) -> Option<String> {
        (self.lookup)(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    pub(super) fn required(&self, name: &str) -> Result<String> {
        self.text(name).ok_or_else(|| {
            NodeError::Config(format!(
                "{name} is not set; every node of a job needs DMLC_ROLE, DMLC_NUM_WORKER, \
                 DMLC_NUM_SERVER, DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT"
            ))
        })
    }

    /// Stock parses with atoi, where nonsense is 0; we say so instead.
    pub(super) fn number(&self, name: &str, default: i32) -> Result<i32> {
        let Some(text) = self.text(name) else { return Ok(default) };
        text.parse().map_err(|_| NodeError::Config(format!("{name}={text} is not a whole number")))
    }

    pub(super) fn count(&self, name: &str) -> Result<usize> {
        let text = self.required(name)?;
        match text.parse::<u32>() {
            Ok(count) if count <= MAX_NODES => Ok(count as usize),
            _ => Err(NodeError::Config(format!(
                "{name}={text} is not a number from 0 to {MAX_NODES}"
            ))),
        }
    }

    /// Seconds, with fractions; 0 and "not set" mean none, unless there is a default.
    pub(super) fn seconds(&self, name: &str, default: Option<f64>) -> Result<Option<Duration>> {
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

    pub(super) fn port_of(&self, name: &str, text: &str) -> Result<u16> {
        text.parse::<u16>()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| NodeError::Config(format!("{name}={text} is not a port (1 to 65535)")))
    }

    pub(super) fn fixed_port(&self, dialect: Dialect) -> Result<Option<u16>> {
        let name = if dialect == Dialect::Byteps { "DMLC_PORT" } else { "PORT" };
        self.text(name).map(|text| self.port_of(name, &text)).transpose()
    }

    pub(super) fn port_range(&self, name: &str) -> Result<Option<(u16, u16)>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let wrong =
            || NodeError::Config(format!("{name}={text} is not a range of ports like 9000-9100"));
        let (low, high) = text.split_once(['-', ':']).ok_or_else(wrong)?;
        let low: u16 = low.trim().parse().map_err(|_| wrong())?;
        let high: u16 = high.trim().parse().map_err(|_| wrong())?;
        if low == 0 || low > high { Err(wrong()) } else { Ok(Some((low, high))) }
    }

    pub(super) fn role(&self) -> Result<Role> {
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

    pub(super) fn dialect(&self) -> Result<Option<Dialect>> {
        let Some(text) = self.text("PSLITE_WIRE") else { return Ok(None) };
        let names = Dialect::ALL.map(Dialect::name).join(", ");
        let wrong = || NodeError::Config(format!("PSLITE_WIRE={text} is none of {names}"));
        Dialect::from_name(&text).map(Some).ok_or_else(wrong)
    }

    /// A host that other nodes are told of.
    pub(super) fn host(&self, name: &str, dialect: Dialect) -> Result<String> {
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
    pub(super) fn holds_pushes(&self, asked: &Asked, dialect: Dialect) -> Result<Option<bool>> {
        if self.text("PSLITE_HOLD_PUSHES").is_some() {
            return Ok(Some(self.number("PSLITE_HOLD_PUSHES", 0)? != 0));
        }
        let has_rounds = self.number("BYTEPS_ENABLE_ASYNC", 0)? == 0;
        let usual = dialect.is_byteps().then_some(has_rounds);
        Ok(asked.holds_pushes.or(usual).or((!has_rounds).then_some(false)))
    }

    pub(super) fn rank_order(&self) -> Result<RankOrder> {
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

    pub(super) fn van_type(&self) -> Result<bool> {
        match self.text("DMLC_PS_VAN_TYPE").as_deref() {
            None | Some("zmq") => Ok(false),
            Some("p3") => Ok(true),
            Some(other) => Err(NodeError::Config(format!(
                "DMLC_PS_VAN_TYPE={other} is not supported; use zmq or p3"
            ))),
        }
    }

    pub(super) fn log_level(&self, verbose: i32) -> Result<Level> {
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

    pub(super) fn transport(&self) -> Result<Option<Carriers>> {
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

    pub(super) fn connections(&self) -> Result<u8> {
        let Some(text) = self.text("PSLITE_CONNECTIONS") else { return Ok(1) };
        text.parse().ok().filter(|count| (1..=CONNECTIONS_MAX).contains(count)).ok_or_else(|| {
            NodeError::Config(format!(
                "PSLITE_CONNECTIONS={text} is not a number from 1 to {CONNECTIONS_MAX}"
            ))
        })
    }

    pub(super) fn native_store(&self) -> Result<bool> {
        match self.text("PSLITE_STORE").as_deref() {
            None | Some("native") => Ok(true),
            Some("mxnet") => Ok(false),
            Some(other) => {
                Err(NodeError::Config(format!("PSLITE_STORE={other} is neither native nor mxnet")))
            }
        }
    }

    pub(super) fn replicas(&self) -> Result<Option<u32>> {
        match self.text("PSLITE_REPLICAS").as_deref() {
            None => Ok(None),
            Some("0") => Ok(Some(0)),
            Some("1") => Ok(Some(1)),
            Some(other) => {
                Err(NodeError::Config(format!("PSLITE_REPLICAS={other} is neither 0 nor 1")))
            }
        }
    }

    pub(super) fn metrics(&self) -> Result<Option<MetricsFile>> {
        let Some(text) = self.text("PSLITE_METRICS") else { return Ok(None) };
        let wrong = || {
            let text =
                format!("PSLITE_METRICS={text} is not a file, or a file:seconds like m.jsonl:10");
            NodeError::Config(text)
        };
        MetricsFile::parse(&text).map(Some).ok_or_else(wrong)
    }

    pub(super) fn stock_level(&self) -> Result<bool> {
        match self.text("PSLITE_LEVEL").as_deref() {
            None | Some("native") => Ok(false),
            Some("stock") => Ok(true),
            Some(other) => {
                Err(NodeError::Config(format!("PSLITE_LEVEL={other} is neither stock nor native")))
            }
        }
    }
}
