//! The I/O thread's work for one channel: connects it, through shared memory if possible; connects
//! it again when it breaks; tells the owner when it is down and when it is up again. `ways` is for
//! channels that have several.

mod ways;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use self::ways::WayLooks;
use super::attempt::{Attempt, AttemptOutcome, asks_first, hello_of};
use super::channel::{Channel, Lane, Told};
use super::shared::Shared;
use super::types::Carriers;
use pslite_core::wire::native::{Hello, Info, Welcome};
use pslite_observe::awake;
use pslite_observe::log::{self, Level};

/// The first and the longest wait before connecting again.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));
/// For how long a peer may be unreachable before the first connection; and for how long if its host
/// answers but it does not, as it may have much to do.
const FIRST_LIMIT: Duration = Duration::from_secs(5);
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Connections of a channel, at most: the receiver takes no more.
const STRIPES_MAX: usize = 16;

/// Which channel a token belongs to.
#[derive(Debug)]
pub(super) struct Registry {
    next: u64,
    owners: BTreeMap<u64, u32>,
}

impl Registry {
    pub(super) const fn new(first: u64) -> Self {
        Self { next: first, owners: BTreeMap::new() }
    }

    /// A token that nobody has.
    pub(super) const fn token(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    pub(super) fn owner(&self, token: u64) -> Option<u32> {
        self.owners.get(&token).copied()
    }

    fn forget_token(&mut self, token: u64) {
        self.owners.remove(&token);
    }

    fn forget(&mut self, channel: u32) {
        self.owners.retain(|_, owner| *owner != channel);
    }
}

#[derive(Debug)]
enum TaskPhase {
    /// Until the next attempt.
    Waiting(Instant),
    Trying(Box<Attempt>),
    Up,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Task {
    channel: Arc<Channel>,
    phase: TaskPhase,
    /// Attempts to make further connections of a channel that is up.
    extras: Vec<Attempt>,
    attempt: u32,
    backoff: Duration,
    next_way: usize,
    /// Since when there is no connection, and whether the owner was told.
    down_since: Instant,
    told_up: Option<bool>,
    ever_up: bool,
    /// The peer's host has answered.
    reached: bool,
    /// The peer said that it goes away.
    bye: bool,
    tcp_only: bool,
    said: bool,
    given_up: Option<Instant>,
    looks: WayLooks,
}

impl Task {
    pub(super) fn new(channel: Arc<Channel>, now: Instant) -> Self {
        Self {
            channel,
            phase: TaskPhase::Waiting(now),
            extras: Vec::new(),
            attempt: 0,
            backoff: BACKOFF.0,
            next_way: 0,
            down_since: now,
            told_up: None,
            ever_up: false,
            reached: false,
            bye: false,
            tcp_only: false,
            said: false,
            given_up: None,
            looks: WayLooks::new(now),
        }
    }

    /// The owner has no more use for it; what it holds is flushed until then.
    pub(super) fn give_up(&mut self, until: Instant, shared: &Shared) {
        self.given_up = Some(until);
        self.channel.flush(&shared.receipts);
    }

    /// Closes everything.
    pub(super) fn end(&mut self, registry: &mut Registry) {
        self.channel.disconnected();
        registry.forget(self.channel.number);
    }

    // ---- time ---------------------------------------------------------------------------------

    /// When the owner must be told that there is no connection.
    fn tell_at(&self, shared: &Shared) -> Option<Instant> {
        let limit = match (self.ever_up, self.reached) {
            (true, _) => shared.options.down_after,
            (false, false) if !self.channel.has_detours() => FIRST_LIMIT,
            // The first way may be cut.
            (false, _) => ANSWER_LIMIT,
        };
        let silent = self.told_up != Some(false) && !matches!(self.phase, TaskPhase::Up);
        silent.then(|| self.down_since + limit)
    }

    /// When `tick` must be called.
    pub(super) fn deadline(&self, shared: &Shared) -> Option<Instant> {
        let phase = match &self.phase {
            TaskPhase::Waiting(until) => Some(*until),
            TaskPhase::Trying(attempt) => Some(attempt.until),
            TaskPhase::Up => self.look_due(),
        };
        let extras = self.extras.iter().map(|attempt| attempt.until).min();
        // A channel that was given up is looked at often: nobody tells when it is empty.
        let gone = self.given_up.map(|until| until.min(awake::now() + BACKOFF.0));
        [phase, extras, self.tell_at(shared), gone].into_iter().flatten().min()
    }

    /// Does what is due; false if the channel has ended.
    pub(super) fn tick(
        &mut self,
        registry: &mut Registry,
        epoll: &Epoll,
        shared: &Shared,
        now: Instant,
    ) -> bool {
        if self.given_up.is_some_and(|until| now >= until || self.channel.is_empty()) {
            return false;
        }
        let late = |attempt: &mut Attempt| attempt.until <= now;
        self.extras.extract_if(.., late).for_each(|late| registry.forget_token(late.token));
        match &self.phase {
            TaskPhase::Waiting(until) if *until <= now => {
                self.try_now(registry, epoll, shared, now)
            }
            TaskPhase::Trying(attempt) if attempt.until <= now => {
                self.failed(&io::ErrorKind::TimedOut.into(), shared, now);
            }
            TaskPhase::Up if self.look_due().is_some_and(|at| at <= now) => {
                self.look_at_ways(registry, epoll, shared, now);
            }
            _ => {}
        }
        if self.tell_at(shared).is_some_and(|at| at <= now) {
            self.tell(false, shared);
        }
        true
    }

    fn tell(&mut self, up: bool, shared: &Shared) {
        if self.told_up != Some(up) {
            self.told_up = Some(up);
            self.channel.told_up(up);
            shared.event(self.channel.key.load(Ordering::Relaxed), up);
        }
    }

    fn say(&mut self, level: Level, text: &str) {
        if !std::mem::replace(&mut self.said, true) {
            let to = self.channel.ways.first().map(|way| way.first.to_string()).unwrap_or_default();
            log::write(level, &format!("connection to {to}: {text}"));
        }
    }

    // ---- connecting -----------------------------------------------------------------------------

    fn hello(&self, shared: &Shared) -> Hello {
        hello_of(shared, self.channel.number, self.channel.identity, self.attempt)
    }

    fn try_now(&mut self, registry: &mut Registry, epoll: &Epoll, shared: &Shared, now: Instant) {
        self.attempt += 1;
        // Nothing of an earlier attempt is left.
        registry.forget(self.channel.number);
        let Some(way) = self.way(self.next_way) else {
            return self.failed(&io::ErrorKind::AddrNotAvailable.into(), shared, now);
        };
        let ask_first = asks_first(shared) && !self.tcp_only;
        let attempt = Attempt::tcp(way, self.hello(shared), ask_first, registry.token());
        self.next_way += 1;
        match attempt.and_then(|attempt| self.watch(attempt, registry, epoll)) {
            Ok(attempt) => self.phase = TaskPhase::Trying(Box::new(attempt)),
            Err(error) => self.failed(&error, shared, now),
        }
    }

    fn watch(
        &self,
        attempt: Attempt,
        registry: &mut Registry,
        epoll: &Epoll,
    ) -> io::Result<Attempt> {
        // Edge triggered: so the kernel tells of room after a write that found none, and only then.
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
        epoll.add(&attempt.pipe.socket, EpollEvent::new(flags, attempt.token))?;
        registry.owners.insert(attempt.token, self.channel.number);
        Ok(attempt)
    }

    /// Something happened to the connection, or the attempt at one, with that token.
    pub(super) fn event(
        &mut self,
        token: u64,
        flags: EpollFlags,
        registry: &mut Registry,
        epoll: &Epoll,
        shared: &Shared,
        now: Instant,
    ) {
        let writable = flags.contains(EpollFlags::EPOLLOUT);
        if let TaskPhase::Trying(attempt) = &mut self.phase
            && attempt.token == token
        {
            let outcome = attempt.step(writable);
            self.reached |= attempt.has_reached();
            return self.outcome(outcome, registry, epoll, shared, now);
        }
        if let Some(index) = self.extras.iter().position(|attempt| attempt.token == token) {
            self.extra(index, writable, registry, epoll, shared);
            return;
        }
        match self.channel.progress(token, &shared.receipts) {
            Told::Fine => {}
            Told::Broken => self.broken(registry, shared, now),
            Told::Bye => {
                self.bye = true;
                self.broken(registry, shared, now);
            }
        }
    }

    fn outcome(
        &mut self,
        outcome: AttemptOutcome,
        registry: &mut Registry,
        epoll: &Epoll,
        shared: &Shared,
        now: Instant,
    ) {
        match outcome {
            AttemptOutcome::Pending => {}
            AttemptOutcome::Failed(error) => self.failed(&error, shared, now),
            AttemptOutcome::Told(info) => {
                if let Err(error) = self.choose_carrier(&info, registry, epoll, shared) {
                    self.failed(&error, shared, now);
                }
            }
            AttemptOutcome::Welcome(welcome, rest) => {
                let phase = std::mem::replace(&mut self.phase, TaskPhase::Up);
                if let TaskPhase::Trying(attempt) = phase {
                    self.stands(*attempt, rest, &welcome, registry, epoll, shared);
                }
            }
        }
    }

    /// The first connection stands: makes the others, and sends what waits.
    fn stands(
        &mut self,
        attempt: Attempt,
        rest: Vec<u8>,
        welcome: &Welcome,
        registry: &mut Registry,
        epoll: &Epoll,
        shared: &Shared,
    ) {
        let token = attempt.token;
        self.up(attempt, rest, welcome, shared);
        self.add_stripes(registry, epoll, shared);
        self.event(token, EpollFlags::empty(), registry, epoll, shared, awake::now());
    }

    /// The peer said what it can do: shared memory if it is on this host, else TCP.
    fn choose_carrier(
        &mut self,
        info: &Info,
        registry: &mut Registry,
        epoll: &Epoll,
        shared: &Shared,
    ) -> io::Result<()> {
        let hello = self.hello(shared);
        let attempt = shared.same_host.connect(info).and_then(|socket| {
            let attempt = Attempt::shared_memory(shared, socket, hello, registry.token())?;
            self.watch(attempt, registry, epoll)
        });
        match attempt {
            Ok(attempt) => {
                self.phase = TaskPhase::Trying(Box::new(attempt));
                Ok(())
            }
            Err(error) if shared.options.carriers == Carriers::Shm => Err(error),
            Err(error) => {
                // On one host that is worth a line; nodes elsewhere, or told to use TCP, are no
                // news.
                let is_news = error.kind() == io::ErrorKind::NotFound && shared.say_no_memory();
                let level = if is_news { Level::Warning } else { Level::Verbose };
                self.say(level, &format!("TCP is used: {error}"));
                match &mut self.phase {
                    TaskPhase::Trying(attempt) => attempt.greet(),
                    _ => Ok(()),
                }
            }
        }
    }

    fn up(&mut self, attempt: Attempt, rest: Vec<u8>, welcome: &Welcome, shared: &Shared) {
        let lane = Lane::new(attempt, rest, self.channel.gives_little(shared));
        let (lost, same) = self.channel.connected(lane, welcome, &shared.receipts);
        if !same {
            // What was true of the former life is over.
            if self.told_up == Some(true) {
                self.tell(false, shared);
            }
            if lost > 0 {
                let text = format!("another process answers there now; {lost} messages are lost");
                self.say(Level::Warning, &text);
            }
        }
        (self.ever_up, self.bye, self.backoff) = (true, false, BACKOFF.0);
        self.tell(true, shared);
    }

    fn failed(&mut self, error: &io::Error, shared: &Shared, now: Instant) {
        let over_ring = matches!(&self.phase, TaskPhase::Trying(a) if a.pipe.carrier() == "shm");
        if over_ring && shared.options.carriers != Carriers::Shm {
            self.tcp_only = true;
            self.say(Level::Warning, &format!("TCP is used: no shared memory: {error}"));
        } else if !self.ever_up {
            self.channel.set_why(error.to_string());
        } else if error.kind() == io::ErrorKind::PermissionDenied {
            self.say(Level::Warning, &format!("refused: {error}"));
        } else if shared.options.carriers == Carriers::Shm
            && error.kind() != io::ErrorKind::ConnectionRefused
        {
            self.say(Level::Warning, &format!("no shared memory: {error}"));
        }
        // What a gateway says is not the peer's word.
        let of_peer = match &self.phase {
            TaskPhase::Trying(attempt) => attempt.asks_peer(),
            TaskPhase::Waiting(_) | TaskPhase::Up => !self.channel.has_detours(),
        };
        self.phase = TaskPhase::Waiting(now + self.backoff);
        self.backoff = (self.backoff * 2).min(BACKOFF.1);
        // Nobody listens there, or this node may not come: that is no passing trouble of the
        // network.
        let refused = error.kind() == io::ErrorKind::ConnectionRefused
            && (self.ever_up || self.next_way >= self.channel.ways.len());
        let barred = error.kind() == io::ErrorKind::PermissionDenied
            || self.reached && shared.options.carriers == Carriers::Shm;
        if of_peer && (refused || barred && !self.ever_up) {
            self.tell(false, shared);
        }
    }

    /// The connection broke.
    pub(super) fn broken(&mut self, registry: &mut Registry, shared: &Shared, now: Instant) {
        if !matches!(self.phase, TaskPhase::Up) {
            return;
        }
        self.channel.disconnected();
        self.extras.clear();
        registry.forget(self.channel.number);
        self.down_since = now;
        self.tcp_only = false;
        self.phase = TaskPhase::Waiting(if self.bye { now + self.backoff } else { now });
        if self.bye {
            self.tell(false, shared);
        }
    }
}
