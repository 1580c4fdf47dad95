//! What flights promise, as code (`invariant`). Looks, and changes nothing. May touch what the
//! module may.
//!
//! - **Each slice waits for something**: some part of it is not answered.
//! - **A slice's parts** follow each other without a gap.
//! - **What is under way may be answered**: no part is at a server that is lost, or was never heard
//!   of.
//! - **Sets and indices** are what a walk over all finds: names, slices with a waiting part, open
//!   pushes of each key.

use super::part::State;
use super::{Flight, Flights, Part};
use crate::invariant::{Valid, covering, debug, require};
use crate::wire::Key;

impl Flights {
    /// All that is promised.
    ///
    /// # Errors
    /// The first promise that does not hold, with the numbers.
    pub fn validate(&self) -> Valid {
        self.open.keys().try_for_each(|number| self.validate_open(*number))?;
        self.validate_counts()?;
        let pushes = self.open.iter().filter(|(_, flight)| flight.slice.meta.push);
        self.order.validate(pushes.map(|(number, flight)| (flight.slice.key, *number)))?;
        self.routes.validate()
    }

    /// A debug build looks at what an entry touched: the slices of a request, if any is open.
    pub(super) fn look_at(&self, timestamp: i32) {
        debug(|| {
            let named = self.names.range((timestamp, 0)..=(timestamp, u32::MAX));
            named.map(|(_, number)| *number).try_for_each(|number| self.validate_open(number))?;
            self.validate_counts()
        });
    }

    /// A debug build looks at all, after an entry that may have touched all that is open.
    pub(super) fn look_at_all(&self) {
        debug(|| self.validate());
    }

    /// There are no names of what is not open.
    fn validate_counts(&self) -> Valid {
        let (names, open) = (self.names.len(), self.open.len());
        require(names == open, || format!("{names} slices have names, and {open} are open"))?;
        let last = self.waiting.last().copied();
        require(last.is_none_or(|last| self.open.contains_key(&last)), || {
            format!("slice {last:?} waits, and is not open")
        })?;
        let (waiting, next) = (self.waiting.len(), self.next);
        require(waiting <= open && self.open.keys().next_back() < Some(&next), || {
            format!("{waiting} of {open} slices wait; the next one is {next}")
        })
    }

    fn validate_open(&self, number: u64) -> Valid {
        let Some(flight) = self.open.get(&number) else {
            return Err(format!("slice {number} has a name, and is not open"));
        };
        let meta = &flight.slice.meta;
        let name = (meta.timestamp, flight.slice.rank);
        let named = |broken: String| format!("slice {number}, {name:?}: {broken}");
        require(self.names.get(&name) == Some(&number), || {
            named(format!("its name is that of {:?}", self.names.get(&name)))
        })?;
        let waits = flight.parts.iter().any(Part::waits);
        require(waits == self.waiting.contains(&number), || {
            named(format!("a part of it waits: {waits}; the set of those says no other"))
        })?;
        require(!meta.push || self.order.has(flight.slice.key, number), || {
            named("it is a push, and none of the open ones of its key".to_owned())
        })?;
        flight.validate().map_err(named)?;
        flight.parts.iter().try_for_each(|part| self.validate_way(part)).map_err(named)
    }

    /// What is under way may be answered.
    fn validate_way(&self, part: &Part) -> Valid {
        let Some(way) = part.sent() else { return Ok(()) };
        require(self.may_send_to(way.next) && !self.lost.contains(&part.owner), || {
            format!("{}..{} is at {}, which is lost or unknown", part.from, part.to, way.next)
        })
    }
}

impl Flight {
    fn validate(&self) -> Valid {
        let parts = &self.parts;
        let open = parts.iter().any(|part| !matches!(part.state, State::Done(_)));
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

impl super::Order {
    /// True if that push of that key is open.
    fn has(&self, key: Key, number: u64) -> bool {
        self.before(key, number + 1).last() == Some(number)
    }
}
