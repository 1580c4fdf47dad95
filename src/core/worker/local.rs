//! A customer of a worker that trains on a local model while deltas travel (NBSync,
//! docs/nbsync.md). Joins the machine that knows *when* (`training::exchange`) with the model that
//! knows *what* (`store::local`), and answers the program's requests by them.
//!
//! - The first push of a key by the worker that makes keys goes to the servers, as ever.
//! - Whoever wants a key that is not here yet waits until its value was pulled.
//! - A push is a step of the script's own optimizer. A pull has the local value.
//! - What the machine sends is a push and pull of the worker's own ([`Own`]). Its caller sends it,
//!   and says what came of it.
//! - What the worker and the scheduler say to each other is in [`words`].
//!
//! Its caller promises to make one call at a time, in the order in which the program asks for each
//! key.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use crate::invariant::{Valid, require};
use crate::kv::Slices;
use crate::kv::flights::{AheadSlice, Brought};
use crate::store::StoreError;
use crate::store::command::Head;
use crate::store::local::{LocalModel, Obeyed};
use crate::training::balance::clock::{ComputeClock, PushedKey};
use crate::training::exchange::{Act, Aligning, Counts, Exchange, Gauge, Hold, PushTurn};
use crate::values::{Dtype, KeyRange, KvPairs};
use crate::wire::exchange::ExchangeSpec;
use crate::wire::exchange::word::{ExchangeReport, Stage};
use crate::wire::{Key, Meta, NodeId};

mod program;
mod slices;
mod turns;
mod words;

use slices::{LocalSlice, cut};

/// Who a worker is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Begins {
    /// The first push of a key by this customer is its initial value (kvstore_dist.h, `InitImpl`:
    /// rank 0).
    pub makes_keys: bool,
    /// It takes the place of one that died. Rounds do not wait for it, and it does not align.
    pub is_back: bool,
}

/// What is to be done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalStep {
    /// A request of the program is answered: what each of its slices brought.
    Answer(i32, Vec<AheadSlice>),
    /// A request of the program has failed, for that reason.
    Refuse(i32, String),
    /// A request of the program goes to the servers, as it is.
    Forward(Box<(Meta, Slices)>),
    /// Send this, and tell [`LocalTraining::own_answered`].
    Send(Box<Own>),
    /// Say this to the scheduler; the customer's number is to be filled in.
    Say(Box<ExchangeReport>),
}

/// A request of the worker's own about one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// The wire key.
    pub key: Key,
    /// The rank in whose range it lies.
    pub rank: u32,
    /// The round of a delta that goes in its turn: newer ones go later.
    pub round: Option<u64>,
    /// What the request says, but for its timestamp: it pulls, and with a delta it pushes. Who
    /// sends it does not wait for room, since it answers the program too. The rounds that may be in
    /// flight bound what waits.
    pub meta: Meta,
    /// The key, and for a push the delta.
    pub kv: KvPairs,
}

/// What a request of the program waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// A round that has this key: the worker has computed for too long without a result.
    Ahead(Option<Key>),
    /// The global value of this key: no local one is given away meanwhile, nor a step taken.
    Round(Key),
    /// All workers, who align here; these are some of those that are missing.
    Others(Vec<NodeId>),
    /// The first value of this key.
    FirstValue(Key),
}

/// A request of the program that is not answered.
#[derive(Clone, Debug)]
struct OpenCall {
    meta: Meta,
    slices: Vec<LocalSlice>,
    /// The gradients of so many slices are applied.
    stepped: usize,
    /// What slices have brought, in their order.
    brought: Vec<AheadSlice>,
}

/// How the program names a key, for the worker's own requests.
#[derive(Clone, Debug)]
struct KeyNaming {
    rank: u32,
    meta: Meta,
    keys: Bytes,
}

/// What became of a request.
#[derive(Clone, Copy)]
enum Went {
    /// It is answered, or has failed.
    Over,
    /// It waits until the next iteration may begin.
    Held,
    /// It waits for a key's value.
    For(Key),
}

/// See the module.
#[derive(Debug)]
pub struct LocalTraining {
    machine: Exchange,
    model: LocalModel,
    who: Begins,
    /// Keys that it has made.
    made: BTreeSet<Key>,
    ways: BTreeMap<Key, KeyNaming>,
    open: BTreeMap<i32, OpenCall>,
    /// Requests whose push waits until the next iteration may begin, the oldest first.
    held: VecDeque<i32>,
    /// Requests that wait for the value of a key: its first one, or the global one.
    for_key: BTreeMap<Key, Vec<i32>>,
    /// Keys whose first value is on its way.
    beginning: BTreeMap<Key, Dtype>,
    /// Deltas that go behind those of older rounds, by round and key ([`turns`]).
    behind: BTreeMap<(u64, Key), Own>,
    /// Why nothing is answered any more.
    broken: Option<String>,
    /// What people are told of why it waits.
    hold: Option<Hold>,
    /// How it aligns with the others.
    aligning: Aligning,
    /// The program waits until all are equal.
    finishes: bool,
    /// Some of those that it waits for where all align.
    missing: Vec<NodeId>,
    clock: ComputeClock,
    gauge: Gauge,
    /// When it last said how it is.
    said: Option<Duration>,
}

impl LocalTraining {
    /// Of a job of so many workers and servers.
    #[must_use]
    pub fn new(spec: &ExchangeSpec, workers: u32, servers: usize, who: Begins) -> Self {
        let every = if who.is_back { 0 } else { spec.every };
        Self {
            machine: Exchange::new(ExchangeSpec { every, ..*spec }),
            model: LocalModel::new(spec, workers, servers),
            who,
            made: BTreeSet::new(),
            ways: BTreeMap::new(),
            open: BTreeMap::new(),
            held: VecDeque::new(),
            for_key: BTreeMap::new(),
            beginning: BTreeMap::new(),
            behind: BTreeMap::new(),
            broken: None,
            hold: None,
            aligning: Aligning::default(),
            finishes: false,
            missing: Vec::new(),
            clock: ComputeClock::default(),
            gauge: Gauge::default(),
            said: None,
        }
    }

    // ---- what the program asks ------------------------------------------------------------------

    /// A command that the program sends to the servers.
    ///
    /// # Errors
    /// It cannot be obeyed in a job that exchanges deltas, or is malformed.
    pub fn command(&mut self, head: Head, body: &[u8]) -> Result<Obeyed, StoreError> {
        self.model.command(head, body)
    }

    /// The program pushes, pulls, or both. `slices` are cut for these ranges.
    pub fn ask(
        &mut self,
        now: Duration,
        meta: Meta,
        slices: Slices,
        ranges: &[KeyRange],
        steps: &mut Vec<LocalStep>,
    ) {
        let timestamp = meta.timestamp;
        if let Some(why) = &self.broken {
            return steps.push(LocalStep::Refuse(timestamp, why.clone()));
        }
        let slices = match cut(&meta, slices, ranges) {
            Ok(slices) => slices,
            Err(why) => return steps.push(LocalStep::Refuse(timestamp, why)),
        };
        if meta.push && self.who.makes_keys {
            let is_new =
                |slice: &LocalSlice| !self.model.has(slice.key) && !self.made.contains(&slice.key);
            let new = slices.iter().filter(|slice| is_new(slice)).count();
            if new > 0 && new < slices.len() {
                let why = "a push with first values of some keys and gradients of others";
                return steps.push(LocalStep::Refuse(timestamp, why.to_owned()));
            }
            if new > 0 {
                return self.make(meta, slices, ranges.len(), steps);
            }
        }
        for slice in &slices {
            self.note_way(&meta, slice);
        }
        if let (true, Some(first)) = (meta.push, slices.first()) {
            self.gauge.pushed(now);
            let computed =
                self.clock.pushed(now, PushedKey { customer_id: 0, key: first.key }, false);
            let time = computed.and_then(|computed| computed.0);
            time.into_iter().for_each(|time| self.gauge.computed(time));
        }
        self.open.insert(timestamp, OpenCall { meta, slices, stepped: 0, brought: Vec::new() });
        let went = self.go_on(now, timestamp, steps);
        self.went(timestamp, went);
        self.after(now, steps);
    }

    /// What follows whatever has happened.
    fn after(&mut self, now: Duration, steps: &mut Vec<LocalStep>) {
        self.end_if_broken(steps);
        self.go_on_aligning(now, steps);
        self.send_in_turn(steps);
        let in_flight = self.machine.in_flight();
        let over = self.machine.counts().sent - in_flight as u64;
        self.gauge.flights(now, in_flight, over);
    }

    fn make(
        &mut self,
        meta: Meta,
        slices: Vec<LocalSlice>,
        servers: usize,
        steps: &mut Vec<LocalStep>,
    ) {
        let mut all = Slices::new();
        all.resize(servers, None);
        for LocalSlice { rank, key, kv, .. } in slices {
            self.made.insert(key);
            if let Some(slot) = all.get_mut(rank as usize) {
                *slot = Some(kv);
            }
        }
        steps.push(LocalStep::Forward(Box::new((meta, all))));
    }

    /// How the program speaks of a key. A push says more than a pull.
    fn note_way(&mut self, meta: &Meta, slice: &LocalSlice) {
        let is_known = self.ways.get(&slice.key).is_some_and(|way| way.meta.push || !meta.push);
        if is_known {
            return;
        }
        let LocalSlice { rank, kv, .. } = slice;
        // The program's memory is its own again when its request is over.
        let keys = Bytes::copy_from_slice(&kv.keys);
        let way = KeyNaming { rank: *rank, meta: Meta { timestamp: 0, ..meta.clone() }, keys };
        self.ways.insert(slice.key, way);
    }

    fn went(&mut self, timestamp: i32, went: Went) {
        match went {
            Went::Over => {}
            Went::Held => self.held.push_back(timestamp),
            Went::For(key) => self.for_key.entry(key).or_default().push(timestamp),
        }
    }

    /// Does what can be done of a request.
    fn go_on(&mut self, now: Duration, timestamp: i32, steps: &mut Vec<LocalStep>) -> Went {
        let Some(mut open) = self.open.remove(&timestamp) else { return Went::Over };
        let went = match self.do_slices(now, &mut open, steps) {
            Ok(()) => {
                self.clock.answered(now);
                steps.push(LocalStep::Answer(timestamp, open.brought));
                return Went::Over;
            }
            Err(Stays::Refused(why)) => {
                steps.push(LocalStep::Refuse(timestamp, why));
                return Went::Over;
            }
            Err(Stays::Held) => Went::Held,
            Err(Stays::For(key)) => Went::For(key),
        };
        self.open.insert(timestamp, open);
        went
    }

    /// Applies all gradients of a request before it takes a value, and asks for all first values
    /// at once: the rounds of its slices do not wait for each other.
    fn do_slices(
        &mut self,
        now: Duration,
        open: &mut OpenCall,
        steps: &mut Vec<LocalStep>,
    ) -> Result<(), Stays> {
        let OpenCall { meta, slices, stepped, brought } = open;
        if let Some(missing) = slices.iter().find(|slice| !self.model.has(slice.key)) {
            slices.iter().for_each(|slice| self.pull_first(slice, steps));
            return Err(Stays::For(missing.key));
        }
        while meta.push
            && let Some(slice) = slices.get(*stepped)
        {
            self.push(now, slice, steps)?;
            *stepped += 1;
        }
        while let Some(slice) = slices.get(brought.len()) {
            let of_it = if meta.pull { self.pull(slice)? } else { Brought::default() };
            brought.push(AheadSlice { rank: slice.rank, key: slice.key, brought: of_it });
        }
        Ok(())
    }

    /// The local value of a slice.
    fn pull(&mut self, slice: &LocalSlice) -> Result<Brought, Stays> {
        if self.machine.withholds(slice.key) {
            return Err(Stays::For(slice.key));
        }
        let (_, vals) = self.model.value(slice.key)?;
        let lens = lens_of(&vals);
        let pairs = KvPairs { keys: slice.kv.keys.clone(), vals, lens };
        Ok(Brought { pairs, more: Vec::new() })
    }

    fn push(
        &mut self,
        now: Duration,
        slice: &LocalSlice,
        steps: &mut Vec<LocalStep>,
    ) -> Result<(), Stays> {
        let (key, vals) = (slice.key, &slice.kv.vals);
        let asked = self.machine.push(now, key, vals.len() as u64);
        for (other, act) in asked.before {
            self.act(other, act, steps)?;
        }
        match asked.turn {
            PushTurn::Held(hold) => {
                self.hold = Some(hold);
                if hold == Hold::Align {
                    self.aligning.begin();
                }
                Err(Stays::Held)
            }
            PushTurn::Taken(act) => {
                self.hold = None;
                let stepped = self.model.step(key, slice.dtype, vals);
                // What was decided for the key happens, whatever becomes of the gradient: the
                // others wait for it.
                self.act(key, act, steps)?;
                Ok(stepped?)
            }
        }
    }

    /// Takes the global value of a key, and sends what was changed.
    fn act(&mut self, key: Key, act: Act, steps: &mut Vec<LocalStep>) -> Result<(), Stays> {
        if act.is_nothing() {
            return Ok(());
        }
        let delta = match self.model.exchange(key, act.swap, act.send) {
            Ok(delta) => delta,
            Err(error) => {
                // Nobody gets this delta, and the others wait for it: the program has to end.
                let why = error.to_string();
                self.broken.get_or_insert_with(|| why.clone());
                return Err(Stays::Refused(why));
            }
        };
        let (Some(delta), Some(way)) = (delta, self.ways.get(&key)) else { return Ok(()) };
        let lens = lens_of(&delta);
        let kv = KvPairs { keys: way.keys.clone(), vals: delta, lens };
        let meta = Meta { push: true, pull: true, background: true, ..way.meta.clone() };
        let round = self.machine.round_of(key);
        let own = Own { key, rank: way.rank, round, meta, kv };
        self.send(own, steps);
        Ok(())
    }

    /// Asks the servers for the first value of a slice, if it is not here or on its way.
    fn pull_first(&mut self, slice: &LocalSlice, steps: &mut Vec<LocalStep>) {
        let LocalSlice { key, dtype, .. } = *slice;
        if self.model.has(key) || self.beginning.insert(key, dtype).is_some() {
            return;
        }
        let Some(way) = self.ways.get(&key) else { return };
        let meta = Meta { push: false, pull: true, background: true, ..way.meta.clone() };
        let kv = KvPairs { keys: way.keys.clone(), ..KvPairs::default() };
        let own = Own { key, rank: way.rank, round: None, meta, kv };
        self.send(own, steps);
    }

    // ---- what the servers answer ----------------------------------------------------------------

    /// A request of the worker's own is over: the value of its key, or why there is none.
    pub fn own_answered(
        &mut self,
        now: Duration,
        key: Key,
        value: Result<&[u8], String>,
        steps: &mut Vec<LocalStep>,
    ) {
        let taken = match (self.beginning.remove(&key), value) {
            (Some(dtype), Ok(value)) => self.model.begin(key, dtype, value),
            // Somebody asked too early, perhaps: who asks again is told again.
            (Some(_), Err(why)) => return self.refuse_waiting(key, &why, steps),
            (None, Ok(value)) => self.model.arrived(key, value),
            (None, Err(why)) => return self.breaks(why, steps),
        };
        let act = self.machine.answered(key);
        let swapped = taken.map_err(Stays::from).and_then(|()| self.act(key, act, steps));
        if let Err(Stays::Refused(why)) = swapped {
            return self.breaks(why, steps);
        }
        if act.swap {
            // The program has waited for it, and is to have it as it is.
            self.model.settle(key);
        }
        for timestamp in self.for_key.remove(&key).unwrap_or_default() {
            let went = self.go_on(now, timestamp, steps);
            self.went(timestamp, went);
        }
        self.look_at_held(now, steps);
        self.after(now, steps);
    }

    /// Looks again at those that wait for the next iteration.
    fn look_at_held(&mut self, now: Duration, steps: &mut Vec<LocalStep>) {
        while let Some(timestamp) = self.held.pop_front() {
            match self.go_on(now, timestamp, steps) {
                Went::Held => {
                    self.held.push_front(timestamp);
                    break;
                }
                went => self.went(timestamp, went),
            }
        }
    }

    fn refuse_waiting(&mut self, key: Key, why: &str, steps: &mut Vec<LocalStep>) {
        for timestamp in self.for_key.remove(&key).unwrap_or_default() {
            self.open.remove(&timestamp);
            steps.push(LocalStep::Refuse(timestamp, why.to_owned()));
        }
    }

    /// A delta of this worker is lost, and its model is nobody's: nothing goes on.
    fn breaks(&mut self, why: String, steps: &mut Vec<LocalStep>) {
        self.held.clear();
        self.for_key.clear();
        self.behind.clear();
        for timestamp in std::mem::take(&mut self.open).into_keys() {
            steps.push(LocalStep::Refuse(timestamp, why.clone()));
        }
        self.broken.get_or_insert(why);
    }

    /// A delta could not be sent: those that wait for its round would wait for ever.
    fn end_if_broken(&mut self, steps: &mut Vec<LocalStep>) {
        if let Some(why) = self.broken.clone() {
            self.breaks(why, steps);
        }
    }

    // ---- for people, and promises ---------------------------------------------------------------

    /// What it has done.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.machine.counts()
    }

    /// Why it waits, and for which key, if it does.
    #[must_use]
    pub fn waits(&self) -> Option<(Hold, Option<Key>)> {
        self.hold.filter(|_| !self.held.is_empty()).map(|hold| (hold, self.machine.oldest()))
    }

    /// What a request of the program waits for; `None`: for its turn, or it is over.
    #[must_use]
    pub fn waits_for(&self, timestamp: i32) -> Option<WaitsFor> {
        if self.held.contains(&timestamp) {
            return Some(match self.waits()? {
                (Hold::Align, _) if self.aligning.stage() != Stage::Trains => {
                    WaitsFor::Others(self.missing.clone())
                }
                (Hold::Align, key) => WaitsFor::Ahead(key),
                (Hold::Result, Some(key)) if self.machine.withholds(key) => WaitsFor::Round(key),
                (Hold::Result, key) => WaitsFor::Ahead(key),
            });
        }
        let waits = |(_, waiting): &(&Key, &Vec<i32>)| waiting.contains(&timestamp);
        let (key, _) = self.for_key.iter().find(waits)?;
        Some(match self.beginning.contains_key(key) {
            true => WaitsFor::FirstValue(*key),
            false => WaitsFor::Round(*key),
        })
    }

    /// True for a request of the program that is answered here, and is not yet.
    #[must_use]
    pub fn has(&self, timestamp: i32) -> bool {
        self.open.contains_key(&timestamp)
    }

    /// A request of the program has ended otherwise: nobody waits for it.
    pub fn forget(&mut self, timestamp: i32) {
        if self.open.remove(&timestamp).is_some() {
            self.held.retain(|held| *held != timestamp);
            self.for_key.values_mut().for_each(|waiting| waiting.retain(|ts| *ts != timestamp));
        }
    }

    /// Every request that is not answered waits for something that will come.
    ///
    /// # Errors
    /// The first promise that does not hold.
    pub fn validate(&self) -> Valid {
        self.machine.validate()?;
        self.validate_turns()?;
        let waiting = self.held.iter().chain(self.for_key.values().flatten());
        require(waiting.clone().count() == self.open.len(), || {
            format!("{} requests are open, {} wait", self.open.len(), waiting.clone().count())
        })?;
        for (key, waiting) in &self.for_key {
            let comes = self.beginning.contains_key(key) || self.machine.withholds(*key);
            require(comes || waiting.is_empty(), || {
                format!("{} requests wait for key {key}, and nothing of it comes", waiting.len())
            })?;
        }
        Ok(())
    }
}

/// Why a slice is not done.
enum Stays {
    Refused(String),
    Held,
    For(Key),
}

impl From<StoreError> for Stays {
    fn from(error: StoreError) -> Self {
        Self::Refused(error.to_string())
    }
}

/// The lens of one key: MXNet counts bytes.
fn lens_of(vals: &Bytes) -> Bytes {
    Bytes::copy_from_slice(&(vals.len() as i32).to_ne_bytes())
}
