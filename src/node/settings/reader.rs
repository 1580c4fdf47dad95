//! Settings from texts: each method reads what its name says, and its error names the variable and
//! what it would take. Touches nothing but the lookup function.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use super::{Elastic, Lookup, ProgramSettings, StaticReasons};
use crate::error::{NodeError, Result};
use crate::files::read_links;
use pslite_core::cluster::RankOrder;
use pslite_core::placement::graph::text::parse;
use pslite_core::placement::graph::{NamedGraph, Topology};
use pslite_core::store::SumOrder;
use pslite_core::training::exchange::spec::parse as parse_exchange;
use pslite_core::wire::byteps::HOSTNAME_BYTES;
use pslite_core::wire::exchange::ExchangeSpec;
use pslite_core::wire::{Dialect, Role};
use pslite_observe::MetricsFile;
use pslite_observe::log::Level;
use pslite_transport::host;
use pslite_transport::native::Carriers;
use pslite_web::{WebPlace, WebPlaceError};

/// More connections to one peer gain nothing and cost descriptors.
const CONNECTIONS_MAX: u8 = 8;

/// More nodes than that per role are a slip of the pen.
const MAX_NODES: usize = 100_000;
const COUNTS: &str = "a number from 1 to 100000, how many the job has, the same on all nodes";

/// What every node must be told.
const NEEDED: [&str; 5] =
    ["DMLC_ROLE", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER", "DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT"];

/// The error of a variable: what was read, what is allowed, and what to do.
fn wrong(name: &str, text: &str, allowed: &str) -> NodeError {
    let otherwise = if NEEDED.contains(&name) { "" } else { ", or unset it" };
    NodeError::Config(format!(
        "{name}={text} is not {allowed}; set it so on this node{otherwise} (docs/env.md)"
    ))
}

/// Finds settings by their names.
pub(super) struct SettingsReader<'a> {
    pub(super) lookup: &'a Lookup,
}

impl SettingsReader<'_> {
    /// An empty text counts as not set, as stock treats DMLC_NODE_HOST (van.cc:282).
    pub(super) fn text(&self, name: &str) -> Option<String> {
        (self.lookup)(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    pub(super) fn required(&self, name: &str) -> Result<String> {
        self.text(name).ok_or_else(|| {
            NodeError::Config(format!(
                "{name} is not set; every node of a job needs {}",
                NEEDED.join(", ")
            ))
        })
    }

    /// A whole number within those bounds. Stock parses with atoi, where nonsense is 0; we say so
    /// instead.
    pub(super) fn number(&self, name: &str, default: i32, low: i32, high: i32) -> Result<i32> {
        let Some(text) = self.text(name) else { return Ok(default) };
        let found = text.parse().ok().filter(|number| (low..=high).contains(number));
        found.ok_or_else(|| match (low, high) {
            (i32::MIN, _) => wrong(name, &text, "a whole number"),
            (_, i32::MAX) => wrong(name, &text, &format!("a whole number, {low} or more")),
            _ => wrong(name, &text, &format!("a whole number from {low} to {high}")),
        })
    }

    /// Any number, as in stock: 0 is no.
    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool> {
        let Some(text) = self.text(name) else { return Ok(default) };
        let number = text.parse::<i32>();
        number.map(|number| number != 0).map_err(|_| wrong(name, &text, "a flag: 1 or 0"))
    }

    /// How many workers and servers. A job has workers, but for a scheduler that is alone in it.
    /// Without servers its workers share batches, and barriers (`docs/lbbsp.md`).
    pub(super) fn counts(&self, role: Role) -> Result<(usize, usize)> {
        let [workers, servers] = ["DMLC_NUM_WORKER", "DMLC_NUM_SERVER"];
        let counts = (self.count(workers)?, self.count(servers)?);
        match counts {
            (0, 0) if role == Role::Scheduler => Ok(counts),
            (0, _) => Err(wrong(workers, "0", COUNTS)),
            _ => Ok(counts),
        }
    }

    fn count(&self, name: &str) -> Result<usize> {
        let text = self.required(name)?;
        let count = text.parse().ok().filter(|count| *count <= MAX_NODES);
        count.ok_or_else(|| wrong(name, &text, COUNTS))
    }

    /// Seconds, with fractions; 0 and "not set" mean none, unless there is a default.
    pub(super) fn seconds(&self, name: &str, default: Option<f64>) -> Result<Option<Duration>> {
        let value = match self.text(name) {
            None => default,
            Some(text) => Some(
                text.parse::<f64>()
                    .ok()
                    .filter(|s| (0.0..1e9).contains(s))
                    .ok_or_else(|| wrong(name, &text, "a number of seconds, such as 10 or 0.5"))?,
            ),
        };
        Ok(value.filter(|seconds| *seconds > 0.0).map(Duration::from_secs_f64))
    }

    pub(super) fn port_of(&self, name: &str, text: &str) -> Result<u16> {
        text.parse::<u16>()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| wrong(name, text, "a port: a number from 1 to 65535"))
    }

    pub(super) fn fixed_port(&self, dialect: Dialect) -> Result<Option<u16>> {
        let name = if dialect == Dialect::Byteps { "DMLC_PORT" } else { "PORT" };
        self.text(name).map(|text| self.port_of(name, &text)).transpose()
    }

    pub(super) fn port_range(&self, name: &str) -> Result<Option<(u16, u16)>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let ends = text.split_once(['-', ':']).and_then(|(low, high)| {
            let ends = (low.trim().parse::<u16>().ok()?, high.trim().parse::<u16>().ok()?);
            (0 < ends.0 && ends.0 <= ends.1).then_some(ends)
        });
        ends.map(Some).ok_or_else(|| wrong(name, &text, "a range of ports such as 9000-9100"))
    }

    /// One of those words; `None` if it is not set.
    fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<Option<T>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        let allowed: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let allowed = match allowed.as_slice() {
            [one, other] => format!("{one} or {other}"),
            all => format!("one of {}", all.join(", ")),
        };
        found.map(Some).ok_or_else(|| wrong(name, &text, &allowed))
    }

    pub(super) fn role(&self) -> Result<Role> {
        self.required("DMLC_ROLE")?;
        let roles = [Role::Worker, Role::Server, Role::Scheduler].map(|role| (role.name(), role));
        Ok(self.word("DMLC_ROLE", &roles)?.unwrap_or(Role::Worker))
    }

    pub(super) fn dialect(&self) -> Result<Option<Dialect>> {
        self.word("PSLITE_WIRE", &Dialect::ALL.map(|dialect| (dialect.name(), dialect)))
    }

    /// Several ports of a node, which a later generation of BytePS's ps-lite has, are not there:
    /// its peers would wait for connections that nobody makes.
    pub(super) fn one_port(&self) -> Result<()> {
        const ONE: &str = "a node has one port here, and PSLITE_CONNECTIONS says how many \
                           connections two nodes have";
        if self.text("DMLC_ENABLE_RDMA").as_deref() == Some("multivan") {
            let text =
                format!("DMLC_ENABLE_RDMA=multivan: {ONE}; choose 0, or unset it (docs/env.md)");
            return Err(NodeError::Config(text));
        }
        match self.number("DMLC_NUM_PORTS", 1, 0, i32::MAX)? {
            0 | 1 => Ok(()),
            ports => Err(wrong("DMLC_NUM_PORTS", &ports.to_string(), &format!("1: {ONE}"))),
        }
    }

    /// A host that other nodes are told of, or that this one connects to.
    pub(super) fn host(&self, name: &str, dialect: Dialect) -> Result<String> {
        let text = self.required(name)?;
        // With Unix sockets nobody looks at it, as in stock.
        if !self.flag("DMLC_LOCAL", false)? {
            host::check(&text)
                .map_err(|why| NodeError::Config(format!("{name}={text} is not a host: {why}")))?;
        }
        if dialect.is_byteps() && text.len() > HOSTNAME_BYTES {
            return Err(NodeError::Config(format!(
                "{name}={text} is longer than {HOSTNAME_BYTES} bytes, which is all that \
                 PSLITE_WIRE={} has room for",
                dialect.name()
            )));
        }
        Ok(text)
    }

    /// The host that this node tells others; nobody could connect to all addresses, or to none.
    pub(super) fn node_host(&self, dialect: Dialect) -> Result<Option<String>> {
        const NAME: &str = "DMLC_NODE_HOST";
        let Some(text) = self.text(NAME) else { return Ok(None) };
        let address = text.parse::<Ipv4Addr>().ok();
        let nobodys = |it: Ipv4Addr| it.is_unspecified() || it.is_broadcast() || it.is_multicast();
        if address.is_some_and(nobodys) && !self.flag("DMLC_LOCAL", false)? {
            let allowed = "an address of this host to which others can connect";
            return Err(wrong(NAME, &text, allowed));
        }
        self.host(NAME, dialect).map(Some)
    }

    /// The scheduler's; it alone may listen on all addresses, as `*` says.
    pub(super) fn root_host(&self, role: Role, dialect: Dialect) -> Result<String> {
        match self.text("DMLC_PS_ROOT_URI") {
            Some(text) if text == "*" && role == Role::Scheduler => Ok(text),
            _ => self.host("DMLC_PS_ROOT_URI", dialect),
        }
    }

    /// In BytePS's asynchronous mode there are no rounds.
    pub(super) fn holds_pushes(
        &self,
        asked: &ProgramSettings,
        dialect: Dialect,
    ) -> Result<Option<bool>> {
        // Read in any case: nonsense is said wherever it is.
        let has_rounds = !self.flag("BYTEPS_ENABLE_ASYNC", false)?;
        if self.text("PSLITE_HOLD_PUSHES").is_some() {
            return Ok(Some(self.flag("PSLITE_HOLD_PUSHES", false)?));
        }
        let usual = dialect.is_byteps().then_some(has_rounds);
        Ok(asked.holds_pushes.or(usual).or((!has_rounds).then_some(false)))
    }

    pub(super) fn rank_order(&self) -> Result<RankOrder> {
        let mixed = self.flag("BYTEPS_ENABLE_MIXED_MODE", false)?;
        match (mixed, self.text("BYTEPS_ORDERED_HOSTS")) {
            (false, None) => Ok(RankOrder::Address),
            (true, None) => Ok(RankOrder::Mixed),
            (false, Some(text)) => {
                let host = |word: &str| {
                    let is_port = |(_, port): &(&str, &str)| port.trim().parse::<u16>().is_ok();
                    let apart = word.rsplit_once(':').filter(is_port);
                    apart.map_or(word, |(host, _)| host).trim().to_owned()
                };
                let hosts: Vec<String> = text.split(',').map(host).collect();
                if let Some(why) = hosts.iter().find_map(|host| host::check(host).err()) {
                    return Err(NodeError::Config(format!(
                        "BYTEPS_ORDERED_HOSTS={text} is not hosts with commas between them: {why}"
                    )));
                }
                let twice = |host: &&String| hosts.iter().filter(|other| other == host).count() > 1;
                match hosts.iter().find(twice) {
                    None => Ok(RankOrder::Hosts(hosts)),
                    Some(host) => Err(NodeError::Config(format!(
                        "BYTEPS_ORDERED_HOSTS={text} names {host} twice; name each host once"
                    ))),
                }
            }
            (true, Some(_)) => Err(NodeError::Config(
                "BYTEPS_ENABLE_MIXED_MODE and BYTEPS_ORDERED_HOSTS exclude each other; unset one \
                 of them"
                    .to_owned(),
            )),
        }
    }

    pub(super) fn van_type(&self) -> Result<bool> {
        Ok(self.word("DMLC_PS_VAN_TYPE", &[("zmq", false), ("p3", true)])?.unwrap_or(false))
    }

    pub(super) fn log_level(&self, verbose: i32) -> Result<Level> {
        let levels = [
            ("error", Level::Error),
            ("warning", Level::Warning),
            ("info", Level::Info),
            ("verbose", Level::Verbose),
            ("trace", Level::Trace),
        ];
        Ok(self.word("PSLITE_LOG", &levels)?.unwrap_or(match verbose {
            ..=0 => Level::Warning,
            1 => Level::Verbose,
            _ => Level::Trace,
        }))
    }

    pub(super) fn transport(&self) -> Result<Option<Carriers>> {
        let carriers = [
            ("auto", Some(Carriers::Auto)),
            ("tcp", Some(Carriers::Tcp)),
            ("shm", Some(Carriers::Shm)),
            ("zmq", None),
        ];
        Ok(self.word("PSLITE_TRANSPORT", &carriers)?.unwrap_or(Some(Carriers::Auto)))
    }

    pub(super) fn connections(&self) -> Result<u8> {
        let count = self.number("PSLITE_CONNECTIONS", 1, 1, i32::from(CONNECTIONS_MAX))?;
        Ok(u8::try_from(count).unwrap_or(1))
    }

    pub(super) fn native_store(&self) -> Result<bool> {
        Ok(self.word("PSLITE_STORE", &[("native", true), ("mxnet", false)])?.unwrap_or(true))
    }

    /// Where it is forbidden, values cannot be at MXNet's own server from the beginning.
    pub(super) fn unpickles(&self) -> Result<bool> {
        let unpickles = self.flag("PSLITE_UNPICKLE", true)?;
        if unpickles || self.native_store()? {
            return Ok(unpickles);
        }
        Err(NodeError::Config(
            "PSLITE_UNPICKLE=0 and PSLITE_STORE=mxnet exclude each other: MXNet's own server \
             unpickles every optimizer; unset one of them (docs/security.md)"
                .to_owned(),
        ))
    }

    /// A flag, as it was before there was a third answer.
    pub(super) fn elastic(&self, reasons: StaticReasons) -> Result<Elastic> {
        const NAME: &str = "PSLITE_ELASTIC";
        match self.text(NAME) {
            Some(text) if text == "moves" => Ok(Elastic::Moves),
            Some(text) => match text.parse::<i32>() {
                Ok(0) => Ok(Elastic::Off),
                Ok(_) => Ok(Elastic::Copies),
                Err(_) => Err(wrong(NAME, &text, "1, moves or 0")),
            },
            None => Ok(Elastic::unset(reasons)),
        }
    }

    pub(super) fn replicas(&self) -> Result<Option<u32>> {
        self.word("PSLITE_REPLICAS", &[("0", 0), ("1", 1)])
    }

    pub(super) fn sum_order(&self) -> Result<SumOrder> {
        const NAME: &str = "PSLITE_DETERMINISTIC";
        match self.text(NAME) {
            None => Ok(SumOrder::Arrival),
            Some(text) if text == "tree" => Ok(SumOrder::Trees),
            Some(text) => {
                let number = text.parse::<i32>();
                let wrong = |_| wrong(NAME, &text, "0, 1 or tree");
                Ok(SumOrder::by_ranks(number.map_err(wrong)? != 0))
            }
        }
    }

    /// The port of all hosts' tunnels, which go along links; without links there are none.
    pub(super) fn tunnels(&self) -> Result<Option<u16>> {
        const NAME: &str = "PSLITE_TUNNELS";
        let Some(text) = self.text(NAME).filter(|text| text != "0") else { return Ok(None) };
        let port = self.port_of(NAME, &text)?;
        match self.text("PSLITE_LINKS") {
            _ if self.flag("DMLC_LOCAL", false)? => Ok(None),
            Some(_) => Ok(Some(port)),
            None => Err(NodeError::Config(format!(
                "{NAME}={text} needs PSLITE_LINKS; give it a file with the links of all hosts, on \
                 each node (docs/tunnels.md)"
            ))),
        }
    }

    /// How the job's workers train while deltas travel. The scheduler decides it for all.
    pub(super) fn exchange(&self, role: Role) -> Result<Option<ExchangeSpec>> {
        const NAME: &str = "PSLITE_SYNC";
        let text = self.text(NAME).filter(|_| role == Role::Scheduler);
        let Some(text) = text else { return Ok(None) };
        let wrong = |why: String| {
            NodeError::Config(format!("{NAME}={text}: {why}; choose otherwise, or unset it"))
        };
        parse_exchange(&text).map(Some).map_err(wrong)
    }

    /// Links and trees. Only the scheduler needs links for those that go through links, and whoever
    /// has tunnels; without them the best is the star. So it is where sums are made by ranks.
    pub(super) fn trees(
        &self,
        role: Role,
        has_tunnels: bool,
    ) -> Result<(Topology, Option<NamedGraph>)> {
        const NAME: &str = "PSLITE_TOPOLOGY";
        let plans = role == Role::Scheduler;
        let links = self.links(plans || has_tunnels)?;
        let Some(text) = self.text(NAME) else { return Ok((Topology::Star, links)) };
        let by_ranks = self.sum_order()? == SumOrder::Ranks;
        let topology = match text.parse() {
            Ok(topology @ (Topology::Star | Topology::Balanced(_))) => Some(topology),
            // That chooses owners itself, which stay where they are here.
            Ok(Topology::Fapt(_)) | Err(_) => None,
            Ok(Topology::Auto) if plans && (links.is_none() || by_ranks) => Some(Topology::Star),
            Ok(topology) if links.is_some() || !plans => Some(topology),
            Ok(_) => {
                let text = format!(
                    "{NAME}={text} needs PSLITE_LINKS, a file that says which hosts have a link: \
                     give it, or choose balanced:K, which needs none (docs/trees.md)"
                );
                return Err(NodeError::Config(text));
            }
        };
        let allowed = "star, balanced:K with K children of each node, or, with PSLITE_LINKS, \
                       packed, auto, fapt or tsengine";
        Ok((topology.ok_or_else(|| wrong(NAME, &text, allowed))?, links))
    }

    /// The file need be there only for who plans, or has tunnels.
    pub(super) fn links(&self, needed: bool) -> Result<Option<NamedGraph>> {
        const NAME: &str = "PSLITE_LINKS";
        let Some(path) = self.text(NAME).filter(|_| needed) else { return Ok(None) };
        let unfit =
            |what: String| wrong(NAME, &path, &format!("a file with links of hosts ({what})"));
        let text = read_links(Path::new(&path)).map_err(|error| unfit(error.to_string()))?;
        let named = parse(&text).map_err(|error| unfit(error.to_string()))?;
        named.graph.connected().map_err(|error| unfit(named.explain(&error)))?;
        Ok(Some(named))
    }

    pub(super) fn metrics(&self) -> Result<Option<MetricsFile>> {
        let Some(text) = self.text("PSLITE_METRICS") else { return Ok(None) };
        let allowed = "a file, or a file:seconds such as m.jsonl:10";
        let found = MetricsFile::parse(&text).map(Some);
        found.ok_or_else(|| wrong("PSLITE_METRICS", &text, allowed))
    }

    /// Where this node answers over HTTP. Nobody needs a key yet, so only who is on this host may
    /// ask.
    pub(super) fn http(&self) -> Result<Option<WebPlace>> {
        const NAME: &str = "PSLITE_HTTP";
        let Some(text) = self.text(NAME) else { return Ok(None) };
        match WebPlace::parse(&text) {
            Ok(place) => Ok(Some(place)),
            Err(WebPlaceError::Nonsense) => {
                let allowed = "a port or a range of ports, with or without a host in front, such \
                               as 9400, 9400-9409, 127.0.0.1:9400 or 0 for any port";
                Err(wrong(NAME, &text, allowed))
            }
            Err(WebPlaceError::Open { instead }) => Err(NodeError::Config(format!(
                "{NAME}={text} would show the job to all who reach this host, since nobody needs \
                 a key for it yet; choose {instead}, and look from elsewhere through \
                 `ssh -L {port}:127.0.0.1:{port} THIS-HOST`; or unset it (docs/watch.md)",
                port = instead.low,
            ))),
        }
    }

    pub(super) fn stock_level(&self) -> Result<bool> {
        Ok(self.word("PSLITE_LEVEL", &[("stock", true), ("native", false)])?.unwrap_or(false))
    }
}
