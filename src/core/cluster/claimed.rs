//! The claims of servers as the scheduler keeps them: by key, so that a word about some keys costs
//! no more than these, however many keys and servers there are. Pure.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use super::claims::is_sound;
use crate::invariant::{Valid, require};
use crate::wire::elastic::{Claim, Holding};
use crate::wire::{Key, NodeId};

/// Claims of one key, in order. Nearly all keys are one piece.
type ClaimsOfKey = SmallVec<[Claim; 1]>;

/// All that one server claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    keys: BTreeMap<Key, ClaimsOfKey>,
    /// Claims of pieces that are on their way, by where these go.
    leaving: BTreeMap<NodeId, usize>,
}

impl Claimed {
    /// Those of the claims that make sense.
    #[must_use]
    pub fn new(claims: &[Claim]) -> Self {
        let mut claimed = Self::default();
        for (key, claims) in by_key(claims) {
            claimed.set(key, claims);
        }
        claimed
    }

    /// All of them, by key.
    pub fn iter(&self) -> impl Iterator<Item = &Claim> {
        self.keys.values().flatten()
    }

    /// Those of one key.
    #[must_use]
    pub fn of_key(&self, key: Key) -> &[Claim] {
        self.keys.get(&key).map_or(&[], |claims| &claims[..])
    }

    /// True if nothing is claimed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// True if it is giving something to that server.
    #[must_use]
    pub fn gives_to(&self, id: NodeId) -> bool {
        self.leaving.contains_key(&id)
    }

    /// Takes in what is new: all claims of some keys, and keys of which nothing is left. The keys
    /// that it is about.
    pub fn take_news(&mut self, news: &[Claim], gone: &[Key]) -> BTreeSet<Key> {
        let mut keys: BTreeSet<Key> = gone.iter().copied().collect();
        for key in gone {
            self.set(*key, ClaimsOfKey::new());
        }
        for (key, claims) in by_key(news) {
            self.set(key, claims);
            keys.insert(key);
        }
        keys
    }

    /// Takes in all that is claimed now. The keys of which it is something else than before; a
    /// round more is nothing else.
    pub fn take_all(&mut self, now: Self) -> BTreeSet<Key> {
        let before = std::mem::replace(self, now);
        let gone = before.keys.keys().filter(|key| !self.keys.contains_key(key));
        let is_new = |(key, claims): &(&Key, &ClaimsOfKey)| {
            let former = before.of_key(**key);
            former.len() != claims.len() || !former.iter().zip(*claims).all(|(a, b)| is_same(a, b))
        };
        let new = self.keys.iter().filter(is_new).map(|(key, _)| key);
        gone.chain(new).copied().collect()
    }

    fn set(&mut self, key: Key, claims: ClaimsOfKey) {
        for to in claims.iter().filter_map(receiver) {
            *self.leaving.entry(to).or_default() += 1;
        }
        let before = match claims.is_empty() {
            true => self.keys.remove(&key),
            false => self.keys.insert(key, claims),
        };
        for to in before.iter().flatten().filter_map(receiver) {
            if let Some(count) = self.leaving.get_mut(&to) {
                *count -= 1;
                if *count == 0 {
                    self.leaving.remove(&to);
                }
            }
        }
    }
}

/// What all servers claim, by server; and which of them claim something of a key, so that a word
/// about some keys does not cost more the more servers there are.
#[derive(Debug, Default)]
pub struct AllClaimed {
    servers: BTreeMap<NodeId, Claimed>,
    /// In order.
    who: BTreeMap<Key, SmallVec<[NodeId; 2]>>,
}

impl AllClaimed {
    /// Nobody has claimed anything but these.
    #[must_use]
    pub fn new(servers: BTreeMap<NodeId, Claimed>) -> Self {
        let mut who: BTreeMap<Key, SmallVec<[NodeId; 2]>> = BTreeMap::new();
        for (id, claimed) in &servers {
            for key in claimed.keys.keys() {
                who.entry(*key).or_default().push(*id);
            }
        }
        Self { servers, who }
    }

    /// Who claims what of a key, and who gives to whom, are what a walk over all claims finds.
    ///
    /// # Errors
    /// The first one that is not.
    pub fn validate(&self) -> Valid {
        for (server, claimed) in &self.servers {
            let mut leaving: BTreeMap<NodeId, usize> = BTreeMap::new();
            for to in claimed.iter().filter_map(receiver) {
                *leaving.entry(to).or_default() += 1;
            }
            require(leaving == claimed.leaving, || {
                let counted = &claimed.leaving;
                format!("{server} gives {leaving:?} away, and {counted:?} are counted")
            })?;
            let not = claimed.keys.keys().find(|key| {
                let who = self.who.get(key);
                who.is_none_or(|who| who.binary_search(server).is_err())
            });
            require(not.is_none(), || format!("{server} claims key {not:?}, and is not listed"))?;
        }
        let walked: usize = self.servers.values().map(|claimed| claimed.keys.len()).sum();
        let listed: usize = self.who.values().map(SmallVec::len).sum();
        require(walked == listed, || {
            format!("servers claim {walked} times something of a key, and {listed} are listed")
        })
    }

    /// A key is listed that nobody claims, for the test of [`Self::validate`].
    #[cfg(test)]
    pub(super) fn spoil(&mut self) {
        note(&mut self.who, Key::MAX, 8, true);
    }

    /// By server.
    #[must_use]
    pub const fn by_server(&self) -> &BTreeMap<NodeId, Claimed> {
        &self.servers
    }

    /// All claims of these keys, by server.
    #[must_use]
    pub fn of_keys(&self, keys: &BTreeSet<Key>) -> Vec<(NodeId, Claim)> {
        let places = keys.iter().flat_map(|key| {
            self.who.get(key).into_iter().flatten().map(move |server| (*server, *key))
        });
        let mut places: Vec<(NodeId, Key)> = places.collect();
        places.sort_unstable();
        let claims = places.into_iter().flat_map(|(server, key)| {
            let claimed = self.servers.get(&server);
            claimed.map_or(&[][..], |claimed| claimed.of_key(key)).iter().map(move |c| (server, *c))
        });
        claims.collect()
    }

    /// All that a server claims now, or what is new of that, as [`Claimed::take_all`] and
    /// [`Claimed::take_news`].
    pub fn take(
        &mut self,
        server: NodeId,
        take: impl FnOnce(&mut Claimed) -> BTreeSet<Key>,
    ) -> BTreeSet<Key> {
        let claimed = self.servers.entry(server).or_default();
        let keys = take(claimed);
        for key in &keys {
            note(&mut self.who, *key, server, !claimed.of_key(*key).is_empty());
        }
        keys
    }

    /// Nothing that a server claimed counts any more.
    pub fn remove(&mut self, server: NodeId) {
        let Some(claimed) = self.servers.remove(&server) else { return };
        for key in claimed.keys.keys() {
            note(&mut self.who, *key, server, false);
        }
    }

    /// These servers claim that, and nothing else any more.
    pub fn extend(&mut self, all: BTreeMap<NodeId, Claimed>) {
        for (server, claimed) in all {
            self.take(server, |known| known.take_all(claimed));
        }
    }
}

/// That server claims something of that key, or does not.
fn note(who: &mut BTreeMap<Key, SmallVec<[NodeId; 2]>>, key: Key, server: NodeId, claims: bool) {
    if claims {
        let servers = who.entry(key).or_default();
        if let Err(at) = servers.binary_search(&server) {
            servers.insert(at, server);
        }
    } else if let Some(servers) = who.get_mut(&key) {
        servers.retain(|known| *known != server);
        if servers.is_empty() {
            who.remove(&key);
        }
    }
}

/// Where what is claimed goes.
fn receiver(claim: &Claim) -> Option<NodeId> {
    (claim.holding == Holding::Leaving as i32).then_some(claim.peer)
}

fn is_same(a: &Claim, b: &Claim) -> bool {
    Claim { version: b.version, ..*a } == *b
}

/// Those that make sense, those of a key always in the same order.
fn by_key(claims: &[Claim]) -> BTreeMap<Key, ClaimsOfKey> {
    let mut keys: BTreeMap<Key, ClaimsOfKey> = BTreeMap::new();
    for claim in claims.iter().filter(|claim| is_sound(claim)) {
        keys.entry(claim.key).or_default().push(*claim);
    }
    for claims in keys.values_mut() {
        claims.sort_unstable_by_key(|claim| (claim.holding, claim.peer, claim.from, claim.term));
        claims.shrink_to_fit();
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(key: Key) -> Claim {
        let holding = Holding::Owner as i32;
        let (to, length, term, align) = (10, 10, 1, 16);
        Claim { key, to, length, term, align, holding, bytes: 40, ..Claim::default() }
    }

    #[test]
    fn what_is_new_takes_the_place_of_what_was_known_of_those_keys() {
        let mut known = Claimed::new(&[claim(3), claim(1), claim(2)]);
        let copy = Claim { holding: Holding::Replica as i32, peer: 8, ..claim(2) };
        let newer = Claim { version: 9, ..claim(3) };
        assert_eq!(known.take_news(&[newer, claim(2), copy, claim(4)], &[1]), [1, 2, 3, 4].into());
        let all: Vec<Claim> = known.iter().copied().collect();
        assert_eq!(all, [copy, claim(2), newer, claim(4)]);
        assert_eq!(known.of_key(2), [copy, claim(2)]);
        assert_eq!((known.of_key(1).len(), known.of_key(7).len()), (0, 0));
    }

    #[test]
    fn of_all_that_is_claimed_only_what_differs_is_news() {
        let mut known = Claimed::new(&[claim(1), claim(2), claim(3)]);
        let newer = Claim { version: 9, ..claim(2) };
        let safe = Claim { safe: true, ..claim(3) };
        let now = Claimed::new(&[newer, safe, claim(4)]);
        assert_eq!(known.take_all(now.clone()), [1, 3, 4].into());
        assert_eq!(known, now);
        assert_eq!(known.of_key(2), [newer]);
    }

    #[test]
    fn claims_of_a_key_are_found_whoever_makes_them() {
        let first = Claimed::new(&[claim(1), claim(2)]);
        let mut all = AllClaimed::new([(8, first)].into());
        all.extend([(12, Claimed::new(&[claim(2), claim(3)]))].into());
        assert_eq!(all.of_keys(&[2].into()), [(8, claim(2)), (12, claim(2))]);
        let by_server = [(8, claim(1)), (8, claim(2)), (12, claim(2)), (12, claim(3))];
        assert_eq!(all.of_keys(&[1, 2, 3, 4].into()), by_server);
        assert_eq!(all.take(10, |known| known.take_news(&[claim(2)], &[3])), [2, 3].into());
        assert_eq!(all.take(8, |known| known.take_news(&[claim(4)], &[2])), [2, 4].into());
        assert_eq!(all.of_keys(&[2, 3].into()), [(10, claim(2)), (12, claim(2)), (12, claim(3))]);
        all.extend([(12, Claimed::new(&[claim(1)]))].into());
        assert_eq!(all.of_keys(&[1, 2, 3].into()), [(8, claim(1)), (10, claim(2)), (12, claim(1))]);
        all.remove(8);
        all.remove(10);
        assert_eq!(all.of_keys(&[1, 2, 3, 4].into()), [(12, claim(1))]);
        assert_eq!(all.who.len(), 1, "nothing is kept of keys that nobody claims");
    }

    #[test]
    fn what_leaves_is_counted_by_where_it_goes() {
        let leaving = Claim { holding: Holding::Leaving as i32, peer: 12, ..claim(2) };
        let mut known = Claimed::new(&[claim(1), leaving, Claim { key: 3, ..leaving }]);
        assert!(known.gives_to(12) && !known.gives_to(10));
        known.take_news(&[claim(3)], &[]);
        assert!(known.gives_to(12));
        known.take_news(&[], &[2]);
        assert!(!known.gives_to(12) && !known.is_empty());
        known.take_news(&[], &[1, 3]);
        assert!(known.is_empty());
        let odd = Claim { to: 11, ..claim(1) };
        assert!(Claimed::new(&[odd]).is_empty(), "it is longer than its key");
    }
}
