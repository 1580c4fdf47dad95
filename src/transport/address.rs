//! Hosts, interfaces and addresses of this machine (network_utils.h), with errors that say what
//! there is instead of what was asked for.

use std::net::{IpAddr, Ipv4Addr, TcpListener, ToSocketAddrs, UdpSocket};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use thiserror::Error;

/// Why an address cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum AddressError {
    /// The name is unknown to the resolver.
    #[error("{host} does not resolve: {reason}")]
    Unresolved {
        /// The name.
        host: String,
        /// The resolver's word.
        reason: String,
    },
    /// The name belongs to another host.
    #[error("{host} is {resolved}, which is not an address of this host; it has {local}")]
    NotLocal {
        /// The name.
        host: String,
        /// What it resolves to.
        resolved: String,
        /// What this host has.
        local: String,
    },
    /// There is no such interface.
    #[error("there is no interface {name} with an IPv4 address; there are {existing}")]
    NoInterface {
        /// The name.
        name: String,
        /// What there is.
        existing: String,
    },
}

/// Interfaces with their IPv4 addresses, in the system's order.
#[must_use]
pub fn interfaces() -> Vec<(String, Ipv4Addr, bool)> {
    let Ok(all) = getifaddrs() else { return Vec::new() };
    all.filter_map(|entry| {
        let address = entry.address?.as_sockaddr_in()?.ip();
        let loopback = entry.flags.contains(InterfaceFlags::IFF_LOOPBACK);
        Some((entry.interface_name, address, loopback))
    })
    .collect()
}

/// Interfaces and addresses for people.
#[must_use]
pub fn local_addresses_text() -> String {
    let all: Vec<String> =
        interfaces().into_iter().map(|(name, address, _)| format!("{address} ({name})")).collect();
    if all.is_empty() { "no IPv4 address".to_owned() } else { all.join(", ") }
}

/// The IPv4 address of an interface: of that very name, else of one that begins so, as stock
/// matches (network_utils.h:102).
///
/// # Errors
/// There is none; the text lists what there is.
pub fn interface_address(name: &str) -> Result<IpAddr, AddressError> {
    let all = interfaces();
    let exact = all.iter().find(|(interface, ..)| interface == name);
    let chosen = exact.or_else(|| all.iter().find(|(interface, ..)| interface.starts_with(name)));
    chosen.map(|(_, address, _)| IpAddr::V4(*address)).ok_or_else(|| AddressError::NoInterface {
        name: name.to_owned(),
        existing: local_addresses_text(),
    })
}

/// The first address that is not of the loopback, as stock chooses (network_utils.h:194).
#[must_use]
pub fn first_interface() -> Option<IpAddr> {
    let all = interfaces();
    all.iter().find(|(_, _, loopback)| !loopback).map(|(_, address, _)| IpAddr::V4(*address))
}

/// What a name resolves to, IPv4 first.
///
/// # Errors
/// The resolver does not know it.
pub fn resolve(host: &str) -> Result<Vec<IpAddr>, AddressError> {
    let unresolved = |reason: String| AddressError::Unresolved { host: host.to_owned(), reason };
    let found = (host, 0_u16).to_socket_addrs().map_err(|error| unresolved(error.to_string()))?;
    let mut all: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    all.sort_by_key(IpAddr::is_ipv6);
    all.dedup();
    if all.is_empty() { Err(unresolved("no address".to_owned())) } else { Ok(all) }
}

/// Which of my addresses packets to that host leave from. Sends nothing.
#[must_use]
pub fn local_address_towards(host: &str, port: u16) -> Option<IpAddr> {
    let target = resolve(host).ok()?.into_iter().find(IpAddr::is_ipv4)?;
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((target, port.max(1))).ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|address| !address.is_unspecified())
}

/// What to listen on for a host that others know by this name: libzmq binds addresses and
/// interfaces only, stock fails on names.
///
/// # Errors
/// The name does not resolve, or to addresses of other hosts only.
pub fn bindable(host: &str) -> Result<String, AddressError> {
    if host == "*" || host.parse::<IpAddr>().is_ok() {
        return Ok(host.to_owned());
    }
    let resolved = resolve(host)?;
    let local = resolved.iter().find(|address| TcpListener::bind((**address, 0)).is_ok());
    local.map(ToString::to_string).ok_or_else(|| AddressError::NotLocal {
        host: host.to_owned(),
        resolved: resolved.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        local: local_addresses_text(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn localhost_is_bindable_and_reached_from_the_loopback() {
        assert_eq!(bindable("localhost").unwrap(), "127.0.0.1");
        assert_eq!(local_address_towards("127.0.0.1", 9), Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }

    #[test]
    fn unknown_interfaces_are_answered_with_what_there_is() {
        assert_eq!(interface_address("lo").unwrap(), IpAddr::V4(Ipv4Addr::LOCALHOST));
        let error = interface_address("nosuchnic").unwrap_err().to_string();
        assert!(error.contains("nosuchnic") && error.contains("127.0.0.1"), "{error}");
    }

    #[test]
    fn names_of_nobody_do_not_resolve() {
        assert!(matches!(resolve("nosuchhost.invalid"), Err(AddressError::Unresolved { .. })));
    }
}
