//! The scheduler's orders to move pieces: those that stand, and those that another one replaced or that were taken
//! back (`docs/elastic.md`, "A move" and "Death"). Pure books and words; what is moved where is said from outside
//! (the planner), or by `drain`.
//!
//! A server that gets an order, and then another one in its place, may have begun the first one before it got the
//! second. Until it says otherwise, the first one is evidence: if giver and receiver die, a copy of what the giver had
//! may be older than what the receiver answered. With each policy servers forget what they have not begun. So once a
//! server claims, knowing a policy that was made after the replacement, that it still owns what it was to give away, it
//! never gave it. What it does not own then may be where the order sent it, until somebody claims it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::claims::Piece;
use super::elastic::Books;
use super::journal::{Change, Ordered, Orders, Record};
use super::{Action, Cluster};
use crate::wire::NodeId;
use crate::wire::elastic::{Claim, Holding, Order, Word, WordKind};

/// With that many replaced orders since the last policy there is another one, with which servers forget them.
pub(super) const REPLACED_MAX: usize = 1024;

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

impl Books {
    /// All that may have been begun and is not known to be done: orders that stand, and others.
    pub(super) fn all_orders(&self) -> Vec<(NodeId, Order)> {
        let replaced = self.replaced.iter().map(|replaced| (replaced.giver, replaced.order));
        self.orders.iter().copied().chain(replaced).collect()
    }

    /// True if something was ordered to go to that server that may still come there.
    pub(super) fn may_get_something(&self, id: NodeId) -> bool {
        self.orders.iter().any(|(_, order)| order.owner == id)
            || self.replaced.iter().any(|replaced| replaced.order.owner == id)
    }

    /// The orders of a journal.
    pub(super) fn take_orders(&mut self, all: &[Ordered]) {
        let (open, replaced): (Vec<&Ordered>, Vec<&Ordered>) =
            all.iter().partition(|ordered| ordered.replaced == 0);
        self.orders = open.into_iter().map(|ordered| (ordered.owner, ordered.order)).collect();
        let replaced = replaced.into_iter().map(|&Ordered { owner, order, replaced }| Replaced {
            giver: owner,
            order,
            epoch: replaced,
        });
        self.replaced = replaced.collect();
    }

    /// Puts an order in the place of those about the same elements. One that names the giver itself is none.
    fn replace(&mut self, giver: NodeId, order: Order) {
        let (out, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.orders)
            .into_iter()
            .partition(|(_, earlier)| overlap(earlier, &order));
        self.orders = kept;
        for (from, earlier) in out {
            if !(from == giver && contains(&order, &earlier)) {
                self.keep_replaced(Replaced { giver: from, order: earlier, epoch: self.epoch });
            }
        }
        if order.owner != giver {
            self.orders.push((giver, order));
        }
    }

    fn keep_replaced(&mut self, new: Replaced) {
        // What was replaced before, and again now, needs to be known once.
        self.replaced
            .retain(|known| known.giver != new.giver || !contains(&new.order, &known.order));
        self.replaced.push(new);
    }
}

impl Cluster {
    /// Scheduler: true if orders are taken now: a policy is in force, and no other is being made.
    #[must_use]
    pub const fn may_order(&self) -> bool {
        let books = &self.elastic.books;
        self.elastic.on && self.ready && books.collection.is_none() && self.failure.is_none()
    }

    /// Scheduler: orders that stand, and of which it is not known that they were carried out; and who has them.
    #[must_use]
    pub fn open_orders(&self) -> &[(NodeId, Order)] {
        &self.elastic.books.orders
    }

    /// Scheduler: servers that pieces may be moved to: they live, and are not being emptied.
    #[must_use]
    pub fn able_servers(&self) -> Vec<NodeId> {
        let policy = &self.elastic.policy;
        let able = |id: &NodeId| {
            !self.is_gone(*id)
                && !policy.draining.contains(id)
                && !self.elastic.books.draining.contains(id)
                && !self.elastic.books.fixed.contains_key(id)
        };
        policy.servers.iter().copied().filter(able).collect()
    }

    /// Sends orders to the owners. Those that make no sense any more are left out.
    pub(super) fn order(
        &mut self,
        now: Duration,
        orders: &[(NodeId, Order)],
        out: &mut Vec<Action>,
    ) {
        if !self.is_scheduler() || !self.may_order() {
            return;
        }
        let able = self.able_servers();
        let sound = |(owner, order): &&(NodeId, Order)| {
            let known = self.elastic.books.pieces.get(&order.key);
            self.elastic.policy.servers.contains(owner)
                && !self.is_gone(*owner)
                && (able.contains(&order.owner) || order.owner == *owner)
                && order.from < order.to
                && known.is_some_and(|key| order.to <= key.length)
        };
        let orders: Vec<(NodeId, Order)> = orders.iter().filter(sound).copied().collect();
        self.send_orders(&orders, out);
        self.go_on(now, out);
    }

    pub(super) fn send_orders(&mut self, orders: &[(NodeId, Order)], out: &mut Vec<Action>) {
        if orders.is_empty() {
            return;
        }
        let books = &mut self.elastic.books;
        let before = (books.orders.clone(), books.replaced.clone());
        for (owner, order) in orders {
            books.replace(*owner, *order);
        }
        if (&books.orders, &books.replaced) != (&before.0, &before.1) {
            self.record_orders(out);
        }
        let mut by_owner: BTreeMap<NodeId, Vec<Order>> = BTreeMap::new();
        for (owner, order) in orders {
            by_owner.entry(*owner).or_default().push(*order);
        }
        let epoch = self.elastic.policy.epoch;
        for (owner, moves) in by_owner {
            let kind = WordKind::Orders as i32;
            self.word(owner, Word { kind, epoch, moves, ..Word::default() }, out);
        }
    }

    /// The orders that a server has and has not carried out, once more.
    pub(super) fn repeat_orders(&mut self, to: NodeId, out: &mut Vec<Action>) {
        let of = |(owner, _): &&(NodeId, Order)| *owner == to;
        let moves: Vec<Order> =
            self.elastic.books.orders.iter().filter(of).map(|(_, order)| *order).collect();
        if !moves.is_empty() {
            let (kind, epoch) = (WordKind::Orders as i32, self.elastic.policy.epoch);
            self.word(to, Word { kind, epoch, moves, ..Word::default() }, out);
        }
    }

    fn record_orders(&self, out: &mut Vec<Action>) {
        let books = &self.elastic.books;
        let open = books.orders.iter().map(|(owner, order)| (*owner, *order, 0));
        let replaced = books.replaced.iter().map(|known| (known.giver, known.order, known.epoch));
        let all = open.chain(replaced);
        let orders = all.map(|(owner, order, replaced)| Ordered { owner, order, replaced });
        let orders = Orders { orders: orders.collect() };
        out.push(Action::Record(Record::new(Change::Orders(orders))));
    }

    /// An order is done once its server has nothing more of what it was to give away.
    pub(super) fn forget_done_orders(&mut self, out: &mut Vec<Action>) {
        let gone: Vec<NodeId> = self.lost.keys().copied().collect();
        let books = &mut self.elastic.books;
        let before = books.orders.len() + books.replaced.len();
        let pieces = &books.pieces;
        let may_be_open = |owner: NodeId, order: &Order| {
            let has = |piece: &Piece| {
                piece.owner == owner && piece.from < order.to && order.from < piece.to
            };
            let open = pieces.get(&order.key).is_some_and(|key| key.pieces.iter().any(has));
            open && !gone.contains(&owner) && !gone.contains(&order.owner)
        };
        books.orders.retain(|(owner, order)| may_be_open(*owner, order));
        books.replaced.retain(|known| may_be_open(known.giver, &known.order));
        if books.orders.len() + books.replaced.len() != before {
            self.record_orders(out);
        }
    }

    /// A server says what it holds. If it knows the policy in force, it has none of the orders any more that were
    /// replaced before that was made: what it still owns it has not given away. (What it says while a policy is being
    /// made bears the epoch of that, which it does not know yet.)
    pub(super) fn forget_not_begun(&mut self, from: NodeId, epoch: u64, out: &mut Vec<Action>) {
        let books = &mut self.elastic.books;
        let forgotten = |known: &Replaced| known.giver == from && known.epoch < epoch;
        if epoch != self.elastic.policy.epoch || !books.replaced.iter().any(forgotten) {
            return;
        }
        let before = books.replaced.clone();
        let said_later = books.collection.as_ref().and_then(|all| all.later.get(&from));
        let claims = said_later.or_else(|| books.claims.get(&from));
        let owned: Vec<&Claim> = claims
            .into_iter()
            .flatten()
            .filter(|claim| claim.holding == Holding::Owner as i32)
            .collect();
        books.replaced = before
            .iter()
            .flat_map(|known| if forgotten(known) { without(known, &owned) } else { vec![*known] })
            .collect();
        if books.replaced != before {
            self.record_orders(out);
        }
    }

    /// Scheduler: true if there should be a policy, so that servers forget what they have not begun of so many orders.
    pub(super) fn has_many_replaced_orders(&self) -> bool {
        let since = self.elastic.policy.epoch;
        let new = self.elastic.books.replaced.iter().filter(|known| known.epoch >= since);
        new.count() > REPLACED_MAX
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

/// What an order says of elements that are not in these claims.
fn without(known: &Replaced, owned: &[&Claim]) -> Vec<Replaced> {
    let mut parts = vec![known.order];
    for claim in owned.iter().filter(|claim| claim.key == known.order.key) {
        let outside = |order: Order| {
            let before = Order { to: order.to.min(claim.from), ..order };
            let behind = Order { from: order.from.max(claim.to), ..order };
            [before, behind].into_iter().filter(|part| part.from < part.to)
        };
        parts = parts.into_iter().flat_map(outside).collect();
    }
    parts.into_iter().map(|order| Replaced { order, ..*known }).collect()
}
