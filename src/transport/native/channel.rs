//! The channel to one peer: its outbox, and the connections that send from it. A sending thread
//! writes to the connection at once if nothing waits. The I/O thread writes what the connection
//! would not accept, as soon as it has room. A channel outlives its connections.

mod ending;
mod held;
mod lending;
mod pace_for_copies;
mod probing;
mod tunnels;
mod unsent;

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use smallvec::SmallVec;

use self::held::{HeldBack, WindowUse};
use self::probing::{Probing, Tells};
#[cfg(test)]
pub(super) use self::unsent::UNSENT_MAX;
use self::unsent::UnsentLimit;
pub(super) use self::unsent::UnsentLimits;
use super::attempt::Attempt;
use super::counters::{Counters, add};
use super::lend::Leases;
use super::outbox::{Beside, Fragment, FrameOutbox, Limits, Taker, WriteSlices};
use super::pipe::{OutPipe, socket_read};
use super::receipt::{Receipt, Receipts};
use super::shared::Shared;
use crate::carrier::{SendError, SendMode};
use crate::dial::DialledWay;
use crate::stuck::ConnectionProgress;
use crate::sync::lock;
use crate::sys::tcp::stays_on_host;
use pslite_core::wire::native::{FRAMES_MAX, Kind, META_MAX, Parsed, Welcome, parse};
use pslite_observe::awake;

/// Fragments of one gathered write.
const BATCH_FRAGMENTS: usize = 12;
/// No more fragments are added to a write of that many bytes.
const BATCH_BYTES: usize = 256 << 10;
/// How long a sender waits busily for room in a shared ring before it leaves that to the I/O
/// thread.
const RING_WAIT: Duration = Duration::from_micros(50);
/// A sender that waits looks again after that, in case nobody told it.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// After so many looks in vain it asks the peer to confirm what it has: the confirmation may be in
/// a message that nobody here reads, because the reader waits for the sender.
const LOOKS_BEFORE_ASKING: u32 = 20;

/// See the module.
#[derive(Debug)]
pub(super) struct Channel {
    /// Its number in this process.
    pub(super) number: u32,
    /// Its key, for events.
    pub(super) key: AtomicI32,
    /// Node id that this node says it has.
    pub(super) identity: Option<i32>,
    /// Where it connects to: any of them, the best first.
    pub(super) ways: Vec<DialledWay>,
    /// How many connections it has over TCP, if all can be made; large messages use all of them.
    pub(super) connections: u8,
    /// The life of the peer that it is connected to, or 0.
    pub(super) peer_life: AtomicU64,
    pub(super) counters: Counters,
    /// The connection can lend large frames.
    lends: AtomicBool,
    /// Confirmed by the peer's own messages. Not in `state`, whose lock is held while a sender
    /// writes.
    acked: Mutex<Acked>,
    state: Mutex<ChannelState>,
    room: Condvar,
    /// Why there is no connection yet.
    why: Mutex<String>,
}

#[derive(Debug)]
pub(super) struct ChannelState {
    outbox: FrameOutbox,
    lanes: SmallVec<[Lane; 1]>,
    /// What carried the messages last, for the counters.
    last_carrier: &'static str,
    /// What was lent over former connections and is still read.
    orphans: Vec<Leases>,
    /// Given up by its owner.
    gone: bool,
    /// What it held was taken back to be sent in another way.
    taken_back: bool,
    broken: bool,
    /// Its owner was told that there is no connection.
    down: bool,
    confirmed: u64,
    waiters: usize,
    receipt: Option<Arc<Receipt>>,
    receipts_version: u64,
    /// A probe is being sent.
    probe: Option<Probing>,
    /// What its connections may send, in bytes per second, if that is limited.
    pace: Option<u32>,
    /// For how long it was, and since when it is.
    paced: (Duration, Option<Instant>),
    held: HeldBack,
}

/// What a life of the peer confirmed.
#[derive(Clone, Copy, Debug, Default)]
struct Acked {
    life: u64,
    upto: u64,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Lane {
    pipe: OutPipe,
    token: u64,
    /// It is TCP to another host.
    through_a_card: bool,
    unsent: UnsentLimit,
    /// Bytes per second that the kernel was told.
    pace: Option<u32>,
    window_use: WindowUse,
    writing: VecDeque<Fragment>,
    /// There was no room; it will be told.
    blocked: bool,
    /// The beginning of an acknowledgement.
    acks: Vec<u8>,
    /// Which of the channel's ways it takes.
    way: usize,
    progress: ConnectionProgress,
}

/// What a connection told against the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Nothing that needs more to be done.
    Fine,
    /// The peer goes away for good.
    Bye,
    /// The connection is broken.
    Broken,
}

impl ChannelState {
    fn carrier(&self) -> &'static str {
        self.lanes.first().map_or("none", |lane| lane.pipe.carrier())
    }
}

impl Lane {
    /// `little`: what waits here may be overtaken, or take another connection, so the kernel takes
    /// little of it.
    pub(super) fn new(attempt: Attempt, acks: Vec<u8>, little: bool) -> Self {
        let Attempt { pipe, token, way, .. } = attempt;
        let through_a_card = pipe.carrier() == "tcp" && !stays_on_host(pipe.socket.as_fd());
        if through_a_card && little {
            unsent::begin(pipe.socket.as_fd());
        }
        Self {
            pipe,
            token,
            through_a_card,
            unsent: UnsentLimit::new(),
            pace: None,
            window_use: WindowUse::default(),
            writing: VecDeque::new(),
            blocked: false,
            acks,
            way,
            progress: ConnectionProgress::default(),
        }
    }
}

impl Channel {
    pub(super) fn new(
        number: u32,
        key: i32,
        identity: Option<i32>,
        ways: Vec<DialledWay>,
        connections: u8,
        limits: Limits,
    ) -> Self {
        Self {
            number,
            key: AtomicI32::new(key),
            identity,
            ways,
            connections,
            peer_life: AtomicU64::new(0),
            counters: Counters::default(),
            lends: AtomicBool::new(false),
            acked: Mutex::default(),
            state: Mutex::new(ChannelState {
                outbox: FrameOutbox::new(limits),
                lanes: SmallVec::new(),
                last_carrier: "none",
                orphans: Vec::new(),
                gone: false,
                taken_back: false,
                broken: false,
                down: false,
                confirmed: 0,
                waiters: 0,
                receipt: None,
                receipts_version: 0,
                probe: None,
                pace: None,
                paced: (Duration::ZERO, None),
                held: HeldBack::default(),
            }),
            room: Condvar::new(),
            why: Mutex::default(),
        }
    }

    /// Sends a message, or keeps it until it can be sent; true if the connection broke over it.
    ///
    /// # Errors
    /// See [`SendError`].
    pub(super) fn send(
        &self,
        shared: &Shared,
        meta: &[u8],
        data: &[Bytes],
        class: i32,
        mode: SendMode,
        stopping: impl Fn() -> bool,
    ) -> Result<bool, SendError> {
        let bytes = data.iter().map(Bytes::len).sum::<usize>();
        if data.len() > FRAMES_MAX || meta.len() > META_MAX {
            let text = "more frames or metadata than a message may have";
            return Err(SendError::Io(io::Error::new(io::ErrorKind::InvalidInput, text)));
        }
        let adopted = self.adopt(shared, data);
        let data = adopted.as_deref().unwrap_or(data);
        let now = awake::now();
        let mut state = lock(&self.state);
        let mut looks = 0;
        loop {
            if state.taken_back {
                return Err(SendError::TakenBack);
            }
            if state.gone {
                return Err(SendError::PeerGone);
            }
            self.trim(&mut state);
            state.collect();
            if state.outbox.has_room(bytes as u64, mode) {
                break;
            }
            if mode != SendMode::Block {
                return Err(SendError::QueueFull);
            }
            if stopping() {
                return Err(SendError::Stopped);
            }
            state = self.wait(state, LOOK_AGAIN);
            looks += 1;
            // A peer that has no room left does not read, and asking it is vain.
            let has_room = state.lanes.first().is_some_and(|lane| !lane.blocked);
            if looks % LOOKS_BEFORE_ASKING == 0 && has_room {
                self.ask(&mut state, &shared.receipts);
            }
        }
        let counter = match mode {
            SendMode::Control => &self.counters.control_messages,
            SendMode::Block | SendMode::Queue => &self.counters.data_messages,
        };
        add(counter, 1);
        state.outbox.push(meta, data, class, mode, now);
        probing::end(&mut state.probe);
        self.pump(&mut state, &shared.receipts, RING_WAIT);
        self.counters.waits(state.outbox.waiting());
        Ok(state.broken)
    }

    fn wait<'a>(
        &self,
        mut state: MutexGuard<'a, ChannelState>,
        time: Duration,
    ) -> MutexGuard<'a, ChannelState> {
        state.waiters += 1;
        let waited = self.room.wait_timeout(state, time);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.waiters -= 1;
        state
    }

    /// Wakes those who wait. With nobody there that would still be a system call, for every
    /// message.
    fn notify(&self, state: &ChannelState) {
        if state.waiters > 0 {
            self.room.notify_all();
        }
    }

    /// Notes what that life of the peer confirms. Does not wait for a sender that writes: it looks
    /// itself.
    pub(super) fn acknowledged(&self, life: u64, upto: u64) {
        if self.note_ack(life, upto)
            && let Ok(mut state) = self.state.try_lock()
        {
            self.trim(&mut state);
        }
    }

    /// True if that is news.
    fn note_ack(&self, life: u64, upto: u64) -> bool {
        let mut acked = lock(&self.acked);
        let news = life != acked.life || upto > acked.upto;
        if news {
            *acked = Acked { life, upto };
        }
        news
    }

    fn trim(&self, state: &mut ChannelState) {
        let acked = *lock(&self.acked);
        let current = acked.life == self.peer_life.load(Ordering::Relaxed);
        if current && acked.upto > state.confirmed {
            state.confirmed = acked.upto;
            // A peer that confirms what it was not sent gains nothing by it.
            state.outbox.confirm(acked.upto);
            self.notify(state);
        }
    }

    /// Writes what waits, as far as there is room.
    fn pump(&self, state: &mut ChannelState, receipts: &Receipts, patience: Duration) {
        for number in 0..state.lanes.len() {
            if state.broken || state.lanes[number].blocked {
                continue;
            }
            match self.pump_lane(state, number, receipts, patience) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    state.lanes[number].blocked = true;
                }
                Err(_) => state.broken = true,
            }
        }
    }

    fn pump_lane(
        &self,
        state: &mut ChannelState,
        number: usize,
        receipts: &Receipts,
        patience: Duration,
    ) -> io::Result<()> {
        let only_large = number > 0 && !self.may_take_small(state);
        loop {
            let ack = if state.outbox.is_idle() { None } else { self.ack(state, receipts) };
            let held_here = state.held.at_this_end();
            let ChannelState { outbox, lanes, probe, .. } = state;
            let lane = &mut lanes[number];
            let mut bytes: usize = lane.writing.iter().map(|next| outbox.len_of(next)).sum();
            let mut follows = !lane.writing.is_empty() || lane.still_sends(outbox.is_idle());
            let several = self.has_several();
            let batch = lane.batch_bytes(several);
            while lane.writing.len() < BATCH_FRAGMENTS && bytes < batch {
                // The further connections carry what is large only, while the first one has room:
                // what is small keeps its order there.
                let taker = Taker { only_large, most: lane.fragment_most(several) };
                let leases = lane.pipe.leases();
                let Some(fragment) = outbox.next_fragment(Beside { ack, follows }, taker, leases)
                else {
                    break;
                };
                follows = true;
                bytes += outbox.len_of(&fragment);
                lane.writing.push_back(fragment);
            }
            if number == 0 && lane.writing.is_empty() && probe.is_some() {
                let follows = lane.still_probes();
                let tells = Tells { follows, link: !held_here };
                lane.writing.extend(probing::next(probe, tells, &self.counters));
            }
            let mut slices = WriteSlices::new();
            lane.writing.iter().for_each(|fragment| outbox.slices(fragment, &mut slices));
            if slices.is_empty() {
                return Ok(());
            }
            let written = lane.pipe.write(&slices, patience, &self.counters);
            drop(slices);
            self.wrote(outbox, &mut lane.writing, written?);
        }
    }

    /// True if a further connection may take small messages, too: one that waited for the first
    /// connection would hold back all that is behind it, while the others are idle. Where each
    /// takes another way, no order is worth an idle way.
    fn may_take_small(&self, state: &ChannelState) -> bool {
        self.is_by_tunnels() || state.lanes.first().is_some_and(|lane| lane.blocked)
    }

    /// What arrived from the peer, to be said with the next fragment.
    fn ack(&self, state: &mut ChannelState, receipts: &Receipts) -> Option<(u32, u64)> {
        let version = receipts.version();
        if version != state.receipts_version {
            state.receipts_version = version;
            state.receipt = receipts.of(self.peer_life.load(Ordering::Relaxed));
        }
        state.receipt.as_ref().map(|receipt| receipt.tell())
    }

    fn wrote(&self, outbox: &mut FrameOutbox, writing: &mut VecDeque<Fragment>, mut bytes: usize) {
        add(&self.counters.bytes, bytes as u64);
        let now = awake::now();
        while let Some(fragment) = writing.front_mut() {
            let left = outbox.len_of(fragment) - fragment.done;
            if bytes < left {
                fragment.done += bytes;
                return;
            }
            bytes -= left;
            if let Some(took) = outbox.wrote(fragment, now) {
                self.counters.took(took);
            }
            writing.pop_front();
        }
    }

    // ---- for the I/O thread -------------------------------------------------------------------

    /// The first connection stands: what the peer has not got goes again. If it is another life of
    /// the peer: how many messages are lost, and false.
    pub(super) fn connected(
        &self,
        lane: Lane,
        welcome: &Welcome,
        receipts: &Receipts,
    ) -> (usize, bool) {
        let mut state = lock(&self.state);
        self.trim(&mut state);
        let former = self.peer_life.swap(welcome.incarnation, Ordering::AcqRel);
        let same = former == 0 || former == welcome.incarnation;
        let resumed = same && state.outbox.resume(welcome.received, &welcome.beyond);
        state.retire_lanes();
        if same {
            // The peer reads the former connections no more, but may still read what it took from
            // them.
            state.orphans.iter_mut().for_each(Leases::collect_offered);
            state.orphans.retain(|leases| !leases.is_empty());
        } else {
            state.orphans.clear();
        }
        let mut lost = 0;
        if !resumed {
            lost = state.outbox.abandon(welcome.received);
            *lock(&self.acked) = Acked::default();
        }
        state.confirmed = welcome.received;
        state.probe = None;
        state.note_pace(None, awake::now());
        // The kernel counts anew with the connection, and so does this.
        state.paced = (Duration::ZERO, None);
        state.broken = false;
        state.receipts_version = 0;
        let mut lane = lane;
        self.lends.store(lane.pipe.leases().is_some(), Ordering::Relaxed);
        state.last_carrier = lane.pipe.carrier();
        state.lanes.push(lane);
        state.look_at_link(awake::now());
        add(&self.counters.connections, 1);
        self.pump(&mut state, receipts, Duration::ZERO);
        self.room.notify_all();
        (lost, resumed)
    }

    /// One more connection.
    pub(super) fn joined(&self, lane: Lane, receipts: &Receipts) {
        let mut state = lock(&self.state);
        state.last_carrier = lane.pipe.carrier();
        state.lanes.push(lane);
        add(&self.counters.connections, 1);
        self.pump(&mut state, receipts, Duration::ZERO);
    }

    /// Gives all connections up; messages are kept.
    pub(super) fn disconnected(&self) {
        let mut state = lock(&self.state);
        self.lends.store(false, Ordering::Relaxed);
        state.probe = None;
        state.retire_lanes();
        state.broken = false;
        self.room.notify_all();
    }

    /// Something happened on the connection with that token: it may have room or have told
    /// something.
    pub(super) fn progress(&self, token: u64, receipts: &Receipts) -> Told {
        let mut state = lock(&self.state);
        let Some(number) = state.lanes.iter().position(|lane| lane.token == token) else {
            return Told::Fine;
        };
        let mut told = self.read_acks(&mut state.lanes[number]);
        self.trim(&mut state);
        state.lanes[number].blocked = false;
        if told == Told::Fine {
            self.pump(&mut state, receipts, RING_WAIT);
            if state.broken {
                told = Told::Broken;
            }
        }
        self.notify(&state);
        told
    }

    fn read_acks(&self, lane: &mut Lane) -> Told {
        let mut bytes = [0; 1024];
        loop {
            add(&self.counters.syscalls, 1);
            match socket_read(&lane.pipe.socket, &mut bytes) {
                Ok(0) => return Told::Broken,
                Ok(n) => lane.acks.extend_from_slice(&bytes[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Told::Fine,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return Told::Broken,
            }
            loop {
                match parse(&lane.acks, 0) {
                    // Nothing that comes here has metadata.
                    Ok(Parsed::Need(bytes)) if bytes <= pslite_core::wire::native::HEADER => break,
                    Ok(Parsed::Head(head)) => {
                        if head.header.ack_channel == self.number {
                            self.note_ack(self.peer_life.load(Ordering::Relaxed), head.header.ack);
                        }
                        if head.header.kind == Kind::Bye {
                            return Told::Bye;
                        }
                        lane.acks.drain(..head.size);
                    }
                    Ok(Parsed::Need(_)) | Err(_) => return Told::Broken,
                }
            }
        }
    }
}
