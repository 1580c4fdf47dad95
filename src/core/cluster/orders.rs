//! The scheduler's orders to move pieces: those that stand, and those that another one replaced or
//! that were taken back (`docs/elastic.md`, "A move" and "Death"). Pure books and words; what is
//! moved where is said from outside (the planner), or by `drain`.
//!
//! A server that gets an order, and then another one in its place, may have begun the first one
//! before it got the second. Until it says otherwise, the first one is evidence: if giver and
//! receiver die, a copy of what the giver had may be older than what the receiver answered. With
//! each policy servers forget what they have not begun. So once a server claims, knowing a policy
//! that was made after the replacement, that it still owns what it was to give away, it never gave
//! it. What it does not own then may be where the order sent it, until somebody claims it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::claims::Piece;
use super::journal::{Change, OrdersOf, Record};
use super::{Action, Cluster};
use crate::wire::elastic::Order;
use crate::wire::word::Word;
use crate::wire::{Key, Node, NodeId, Role};

/// With that many replaced orders since the last policy there is another one, with which servers
/// forget them.
pub(super) const REPLACED_MAX: usize = 1024;

/// Bytes of a piece about which workers are told when it has moved. To push less than that in vain
/// costs little, and a word about very many keys would be long.
const ROUTE_BYTES_MIN: u64 = 16 * 1024;

/// The most routes in one such word. Workers learn of all others by their next requests.
const ROUTES_MAX: usize = 4096;

impl Cluster {
    /// Scheduler: true if orders are taken now: a policy is in force, and no other is being made.
    #[must_use]
    pub const fn may_order(&self) -> bool {
        let books = &self.elastic.books;
        self.elastic.on && self.ready && books.collection.is_none() && self.failure.is_none()
    }

    /// Scheduler: true if orders stand of which it is not known that they were carried out.
    #[must_use]
    pub const fn has_open_orders(&self) -> bool {
        !self.elastic.books.orders.none_open()
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
        let books = &mut self.elastic.books;
        let mut changed = BTreeSet::new();
        let mut by_owner: BTreeMap<NodeId, Vec<Order>> = BTreeMap::new();
        for (owner, order) in orders {
            if books.orders.replace(*owner, *order, books.epoch) {
                changed.insert(order.key);
            }
            by_owner.entry(*owner).or_default().push(*order);
        }
        self.record_orders(&changed, out);
        let epoch = self.elastic.policy.epoch;
        for (owner, moves) in by_owner {
            self.word(owner, Word::Orders { epoch, moves }, out);
        }
    }

    /// The orders that a server has and has not carried out, once more.
    pub(super) fn repeat_orders(&mut self, to: NodeId, out: &mut Vec<Action>) {
        let of = |(owner, _): &&(NodeId, Order)| *owner == to;
        let moves: Vec<Order> =
            self.elastic.books.orders.open().filter(of).map(|(_, order)| *order).collect();
        if !moves.is_empty() {
            self.word(to, Word::Orders { epoch: self.elastic.policy.epoch, moves }, out);
        }
    }

    fn record_orders(&self, keys: &BTreeSet<Key>, out: &mut Vec<Action>) {
        if !keys.is_empty() {
            let keys = self.elastic.books.orders.for_journal(keys);
            out.push(Action::Record(Record::new(Change::OrdersOf(OrdersOf { keys }))));
        }
    }

    /// An order is done once its server has nothing more of what it was to give away. Looks at
    /// those about some keys; about all, if none are named. Returns the orders that are done.
    pub(super) fn forget_done_orders(
        &mut self,
        keys: Option<&BTreeSet<Key>>,
        out: &mut Vec<Action>,
    ) -> Vec<Order> {
        let books = &mut self.elastic.books;
        let (lost, pieces) = (&self.lost, &books.pieces);
        let may_be_open = |owner: NodeId, order: &Order| {
            let has = |piece: &Piece| {
                piece.owner == owner && piece.from < order.to && order.from < piece.to
            };
            let open = pieces.get(&order.key).is_some_and(|key| key.pieces.iter().any(has));
            open && !lost.contains_key(&owner) && !lost.contains_key(&order.owner)
        };
        let all = if keys.is_none() { books.orders.keys() } else { BTreeSet::new() };
        let keys = keys.unwrap_or(&all).iter().copied();
        let orders = &mut books.orders;
        let (mut changed, mut done) = (BTreeSet::new(), Vec::new());
        for key in keys {
            if let Some(forgotten) = orders.retain(key, may_be_open) {
                changed.insert(key);
                done.extend(forgotten);
            }
        }
        self.record_orders(&changed, out);
        done
    }

    /// Tells the workers where pieces are whose orders are done. A worker that does not know it
    /// pushes to the former owner first, and again to the new one. So in the first round after a
    /// plan, all that has moved crosses the card of the former owner once more, for each worker.
    ///
    /// Small pieces are left out. The word goes out all the same, since workers do not report the
    /// round in which pieces moved.
    pub(super) fn tell_routes(&mut self, done: &[Order], out: &mut Vec<Action>) {
        if done.is_empty() {
            return;
        }
        let pieces = &self.elastic.books.pieces;
        let mut routes = Vec::new();
        for order in done {
            let of_key = pieces.get(&order.key).map_or(&[][..], |key| &key.pieces);
            let moved = of_key.iter().filter(|piece| {
                piece.owner == order.owner
                    && order.from < piece.to
                    && piece.from < order.to
                    && piece.bytes >= ROUTE_BYTES_MIN
            });
            routes.extend(moved.map(Piece::route));
        }
        routes.truncate(ROUTES_MAX);
        let word = Word::Routes { epoch: self.elastic.policy.epoch, routes };
        let lives = |node: &&Node| node.role == Role::Worker && !self.is_gone(node.id);
        let workers: Vec<NodeId> =
            self.members.values().filter(lives).map(|node| node.id).collect();
        for worker in workers {
            self.word(worker, word.clone(), out);
        }
    }

    /// A server says what it holds. If it knows the policy in force, it has none of the orders any
    /// more that were replaced before that was made: what it still owns it has not given away.
    /// (What it says while a policy is being made bears the epoch of that, which it does not know
    /// yet.)
    pub(super) fn forget_not_begun(&mut self, from: NodeId, epoch: u64, out: &mut Vec<Action>) {
        let books = &mut self.elastic.books;
        if epoch != self.elastic.policy.epoch || books.orders.replaced() == 0 {
            return;
        }
        let said_later = books.collection.as_ref().and_then(|all| all.later.get(&from));
        let claims = said_later.or_else(|| books.claims.by_server().get(&from));
        let of_key = |key| claims.map_or(&[][..], |claims| claims.of_key(key));
        let changed = books.orders.forget_not_begun(from, epoch, of_key);
        self.record_orders(&changed, out);
    }

    /// Scheduler: true if there should be a policy, so that servers forget what they have not begun
    /// of so many orders.
    pub(super) fn has_many_replaced_orders(&self) -> bool {
        let orders = &self.elastic.books.orders;
        orders.replaced() > REPLACED_MAX
            && orders.replaced_since(self.elastic.policy.epoch) > REPLACED_MAX
    }
}
