//! Whether a port is that of a gateway. Blocks for a second at most.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use pslite_core::wire::socks::{CHOICE, GREETING};

/// For the connection, and for its answer.
const WAIT: Duration = Duration::from_millis(500);

/// Who listens at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// A gateway, or another SOCKS server.
    Gateway,
    /// Nobody, or the connection does not come about.
    Nobody,
    /// A gateway that does not know this host, or another program.
    Stranger,
}

/// Asks who listens there.
#[must_use]
pub fn who_listens(host: &str, port: u16) -> Listener {
    let found = (host, port).to_socket_addrs();
    let Some(address) = found.ok().and_then(|mut all| all.next()) else { return Listener::Nobody };
    match TcpStream::connect_timeout(&address, WAIT) {
        Ok(stream) => match greets(stream) {
            true => Listener::Gateway,
            false => Listener::Stranger,
        },
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Listener::Stranger,
        Err(_) => Listener::Nobody,
    }
}

fn greets(mut stream: TcpStream) -> bool {
    let mut answer = [0; CHOICE.len()];
    let said = stream
        .set_read_timeout(Some(WAIT))
        .and_then(|()| stream.write_all(&GREETING))
        .and_then(|()| stream.read_exact(&mut answer));
    said.is_ok() && answer == CHOICE
}
