//! The door of a node for those who look at it over HTTP (`PSLITE_HTTP`): listens, and knows when
//! the node's clock ticked last. What they are shown is the van's. May bind a port and log.

#![allow(
    clippy::disallowed_methods,
    reason = "whoever asks whether this process lives measures by everybody's clock"
)]

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::error::{NodeError, Result};
use crate::sync::lock;
use pslite_observe::log::{self, Level};
use pslite_transport::fork::NotedPort;
use pslite_transport::port_holder;
use pslite_web::{Shown, WebPlace, WebServer};

/// See the module.
#[derive(Debug)]
pub(crate) struct WebDoor {
    server: WebServer,
    /// The sockets are not for children.
    _noted: NotedPort,
    ticked: Mutex<Instant>,
}

impl WebDoor {
    /// Listens.
    ///
    /// # Errors
    /// No port of that place is free. The text says who has it.
    pub(crate) fn open(place: &WebPlace) -> Result<Self> {
        let server = WebServer::bind(place).map_err(|error| {
            let holder = place.only_port().and_then(port_holder::find);
            let holder = holder.map_or_else(String::new, |holder| format!(", by {holder}"));
            NodeError::Address(format!(
                "PSLITE_HTTP: cannot listen on {place}: {error}{holder}; choose another port, a \
                 range such as 9400-9409 (each node takes the first that is free), or 0 for any"
            ))
        })?;
        let address = server.address();
        let noted = NotedPort::new(address.port());
        let text = format!("answers at http://{address}/ (PSLITE_HTTP)");
        if place.only_port().is_some() {
            log::write(Level::Info, &text);
        } else {
            // Who left the choice open has to be told.
            log::announce(&text);
        }
        Ok(Self { server, _noted: noted, ticked: Mutex::new(Instant::now()) })
    }

    /// Answers until it is stopped. `life`: another number in each life of a node.
    pub(crate) fn serve(&self, shown: &dyn Shown, life: u64) {
        self.server.serve(shown, life);
    }

    /// No more answers.
    pub(crate) fn stop(&self) {
        self.server.stop();
    }

    /// The node's clock ticks.
    pub(crate) fn note_tick(&self) {
        *lock(&self.ticked) = Instant::now();
    }

    /// How long ago it did.
    pub(crate) fn since_tick(&self) -> Duration {
        lock(&self.ticked).elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_is_said_with_its_holder() {
        let any = WebPlace::parse("0").unwrap();
        let door = WebDoor::open(&any).unwrap();
        let port = door.server.address().port();
        let taken = WebPlace { low: port, high: port, ..any };
        let text = WebDoor::open(&taken).unwrap_err().to_string();
        let place = format!("cannot listen on 127.0.0.1:{port}: ");
        let holder = format!("by pid {} (", std::process::id());
        assert!(text.contains(&place) && text.contains(&holder), "{text}");
        door.stop();
        drop(door);
        assert!(WebDoor::open(&taken).is_ok(), "the port is free again");
    }

    #[test]
    fn a_tick_is_noted() {
        let door = WebDoor::open(&WebPlace::parse("0").unwrap()).unwrap();
        *lock(&door.ticked) -= Duration::from_secs(100);
        assert!(door.since_tick() >= Duration::from_secs(100));
        door.note_tick();
        assert!(door.since_tick() < Duration::from_secs(100));
    }
}
