//! Keys of an application that serves them with its own handler, and that move all the same
//! (docs/elastic.md, "Applications with their own handler"). What the handler keeps is nobody
//! else's to understand: such a key is *opaque*. It is one piece, of a length that nobody knows,
//! and moves as a whole when nothing of it is under way.
//!
//! Pure like all of the store: it is given requests, answers of the application, transfers of other
//! servers and words of the scheduler, and says what is to be done as [`Step`]s, in order. Its
//! owner promises what that of [`super::moving`] does, and that the application is given requests,
//! and asked for states, one after the other.
//!
//! What its owner calls:
//!
//! | call | when |
//! |---|---|
//! | [`Opaque::serve`] | a push or pull came, about a part of a key |
//! | [`Opaque::answered`] | the application answers: what goes back to the worker, if anything |
//! | [`Opaque::fetched`] | the answer to a pull has arrived |
//! | [`Opaque::exported`], [`Opaque::imported`] | the application gave, or took, a key's state |
//! | [`Opaque::transfer`] | another server sent a transfer; an error ends the job |
//! | [`Opaque::orders`], [`Opaque::collect`], [`Opaque::policy`] | words of the scheduler |
//! | [`Opaque::advance`] | now and then, and when `answered` or `fetched` says so |
//! | [`Opaque::news`] | to report to the scheduler, when there are [`Opaque::changes`] |
//! | [`Opaque::forget_node`] | a worker is gone, or another process has its id |
//!
//! `requests` has what the application is given, what waits and what is answered; `moves` moves,
//! `travel` a key as a transfer; `members` policies and claims; `visitors` who asked how often;
//! `first_pushes` what makes a key anew where nothing is kept between rounds; `validate` what all
//! of this promises.

mod first_pushes;
mod members;
mod moves;
mod requests;
mod travel;
mod validate;
mod visitors;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;

use self::first_pushes::FirstPushes;
use self::visitors::{Customer, Visitors};
use super::moving::changes::Changes;
use super::moving::parked::Parked;
use super::moving::servers::LiveServers;
use super::pieces::marks::Marks;
use super::view::RankRanges;
use super::{Answer, Outgoing};
use crate::wire::elastic::Route;
use crate::wire::{Key, Meta, NodeId};

pub use self::requests::{AnswerOutcome, Fetch};

/// For how long requests are kept back, so that a key that is to leave can. Then they are let
/// through for as long: they may be what the others wait for.
pub const HOLD: Duration = Duration::from_secs(1);
/// Requests that the application was given and has not answered; over it they are answered *again*.
pub const GIVEN_MAX: usize = 1 << 20;

/// What a server with an application's handler is told when it begins.
#[derive(Clone, Copy, Debug)]
pub struct OpaqueConfig {
    /// This server.
    pub id: NodeId,
    /// The application that requests name.
    pub app_id: i32,
    /// Servers of the application's view (`DMLC_NUM_SERVER`).
    pub servers: usize,
    /// The application keeps nothing of a key between rounds: its first pushes make it anew.
    pub stateless: bool,
    /// The application can be told to forget a key.
    pub forgets: bool,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Step {
    /// Send an answer.
    Answer(Answer),
    /// Send another server a transfer.
    Transfer(Outgoing),
    /// Give the application a request. Its timestamp is a number under which the application
    /// answers.
    Give(Meta, Vec<Bytes>),
    /// Ask the application for the state of a key.
    Export(Key),
    /// Give the application the state of a key.
    Import(Key, Bytes),
    /// The key is another server's now: tell the application.
    Forget(Key),
    /// Say it in the log.
    Warn(String),
}

/// A key that this server owns.
#[derive(Debug, Default)]
struct Owned {
    term: u64,
    /// The longest values that came or went.
    bytes: u64,
    /// The last push of each customer that the application was given.
    marks: Marks,
    visitors: Visitors,
    first: FirstPushes,
    /// Requests that the application has and has not answered.
    open: usize,
    order: Option<OrderedMove>,
    /// The application was asked for its state.
    exporting: bool,
    /// Who gave it, and does not know yet that it has come.
    source: Option<NodeId>,
}

/// Where a key is to go.
#[derive(Clone, Copy, Debug)]
struct OrderedMove {
    to: NodeId,
    since: Duration,
}

/// A key that has left, and is kept until it has come.
#[derive(Debug)]
struct LeavingKey {
    to: NodeId,
    /// As it was.
    owned: Owned,
}

/// A request that the application has.
#[derive(Debug)]
struct Given {
    key: Key,
    /// As it came; `None`: a first push that is given again, whose answer nobody gets.
    request: Option<Meta>,
    who: Customer,
    /// Pushes that its customer had made then.
    pushes: u64,
    pull: bool,
}

/// The opaque keys of one server. See the module.
#[derive(Debug)]
pub struct Opaque {
    config: OpaqueConfig,
    view: RankRanges,
    servers: LiveServers,
    keys: BTreeMap<Key, Owned>,
    /// Where keys are that are not here.
    routes: BTreeMap<Key, Route>,
    leaving: BTreeMap<Key, LeavingKey>,
    /// Keys whose state the application is taking.
    arriving: BTreeMap<Key, Owned>,
    /// Keys with an order.
    ordered: BTreeSet<Key>,
    /// Requests that wait for a key or a policy.
    parked: Parked,
    /// Requests for keys that are to leave.
    held: Parked,
    given: BTreeMap<i32, Given>,
    next_number: i32,
    /// Keys that the application cannot be told to forget: whose first pushes it had.
    remains: BTreeMap<Key, BTreeSet<Customer>>,
    /// Of which keys claims say something new.
    changes: Changes,
}

impl Opaque {
    /// A server without keys.
    #[must_use]
    pub fn new(config: OpaqueConfig) -> Self {
        Self {
            view: RankRanges::new(config.servers),
            config,
            servers: LiveServers::new(config.id, config.servers, false),
            keys: BTreeMap::new(),
            routes: BTreeMap::new(),
            leaving: BTreeMap::new(),
            arriving: BTreeMap::new(),
            ordered: BTreeSet::new(),
            parked: Parked::default(),
            held: Parked::default(),
            given: BTreeMap::new(),
            next_number: 0,
            remains: BTreeMap::new(),
            changes: Changes::default(),
        }
    }

    /// Remembers where a key is.
    fn learn(&mut self, key: Key, route: Route) {
        let known = self.routes.entry(key).or_insert(route);
        if route.term > known.term {
            *known = route;
        }
    }
}

#[cfg(test)]
mod tests;
