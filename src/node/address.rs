//! Chooses where this node listens and under which name others find it (van.cc:262-310). Where
//! stock's choice depends on luck, ours is deliberate (docs/divergences.md). May ask for interfaces
//! and bind ports.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{NodeError, Result};
use crate::settings::Settings;
use pslite_core::wire::native::TOKEN_BYTES;
use pslite_core::wire::{EMPTY, Node, Role, SCHEDULER, ability};
use pslite_observe::log::{self, Level};
use pslite_transport::address as net;
use pslite_transport::carrier::{Endpoint, TransportError};
use pslite_transport::native::{Carriers, NativeOptions, NativeTransport};
use pslite_transport::zmq::ZmqTransport;

/// A number that no other start of this node has, and that nobody can guess: the job's token is
/// made of the scheduler's.
pub(super) fn incarnation() -> u64 {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.as_nanos() as u64);
    // The keys of the hash come from the system's random numbers.
    RandomState::new().hash_one(nanos) | 1
}

/// Where the numbers of resent messages begin: above those of any earlier life of this node.
pub(super) fn first_sequence() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.as_micros() as u64).max(1)
}

/// Binds the receiving socket and returns this node as others will see it. `keeps_keys_apart`: it
/// has a store that does.
///
/// # Errors
/// The text names the address, what was tried, and who holds the port or which addresses exist.
pub(super) fn bind(
    settings: &Settings,
    transport: &ZmqTransport,
    incarnation: u64,
    keeps_keys_apart: bool,
) -> Result<Node> {
    let scheduler = settings.role == Role::Scheduler;
    let hostname = if scheduler { settings.root_host.clone() } else { advertised_host(settings)? };
    check_reach(settings, &hostname)?;
    let doubt = doubt(settings);
    if !doubt.is_empty() {
        log::write(Level::Warning, &doubt);
    }
    let port = if settings.local {
        bind_local(settings, transport)?
    } else {
        bind_tcp(settings, transport, &hostname)?
    };
    Ok(Node {
        role: settings.role,
        id: if scheduler { SCHEDULER } else { EMPTY },
        customer_id: 0,
        hostname,
        port: i32::from(port),
        is_recovery: false,
        abilities: abilities(settings, keeps_keys_apart),
        incarnation: if settings.speaks_extensions() { incarnation } else { 0 },
        native_port: 0,
        wished_rank: settings.wished_rank,
        launched_as: settings.launched_as.filter(|_| settings.speaks_extensions()),
    })
}

/// What this node tells others that it can.
fn abilities(settings: &Settings, keeps_keys_apart: bool) -> u64 {
    if !settings.speaks_extensions() {
        return 0;
    }
    let mut all = ability::PSLITE;
    if settings.role == Role::Worker || keeps_keys_apart {
        all |= ability::OWN_KEYS;
    }
    let elastic = settings.follows_pieces();
    if elastic {
        all |= ability::ELASTIC | ability::TREES;
        // A server can if its store serves: others have no outer rule.
        if settings.role != Role::Server || keeps_keys_apart {
            all |= ability::EXCHANGES;
        }
    }
    if elastic && settings.elastic_workers {
        all |= ability::ELASTIC_WORKERS;
    }
    if elastic && settings.joins && settings.role == Role::Server {
        all |= ability::JOINS;
    }
    if elastic && settings.role == Role::Scheduler && settings.journal.is_some() {
        all |= ability::JOURNAL;
    }
    if settings.role == Role::Scheduler && settings.http.is_some() {
        all |= ability::SHOWS_METRICS;
    }
    all
}

/// Makes the native data plane and listens: its port, on the address where the node listens, from
/// `PSLITE_PORT_RANGE` if that is set. `None` if this node does without: with the stock wire, Unix
/// sockets, resending or thrown-away messages, all of which are about the stock wire; and on the
/// scheduler, which sends no data. Where it is not asked for by name and cannot be, the stock wire
/// does.
pub(super) fn native(
    settings: &Settings,
    hostname: &str,
    incarnation: u64,
) -> Result<Option<(NativeTransport, u16)>> {
    let stock = !settings.speaks_extensions() || settings.local || settings.resend.is_some();
    let Some(carriers) = settings.native else { return Ok(None) };
    if stock || settings.drop_percent > 0 || settings.role == Role::Scheduler {
        return Ok(None);
    }
    if let (Carriers::Auto, Some((low, high))) = (carriers, settings.port_range) {
        // Whoever comes late must still find the one that each node needs.
        let nodes = settings.num_workers + settings.num_servers;
        if usize::from(high - low) + 1 < 2 * nodes {
            let text = format!(
                "data take the stock wire: PSLITE_PORT_RANGE={low}-{high} has fewer than two \
                 ports for \
                 each of {nodes} nodes"
            );
            log::write(Level::Warning, &text);
            return Ok(None);
        }
    }
    let mut options = NativeOptions::new(incarnation, None);
    options.carriers = carriers;
    options.overtaking = settings.follows_pieces() || settings.priority_van;
    let host = listen_host(settings, hostname)?;
    match listen_native(options, host, settings.port_range) {
        Ok(native) => Ok(Some(native)),
        Err(error) if carriers == Carriers::Auto => {
            log::write(Level::Warning, &format!("data take the stock wire: {error}"));
            Ok(None)
        }
        Err(error) => Err(NodeError::Address(error.to_string())),
    }
}

fn listen_native(
    options: NativeOptions,
    host: String,
    range: Option<(u16, u16)>,
) -> std::result::Result<(NativeTransport, u16), TransportError> {
    let transport = NativeTransport::new(options)?;
    let port = match range {
        Some((low, high)) => transport.bind_in_range(&host, low, high),
        None => transport.bind(&Endpoint::Tcp { host, port: 0 }),
    };
    Ok((transport, port?))
}

/// The token by which nodes of one job know each other on the native data plane.
pub(super) fn token(scheduler_incarnation: u64) -> [u8; TOKEN_BYTES] {
    let mut token = [0; TOKEN_BYTES];
    for half in token.chunks_mut(size_of::<u64>()) {
        half.copy_from_slice(&scheduler_incarnation.to_le_bytes());
    }
    token
}

fn bind_tcp(settings: &Settings, transport: &ZmqTransport, hostname: &str) -> Result<u16> {
    let host = listen_host(settings, hostname)?;
    if settings.role == Role::Scheduler {
        return bind_one(transport, &host, settings.root_port);
    }
    if let Some(port) = settings.port {
        return bind_one(transport, &host, port);
    }
    if let Some((low, high)) = settings.port_range {
        return transport.bind_in_range(&host, low, high).map_err(|error| {
            NodeError::Address(format!("PSLITE_PORT_RANGE={low}-{high}: {error}"))
        });
    }
    bind_one(transport, &host, 0)
}

fn bind_one(transport: &ZmqTransport, host: &str, port: u16) -> Result<u16> {
    transport
        .bind(&Endpoint::Tcp { host: host.to_owned(), port })
        .map_err(|error| NodeError::Address(error.to_string()))
}

/// With DMLC_LOCAL the "port" is the name of a file in /tmp, as in stock (zmq_van.h:72).
fn bind_local(settings: &Settings, transport: &ZmqTransport) -> Result<u16> {
    let fixed =
        if settings.role == Role::Scheduler { Some(settings.root_port) } else { settings.port };
    let (low, high) = match (fixed, settings.port_range) {
        (Some(port), _) => (port, port),
        (None, Some(range)) => range,
        // By process id, so that two starts at once do not try the same names.
        (None, None) => {
            let low = 10_000 + (std::process::id() % 40_000) as u16;
            (low, low + 100)
        }
    };
    let mut last = String::new();
    for port in low..=high {
        let path = format!("/tmp/{port}");
        if fixed.is_none() && std::path::Path::new(&path).exists() {
            continue;
        }
        match transport.bind(&Endpoint::Ipc { path }) {
            Ok(_) => return Ok(port),
            Err(error) => last = error.to_string(),
        }
    }
    Err(NodeError::Address(format!("no Unix socket /tmp/{low} to /tmp/{high} is free: {last}")))
}

/// What to bind: the scheduler's own name may be one that only others resolve to it.
fn listen_host(settings: &Settings, hostname: &str) -> Result<String> {
    if settings.role == Role::Scheduler && settings.kubernetes {
        return Ok("0.0.0.0".to_owned());
    }
    let name = match (settings.role, &settings.node_host) {
        (Role::Scheduler, _) => "DMLC_PS_ROOT_URI",
        (_, Some(_)) => "DMLC_NODE_HOST",
        _ => "this host",
    };
    let what_to_do = match settings.role {
        Role::Scheduler => {
            "write an address of this host, or set DMLC_USE_KUBERNETES=1 to listen on all of them"
        }
        _ => "write an address of this host",
    };
    let wrong = |error| NodeError::Address(format!("{name}={hostname}: {error}; {what_to_do}"));
    net::bindable(hostname).map_err(wrong)
}

fn advertised_host(settings: &Settings) -> Result<String> {
    if let Some(host) = &settings.node_host {
        return Ok(host.clone());
    }
    if let Some(name) = &settings.interface {
        return net::interface_address(name).map(|address| address.to_string()).map_err(|error| {
            NodeError::Address(format!("DMLC_INTERFACE={name}: {error}; choose one of these"))
        });
    }
    // The address that packets to the scheduler leave from is the one its network can answer.
    if let Some(address) = net::local_address_towards(&settings.root_host, settings.root_port) {
        return Ok(address.to_string());
    }
    net::first_interface().map(|address| address.to_string()).ok_or_else(|| {
        NodeError::Address(
            "no network interface with an IPv4 address is up; set DMLC_NODE_HOST or DMLC_INTERFACE"
                .to_owned(),
        )
    })
}

/// Refuses an address of the loopback where the scheduler is on another host: nobody there could
/// connect to it.
fn check_reach(settings: &Settings, hostname: &str) -> Result<()> {
    if settings.role == Role::Scheduler || settings.local {
        return Ok(());
    }
    let ours = v4(hostname).filter(Ipv4Addr::is_loopback);
    let root = v4(&settings.root_host).filter(|root| !is_here(*root));
    let (Some(ours), Some(root)) = (ours, root) else { return Ok(()) };
    let towards = net::local_address_towards(&settings.root_host, settings.root_port);
    let better = towards.map_or_else(String::new, |address| format!(", such as {address}"));
    let named = if hostname.parse::<Ipv4Addr>().is_ok() {
        format!("DMLC_NODE_HOST={hostname} is")
    } else {
        format!("DMLC_NODE_HOST={hostname} is {ours} here,")
    };
    Err(NodeError::Address(format!(
        "{named} an address that only this host reaches, and the scheduler at {} ({root}) is on \
         another one; write an address that it reaches{better}, or unset it",
        settings.root_host
    )))
}

/// What may keep nodes of other hosts from reaching this scheduler; empty: nothing is known. On
/// Debian a host's own name is one of the loopback in its /etc/hosts, and in no other.
pub(super) fn doubt(settings: &Settings) -> String {
    let host = &settings.root_host;
    let is_meant = host.parse::<Ipv4Addr>().is_ok() || host.starts_with("localhost");
    if settings.role != Role::Scheduler || settings.local || settings.kubernetes || is_meant {
        return String::new();
    }
    let Some(address) = v4(host).filter(Ipv4Addr::is_loopback) else { return String::new() };
    let all = net::interfaces().into_iter().filter(|(_, _, loopback)| !loopback);
    let all: Vec<String> = all.map(|(name, it, _)| format!("{it} ({name})")).collect();
    if all.is_empty() {
        return String::new();
    }
    format!(
        "DMLC_PS_ROOT_URI={host} is {address} on the scheduler's host (see /etc/hosts), so only \
         processes of that host reach it; for others write one of {}, on all nodes",
        all.join(", ")
    )
}

fn v4(host: &str) -> Option<Ipv4Addr> {
    net::resolve(host).ok()?.into_iter().find_map(|address| match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    })
}

/// True for an address of this host.
fn is_here(address: Ipv4Addr) -> bool {
    let own = || net::interfaces().into_iter().any(|(_, own, _)| own == address);
    address.is_loopback() || address.is_unspecified() || own()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::running::fake;

    #[test]
    fn a_loopback_address_is_refused_where_the_scheduler_is_elsewhere() {
        let of = |root: &str, host: &str| {
            let set = [("DMLC_PS_ROOT_URI", root), ("DMLC_NODE_HOST", host)];
            check_reach(&fake::settings("worker", &set), host).map_err(|error| error.to_string())
        };
        for host in ["127.0.0.1", "127.0.1.1", "localhost"] {
            assert_eq!(of("127.0.0.1", host), Ok(()));
            let text = of("192.0.2.254", host).unwrap_err();
            assert!(text.contains(host) && text.contains("192.0.2.254"), "{text}");
        }
        assert_eq!(of("192.0.2.254", "192.0.2.1"), Ok(()));
        assert_eq!(of("nosuchhost.invalid", "127.0.0.1"), Ok(()), "others say that");
    }

    #[test]
    fn nobody_doubts_an_address_or_localhost() {
        let of = |root: &str| doubt(&fake::settings("scheduler", &[("DMLC_PS_ROOT_URI", root)]));
        for root in ["127.0.0.1", "localhost", "nosuchhost.invalid"] {
            assert_eq!(of(root), "");
        }
    }
}
