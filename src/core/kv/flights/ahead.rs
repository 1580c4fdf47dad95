//! Values ahead: an owner sends the values of a round with its answers to the pushes, before the
//! workers ask for them (docs/elastic.md, "Values ahead"). A pull that finds its values here is
//! answered at once: a round takes two messages for each part, not four.
//!
//! Whether a push asks for them follows from what the application did with the key before: it asks
//! if the pushes before were answered, then pulled, once each. Each time that values came in vain,
//! twice as many such pushes must follow each other before one asks again.
//!
//! What is kept is what a pull after the answer would bring, as long as no round ends without a
//! push of this worker. So owners send values ahead in `dist_sync` only, and a worker drops what it
//! keeps when it comes to a barrier or takes leave ([`Ahead::drop_all`]).
//!
//! Pure; knows names, keys and bytes only.

use std::collections::BTreeMap;

use super::{Brought, SliceName};
use crate::invariant::{Valid, require};
use crate::wire::Key;

/// Bytes that are asked for or kept at a time. They lie beside the application's own memory of the
/// same values; a push beyond it does not ask.
const BYTES_MAX: usize = 512 << 20;
/// How many pushes in a row must have been pulled before a push asks, at first.
const NEEDED_MIN: u16 = 1;
/// The same, however often values came in vain.
const NEEDED_MAX: u16 = 1 << 10;

/// See the module. By default nothing is asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Ahead {
    keys: BTreeMap<Key, Habit>,
    /// What the phases of all keys hold.
    bytes: usize,
    /// Longer values are not asked for.
    longest: usize,
}

/// What the application does with a key.
#[derive(Clone, Debug)]
struct Habit {
    phase: AheadPhase,
    /// How many pushes in a row were answered, and then pulled.
    in_a_row: u16,
    /// How many it takes before a push asks.
    needed: u16,
}

#[derive(Clone, Debug, Default)]
enum AheadPhase {
    /// No push since the last pull, or one that does not count.
    #[default]
    Rest,
    /// A push is open; it asks for that many bytes of values, or for none.
    Pushed(SliceName, usize),
    /// The last push was answered, without values.
    Answered,
    /// With values, which nobody has pulled yet.
    Here(Box<Brought>),
}

impl AheadPhase {
    fn bytes(&self) -> usize {
        match self {
            Self::Pushed(_, asked) => *asked,
            Self::Here(brought) => brought.bytes(),
            Self::Rest | Self::Answered => 0,
        }
    }
}

impl Ahead {
    /// Values of more bytes are not asked for from now on; 0: none are.
    pub(super) const fn set_longest(&mut self, bytes: usize) {
        self.longest = bytes;
    }

    /// A push begins, of a key whose values have so many bytes. True if it asks for them. `eager`:
    /// along a tree values come down once for all, or from the owner to each one who pulls. So the
    /// first push asks too.
    pub(super) fn pushed(&mut self, key: Key, name: SliceName, bytes: usize, eager: bool) -> bool {
        if self.longest == 0 && self.keys.is_empty() {
            return false;
        }
        let may_ask = bytes <= self.longest;
        let habit = self.keys.entry(key).or_default();
        let held = habit.phase.bytes();
        match habit.phase {
            AheadPhase::Rest => {}
            AheadPhase::Here(_) => habit.in_vain(),
            AheadPhase::Pushed(..) | AheadPhase::Answered => habit.in_a_row = 0,
        }
        let room = BYTES_MAX.saturating_sub(self.bytes - held);
        let is_usual = habit.in_a_row >= habit.needed || (eager && habit.needed == NEEDED_MIN);
        let asks = may_ask && bytes <= room && is_usual;
        let asked = if asks { bytes } else { 0 };
        habit.phase = AheadPhase::Pushed(name, asked);
        self.bytes = self.bytes - held + asked;
        asks
    }

    /// A push begins that asks for nothing: it pulls too, or brings something else than all
    /// elements of one key. What is kept is of a round before it.
    pub(super) fn dismiss(&mut self, key: Key) {
        if let Some(habit) = self.keys.get_mut(&key) {
            self.bytes -= habit.phase.bytes();
            habit.phase = AheadPhase::Rest;
            habit.in_a_row = 0;
        }
    }

    /// A push was answered as a whole; with values, perhaps. What is not as long as was asked for
    /// is not kept.
    pub(super) fn answered(&mut self, key: Key, name: SliceName, brought: Option<Brought>) {
        let Some(habit) = self.keys.get_mut(&key) else { return };
        let AheadPhase::Pushed(open, asked) = habit.phase else { return };
        if open != name {
            return;
        }
        let brought = brought.filter(|brought| asked > 0 && brought.bytes() == asked);
        if asked > 0 && brought.is_none() {
            // Its owner gives none: it does not sum rounds.
            habit.in_vain();
        }
        let phase =
            brought.map_or(AheadPhase::Answered, |brought| AheadPhase::Here(Box::new(brought)));
        self.bytes = self.bytes - asked + phase.bytes();
        habit.phase = phase;
    }

    /// A push is over that was refused, or given up.
    pub(super) fn failed(&mut self, key: Key, name: SliceName) {
        if let Some(habit) = self.keys.get_mut(&key)
            && let AheadPhase::Pushed(open, asked) = habit.phase
            && open == name
        {
            habit.in_a_row = 0;
            habit.phase = AheadPhase::Rest;
            self.bytes -= asked;
        }
    }

    /// A pull begins, of all of these keys. Their values, if all are here.
    pub(super) fn pulled(&mut self, keys: &[Key]) -> Option<Vec<Brought>> {
        let here = |key: &Key| {
            self.keys.get(key).is_some_and(|habit| matches!(habit.phase, AheadPhase::Here(_)))
        };
        let all = !keys.is_empty() && keys.iter().all(here);
        let mut brought = Vec::with_capacity(if all { keys.len() } else { 0 });
        for key in keys {
            let Some(habit) = self.keys.get_mut(key) else { continue };
            self.bytes -= habit.phase.bytes();
            match std::mem::take(&mut habit.phase) {
                AheadPhase::Here(values) => {
                    habit.in_a_row = habit.in_a_row.saturating_add(1);
                    brought.push(*values);
                }
                AheadPhase::Answered => habit.in_a_row = habit.in_a_row.saturating_add(1),
                // It does not wait for the answer: what it gets may be of the round before.
                AheadPhase::Pushed(..) => habit.in_a_row = 0,
                AheadPhase::Rest => {}
            }
        }
        // A key that comes twice has given its values to the first.
        (all && brought.len() == keys.len()).then_some(brought)
    }

    /// Nothing is kept any more: others may go on without this worker. What is asked for is not
    /// kept when it comes.
    pub(super) fn drop_all(&mut self) {
        for habit in self.keys.values_mut() {
            habit.phase = AheadPhase::Rest;
        }
        self.bytes = 0;
    }

    /// It holds as many bytes as it says, and waits for pushes that are open.
    pub(super) fn validate(&self, is_open: impl Fn(SliceName) -> bool) -> Valid {
        let bytes: usize = self.keys.values().map(|habit| habit.phase.bytes()).sum();
        require(bytes == self.bytes && bytes <= BYTES_MAX, || {
            format!("{bytes} bytes of values are ahead, counted are {}", self.bytes)
        })?;
        let closed = self.keys.iter().find_map(|(key, habit)| match habit.phase {
            AheadPhase::Pushed(name, _) if !is_open(name) => Some((key, name)),
            _ => None,
        });
        require(closed.is_none(), || format!("key and push {closed:?} is not open"))
    }
}

impl Default for Habit {
    fn default() -> Self {
        Self { phase: AheadPhase::Rest, in_a_row: 0, needed: NEEDED_MIN }
    }
}

impl Habit {
    /// Values were asked for, and nobody wanted them, or nobody gave them.
    fn in_vain(&mut self) {
        self.in_a_row = 0;
        self.needed = self.needed.saturating_mul(2).min(NEEDED_MAX);
    }
}

#[cfg(test)]
#[path = "ahead_tests.rs"]
mod tests;
