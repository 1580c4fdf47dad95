//! A customer as the van knows it: a mailbox, which has what every message needs, and behind it the
//! customer. The van brings items and reads counts. It knows neither whether the customer asks or
//! serves, nor what an item makes it do. May name the queue, the items and the memory of pulls;
//! must not name a customer or the van.

use std::sync::Arc;
use std::time::Duration;

use crate::delivery::Delivery;
use crate::error::Result;
use crate::landing::Landings;
use crate::work_queue::WorkQueue;
use pslite_core::kv::rounds::Round;
use pslite_core::wire::Meta;
use pslite_core::wire::exchange::word::ExchangeReport;
use pslite_core::wire::save::{SaveAsked, SaveTold};

/// Where a customer is reached. What each message needs is here, not behind the trait
/// [`Recipient`], so that a message costs one dynamic call: [`Recipient::handle`].
pub(crate) struct Mailbox<C: ?Sized> {
    /// The queue in front of it.
    pub(crate) queue: Arc<WorkQueue<Delivery>>,
    /// The memory into which answers to its pulls may be received.
    pub(crate) landings: Arc<Landings>,
    pub(crate) customer: C,
}

/// The mailbox of any customer.
pub(crate) type AnyMailbox = Mailbox<dyn Recipient>;

/// For what somebody waits who asks for [`Recipient::finish_exchange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// All that this worker has changed is at the servers: nobody waits for it after that.
    Leaves,
    /// The same, and all workers are equal.
    Aligns,
}

/// What a customer does; see the module.
pub(crate) trait Recipient: Send + Sync {
    /// Handles one item; the caller has the turn.
    fn handle(&self, item: Delivery);

    /// The application answers a request by a message that it makes itself, `answer`.
    fn note_answer(&self, answer: &Meta);

    /// A worker's: the rounds finished since the last call.
    fn take_rounds(&self) -> Vec<Round>;

    /// A worker's: other workers may go on without it from now on.
    fn drop_ahead(&self);

    /// A worker's: waits for that, if it has a local model.
    ///
    /// # Errors
    /// It can never be.
    fn finish_exchange(&self, finish: Finish) -> Result<()>;

    /// A worker's: how its local model is, if it has one.
    fn exchange_report(&self, now: Duration) -> Option<ExchangeReport>;

    /// True if it wants a [`Delivery::Beat`]: its local model says once a second how it is.
    fn wants_beat(&self, now: Duration) -> bool;

    /// A worker's: its pulls bring the global values from now on, or no more.
    fn pull_global(&self, on: bool);

    /// Of a server with a store: how long requests have taken there so far.
    fn busy(&self) -> Option<Duration>;

    /// Of a server with a store: what an operator asks of its values.
    fn saved(&self, asked: SaveAsked) -> Option<SaveTold>;

    /// True if it is a server whose store serves: alone, or `in_front` of an application.
    fn keeps_keys_apart(&self, in_front: bool) -> bool;

    /// True if it is a server whose keys may move. Called after the node has started.
    fn moves_keys(&self) -> bool;

    /// True if it wants a [`Delivery::Retry`]: a worker's messages may go now, or a server's claims
    /// may have changed. True once for each message that waited.
    fn wants_retry(&self) -> bool;

    /// True if it wants a [`Delivery::GateTick`]: now and then, while it holds requests back.
    fn wants_gate_tick(&self) -> bool;

    /// Logs what has waited for long. The caller must not hold a lock.
    fn report_stalls(&self);
}

/// An item that the thread that brought it may handle itself.
pub(crate) struct AtOnce {
    pub(crate) to: Arc<AnyMailbox>,
    pub(crate) item: Delivery,
}
