//! Makes the connection to the last stop of a way: dials the first one, tells it all the others at
//! once, and reads what each of them answers.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use crate::dial::{DialledWay, dial, failure, take_answers};
use crate::native::{socket_read, socket_write_with};
use pslite_core::wire::socks::Target;

/// How long the first stop may take to answer, and how long the others may, together.
const DIAL_LIMIT: Duration = Duration::from_secs(3);
const ANSWERS_LIMIT: Duration = Duration::from_secs(6);
/// The same where there are other ways: with one of them the peer is reached before it is missed
/// (`PSLITE_PEER_TIMEOUT`).
const DIAL_LIMIT_OF_MANY: Duration = Duration::from_secs(1);
const ANSWERS_LIMIT_OF_MANY: Duration = Duration::from_millis(1500);
/// The longest that all answers can be, and what the last stop may say at once.
const HEARD_MAX: usize = 64 << 10;

/// See the module.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) socket: OwnedFd,
    pub(super) until: Instant,
    /// There are other ways.
    of_many: bool,
    asks: Vec<u8>,
    stands: bool,
    left: usize,
    heard: Vec<u8>,
}

impl Opening {
    /// `of_many`: there are other ways to try.
    pub(super) fn begin(
        stops: &[Target],
        from: Option<IpAddr>,
        of_many: bool,
        now: Instant,
    ) -> io::Result<Self> {
        let way = DialledWay::through(stops, from)?;
        Ok(Self {
            socket: dial(way.first, way.from)?,
            until: now + if of_many { DIAL_LIMIT_OF_MANY } else { DIAL_LIMIT },
            of_many,
            asks: way.asks()?,
            stands: false,
            left: way.then.len(),
            heard: Vec::new(),
        })
    }

    /// True if an error with which [`Self::step`] ended is the last stop's own: the way there is
    /// fine, and nobody listens.
    pub(super) fn is_refused_by_target(&self, error: &io::Error) -> bool {
        let asks_last = if self.stands { self.left == 1 } else { self.left == 0 };
        error.kind() == io::ErrorKind::ConnectionRefused && asks_last
    }

    /// Something happened on the socket. What the last stop has said already, once it is reached.
    pub(super) fn step(&mut self, writable: bool, now: Instant) -> io::Result<Option<Vec<u8>>> {
        if !self.stands {
            failure(&self.socket)?;
            if !writable {
                return Ok(None);
            }
            self.stands = true;
            self.until = now + if self.of_many { ANSWERS_LIMIT_OF_MANY } else { ANSWERS_LIMIT };
            if !self.asks.is_empty() {
                socket_write_with(&self.socket, &self.asks, &[])?;
            }
        }
        let mut ended = false;
        let mut space = [0; 1024];
        while self.left > 0 && self.heard.len() <= HEARD_MAX {
            match socket_read(&self.socket, &mut space) {
                Ok(0) => {
                    ended = true;
                    break;
                }
                Ok(n) => self.heard.extend_from_slice(space.get(..n).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if take_answers(&mut self.heard, &mut self.left)? {
                break;
            }
        }
        if self.left == 0 {
            return Ok(Some(std::mem::take(&mut self.heard)));
        }
        if ended { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(None) }
    }
}

/// The ways that are left to try, each by its place in the table.
#[derive(Debug, Default)]
pub(super) struct Ways {
    left: Vec<(usize, Vec<Target>)>,
}

impl Ways {
    /// In their order, those that were in trouble a short while ago last.
    pub(super) fn new(all: Vec<Vec<Target>>, troubled: &BTreeSet<usize>) -> Self {
        let mut left: Vec<_> = all.into_iter().enumerate().collect();
        left.sort_by_key(|(place, _)| (troubled.contains(place), *place));
        left.reverse();
        Self { left }
    }

    /// True if some are left.
    pub(super) const fn any(&self) -> bool {
        !self.left.is_empty()
    }

    /// The next one; `None`: all were tried.
    pub(super) fn next(&mut self) -> Option<(usize, Vec<Target>)> {
        self.left.pop()
    }
}
