//! The customers of this process by their numbers, and messages that wait for customers that do not
//! exist yet. May touch mailboxes; must not name a customer or the van.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use crate::delivery::Delivery;
use crate::error::{NodeError, Result};
use crate::recipient::{AnyMailbox, Finish};
use crate::sync::lock;
use pslite_core::kv::rounds::Round;
use pslite_core::wire::exchange::word::ExchangeReport;
use pslite_core::wire::save::{SaveAsked, SaveTold};

/// Messages that wait for a customer that does not exist yet. Stock waits five seconds on the
/// receiving thread and then ends the process (postoffice.cc:125); here they wait aside.
const PARKED_MAX: usize = 65_536;

/// Which customer of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CustomerKey {
    /// Its application.
    pub(crate) app_id: i32,
    /// Its number in the application.
    pub(crate) customer_id: i32,
}

impl CustomerKey {
    /// The customer that has the number of its application, as that of each server has.
    pub(crate) const fn of_app(app_id: i32) -> Self {
        Self { app_id, customer_id: app_id }
    }
}

/// All customers of a process.
#[derive(Default)]
pub(crate) struct Customers {
    map: RwLock<BTreeMap<CustomerKey, Arc<AnyMailbox>>>,
    parked: Mutex<Vec<(CustomerKey, Delivery)>>,
}

impl Customers {
    /// Puts a message into its customer's queue, or aside until the customer exists. `wait`:
    /// whether to wait for room.
    ///
    /// # Errors
    /// Too many wait aside; the text says for whom.
    pub(crate) fn deliver(
        &self,
        key: CustomerKey,
        item: Delivery,
        wait: bool,
    ) -> std::result::Result<(), String> {
        if let Some(mailbox) = self.get(key) {
            if wait {
                mailbox.queue.push_with_room(item.priority(), item);
            } else {
                mailbox.queue.push(item.priority(), item);
            }
            return Ok(());
        }
        self.park(key, item)
    }

    fn park(&self, key: CustomerKey, item: Delivery) -> std::result::Result<(), String> {
        let mut parked = lock(&self.parked);
        // The customer may have come between the two looks; it empties `parked` under this lock.
        if let Some(mailbox) = self.get(key) {
            mailbox.queue.push(item.priority(), item);
            return Ok(());
        }
        if parked.len() >= PARKED_MAX {
            return Err(format!(
                "dropped a message to app {} customer {}: no such customer, and {PARKED_MAX} \
                 messages wait already",
                key.app_id, key.customer_id
            ));
        }
        parked.push((key, item));
        Ok(())
    }

    /// Sets whether the receiving thread waits for room in the queues (`WorkQueue::set_bounded`).
    pub(crate) fn set_bounded(&self, bounded: bool) {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        map.values().for_each(|mailbox| mailbox.queue.set_bounded(bounded));
    }

    /// The rounds that workers finished since the last call.
    pub(crate) fn take_rounds(&self) -> Vec<Round> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        map.values().flat_map(|mailbox| mailbox.customer.take_rounds()).collect()
    }

    /// A customer of this process is about to leave: sends what its local models have changed.
    ///
    /// # Errors
    /// It cannot be sent.
    pub(crate) fn finish_exchange(&self, customer_id: i32) -> Result<()> {
        self.finish(Finish::Leaves, |customer| customer == customer_id)
    }

    /// Waits until all workers are equal, whose local models this process has one of: for one
    /// customer after another, in an order that is the same at all workers.
    ///
    /// # Errors
    /// It can never be.
    pub(crate) fn align(&self) -> Result<()> {
        self.finish(Finish::Aligns, |_| true)
    }

    fn finish(&self, finish: Finish, whose: impl Fn(i32) -> bool) -> Result<()> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        let some = map.iter().filter(|(key, _)| whose(key.customer_id));
        let some: Vec<Arc<AnyMailbox>> = some.map(|(_, mailbox)| Arc::clone(mailbox)).collect();
        drop(map);
        some.iter().try_for_each(|mailbox| mailbox.customer.finish_exchange(finish))
    }

    /// Tells one customer, if it is there.
    pub(crate) fn tell(&self, key: CustomerKey, item: Delivery) {
        if let Some(mailbox) = self.get(key) {
            mailbox.queue.push(item.priority(), item);
        }
    }

    /// How local models are.
    pub(crate) fn exchange_reports(&self, now: Duration) -> Vec<ExchangeReport> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<Arc<AnyMailbox>> = map.values().cloned().collect();
        drop(map);
        all.iter().filter_map(|mailbox| mailbox.customer.exchange_report(now)).collect()
    }

    /// Lets local models say how they are.
    pub(crate) fn beat(&self, now: Duration) {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        for mailbox in map.values().filter(|mailbox| mailbox.customer.wants_beat(now)) {
            mailbox.queue.push(i32::MIN, Delivery::Beat);
        }
    }

    /// Other workers may go on without those of this process.
    pub(crate) fn drop_ahead(&self) {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        map.values().for_each(|mailbox| mailbox.customer.drop_ahead());
    }

    /// Pulls of this process's workers bring the global values from now on, or no more.
    pub(crate) fn pull_global(&self, on: bool) {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        map.values().for_each(|mailbox| mailbox.customer.pull_global(on));
    }

    /// How long requests have taken at the stores of this process. `None`: it has no store.
    pub(crate) fn busy(&self) -> Option<Duration> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        let busy = map.values().filter_map(|mailbox| mailbox.customer.busy());
        busy.reduce(|one, other| one + other)
    }

    /// What an operator asks of the values here. `None`: no store has them.
    pub(crate) fn saved(&self, asked: SaveAsked) -> Option<SaveTold> {
        self.get(CustomerKey::of_app(0)).and_then(|mailbox| mailbox.customer.saved(asked))
    }

    /// True if the store of app 0 is here, which keeps the keys of customers apart that have their
    /// own. `in_front`: stores in front of an application serve.
    pub(crate) fn keep_keys_apart(&self, in_front: bool) -> bool {
        self.get(CustomerKey::of_app(0))
            .is_some_and(|mailbox| mailbox.customer.keeps_keys_apart(in_front))
    }

    /// True if some customer is a server whose keys may move.
    pub(crate) fn have_store(&self) -> bool {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        // Each is asked, as each decides then.
        map.values().filter(|mailbox| mailbox.customer.moves_keys()).count() > 0
    }

    /// How many messages wait for customers, including those that do not exist yet.
    pub(crate) fn queued(&self) -> usize {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        let waiting: usize = map.values().map(|mailbox| mailbox.queue.len()).sum();
        drop(map);
        waiting + lock(&self.parked).len()
    }

    /// Tells customers whose messages may go now, and servers whose claims may have changed.
    pub(crate) fn retry_waiting(&self) {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        for mailbox in map.values().filter(|mailbox| mailbox.customer.wants_retry()) {
            mailbox.queue.push(i32::MAX, Delivery::Retry);
        }
    }

    /// Tells customers that hold requests back that time has passed.
    pub(crate) fn tick_gates(&self) {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        for mailbox in map.values().filter(|mailbox| mailbox.customer.wants_gate_tick()) {
            mailbox.queue.push(i32::MAX, Delivery::GateTick);
        }
    }

    /// Lets stores log which rounds have waited for long, and workers which requests have.
    pub(crate) fn report_stalls(&self) {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        // They ask the van, whose lock others hold while they take this one.
        let all: Vec<Arc<AnyMailbox>> = map.values().cloned().collect();
        drop(map);
        all.iter().for_each(|mailbox| mailbox.customer.report_stalls());
    }

    /// Tells every customer.
    pub(crate) fn broadcast(&self, item: &Delivery) {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        for mailbox in map.values() {
            mailbox.queue.push(item.priority(), item.clone());
        }
    }

    /// The customer, if it exists.
    pub(crate) fn get(&self, key: CustomerKey) -> Option<Arc<AnyMailbox>> {
        self.map.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    pub(crate) fn add(&self, key: CustomerKey, mailbox: &Arc<AnyMailbox>) -> Result<()> {
        let mut parked = lock(&self.parked);
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        if map.contains_key(&key) {
            return Err(NodeError::Invalid(format!(
                "customer {1} of app {0} exists already in this node, as a worker or a server: \
                 give the further one another number",
                key.app_id, key.customer_id
            )));
        }
        map.insert(key, Arc::clone(mailbox));
        drop(map);
        let waiting = std::mem::take(&mut *parked);
        for (to, item) in waiting {
            if to == key {
                mailbox.queue.push(item.priority(), item);
            } else {
                parked.push((to, item));
            }
        }
        Ok(())
    }

    pub(crate) fn remove(&self, key: CustomerKey) {
        self.map.write().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }

    /// Drops what waits: messages of an earlier life of the node mean nothing to the next one.
    pub(crate) fn forget_parked(&self) {
        lock(&self.parked).clear();
    }
}
