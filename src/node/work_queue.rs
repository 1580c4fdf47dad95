//! The queue in front of a customer. Its items are handled one at a time: by the customer's own
//! thread or, if the queue is empty, at once by the thread that brought the item. It decides who
//! handles the next item, and knows nothing of what items mean.
//!
//! Handling at once saves a thread switch per message, most of what a small message costs. An item
//! is not handled at once if it would overtake another, nor for a while after one that took long:
//! then it is better to receive and handle in parallel.

#![allow(clippy::disallowed_methods, reason = "how long a handler took: no limit on others")]

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::sync::lock;
use pslite_core::fifo::PriorityFifo;

/// From here on handling an item counts as slow: about fifty times what the thread switch costs.
const SLOW: Duration = Duration::from_micros(250);
/// How many items go through the queue after a slow one.
const QUEUED_AFTER_SLOW: u32 = 64;
/// Items that wait. Beyond it the thread that receives waits too: then the connections fill up and
/// the peers wait. News of a loss is queued nevertheless.
const ITEMS_MAX: usize = 65_536;

/// See the module.
pub(crate) struct WorkQueue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    items: PriorityFifo<T>,
    closed: bool,
    /// The thread that handles an item now.
    handling: Option<ThreadId>,
    /// How many more items are not handled at once.
    queue_next: u32,
    /// A thread that brings an item waits for room.
    bounded: bool,
    /// How often a thread has gone to sleep until something changes.
    #[cfg(test)]
    sleeps: usize,
}

/// The right to handle one item. It is dropped when the item is done.
pub(crate) struct WorkTurn<'a, T> {
    queue: &'a WorkQueue<T>,
    began: Instant,
}

impl<T> WorkQueue<T> {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                items: PriorityFifo::new(),
                closed: false,
                handling: None,
                queue_next: 0,
                bounded: true,
                #[cfg(test)]
                sleeps: 0,
            }),
            changed: Condvar::new(),
        }
    }

    /// Puts an item into the queue, however full it is. If the queue is closed it drops the item,
    /// and returns false.
    pub(crate) fn push(&self, priority: i32, item: T) -> bool {
        let mut state = lock(&self.state);
        if state.closed {
            return false;
        }
        state.items.push(priority, item);
        drop(state);
        self.changed.notify_all();
        true
    }

    /// Sleeps until something changes.
    #[cfg_attr(not(test), expect(unused_mut, reason = "tests count"))]
    fn sleep<'a>(&self, mut state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        #[cfg(test)]
        {
            state.sleeps += 1;
        }
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room for one more item. Meanwhile others may bring items only by
    /// `push`.
    fn room(&self) -> MutexGuard<'_, State<T>> {
        let mut state = lock(&self.state);
        while state.items.len() >= ITEMS_MAX && state.bounded && !state.closed {
            state = self.sleep(state);
        }
        state
    }

    /// Puts an item into the queue once there is room.
    pub(crate) fn push_with_room(&self, priority: i32, item: T) {
        drop(self.room());
        self.push(priority, item);
    }

    /// Returns the item with the right to handle it at once; or queues it, once there is room.
    pub(crate) fn offer(&self, priority: i32, item: T) -> Option<(WorkTurn<'_, T>, T)> {
        let mut state = self.room();
        if state.closed {
            return None;
        }
        if state.handling.is_none() && state.items.is_empty() && state.queue_next == 0 {
            state.handling = Some(thread::current().id());
            return Some((self.turn(), item));
        }
        state.queue_next = state.queue_next.saturating_sub(1);
        state.items.push(priority, item);
        drop(state);
        self.changed.notify_all();
        None
    }

    /// The right to handle something that is in no queue, or need not wait in it, if nobody handles
    /// anything now.
    pub(crate) fn turn_if_free(&self) -> Option<WorkTurn<'_, T>> {
        let mut state = lock(&self.state);
        let free = state.handling.is_none() && !state.closed;
        free.then(|| {
            state.handling = Some(thread::current().id());
            self.turn()
        })
    }

    /// Waits for an item and the right to handle it; `None` once the queue is closed and empty.
    pub(crate) fn next(&self) -> Option<(WorkTurn<'_, T>, T)> {
        let mut state = lock(&self.state);
        loop {
            if state.handling.is_none() {
                let was_full = state.items.len() >= ITEMS_MAX;
                if let Some(item) = state.items.pop() {
                    state.handling = Some(thread::current().id());
                    if was_full {
                        self.changed.notify_all();
                    }
                    return Some((self.turn(), item));
                }
                if state.closed {
                    return None;
                }
            }
            state = self.sleep(state);
        }
    }

    fn turn(&self) -> WorkTurn<'_, T> {
        WorkTurn { queue: self, began: Instant::now() }
    }

    /// How many items wait in the queue.
    pub(crate) fn len(&self) -> usize {
        lock(&self.state).items.len()
    }

    /// True if nothing waits in the queue.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.state).items.is_empty()
    }

    /// Sets whether threads that bring items wait for room. When the node stops they must not.
    pub(crate) fn set_bounded(&self, bounded: bool) {
        lock(&self.state).bounded = bounded;
        self.changed.notify_all();
    }

    /// Takes no more items; those that wait are still handled.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_all();
    }

    /// Waits until nobody handles an item, unless it is the caller.
    pub(crate) fn wait_until_idle(&self) {
        let me = thread::current().id();
        let mut state = lock(&self.state);
        while state.handling.is_some_and(|who| who != me) {
            state = self.sleep(state);
        }
    }
}

impl<T> Drop for WorkTurn<'_, T> {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        let mut state = lock(&self.queue.state);
        state.handling = None;
        if took > SLOW {
            state.queue_next = QUEUED_AFTER_SLOW;
        }
        // Nobody needs to wake for an empty queue, unless it is the end of it.
        let somebody_waits = !state.items.is_empty() || state.closed;
        drop(state);
        if somebody_waits {
            self.queue.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    /// Returns once threads have gone to sleep in the queue so often.
    fn until_sleeps<T>(queue: &WorkQueue<T>, times: usize) {
        for _ in 0..60_000 {
            if lock(&queue.state).sleeps >= times {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("a thread that should sleep has gone on");
    }

    #[test]
    fn an_item_is_handled_at_once_only_if_nobody_is_before_it() {
        let queue = WorkQueue::new();
        let (turn, item) = queue.offer(0, 1).unwrap();
        assert_eq!(item, 1);
        assert!(queue.offer(0, 2).is_none(), "another is being handled");
        drop(turn);
        assert!(queue.offer(0, 3).is_none(), "another waits");
        assert_eq!(queue.next().unwrap().1, 2);
        assert_eq!(queue.next().unwrap().1, 3);
        assert_eq!(queue.offer(0, 4).unwrap().1, 4);
    }

    #[test]
    fn a_free_turn_is_had_whatever_waits_in_the_queue() {
        let queue = WorkQueue::new();
        queue.push(0, 1);
        let turn = queue.turn_if_free().unwrap();
        assert!(queue.turn_if_free().is_none() && queue.offer(0, 2).is_none());
        drop(turn);
        assert_eq!(queue.next().unwrap().1, 1);
        queue.close();
        assert!(queue.turn_if_free().is_none());
    }

    #[test]
    fn a_slow_item_sends_the_next_ones_to_the_queue() {
        let queue = WorkQueue::new();
        let (turn, _) = queue.offer(0, 0).unwrap();
        thread::sleep(SLOW * 2);
        drop(turn);
        for i in 0..QUEUED_AFTER_SLOW {
            assert!(queue.offer(0, i).is_none());
            assert_eq!(queue.next().unwrap().1, i);
        }
        assert!(queue.offer(0, 0).is_some());
    }

    #[test]
    fn who_brings_too_much_waits_and_losses_do_not() {
        let queue = Arc::new(WorkQueue::new());
        for i in 0..ITEMS_MAX {
            queue.push_with_room(0, i);
        }
        queue.push(1, usize::MAX);
        let passed = Arc::new(AtomicBool::new(false));
        let bringer = {
            let (queue, passed) = (Arc::clone(&queue), Arc::clone(&passed));
            thread::spawn(move || {
                assert!(queue.offer(0, ITEMS_MAX).is_none());
                passed.store(true, Ordering::SeqCst);
            })
        };
        until_sleeps(&queue, 1);
        assert_eq!(queue.next().unwrap().1, usize::MAX);
        // That woke it; it looks, and sleeps again.
        until_sleeps(&queue, 2);
        assert!(!passed.load(Ordering::SeqCst), "still full");
        assert_eq!(queue.next().unwrap().1, 0);
        bringer.join().unwrap();
        for i in 1..=ITEMS_MAX {
            assert_eq!(queue.next().unwrap().1, i);
        }
    }

    #[test]
    fn a_closed_queue_takes_nothing_and_empties() {
        let queue = WorkQueue::new();
        queue.push(0, 1);
        queue.close();
        queue.push(0, 2);
        assert!(queue.offer(0, 3).is_none());
        assert_eq!(queue.next().unwrap().1, 1);
        assert!(queue.next().is_none());
    }

    #[test]
    fn idle_is_waited_for_but_not_by_the_one_who_handles() {
        let queue = Arc::new(WorkQueue::new());
        let (turn, ()) = queue.offer(0, ()).unwrap();
        queue.wait_until_idle();
        let over = Arc::new(AtomicBool::new(false));
        let waiter = {
            let (queue, over) = (Arc::clone(&queue), Arc::clone(&over));
            thread::spawn(move || {
                queue.wait_until_idle();
                assert!(over.load(Ordering::SeqCst));
            })
        };
        until_sleeps(&queue, 1);
        queue.close();
        until_sleeps(&queue, 2);
        over.store(true, Ordering::SeqCst);
        drop(turn);
        waiter.join().unwrap();
    }

    /// Two threads bring items, one more works the queue off: never two at a time, each one's items
    /// in their order, none lost.
    #[test]
    fn items_are_handled_one_at_a_time_in_order() {
        const EACH: usize = 20_000;
        let queue = Arc::new(WorkQueue::<(usize, usize)>::new());
        let inside = Arc::new(AtomicBool::new(false));
        let next = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let handle = {
            let (inside, next) = (Arc::clone(&inside), Arc::clone(&next));
            move |(who, number): (usize, usize)| {
                assert!(!inside.swap(true, Ordering::SeqCst), "two at a time");
                assert_eq!(next[who].fetch_add(1, Ordering::SeqCst), number, "out of order");
                inside.store(false, Ordering::SeqCst);
            }
        };
        let worker = {
            let (queue, handle) = (Arc::clone(&queue), handle.clone());
            thread::spawn(move || {
                while let Some((turn, item)) = queue.next() {
                    handle(item);
                    drop(turn);
                }
            })
        };
        let bringers: Vec<_> = (0..2)
            .map(|who| {
                let (queue, handle) = (Arc::clone(&queue), handle.clone());
                thread::spawn(move || {
                    for number in 0..EACH {
                        if let Some((turn, item)) = queue.offer(0, (who, number)) {
                            handle(item);
                            drop(turn);
                        }
                    }
                })
            })
            .collect();
        bringers.into_iter().for_each(|thread| thread.join().unwrap());
        queue.close();
        worker.join().unwrap();
        queue.wait_until_idle();
        assert_eq!(next[0].load(Ordering::SeqCst), EACH);
        assert_eq!(next[1].load(Ordering::SeqCst), EACH);
    }
}
