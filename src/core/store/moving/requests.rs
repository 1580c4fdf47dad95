//! Which piece a request is about, what waits for a piece or a policy, and what an answer teaches
//! (docs/elastic.md, "A request"). May touch what a `Mover` may.

use bytes::Bytes;

use super::limits::ANSWERS_WAITING_MAX;
use super::mover::{Mover, Whereabouts};
use super::questions::{Asked, asks};
use super::servers::Place;
use crate::store::error::StoreError;
use crate::store::holdings::At;
use crate::store::outbound::{Answer, Outbound, done};
use crate::values::{KeyPart, KeyRoutes};
use crate::wire::elastic::{PartReply, Route};
use crate::wire::{Key, Meta};

/// A request, and the piece that it is about; none: the push makes the key.
pub(in crate::store) struct ToServe {
    pub(in crate::store) request: Meta,
    pub(in crate::store) at: Option<At>,
}

impl Whereabouts<'_> {
    /// True if that request is to be left alone: whoever sent it is dead for the others, or another
    /// process has its id.
    pub(in crate::store) fn is_of_the_dead(self, request: &Meta) -> bool {
        // One that knows a newer policy may be of a worker that this one does not name yet.
        let known = request.ask().is_some_and(|ask| ask.epoch <= self.known.servers.epoch);
        known && self.held.attendance.is_former(request)
    }

    /// Where a request about that key is served.
    pub(super) fn place(self, key: Key, request: &Meta) -> Result<Place, StoreError> {
        let (tensor, known) = (self.held.tensors.get(&key), self.known);
        if !self.held.config.elastic {
            return Ok(tensor.map_or(Place::New, |_| Place::Here(0)));
        }
        let Some(ask) = request.ask() else {
            return match tensor {
                None if !self.knows(key) => Ok(Place::New),
                tensor => tensor
                    .and_then(|tensor| tensor.whole_piece())
                    .map(Place::Here)
                    .ok_or_else(|| StoreError::Elsewhere { key: self.held.view.name(key) }),
            };
        };
        let whole = ask.to == 0;
        if !whole && ask.from >= ask.to {
            return Err(StoreError::Malformed("a part that ends where it begins, or before"));
        }
        let is_ahead = known.servers.epoch < ask.epoch || known.overlay() < ask.overlay;
        if known.waits_for_commands() || is_ahead {
            return Ok(Place::Later);
        }
        let here = tensor.and_then(|tensor| {
            let index = if whole { tensor.whole_piece() } else { tensor.exactly(ask.from, ask.to) };
            index.filter(|index| tensor.pieces[*index].term >= ask.term)
        });
        if let Some(index) = here {
            let waiting = known.waiting.get(&key).map_or(0, Vec::len);
            let full = request.push && waiting >= ANSWERS_WAITING_MAX;
            return Ok(if full { Place::Again(Vec::new()) } else { Place::Here(index) });
        }
        let within = tensor.and_then(|tensor| tensor.containing(ask.from, ask.to));
        if let Some((index, piece)) = within.filter(|_| !whole)
            && piece.term >= ask.term
        {
            // Its former owner knows it by these borders.
            let settled = piece.source.is_none();
            return Ok(if settled { Place::Within(index) } else { Place::Later });
        }
        if whole && !self.knows(key) {
            return Ok(known.servers.place_new(&self.held.view, key, ask));
        }
        let mut routes = self.routes(KeyPart { key, from: ask.from, to: ask.to });
        routes.retain(|route| {
            route.term > ask.term || (route.term == ask.term && route.owner != known.servers.me)
        });
        Ok(if routes.is_empty() { Place::Later } else { Place::Again(routes) })
    }

    /// True if the key exists, as far as this server has heard.
    pub(in crate::store) fn knows(self, key: Key) -> bool {
        let routes = self.known.routes.get(&key);
        self.held.tensors.contains_key(&key)
            || routes.is_some_and(|routes| !routes.all().is_empty())
    }

    /// The newest that is known about the part of a key that a request names.
    pub(super) fn routes(self, part: KeyPart) -> Vec<Route> {
        let KeyPart { key, from, to } = part;
        let (from, to) = if to == 0 { (0, u64::MAX) } else { (from, to) };
        let about = |route: &Route| route.from < to && from < route.to;
        let known = self.known.routes.get(&key);
        let own = self.held.pieces_of(key).iter().map(|piece| Route {
            from: piece.from,
            to: piece.to,
            term: piece.term,
            owner: self.known.servers.me,
        });
        let own = own.filter(about);
        match known.filter(|routes| routes.all().iter().any(about)) {
            None => own.collect(),
            Some(known) => {
                let mut all: KeyRoutes = known.clone();
                for route in own {
                    all.learn(route);
                }
                all.all().iter().copied().filter(about).collect()
            }
        }
    }

    /// Makes the answer *again* of a request.
    pub(super) fn mark_again(self, request: &mut Meta, routes: Vec<Route>) {
        if let Some(reply) = request.answering() {
            (reply.again, reply.routes, reply.epoch) = (true, routes, self.known.servers.epoch);
        }
    }

    /// Sends an answer, and with it what the worker does not know yet of where the key is.
    pub(in crate::store) fn deliver(self, key: Key, mut answer: Answer, out: &mut Outbound) {
        let of_sum = answer.request.hop().is_some();
        if !of_sum && self.held.attendance.is_former(&answer.request) {
            // Another process that has its id would take the answer for one of its own.
            return;
        }
        if self.held.config.elastic
            && let Some(reply) = answer.request.answering()
        {
            reply.epoch = self.known.servers.epoch;
            if reply.to == 0 || !self.owns_exactly(key, reply) {
                reply.routes = self.routes(KeyPart { key, from: reply.from, to: reply.to });
            }
            if answer.request.push && self.known.overlay() > 0 {
                self.tell_ticket(key, &mut answer.request);
            }
        }
        self.answer(answer, out);
    }

    /// True if the worker knows all there is to know of the part that it asked for.
    fn owns_exactly(self, key: Key, reply: &PartReply) -> bool {
        self.held.tensors.get(&key).is_some_and(|tensor| {
            let index = tensor.exactly(reply.from, reply.to);
            index.is_some_and(|index| tensor.pieces[index].term == reply.term)
        })
    }
}

impl Mover<'_> {
    /// The request, and where it is served. `None`: it waits, or is answered. `misfit`: the piece
    /// at which it is refused, wherever it belongs.
    pub(in crate::store) fn find(
        &mut self,
        key: Key,
        request: Meta,
        frames: &[Bytes],
        misfit: Option<usize>,
    ) -> Result<Option<ToServe>, StoreError> {
        let mut place = match misfit {
            Some(index) => Place::Here(index),
            None => self.look().place(key, &request)?,
        };
        if let Place::Within(index) = place {
            place = self.place_within(At { key, index }, &request)?;
        }
        let at = match place {
            Place::Here(index) => Some(At { key, index }),
            Place::New => None,
            Place::Later | Place::Within(_) => {
                self.park(key, request, frames);
                return Ok(None);
            }
            Place::Again(_) if asks(&request) => {
                self.asked_of_others(key, request);
                return Ok(None);
            }
            Place::Again(routes) => {
                self.answer_again(request, routes);
                return Ok(None);
            }
        };
        match at {
            // Somebody has made it, and what it is has been trained since.
            Some(at) if makes_key(&request) => self.answer_duplicate(at, request)?,
            Some(at) if asks(&request) => self.asked(at, request, Asked::Now)?,
            Some(at) if request.hop().is_some() && !self.takes_sum(at, &request) => {}
            None if asks(&request) || request.hop().is_some() => {
                self.answer_again(request, Vec::new());
            }
            at => return Ok(Some(ToServe { request, at })),
        }
        Ok(None)
    }

    /// Where it is served once the piece in which it lies is cut as the worker believes that it is.
    fn place_within(&mut self, at: At, request: &Meta) -> Result<Place, StoreError> {
        let (from, to) = request.ask().map_or((0, 0), |ask| (ask.from, ask.to));
        if self.cut_alike(at, from, to) {
            self.known.cut = Some(at.key);
            return self.look().place(at.key, request);
        }
        Err(StoreError::Malformed("a part of a piece that cannot be cut like that"))
    }

    /// Keeps a request until there is news, if there is room.
    fn park(&mut self, key: Key, request: Meta, frames: &[Bytes]) {
        if !self.known.parked.push(key, &request, frames) {
            self.answer_again(request, Vec::new());
        }
    }

    /// Nothing was done: the worker shall send it again, as the routes say, once it has this
    /// policy.
    pub(in crate::store) fn answer_again(&mut self, mut request: Meta, routes: Vec<Route>) {
        if request.hop().is_some() {
            return self.refuse_sum(request, routes, None);
        }
        if self.held.attendance.is_former(&request) {
            return;
        }
        self.look().mark_again(&mut request, routes);
        self.out.answers.push(done(request));
    }

    /// Sends an answer, and with it what the worker does not know yet of where the key is.
    pub(super) fn deliver(&mut self, key: Key, answer: Answer) {
        Whereabouts { held: self.held, known: self.known }.deliver(key, answer, self.out);
    }
}

/// True for a push that is only to make its key.
fn makes_key(request: &Meta) -> bool {
    request.push && request.ask().is_some_and(|ask| ask.init)
}
