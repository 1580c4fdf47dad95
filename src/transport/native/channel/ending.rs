//! The end of a channel: it is flushed or given up, or what it held is taken back. Also the other
//! questions that its owner asks.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::held::{ChannelSeen, ConnectionWait};
use super::{Channel, ChannelState, LOOK_AGAIN, Lane};
use crate::counters::PeerCounters;
use crate::native::outbox::Fragment;
use crate::native::receipt::Receipts;
use crate::native::types::{SentOverTcp, Unsent};
use crate::sync::lock;
use crate::sys::tcp::{TcpInfo, tcp_info};
use pslite_core::wire::native::Kind;
use pslite_observe::awake;

impl Channel {
    /// From now on takes no message; wakes senders that wait.
    pub(in crate::native) fn give_up(&self) {
        lock(&self.state).gone = true;
        self.room.notify_all();
    }

    /// Asks the peer to confirm what it has.
    pub(in crate::native) fn flush(&self, receipts: &Receipts) {
        let mut state = lock(&self.state);
        if !state.outbox.is_empty() {
            self.ask(&mut state, receipts);
        }
    }

    /// The same, for a caller that holds the state.
    pub(super) fn ask(&self, state: &mut ChannelState, receipts: &Receipts) {
        if let Some(lane) = state.lanes.first_mut() {
            lane.writing.push_back(Fragment::bare(Kind::Flush));
            self.pump(state, receipts, super::RING_WAIT);
        }
    }

    /// If there never was a connection, so that nothing can have arrived: gives the channel up and
    /// returns all that it was to send.
    pub(in crate::native) fn take_back(&self) -> Option<Vec<Unsent>> {
        let mut state = lock(&self.state);
        // It changes under this lock, before the first message is written.
        if state.gone || self.peer_life.load(Ordering::Acquire) != 0 {
            return None;
        }
        (state.gone, state.taken_back) = (true, true);
        self.room.notify_all();
        Some(state.outbox.take_all())
    }

    /// Why there is no connection yet.
    pub(in crate::native) fn why(&self) -> String {
        lock(&self.why).clone()
    }

    pub(in crate::native) fn set_why(&self, why: String) {
        *lock(&self.why) = why;
    }

    /// Notes what its owner was told.
    pub(in crate::native) fn told_up(&self, up: bool) {
        lock(&self.state).down = !up;
        self.room.notify_all();
    }

    /// Waits until everything is confirmed or the peer is not reachable; at most until then.
    pub(in crate::native) fn wait_until_empty(&self, until: Instant) {
        let mut state = lock(&self.state);
        loop {
            self.trim(&mut state);
            let left = until.saturating_duration_since(awake::now());
            if state.outbox.is_empty() || state.down || left.is_zero() {
                return;
            }
            state = self.wait(state, left.min(LOOK_AGAIN));
        }
    }

    /// True if nothing is unconfirmed.
    pub(in crate::native) fn is_empty(&self) -> bool {
        let mut state = lock(&self.state);
        self.trim(&mut state);
        state.outbox.is_empty()
    }

    /// What carries it now.
    pub(in crate::native) fn carrier(&self) -> &'static str {
        lock(&self.state).carrier()
    }

    /// What carried messages last.
    pub(in crate::native) fn last_carrier(&self) -> &'static str {
        lock(&self.state).last_carrier
    }

    /// The shortest round trip to the peer over TCP, if it is known and nobody is just writing.
    pub(in crate::native) fn shortest_round_trip(&self) -> Option<Duration> {
        let state = self.state.try_lock().ok()?;
        let lane = state.lanes.first().filter(|lane| lane.pipe.carrier() == "tcp")?;
        tcp_info(lane.pipe.socket.as_fd())?.shortest_round_trip
    }

    /// What went over its TCP connections, if it has some.
    pub(in crate::native) fn sent_over_tcp(&self) -> Option<SentOverTcp> {
        let peer = self.key.load(Ordering::Relaxed);
        let mut state = lock(&self.state);
        let now = awake::now();
        let infos = state.look_at_link(now);
        if infos.is_empty() {
            return None;
        }
        let busy = infos.iter().map(|info| info.busy).max().unwrap_or_default();
        Some(SentOverTcp {
            peer,
            bytes: infos.iter().map(|info| info.confirmed).sum(),
            padding: self.counters.padding.load(Ordering::Relaxed),
            // While it was paced it could have sent more.
            busy: busy.saturating_sub(state.time_paced(now)),
            held: state.held.total(),
            patience: infos.iter().map(TcpInfo::three_timeouts).max().unwrap_or_default(),
            round_trip: infos.iter().filter_map(|info| info.shortest_round_trip).min(),
        })
    }

    /// Wakes senders that wait, so that they see that the node stops.
    pub(in crate::native) fn wake(&self) {
        let _state = lock(&self.state);
        self.room.notify_all();
    }

    pub(in crate::native) fn read_counters(&self) -> PeerCounters {
        let state = lock(&self.state);
        let mut counters = self.counters.read(Some(self.key.load(Ordering::Relaxed)), true);
        counters.carrier = state.last_carrier;
        counters.waiting = state.outbox.waiting() as u64;
        counters.unconfirmed = state.outbox.unconfirmed() as u64;
        counters
    }

    /// How many connections there are, and how many of them have no room.
    #[cfg(test)]
    pub(in crate::native) fn lanes(&self) -> (usize, usize) {
        let state = lock(&self.state);
        (state.lanes.len(), state.lanes.iter().filter(|lane| lane.blocked).count())
    }

    /// Breaks the connections as a failing network does.
    #[cfg(test)]
    pub(in crate::native) fn cut(&self) {
        use std::os::fd::AsRawFd;
        for lane in &lock(&self.state).lanes {
            let _ = nix::sys::socket::shutdown(
                lane.pipe.socket.as_raw_fd(),
                nix::sys::socket::Shutdown::Both,
            );
        }
    }
}

impl ChannelState {
    /// Looks what holds back what is sent over TCP; what the kernel says of each connection.
    pub(super) fn look_at_link(&mut self, now: Instant) -> SmallVec<[TcpInfo; 8]> {
        let over_tcp = self.lanes.iter_mut().filter(|lane| lane.pipe.carrier() == "tcp");
        let look = |lane: &mut Lane| {
            let info = tcp_info(lane.pipe.socket.as_fd())?;
            Some((info, lane.window_use.look(now, &info)))
        };
        let seen: SmallVec<[(TcpInfo, ConnectionWait); 8]> = over_tcp.filter_map(look).collect();
        self.held.look(now, ChannelSeen::of(&seen, self.time_paced(now)));
        self.outbox.set_held_here(self.held.at_this_end());
        seen.into_iter().map(|(info, _)| info).collect()
    }
}
