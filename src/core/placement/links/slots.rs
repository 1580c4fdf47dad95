//! What a node receives from all peers together while at least two of them have more to send: all
//! that its card can. That time comes in bits: a server that holds little gets some hundred
//! kilobytes now and then, from all workers at once, so windows of a quarter of a second that were
//! full from end to end were rare for it, and a card that had become faster was seen rounds later.
//! Here the time is cut into slots of a hundredth of a second, and those that count are put
//! together to groups, whatever lies between.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::MOST_PEERS;
use super::backlog_spans::BacklogSpan;
use super::rates::{LinkRates, Of};
use crate::placement::tuning::{
    CROWD_KEPT, CROWDED, FIRST_PROBE_AFTER, FULL_PEERS, GROUP_ROUND_TRIPS, GROUP_SLOTS,
    GROUP_SLOTS_MAX, LONG_WAY, SLOT, SLOTS_OPEN, SURPASSED, WINDOW, WINDOW_COVERED, WINDOWS,
};
use crate::wire::{NodeId, is_worker};

/// What came in one slot.
#[derive(Clone, Copy, Debug)]
struct Slot {
    number: u64,
    bytes: f64,
    /// Peers that count and had more to send.
    full: u32,
}

/// How far a peer has been counted.
#[derive(Clone, Copy, Debug, Default)]
struct CountedPeer {
    /// In that slot it had more to send for so many seconds.
    slot: u64,
    backlogged: f64,
    /// Up to which slot it was counted as full, that one not included.
    full: u64,
}

/// Slots that are put together.
#[derive(Clone, Copy, Debug, Default)]
struct SlotGroup {
    slots: u32,
    bytes: f64,
    /// Peers that had more to send, summed over the slots; and how many these were on average
    /// lately.
    full: f64,
    crowd: f64,
    /// The slot before, if it was full.
    before: Option<u64>,
    /// The last slot of the last group that counted.
    counted: Option<u64>,
}

impl SlotGroup {
    /// One more slot; the rate of the group of so many, if this was its last one and it counts.
    fn add(&mut self, slot: &Slot, worker: bool, slots: u32) -> Option<f64> {
        let full = slot.full >= FULL_PEERS;
        let before = std::mem::replace(&mut self.before, full.then_some(slot.number));
        // In the first slot after a pause comes what lay in buffers.
        if !full || before.and_then(|before| before.checked_add(1)) != Some(slot.number) {
            return None;
        }
        self.slots += 1;
        self.bytes += slot.bytes;
        self.full += f64::from(slot.full);
        if self.slots < slots {
            return None;
        }
        let rate = self.bytes / (SLOT * self.slots).as_secs_f64();
        let full = self.full / f64::from(self.slots);
        self.crowd = full.max(self.crowd * CROWD_KEPT);
        (self.slots, self.bytes, self.full) = (0, 0.0, 0.0);
        // A worker is rarely sent something by all servers at once, and its fastest groups count
        // anyway.
        let counts = worker || full >= CROWDED * self.crowd;
        if counts {
            self.counted = Some(slot.number);
        }
        counts.then_some(rate)
    }
}

/// See the module; by this node's clock.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    /// Of a worker: the fastest groups of some time count, not the last ones; and servers count as
    /// peers, not workers.
    worker: bool,
    /// Slots of a group.
    group_slots: u32,
    /// In ascending order.
    open: VecDeque<Slot>,
    peers: BTreeMap<NodeId, CountedPeer>,
    /// Of the slots that are no longer open.
    group: SlotGroup,
    /// When the last of them was told to `rates`, and what came since then.
    told: Duration,
    untold: f64,
    rates: LinkRates,
}

impl Slots {
    /// Of a worker, which exchanges with servers of very different rates; or of a server, whose
    /// workers are all there at the same time. (What another server sends it is bounded by what
    /// that one can.)
    pub(super) const fn new(worker: bool) -> Self {
        Self {
            worker,
            group_slots: GROUP_SLOTS[worker as usize],
            open: VecDeque::new(),
            peers: BTreeMap::new(),
            group: SlotGroup {
                slots: 0,
                bytes: 0.0,
                full: 0.0,
                crowd: 0.0,
                before: None,
                counted: None,
            },
            told: Duration::ZERO,
            untold: 0.0,
            rates: LinkRates::new(if worker { Of::Memory } else { Of::Last(WINDOWS) }),
        }
    }

    /// The longest round trip to a peer is that. What gets lost on a long way keeps back what comes
    /// behind it for one or two of them, and then all of that is there at once: a group must be
    /// longer, or it has only what came before, or after.
    pub(super) fn ways(&mut self, longest: Duration) {
        let slots = (longest * GROUP_ROUND_TRIPS).as_nanos() / SLOT.as_nanos();
        let slots = if longest < LONG_WAY { 0 } else { slots.min(GROUP_SLOTS_MAX.into()) };
        let slots = u32::try_from(slots).unwrap_or(GROUP_SLOTS_MAX);
        self.group_slots = slots.max(GROUP_SLOTS[usize::from(self.worker)]);
    }

    /// A peer is gone.
    pub(super) fn forget(&mut self, peer: NodeId) {
        self.peers.remove(&peer);
    }

    /// Something came.
    pub(super) fn add(&mut self, span: &BacklogSpan) {
        let (begin, end) = (number_of(span.first), number_of(span.last));
        // Of what took longer than all open slots only the end counts.
        for number in begin.max(end.saturating_sub(SLOTS_OPEN))..=end {
            let (inside, bytes) = span.inside(start_of(number), end_of(number));
            let full = self.is_full(span, number, inside);
            if let Some(slot) = self.slot(number) {
                slot.bytes += bytes;
                slot.full += u32::from(full);
            }
        }
        if !span.backlogged {
            self.peers.remove(&span.peer);
        }
        self.close();
    }

    /// Whether that makes it full of that peer, which it was not before.
    fn is_full(&mut self, span: &BacklogSpan, number: u64, inside: f64) -> bool {
        // Whether that peer shows what this node can receive.
        let counts = is_worker(span.peer) != self.worker;
        let room = self.peers.len() < MOST_PEERS || self.peers.contains_key(&span.peer);
        if !(span.backlogged && counts && room) {
            return false;
        }
        let counted = self.peers.entry(span.peer).or_default();
        if counted.slot != number {
            (counted.slot, counted.backlogged) = (number, 0.0);
        }
        counted.backlogged += inside;
        let full =
            counted.backlogged >= WINDOW_COVERED * SLOT.as_secs_f64() && counted.full <= number;
        if full {
            counted.full = number.saturating_add(1);
        }
        full
    }

    /// None: it is no longer open.
    fn slot(&mut self, number: u64) -> Option<&mut Slot> {
        let newest = self.open.back().map_or(0, |slot| slot.number);
        if number.saturating_add(SLOTS_OPEN) < newest {
            return None;
        }
        let index = self.open.partition_point(|slot| slot.number < number);
        if self.open.get(index).is_none_or(|slot| slot.number != number) {
            self.open.insert(index, Slot { number, bytes: 0.0, full: 0 });
        }
        self.open.get_mut(index)
    }

    /// Takes what is too old to be added to.
    fn close(&mut self) {
        let newest = self.open.back().map_or(0, |slot| slot.number);
        while let Some(slot) = self.open.front().copied()
            && slot.number.saturating_add(SLOTS_OPEN) < newest
        {
            self.open.pop_front();
            self.untold += slot.bytes;
            let rate = self.group.add(&slot, self.worker, self.group_slots);
            let end = end_of(slot.number);
            if rate.is_some() || end.saturating_sub(self.told) >= WINDOW {
                self.rates.add(end, std::mem::take(&mut self.untold), rate);
                self.told = end;
            }
        }
    }

    /// A probe came over an idle link: a card is no slower than that, whatever was known of it
    /// before. Of a card in use it says nothing: what it does while workers keep it full is known
    /// better than by 128 KB.
    pub(super) fn probed(&mut self, at: Duration, rate: f64) {
        let known = self.fastest(at);
        if known.is_some_and(|(known, ..)| rate > SURPASSED * known) && !self.is_in_use(at) {
            self.open.clear();
            self.group = SlotGroup::default();
            self.rates.surpassed(at, rate);
        }
    }

    /// True if a group counted in the time after which an idle link is probed first.
    fn is_in_use(&self, at: Duration) -> bool {
        let mut group = self.group;
        for slot in &self.open {
            group.add(slot, self.worker, self.group_slots);
        }
        let counted = group.counted.map(end_of);
        counted.is_some_and(|end| at.saturating_sub(end) <= FIRST_PROBE_AFTER)
    }

    /// Bytes per second that came in the faster ones of the groups until then, how many these are,
    /// and when the last of them ended. One in four may be faster: what had lain in buffers.
    pub(super) fn fastest(&self, settled: Duration) -> Option<(f64, u32, Duration)> {
        let mut group = self.group;
        let over = self.open.iter().filter(|slot| end_of(slot.number) <= settled);
        let newer = over.filter_map(|slot| {
            Some((end_of(slot.number), group.add(slot, self.worker, self.group_slots)?))
        });
        self.rates.upper_quartile(newer.collect::<Vec<_>>().into_iter())
    }
}

/// The slot in which that time lies.
fn number_of(time: Duration) -> u64 {
    u64::try_from(time.as_nanos() / SLOT.as_nanos()).unwrap_or(u64::MAX - 1)
}

/// When a slot begins.
fn start_of(number: u64) -> Duration {
    SLOT.saturating_mul(u32::try_from(number).unwrap_or(u32::MAX))
}

fn end_of(number: u64) -> Duration {
    start_of(number.saturating_add(1))
}
