//! The thread that serves: listens, reads and writes, and gives what came to the state machine
//! (`hall`). One loop over non-blocking sockets, with no runtime: while nobody is connected it
//! sleeps in the kernel. May touch sockets and the clock; decides nothing of the protocol.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket;
use pslite_observe::awake;
use pslite_observe::log::{self, Level, RateLimit};

use crate::caller::SentAway;
use crate::hall::{CallerNumber, Hall};
use crate::place::WebPlace;
use crate::shown::Shown;

/// What is read at once.
const READ_BYTES: usize = 4096;
/// Reads of one connection before others have their turn.
const READS_MAX: usize = 4;
/// Connections that are let in before others have their turn.
const ENTER_MAX: usize = 16;
/// How long nobody is let in where the system has no descriptors left.
const DEAF_FOR: Duration = Duration::from_secs(1);
/// Between two lines about the same trouble.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Listens, and serves as soon as a thread does so ([`Self::serve`]).
#[derive(Debug)]
pub struct WebServer {
    /// Until it is stopped.
    listener: Mutex<Option<Arc<TcpListener>>>,
    address: SocketAddr,
    stopping: AtomicBool,
}

impl WebServer {
    /// Listens at the first address of the place that is free.
    ///
    /// # Errors
    /// None is; the error is that of the last one.
    pub fn bind(place: &WebPlace) -> io::Result<Self> {
        let mut last = io::Error::from(ErrorKind::InvalidInput);
        for address in place.addresses() {
            match listen(address) {
                Ok(listener) => {
                    let address = listener.local_addr()?;
                    let listener = Mutex::new(Some(Arc::new(listener)));
                    return Ok(Self { listener, address, stopping: AtomicBool::new(false) });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is stopped. `life`: another number in each life of a node.
    pub fn serve(&self, shown: &dyn Shown, life: u64) {
        let Some(listener) = self.listener().clone() else { return };
        let hall = Hall::new(shown, self.address.ip(), life);
        let trouble = || RateLimit::new(SAY_EVERY);
        let mut serving = WebServing {
            hall,
            sockets: BTreeMap::new(),
            started: awake::now(),
            deaf_until: Duration::ZERO,
            slow: trouble(),
            full: trouble(),
            deaf: trouble(),
        };
        while !self.stopping.load(Ordering::Acquire) {
            if let Err(error) = serving.turn(&listener, &self.stopping) {
                let text = format!("nothing is shown over HTTP any more: poll: {error}");
                log::write(Level::Error, &text);
                break;
            }
        }
        serving.end();
    }

    /// Ends [`Self::serve`]; its port is free when that has returned.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        if let Some(listener) = self.listener().take() {
            // Wakes the thread: on Linux a listening socket that is shut down is ready.
            let _ = socket::shutdown(listener.as_raw_fd(), socket::Shutdown::Both);
        }
    }

    fn listener(&self) -> MutexGuard<'_, Option<Arc<TcpListener>>> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// What the loop has.
struct WebServing<'s> {
    hall: Hall<'s>,
    sockets: BTreeMap<CallerNumber, TcpStream>,
    started: Instant,
    /// Nobody is let in before.
    deaf_until: Duration,
    slow: RateLimit,
    full: RateLimit,
    deaf: RateLimit,
}

impl WebServing<'_> {
    fn now(&self) -> Duration {
        awake::since(self.started)
    }

    /// Waits until there is something to do, and does it.
    fn turn(&mut self, listener: &TcpListener, stopping: &AtomicBool) -> io::Result<()> {
        let (ready, comes) = self.wait(listener)?;
        // What woke it may be the end: a listener that was shut is ready, and accepts nobody.
        if stopping.load(Ordering::Acquire) {
            return Ok(());
        }
        if comes {
            self.let_in(listener);
        }
        ready.into_iter().for_each(|number| self.hear(number));
        for sent_away in self.hall.tick(self.now()) {
            let SentAway::TookNothing = sent_away;
            self.say(&self.slow, "were closed whose reader took nothing for 30 s");
        }
        let all: Vec<CallerNumber> = self.sockets.keys().copied().collect();
        all.into_iter().for_each(|number| self.tell(number));
        for number in self.hall.take_gone() {
            self.sockets.remove(&number);
        }
        Ok(())
    }

    /// Those who said something, or left, and whether somebody wants to come in.
    fn wait(&self, listener: &TcpListener) -> io::Result<(Vec<CallerNumber>, bool)> {
        let now = self.now();
        let is_deaf = now < self.deaf_until;
        let listens = if is_deaf { PollFlags::empty() } else { PollFlags::POLLIN };
        let mut polled = Vec::with_capacity(1 + self.sockets.len());
        polled.push(PollFd::new(listener.as_fd(), listens));
        for (number, stream) in &self.sockets {
            let writes = !self.hall.to_write(*number).is_empty();
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::POLLOUT, writes);
            flags.set(PollFlags::POLLIN, self.hall.is_heard(*number));
            polled.push(PollFd::new(stream.as_fd(), flags));
        }
        let deaf = is_deaf.then_some(self.deaf_until);
        let next = self.hall.deadline().into_iter().chain(deaf).min();
        match poll(&mut polled, next.map_or(PollTimeout::NONE, |at| timeout(at, now))) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |entry: &PollFd<'_>| entry.revents().is_some_and(|found| !found.is_empty());
        let comes = polled.first().is_some_and(is_ready) && !is_deaf;
        let entries = self.sockets.keys().zip(polled.iter().skip(1));
        let ready = entries.filter(|(_, entry)| is_ready(entry)).map(|(number, _)| *number);
        Ok((ready.collect(), comes))
    }

    fn let_in(&mut self, listener: &TcpListener) {
        for _ in 0..ENTER_MAX {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if is_soon_over(&error) => return,
                Err(error) => {
                    self.deaf_until = self.now() + DEAF_FOR;
                    self.say(&self.deaf, &format!("could not be accepted: {error}"));
                    return;
                }
            };
            // One that cannot be set so would stop the thread.
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let _ = stream.set_nodelay(true);
            match self.hall.enter(self.now()) {
                Ok(number) => drop(self.sockets.insert(number, stream)),
                Err(answer) => {
                    turn_away(&stream, &answer);
                    self.say(&self.full, "were refused: as many are open as may be");
                }
            }
        }
    }

    fn say(&self, limit: &RateLimit, what: &str) {
        if let Some(count) = limit.hit() {
            let text = format!("{count} connections over HTTP {what} (PSLITE_HTTP)");
            log::write(Level::Warning, &text);
        }
    }

    /// Reads what one has said.
    fn hear(&mut self, number: CallerNumber) {
        let mut space = [0; READ_BYTES];
        for _ in 0..READS_MAX {
            let Some(mut stream) = self.sockets.get(&number) else { return };
            match stream.read(&mut space) {
                Ok(0) => return self.hall.hung_up(number),
                Ok(count) => {
                    let now = self.now();
                    self.hall.said(number, space.get(..count).unwrap_or_default(), now);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.hall.broke(number),
            }
        }
    }

    /// Writes what one is to be told, as far as there is room.
    fn tell(&mut self, number: CallerNumber) {
        while let Some(mut stream) = self.sockets.get(&number) {
            let bytes = self.hall.to_write(number);
            if bytes.is_empty() {
                return;
            }
            match stream.write(bytes) {
                Ok(0) => return self.hall.broke(number),
                Ok(count) => {
                    let now = self.now();
                    if self.hall.wrote(number, count, now) {
                        let _ = stream.shutdown(Shutdown::Write);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.hall.broke(number),
            }
        }
    }

    /// Tells those who stay that the node ends, as far as there is room.
    fn end(mut self) {
        self.hall.say_farewell();
        let all: Vec<CallerNumber> = self.sockets.keys().copied().collect();
        all.into_iter().for_each(|number| self.tell(number));
    }
}

/// Rounded up, so that the time has come when it is over.
fn timeout(at: Duration, now: Duration) -> PollTimeout {
    let left = at.saturating_sub(now).min(awake::LOOK_EVERY);
    let millis = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
    PollTimeout::from(millis)
}

/// An error of `accept` that concerns one connection, or none.
fn is_soon_over(error: &io::Error) -> bool {
    use ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted | ConnectionReset)
}

/// There is no room for it. What it has said is read first: else the answer might be lost.
fn turn_away(mut stream: &TcpStream, answer: &[u8]) {
    let mut space = [0; READ_BYTES];
    let _ = stream.read(&mut space);
    // A new connection has room for so little.
    let _ = stream.write(answer).and_then(|_| stream.shutdown(Shutdown::Write));
}
