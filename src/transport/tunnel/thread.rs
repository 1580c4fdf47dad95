//! The thread that accepts, dials and carries. It waits for events alone, but for a short pause
//! when descriptors run out, and for the resolver where hosts have names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::TunnelShared;
use super::entrances::LeadsTo;
use super::neighbour::{Listener, who_listens};
use super::passage::{Around, Became, Door, Passage};
use super::table::TunnelTable;
use crate::dial::keep;
use crate::port_holder;
use crate::stuck::LOOK_EVERY;
use crate::sync::lock;
use crate::sys::fork::{ForkMark, note_listening};
use pslite_observe::awake;
use pslite_observe::log::{self, Level, RateLimit};

/// Connections that pass through here at a time.
const PASSAGES_MAX: usize = 4096;
/// Connections that one look at a listener accepts.
const ACCEPTS_MAX: usize = 64;
/// A pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(5);
/// How often a process tries to become its host's gateway.
const TRY_EVERY: Duration = Duration::from_millis(500);
/// How often a process asks who else listens at its gateway's port, until that is known: the one
/// that does may be about to end.
const ASKS: u32 = 3;
/// How often it is logged that strangers were refused.
const SAY_EVERY: Duration = Duration::from_secs(5);
/// For how long a way that broke comes after the others.
const TROUBLE: Duration = Duration::from_secs(30);
/// How long an entrance stays open when nobody holds it any more. What libzmq has yet to flush when
/// a channel is closed, for a second at most, may need another connection.
const CLOSE_AFTER: Duration = Duration::from_secs(3);
/// What one read takes.
const SPACE: usize = 64 << 10;
const EVENTS_MAX: usize = 64;
/// The token of the bell. A passage has two, of which the second is its onward end's; listeners
/// have a bit more.
const BELL: u64 = 0;
const LISTENER: u64 = 1 << 63;
/// Edge triggered: the kernel tells of room after a write that found none, and only then.
const FLAGS: EpollFlags =
    EpollFlags::EPOLLIN.union(EpollFlags::EPOLLOUT).union(EpollFlags::EPOLLET);

/// A way to a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct HostWay {
    /// Where it leads to.
    host: String,
    /// Which one it is of those there.
    place: usize,
}

/// Ways that broke, and when.
type Trouble = BTreeMap<HostWay, Instant>;

/// What others ask for.
#[derive(Debug)]
pub(super) enum TunnelCommand {
    /// Lead whoever comes there to that place.
    Open(TcpListener, Arc<LeadsTo>),
    /// Nobody holds the entrance of that port any more.
    Close(u16),
    /// End once nothing passes any more, then at the latest.
    TunnelEnd(Instant),
}

/// See the module.
pub(super) struct Thread {
    shared: Arc<TunnelShared>,
    /// In front of it, as it has to be dropped first.
    _mark: ForkMark,
    epoll: Epoll,
    listeners: BTreeMap<u64, (TcpListener, Door)>,
    /// The listeners of entrances, by their ports.
    entrances: BTreeMap<u16, u64>,
    /// Those that are about to be closed, in order, and when.
    closing: VecDeque<(Instant, u16)>,
    passages: BTreeMap<u64, Passage>,
    /// Those that go on though nobody says that they can.
    ready: BTreeSet<u64>,
    trouble: Trouble,
    next: u64,
    try_at: Option<Instant>,
    /// How often it has yet to ask who has the gateway's port.
    asks: u32,
    looked: Instant,
    ends: Option<Instant>,
    space: Vec<u8>,
}

impl Thread {
    pub(super) fn new(shared: Arc<TunnelShared>) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&shared.bell, EpollEvent::new(EpollFlags::EPOLLIN, BELL))?;
        let now = awake::now();
        let mut thread = Self {
            _mark: ForkMark::new(&epoll.0),
            epoll,
            shared,
            listeners: BTreeMap::new(),
            entrances: BTreeMap::new(),
            closing: VecDeque::new(),
            passages: BTreeMap::new(),
            ready: BTreeSet::new(),
            trouble: BTreeMap::new(),
            next: BELL + 2,
            try_at: None,
            asks: ASKS,
            looked: now,
            ends: None,
            space: vec![0; SPACE],
        };
        // Here, so that an address that this host does not have is an error of the node.
        thread.try_to_be_gateway(now)?;
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
            let now = awake::now();
            for event in &events[..count] {
                match event.data() {
                    BELL => {
                        self.shared.bell.silence();
                        self.obey();
                    }
                    token if token & LISTENER != 0 => self.accept(token, now),
                    token => self.event(token, event.events(), now),
                }
            }
            for id in std::mem::take(&mut self.ready) {
                self.event(id, EpollFlags::empty(), now);
            }
            self.tick(now);
            self.shared.open.store(self.passages.len(), Ordering::Relaxed);
            if self.ends.is_some_and(|until| self.passages.is_empty() || now >= until) {
                return;
            }
        }
    }

    fn obey(&mut self) {
        let commands = std::mem::take(&mut *lock(&self.shared.commands));
        for command in commands {
            match command {
                TunnelCommand::Open(listener, leads) => {
                    let port = listener.local_addr().map(|address| address.port());
                    // It fails only for want of memory; then the peer is not reached, and missed.
                    if let (Ok(port), Ok(token)) =
                        (port, self.listen(listener, Door::Entrance(leads)))
                    {
                        self.entrances.insert(port, token);
                    }
                }
                TunnelCommand::Close(port) => {
                    self.closing.push_back((awake::now() + CLOSE_AFTER, port));
                }
                TunnelCommand::TunnelEnd(until) => {
                    self.ends = Some(until);
                    self.leave();
                }
            }
        }
    }

    /// Lets another process be this host's gateway. What passes goes on.
    fn leave(&mut self) {
        self.try_at = None;
        self.listeners.retain(|_, (_, door)| matches!(door, Door::Entrance(_)));
        self.shared.is_gateway.store(false, Ordering::Relaxed);
    }

    /// The token of the listener.
    fn listen(&mut self, listener: TcpListener, door: Door) -> io::Result<u64> {
        let token = LISTENER | self.token();
        self.epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, token))?;
        self.listeners.insert(token, (listener, door));
        Ok(token)
    }

    /// A token and the one after it.
    const fn token(&mut self) -> u64 {
        self.next += 2;
        self.next - 2
    }

    /// Becomes this host's gateway, unless another process is.
    fn try_to_be_gateway(&mut self, now: Instant) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let (host, port) = (shared.table.listen.as_str(), shared.table.port());
        match TcpListener::bind((host, port)) {
            Ok(listener) => {
                listener.set_nonblocking(true)?;
                note_listening(port);
                self.try_at = None;
                self.listen(listener, Door::Gateway)?;
                self.shared.is_gateway.store(true, Ordering::Relaxed);
                log::write(Level::Verbose, &format!("connections pass through {host}:{port}"));
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                self.try_at = Some(now + TRY_EVERY);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Another process has the gateway's port: asks whether it is a gateway, and says so if not.
    fn ask_who_is(&mut self) {
        let (host, port) = (self.shared.table.listen.as_str(), self.shared.table.port());
        match who_listens(host, port) {
            Listener::Gateway => self.asks = 0,
            Listener::Nobody => self.asks -= 1,
            Listener::Stranger => {
                self.asks -= 1;
                if self.asks == 0 {
                    let holder = port_holder::find(port);
                    let holder = holder.map(|it| format!(" ({it})")).unwrap_or_default();
                    let text = format!(
                        "PSLITE_TUNNELS: {host}:{port} is another program's{holder}, so no \
                         connection passes through this host; choose a port that is free on all \
                         hosts"
                    );
                    log::write(Level::Warning, &text);
                }
            }
        }
    }

    fn accept(&mut self, token: u64, now: Instant) {
        for _ in 0..ACCEPTS_MAX {
            let Some((listener, door)) = self.listeners.get(&token) else { return };
            match listener.accept() {
                Ok((stream, from)) => {
                    let door = door.clone();
                    self.welcome(stream.into(), from.ip(), door, now);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    // For want of descriptors, most likely: the listener will say so again at once.
                    std::thread::sleep(ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    fn welcome(&mut self, socket: OwnedFd, from: IpAddr, door: Door, now: Instant) {
        static REFUSED: std::sync::OnceLock<RateLimit> = std::sync::OnceLock::new();
        if matches!(door, Door::Gateway) && !self.shared.table.admits(from) {
            if let Some(total) = REFUSED.get_or_init(|| RateLimit::new(SAY_EVERY)).hit() {
                let text = format!("no tunnel for {from}, no host of this job ({total} so far)");
                log::write(Level::Warning, &text);
            }
            return;
        }
        if self.passages.len() >= PASSAGES_MAX || keep(&socket).is_err() {
            return;
        }
        let id = self.token();
        if self.epoll.add(&socket, EpollEvent::new(FLAGS, id)).is_ok() {
            self.passages.insert(id, Passage::new(socket, door, now));
            self.turn(id, now, Passage::begin);
        }
    }

    fn event(&mut self, token: u64, flags: EpollFlags, now: Instant) {
        let writable = flags.contains(EpollFlags::EPOLLOUT);
        self.turn(token & !1, now, |passage, around| {
            passage.step(token & 1 == 0, writable, around)
        });
    }

    /// Lets a passage do something, and sees what became of it.
    fn turn(
        &mut self,
        id: u64,
        now: Instant,
        act: impl FnOnce(&mut Passage, &mut Around<'_>) -> io::Result<Became>,
    ) {
        let Self { passages, shared, trouble, space, epoll, ready, .. } = self;
        let Some(passage) = passages.get_mut(&id) else { return };
        let before = passage.way().map(|(host, place)| HostWay { host: host.to_owned(), place });
        let troubled = |host: &str| -> BTreeSet<usize> {
            let of_host = trouble.keys().filter(|way| way.host == host);
            of_host.map(|way| way.place).collect()
        };
        let (table, passed) = (&shared.table, &shared.passed);
        let mut around = Around { table, troubled: &troubled, passed, space, now };
        let became = act(passage, &mut around);
        let broke = became.is_err()
            || passage.is_left() && !is_straight(&before, &shared.table)
            || passage.way() != before.as_ref().map(|way| (way.host.as_str(), way.place))
                && !passage.has_come_to_nobody();
        let over = match became {
            Ok(Became::Waits { more }) => {
                if more {
                    ready.insert(id);
                }
                false
            }
            Ok(Became::Watch) => {
                let event = EpollEvent::new(FLAGS, id | 1);
                passage.onward().is_none_or(|socket| epoll.add(socket, event).is_err())
            }
            Ok(Became::Over) | Err(_) => true,
        };
        // Nobody can tell why it broke. For a while the other ways are tried first.
        if let Some(way) = before.filter(|_| broke) {
            note(trouble, way, now, &shared.table);
        }
        if over {
            passages.remove(&id);
        }
    }

    // ---- time ---------------------------------------------------------------------------------

    fn timeout(&self) -> EpollTimeout {
        if !self.ready.is_empty() {
            return EpollTimeout::ZERO;
        }
        let passages = self.passages.values().filter_map(Passage::deadline);
        let look = (!self.passages.is_empty()).then(|| self.looked + LOOK_EVERY);
        let close = self.closing.front().map(|(at, _)| *at);
        let others = [self.try_at, self.ends, look, close].into_iter().flatten();
        let Some(first) = passages.chain(others).min() else { return EpollTimeout::NONE };
        let left = awake::left(first) + Duration::from_millis(1);
        EpollTimeout::try_from(left).unwrap_or(EpollTimeout::MAX)
    }

    fn tick(&mut self, now: Instant) {
        while let Some((_, port)) = self.closing.front().copied().filter(|(at, _)| *at <= now) {
            self.closing.pop_front();
            if let Some(token) = self.entrances.remove(&port) {
                self.listeners.remove(&token);
            }
        }
        if self.try_at.is_some_and(|at| at <= now) {
            let tried = self.try_to_be_gateway(now);
            if self.try_at.is_some() && self.asks > 0 {
                self.ask_who_is();
            }
            if tried.is_err() {
                self.try_at = Some(now + TRY_EVERY);
            }
        }
        let due = |passage: &Passage| passage.deadline().is_some_and(|at| at <= now);
        let late: Vec<u64> =
            self.passages.iter().filter(|(_, passage)| due(passage)).map(|(id, _)| *id).collect();
        for id in late {
            self.turn(id, now, Passage::tick);
        }
        if now.saturating_duration_since(self.looked) >= LOOK_EVERY {
            self.looked = now;
            self.trouble.retain(|_, since| now.saturating_duration_since(*since) < TROUBLE);
            let Self { passages, trouble, shared, .. } = self;
            passages.retain(|_, passage| {
                let stuck = passage.is_stuck();
                if stuck && let Some((host, place)) = passage.way() {
                    note(trouble, HostWay { host: host.to_owned(), place }, now, &shared.table);
                }
                !stuck
            });
        }
    }
}

/// True for a link: who ends there is the peer itself.
fn is_straight(way: &Option<HostWay>, table: &TunnelTable) -> bool {
    way.as_ref().is_some_and(|way| table.is_link(&way.host, way.place))
}

/// A way is in trouble.
fn note(trouble: &mut Trouble, way: HostWay, now: Instant, table: &TunnelTable) {
    let text = format!("control to {} through {}", way.host, table.way(&way.host, way.place));
    if trouble.insert(way, now).is_none() {
        log::write(Level::Info, &format!("{text} broke: other paths are tried first for a while"));
    }
}
