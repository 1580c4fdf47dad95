//! A customer as the van knows it: its mailbox, which has what every message needs, and behind that
//! the customer. The van brings items, asks for what is counted, and knows neither whether it is a
//! worker's customer or a server's, nor what an item makes it do. Names the queue, the items and
//! the memory of pulls; no customer and no van.

use std::sync::Arc;
use std::time::Duration;

use crate::delivery::Delivery;
use crate::landing::Landings;
use crate::work_queue::WorkQueue;
use pslite_core::kv::rounds::Round;
use pslite_core::wire::Meta;

/// Where a customer is reached. What each message needs of it is here and not behind the table of
/// [`Recipient`], so that a message costs one call through that: [`Recipient::handle`].
pub(crate) struct Mailbox<C: ?Sized> {
    /// The queue in front of it.
    pub(crate) queue: Arc<WorkQueue<Delivery>>,
    /// Where the answers of its pulls may be received.
    pub(crate) landings: Arc<Landings>,
    pub(crate) customer: C,
}

/// The mailbox of any customer.
pub(crate) type AnyMailbox = Mailbox<dyn Recipient>;

/// What a customer does; see the module.
pub(crate) trait Recipient: Send + Sync {
    /// Handles one item; the caller has the turn.
    fn handle(&self, item: Delivery);

    /// The application answers a request by a message of its own: `answer` is what it sends.
    fn note_answer(&self, answer: &Meta);

    /// A worker's: the rounds that are over since the last call.
    fn take_rounds(&self) -> Vec<Round>;

    /// A server's with a store: how long requests have taken there so far.
    fn busy(&self) -> Option<Duration>;

    /// True if it is a server whose keys may move. The node has started.
    fn moves_keys(&self) -> bool;

    /// True if it wants a [`Delivery::Retry`]: messages of a worker's may go now, or the claims of
    /// a server may have changed. Once for each message that waited.
    fn wants_retry(&self) -> bool;

    /// True now and then while it holds requests back: it wants a [`Delivery::GateTick`].
    fn wants_gate_tick(&self) -> bool;

    /// Says what has waited for long. The caller holds no lock.
    fn report_stalls(&self);
}

/// An item that may be handled by the thread that brought it.
pub(crate) struct AtOnce {
    pub(crate) to: Arc<AnyMailbox>,
    pub(crate) item: Delivery,
}
