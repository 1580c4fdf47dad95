//! Which piece a request is about, what waits for a piece or a policy, and what an answer teaches
//! (docs/elastic.md, "A request"). May touch what the store may.

use bytes::Bytes;

use super::limits::ANSWERS_WAITING_MAX;
use super::state::Elastic;
use crate::store::error::StoreError;
use crate::store::outbound::{Answer, Outbound, done};
use crate::store::state::{At, Store};
use crate::values::KeyRoutes;
use crate::wire::elastic::{Placed, Route};
use crate::wire::{Key, Meta};

/// Where a request is served.
pub(in crate::store) enum Place {
    /// By the piece at that index of the key's pieces.
    Here(usize),
    /// By a part of the piece at that index.
    Within(usize),
    /// Nowhere yet: a push makes the key.
    New,
    /// When the piece is here, or a policy.
    Later,
    /// Where these routes say.
    Again(Vec<Route>),
}

impl Store {
    /// Where a request about that key is served.
    pub(in crate::store) fn place(&self, key: Key, request: &Meta) -> Result<Place, StoreError> {
        let tensor = self.tensors.get(&key);
        let Some(elastic) = &self.elastic else {
            return Ok(tensor.map_or(Place::New, |_| Place::Here(0)));
        };
        let Some(placed) = &request.placed else {
            return match tensor {
                None if !self.knows(key) => Ok(Place::New),
                tensor => tensor
                    .and_then(|tensor| tensor.whole_piece())
                    .map(Place::Here)
                    .ok_or_else(|| StoreError::Elsewhere { key: self.view.name(key) }),
            };
        };
        let whole = placed.to == 0;
        if !whole && placed.from >= placed.to {
            return Err(StoreError::Malformed("a part that ends where it begins, or before"));
        }
        let is_ahead = elastic.epoch < placed.epoch || elastic.overlay() < placed.overlay;
        if elastic.waits_for_commands() || is_ahead {
            return Ok(Place::Later);
        }
        let here = tensor.and_then(|tensor| {
            let index =
                if whole { tensor.whole_piece() } else { tensor.exactly(placed.from, placed.to) };
            index.filter(|index| tensor.pieces[*index].term >= placed.term)
        });
        if let Some(index) = here {
            let waiting = elastic.waiting.get(&key).map_or(0, Vec::len);
            let full = request.push && waiting >= ANSWERS_WAITING_MAX;
            return Ok(if full { Place::Again(Vec::new()) } else { Place::Here(index) });
        }
        let within = tensor.and_then(|tensor| tensor.containing(placed.from, placed.to));
        if let Some((index, piece)) = within.filter(|_| !whole)
            && piece.term >= placed.term
        {
            // Its former owner knows it by these borders.
            let settled = piece.source.is_none();
            return Ok(if settled { Place::Within(index) } else { Place::Later });
        }
        if whole && !self.knows(key) {
            return Ok(self.place_new(elastic, key, placed));
        }
        let mut routes = self.routes(key, placed);
        routes.retain(|route| {
            route.term > placed.term || (route.term == placed.term && route.owner != elastic.me)
        });
        Ok(if routes.is_empty() { Place::Later } else { Place::Again(routes) })
    }

    /// Where it is served once the piece in which it lies is cut as the worker believes that it is.
    pub(in crate::store) fn place_within(
        &mut self,
        at: At,
        request: &Meta,
        out: &mut Outbound,
    ) -> Result<Place, StoreError> {
        let (from, to) = request.placed.as_ref().map_or((0, 0), |placed| (placed.from, placed.to));
        if self.cut_alike(at, from, to, out) {
            if let Some(elastic) = &mut self.elastic {
                elastic.cut = Some(at.key);
            }
            return self.place(at.key, request);
        }
        Err(StoreError::Malformed("a part of a piece that cannot be cut like that"))
    }

    /// Of a key that this server has never heard of.
    fn place_new(&self, elastic: &Elastic, key: Key, placed: &Placed) -> Place {
        let home = self.view.rank(key).and_then(|rank| elastic.homes.get(rank));
        if home != Some(&elastic.me) || placed.after > 0 {
            // The worker does not know the policy yet by which it is somewhere else.
            Place::Again(Vec::new())
        } else if elastic.collecting.is_some() {
            // The next policy may say that it is somewhere else, or that another server is its
            // home.
            Place::Later
        } else {
            Place::New
        }
    }

    /// True if the key exists, as far as this server has heard.
    pub(in crate::store) fn knows(&self, key: Key) -> bool {
        let routes = self.elastic.as_ref().and_then(|elastic| elastic.routes.get(&key));
        self.tensors.contains_key(&key) || routes.is_some_and(|routes| !routes.all().is_empty())
    }

    /// The newest that is known about the part of a key that a request names.
    pub(super) fn routes(&self, key: Key, placed: &Placed) -> Vec<Route> {
        let Some(elastic) = &self.elastic else { return Vec::new() };
        let (from, to) = if placed.to == 0 { (0, u64::MAX) } else { (placed.from, placed.to) };
        let about = |route: &Route| route.from < to && from < route.to;
        let known = elastic.routes.get(&key);
        let pieces = self.tensors.get(&key).map(|tensor| &tensor.pieces[..]).unwrap_or_default();
        let own = pieces.iter().map(|piece| Route {
            from: piece.from,
            to: piece.to,
            term: piece.term,
            owner: elastic.me,
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

    /// Keeps a request until there is news, if there is room.
    pub(in crate::store) fn park(
        &mut self,
        key: Key,
        request: Meta,
        frames: &[Bytes],
        out: &mut Outbound,
    ) {
        let Some(elastic) = &mut self.elastic else { return };
        if !elastic.parked.push(key, &request, frames) {
            self.answer_again(request, Vec::new(), out);
        }
    }

    /// Looks again at what was parked for a key; and once more if one of these requests has cut a
    /// piece, for those before it. That ends, since no key has more than
    /// [`super::limits::PIECES_MAX`].
    pub(super) fn unpark(&mut self, key: Key, out: &mut Outbound) {
        loop {
            let Some(elastic) = &mut self.elastic else { return };
            elastic.cut = None;
            for (request, frames) in elastic.parked.take(key) {
                self.serve_now(request, &frames, out);
            }
            if self.elastic.as_ref().is_none_or(|elastic| elastic.cut != Some(key)) {
                return;
            }
        }
    }

    /// After a request: if it has cut a piece, its parts may be what others wait for.
    pub(in crate::store) fn unpark_cut(&mut self, out: &mut Outbound) {
        if let Some(key) = self.elastic.as_mut().and_then(|elastic| elastic.cut.take()) {
            self.unpark(key, out);
        }
    }

    /// Looks again at all that was parked.
    pub(super) fn unpark_all(&mut self, out: &mut Outbound) {
        let Some(elastic) = &self.elastic else { return };
        for key in elastic.parked.keys() {
            self.unpark(key, out);
        }
    }

    /// Nothing was done: the worker shall send it again, as the routes say, once it has this
    /// policy.
    pub(in crate::store) fn answer_again(
        &mut self,
        mut request: Meta,
        routes: Vec<Route>,
        out: &mut Outbound,
    ) {
        if request.hop.is_some() {
            return self.refuse_sum(request, routes, None, out);
        }
        if self.is_former(&request) {
            return;
        }
        self.mark_again(&mut request, routes);
        out.answers.push(done(request));
    }

    /// Makes the answer *again* of a request.
    pub(super) fn mark_again(&self, request: &mut Meta, routes: Vec<Route>) {
        let epoch = self.elastic.as_ref().map_or(0, |elastic| elastic.epoch);
        if let Some(placed) = &mut request.placed {
            (placed.again, placed.routes, placed.epoch) = (true, routes, epoch);
            (placed.ticket, placed.tickets) = (None, Vec::new());
        }
    }

    /// Sends an answer, and with it what the worker does not know yet of where the key is.
    pub(in crate::store) fn deliver(&self, key: Key, mut answer: Answer, out: &mut Outbound) {
        let of_sum = answer.request.hop.is_some();
        if !of_sum && self.is_former(&answer.request) {
            // Another process that has its id would take the answer for one of its own.
            return;
        }
        if let (Some(elastic), Some(placed)) = (&self.elastic, &mut answer.request.placed) {
            placed.epoch = elastic.epoch;
            if placed.to == 0 || !self.owns_exactly(key, placed) {
                placed.routes = self.routes(key, placed);
            }
            if answer.request.push && elastic.overlay() > 0 {
                self.tell_ticket(key, &mut answer.request);
            }
        }
        self.answer(answer, out);
    }

    /// True if the worker knows all there is to know of the part that it asked for.
    fn owns_exactly(&self, key: Key, placed: &Placed) -> bool {
        self.tensors.get(&key).is_some_and(|tensor| {
            let index = tensor.exactly(placed.from, placed.to);
            index.is_some_and(|index| tensor.pieces[index].term == placed.term)
        })
    }
}
