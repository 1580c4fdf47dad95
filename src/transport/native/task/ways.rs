//! The I/O thread's work for a channel that has several ways to its peer (docs/tunnels.md). If the
//! first one is straight, it is the one to take: the others are detours while it is cut off. If it
//! leads through tunnels, all are used together.

use std::time::Instant;

use nix::sys::epoll::Epoll;

use super::{Registry, STRIPES_MAX, Task, TaskPhase};
use crate::native::attempt::{Attempt, AttemptOutcome, ChosenWay};
use crate::native::channel::Lane;
use crate::native::shared::Shared;
use crate::stuck::LOOK_EVERY;
use pslite_core::wire::native::Hello;
use pslite_observe::log::Level;

/// Looks at a channel after which ways without a connection are tried again.
const LOOKS_BEFORE_RETRY: u32 = 10;

/// When a channel with several ways was looked at.
#[derive(Debug)]
pub(super) struct WayLooks {
    last: Instant,
    count: u32,
}

impl WayLooks {
    pub(super) const fn new(now: Instant) -> Self {
        Self { last: now, count: 0 }
    }
}

impl Task {
    /// When [`Self::look_at_ways`] is due, if ever.
    pub(super) fn look_due(&self) -> Option<Instant> {
        let looks = matches!(self.phase, TaskPhase::Up) && self.channel.has_detours();
        looks.then(|| self.looks.last + LOOK_EVERY)
    }

    /// One of the channel's ways, by a number that counts around them.
    pub(super) fn way(&self, number: usize) -> Option<ChosenWay<'_>> {
        let ways = &self.channel.ways;
        let place = number % ways.len().max(1);
        let detours = ways.len() > 1 && self.channel.has_detours();
        ways.get(place).map(|way| ChosenWay { place, way, detours })
    }

    /// Further connections of a channel that is up. Of several addresses of one host the one that
    /// answered is as good as any; ways through tunnels carry more together.
    pub(super) fn add_stripes(&mut self, registry: &mut Registry, epoll: &Epoll, shared: &Shared) {
        if self.channel.carrier() != "tcp" {
            return;
        }
        let by_all = self.channel.is_by_tunnels();
        let spread = if by_all { self.channel.ways.len() } else { 1 };
        let connections = usize::from(self.channel.connections).max(spread).min(STRIPES_MAX);
        for stripe in 1..connections {
            let place = self.next_way - 1 + if by_all { stripe } else { 0 };
            self.add_stripe(stripe, place, registry, epoll, shared);
        }
    }

    fn add_stripe(
        &mut self,
        stripe: usize,
        place: usize,
        registry: &mut Registry,
        epoll: &Epoll,
        shared: &Shared,
    ) {
        let Some(way) = self.way(place) else { return };
        let hello = Hello { stripe: stripe as u8, ..self.hello(shared) };
        let attempt = Attempt::tcp(way, hello, false, registry.token());
        // Without it the channel is slower, no more.
        let attempt = attempt.and_then(|attempt| self.watch(attempt, registry, epoll));
        self.extras.extend(attempt.ok());
    }

    /// Gives up a connection that is cut off, and tries ways again that have none.
    pub(super) fn look_at_ways(
        &mut self,
        registry: &mut Registry,
        epoll: &Epoll,
        shared: &Shared,
        now: Instant,
    ) {
        self.looks.last = now;
        self.looks.count += 1;
        let cut_off = self.channel.cut_off();
        if !cut_off.is_empty() {
            // Not by one of those: the next one that may be fine.
            let all = self.next_way..self.next_way + self.channel.ways.len();
            let is_fine = |way: &usize| !cut_off.contains(&(way % self.channel.ways.len()));
            self.next_way = all.clone().find(is_fine).unwrap_or(all.start);
            self.said = false;
            self.say(Level::Info, "nothing gets through any more: another path is tried");
            return self.broken(registry, shared, now);
        }
        if !self.looks.count.is_multiple_of(LOOKS_BEFORE_RETRY) || !self.extras.is_empty() {
            return;
        }
        if self.channel.is_by_tunnels() {
            for way in self.channel.unused_ways() {
                self.add_stripe(1 + way % (STRIPES_MAX - 1), way, registry, epoll, shared);
            }
        } else if self.channel.is_detoured() {
            self.try_straight(registry, epoll, shared);
        }
    }

    /// A connection by the first way takes the place of all others once it stands: the peer ends
    /// those when it is greeted.
    fn try_straight(&mut self, registry: &mut Registry, epoll: &Epoll, shared: &Shared) {
        let Some(way) = self.way(0) else { return };
        let hello = Hello { attempt: self.attempt + 1, ..self.hello(shared) };
        let attempt = Attempt::tcp(way, hello, false, registry.token());
        let attempt = attempt.and_then(|attempt| self.watch(attempt, registry, epoll));
        if let Ok(attempt) = attempt {
            self.attempt += 1;
            self.extras.push(attempt);
        }
    }

    /// Something happened to an attempt at a further connection.
    pub(super) fn extra(
        &mut self,
        index: usize,
        writable: bool,
        registry: &mut Registry,
        epoll: &Epoll,
        shared: &Shared,
    ) {
        match self.extras[index].step(writable) {
            AttemptOutcome::Pending => {}
            AttemptOutcome::Welcome(welcome, rest) => {
                let attempt = self.extras.swap_remove(index);
                if attempt.is_first() {
                    self.next_way = attempt.way + 1;
                    self.stands(attempt, rest, &welcome, registry, epoll, shared);
                } else {
                    let lane = Lane::new(attempt, rest, self.channel.gives_little(shared));
                    self.channel.joined(lane, &shared.receipts);
                }
            }
            AttemptOutcome::Told(_) | AttemptOutcome::Failed(_) => {
                registry.forget_token(self.extras.swap_remove(index).token);
            }
        }
    }
}
