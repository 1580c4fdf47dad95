//! An address of this process that leads to a peer which cannot be reached straight. Who makes it
//! (`tunnel`) and who connects there (`zmq`) share only this: as long as somebody holds it, it is
//! open. May touch nothing.

use std::fmt;
use std::net::SocketAddr;

/// See the module.
pub struct Entrance {
    address: SocketAddr,
    close: Box<dyn Fn() + Send + Sync>,
}

impl Entrance {
    /// An entrance that is open. `close` is called once, on the thread of the last one that holds
    /// it.
    pub(crate) fn new(address: SocketAddr, close: impl Fn() + Send + Sync + 'static) -> Self {
        Self { address, close: Box::new(close) }
    }

    /// Where to connect to.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl fmt::Debug for Entrance {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Entrance({})", self.address)
    }
}

impl Drop for Entrance {
    fn drop(&mut self) {
        (self.close)();
    }
}
