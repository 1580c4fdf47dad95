//! A queue by priority that keeps the order of arrival among equals. Stock's heap does not
//! (threadsafe_pqueue.h; `<=` is no strict weak order), so that a pull and a later push of the
//! same key could change places.
//!
//! Pure data structure; the caller bounds its length.

use std::collections::{BTreeMap, VecDeque};

/// An emptied lane keeps room for this many items; a burst's memory is given back.
const LANE_ROOM_KEPT: usize = 1024;

/// How many emptied lanes are kept for reuse.
const SPARE_LANES_KEPT: usize = 8;

/// Items with priorities: the highest goes first, among equals the first one in.
#[derive(Clone, Debug)]
pub struct PriorityFifo<T> {
    /// The lane of `top_priority`, the highest in use. Empty only if the queue is.
    top: VecDeque<T>,
    top_priority: i32,
    /// The lower lanes, none of them empty.
    lower: BTreeMap<i32, VecDeque<T>>,
    spare: Vec<VecDeque<T>>,
    len: usize,
}

impl<T> Default for PriorityFifo<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> PriorityFifo<T> {
    /// An empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            top: VecDeque::new(),
            top_priority: 0,
            lower: BTreeMap::new(),
            spare: Vec::new(),
            len: 0,
        }
    }

    /// Puts an item behind those of the same priority.
    pub fn push(&mut self, priority: i32, item: T) {
        self.len += 1;
        if self.top.is_empty() {
            self.top_priority = priority;
        } else if priority > self.top_priority {
            let lane = self.spare.pop().unwrap_or_default();
            let former = std::mem::replace(&mut self.top, lane);
            self.lower.insert(self.top_priority, former);
            self.top_priority = priority;
        } else if priority < self.top_priority {
            let Self { lower, spare, .. } = self;
            let lane = lower.entry(priority).or_insert_with(|| spare.pop().unwrap_or_default());
            lane.push_back(item);
            return;
        }
        self.top.push_back(item);
    }

    /// Takes the next item.
    pub fn pop(&mut self) -> Option<T> {
        let item = self.top.pop_front()?;
        self.len -= 1;
        if self.top.is_empty() {
            self.next_lane();
        }
        Some(item)
    }

    /// The highest lane has run empty: the next one takes its place.
    fn next_lane(&mut self) {
        self.top.shrink_to(LANE_ROOM_KEPT);
        if let Some((priority, lane)) = self.lower.pop_last() {
            let emptied = std::mem::replace(&mut self.top, lane);
            self.top_priority = priority;
            if self.spare.len() < SPARE_LANES_KEPT {
                self.spare.push(emptied);
            }
        }
    }

    /// The next item.
    #[must_use]
    pub fn peek(&self) -> Option<&T> {
        self.top.front()
    }

    /// The priority of the next item.
    #[must_use]
    pub fn next_priority(&self) -> Option<i32> {
        (!self.top.is_empty()).then_some(self.top_priority)
    }

    /// The number of items.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if there is nothing to take.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
#[path = "fifo_tests.rs"]
mod tests;
