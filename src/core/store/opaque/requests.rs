//! Requests about opaque keys: which the application is given, which wait, and what goes back with
//! its answers (docs/elastic.md, "A request"). May touch what the module may.

use std::time::Duration;

use bytes::Bytes;

use super::visitors::{Customer, who};
use super::{GIVEN_MAX, Given, HOLD, Opaque, Owned, Step};
use crate::store::moving::servers::Place;
use crate::store::outbound::{Answer, done};
use crate::store::pieces::limits::TENSORS_MAX;
use crate::store::pieces::name::Name;
use crate::values::{KEY_SIZE, KvPairs, key_at};
use crate::wire::elastic::{OPAQUE_END, PartAsk, Route};
use crate::wire::{Key, Meta, NodeId};

/// What an answer of the application leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerOutcome {
    /// The request as its sender knows it; `None`: nobody gets this answer.
    pub request: Option<Meta>,
    /// To be given to [`Opaque::fetched`] once the answer has arrived.
    pub fetch: Option<Fetch>,
    /// [`Opaque::advance`] has something to do.
    pub due: bool,
}

/// Values on their way to who asked for them. Where nothing is kept between rounds nobody else has
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    key: Key,
    who: Customer,
    /// Pushes that its customer had made when it asked.
    pushes: u64,
}

/// What is done with requests for a key that is to leave.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HeldRequests {
    Nothing,
    /// Those that nobody waits for.
    Leaders,
    All,
}

impl Opaque {
    /// Serves a push, a pull, or both in one.
    pub fn serve(&mut self, now: Duration, request: Meta, frames: &[Bytes], steps: &mut Vec<Step>) {
        self.serve_now(now, request, frames, steps);
        self.look_at_request(frames);
    }

    /// The same in the middle of something else.
    fn serve_now(&mut self, now: Duration, request: Meta, frames: &[Bytes], steps: &mut Vec<Step>) {
        let key = match self.key_of(frames) {
            Ok(key) => key,
            Err(why) => return steps.push(refused(request, why)),
        };
        let ask = request.ask().cloned().unwrap_or_default();
        if ask.asks {
            // Nothing of an opaque key goes along a tree: it is pushed alone.
            return self.again(request, Vec::new(), steps);
        }
        match self.place(key, &ask) {
            Place::Here(_) | Place::Within(_) => self.here(now, key, request, frames, steps),
            Place::New if self.keys.len() >= TENSORS_MAX => {
                steps.push(refused(request, "the server may hold no more keys"));
            }
            Place::New => {
                // (docs/elastic.md, "The view above, the truth below")
                let owned = Owned { term: (self.servers.epoch << 32) + 1, ..Owned::default() };
                self.keys.insert(key, owned);
                self.changes.of(key);
                self.here(now, key, request, frames, steps);
            }
            Place::Later => {
                if !self.parked.push(key, &request, frames) {
                    self.again(request, Vec::new(), steps);
                }
            }
            Place::Again(routes) => self.again(request, routes, steps),
        }
    }

    /// The one key that a request is about.
    fn key_of(&self, frames: &[Bytes]) -> Result<Key, &'static str> {
        let keys = frames.first().map_or(&[][..], |keys| keys);
        if keys.len() != KEY_SIZE {
            return Err("where keys of an application's handler move, a request is about one key");
        }
        let key = key_at(keys, 0).filter(|key| self.view.rank(*key).is_some());
        key.ok_or("the key is in no server's range")
    }

    pub(super) fn place(&self, key: Key, ask: &PartAsk) -> Place {
        if self.servers.epoch < ask.epoch {
            return Place::Later;
        }
        if let Some(owned) = self.keys.get(&key) {
            return if owned.term >= ask.term { Place::Here(0) } else { Place::Later };
        }
        match self.routes.get(&key) {
            Some(route) if route.owner != self.servers.me && route.term >= ask.term => {
                Place::Again(vec![*route])
            }
            // It is on its way here.
            Some(_) => Place::Later,
            None if ask.term > 0 => Place::Later,
            None => self.servers.place_new(&self.view, key, ask),
        }
    }

    /// A request for a key that is here.
    fn here(
        &mut self,
        now: Duration,
        key: Key,
        mut request: Meta,
        frames: &[Bytes],
        steps: &mut Vec<Step>,
    ) {
        let Some(owned) = self.keys.get(&key) else { return };
        let name = Name::of(&request);
        if request.push && owned.marks.count(&name) {
            // Its answer was lost with the server that gave it.
            if !request.pull {
                return self.answer(key, request, steps);
            }
            request.push = false;
        } else if !self.held.has(key, &request) && !owned.marks.count_before(&name) {
            return self.again(request, Vec::new(), steps);
        }
        if self.is_held(now, key, &request) {
            if !self.held.push(key, &request, frames) {
                self.again(request, Vec::new(), steps);
            }
            return;
        }
        self.give(key, request, frames, steps);
    }

    /// True if a request has to wait until it is clear where the key is.
    fn is_held(&self, now: Duration, key: Key, request: &Meta) -> bool {
        let Some(owned) = self.keys.get(&key) else { return false };
        let Some(order) = owned.order else { return false };
        let stateless = self.config.stateless;
        let way = match (now.saturating_sub(order.since).as_nanos() / HOLD.as_nanos(), stateless) {
            (_, _) if owned.exporting => HeldRequests::All,
            (turn, true) if turn % 2 == 0 => HeldRequests::Leaders,
            (turn, false) if turn % 3 == 0 => HeldRequests::Leaders,
            // Perhaps nobody waits for anybody, and requests only never end.
            (turn, false) if turn % 3 == 1 => HeldRequests::All,
            _ => HeldRequests::Nothing,
        };
        self.held.has(key, request)
            || match way {
                HeldRequests::Nothing => false,
                HeldRequests::Leaders => !owned.visitors.is_behind(request, stateless),
                HeldRequests::All => true,
            }
    }

    /// Looks again at what was held for a key.
    pub(super) fn let_through(&mut self, now: Duration, key: Key, steps: &mut Vec<Step>) {
        for (request, frames) in self.held.take(key) {
            self.serve_now(now, request, &frames, steps);
        }
    }

    /// Looks again at what was parked for a key.
    pub(super) fn unpark(&mut self, now: Duration, key: Key, steps: &mut Vec<Step>) {
        for (request, frames) in self.parked.take(key) {
            self.serve_now(now, request, &frames, steps);
        }
    }

    pub(super) fn unpark_all(&mut self, now: Duration, steps: &mut Vec<Step>) {
        for key in self.parked.keys() {
            self.unpark(now, key, steps);
        }
    }

    fn give(&mut self, key: Key, request: Meta, frames: &[Bytes], steps: &mut Vec<Step>) {
        if self.given.len() >= GIVEN_MAX {
            return self.again(request, Vec::new(), steps);
        }
        let number = self.number();
        let stateless = self.config.stateless;
        let Some(owned) = self.keys.get_mut(&key) else { return };
        if stateless {
            owned.first.note(&request, frames, !owned.visitors.knows(who(&request)));
        }
        let pushes = owned.visitors.given(&request, stateless);
        if request.push {
            owned.marks.add(Name::of(&request).mark().as_slice());
        }
        owned.open += 1;
        let values = frames.get(1).map_or(0, Bytes::len);
        let (who, pull) = (who(&request), request.pull);
        steps.push(Step::Give(Meta { timestamp: number, ..request.clone() }, frames.to_vec()));
        self.given.insert(number, Given { key, request: Some(request), who, pushes, pull });
        self.note_bytes(key, values);
    }

    /// A number that no request has which the application knows.
    pub(super) fn number(&mut self) -> i32 {
        loop {
            self.next_number = self.next_number.checked_add(1).unwrap_or(0);
            if !self.given.contains_key(&self.next_number) {
                return self.next_number;
            }
        }
    }

    fn note_bytes(&mut self, key: Key, values: usize) {
        let Some(owned) = self.keys.get_mut(&key) else { return };
        if values as u64 > owned.bytes {
            owned.bytes = values as u64;
            self.changes.of(key);
        }
    }

    /// The application answers the request that it was given under that number, with so many bytes
    /// of values. `None`: it was given no such request, or has answered it before.
    pub fn answered(&mut self, number: i32, values: usize) -> Option<AnswerOutcome> {
        let Given { key, request, who, pushes, pull } = self.given.remove(&number)?;
        let request = request.map(|request| self.taught(key, request));
        self.note_bytes(key, values);
        let owned = self.keys.get_mut(&key)?;
        owned.open = owned.open.saturating_sub(1);
        let fetch = (pull && self.config.stateless).then_some(Fetch { key, who, pushes });
        self.look_at([key]);
        Some(AnswerOutcome { request, fetch, due: self.is_due(key) })
    }

    /// An answer with values has arrived, or who asked is gone. True if [`Self::advance`] has
    /// something to do.
    pub fn fetched(&mut self, Fetch { key, who, pushes }: Fetch) -> bool {
        if let Some(owned) = self.keys.get_mut(&key) {
            owned.visitors.fetched(who, pushes);
        }
        self.look_at([key]);
        self.is_due(key)
    }

    fn is_due(&self, key: Key) -> bool {
        self.ordered.contains(&key) && self.may_leave(key)
    }

    /// An answer says what its worker does not know yet of where the key is.
    fn taught(&self, key: Key, mut request: Meta) -> Meta {
        if let (Some(reply), Some(owned)) = (request.answering(), self.keys.get(&key)) {
            reply.epoch = self.servers.epoch;
            if owned.term != reply.term {
                reply.routes = vec![route(owned.term, self.servers.me)];
            }
        }
        request
    }

    /// Answers without the application.
    fn answer(&self, key: Key, request: Meta, steps: &mut Vec<Step>) {
        steps.push(Step::Answer(done(self.taught(key, request))));
    }

    /// Nothing was done: the worker shall send it again, as the routes say, once it has this
    /// policy.
    pub(super) fn again(&self, mut request: Meta, routes: Vec<Route>, steps: &mut Vec<Step>) {
        let Some(reply) = request.answering() else {
            return steps.push(refused(request, "the key is not on this server"));
        };
        (reply.again, reply.routes, reply.epoch) = (true, routes, self.servers.epoch);
        steps.push(Step::Answer(done(request)));
    }
}

/// Where an opaque key is.
pub(super) const fn route(term: u64, owner: NodeId) -> Route {
    Route { from: 0, to: OPAQUE_END, term, owner }
}

fn refused(request: Meta, why: &str) -> Step {
    let request = Meta { error: why.to_owned(), ..request };
    Step::Answer(Answer { request, kv: KvPairs::default() })
}
