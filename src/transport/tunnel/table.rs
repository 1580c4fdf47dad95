//! Who is reached how from this host, and who may ask. Asks the resolver for the hosts' names, at
//! the beginning and when a stranger comes; touches nothing else.

#![allow(
    clippy::disallowed_methods,
    reason = "how often to ask: a gateway that sleeps for hours reads no clock meanwhile"
)]

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::{TunnelOptions, addresses_of};
use crate::address::bindable;
use crate::sync::lock;
use pslite_core::wire::socks::Target;

/// How often names are asked again, if somebody comes from an unknown address.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// The addresses of all hosts, as far as the resolver knew them then.
#[derive(Debug)]
struct KnownHosts {
    addresses: BTreeSet<IpAddr>,
    at: Instant,
}

impl KnownHosts {
    fn ask(options: &TunnelOptions) -> Self {
        let hosts = options.ways.keys().chain([&options.host]);
        Self { addresses: hosts.flat_map(|host| addresses_of(host)).collect(), at: Instant::now() }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct TunnelTable {
    options: TunnelOptions,
    /// What this host's gateway listens on.
    pub(super) listen: String,
    /// This host's own address, if it is known.
    own: Option<IpAddr>,
    known: Mutex<KnownHosts>,
}

impl TunnelTable {
    pub(super) fn new(options: TunnelOptions) -> io::Result<Self> {
        let listen = bindable(&options.host).map_err(|error| {
            io::Error::new(io::ErrorKind::AddrNotAvailable, format!("{}: {error}", options.host))
        })?;
        let own = addresses_of(&options.host).into_iter().find(IpAddr::is_ipv4);
        let known = Mutex::new(KnownHosts::ask(&options));
        Ok(Self { options, listen, own, known })
    }

    pub(super) const fn port(&self) -> u16 {
        self.options.port
    }

    /// What connections to gateways begin at.
    pub(super) const fn from(&self) -> Option<IpAddr> {
        self.own
    }

    /// True if no tunnel leads to that host: it is this one, or nothing is known of it, or there is
    /// a link and no other way.
    pub(super) fn is_straight(&self, host: &str) -> bool {
        self.options.ways.get(host).is_none_or(|ways| ways.iter().all(Vec::is_empty))
    }

    /// The stops of each way there: the gateways, and the target.
    pub(super) fn stops(&self, target: &Target) -> Vec<Vec<Target>> {
        let gateway = |host: &String| Target { host: host.clone(), port: self.options.port };
        let ways = self.options.ways.get(&target.host).into_iter().flatten();
        ways.map(|between| between.iter().map(gateway).chain([target.clone()]).collect()).collect()
    }

    /// True if that way to a host is their link.
    pub(super) fn is_link(&self, host: &str, place: usize) -> bool {
        let way = self.options.ways.get(host).and_then(|ways| ways.get(place));
        way.is_some_and(Vec::is_empty)
    }

    /// A way as people read it.
    pub(super) fn way(&self, host: &str, place: usize) -> String {
        let between = self.options.ways.get(host).and_then(|ways| ways.get(place));
        match between.map(Vec::as_slice) {
            None | Some([]) => "their link".to_owned(),
            Some(between) => between.join(", "),
        }
    }

    /// Where this host's gateway connects to for that target; `None`: it does not lead there. Only
    /// to this host and to those it has links to, so that who asks knows the whole way.
    pub(super) fn next(&self, target: &Target) -> Option<Vec<Target>> {
        let is_next = |ways: &Vec<Vec<String>>| ways.iter().any(Vec::is_empty);
        let known = target.host == self.options.host
            || self.options.ways.get(&target.host).is_some_and(is_next);
        known.then(|| vec![target.clone()])
    }

    /// True if the gateway listens to somebody at that address: a host of the job.
    pub(super) fn admits(&self, address: IpAddr) -> bool {
        if address.is_loopback() {
            return true;
        }
        let mut known = lock(&self.known);
        if known.at.elapsed() >= ASK_EVERY && !known.addresses.contains(&address) {
            *known = KnownHosts::ask(&self.options);
        }
        known.addresses.contains(&address)
    }
}
