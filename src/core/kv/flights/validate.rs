//! What flights promise, as code (`invariant`). Looks, and changes nothing. May touch what the
//! module may.
//!
//! - **Each slice waits for something**: some part of it is not answered.
//! - **A slice's parts** follow each other without a gap.
//! - **What is under way may be answered**: no part is at a server that is lost, or was never heard
//!   of.
//! - **Sets and indices** are what a walk over all finds: slices with a waiting part, and the open
//!   pushes of each key.
//! - **Values ahead** are as many bytes as are counted, and are awaited of open pushes only.

use super::part::PartState;
use super::{Flights, Part, SliceFlight, SliceName, of_request};
use crate::invariant::{Valid, covering, debug, require};
use crate::wire::Key;

impl Flights {
    /// All that is promised.
    ///
    /// # Errors
    /// The first promise that does not hold, with the numbers.
    pub fn validate(&self) -> Valid {
        self.open.iter().try_for_each(|(name, flight)| self.validate_open(*name, flight))?;
        self.validate_counts()?;
        let mut pushes: Vec<_> =
            self.open.values().filter(|flight| flight.slice.meta.push).collect();
        pushes.sort_unstable_by_key(|flight| flight.number);
        self.order.validate(pushes.iter().map(|flight| (flight.slice.key, flight.name())))?;
        self.ahead.validate(|name| self.open.contains_key(&name))?;
        self.routes.validate()
    }

    /// A debug build looks at what an entry touched: the slices of a request, if any is open.
    pub(super) fn look_at(&self, timestamp: i32) {
        debug(|| {
            let mut all = self.open.range(of_request(timestamp));
            all.try_for_each(|(name, flight)| self.validate_open(*name, flight))?;
            self.validate_counts()
        });
    }

    /// A debug build looks at all, after an entry that may have touched all that is open.
    pub(super) fn look_at_all(&self) {
        debug(|| self.validate());
    }

    /// Nothing waits that is not open.
    fn validate_counts(&self) -> Valid {
        let last = self.waiting.last_key_value();
        let is_it = |(number, name): (&u64, &SliceName)| {
            self.open.get(name).is_some_and(|it| it.number == *number)
        };
        require(last.is_none_or(is_it), || format!("slice {last:?} waits, and is not open"))?;
        let (waiting, open) = (self.waiting.len(), self.open.len());
        require(waiting <= open, || format!("{waiting} of {open} slices wait"))
    }

    fn validate_open(&self, name: SliceName, flight: &SliceFlight) -> Valid {
        let (number, meta) = (flight.number, &flight.slice.meta);
        let named = |broken: String| format!("slice {number}, {name:?}: {broken}");
        require(flight.name() == name && number < self.next, || {
            named(format!("it is named {:?}; the next one is {}", flight.name(), self.next))
        })?;
        let waits = flight.parts.iter().any(Part::waits);
        require(waits == (self.waiting.get(&number) == Some(&name)), || {
            named(format!("a part of it waits: {waits}; the set of those says no other"))
        })?;
        require(!meta.push || self.order.has(flight.slice.key, name), || {
            named("it is a push, and none of the open ones of its key".to_owned())
        })?;
        flight.validate().map_err(named)?;
        flight.parts.iter().try_for_each(|part| self.validate_way(part)).map_err(named)
    }

    /// What is under way may be answered.
    fn validate_way(&self, part: &Part) -> Valid {
        let Some(way) = part.sent() else { return Ok(()) };
        require(self.may_send_to(part.owner), || {
            format!("{}..{} is at {}, which is lost or unknown", part.from, part.to, way.next)
        })
    }
}

impl SliceFlight {
    fn validate(&self) -> Valid {
        let parts = &self.parts;
        let open = parts.iter().any(|part| !matches!(part.state, PartState::Done(_)));
        require(open, || format!("all {} parts of it are answered", parts.len()))?;
        match &parts[..] {
            [only] if only.to == 0 => {
                require(only.from == 0, || format!("it is all of its key from {} on", only.from))
            }
            [first, .., last] | [first @ last] => {
                require(first.from == 0, || format!("its first part begins at {}", first.from))?;
                covering(parts.iter().map(|part| (part.from, part.to)), last.to)
            }
            [] => Err("it has no part".to_owned()),
        }
    }
}

impl super::PushOrder {
    /// True if that push of that key is open.
    fn has(&self, key: Key, name: SliceName) -> bool {
        self.of(key).is_some_and(|pushes| pushes.has(name))
    }
}
