//! When one customer of a worker sends what it has changed, and takes the new global model.
//!
//! An application does not say where an iteration ends. But it pushes each key once in an
//! iteration, so an iteration begins when a key comes that was pushed in this one (as in
//! `balance::clock`). What is swapped and what is sent is decided there, for all keys of a section,
//! and done when each key is pushed, after the optimizer's step. So the model with which the
//! gradients of an iteration are computed has each section of one round, in whatever order a
//! program pushes and pulls. What is not pushed in that iteration follows when it ends: in its turn
//! a worker sends all keys of a section that it knows, or somebody would wait for them.
//!
//! A program pushes in an order of its own, and rounds are taken in theirs. So that the oldest
//! round is not the last to travel, what is sent in an iteration goes in the order of rounds: a
//! delta waits for those of older rounds that are still to be pushed ([`Exchange::turn`]).
//!
//! A mode that waits does not let the program have a value from its send until the global one is
//! here: the caller withholds the answer, and swaps when the value comes.
//!
//! An iteration can be one of all workers *together* ([`ExchangeSpec::every`]). It begins when they
//! are aligned ([`super::aligning`]). In it each key is sent and waited for, as in a mode that
//! waits. So the values that a program pulls in it are equal at all workers.
//!
//! Its owner promises that it asks once for each push ([`Exchange::push`]) and does what the answer
//! says before it asks again, and that it tells each answer to what it sent
//! ([`Exchange::answered`]).

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use super::pace::StretchPace;
use super::sections::Sections;
use crate::invariant::{Valid, require};
use crate::wire::Key;
use crate::wire::exchange::ExchangeSpec;

/// Rounds in flight where the scheduler sets how many, until it has said so.
const WINDOW_AT_FIRST: u32 = 2;

/// A key that was pushed in so many iterations in a row is likely to be pushed in the next one:
/// newer rounds go behind it. One that comes every other time is not, or they would wait for it as
/// often.
const LIKELY: u64 = 2;

/// What is to be done with a key, in this order, after the optimizer's step if it was pushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Act {
    /// Take the global value that came last.
    pub swap: bool,
    /// Send what was changed.
    pub send: bool,
}

impl Act {
    /// True if there is nothing to do.
    #[must_use]
    pub const fn is_nothing(self) -> bool {
        !self.swap && !self.send
    }
}

/// Why a push is not taken now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The worker waits for a round, the oldest of those in flight: it has computed for too long
    /// without a result, or its mode waits.
    Result,
    /// The next iteration is one of all workers together ([`ExchangeSpec::every`]), and they are
    /// not aligned.
    Align,
}

/// What to do with a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    /// First do this with other keys, which were not pushed in the iteration that is over. It is
    /// said once, also if the push is held.
    pub before: Vec<(Key, Act)>,
    /// Then this.
    pub turn: PushTurn,
}

/// Whether a push is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushTurn {
    /// Not now: ask again when something was answered, or the workers are aligned.
    Held(Hold),
    /// After the optimizer's step this is to be done with the key.
    Taken(Act),
}

/// What people are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Iterations that have begun.
    pub iterations: u64,
    /// Rounds that were sent.
    pub sent: u64,
    /// Rounds whose values are here.
    pub done: u64,
    /// How long the worker was held.
    pub held: Duration,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Exchange {
    spec: ExchangeSpec,
    /// How many rounds may be in flight.
    window: u32,
    /// How many steps a stretch has at least.
    steps: u32,
    pub(super) sections: Sections,
    /// The sections are settled: the first iteration is over.
    is_cut: bool,
    pub(super) keys: BTreeMap<Key, KnownKey>,
    /// In the order in which they were sent.
    pub(super) flights: VecDeque<RoundFlight>,
    /// What is left to do in this iteration.
    due: BTreeMap<Key, Act>,
    /// Iterations that have begun.
    pub(super) iteration: u64,
    /// That iteration is over: whatever is pushed begins the next one.
    is_closed: bool,
    /// Those that have begun since the last send, that of the send not counted.
    since: u64,
    /// For each section the iteration of its last send.
    sent_in: BTreeMap<u64, u64>,
    /// All rounds from this one on were sent unchanged.
    pub(super) own_until: u64,
    pace: StretchPace,
    pub(super) counts: Counts,
    held_since: Option<Duration>,
    /// The iteration before which all workers aligned last.
    pub(super) aligned: u64,
    /// The rounds of the last iteration of all workers together.
    together: Range<u64>,
}

/// A key that was pushed.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownKey {
    bytes: u64,
    /// The iteration in which it was pushed last.
    pushed: u64,
    /// In so many iterations in a row it was pushed, that one included.
    streak: u64,
    /// The round in flight that it is in.
    flight: Option<u64>,
    /// Newer rounds go behind it.
    first: bool,
}

impl KnownKey {
    /// It was pushed in that iteration.
    const fn is_pushed(&mut self, iteration: u64) {
        let again = self.pushed.saturating_add(1) == iteration;
        self.streak = if again { self.streak.saturating_add(1) } else { 1 };
        self.pushed = iteration;
    }

    /// True if it is likely to be pushed in the iteration that begins.
    fn is_likely(&self, iteration: u64) -> bool {
        let before = iteration.saturating_sub(1);
        self.pushed == before && self.streak >= LIKELY.min(before)
    }
}

/// A round in flight.
#[derive(Clone, Debug)]
pub(super) struct RoundFlight {
    /// Rounds before it.
    number: u64,
    section: u64,
    /// The iteration in which it is sent.
    iteration: u64,
    keys: Vec<Key>,
    /// How many of them are not answered.
    open: usize,
    /// How many are likely to be pushed yet.
    likely: usize,
    /// All keys that belong to it are sent.
    closed: bool,
}

impl RoundFlight {
    const fn is_done(&self) -> bool {
        self.closed && self.open == 0
    }
}

impl Exchange {
    /// That of a customer that has pushed nothing.
    #[must_use]
    pub fn new(spec: ExchangeSpec) -> Self {
        let window = if spec.window == 0 { WINDOW_AT_FIRST } else { spec.window };
        Self {
            spec,
            window: window.min(spec.sections).max(1),
            steps: spec.steps.max(1),
            sections: Sections::whole(),
            is_cut: spec.sections <= 1,
            keys: BTreeMap::new(),
            flights: VecDeque::new(),
            due: BTreeMap::new(),
            iteration: 0,
            is_closed: true,
            since: 0,
            sent_in: BTreeMap::new(),
            own_until: 0,
            pace: StretchPace::default(),
            counts: Counts::default(),
            held_since: None,
            aligned: 0,
            together: 0..0,
        }
    }

    /// The scheduler's word on how many rounds may be in flight. It counts where the spec leaves
    /// that to it.
    pub fn set_window(&mut self, window: u32) {
        if self.spec.window == 0 {
            self.window = window.clamp(1, self.spec.sections.max(1));
        }
    }

    /// The scheduler's word on how many steps this worker takes in a stretch (`esync`).
    pub fn set_steps(&mut self, steps: u32) {
        self.steps = steps.max(1);
    }

    /// For people.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// How many rounds may be in flight now.
    #[must_use]
    pub const fn window(&self) -> u32 {
        self.window
    }

    /// How many steps a stretch has at least.
    #[must_use]
    pub const fn steps(&self) -> u32 {
        self.steps
    }

    /// How many rounds are in flight whose values are not all here. One that is back counts no
    /// more, also if it is taken only when the next iteration begins: what is measured by it is how
    /// long the network takes.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flights.iter().filter(|flight| !self.is_back(flight)).count()
    }

    fn is_back(&self, flight: &RoundFlight) -> bool {
        let (begin, end) = self.sections.range(flight.section);
        let mut due = self.due.range(begin..).take_while(|(key, _)| end.is_none_or(|e| **key < e));
        flight.open == 0 && (flight.closed || !due.any(|(_, act)| act.send))
    }

    /// Into how many sections the tensors are cut.
    #[must_use]
    pub const fn section_count(&self) -> u64 {
        self.sections.count()
    }

    /// A key of the round that the worker waits for, or would: for people, since the round of that
    /// key at its server knows who has not pushed.
    #[must_use]
    pub fn oldest(&self) -> Option<Key> {
        let flight = self.flights.front()?;
        let waits = |key: &&Key| self.keys.get(key).is_some_and(|known| known.flight.is_some());
        flight.keys.iter().find(waits).copied()
    }

    // ---- pushes ---------------------------------------------------------------------------------

    /// The program pushes a gradient of a key, whose value has that many bytes.
    pub fn push(&mut self, now: Duration, key: Key, bytes: u64) -> Push {
        let mut before = Vec::new();
        let again = self.keys.get(&key).is_some_and(|known| known.pushed == self.iteration);
        if self.is_closed || again {
            before = self.close();
            if let Some(hold) = self.hold() {
                self.held_since.get_or_insert(now);
                return Push { before, turn: PushTurn::Held(hold) };
            }
            self.begin(now);
        }
        let pushed = self.iteration;
        let is_new = known_of(&mut self.keys, key, bytes, pushed);
        if is_new && self.sends(self.sections.of(key)) {
            self.due.insert(key, Act { swap: false, send: true });
        }
        let act = self.due.remove(&key).unwrap_or_default();
        self.note(key, act);
        Push { before, turn: PushTurn::Taken(act) }
    }

    /// Why the next iteration cannot begin now.
    fn hold(&self) -> Option<Hold> {
        if self.is_together(self.iteration + 1) && self.aligned <= self.iteration {
            return Some(Hold::Align);
        }
        let done = self.flights.iter().take_while(|flight| flight.is_done()).count();
        let stays = self.flights.len() - done;
        if self.spec.waits || self.is_together(self.iteration) {
            return (stays > 0).then_some(Hold::Result);
        }
        let is_late = self.since >= self.pace.limit().max(self.steps.into());
        (stays as u64 >= self.in_flight_most() && is_late).then_some(Hold::Result)
    }

    /// The next iteration begins; the one before is closed.
    fn begin(&mut self, now: Duration) {
        if let Some(since) = self.held_since.take() {
            self.counts.held += now.saturating_sub(since);
        }
        self.iteration += 1;
        self.is_closed = false;
        self.counts.iterations += 1;
        self.since += 1;
        if self.is_together(self.iteration) {
            self.apply();
            return self.send_all();
        }
        let may_send = self.since >= self.steps.into() && self.is_cut;
        // One section is swapped and sent in one moment: what is replaced would not have been sent.
        if may_send || self.spec.sections > 1 || self.spec.waits {
            self.apply();
        }
        if may_send {
            self.send_next();
        }
    }

    /// The iteration is over: what of it is left to do, which counts as done from now on.
    pub(super) fn close(&mut self) -> Vec<(Key, Act)> {
        let left: Vec<(Key, Act)> = std::mem::take(&mut self.due).into_iter().collect();
        for (key, act) in &left {
            self.note(*key, *act);
        }
        self.flights.iter_mut().for_each(|flight| flight.closed = true);
        self.is_closed = true;
        // A round is of one section as they are cut, until it is over.
        if !self.is_cut && self.iteration > 0 && self.flights.is_empty() {
            let bytes = self.keys.iter().map(|(key, known)| (*key, known.bytes)).collect();
            self.sections = Sections::cut(&bytes, self.spec.sections);
            self.is_cut = true;
        }
        left
    }

    /// Takes the rounds that are done, the oldest first: their keys are due.
    pub(super) fn apply(&mut self) {
        while self.flights.front().is_some_and(RoundFlight::is_done)
            && let Some(flight) = self.flights.pop_front()
        {
            self.counts.done += 1;
            // Who waits has swapped each value as it came.
            if !self.waits_for(flight.number) {
                for key in flight.keys {
                    self.due.entry(key).or_default().swap = true;
                }
            }
        }
    }

    /// Sends sections in their turns, as many as may be in flight.
    fn send_next(&mut self) {
        let before = self.counts.sent;
        while self.has_room() {
            self.send_section();
        }
        if self.counts.sent > before {
            self.pace.ended(std::mem::take(&mut self.since));
        }
    }

    /// All sections are sent, whatever may be in flight: nothing is computed until they are over.
    fn send_all(&mut self) {
        let first = self.counts.sent;
        (0..self.sections.count()).for_each(|_| self.send_section());
        self.together = first..self.counts.sent;
        self.since = 0;
    }

    /// True for an iteration of all workers together.
    const fn is_together(&self, iteration: u64) -> bool {
        matches!(iteration.checked_rem(self.spec.every), Some(0)) && iteration > 0
    }

    /// True for a round for whose values the program waits.
    fn waits_for(&self, round: u64) -> bool {
        self.spec.waits || self.together.contains(&round)
    }

    /// The section whose turn it is.
    pub(super) fn next(&self) -> u64 {
        self.counts.sent % self.sections.count()
    }

    /// True if one more round may be in flight. No section is in flight twice: it would be sent
    /// with its own values not here.
    pub(super) fn has_room(&self) -> bool {
        (self.flights.len() as u64) < self.in_flight_most()
    }

    fn in_flight_most(&self) -> u64 {
        u64::from(self.window).min(self.sections.count())
    }

    /// True if that section was changed since it was sent.
    pub(super) fn is_changed(&self, section: u64) -> bool {
        self.iteration > 0 && self.sent_in.get(&section).is_none_or(|sent| *sent < self.iteration)
    }

    /// The next section is sent: its keys are due.
    pub(super) fn send_section(&mut self) {
        let section = self.next();
        if self.is_changed(section) {
            self.own_until = self.counts.sent + 1;
        }
        let (begin, end) = self.sections.range(section);
        let mut likely = 0;
        let of_section = self.keys.range_mut(begin..);
        for (key, known) in of_section.take_while(|(key, _)| end.is_none_or(|end| **key < end)) {
            self.due.entry(*key).or_default().send = true;
            known.first = known.is_likely(self.iteration);
            likely += usize::from(known.first);
        }
        self.flights.push_back(RoundFlight {
            number: self.counts.sent,
            section,
            iteration: self.iteration,
            keys: Vec::new(),
            open: 0,
            likely,
            closed: false,
        });
        self.sent_in.insert(section, self.iteration);
        self.counts.sent += 1;
    }

    /// True if that section is being sent in this iteration.
    fn sends(&self, section: u64) -> bool {
        self.sending(section).is_some()
    }

    /// What is sent of rounds after this one waits: something of it is likely to be pushed yet, in
    /// this iteration. `None`: nothing waits. It changes with what is pushed, and when all that is
    /// left of an iteration is done.
    #[must_use]
    pub fn turn(&self) -> Option<u64> {
        let has_turn = |flight: &&RoundFlight| {
            flight.likely > 0 && !flight.closed && !self.waits_for(flight.number)
        };
        self.flights.iter().find(has_turn).map(|flight| flight.number)
    }

    /// The round of what was sent of a key, if that has a turn: what the program waits for goes at
    /// once.
    #[must_use]
    pub fn round_of(&self, key: Key) -> Option<u64> {
        let flight = self.keys.get(&key).and_then(|known| known.flight);
        flight.filter(|round| !self.waits_for(*round))
    }

    fn sending(&self, section: u64) -> Option<usize> {
        let now = self.iteration;
        let sends = |flight: &RoundFlight| {
            flight.section == section && flight.iteration == now && !flight.closed
        };
        self.flights.iter().position(sends)
    }

    /// Something is done with a key.
    fn note(&mut self, key: Key, act: Act) {
        if !act.send {
            return;
        }
        let Some(at) = self.sending(self.sections.of(key)) else { return };
        let flight = &mut self.flights[at];
        flight.keys.push(key);
        flight.open += 1;
        if let Some(known) = self.keys.get_mut(&key) {
            known.flight = Some(flight.number);
            flight.likely -= usize::from(std::mem::take(&mut known.first));
        }
    }

    // ---- answers --------------------------------------------------------------------------------

    /// What was sent of a key is answered, and the global value is kept. Says what to do with the
    /// key now: in a mode that waits, swap it, and let the program have it. Nothing else is to be
    /// done, also if nothing was sent of that key.
    pub fn answered(&mut self, key: Key) -> Act {
        let number = self.keys.get_mut(&key).and_then(|known| known.flight.take());
        let Some(number) = number else { return Act::default() };
        let first = self.flights.front().map_or(0, |flight| flight.number);
        let at = number.checked_sub(first).map(|at| at as usize);
        if let Some(flight) = at.and_then(|at| self.flights.get_mut(at)) {
            flight.open -= 1;
        }
        Act { swap: self.waits_for(number), send: false }
    }

    /// True if the program may not have the value of a key: it waits for the global one.
    #[must_use]
    pub fn withholds(&self, key: Key) -> bool {
        let flight = self.keys.get(&key).and_then(|known| known.flight);
        flight.is_some_and(|round| self.waits_for(round))
    }

    // ---- promises -------------------------------------------------------------------------------

    /// What this machine promises of itself: see [`crate::invariant`]. It walks over all keys.
    ///
    /// # Errors
    /// The first promise that does not hold.
    pub fn validate(&self) -> Valid {
        let sections = self.sections.count();
        let most = sections.max(1) as usize;
        require(self.flights.len() <= most, || {
            format!("{} rounds are in flight of {sections} sections", self.flights.len())
        })?;
        let first = self.counts.sent - self.flights.len() as u64;
        require(first == self.counts.done, || {
            format!("round {first} is the oldest in flight, and {} are done", self.counts.done)
        })?;
        let mut under_way = BTreeMap::<u64, usize>::new();
        for number in self.keys.values().filter_map(|known| known.flight) {
            *under_way.entry(number).or_default() += 1;
        }
        for (number, flight) in (first..).zip(&self.flights) {
            require(flight.number == number && flight.section == number % sections, || {
                format!("flight {number} of section {} is out of turn", flight.section)
            })?;
            let open = under_way.get(&number).copied().unwrap_or(0);
            require(open == flight.open, || {
                format!("round {number} waits for {} values, and {open} are under way", flight.open)
            })?;
            require(
                flight.keys.iter().all(|key| self.sections.of(*key) == flight.section),
                || format!("round {number} of section {} has other keys", flight.section),
            )?;
        }
        for (key, known) in &self.keys {
            let flies =
                known.flight.is_none_or(|flight| (first..self.counts.sent).contains(&flight));
            require(flies && known.pushed <= self.iteration, || {
                format!("key {key} is in a round that is over: {known:?}")
            })?;
        }
        for (key, act) in &self.due {
            require(!act.send || self.sends(self.sections.of(*key)), || {
                format!("key {key} is to be sent, and its section is not")
            })?;
        }
        Ok(())
    }
}

/// Notes a push. True if the key is new.
fn known_of(keys: &mut BTreeMap<Key, KnownKey>, key: Key, bytes: u64, pushed: u64) -> bool {
    let is_new = !keys.contains_key(&key);
    let new = KnownKey { bytes, pushed, streak: 0, flight: None, first: false };
    keys.entry(key).or_insert(new).is_pushed(pushed);
    is_new
}
