//! Tunnels: hosts that have no IP route to each other reach each other through hosts between that
//! pass connections on (docs/tunnels.md).
//!
//! A host of a job listens on one port as a *gateway*: a SOCKS server that leads to the hosts it
//! has links to, and to itself. Whichever process of the host comes first does so; when it ends,
//! another one takes its place. Who makes a connection chooses the whole way, gateway by gateway. A
//! node's control connections, which libzmq makes, go through *entrances*: ports of this process on
//! the loopback interface, each of which leads to one peer by the first way that works.
//!
//! `entrances` opens and closes those. `table` knows who is reached how; `opening` makes the
//! connection to the next stop; `end` is one end of a passage, `passage` both; `thread` drives them
//! all. It knows bytes, not what they mean. A connection through here is one to its two ends: what
//! is sent twice or lost when it breaks is their concern.

mod end;
mod entrances;
mod neighbour;
mod opening;
mod passage;
mod table;
#[cfg(test)]
mod tests;
mod thread;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::native::Bell;
use crate::sync::lock;
use entrances::Entrances;
use pslite_core::wire::socks::Target;
use pslite_observe::awake;
use table::TunnelTable;
use thread::{Thread, TunnelCommand};

pub use self::neighbour::{Listener, who_listens};
pub use crate::dial::DialledWay;
pub use crate::entrance::Entrance;

/// What a process must know to pass connections on, and to be passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelOptions {
    /// This host, as others know it.
    pub host: String,
    /// The port of the gateway of each host.
    pub port: u16,
    /// By host: the ways there, the best first, each by the hosts between. Where there is a link,
    /// the first one has none, and the others are detours.
    pub ways: BTreeMap<String, Vec<Vec<String>>>,
}

/// See the module.
#[derive(Debug)]
pub struct Tunnels {
    shared: Arc<TunnelShared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the thread shares with those who use it.
#[derive(Debug)]
struct TunnelShared {
    table: TunnelTable,
    bell: Bell,
    commands: Mutex<Vec<TunnelCommand>>,
    entrances: Entrances,
    /// Connections that pass through here now.
    open: AtomicUsize,
    /// Bytes that have.
    passed: AtomicU64,
    /// This process is its host's gateway.
    is_gateway: std::sync::atomic::AtomicBool,
}

impl TunnelShared {
    fn command(&self, command: TunnelCommand) {
        lock(&self.commands).push(command);
        self.bell.ring();
    }
}

impl Tunnels {
    /// Begins to pass connections on, as soon as this host's port is free.
    ///
    /// # Errors
    /// The host has no such address; or the system has no resources left.
    pub fn start(options: TunnelOptions) -> io::Result<Self> {
        let table = TunnelTable::new(options)?;
        let shared = Arc::new(TunnelShared {
            table,
            bell: Bell::new()?,
            commands: Mutex::default(),
            entrances: Entrances::default(),
            open: AtomicUsize::new(0),
            passed: AtomicU64::new(0),
            is_gateway: std::sync::atomic::AtomicBool::new(false),
        });
        let thread = Thread::new(Arc::clone(&shared))?;
        let handle = std::thread::Builder::new()
            .name("pslite-tunnels".to_owned())
            .spawn(move || thread.run())?;
        Ok(Self { shared, thread: Mutex::new(Some(handle)) })
    }

    /// An address of this process that leads to that port of a host, for as long as the entrance is
    /// held; `None` if the host is reached straight. Who connects there is let in at once; if no
    /// way leads on, the connection ends.
    ///
    /// # Errors
    /// The system has no resources left.
    pub fn entrance(&self, host: &str, port: u16) -> io::Result<Option<Arc<Entrance>>> {
        if self.shared.table.is_straight(host) {
            return Ok(None);
        }
        let target = Target { host: host.to_owned(), port };
        self.shared.entrances.to(&self.shared, target).map(Some)
    }

    /// The ways to that port of a host, the best first; none if the host is reached straight.
    ///
    /// # Errors
    /// The resolver does not know the first stop of any.
    pub fn ways(&self, host: &str, port: u16) -> io::Result<Vec<DialledWay>> {
        let table = &self.shared.table;
        if table.is_straight(host) {
            return Ok(Vec::new());
        }
        let target = Target { host: host.to_owned(), port };
        let found: Vec<_> = table
            .stops(&target)
            .iter()
            .map(|stops| DialledWay::through(stops, table.from()))
            .collect();
        if found.iter().all(Result::is_err) {
            return found.into_iter().collect();
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// How many connections pass through this process now, and how many bytes have.
    #[must_use]
    pub fn passing(&self) -> (usize, u64) {
        let TunnelShared { open, passed, .. } = &*self.shared;
        (open.load(Ordering::Relaxed), passed.load(Ordering::Relaxed))
    }

    /// True while this process is its host's gateway.
    #[must_use]
    pub fn is_gateway(&self) -> bool {
        self.shared.is_gateway.load(Ordering::Relaxed)
    }

    /// Ends, once no connection passes through here any more, after `linger` at the latest.
    pub fn close(&self, linger: Duration) {
        let Some(thread) = lock(&self.thread).take() else { return };
        self.shared.command(TunnelCommand::TunnelEnd(awake::now() + linger));
        // A panic there has been reported already, by the panic itself.
        let _ = thread.join();
    }
}

impl Drop for Tunnels {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}

/// The addresses of a host, as far as the resolver knows it.
fn addresses_of(host: &str) -> Vec<IpAddr> {
    let found = (host, 0).to_socket_addrs();
    found.map(|all| all.map(|address| address.ip()).collect()).unwrap_or_default()
}
