//! All connections of a node: how many may be there, how many may stay, and who is told what when.
//! Pure: given bytes and the time.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::answer::WebAnswer;
use crate::caller::{CallersWorld, SentAway, WebCaller};
use crate::desk::Desk;
use crate::feed;
use crate::shown::Shown;

/// Connections at a time.
pub(crate) const CALLERS_MAX: usize = 32;
/// Of which so many may stay.
pub(crate) const FOLLOWERS_MAX: usize = 16;

/// Names a connection.
pub(crate) type CallerNumber = u64;

/// See the module.
pub(crate) struct Hall<'s> {
    desk: Desk<'s>,
    bound: IpAddr,
    callers: BTreeMap<CallerNumber, WebCaller>,
    next: CallerNumber,
    /// When those who stay are told what is new.
    next_part: Duration,
}

impl<'s> Hall<'s> {
    /// Of a node that listens at that address. `life`: another number in each life of a node.
    pub(crate) fn new(shown: &'s dyn Shown, bound: IpAddr, life: u64) -> Self {
        let desk = Desk::new(shown, life);
        Self { desk, bound, callers: BTreeMap::new(), next: 0, next_part: Duration::ZERO }
    }

    /// Lets one in.
    ///
    /// # Errors
    /// There is no room. The answer is to be written before its connection is closed.
    pub(crate) fn enter(&mut self, now: Duration) -> Result<CallerNumber, Vec<u8>> {
        if self.callers.len() >= CALLERS_MAX {
            let answer = WebAnswer::line(503, "too many connections are open: come again");
            return Err([&answer.head()[..], &answer.body[..]].concat());
        }
        let number = self.next;
        self.next += 1;
        self.callers.insert(number, WebCaller::new(now));
        Ok(number)
    }

    /// One said that.
    pub(crate) fn said(&mut self, number: CallerNumber, bytes: &[u8], now: Duration) {
        let followers = self.followers();
        let Self { desk, bound, callers, .. } = self;
        let Some(caller) = callers.get_mut(&number) else { return };
        let mut around = CallersWorld { desk, bound: *bound, now };
        caller.said(bytes, &mut around, followers < FOLLOWERS_MAX);
        // The first of them sets the time for all.
        if caller.follows() && followers == 0 {
            self.next_part = feed::next(now);
        }
    }

    /// One says no more.
    pub(crate) fn hung_up(&mut self, number: CallerNumber) {
        if let Some(caller) = self.callers.get_mut(&number) {
            caller.hung_up();
        }
    }

    /// The connection of one broke.
    pub(crate) fn broke(&mut self, number: CallerNumber) {
        if let Some(caller) = self.callers.get_mut(&number) {
            caller.broke();
        }
    }

    /// What is to be written to one; empty if nothing is.
    pub(crate) fn to_write(&self, number: CallerNumber) -> &[u8] {
        self.callers.get(&number).map_or(&[], WebCaller::to_write)
    }

    /// So much of it was written. True if it is all that will be.
    pub(crate) fn wrote(&mut self, number: CallerNumber, bytes: usize, now: Duration) -> bool {
        let Some(caller) = self.callers.get_mut(&number) else { return false };
        caller.wrote(bytes, now);
        caller.is_leaving()
    }

    /// True if what one says is to be read.
    pub(crate) fn is_heard(&self, number: CallerNumber) -> bool {
        self.callers.get(&number).is_some_and(WebCaller::is_heard)
    }

    fn followers(&self) -> usize {
        self.callers.values().filter(|caller| caller.follows()).count()
    }

    /// Time has passed. Returns who was sent away, and why.
    pub(crate) fn tick(&mut self, now: Duration) -> Vec<SentAway> {
        if self.next_part <= now && self.followers() > 0 {
            self.next_part = feed::next(now);
            let Self { desk, callers, .. } = self;
            callers.values_mut().for_each(|caller| caller.tell_more(desk, now));
        }
        self.callers.values_mut().filter_map(|caller| caller.tick(now)).collect()
    }

    /// Those whose connections are to be closed. They are forgotten.
    pub(crate) fn take_gone(&mut self) -> Vec<CallerNumber> {
        let gone = self.callers.iter().filter(|(_, caller)| caller.is_gone());
        let gone: Vec<CallerNumber> = gone.map(|(number, _)| *number).collect();
        gone.iter().for_each(|number| drop(self.callers.remove(number)));
        gone
    }

    /// When [`Self::tick`] has something to do; `None`: not before something comes.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let part = (self.followers() > 0).then_some(self.next_part);
        self.callers.values().filter_map(WebCaller::deadline).chain(part).min()
    }

    /// The node ends.
    pub(crate) fn say_farewell(&mut self) {
        self.callers.values_mut().for_each(WebCaller::say_farewell);
    }
}
