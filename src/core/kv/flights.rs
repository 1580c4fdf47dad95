//! A worker's messages about pieces: where each part of a request is sent, again if necessary,
//! until it is answered (`docs/elastic.md`, "A request").
//!
//! Pure. A request is cut by rank first (`slicer`); this handles one *slice* of it, about one wire
//! key. A part's owner and the way to that owner are kept apart (`part`). An answer to a push may
//! bring the values that are pulled next (`ahead`). `validate` states the promises. May touch
//! `routes`, `invariant` and `wire` types. The caller sends what this returns, and tells the
//! tracker once a whole slice is answered.

mod ahead;
mod answer;
mod life;
mod order;
mod part;
mod send;
mod tickets;
mod validate;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use smallvec::SmallVec;

use self::ahead::Ahead;
use self::answer::EndedSlice;
pub use self::answer::{AheadSlice, Answered, Brought, PartAnswer};
use self::life::PushLife;
use self::order::PushOrder;
use self::part::{By, Part, PartState};
use self::tickets::{ASKS_FROM, Tickets};
use super::routes::Routes;
use super::{KvError, Slices};
use crate::values::kind::form_of;
use crate::values::{Form, KeyRange, KeyRoutes, KvPairs, Misfit};
use crate::wire::elastic::{KeyRoute, PartReply, Route};
use crate::wire::word::RoutedPolicy;
use crate::wire::{Key, Meta, NodeId};

/// How long a part waits for better news before it is sent again as things are known.
pub const RETRY: Duration = Duration::from_millis(20);

/// Slices whose memory is kept for the next ones; 600 bytes each.
const SPARE_MAX: usize = 4096;

/// One slice of a request.
#[derive(Clone, Debug)]
pub struct Slice {
    /// What each of its messages says, but for the receiver and the part.
    pub meta: Meta,
    /// The rank in whose key range it lies.
    pub rank: u32,
    /// The wire key that it is about.
    pub key: Key,
    /// How its values are laid out.
    pub form: Form,
    /// Keys and, for a push, values and lens.
    pub kv: KvPairs,
}

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// What it says: with the receiver, and the part.
    pub meta: Meta,
    /// Keys, values and lens of that part.
    pub kv: KvPairs,
}

/// What names a slice: the timestamp of its request, and the rank that it is about.
type SliceName = (i32, u32);

#[derive(Clone, Debug)]
struct SliceFlight {
    /// Slices that begin later have higher numbers.
    number: u64,
    slice: Slice,
    /// A push that asks for the values of its round.
    asks_ahead: bool,
    parts: SmallVec<[Part; 1]>,
    /// The keys and lens of an answer with values.
    answer: KvPairs,
}

/// All slices of a worker's customer that are not answered yet.
#[derive(Clone, Debug, Default)]
pub struct Flights {
    routes: Routes,
    lost: BTreeSet<NodeId>,
    /// Servers that were there from the beginning, or that a policy named. What is sent to one of
    /// which this node has not heard goes nowhere.
    known: BTreeSet<NodeId>,
    /// Boxed: a map to which ever larger keys are added keeps its nodes half empty.
    open: BTreeMap<SliceName, Box<SliceFlight>>,
    /// The memory of slices that are over, for the next ones. Requests begin on one thread and end
    /// on another: an allocator hands memory from one to the other under a lock.
    #[expect(clippy::vec_box, reason = "it is the boxes that are used again")]
    spare: Vec<Box<SliceFlight>>,
    next: u64,
    order: PushOrder,
    ahead: Ahead,
    life: PushLife,
    /// The slices with a part that waits to be sent, by number. Most answers find none here,
    /// however many slices are open.
    waiting: BTreeMap<u64, SliceName>,
    /// In a job whose rounds go along trees.
    tickets: Option<Box<Tickets>>,
    /// Where no ticket is known, pushes of fewer bytes of values ask for none.
    asks_from: u64,
}

impl Flights {
    /// No slices; new keys go to these servers, by rank.
    #[must_use]
    pub fn new(homes: Vec<NodeId>) -> Self {
        let known = homes.iter().copied().collect();
        let (routes, asks_from) = (Routes::new(homes), ASKS_FROM);
        Self { routes, known, asks_from, ..Self::default() }
    }

    /// The same for a worker whose id was another process's: `since` is the policy that let it in.
    /// `makes_keys`: the first push of each key is to make it, as if nobody had yet (MXNet's rank 0
    /// at its start).
    #[must_use]
    pub fn come_back(homes: Vec<NodeId>, since: u64, makes_keys: bool) -> Self {
        Self { life: PushLife::new(since, makes_keys), ..Self::new(homes) }
    }

    /// In which life of this worker's id requests are made; 0: the first one.
    #[must_use]
    pub const fn life(&self) -> u64 {
        self.life.number()
    }

    /// What is known of places.
    #[must_use]
    pub const fn routes(&self) -> &Routes {
        &self.routes
    }

    /// True if a slice of that request is not answered yet.
    #[must_use]
    pub fn has(&self, timestamp: i32) -> bool {
        self.open.range(of_request(timestamp)).next().is_some()
    }

    /// True if no slice is under way or waits to be.
    #[must_use]
    pub fn all_answered(&self) -> bool {
        self.open.is_empty()
    }

    /// The first part of a request that is under way along a tree: its slice, the key, and which
    /// round it is.
    #[must_use]
    pub fn along_tree(&self, timestamp: i32) -> Option<(u32, Key, u64)> {
        let mut all = self.open.range(of_request(timestamp));
        all.find_map(|((_, slice), flight)| {
            let rounds = flight.parts.iter().find_map(|part| match part.sent()?.by {
                By::Tree(ticket) => Some(ticket.round),
                By::Itself | By::Name => None,
            });
            rounds.map(|round| (*slice, flight.slice.key, round))
        })
    }

    /// True if some part waits to be sent.
    #[must_use]
    pub fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Pushes ask for values ahead of no more bytes than that; 0: for none.
    pub const fn set_longest_ahead(&mut self, bytes: usize) {
        self.ahead.set_longest(bytes);
    }

    /// Where no ticket is known, pushes of fewer bytes ask for none.
    pub const fn set_asks_from(&mut self, bytes: u64) {
        self.asks_from = bytes;
    }

    /// A request is about to begin, cut for these ranges. If it only pulls, and all of its values
    /// have come ahead, returns them, and nobody is to be asked.
    pub fn pulled_ahead(
        &mut self,
        meta: &Meta,
        slices: &Slices,
        ranges: &[KeyRange],
    ) -> Option<Vec<AheadSlice>> {
        if meta.push {
            return None;
        }
        let asked: Option<SmallVec<[(u32, Key); 4]>> = (0..)
            .zip(slices.iter().zip(ranges))
            .filter_map(|(rank, (kv, range))| Some((rank, kv.as_ref()?, range.begin)))
            .map(|(rank, kv, first)| match form_of(meta, kv, first) {
                (Form::Dense { .. }, key) => Some((rank, key)),
                _ => None,
            })
            .collect();
        let asked = asked?;
        let keys: SmallVec<[Key; 4]> = asked.iter().map(|(_, key)| *key).collect();
        let brought = self.ahead.pulled(&keys)?;
        let slices = asked.into_iter().zip(brought);
        Some(slices.map(|((rank, key), brought)| AheadSlice { rank, key, brought }).collect())
    }

    /// Other workers may go on without this one: values that have come ahead are not those that a
    /// pull would bring.
    pub fn drop_ahead(&mut self) {
        self.ahead.drop_all();
    }

    /// Begins a slice.
    ///
    /// # Errors
    /// Its values do not fit the pieces of its key. Then nothing has begun.
    pub fn begin(
        &mut self,
        now: Duration,
        slice: Slice,
        out: &mut Vec<Outgoing>,
    ) -> Result<(), KvError> {
        let timestamp = slice.meta.timestamp;
        let begun = self.begin_slice(now, slice, out);
        self.look_at(timestamp);
        begun
    }

    fn begin_slice(
        &mut self,
        now: Duration,
        mut slice: Slice,
        out: &mut Vec<Outgoing>,
    ) -> Result<(), KvError> {
        let known = self.routes.of(slice.key);
        slice.form = form_by(known, &slice)
            .map_err(|misfit| KvError::misfit(misfit, self.routes.ranks()))?;
        let parts = self.places(known, &slice, 0, 0, &PartState::Waiting(now));
        let number = self.next;
        self.next += 1;
        let asks_ahead = self.asks_ahead(&slice);
        let flight = SliceFlight { number, slice, asks_ahead, parts, answer: KvPairs::default() };
        let mut flight = match self.spare.pop() {
            Some(mut spare) => {
                *spare = flight;
                spare
            }
            None => Box::new(flight),
        };
        let name = flight.name();
        if flight.slice.meta.push {
            self.order.add(flight.slice.key, name);
        }
        let sent = self.send_parts(now, &mut flight, out);
        self.open.insert(name, flight);
        sent
    }

    /// A slice begins. True if it is a push that asks for the values of its round.
    fn asks_ahead(&mut self, slice: &Slice) -> bool {
        let Meta { push, pull, timestamp, .. } = slice.meta;
        match slice.form.value_bytes(&slice.kv) {
            _ if !push => false,
            Some(bytes) if !pull => {
                let name = (timestamp, slice.rank);
                let is_new = self.routes.of(slice.key).is_none();
                let eager = self.tickets.as_ref().is_some_and(|it| it.may_take(is_new));
                self.ahead.pushed(slice.key, name, bytes, eager)
            }
            _ => {
                self.ahead.dismiss(slice.key);
                false
            }
        }
    }

    /// The parts of `[from, to)` of a slice's key, as they are known now.
    fn places(
        &self,
        known: Option<&KeyRoutes>,
        slice: &Slice,
        from: u64,
        to: u64,
        state: &PartState,
    ) -> SmallVec<[Part; 1]> {
        let routes = match known {
            Some(known) if to == 0 => known.whole().map(SmallVec::from_slice).unwrap_or_default(),
            Some(known) if known.covers(from, to) => known.within(from, to),
            _ => SmallVec::<[Route; 2]>::new(),
        };
        let part = |from, to, term, owner| {
            let (asks, asked, state) = (false, (0, 0), state.clone());
            Part { from, to, term, owner, asks, asked, state }
        };
        if routes.is_empty() {
            let home = self.routes.home(slice.rank as usize).unwrap_or_default();
            return SmallVec::from_iter([part(from, to, 0, home)]);
        }
        // Of an opaque key all is asked for, whatever that is.
        let end = |route: &Route| if route.is_opaque() { 0 } else { route.to };
        routes.iter().map(|route| part(route.from, end(route), route.term, route.owner)).collect()
    }

    /// Takes an answer. What is to be sent because of it goes to `out`.
    ///
    /// # Errors
    /// The values of a part that has to go elsewhere do not fit the key's pieces.
    pub fn answered(
        &mut self,
        now: Duration,
        answer: PartAnswer<'_>,
        out: &mut Vec<Outgoing>,
    ) -> Result<Answered, KvError> {
        let timestamp = answer.timestamp;
        let answered = self.take_answer(now, answer, out);
        self.look_at(timestamp);
        answered
    }

    fn take_answer(
        &mut self,
        now: Duration,
        answer: PartAnswer<'_>,
        out: &mut Vec<Outgoing>,
    ) -> Result<Answered, KvError> {
        let PartAnswer { timestamp, from, reply, pairs, refused } = answer;
        let Some((name, at)) = self.find(timestamp, from, reply) else {
            return Ok(Answered::Unknown);
        };
        let Some(flight) = self.open.get_mut(&name) else { return Ok(Answered::Unknown) };
        let (key, rank) = (flight.slice.key, flight.slice.rank);
        if let Some(reply) = reply {
            self.routes.learn(key, &reply.routes);
            if reply.ticket.is_some() && self.tickets.is_none() {
                // Its owner knows trees of which this worker has not heard yet.
                self.tickets = Some(Box::default());
            }
            if let (Some(tickets), Some(part)) = (&mut self.tickets, flight.parts.get_mut(at))
                && flight.slice.meta.push
            {
                tickets.answered(key, part, reply);
            }
        }
        let again = reply.is_some_and(|reply| reply.again);
        if refused {
            self.end(name, false);
            self.send_freed(now, out)?;
            return Ok(Answered::Refused { rank });
        }
        if again {
            self.turned_away(now, name, at)?;
            self.retry(now, out)?;
            return Ok(Answered::Open);
        }
        let Some(part) = flight.parts.get_mut(at) else { return Ok(Answered::Unknown) };
        part.state = PartState::Done(pairs.vals);
        flight.answer.keys = pairs.keys;
        flight.answer.lens = pairs.lens;
        let open = flight.parts.iter().any(|part| !matches!(part.state, PartState::Done(_)));
        let answer = if open { Answered::Open } else { self.whole(name) };
        self.send_freed(now, out)?;
        Ok(answer)
    }

    /// The part that an answer is about: the request and the slice say which key and which round
    /// of it, the range which part. Who gives it does not tell parts apart, but an answer that did
    /// not come the way that the part went last is none: a server that this node gave up may still
    /// answer, and not know what became of the key. A server without pieces says nothing about
    /// parts; its answer is about the one that it was sent.
    fn find(
        &self,
        timestamp: i32,
        from: NodeId,
        reply: Option<&PartReply>,
    ) -> Option<(SliceName, usize)> {
        let part = |flight: &SliceFlight, is: &dyn Fn(&Part) -> bool| {
            let at = flight.parts.iter().position(is)?;
            flight.parts[at].awaits(from).then(|| (flight.name(), at))
        };
        match reply {
            // What a server owed to a process that had this one's id and address before.
            Some(reply) if reply.life != self.life.number() => None,
            Some(reply) => {
                let flight = self.open.get(&(timestamp, reply.slice))?;
                part(flight, &|part| (part.from, part.to) == (reply.from, reply.to))
            }
            None => {
                let mut all = self.open.range(of_request(timestamp));
                all.find_map(|(_, flight)| part(flight, &|part| part.awaits(from)))
            }
        }
    }

    /// Nothing was done with a part: it is cut anew, by what is known now.
    fn turned_away(&mut self, now: Duration, name: SliceName, at: usize) -> Result<(), KvError> {
        let Some(flight) = self.open.get_mut(&name) else { return Ok(()) };
        let Some(part) = flight.parts.get(at) else { return Ok(()) };
        let known = self.routes.of(flight.slice.key);
        let has_asked = part.sent().is_some_and(|way| way.by == By::Name);
        if part.to == 0 && has_asked {
            // Who asked how to push it is told how long it is.
            flight.slice.form = form_by(known, &flight.slice)
                .map_err(|misfit| KvError::misfit(misfit, self.routes.ranks()))?;
        }
        let Some(flight) = self.open.get(&name) else { return Ok(()) };
        let Some(part) = flight.parts.get(at) else { return Ok(()) };
        let Part { from, to, asked, .. } = *part;
        let waits = PartState::Waiting(now);
        let mut parts = self.places(known, &flight.slice, from, to, &waits);
        let former = (part.sent(), from, to, part.term);
        for part in &mut parts {
            part.asked = asked;
            // Nothing new: asked again at once, who answered would say the same.
            if (Some(part.way()), part.from, part.to, part.term) == former {
                part.state = PartState::Waiting(now.saturating_add(RETRY));
            }
        }
        if let Some(flight) = self.open.get_mut(&name) {
            flight.parts.remove(at);
            flight.parts.insert_many(at, parts);
            self.waiting.insert(flight.number, name);
        }
        Ok(())
    }

    fn whole(&mut self, name: SliceName) -> Answered {
        let Some(EndedSlice { rank, pushed, parts, answer }) = self.end(name, true) else {
            return Answered::Unknown;
        };
        let brought = Brought::gather(parts, answer);
        let Some(key) = pushed else { return Answered::Whole { rank, brought } };
        self.ahead.answered(key, name, brought.is_whole().then_some(brought));
        Answered::Whole { rank, brought: Brought::default() }
    }

    /// A slice is over. `well`: all of it was answered.
    fn end(&mut self, name: SliceName, well: bool) -> Option<EndedSlice> {
        let mut flight = self.open.remove(&name)?;
        self.waiting.remove(&flight.number);
        let key = flight.slice.key;
        if flight.slice.meta.push {
            let counts = well && !self.life.has_made(key);
            self.order.end(key, name, counts);
            if !well {
                self.ahead.failed(key, name);
            }
        }
        let Meta { push, pull, .. } = flight.slice.meta;
        let ended = EndedSlice {
            rank: flight.slice.rank,
            pushed: (push && !pull).then_some(key),
            parts: std::mem::take(&mut flight.parts),
            answer: std::mem::take(&mut flight.answer),
        };
        if self.spare.len() < SPARE_MAX {
            // The memory of values is the caller's.
            flight.slice.kv = KvPairs::default();
            self.spare.push(flight);
        }
        Some(ended)
    }

    /// The request is over, whatever of it is still under way.
    pub fn forget(&mut self, timestamp: i32) {
        let names: Vec<SliceName> =
            self.open.range(of_request(timestamp)).map(|(name, _)| *name).collect();
        names.into_iter().for_each(|name| _ = self.end(name, false));
        self.look_at(timestamp);
    }

    /// A server is dead or released: what was sent to it waits for news of where to send it.
    pub fn lost(&mut self, now: Duration, server: NodeId) {
        self.lost.insert(server);
        for (name, flight) in &mut self.open {
            for part in flight.parts.iter_mut().filter(|part| part.is_lost_with(server)) {
                part.state = PartState::Waiting(now);
                self.waiting.insert(flight.number, *name);
            }
        }
        self.look_at_all();
    }

    /// A new policy: what waits is cut anew and sent.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn policy(
        &mut self,
        now: Duration,
        routed: &RoutedPolicy,
        out: &mut Vec<Outgoing>,
    ) -> Result<(), KvError> {
        self.routes.policy(routed);
        let policy = &routed.policy;
        self.known.extend(&policy.servers);
        for server in policy.lost.iter().chain(&policy.released) {
            self.lost(now, *server);
        }
        self.place_waiting(now);
        let sent = self.retry(now, out);
        self.look_at_all();
        sent
    }

    /// Learns where pieces are: requests from now on go there. What is under way, or waits, is
    /// answered or cut anew as ever.
    pub fn learn(&mut self, routes: &[KeyRoute]) {
        for KeyRoute { key, route } in routes {
            self.routes.learn(*key, &[*route]);
        }
    }

    /// Cuts anew what waits.
    fn place_waiting(&mut self, now: Duration) {
        for name in self.waiting_names() {
            let Some(flight) = self.open.get(&name) else { continue };
            let known = self.routes.of(flight.slice.key);
            let mut parts = SmallVec::new();
            for part in &flight.parts {
                if part.waits() {
                    let Part { from, to, asks, asked, .. } = *part;
                    let wait = PartState::Waiting(now);
                    let placed = self.places(known, &flight.slice, from, to, &wait);
                    parts.extend(placed.into_iter().map(|new| Part { asks, asked, ..new }));
                } else {
                    parts.push(part.clone());
                }
            }
            if let Some(flight) = self.open.get_mut(&name) {
                flight.parts = parts;
            }
        }
    }

    /// Sends what has waited long enough. To be called now and then while [`Self::waits`].
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn retry(&mut self, now: Duration, out: &mut Vec<Outgoing>) -> Result<(), KvError> {
        self.waiting_names().into_iter().try_for_each(|name| {
            let Some(mut flight) = self.open.remove(&name) else { return Ok(()) };
            let sent = self.send_parts(now, &mut flight, out);
            self.open.insert(name, flight);
            sent
        })
    }

    /// In the order in which they began.
    fn waiting_names(&self) -> Vec<SliceName> {
        self.waiting.values().copied().collect()
    }

    /// Something was answered: what waited for that may go.
    fn send_freed(&mut self, now: Duration, out: &mut Vec<Outgoing>) -> Result<(), KvError> {
        if self.waits() { self.retry(now, out) } else { Ok(()) }
    }
}

impl SliceFlight {
    fn name(&self) -> SliceName {
        (self.slice.meta.timestamp, self.slice.rank)
    }
}

/// The form of a slice, by what is known of where its key is.
fn form_by(known: Option<&KeyRoutes>, slice: &Slice) -> Result<Form, Misfit> {
    if slice.meta.push
        && let Some(whole) = known.and_then(KeyRoutes::whole)
        && let [.., last] = whole
        && !last.is_opaque()
    {
        match slice.form.check(&slice.kv, slice.key, last.to) {
            // Its only owner refuses it, so that the other workers, who wait for this push, hear
            // why too.
            Err(_) if whole.len() == 1 => return Ok(Form::Whole),
            checked => checked?,
        }
    }
    Ok(slice.form)
}

/// The names of all slices of a request.
const fn of_request(timestamp: i32) -> RangeInclusive<SliceName> {
    (timestamp, 0)..=(timestamp, u32::MAX)
}

#[cfg(test)]
#[path = "flights_tests.rs"]
mod tests;
