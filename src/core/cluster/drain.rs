//! Servers that are to be emptied (`docs/elastic.md`, "Joining and leaving"). What is best moved
//! where is the planner's business, which gives its orders from outside (`orders`); only without
//! one the pieces of a drained server are spread here, evenly by their bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::claimed::Claimed;
use super::claims::Piece;
use super::journal::{Change, Record};
use super::{Action, Cluster};
use crate::chronicle::{JobEventKind, NewEvent};
use crate::wire::elastic::Order;
use crate::wire::word::Word;
use crate::wire::{Key, NodeId, Role, id_to_rank};

impl Cluster {
    // ---- emptying a server ----------------------------------------------------------------------

    /// Scheduler: that server is to be emptied. What stands against it, if something does.
    pub(super) fn drain(
        &mut self,
        now: Duration,
        id: NodeId,
        out: &mut Vec<Action>,
    ) -> Result<String, String> {
        if !self.elastic.on || !self.ready {
            return Err(self.why_not_elastic());
        }
        let who = self.describe(id);
        let books = &self.elastic.books;
        if self.node(id).is_none_or(|node| node.role != Role::Server) {
            return Err(format!("there is no server {} (id {id}) in this job", id_to_rank(id)));
        }
        if self.is_gone(id) {
            return Err(format!("{who} is not in the job any more"));
        }
        if books.draining.contains(&id) {
            return Ok(format!("{who} is being emptied already"));
        }
        if let Some(why) = books.fixed.get(&id) {
            return Err(format!("{who} cannot be emptied: what it keeps does not move ({why})"));
        }
        if !books.claimed.contains(&id) {
            return Err(format!("{who} cannot be emptied: it has not said what it holds"));
        }
        if self.able_servers().iter().all(|able| *able == id) {
            return Err(format!("{who} cannot be emptied: there is no other server"));
        }
        let text = format!("{who} is to be emptied");
        Self::say(out, NewEvent::info(JobEventKind::Node, text).of(id));
        self.elastic.books.draining.insert(id);
        out.push(Action::Record(Record::new(Change::Draining(id))));
        self.take_back_orders_to(id, out);
        self.collect_soon(now, out);
        Ok(format!("{who} is being emptied"))
    }

    /// Nothing more is to come to that server. What is on its way will be ordered away from there.
    fn take_back_orders_to(&mut self, id: NodeId, out: &mut Vec<Action>) {
        let to = |(_, order): &&(NodeId, Order)| order.owner == id;
        let back = |(owner, order): &(NodeId, Order)| (*owner, Order { owner: *owner, ..*order });
        let orders: Vec<(NodeId, Order)> =
            self.elastic.books.orders.open().filter(to).map(back).collect();
        self.send_orders(&orders, out);
    }

    /// Why this job is not elastic, for people.
    pub(super) fn why_not_elastic(&self) -> String {
        if !self.ready {
            return "the job is not complete yet".to_owned();
        }
        let not = self.members.values().find(|node| !node.is_elastic());
        let who = not.map_or_else(|| "a node".to_owned(), |node| node.describe());
        format!("servers of this job cannot come and go: {who} does not follow keys that move")
    }

    /// True if, as these claims say, nothing is on that server or on its way there.
    pub(super) fn is_empty(&self, id: NodeId, claims: &BTreeMap<NodeId, Claimed>) -> bool {
        claims.get(&id).is_some_and(Claimed::is_empty)
            && !claims.values().any(|claimed| claimed.gives_to(id))
            && !self.elastic.books.orders.may_give_to(id)
    }

    /// Servers that may go: the policy in force says that they are being emptied, and nothing is
    /// there.
    pub(super) fn empty_servers(&self) -> Vec<NodeId> {
        let books = &self.elastic.books;
        let draining = self.elastic.policy.draining.iter().copied();
        draining
            .filter(|id| {
                books.draining.contains(id) && self.is_empty(*id, books.claims.by_server())
            })
            .collect()
    }

    /// Tells a server that it is empty and may go.
    pub(super) fn let_go(&mut self, id: NodeId, out: &mut Vec<Action>) {
        self.word(id, Word::Leave { epoch: self.elastic.policy.epoch }, out);
    }

    /// Where nobody plans: orders away what servers that are being emptied still own.
    pub(super) fn empty_drained(&mut self, out: &mut Vec<Action>) {
        if self.config.planned || self.elastic.books.draining.is_empty() || !self.may_order() {
            return;
        }
        let targets = self.able_servers();
        let books = &self.elastic.books;
        let goes = |piece: &&Piece| {
            books.draining.contains(&piece.owner)
                && piece.leaving_to.is_none()
                && !books.orders.open_of(piece.key).iter().any(|(owner, order)| {
                    *owner == piece.owner && order.from <= piece.from && piece.to <= order.to
                })
        };
        // What they own they claim, or claimed as a copy before it became theirs.
        let claimed = books.draining.iter().filter_map(|id| books.claims.by_server().get(id));
        let keys: BTreeSet<Key> = claimed.flat_map(Claimed::iter).map(|claim| claim.key).collect();
        let theirs = keys.iter().filter_map(|key| books.pieces.get(key));
        let moving: Vec<Piece> = theirs.flat_map(|key| &key.pieces).filter(goes).copied().collect();
        if moving.is_empty() {
            return;
        }
        let mut loads: BTreeMap<NodeId, u64> = targets.iter().map(|id| (*id, 0)).collect();
        for piece in books.pieces.values().flat_map(|key| &key.pieces) {
            if let Some(load) = loads.get_mut(&piece.leaving_to.unwrap_or(piece.owner)) {
                *load = load.saturating_add(piece.weight());
            }
        }
        let orders = spread(&moving, loads);
        self.send_orders(&orders, out);
    }
}

/// Spreads pieces over servers so that these come to own about as many bytes each: the heaviest
/// piece first, each to the one that has least. A piece that is more than a fair part of all is
/// cut.
#[must_use]
pub(super) fn spread(pieces: &[Piece], mut loads: BTreeMap<NodeId, u64>) -> Vec<(NodeId, Order)> {
    if loads.is_empty() {
        return Vec::new();
    }
    let parts = loads.len() as u64;
    let total: u64 = pieces.iter().map(Piece::weight).fold(0, u64::saturating_add);
    let fair = total.div_ceil(parts);
    let mut cut: Vec<Piece> = pieces.iter().flat_map(|piece| cut_to(piece, fair, parts)).collect();
    cut.sort_by_key(|piece| (std::cmp::Reverse(piece.weight()), piece.key, piece.from));
    let mut orders: Vec<(NodeId, Order)> = Vec::new();
    for piece in cut {
        let Some((to, load)) = loads.iter_mut().min_by_key(|(id, load)| (**load, **id)) else {
            break;
        };
        *load = load.saturating_add(piece.weight());
        let order = Order { key: piece.key, from: piece.from, to: piece.to, owner: *to };
        orders.push((piece.owner, order));
    }
    orders.sort_by_key(|(owner, order)| (*owner, order.key, order.from));
    orders
}

/// Cuts a piece into at most `parts`, none of which is much more than `fair` bytes, where it may be
/// cut.
fn cut_to(piece: &Piece, fair: u64, parts: u64) -> Vec<Piece> {
    let wanted = piece.weight().div_ceil(fair.max(1)).clamp(1, parts);
    let length = piece.to - piece.from;
    if wanted == 1 || piece.align == 0 || length <= piece.align {
        return vec![*piece];
    }
    let step = length.div_ceil(wanted).next_multiple_of(piece.align);
    let mut all = Vec::new();
    let mut from = piece.from;
    while from < piece.to {
        // Cuts lie at multiples of the alignment, counted from the key's begin.
        let to = (from + step) / piece.align * piece.align;
        let to = if to <= from { piece.to } else { to.min(piece.to) };
        let part =
            |bytes: u64| (u128::from(bytes) * u128::from(to - from) / u128::from(length)) as u64;
        let (bytes, state_bytes) = (part(piece.bytes), part(piece.state_bytes));
        all.push(Piece { from, to, bytes, state_bytes, ..*piece });
        from = to;
    }
    all
}
