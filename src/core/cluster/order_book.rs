//! Orders to move pieces, by key: those that stand, and those that another one replaced or that
//! were taken back and that may have been begun (`orders` says why these are known). Pure: what is
//! done with a key costs no more than what is ordered of that key.

use std::collections::{BTreeMap, BTreeSet};

use super::journal::{KeyOrders, Ordered};
use crate::invariant::{Valid, disjoint, require};
use crate::wire::elastic::{Claim, Holding, Order};
use crate::wire::{Key, NodeId};

/// An order that does not stand any more, and may have been begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Replaced {
    /// Who was to give something away.
    pub(super) giver: NodeId,
    /// What, and to whom. Less than was ordered, if the rest is known not to have gone.
    pub(super) order: Order,
    /// The newest epoch when it was replaced: with a later policy its server forgets it.
    pub(super) epoch: u64,
}

/// What is ordered of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OrdersOfKey {
    /// Orders that stand and may still be carried out, with the owners that have them.
    open: Vec<(NodeId, Order)>,
    /// Those that do not stand any more.
    replaced: Vec<Replaced>,
}

/// All orders.
#[derive(Debug, Default)]
pub(super) struct OrderBook {
    /// No key without an order.
    keys: BTreeMap<Key, OrdersOfKey>,
    open: usize,
    replaced: usize,
    /// Of both kinds, by the server that is to get something.
    receivers: BTreeMap<NodeId, usize>,
}

impl OrderBook {
    /// The orders of a journal.
    pub(super) fn of_journal(all: &BTreeMap<Key, KeyOrders>) -> Self {
        let mut book = Self::default();
        for (key, ordered) in all {
            let mut of_key = OrdersOfKey::default();
            for &Ordered { owner, order, replaced } in &ordered.orders {
                match replaced {
                    0 => of_key.open.push((owner, order)),
                    epoch => of_key.replaced.push(Replaced { giver: owner, order, epoch }),
                }
            }
            book.set(*key, of_key);
        }
        book
    }

    /// The orders about some keys, for a journal.
    pub(super) fn for_journal(&self, keys: &BTreeSet<Key>) -> BTreeMap<Key, KeyOrders> {
        let of = |key: &Key| {
            let mut orders = Vec::new();
            if let Some(OrdersOfKey { open, replaced }) = self.keys.get(key) {
                let open = open.iter().map(|(owner, order)| (*owner, *order, 0));
                let replaced = replaced.iter().map(|known| (known.giver, known.order, known.epoch));
                let all = open.chain(replaced);
                orders.extend(all.map(|(owner, order, replaced)| Ordered {
                    owner,
                    order,
                    replaced,
                }));
            }
            (*key, KeyOrders { orders })
        };
        keys.iter().map(of).collect()
    }

    /// Keys of which something is ordered, or was.
    pub(super) fn keys(&self) -> BTreeSet<Key> {
        self.keys.keys().copied().collect()
    }

    /// True if no order stands.
    pub(super) const fn none_open(&self) -> bool {
        self.open == 0
    }

    /// Orders that stand.
    pub(super) fn open(&self) -> impl Iterator<Item = &(NodeId, Order)> {
        self.keys.values().flat_map(|of_key| &of_key.open)
    }

    /// Those about one key.
    pub(super) fn open_of(&self, key: Key) -> &[(NodeId, Order)] {
        self.keys.get(&key).map_or(&[], |of_key| &of_key.open)
    }

    /// How many do not stand any more, and may have been begun.
    pub(super) const fn replaced(&self) -> usize {
        self.replaced
    }

    /// How many of these were replaced since that epoch.
    pub(super) fn replaced_since(&self, epoch: u64) -> usize {
        let all = self.keys.values().flat_map(|of_key| &of_key.replaced);
        all.filter(|known| known.epoch >= epoch).count()
    }

    /// All that may have been begun and is not known to be done: orders that stand, and others.
    pub(super) fn all(&self) -> Vec<(NodeId, Order)> {
        self.keys.values().flat_map(OrdersOfKey::all).collect()
    }

    /// The same, of some keys.
    pub(super) fn of_keys(&self, keys: &BTreeSet<Key>) -> Vec<(NodeId, Order)> {
        let known = keys.iter().filter_map(|key| self.keys.get(key));
        known.flat_map(OrdersOfKey::all).collect()
    }

    /// True if something was ordered to go to that server that may still come there.
    pub(super) fn may_give_to(&self, id: NodeId) -> bool {
        self.receivers.contains_key(&id)
    }

    /// Puts an order in the place of those about the same elements. One that names the giver itself
    /// is none. True if anything is ordered now that was not, or the other way round.
    pub(super) fn replace(&mut self, giver: NodeId, order: Order, epoch: u64) -> bool {
        let before = self.keys.get(&order.key).cloned().unwrap_or_default();
        let mut now = before.clone();
        let (out, kept): (Vec<_>, Vec<_>) =
            now.open.into_iter().partition(|(_, earlier)| overlap(earlier, &order));
        now.open = kept;
        for (from, earlier) in out {
            if !(from == giver && contains(&order, &earlier)) {
                let new = Replaced { giver: from, order: earlier, epoch };
                // What was replaced before, and again now, needs to be known once.
                now.replaced.retain(|known| {
                    known.giver != new.giver || !contains(&new.order, &known.order)
                });
                now.replaced.push(new);
            }
        }
        if order.owner != giver {
            now.open.push((giver, order));
        }
        let changed = now != before;
        if changed {
            self.set(order.key, now);
        }
        changed
    }

    /// Forgets the orders about a key of which `may_be_open` says no. Returns those that stood;
    /// none if nothing is forgotten.
    pub(super) fn retain(
        &mut self,
        key: Key,
        may_be_open: impl Fn(NodeId, &Order) -> bool,
    ) -> Option<Vec<Order>> {
        let before = self.keys.get(&key)?;
        let mut now = before.clone();
        let mut done = Vec::new();
        now.open.retain(|(owner, order)| {
            let open = may_be_open(*owner, order);
            done.extend((!open).then_some(*order));
            open
        });
        now.replaced.retain(|known| may_be_open(known.giver, &known.order));
        if now == *before {
            return None;
        }
        self.set(key, now);
        Some(done)
    }

    /// What `giver` was to give away, and does not know of any more as it knows a policy of that
    /// epoch: so what it still owns, by its claims of a key, it has not given away. The keys of
    /// which something is forgotten.
    pub(super) fn forget_not_begun<'a>(
        &mut self,
        giver: NodeId,
        epoch: u64,
        claims: impl Fn(Key) -> &'a [Claim],
    ) -> BTreeSet<Key> {
        let forgotten = |known: &Replaced| known.giver == giver && known.epoch < epoch;
        let with = self.keys.iter().filter(|(_, known)| known.replaced.iter().any(forgotten));
        let keys: Vec<Key> = with.map(|(key, _)| *key).collect();
        let mut changed = BTreeSet::new();
        for key in keys {
            let Some(before) = self.keys.get(&key) else { continue };
            let owned: Vec<&Claim> =
                claims(key).iter().filter(|claim| claim.holding == Holding::Owner as i32).collect();
            let left = |known: &Replaced| match forgotten(known) {
                true => without(known, &owned),
                false => vec![*known],
            };
            let replaced: Vec<Replaced> = before.replaced.iter().flat_map(left).collect();
            if replaced != before.replaced {
                let now = OrdersOfKey { open: before.open.clone(), replaced };
                self.set(key, now);
                changed.insert(key);
            }
        }
        changed
    }

    /// Orders that stand for one key are about different elements, none was replaced later than
    /// `epoch`, and the counters are what a walk over all finds.
    pub(super) fn validate(&self, epoch: u64) -> Valid {
        let (mut open, mut replaced) = (0, 0);
        let mut receivers: BTreeMap<NodeId, usize> = BTreeMap::new();
        for (key, of_key) in &self.keys {
            let named = |broken: String| format!("orders about key {key}: {broken}");
            let mut ranges: Vec<(u64, u64)> =
                of_key.open.iter().map(|(_, order)| (order.from, order.to)).collect();
            ranges.sort_unstable();
            disjoint(ranges, u64::MAX).map_err(named)?;
            let later = of_key.replaced.iter().find(|known| known.epoch > epoch);
            require(later.is_none(), || named(format!("{later:?} is of a policy to come")))?;
            require(of_key.all().all(|(_, order)| order.key == *key), || {
                named("one is about another key".to_owned())
            })?;
            (open, replaced) = (open + of_key.open.len(), replaced + of_key.replaced.len());
            for (_, order) in of_key.all() {
                *receivers.entry(order.owner).or_default() += 1;
            }
            require(of_key.all().next().is_some(), || named("there are none".to_owned()))?;
        }
        let counted = (self.open, self.replaced);
        require((open, replaced) == counted && receivers == self.receivers, || {
            format!(
                "{open} orders stand, {replaced} were replaced, by receiver {receivers:?}; counted \
                 are {counted:?}, {:?}",
                self.receivers
            )
        })
    }

    /// One more is counted than there is, for the test of [`Self::validate`].
    #[cfg(test)]
    pub(super) const fn spoil(&mut self) {
        self.open += 1;
    }

    fn set(&mut self, key: Key, now: OrdersOfKey) {
        for (_, order) in now.all() {
            *self.receivers.entry(order.owner).or_default() += 1;
        }
        self.open += now.open.len();
        self.replaced += now.replaced.len();
        let before = match now.open.is_empty() && now.replaced.is_empty() {
            true => self.keys.remove(&key),
            false => self.keys.insert(key, now),
        };
        let Some(before) = before else { return };
        self.open -= before.open.len();
        self.replaced -= before.replaced.len();
        for (_, order) in before.all() {
            if let Some(count) = self.receivers.get_mut(&order.owner) {
                *count -= 1;
                if *count == 0 {
                    self.receivers.remove(&order.owner);
                }
            }
        }
    }
}

impl OrdersOfKey {
    fn all(&self) -> impl Iterator<Item = (NodeId, Order)> {
        let replaced = self.replaced.iter().map(|known| (known.giver, known.order));
        self.open.iter().copied().chain(replaced)
    }
}

fn overlap(a: &Order, b: &Order) -> bool {
    a.key == b.key && a.from < b.to && b.from < a.to
}

/// True if whoever follows the first order does what the second one says, too.
fn contains(whole: &Order, part: &Order) -> bool {
    (whole.key, whole.owner) == (part.key, part.owner)
        && whole.from <= part.from
        && part.to <= whole.to
}

/// What an order says of elements that are not in these claims of its key.
fn without(known: &Replaced, owned: &[&Claim]) -> Vec<Replaced> {
    let mut parts = vec![known.order];
    for claim in owned {
        let outside = |order: Order| {
            let before = Order { to: order.to.min(claim.from), ..order };
            let behind = Order { from: order.from.max(claim.to), ..order };
            [before, behind].into_iter().filter(|part| part.from < part.to)
        };
        parts = parts.into_iter().flat_map(outside).collect();
    }
    parts.into_iter().map(|order| Replaced { order, ..*known }).collect()
}
