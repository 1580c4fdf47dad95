//! The sockets that send, each for many peers. A socket has one file descriptor, and its monitor of
//! connections two more; so a peer costs only the descriptor of its connection.
//!
//! A ROUTER that connects, and names each connection by a number (ZMQ_CONNECT_ROUTING_ID), writes
//! to it what a DEALER would. libzmq identifies a connection by its address only, both in reports
//! and when it is to be closed. So a socket has at most one connection to an address, even for a
//! while after that has ended, and more sockets are made where addresses repeat. libzmq reports a
//! host name by its address, so for names only the port is compared.
//!
//! May touch libzmq; knows no peer and no message.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::super::sys::fork::Marked;
use super::super::sys::{Context, Frame, Outgoing, Socket, SocketKind, Unwritten};
use super::channel::send_frames;
use super::ending::{Ending, EndingDue};
use super::keep_alive::keep_alive;
use super::{Endpoint, ZmqOptions};
use crate::sync::lock;
use pslite_observe::awake;

/// How long a replaced or closed connection may take to flush what it holds.
pub(super) const FLUSH: Duration = Duration::from_secs(1);
/// For how long it is waited until libzmq has heard that a connection broke; then it is looked at
/// later. (It would connect again after [`RECONNECT_MS`].)
const HEARS: Duration = Duration::from_millis(20);
/// For how long after its end a connection may still be reported.
const REST: Duration = Duration::from_secs(3);
/// The first and the longest wait before connecting again (stock waits 100 ms at once).
const RECONNECT_MS: (i32, i32) = (5, 200);
/// Reports that wait to be read. One more would stop libzmq's I/O thread: a channel that comes and
/// goes makes three of them, at most every few milliseconds, and they are read every 50 ms.
const REPORTS_MAX: i32 = 1 << 20;
/// What a peer says on a connection that only sends is dropped, so much of it at a time.
const DROPPED_MAX: usize = 64;
/// How the numbers of connections begin as routing ids.
const MARK: u8 = b'c';

/// What a connection is called in its socket.
type Id = [u8; 9];

fn id_of(number: u64) -> Id {
    let mut id = [MARK; 9];
    id[1..].copy_from_slice(&number.to_be_bytes());
    id
}

/// The number of the connection with that routing id.
pub(super) fn number_of(id: &[u8]) -> Option<u64> {
    let (&MARK, number) = id.split_first()? else { return None };
    number.try_into().ok().map(u64::from_be_bytes)
}

/// A socket and what it is connected to.
#[derive(Debug)]
pub(super) struct Out {
    pub(super) socket: Mutex<Socket>,
    /// Each connection has a name for its peer: it cannot be taken back from a socket.
    is_named: bool,
    /// If answers come back over it: what to sleep on ([`Socket::signal`]).
    pub(super) signal: Option<Marked<OwnedFd>>,
    reports: Mutex<ConnectionReports>,
}

#[derive(Debug)]
struct ConnectionReports {
    from: Socket,
    places: OutPlaces,
    /// Which connection has which descriptor.
    standing: BTreeMap<u32, u64>,
    /// What was read, and nobody was told yet.
    heard: Vec<(u64, ConnectionReport)>,
    /// Connections that nobody sends over any more.
    ending: Vec<Ending>,
}

/// What a socket is connected to, or was a moment ago.
#[derive(Debug, Default)]
struct OutPlaces(Vec<OutPlace>);

#[derive(Debug)]
struct OutPlace {
    number: u64,
    /// As libzmq writes it, if it is not a host by name.
    address: String,
    port: Option<u16>,
    by_name: bool,
    ended: Option<Instant>,
}

/// What libzmq says about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionReport {
    Up,
    /// What is sent from now on arrives.
    Shaken,
    Down,
}

impl OutPlace {
    fn new(number: u64, endpoint: &Endpoint) -> Self {
        let (port, by_name) = match endpoint {
            Endpoint::Tcp { host, port } => (Some(*port), host.parse::<Ipv4Addr>().is_err()),
            Endpoint::Ipc { .. } => (None, false),
        };
        Self { number, address: endpoint.to_string(), port, by_name, ended: None }
    }

    fn is_like(&self, other: &Self) -> bool {
        let same_port = self.port.is_some() && self.port == other.port;
        self.address == other.address || same_port && (self.by_name || other.by_name)
    }
}

impl OutPlaces {
    /// Takes a place, unless its reports could be another's.
    fn take(&mut self, place: OutPlace, now: Instant) -> bool {
        self.0.retain(|old| old.ended.is_none_or(|ended| now < ended + REST));
        let is_free = !self.0.iter().any(|old| old.is_like(&place));
        if is_free {
            self.0.push(place);
        }
        is_free
    }

    fn end(&mut self, number: u64, now: Instant) {
        let of_number = self.0.iter_mut().filter(|place| place.number == number);
        of_number.for_each(|place| place.ended = Some(now));
    }

    /// True if a connection has ended a moment ago.
    fn any_ends(&self, now: Instant) -> bool {
        self.0.iter().any(|place| place.ended.is_some_and(|ended| now < ended + REST))
    }

    /// The connection that a report with that address is about.
    fn find(&self, address: &str) -> Option<u64> {
        let port = address.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
        let live = || self.0.iter().filter(|place| place.ended.is_none());
        live()
            .find(|place| place.address == address)
            .or_else(|| live().find(|place| place.by_name && place.port == port))
            .map(|place| place.number)
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        // Before their reader goes. It fails only when the context ends, and then libzmq has ended
        // the reports itself.
        let _ = lock(&self.socket).stop_monitor();
    }
}

impl Out {
    fn new(
        context: &Context,
        options: &ZmqOptions,
        is_named: bool,
        receives: bool,
        reports_at: &str,
    ) -> io::Result<Self> {
        let mut socket = context.socket(SocketKind::Router)?;
        socket.set_int(zmq_sys::ZMQ_LINGER, FLUSH.as_millis() as i32)?;
        socket.set_int(zmq_sys::ZMQ_SNDHWM, options.send_queue)?;
        // What finds no room is refused, instead of being dropped.
        socket.set_int(zmq_sys::ZMQ_ROUTER_MANDATORY, 1)?;
        keep_alive(&mut socket)?;
        socket.set_int(zmq_sys::ZMQ_RECONNECT_IVL, RECONNECT_MS.0)?;
        socket.set_int(zmq_sys::ZMQ_RECONNECT_IVL_MAX, RECONNECT_MS.1)?;
        let events = zmq_sys::ZMQ_EVENT_CONNECTED
            | zmq_sys::ZMQ_EVENT_DISCONNECTED
            | zmq_sys::ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
        socket.monitor(reports_at, events)?;
        let mut from = context.socket(SocketKind::Pair)?;
        from.set_int(zmq_sys::ZMQ_LINGER, 0)?;
        from.set_int(zmq_sys::ZMQ_RCVHWM, REPORTS_MAX)?;
        from.connect(reports_at)?;
        let signal = if receives { Some(socket.signal()?) } else { None };
        let reports = ConnectionReports {
            from,
            places: OutPlaces::default(),
            standing: BTreeMap::new(),
            heard: Vec::new(),
            ending: Vec::new(),
        };
        Ok(Self { socket: Mutex::new(socket), is_named, signal, reports: Mutex::new(reports) })
    }

    fn connect(&self, endpoint: &Endpoint, number: u64, name: Option<&str>) -> io::Result<()> {
        let mut socket = lock(&self.socket);
        if let Some(name) = name {
            socket.set(zmq_sys::ZMQ_ROUTING_ID, name.as_bytes())?;
        }
        socket.set(zmq_sys::ZMQ_CONNECT_ROUTING_ID, &id_of(number))?;
        socket.connect(&endpoint.to_string())
    }

    /// What happened since the last call. True if the socket was used, so that who sleeps on it has
    /// to look.
    fn read_reports(&self, out: &mut Vec<(u64, ConnectionReport)>) -> bool {
        let before = out.len();
        let is_ending;
        {
            let mut reports = lock(&self.reports);
            reports.hear();
            self.end_some(&mut reports);
            out.append(&mut reports.heard);
            is_ending = reports.places.any_ends(awake::now());
        }
        if is_ending {
            // A connection is gone only when its socket has heard so, which it does when it is
            // used.
            let _ = lock(&self.socket).has_message();
        }
        if out.len() > before && self.signal.is_none() {
            // A ROUTER is told the name of each peer once it stands.
            let mut socket = lock(&self.socket);
            for _ in 0..DROPPED_MAX {
                if socket.receive(false).is_err() {
                    break;
                }
            }
        }
        is_ending
    }
}

impl Out {
    /// Goes on with the connections that end. True if some are left.
    fn end_some(&self, reports: &mut ConnectionReports) -> bool {
        for ending in std::mem::take(&mut reports.ending) {
            let due = ending.due(awake::now(), reports.descriptor_of(ending.number), FLUSH);
            match due {
                EndingDue::Later => reports.ending.push(ending),
                EndingDue::Now(linger) => self.disconnect(reports, &ending, linger),
                EndingDue::Break(descriptor) => {
                    if !ending.cut(descriptor) || reports.hears_the_end(ending.number) {
                        self.disconnect(reports, &ending, Duration::ZERO);
                    } else {
                        reports.ending.push(ending);
                    }
                }
            }
        }
        !reports.ending.is_empty()
    }

    fn disconnect(&self, reports: &mut ConnectionReports, ending: &Ending, linger: Duration) {
        let mut socket = lock(&self.socket);
        let _ = socket.set_int(zmq_sys::ZMQ_LINGER, linger.as_millis() as i32);
        let _ = socket.disconnect(&ending.place.to_string());
        reports.places.end(ending.number, awake::now());
        reports.standing.retain(|_, standing| *standing != ending.number);
    }
}

impl ConnectionReports {
    /// Reads what came.
    fn hear(&mut self) {
        while let Ok(event) = self.from.receive(false) {
            // The second frame is the address.
            let Ok(address) = self.from.receive(false) else { break };
            let report = self.report(&event, &address);
            self.heard.extend(report);
        }
    }

    fn descriptor_of(&self, number: u64) -> Option<u32> {
        self.standing.iter().find(|(_, standing)| **standing == number).map(|(fd, _)| *fd)
    }

    /// Waits for a moment until libzmq has heard that a connection broke. False if it has not.
    fn hears_the_end(&mut self, number: u64) -> bool {
        let until = awake::now() + HEARS;
        while self.descriptor_of(number).is_some() {
            if awake::now() > until {
                return false;
            }
            std::thread::sleep(Duration::from_micros(50));
            self.hear();
        }
        true
    }

    /// Takes one apart: the number of the event (2 bytes) and its value (4), in the machine's
    /// order.
    fn report(&mut self, event: &Frame, address: &Frame) -> Option<(u64, ConnectionReport)> {
        let (event, value) = event.as_ref().split_first_chunk::<2>()?;
        let value = u32::from_ne_bytes(*value.first_chunk()?);
        let by_address = std::str::from_utf8(address.as_ref())
            .ok()
            .and_then(|address| self.places.find(address));
        match u32::from(u16::from_ne_bytes(*event)) {
            zmq_sys::ZMQ_EVENT_CONNECTED => {
                let number = by_address?;
                self.standing.insert(value, number);
                Some((number, ConnectionReport::Up))
            }
            zmq_sys::ZMQ_EVENT_DISCONNECTED => {
                Some((self.standing.remove(&value).or(by_address)?, ConnectionReport::Down))
            }
            zmq_sys::ZMQ_EVENT_HANDSHAKE_SUCCEEDED => Some((by_address?, ConnectionReport::Shaken)),
            _ => None,
        }
    }
}

/// One connection of an [`Out`].
#[derive(Debug)]
pub(super) struct OutRoute {
    pub(super) out: Arc<Out>,
    number: u64,
    place: Endpoint,
    unwritten: Unwritten,
}

impl OutRoute {
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// Sends all frames of a message; only the first can find no room (libzmq counts messages).
    pub(super) fn send(&self, meta: &[u8], data: &[Bytes]) -> io::Result<()> {
        let mut socket = lock(&self.out.socket);
        socket.send(Outgoing::Copy(&id_of(self.number)), true, false)?;
        send_frames(&mut socket, meta, data, Some(&self.unwritten))
    }

    /// Ends the connection, at once or when reports are read; what it holds may be flushed for so
    /// long. Nobody else takes its place before.
    pub(super) fn close(&self, linger: Duration) {
        let mut reports = lock(&self.out.reports);
        reports.ending.push(Ending {
            number: self.number,
            place: self.place.clone(),
            unwritten: self.unwritten.clone(),
            until: awake::now() + linger,
        });
        reports.hear();
        self.out.end_some(&mut reports);
    }
}

/// All sockets that send.
#[derive(Debug, Default)]
pub(super) struct Outs {
    all: RwLock<Vec<Arc<Out>>>,
    /// Connections made so far.
    made: Mutex<u64>,
}

impl Outs {
    /// Connects to an address. `receives`: answers come back over it.
    pub(super) fn connect(
        &self,
        context: &Context,
        options: &ZmqOptions,
        endpoint: &Endpoint,
        name: Option<&str>,
        receives: bool,
    ) -> io::Result<OutRoute> {
        let mut made = lock(&self.made);
        *made += 1;
        let number = *made;
        let takes = |out: &&Arc<Out>| {
            out.is_named == name.is_some()
                && out.signal.is_some() == receives
                && lock(&out.reports).places.take(OutPlace::new(number, endpoint), awake::now())
        };
        let found = self.all().iter().find(takes).cloned();
        let out = match found {
            Some(out) => out,
            None => {
                let reports_at = format!("inproc://monitor-{number}");
                let out = Out::new(context, options, name.is_some(), receives, &reports_at)?;
                lock(&out.reports).places.take(OutPlace::new(number, endpoint), awake::now());
                let out = Arc::new(out);
                let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
                all.push(Arc::clone(&out));
                out
            }
        };
        let route =
            OutRoute { out, number, place: endpoint.clone(), unwritten: Unwritten::default() };
        if let Err(error) = route.out.connect(endpoint, number, name) {
            lock(&route.out.reports).places.end(number, awake::now());
            return Err(error);
        }
        Ok(route)
    }

    pub(super) fn all(&self) -> Vec<Arc<Out>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What happened to connections since the last call, by their numbers; and true if sockets were
    /// used.
    pub(super) fn reports(&self) -> (Vec<(u64, ConnectionReport)>, bool) {
        let mut all = Vec::new();
        let mut used = false;
        for out in self.all() {
            used |= out.read_reports(&mut all);
        }
        (all, used)
    }

    /// Goes on with the connections that end. True if some are left.
    pub(super) fn end_some(&self) -> bool {
        self.all().iter().fold(false, |left, out| {
            let mut reports = lock(&out.reports);
            reports.hear();
            out.end_some(&mut reports) | left
        })
    }

    /// Closes all, once nobody uses them; what they hold may be flushed for so long.
    pub(super) fn close(&self, linger: Duration) {
        let all = std::mem::take(&mut *self.all.write().unwrap_or_else(PoisonError::into_inner));
        for out in all {
            let linger = linger.as_millis() as i32;
            let _ = lock(&out.socket).set_int(zmq_sys::ZMQ_LINGER, linger);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: u64, host: &str, port: u16) -> OutPlace {
        OutPlace::new(number, &Endpoint::Tcp { host: host.to_owned(), port })
    }

    #[test]
    fn a_socket_has_one_connection_to_an_address() {
        let now = Instant::now();
        let mut places = OutPlaces::default();
        assert!(places.take(place(1, "10.0.0.1", 5), now));
        assert!(places.take(place(2, "10.0.0.1", 6), now));
        assert!(places.take(place(3, "10.0.0.2", 5), now));
        assert!(!places.take(place(4, "10.0.0.1", 5), now) && !places.any_ends(now));
        places.end(1, now);
        assert!(places.any_ends(now) && !places.any_ends(now + REST));
        assert!(!places.take(place(4, "10.0.0.1", 5), now + REST / 2), "it may still be reported");
        assert!(places.take(place(4, "10.0.0.1", 5), now + REST));
        assert_eq!(places.find("tcp://10.0.0.1:5"), Some(4));
        assert_eq!(places.find("tcp://10.0.0.2:5"), Some(3));
        assert_eq!(places.find("tcp://10.0.0.3:5"), None);
    }

    #[test]
    fn a_host_by_name_is_known_by_its_port() {
        let now = Instant::now();
        let mut places = OutPlaces::default();
        assert!(places.take(place(1, "10.0.0.1", 5), now));
        assert!(!places.take(place(2, "host", 5), now) && places.take(place(2, "host", 6), now));
        assert!(!places.take(place(3, "other", 6), now) && places.take(place(3, "other", 7), now));
        assert!(!places.take(place(4, "10.0.0.4", 7), now));
        // First as it was given, later as it was resolved.
        assert_eq!(places.find("tcp://host:6"), Some(2));
        assert_eq!(places.find("tcp://10.0.0.9:6"), Some(2));
        assert_eq!(places.find("tcp://10.0.0.9:5"), None);
        places.end(2, now);
        assert_eq!(places.find("tcp://10.0.0.9:6"), None);
    }

    #[test]
    fn numbers_are_read_out_of_routing_ids() {
        assert_eq!(number_of(&id_of(u64::MAX - 1)), Some(u64::MAX - 1));
        for id in [&b""[..], b"c", b"ps9", b"d12345678", b"c123456789"] {
            assert_eq!(number_of(id), None, "{id:?}");
        }
    }
}
