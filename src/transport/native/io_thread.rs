//! The thread for everything but messages themselves: it accepts and makes connections, makes them
//! again when they break, reads acknowledgements, and writes what the socket would not accept
//! earlier. Normally no message needs it.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{setsockopt, sockopt};

use super::channel::UnsentLimits;
use super::handshake::{Handshake, Wish};
use super::pace_for_copies::PaceForCopies;
use super::plane::{Introduced, Plane, PlaneCommand};
use super::shared::Shared;
use super::task::{Registry, Task};
use crate::sync::lock;
use crate::sys::fork::ForkMark;
use pslite_observe::awake;

/// Connections that have not introduced themselves; more wait in the kernel.
const HANDSHAKES_MAX: usize = 256;
/// Connections that the receiving thread has not taken yet.
const ARRIVALS_MAX: usize = 1024;
/// A pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(5);
/// Events of one wait.
const EVENTS_MAX: usize = 64;
/// The token of the bell.
const BELL: u64 = 0;

#[derive(Debug)]
enum IoListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// See the module.
pub(super) struct IoThread {
    shared: Arc<Shared>,
    plane: Arc<Plane>,
    /// In front of it, as it has to be dropped first.
    _mark: ForkMark,
    epoll: Epoll,
    listeners: BTreeMap<u64, IoListener>,
    /// Those that nobody listens to until the job's token is known. Who connects meanwhile waits.
    silent: Vec<IoListener>,
    handshakes: BTreeMap<u64, Handshake>,
    tasks: BTreeMap<u32, Task>,
    registry: Registry,
    pace_for_copies: PaceForCopies,
    unsent_limits: UnsentLimits,
}

impl IoThread {
    pub(super) fn new(plane: Arc<Plane>) -> io::Result<Self> {
        let shared = Arc::clone(plane.shared());
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&shared.io_bell, EpollEvent::new(EpollFlags::EPOLLIN, BELL))?;
        let mut thread = Self {
            _mark: ForkMark::new(&epoll.0),
            epoll,
            listeners: BTreeMap::new(),
            silent: Vec::new(),
            handshakes: BTreeMap::new(),
            tasks: BTreeMap::new(),
            registry: Registry::new(BELL + 1),
            pace_for_copies: PaceForCopies::new(awake::now()),
            unsent_limits: UnsentLimits::new(awake::now()),
            shared,
            plane,
        };
        for listener in thread.shared.same_host.listen() {
            thread.listen(IoListener::Unix(listener))?;
        }
        Ok(thread)
    }

    /// The thread.
    pub(super) fn run(mut self) {
        let mut events = vec![EpollEvent::empty(); EVENTS_MAX];
        loop {
            let count = match self.epoll.wait(&mut events, self.timeout()) {
                Ok(count) => count,
                Err(nix::errno::Errno::EINTR) => 0,
                Err(_) => return,
            };
            for event in &events[..count] {
                if event.data() == BELL {
                    self.shared.io_bell.silence();
                    if !self.obey() {
                        return;
                    }
                } else {
                    self.event(event.data(), event.events());
                }
            }
            self.tick(awake::now());
        }
    }

    /// Does what was asked for; false at the end.
    fn obey(&mut self) -> bool {
        for command in self.plane.take_commands() {
            match command {
                PlaneCommand::Listen(listener) => {
                    // It cannot fail but for want of memory; then nobody can connect, and says so.
                    let _ = self.listen(IoListener::Tcp(listener));
                }
                PlaneCommand::Joined => {
                    for listener in std::mem::take(&mut self.silent) {
                        let _ = self.listen(listener);
                    }
                }
                PlaneCommand::StopListening => {
                    self.listeners.clear();
                    self.silent.clear();
                    self.handshakes.clear();
                }
                PlaneCommand::Connect(channel) => {
                    self.tasks.insert(channel.number, Task::new(channel, awake::now()));
                }
                PlaneCommand::GiveUp(number, until) => {
                    if let Some(task) = self.tasks.get_mut(&number) {
                        task.give_up(until, &self.shared);
                    }
                }
                PlaneCommand::Look(number) => {
                    if let Some(task) = self.tasks.get_mut(&number) {
                        task.broken(&mut self.registry, &self.shared, awake::now());
                    }
                }
                PlaneCommand::End => return false,
            }
        }
        true
    }

    fn listen(&mut self, listener: IoListener) -> io::Result<()> {
        if self.shared.token().is_none() {
            self.silent.push(listener);
            return Ok(());
        }
        let token = self.registry.token();
        let fd = match &listener {
            IoListener::Tcp(listener) => listener.as_fd(),
            IoListener::Unix(listener) => listener.as_fd(),
        };
        self.epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, token))?;
        self.listeners.insert(token, listener);
        Ok(())
    }

    fn event(&mut self, token: u64, flags: EpollFlags) {
        if self.listeners.contains_key(&token) {
            self.accept(token);
        } else if self.handshakes.contains_key(&token) {
            self.handshake(token);
        } else if let Some(number) = self.registry.owner(token)
            && let Some(task) = self.tasks.get_mut(&number)
        {
            let now = awake::now();
            task.event(token, flags, &mut self.registry, &self.epoll, &self.shared, now);
        }
    }

    // ---- those who connect ------------------------------------------------------------------

    fn accept(&mut self, token: u64) {
        // They never wait: who reads the last of a connection that was replaced does not know
        // whether its other end is gone, too.
        let accepted: io::Result<(OwnedFd, String)> = match self.listeners.get(&token) {
            Some(IoListener::Tcp(listener)) => listener.accept().and_then(|(stream, from)| {
                stream.set_nonblocking(true)?;
                Ok((stream.into(), from.to_string()))
            }),
            Some(IoListener::Unix(listener)) => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                Ok((stream.into(), "this host".to_owned()))
            }),
            None => return,
        };
        let (socket, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => {
                // For want of descriptors, most likely: the listener will say so again at once.
                std::thread::sleep(ACCEPT_PAUSE);
                return;
            }
        };
        if self.handshakes.len() >= HANDSHAKES_MAX {
            return;
        }
        let _ = setsockopt(&socket, sockopt::TcpNoDelay, &true);
        let _ = setsockopt(&socket, sockopt::KeepAlive, &true);
        let token = self.registry.token();
        let event = EpollEvent::new(EpollFlags::EPOLLIN, token);
        if self.epoll.add(&socket, event).is_ok() {
            self.handshakes.insert(token, Handshake::new(socket, Arc::from(address), awake::now()));
        }
    }

    fn handshake(&mut self, token: u64) {
        let Some(handshake) = self.handshakes.get_mut(&token) else { return };
        match handshake.step(&self.shared) {
            Ok(Wish::Wait) => {}
            Ok(Wish::Attach(hello)) => {
                let Some(handshake) = self.handshakes.remove(&token) else { return };
                let _ = self.epoll.delete(&handshake.socket);
                let Handshake { socket, descriptors, address, .. } = handshake;
                let mut arrivals = lock(&self.plane.arrivals);
                // Whoever finds no room tries again.
                if arrivals.len() < ARRIVALS_MAX {
                    arrivals.push(Introduced { socket, hello, descriptors, address });
                    self.shared.receive_bell.ring();
                }
            }
            Err(error) => {
                if let Some(handshake) = self.handshakes.remove(&token) {
                    handshake.say_why(&error);
                }
            }
        }
    }

    // ---- time ---------------------------------------------------------------------------------

    fn timeout(&self) -> EpollTimeout {
        let tasks = self.tasks.values().filter_map(|task| task.deadline(&self.shared));
        let handshakes = self.handshakes.values().map(|handshake| handshake.until);
        let Some(first) = tasks.chain(handshakes).chain(self.pace_for_copies.deadline()).min()
        else {
            return EpollTimeout::NONE;
        };
        let left = awake::left(first) + Duration::from_millis(1);
        EpollTimeout::try_from(left).unwrap_or(EpollTimeout::MAX)
    }

    fn tick(&mut self, now: Instant) {
        self.pace_for_copies.look(now, &self.plane);
        self.unsent_limits.look(now, &self.shared, || self.plane.all_channels());
        self.handshakes.retain(|_, handshake| handshake.until > now);
        let Self { tasks, registry, epoll, shared, plane, .. } = self;
        tasks.retain(|number, task| {
            let keep = task.tick(registry, epoll, shared, now);
            if !keep {
                task.end(registry);
                plane.remove_channel(*number);
            }
            keep
        });
    }
}
