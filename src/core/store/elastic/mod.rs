//! Pieces that move: the server's side of docs/elastic.md. Only a job whose nodes all follow pieces
//! has it (`StoreConfig::elastic`); in any other one nothing here is called.
//!
//! Pure like all of the store. It is given requests, transfers of other servers and words of the
//! scheduler, and answers with an [`Outbound`]: answers to workers, transfers to other servers. Its
//! owner promises:
//!
//! - messages of one server to another arrive once and in order; between different pairs any order
//!   will do;
//! - after [`Store::collect`] it gives nothing of a lost server any more (the store ignores it all
//!   the same);
//! - answers and transfers of one call leave in the order in which they stand there.
//!
//! What its owner calls:
//!
//! | call | when |
//! |---|---|
//! | [`Store::serve`] | a push or pull came, with `meta.placed` |
//! | [`Store::obey`] | a command came; tells if the answer is due now or comes in an `Outbound` |
//! | [`Store::transfer`] | another server sent a transfer; an error ends the job |
//! | [`Store::orders`] | the scheduler orders moves |
//! | [`Store::collect`] | the scheduler's word `Collect`; what it returns goes back as `Claims` |
//! | [`Store::policy`] | the scheduler's word `Policy` |
//! | [`Store::news`] | to report to the scheduler, when there are [`Store::changes`] |
//! | [`Store::forget_node`] | a worker is gone, or another process has its id |
//! | [`Store::customer_left`] | a worker's customer sends no more |
//! | [`Store::overlay`] | the scheduler's word `Overlay` |
//!
//! `requests` has which piece a request is about, and what waits for one that is on its way;
//! `orders` and `moves` moves, `parts` how long pieces are; `replicas` what an owner's replica gets
//! and the answers that wait for it, `seeds` what a new one gets, `copies` the replica's side;
//! `promotion` deaths and policies; `commands` what joiners are told; `travel` a piece as a
//! transfer; `workers` whom rounds wait for; `tickets` by which trees rounds go, `questions` what
//! workers are told who ask; `marks` is small; `validate` is what all of this promises.

mod commands;
mod copies;
pub(super) mod marks;
mod moves;
mod orders;
mod parts;
mod promotion;
mod questions;
mod replicas;
mod requests;
mod seeds;
mod tickets;
mod travel;
mod validate;
mod workers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use self::commands::Settings;
use self::copies::Copy;
use self::moves::Leaving;
use self::parts::Parts;
use self::replicas::Waiting;
use self::seeds::Seeds;
use self::tickets::TreesHere;
use super::awaited::Workers;
use super::changes::Changes;
use super::mxnet::{Answer, TENSORS_MAX};
use super::parked::Parked;
use super::{Store, StoreConfig, StoreError};
use crate::values::{Dtype, KeyRoutes, KvPairs};
use crate::wire::elastic::{LiveWorker, Mark, Order, Route, Transfer, TransferKind};
use crate::wire::{Key, Meta, NodeId, server_id};

pub use self::commands::Due;
pub(super) use self::questions::Asked;
pub use super::parked::{PARKED_BYTES_MAX, PARKED_MAX};

/// Bytes of pieces that are on their way to a new replica, unless one piece is larger.
pub const SEED_BYTES_MAX: usize = 32 << 20;
/// Pieces of one key that one server holds; orders that would make more are not followed.
pub const PIECES_MAX: usize = 1 << 12;
/// Orders about one key that wait for the end of a round; of more the oldest are forgotten.
pub const ORDERS_MAX: usize = 1 << 10;
/// Rounds of one key whose answers wait for the replica; over it pushes are answered *again*.
pub const ANSWERS_WAITING_MAX: usize = 1 << 12;
/// Commands that are answered when those who joined have obeyed; of more the answer does not wait.
pub const COMMANDS_MAX: usize = 1 << 12;

/// What is to be sent.
#[derive(Debug, Default)]
pub struct Outbound {
    /// To workers.
    pub answers: Vec<Answer>,
    /// Down the trees of this server: metadata with the receiver, and values.
    pub downs: Vec<(Meta, KvPairs)>,
    /// To other servers.
    pub transfers: Vec<Outgoing>,
}

/// A transfer to another server.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The server.
    pub to: NodeId,
    /// What it says.
    pub transfer: Transfer,
    /// Its data frames: the key, then values.
    pub frames: Vec<Bytes>,
}

/// Where a request is served.
pub(super) enum Place {
    /// By the piece at that index of the key's pieces.
    Here(usize),
    /// By a part of the piece at that index.
    Within(usize),
    /// Nowhere yet: a push makes the key.
    New,
    /// When the piece is here, or a policy.
    Later,
    /// Where these routes say.
    Again(Vec<Route>),
}

/// The sum of a round, as the replica gets it.
pub(super) struct Shipped {
    pub(super) dtype: Dtype,
    pub(super) rows: Vec<i64>,
    /// `None`: nothing is applied, and pushes count.
    pub(super) values: Option<Bytes>,
}

/// What the end of a round brings.
pub(super) struct RoundDone {
    /// The pushes that count now.
    pub(super) marks: Vec<Mark>,
    pub(super) answers: Vec<Answer>,
    /// What the replica gets, if there is one.
    pub(super) shipped: Option<Shipped>,
    /// Whose pushes it had, if the next round may go by a tree.
    pub(super) pushed: Option<Pushed>,
}

/// Who pushed to a round: one customer of each worker.
#[derive(Clone, Debug)]
pub(super) struct Pushed {
    workers: BTreeSet<NodeId>,
    /// The same one of all of them.
    customer: i32,
}

/// A confirmation that waits: to whom, and of which elements of which key.
type Unsaid = (NodeId, Key, u64, u64);

/// What one server knows of the others, and of pieces on their way.
pub(super) struct Elastic {
    /// This server.
    me: NodeId,
    /// The policy that it knows.
    epoch: u64,
    /// The servers that live, ascending.
    servers: Vec<NodeId>,
    /// By rank: where new keys go.
    homes: Vec<NodeId>,
    /// Servers that are dead or released, of which nothing counts any more.
    lost: BTreeSet<NodeId>,
    /// Copies of each piece beside the owner's.
    replicas: u32,
    /// Where the copies of what this server owns are, or go to.
    replica: Option<NodeId>,
    /// Servers that are being emptied.
    draining: Vec<NodeId>,
    /// Where the policy wants them.
    named_replica: Option<NodeId>,
    /// It has said what it holds, and the policy that follows from it is not here yet.
    collecting: Option<u64>,
    /// It has said that it holds nothing, so that policy may let it go: confirmations that wait for
    /// it.
    unsaid: Option<BTreeMap<Unsaid, Transfer>>,
    /// Where pieces are that are not here.
    routes: BTreeMap<Key, KeyRoutes>,
    parked: Parked,
    /// A piece of that key was cut by a request, and what is parked was not looked at since.
    cut: Option<Key>,
    /// Answers that wait for the replica.
    waiting: BTreeMap<Key, Vec<Waiting>>,
    /// What was ordered and waits for the end of a round.
    orders: BTreeMap<Key, Vec<Order>>,
    /// What has left and is not safe yet where it went.
    leaving: BTreeMap<Key, Vec<Leaving>>,
    /// Copies of what other servers own, by key and owner.
    copies: BTreeMap<(Key, NodeId), Vec<Copy>>,
    seeds: Seeds,
    settings: Settings,
    /// Whom rounds wait for, where the job goes on without workers that die; `None`: for as many as
    /// it began with.
    workers: Option<Arc<Workers>>,
    /// What the policy says of them.
    live: Vec<LiveWorker>,
    /// Customers of workers that took leave.
    left: BTreeSet<(NodeId, i32)>,
    /// Of which keys claims say something new.
    changes: Changes,
    parts: Parts,
    trees: TreesHere,
}

impl Elastic {
    pub(super) fn new(config: &StoreConfig) -> Self {
        let servers: Vec<NodeId> = (0..config.servers).map(server_id).collect();
        let joins = !servers.contains(&config.id);
        let mut elastic = Self {
            me: config.id,
            epoch: 0,
            homes: servers.clone(),
            // Who joins learns from its first policy who lives.
            servers: if joins { Vec::new() } else { servers },
            lost: BTreeSet::new(),
            replicas: config.replicas,
            replica: None,
            draining: Vec::new(),
            named_replica: None,
            collecting: None,
            unsaid: None,
            routes: BTreeMap::new(),
            parked: Parked::default(),
            cut: None,
            waiting: BTreeMap::new(),
            orders: BTreeMap::new(),
            leaving: BTreeMap::new(),
            copies: BTreeMap::new(),
            seeds: Seeds::default(),
            settings: Settings::new(joins),
            workers: None,
            live: Vec::new(),
            left: BTreeSet::new(),
            changes: Changes::default(),
            parts: Parts::default(),
            trees: TreesHere::default(),
        };
        elastic.choose_replica();
        elastic
    }

    /// True if nothing of that server counts.
    fn is_gone(&self, server: NodeId) -> bool {
        self.lost.contains(&server)
    }

    /// Remembers where a part of a key is.
    fn learn(&mut self, key: Key, route: Route) {
        if self.routes.len() < TENSORS_MAX || self.routes.contains_key(&key) {
            self.routes.entry(key).or_default().learn(route);
        }
    }
}

impl Store {
    /// What another server sent. Of one that is gone nothing counts.
    ///
    /// # Errors
    /// It is malformed, or cannot be: the two servers do not agree any more, and the job cannot go
    /// on.
    pub fn transfer(
        &mut self,
        from: NodeId,
        transfer: &Transfer,
        frames: &[Bytes],
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        self.take_transfer(from, transfer, frames, out)?;
        self.look_at([transfer.key]);
        Ok(())
    }

    fn take_transfer(
        &mut self,
        from: NodeId,
        transfer: &Transfer,
        frames: &[Bytes],
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        let Some(elastic) = &self.elastic else {
            return Err(StoreError::Transfer("no piece moves in this job"));
        };
        if elastic.is_gone(from) {
            return Ok(());
        }
        match transfer.kind() {
            TransferKind::Move => self.take_move(from, transfer, frames, out)?,
            TransferKind::Moved => self.take_moved(from, transfer, out),
            TransferKind::Seed => self.take_seed(from, transfer, frames, out)?,
            TransferKind::Round => self.take_round(from, transfer, frames, out)?,
            TransferKind::Confirmed if transfer.to == 0 => self.told(from, transfer, out),
            TransferKind::Confirmed if !transfer.gone.is_empty() => {
                self.copy_gone(from, transfer, out)
            }
            TransferKind::Confirmed => self.confirmed(from, transfer, out),
            TransferKind::Cut => self.take_cut(from, transfer)?,
            TransferKind::Drop => self.take_drop(from, transfer, out),
            TransferKind::Command => self.take_command(transfer, frames)?,
            TransferKind::CommandsEnd => self.take_commands_end(from, transfer, out),
            TransferKind::Refused => {
                return Err(StoreError::Transfer(
                    "only keys of an application's handler are refused",
                ));
            }
            TransferKind::Unknown => return Err(StoreError::Transfer("its kind is unknown")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
