//! What the two carriers of messages, the stock wire (`zmq`) and the native data plane (`native`),
//! have in common: where a node listens, how a message is sent, what can go wrong. Must not know
//! either of them.

use std::fmt;
use std::io;
use std::ops::RangeInclusive;

use thiserror::Error;

use super::port_holder::{self, Holder};

/// Where a socket is bound or connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// TCP; port 0 lets the system choose.
    Tcp {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
    },
    /// A Unix socket.
    Ipc {
        /// Its file.
        path: String,
    },
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port: 0 } => write!(f, "tcp://{host}:*"),
            Self::Tcp { host, port } => write!(f, "tcp://{host}:{port}"),
            Self::Ipc { path } => write!(f, "ipc://{path}"),
        }
    }
}

/// Why a socket cannot be made.
#[derive(Debug, Error)]
pub enum TransportError {
    /// Somebody listens there already.
    #[error("cannot listen on {address}: the port is held by {}", holder_text(.holder.as_ref()))]
    PortBusy {
        /// `host:port`.
        address: String,
        /// Who, if that can be seen.
        holder: Option<Holder>,
    },
    /// The address is not one of this host.
    #[error("cannot listen on {address}: no such address on this host; it has {local}")]
    NotLocal {
        /// `host:port`.
        address: String,
        /// What it has instead.
        local: String,
    },
    /// Every port of a range is taken.
    #[error("every port from {low} to {high} of {host} is taken")]
    RangeBusy {
        /// Where.
        host: String,
        /// First port.
        low: u16,
        /// Last port.
        high: u16,
    },
    /// Anything else that the system or libzmq reports.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

fn holder_text(holder: Option<&Holder>) -> String {
    holder.map_or_else(
        || "another process (whose name only its owner can see)".to_owned(),
        Holder::to_string,
    )
}

/// Why a message was not sent.
#[derive(Debug, Error)]
pub enum SendError {
    /// There is no connection of that key.
    #[error("there is no connection to it")]
    NoSuchPeer,
    /// The transport is closed.
    #[error("this node is closing")]
    Stopped,
    /// A message whose sender does not wait found everything full.
    #[error("as many messages as may wait for it wait already")]
    QueueFull,
    /// The connection was given up while the message waited.
    #[error("its connection was given up")]
    PeerGone,
    /// The native data plane does not reach the peer: the message is to go over the stock wire.
    #[error("the native data plane does not reach it")]
    TakenBack,
    /// Anything else that the system or libzmq reports.
    #[error("{0}")]
    Io(io::Error),
}

/// Why receiving ended.
#[derive(Debug, Error)]
pub enum RecvError {
    /// The transport was stopped.
    #[error("this node is closing")]
    Stopped,
    /// Anything else that the system or libzmq reports.
    #[error("{0}")]
    Io(io::Error),
}

/// What happens to a message whose connection is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// The sender waits.
    Block,
    /// The message waits in a queue of its own, so that it takes no room from messages whose
    /// senders wait, nor from control messages (on the stock wire it takes at most half of their
    /// room). If that is full too, the sender gets [`SendError::QueueFull`]. For code that sends
    /// while it handles a received message: if two such nodes waited for each other's room, neither
    /// would make any.
    Queue,
    /// The message waits aside; the sender never does.
    Control,
}

/// A connection came up or went down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelEvent {
    /// The key of the connection.
    pub key: i32,
    /// It stands.
    pub up: bool,
}

/// Listens on the first free port of a range, by whatever listens on one.
pub(crate) fn bind_in_range(
    host: &str,
    ports: RangeInclusive<u16>,
    bind: impl Fn(&Endpoint) -> Result<u16, TransportError>,
) -> Result<u16, TransportError> {
    let (low, high) = (*ports.start(), *ports.end());
    for port in ports {
        match bind(&Endpoint::Tcp { host: host.to_owned(), port }) {
            Err(TransportError::PortBusy { .. }) => {}
            other => return other,
        }
    }
    Err(TransportError::RangeBusy { host: host.to_owned(), low, high })
}

pub(crate) fn bind_error(endpoint: &Endpoint, source: io::Error) -> TransportError {
    let Endpoint::Tcp { host, port } = endpoint else {
        return TransportError::Io { what: format!("cannot listen on {endpoint}"), source };
    };
    let address = format!("{host}:{port}");
    match source.raw_os_error() {
        Some(libc::EADDRINUSE) => {
            TransportError::PortBusy { address, holder: port_holder::find(*port) }
        }
        Some(libc::EADDRNOTAVAIL | libc::ENODEV) => {
            TransportError::NotLocal { address, local: super::address::local_addresses_text() }
        }
        _ => TransportError::Io { what: format!("cannot listen on {address}"), source },
    }
}
