//! What opaque keys promise, as code (`invariant`). Looks, and changes nothing. May touch what the
//! module may.
//!
//! - **A key has one place**: it is here, or comes, or has left and is kept.
//! - **What leaves is quiet**: the application has answered all that it was given of it.
//! - **Every wait has its reason**: a request is held because its key is to leave, and parked for a
//!   key or a policy.
//! - **Sums and sets** are what a walk over all finds: requests that the application has, keys with
//!   an order, requests that wait.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::{GIVEN_MAX, LeavingKey, Opaque, Owned};
use crate::invariant::{Valid, debug, require};
use crate::store::moving::servers::Place;
use crate::values::key_at;
use crate::wire::Key;

impl Opaque {
    /// All that is promised, and that what others say fits it: while all follow the rules, nobody
    /// is said to have a key that is here under a later term.
    ///
    /// # Errors
    /// The first promise that does not hold, with the numbers.
    pub fn validate(&self) -> Valid {
        self.validate_own()?;
        for (key, Owned { term, .. }) in &self.keys {
            let route = self.routes.get(key).filter(|route| route.owner != self.servers.me);
            require(route.is_none_or(|route| route.term <= *term), || {
                format!("key {key} is here under term {term}, and by {route:?} elsewhere since")
            })?;
        }
        Ok(())
    }

    /// What it promises whatever others say.
    fn validate_own(&self) -> Valid {
        self.servers.validate()?;
        self.validate_given()?;
        self.parked.validate()?;
        self.held.validate()?;
        let known = self.keys.keys().chain(self.leaving.keys()).chain(self.arriving.keys());
        let mut keys: BTreeSet<Key> = known.chain(&self.ordered).copied().collect();
        keys.extend(self.parked.keys().into_iter().chain(self.held.keys()));
        keys.into_iter().try_for_each(|key| self.validate_key(key))
    }

    /// A debug build looks at the key of a request.
    pub(super) fn look_at_request(&self, frames: &[Bytes]) {
        let key = frames.first().and_then(|keys| key_at(keys, 0));
        self.look_at(key);
    }

    /// A debug build looks at the keys that an entry touched.
    pub(super) fn look_at(&self, keys: impl IntoIterator<Item = Key>) {
        debug(|| keys.into_iter().try_for_each(|key| self.validate_key(key)));
    }

    /// A debug build looks at all, after an entry that went over all keys.
    pub(super) fn look_at_all(&self) {
        debug(|| self.validate_own());
    }

    /// As many requests of each key are with the application as the key counts.
    fn validate_given(&self) -> Valid {
        require(self.given.len() <= GIVEN_MAX, || {
            format!("the application has {} requests: more than may", self.given.len())
        })?;
        let mut walked: BTreeMap<Key, usize> = BTreeMap::new();
        for given in self.given.values() {
            *walked.entry(given.key).or_default() += 1;
        }
        for (key, owned) in &self.keys {
            let has = walked.remove(key).unwrap_or(0);
            require(has == owned.open, || {
                format!("the application has {has} requests of key {key}, not {}", owned.open)
            })?;
        }
        require(walked.is_empty(), || {
            format!("the application has requests of keys that are not here: {walked:?}")
        })
    }

    /// What is promised of one key.
    fn validate_key(&self, key: Key) -> Valid {
        let named = |broken: String| format!("key {key}: {broken}");
        let (here, leaving) = (self.keys.get(&key), self.leaving.get(&key));
        let arriving = self.arriving.get(&key);
        let places = [here.is_some(), leaving.is_some(), arriving.is_some()];
        require(places.iter().filter(|has| **has).count() <= 1, || {
            named(format!("of [here, leaving, arriving] it is {places:?}"))
        })?;
        let ordered = here.is_some_and(|owned| owned.order.is_some());
        require(ordered == self.ordered.contains(&key), || {
            named(format!("it has an order: {ordered}; the list of those that have says no other"))
        })?;
        here.map_or(Ok(()), |owned| self.validate_owned(owned)).map_err(named)?;
        arriving.map_or(Ok(()), |owned| self.validate_owned(owned)).map_err(named)?;
        leaving.map_or(Ok(()), |leaving| self.validate_leaving(leaving)).map_err(named)?;
        self.validate_waiting(key).map_err(named)
    }

    fn validate_owned(&self, owned: &Owned) -> Valid {
        let Owned { term, order, source, .. } = owned;
        let me = self.servers.me;
        require(*term > 0, || "it has no term".to_owned())?;
        require(order.is_none_or(|order| order.to != me), || {
            format!("it is to go to {me}, where it is")
        })?;
        require(*source != Some(me), || format!("it came from {me}, where it is"))?;
        owned.marks.validate()?;
        owned.visitors.validate()
    }

    fn validate_leaving(&self, LeavingKey { to, owned }: &LeavingKey) -> Valid {
        let Owned { open, order, exporting, source, .. } = owned;
        require(*to != self.servers.me, || format!("it left for {to}, where it is"))?;
        require(*open == 0 && order.is_none() && !exporting && source.is_none(), || {
            format!(
                "it left while {open} requests were with the application; order {order:?}, \
                 exporting {exporting}, source {source:?}"
            )
        })
    }

    /// What waits for the key would wait again.
    fn validate_waiting(&self, key: Key) -> Valid {
        let has_order = |owned: &Owned| owned.order.is_some() || owned.exporting;
        // What was to go to a dead server is let through with the policy that says so.
        let held = self.keys.get(&key).is_some_and(has_order) || self.servers.collecting.is_some();
        let first = self.held.of(key).next();
        require(held || first.is_none(), || {
            let number = first.map(|request| (request.sender, request.timestamp));
            format!("request {number:?} is held, and the key is not to leave")
        })?;
        for request in self.parked.of(key) {
            let ask = request.ask().cloned().unwrap_or_default();
            require(matches!(self.place(key, &ask), Place::Later), || {
                let (from, number) = (request.sender, request.timestamp);
                format!("request {number} of {from} is parked, and nothing keeps it")
            })?;
        }
        Ok(())
    }
}
