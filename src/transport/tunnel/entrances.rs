//! The entrances of this process: ports on the loopback interface, each of which leads to one
//! place. Connections that came in before an entrance is closed stay. May touch the listening
//! sockets; knows nothing of ways.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex, Weak};

use super::TunnelShared;
use super::thread::TunnelCommand;
use crate::entrance::Entrance;
use crate::sync::lock;
use crate::sys::fork::Listening;
use pslite_core::wire::socks::Target;

/// Peers that may have an entrance at a time; more are a mistake.
const ENTRANCES_MAX: usize = 4096;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Entrances {
    /// Those that somebody holds, or is about to let go.
    open: Mutex<BTreeMap<Target, Weak<Entrance>>>,
}

/// Where an entrance leads, as its listener and those who came in by it know it.
#[derive(Debug)]
pub(super) struct LeadsTo {
    pub(super) target: Target,
    /// Until the last of their sockets is closed, a child that is forked closes those of this port.
    _listening: Listening,
}

impl Entrances {
    /// The entrance that leads there: the one that is open, or a new one.
    ///
    /// # Errors
    /// The system has no resources left, or too many are open.
    pub(super) fn to(
        &self,
        shared: &Arc<TunnelShared>,
        target: Target,
    ) -> io::Result<Arc<Entrance>> {
        let mut open = lock(&self.open);
        if let Some(entrance) = open.get(&target).and_then(Weak::upgrade) {
            return Ok(entrance);
        }
        if open.len() >= ENTRANCES_MAX {
            return Err(io::Error::other("more peers than any job has are reached by tunnels"));
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let leads = LeadsTo { target: target.clone(), _listening: Listening::new(address.port()) };
        shared.command(TunnelCommand::Open(listener, Arc::new(leads)));
        let (shared, of) = (Arc::downgrade(shared), target.clone());
        let entrance = Arc::new(Entrance::new(address, move || {
            if let Some(shared) = shared.upgrade() {
                shared.entrances.forget(&of);
                shared.command(TunnelCommand::Close(address.port()));
            }
        }));
        open.insert(target, Arc::downgrade(&entrance));
        Ok(entrance)
    }

    /// Nobody holds the entrance there any more, unless there is another one by now.
    fn forget(&self, target: &Target) {
        let mut open = lock(&self.open);
        if open.get(target).is_some_and(|entrance| entrance.strong_count() == 0) {
            open.remove(target);
        }
    }
}
