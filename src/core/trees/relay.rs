//! What a worker does with what goes through it: sums what its children send with its own push, and
//! passes values on. Pure.
//!
//! Compressed pushes are not summed on the way: two of them have no compressed sum. Each goes up as
//! it is, and the relay notes its name, so that it knows who is still missing in a sum of others.
//!
//! A relay keeps one open sum for each part, that of the part's newest ticket, and its worker's own
//! push until that is answered: both are at most as large as a model. What it has sent it forgets.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use pslite_elements::precision;
use smallvec::SmallVec;

use super::names::{is_of, name_of};
use super::{Found, Table, Trees};
use crate::values::kind::{RequestKind, kind_of};
use crate::values::sum::{Addend, Sum, SumError};
use crate::values::{Buffer, Dtype, KeyPart, KvPairs, key_at};
use crate::wire::elastic::{PartAsk, PartReply};
use crate::wire::trees::{Hop, HopKind, Overlay, PushName, Ticket};
use crate::wire::{Meta, NodeId, Payload};

/// Messages that wait for their overlay; of more the oldest are forgotten, and their workers ask
/// once that overlay is below the floor. Honest nodes send fewer: each child has one round of a
/// part under way.
const EARLY_MAX: usize = 1 << 18;

/// Why pushes cannot be summed.
const UNLIKE: &str = "they have different types or lengths";

/// What a relay does next, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// It sends a message.
    Send(Meta, KvPairs),
    /// Its own worker's request is answered: metadata as if they had come from `recver`.
    Answer(Meta, KvPairs),
    /// A ticket means nothing any more: a push of its worker that has not begun does not go by it.
    Void(KeyPart, Void),
}

/// A ticket that is void, and the one in its place, if the owner gave out one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Void {
    /// The one that is void.
    pub ticket: Ticket,
    /// The one in its place.
    pub next: Option<Ticket>,
}

impl Void {
    /// None is in its place.
    #[must_use]
    pub const fn of(ticket: Ticket) -> Self {
        Self { ticket, next: None }
    }
}

/// A sum that lacks somebody.
#[derive(Debug)]
pub(super) struct OpenSum {
    pub(super) ticket: Ticket,
    /// The pushes in it.
    pub(super) names: Vec<PushName>,
    /// Whose pushes have come: those in the sum, and those that went on as they were.
    pub(super) workers: BTreeSet<NodeId>,
    sum: Sum<SumError>,
    part: KeyPart,
    /// What the message upwards says, but for the names: as the first push in it.
    meta: Meta,
    keys: Bytes,
}

/// A push of the worker itself that awaits its answer.
#[derive(Clone, Debug)]
pub(super) struct OwnPush {
    pub(super) ticket: Ticket,
    request: Meta,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Relay {
    pub(super) me: NodeId,
    pub(super) trees: Arc<Trees>,
    pub(super) sums: BTreeMap<KeyPart, OpenSum>,
    pub(super) own: BTreeMap<KeyPart, OwnPush>,
    pub(super) early: VecDeque<(Meta, KvPairs)>,
    /// Sums are made in the order of children, not of arrival.
    keeps_order: bool,
}

impl Relay {
    /// That of a worker, which knows no tree yet.
    #[must_use]
    pub fn new(me: NodeId) -> Self {
        Self { me, ..Self::default() }
    }

    /// It sums in the order of children from now on, so that sums repeat bit for bit. It keeps all
    /// of a sum's addends until it is whole.
    pub const fn keep_order(&mut self) {
        self.keeps_order = true;
    }

    /// The trees that it knows.
    #[must_use]
    pub const fn trees(&self) -> &Arc<Trees> {
        &self.trees
    }

    /// An overlay came. What went by one below the floor is forgotten: whoever waits for it asks.
    /// False if it was known, or is too old.
    pub fn overlay(&mut self, overlay: &Overlay, out: &mut Vec<Step>) -> bool {
        if !Arc::make_mut(&mut self.trees).learn(overlay) {
            return false;
        }
        let floor = self.trees.floor();
        self.sums.retain(|_, open| open.ticket.overlay >= floor);
        self.own.retain(|_, own| own.ticket.overlay >= floor);
        for (meta, kv) in std::mem::take(&mut self.early) {
            self.came(meta, kv, out);
        }
        true
    }

    /// A push of this worker goes by the ticket that it names.
    pub fn push(&mut self, request: Meta, kv: KvPairs, out: &mut Vec<Step>) {
        let Some((ticket, part)) = own_part(&request, &kv) else { return };
        let name = name_of(&request);
        self.add(part, ticket, vec![name], &request, kv, out);
        self.own.insert(part, OwnPush { ticket, request });
    }

    /// A message of another node of the tree.
    pub fn came(&mut self, meta: Meta, kv: KvPairs, out: &mut Vec<Step>) {
        let (Some(hop), Some(span)) = (meta.hop(), meta.span()) else { return };
        let part = KeyPart { key: hop.key, from: span.start, to: span.end };
        let ticket = hop.ticket;
        let trees = Arc::clone(&self.trees);
        let table = match trees.find(&ticket) {
            Found::Here(table) => table,
            Found::Gone | Found::Strange => return,
            Found::NotYet => {
                if self.early.len() >= EARLY_MAX {
                    self.early.pop_front();
                }
                return self.early.push_back((meta, kv));
            }
        };
        match (&meta.payload, hop.kind()) {
            (Payload::Up(_, hop), HopKind::Up) => {
                let names = hop.names.clone();
                self.add(part, ticket, names, &meta, kv, out);
            }
            (Payload::Down(told, _), kind @ (HopKind::Down | HopKind::Void)) => {
                // First to the others: they may have others behind them.
                out.extend(pass_on(table, self.me, &meta, &kv));
                if kind == HopKind::Void {
                    let next = told.ticket.as_deref().copied();
                    self.void(part, Void { ticket, next }, out);
                }
                self.answer(part, &meta, kv, out);
            }
            _ => {}
        }
    }

    /// Adds to the sum of a part, and sends that if it lacks nobody any more.
    fn add(
        &mut self,
        part: KeyPart,
        ticket: Ticket,
        names: Vec<PushName>,
        meta: &Meta,
        kv: KvPairs,
        out: &mut Vec<Step>,
    ) {
        let trees = Arc::clone(&self.trees);
        let Some(table) = trees.get(&ticket) else { return };
        let Some(parent) = table.parent(self.me) else { return };
        if let Some(open) = self.sums.get(&part) {
            if ticket.is_before(&open.ticket) {
                return;
            }
            if open.ticket != ticket {
                // Nobody pushes to a round before the one that has begun.
                self.sums.remove(&part);
            }
        }
        let open = self.sums.entry(part).or_insert_with(|| OpenSum::new(ticket, part));
        // What is in a sum cannot be taken out of it again.
        let mut workers: BTreeSet<NodeId> = names.iter().map(|name| name.worker).collect();
        let is_known = |worker: &NodeId| open.workers.contains(worker);
        let goes_elsewhere = |worker: &NodeId| !table.goes_through(*worker, self.me);
        if workers.is_empty()
            || workers.len() < names.len()
            || workers.iter().any(|worker| is_known(worker) || goes_elsewhere(worker))
        {
            return;
        }
        open.workers.append(&mut workers);
        let me = self.me;
        if is_compressed(meta) {
            let meta = upwards(part, ticket, meta);
            out.push(Step::Send(Meta { sender: me, ..to_parent(meta, names, parent) }, kv));
        } else {
            open.add(names, meta, kv, self.keeps_order);
        }
        if open.workers.len() == table.through(me)
            && let Some(open) = self.sums.remove(&part)
            && !open.names.is_empty()
        {
            let (meta, kv) = open.send(parent);
            out.push(Step::Send(Meta { sender: me, ..meta }, kv));
        }
    }

    /// Nothing goes by a ticket any more.
    fn void(&mut self, part: KeyPart, void: Void, out: &mut Vec<Step>) {
        if self.sums.get(&part).is_some_and(|open| open.ticket == void.ticket) {
            self.sums.remove(&part);
        }
        out.push(Step::Void(part, void));
    }

    /// What came down answers the own push, if it is about that.
    fn answer(&mut self, part: KeyPart, meta: &Meta, kv: KvPairs, out: &mut Vec<Step>) {
        let Payload::Down(told, hop) = &meta.payload else { return };
        let is_void = hop.kind() == HopKind::Void;
        let Some(own) = self.own.get(&part).filter(|own| own.ticket == hop.ticket) else { return };
        let named = hop.names.iter().find(|name| is_of(name, &own.request));
        if !is_void && named.is_none() {
            return;
        }
        let wants = named.is_some_and(|name| name.wants);
        let Some(OwnPush { request, .. }) = self.own.remove(&part) else { return };
        let PartReply { slice, from, to, term, life, .. } = request.answered().unwrap_or_default();
        let reply = PartReply { slice, from, to, term, life, ..told.clone() };
        let answer = Meta {
            request: false,
            sender: self.me,
            recver: self.me,
            error: meta.error.clone(),
            payload: Payload::Reply(reply),
            ..request
        };
        let kv = if wants { kv } else { KvPairs::default() };
        out.push(Step::Answer(answer, kv));
    }
}

impl OpenSum {
    fn new(ticket: Ticket, part: KeyPart) -> Self {
        let (names, workers) = (Vec::new(), BTreeSet::new());
        let (meta, keys) = (Meta::default(), Bytes::new());
        Self { ticket, names, workers, sum: Sum::Nothing, part, meta, keys }
    }

    /// The type of a push's elements, and the one in which they are summed.
    fn dtypes(&self) -> (Dtype, Dtype) {
        let pushed = kind_of(self.meta.head).map_or(Dtype::F32, |(_, dtype)| dtype);
        (pushed, if pushed == Dtype::F16 { Dtype::F32 } else { pushed })
    }

    fn add(&mut self, names: Vec<PushName>, meta: &Meta, kv: KvPairs, keeps_order: bool) {
        if self.names.is_empty() {
            (self.meta, self.keys) = (upwards(self.part, self.ticket, meta), kv.keys);
        }
        let (pushed, summed) = self.dtypes();
        // Of a child's sum its lowest worker: no other child's sum has that.
        let worker = names.iter().map(|name| name.worker).min().unwrap_or(0);
        let told = meta.ask();
        if let (Some(ask), Some(told)) = (self.meta.ask_mut(), told) {
            ask.epoch = ask.epoch.max(told.epoch);
            ask.overlay = ask.overlay.max(told.overlay);
        }
        self.names.extend(names);
        if self.meta.error.is_empty() {
            let fits = meta.error.is_empty() && meta.head == self.meta.head;
            let addend = Addend::Dense(kv.vals);
            let addend = if pushed == summed { addend } else { addend.into_f32(pushed) };
            let like = Buffer::default();
            let added = self.sum.add(worker, addend, summed, keeps_order, &like);
            match added {
                Ok(()) if fits => {}
                _ if !meta.error.is_empty() => self.meta.error.clone_from(&meta.error),
                _ => UNLIKE.clone_into(&mut self.meta.error),
            }
        }
    }

    /// As it goes up.
    fn send(mut self, parent: NodeId) -> (Meta, KvPairs) {
        let (pushed, summed) = self.dtypes();
        let shared = std::mem::take(&mut self.sum).share(summed, None);
        let vals = match shared {
            Ok((_, _, vals)) if self.meta.error.is_empty() => vals,
            Ok(_) => Bytes::new(),
            Err(_) => {
                if self.meta.error.is_empty() {
                    UNLIKE.clone_into(&mut self.meta.error);
                }
                Bytes::new()
            }
        };
        let vals = if pushed == summed || vals.is_empty() {
            vals
        } else {
            let mut narrow = Buffer::zeroed(vals.len() / summed.size() * pushed.size());
            precision::from_f32(&Buffer::copy_of(&vals), pushed, &mut narrow);
            narrow.into_bytes()
        };
        let Self { mut names, meta, keys, .. } = self;
        names.sort_unstable_by_key(|name| (name.worker, name.customer));
        let lens = Bytes::copy_from_slice(&(vals.len() as i32).to_ne_bytes());
        (to_parent(meta, names, parent), KvPairs { keys, vals, lens })
    }
}

/// What a message upwards says, but for the names: that of a sum whose first push is `first`, or of
/// a push that goes on as it is.
fn upwards(part: KeyPart, ticket: Ticket, first: &Meta) -> Meta {
    let KeyPart { key, from, to } = part;
    let told = first.ask();
    let told = |of: fn(&PartAsk) -> u64| told.map_or(0, of);
    let (term, epoch, overlay) = (told(|it| it.term), told(|it| it.epoch), told(|it| it.overlay));
    let hop = Hop { kind: HopKind::Up.into(), ticket, key, ..Hop::default() };
    let ask = PartAsk { from, to, term, epoch, overlay, ..PartAsk::default() };
    Meta {
        head: first.head,
        app_id: first.app_id,
        customer_id: first.customer_id,
        priority: first.priority,
        request: true,
        push: true,
        payload: Payload::Up(ask, Box::new(hop)),
        ..Meta::default()
    }
}

/// Adds the names and the receiver to such a message.
fn to_parent(mut meta: Meta, names: Vec<PushName>, parent: NodeId) -> Meta {
    if let Some(ask) = meta.ask_mut() {
        ask.ahead = names.iter().any(|name| name.wants);
    }
    if let Some(hop) = meta.hop_mut() {
        hop.names = names;
    }
    Meta { recver: parent, ..meta }
}

/// True of a push that is not summed on the way.
fn is_compressed(push: &Meta) -> bool {
    matches!(kind_of(push.head), Ok((RequestKind::Compressed, _)))
}

/// The part that a worker's push is about, and its ticket.
fn own_part(request: &Meta, kv: &KvPairs) -> Option<(Ticket, KeyPart)> {
    let ask = request.ask()?;
    // Of a compressed push the first key says how many elements there are.
    let key = key_at(&kv.keys, usize::from(is_compressed(request)))?;
    let part = KeyPart { key, from: ask.from, to: ask.to };
    Some((*ask.ticket.clone()?, part))
}

/// What a node sends to its children of what comes down. `kv`: its keys always, and the values of
/// the round, if somebody wants them.
fn pass_on(table: &Table, me: NodeId, meta: &Meta, kv: &KvPairs) -> Vec<Step> {
    let Payload::Down(told, hop) = &meta.payload else { return Vec::new() };
    let is_void = hop.kind() == HopKind::Void;
    let mut sent = Vec::new();
    for child in table.children(me) {
        let behind =
            |name: &&PushName| table.child_towards(me, name.worker).as_ref() == Some(child);
        let names: Vec<PushName> = hop.names.iter().filter(behind).copied().collect();
        if names.is_empty() && !is_void {
            continue;
        }
        let wants = names.iter().any(|name| name.wants);
        let kv = if wants {
            kv.clone()
        } else {
            KvPairs { keys: kv.keys.clone(), ..KvPairs::default() }
        };
        let hop = Hop { names, ..**hop };
        let payload = Payload::Down(told.clone(), Box::new(hop));
        let (sender, recver, data_type) = (me, *child, SmallVec::new());
        sent.push(Step::Send(Meta { sender, recver, payload, data_type, ..meta.clone() }, kv));
    }
    sent
}

/// What an owner sends down of an answer to a sum. `answered`: the sum's metadata, with what the
/// store says: an error, the routes, the next ticket; *again* if the ticket is void.
#[must_use]
pub fn down_from_root(
    trees: &Trees,
    root: NodeId,
    answered: &Meta,
    kv: &KvPairs,
) -> Vec<(Meta, KvPairs)> {
    let (Some(hop), Some(told)) = (answered.hop(), answered.answered()) else { return Vec::new() };
    let Some(table) = trees.get(&hop.ticket) else { return Vec::new() };
    let kind = if told.again { HopKind::Void } else { HopKind::Down };
    let names = if told.again { Vec::new() } else { hop.names.clone() };
    let keys = Bytes::copy_from_slice(&hop.key.to_ne_bytes());
    let hop = Hop { kind: kind.into(), names, ..*hop };
    let payload = Payload::Down(told, Box::new(hop));
    let meta = Meta { request: false, payload, ..answered.clone() };
    let kv = KvPairs { keys, vals: kv.vals.clone(), lens: kv.lens.clone() };
    let down = pass_on(table, root, &meta, &kv).into_iter();
    let sent = down.filter_map(|step| match step {
        Step::Send(meta, kv) => Some((meta, kv)),
        Step::Answer(..) | Step::Void(..) => None,
    });
    sent.collect()
}
