//! Waiting for the end of a request. A waiting thread sleeps until the thread that handled the
//! answer wakes it. Or, if the native data plane gives it the seat of the receiving thread, it
//! receives meanwhile. Then it handles only the answers to its own request: all other messages go
//! into the queues of their customers. So the only code of the application that runs on it is the
//! end of the request that it waits for; while that runs, another thread receives.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use super::{Requests, WorkerCustomer};
use crate::delivery::Delivery;
use crate::error::{NodeError, Result};
use crate::recipient::{AnyMailbox, AtOnce};
use crate::running::NodeRef;
use crate::sync::lock;
use crate::work_queue::WorkTurn;
use pslite_core::kv::{Failure, FailureKind, State};
use pslite_observe::awake;
use pslite_transport::native::{NativeIncoming, NativeTransport, Stay};

/// The threads that wait for requests of a customer.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    asleep: usize,
    /// A thread receives while it waits, and must be called.
    receives: bool,
}

impl WorkerCustomer {
    /// Blocks until the request is over, or that time has come. `me`: the customer whose side this
    /// is.
    ///
    /// # Errors
    /// Why it failed; or [`NodeError::Timeout`]: it is not over yet.
    pub(crate) fn wait(
        &self,
        timestamp: i32,
        until: Option<Instant>,
        me: &AnyMailbox,
    ) -> Result<()> {
        loop {
            let alone = {
                let requests = lock(&self.requests);
                if let Some(outcome) = requests.outcome(timestamp) {
                    return outcome;
                }
                if requests.side.is_ahead(timestamp) {
                    drop(requests);
                    self.complete_here(timestamp, me);
                    return self.sleep(timestamp, until);
                }
                if is_over(until) {
                    return Err(not_yet(timestamp));
                }
                requests.side.requests().tracker().waiting_count() == 1
            };
            let node = self.node().ok();
            let Some((node, native)) =
                node.as_ref().and_then(|node| Some((node, node.lets_receive()?)))
            else {
                return self.sleep(timestamp, until);
            };
            let mut stay = native.waits_for_answer(alone);
            if !stay.sits() {
                return self.sleep(timestamp, until);
            }
            stay.until = until;
            self.receive(node, native, stay, timestamp, me);
        }
    }

    /// Completes a pull whose values came ahead, unless another thread handles a message now.
    fn complete_here(&self, timestamp: i32, me: &AnyMailbox) {
        if let Some(turn) = me.queue.turn_if_free() {
            me.customer.handle(Delivery::Ahead(timestamp));
            drop(turn);
        }
    }

    /// Sleeps until the request is over, or that time has come.
    fn sleep(&self, timestamp: i32, until: Option<Instant>) -> Result<()> {
        let mut requests = lock(&self.requests);
        loop {
            if let Some(outcome) = requests.outcome(timestamp) {
                return outcome;
            }
            if is_over(until) {
                return Err(not_yet(timestamp));
            }
            requests.waiters.asleep += 1;
            requests = self.sleep_once(requests, until);
            requests.waiters.asleep -= 1;
        }
    }

    /// Until something ended, or that time has come.
    fn sleep_once<'a>(
        &self,
        requests: MutexGuard<'a, Requests>,
        until: Option<Instant>,
    ) -> MutexGuard<'a, Requests> {
        let Some(until) = until else {
            return self.answered.wait(requests).unwrap_or_else(PoisonError::into_inner);
        };
        let woken = self.answered.wait_timeout(requests, awake::left(until));
        woken.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Receives until the request is over, or nearly so.
    fn receive(
        &self,
        node: &NodeRef,
        native: &NativeTransport,
        mut stay: Stay<'_>,
        timestamp: i32,
        me: &AnyMailbox,
    ) {
        loop {
            {
                // Whoever ends the request after this look sees that somebody must be called.
                let mut requests = lock(&self.requests);
                requests.waiters.receives = requests.outcome(timestamp).is_none();
                if !requests.waiters.receives {
                    return;
                }
            }
            let incoming = match native.recv_waiting(&mut stay) {
                Ok(Some(incoming)) => incoming,
                Ok(None) if is_over(stay.until) => break,
                Ok(None) => continue,
                Err(_) => break, // The receiving thread meets it too, and says so.
            };
            let Some((turn, item)) = own_answer(node, me, timestamp, incoming) else { continue };
            stay.got = true;
            let is_end = {
                let mut requests = lock(&self.requests);
                let is_end = requests.may_end(timestamp, &item);
                requests.waiters.receives = !is_end;
                is_end
            };
            if is_end {
                drop(stay);
                me.customer.handle(item);
                drop(turn);
                return;
            }
            me.customer.handle(item);
        }
        lock(&self.requests).waiters.receives = false;
    }

    /// Something ended: waiting threads look again. Wakes nobody in vain, since each time costs a
    /// system call.
    pub(super) fn tell_waiters(&self, requests: MutexGuard<'_, Requests>) {
        let Waiters { asleep, receives } = requests.waiters;
        drop(requests);
        if asleep > 0 {
            self.answered.notify_all();
        }
        if receives && let Ok(node) = self.node() {
            node.call_waiting();
        }
    }
}

fn is_over(until: Option<Instant>) -> bool {
    until.is_some_and(|until| awake::now() >= until)
}

fn not_yet(timestamp: i32) -> NodeError {
    NodeError::Timeout(format!("request {timestamp} is not over yet"))
}

/// The answer and the right to handle it, if this message is one to that request of that customer
/// and its turn has come. Anything else goes into the queue of its customer.
fn own_answer<'a>(
    node: &NodeRef,
    me: &'a AnyMailbox,
    timestamp: i32,
    incoming: NativeIncoming,
) -> Option<(WorkTurn<'a, Delivery>, Delivery)> {
    let AtOnce { to, item } = node.sort(incoming)?;
    if std::ptr::addr_eq(Arc::as_ptr(&to), me) && item.answers(timestamp) {
        return me.queue.offer(item.priority(), item);
    }
    to.queue.push_with_room(item.priority(), item);
    None
}

impl Requests {
    /// How the request ended, if it did.
    fn outcome(&self, timestamp: i32) -> Option<Result<()>> {
        match self.side.requests().state(timestamp) {
            State::Waiting => None,
            State::Done => Some(Ok(())),
            State::Failed(Failure { text, kind }) => Some(Err(match kind {
                FailureKind::Unanswered => NodeError::PeerLost(text.to_string()),
                FailureKind::Refused => NodeError::Remote(text.to_string()),
                FailureKind::Unfit => NodeError::Protocol(text.to_string()),
            })),
            State::Unknown => {
                Some(Err(NodeError::Invalid(format!("there is no request {timestamp}"))))
            }
        }
    }

    /// False if handling that answer to the request does no more than count it.
    fn may_end(&self, timestamp: i32, item: &Delivery) -> bool {
        let refuses = match item {
            Delivery::Message(message) => !message.meta.error.is_empty(),
            _ => true,
        };
        // The answer to a part may make others go, and sending may take long.
        let may_send = self.side.follows();
        let counts_only = !refuses && !may_send && self.value_size.is_some();
        !counts_only || self.side.requests().tracker().awaited(timestamp) <= 1
    }
}
