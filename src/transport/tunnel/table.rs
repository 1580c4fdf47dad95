//! Who is reached how from this host, and who may ask. Asks the resolver for the hosts' names once,
//! at the beginning; touches nothing else.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

use super::{TunnelOptions, address_of};
use crate::address::bindable;
use pslite_core::wire::socks::Target;

/// See the module.
#[derive(Debug)]
pub(super) struct Table {
    options: TunnelOptions,
    /// What this host's gateway listens on.
    pub(super) listen: String,
    /// This host's own address, if it is known.
    own: Option<IpAddr>,
    /// The addresses of all hosts, if all are known.
    known: Option<BTreeSet<IpAddr>>,
}

impl Table {
    pub(super) fn new(options: TunnelOptions) -> io::Result<Self> {
        let listen = bindable(&options.host).map_err(|error| {
            io::Error::new(io::ErrorKind::AddrNotAvailable, format!("{}: {error}", options.host))
        })?;
        let own = address_of(&options.host);
        let others = options.ways.keys().map(|host| address_of(host));
        let known = others.chain([own]).collect();
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

    /// A way as people read it.
    pub(super) fn way(&self, host: &str, place: usize) -> String {
        let between = self.options.ways.get(host).and_then(|ways| ways.get(place));
        match between.map(Vec::as_slice) {
            None | Some([]) => "of their link".to_owned(),
            Some(between) => format!("of {}", between.join(", ")),
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

    /// True if the gateway listens to somebody at that address: a host of the job. Where the
    /// resolver does not know all of them, to anybody.
    pub(super) fn admits(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.known.as_ref().is_none_or(|known| known.contains(&address))
    }
}
