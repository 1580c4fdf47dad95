//! What a sender keeps for one peer: messages that wait, messages partly sent, and messages not yet
//! confirmed. Decides what is sent next. No I/O; the time is an argument.

use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use std::time::{Duration, Instant};

use bytes::Bytes;
use smallvec::SmallVec;

use super::lend::Leases;
use super::types::Unsent;
use crate::carrier::SendMode;
use pslite_core::fifo::PriorityFifo;
use pslite_core::wire::native::{GRANULE, HEADER, Header, Kind, LENDABLE, LENT, WINDOW_MAX};

/// Messages of which a peer may have got only some fragments. Half of what the receiver allows,
/// since it may learn of an end later than of a beginning.
const BEGUN_MAX: usize = super::session::ASSEMBLIES_MAX / 2;
/// Bytes of a message that need not go over the first connection.
const LARGE: u64 = GRANULE as u64;
/// Room for control messages when data has none any more.
pub(super) const ASIDE_MAX: usize = 4096;
/// Room for messages whose senders neither wait nor are control, beside that of the others, and for
/// so many times the bytes of the others: one node's values on their way up and down.
pub(super) const QUEUED_MAX: usize = 16_384;
const QUEUED_BYTES: u64 = 2;
/// The largest queue that still fits the receiver's window.
const QUEUE_MAX: usize = WINDOW_MAX as usize / 2;
/// Heads kept for reuse, and how large they may be.
const SPARE_MAX: usize = 256;
const SPARE_BYTES_MAX: usize = 1024;
/// Classes whose last message is remembered, before those that are confirmed are forgotten, at
/// least.
const CLASSES_KEPT: usize = 1024;

/// What a probe consists of.
static PADDING: [u8; GRANULE] = [0; GRANULE];

// All of them together are in the receiver's window.
const _: () = assert!(QUEUE_MAX + ASIDE_MAX + QUEUED_MAX <= WINDOW_MAX as usize);

/// Slices for one gathered write.
pub(super) type WriteSlices<'a> = SmallVec<[IoSlice<'a>; 64]>;

/// Limits of an outbox.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) queue: usize,
    pub(super) bytes: u64,
    pub(super) fragment_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteProgress {
    Waiting,
    /// Some fragments are cut.
    Begun,
    /// Handed to the connection as a whole.
    Sent,
    /// Confirmed ahead of its turn.
    Confirmed,
}

#[derive(Debug)]
struct Stored {
    /// Lengths of the data frames, and the metadata.
    head: Vec<u8>,
    meta_len: u32,
    data: SmallVec<[Bytes; 3]>,
    /// Which frames are lent over the connection that it went to, and what stands for each of them.
    lent: u16,
    records: SmallVec<[[u8; LENT]; 1]>,
    /// Bytes of the frames.
    bytes: u64,
    /// Bytes that are sent for them.
    total: u64,
    /// Bytes of data that are cut into fragments.
    cut: u64,
    /// Bytes of data that a connection took.
    written: u64,
    class: i32,
    /// It has room apart ([`SendMode::Queue`]).
    queued: bool,
    after: u64,
    state: WriteProgress,
    since: Instant,
}

/// A fragment of a message on its way into a connection.
#[derive(Debug)]
pub(super) struct Fragment {
    sequence: u64,
    header: [u8; HEADER],
    offset: u64,
    len: u64,
    /// Bytes of header, head and data together that are written.
    pub(super) done: usize,
}

/// What has room apart.
#[derive(Clone, Copy, Debug, Default)]
struct Queued {
    messages: usize,
    bytes: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct FrameOutbox {
    limits: Limits,
    /// Unconfirmed messages by number; the first has number `first`.
    stored: VecDeque<Stored>,
    first: u64,
    waiting: PriorityFifo<u64>,
    begun: Vec<u64>,
    last_of_class: BTreeMap<i32, u64>,
    /// With more of them, those that are confirmed are forgotten.
    classes_kept: usize,
    /// Bytes of those that have no room apart.
    bytes: u64,
    queued: Queued,
    spare: Vec<Vec<u8>>,
    /// It goes more slowly than the way could carry it.
    paced: bool,
    /// What it waits for is at this end (`channel/held`).
    held_here: bool,
}

/// What a fragment says beside its data.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beside {
    /// The acknowledgement for the other direction that goes with it, as channel and number.
    pub(super) ack: Option<(u32, u64)>,
    /// It follows what was written before without a pause.
    pub(super) follows: bool,
}

/// What a connection that has room takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taker {
    /// Only what is worth a way of its own.
    pub(super) only_large: bool,
    /// Bytes of a fragment, at most.
    pub(super) most: usize,
}

impl Taker {
    /// Whatever comes next, as long as fragments may be.
    #[cfg(test)]
    pub(super) const ANY: Self = Self { only_large: false, most: usize::MAX };
}

impl FrameOutbox {
    pub(super) fn new(limits: Limits) -> Self {
        let fragment_bytes = limits.fragment_bytes.clamp(GRANULE, 1 << 30) / GRANULE * GRANULE;
        let queue = limits.queue.clamp(1, QUEUE_MAX);
        Self {
            limits: Limits { fragment_bytes, queue, ..limits },
            stored: VecDeque::new(),
            first: 1,
            waiting: PriorityFifo::new(),
            begun: Vec::new(),
            last_of_class: BTreeMap::new(),
            classes_kept: CLASSES_KEPT,
            bytes: 0,
            queued: Queued::default(),
            spare: Vec::new(),
            paced: false,
            held_here: false,
        }
    }

    /// True if there is room for a message of that much data.
    pub(super) fn has_room(&self, data: u64, mode: SendMode) -> bool {
        let fits = |bytes: u64, most: u64| bytes == 0 || bytes + data <= most;
        let others = self.stored.len() - self.queued.messages;
        match mode {
            SendMode::Block => others < self.limits.queue && fits(self.bytes, self.limits.bytes),
            SendMode::Queue => {
                self.queued.messages < QUEUED_MAX
                    && fits(self.queued.bytes, self.limits.bytes.saturating_mul(QUEUED_BYTES))
            }
            SendMode::Control => others < self.limits.queue + ASIDE_MAX,
        }
    }

    /// Takes a message of that class: the highest class goes first, and within one they keep their
    /// order.
    pub(super) fn push(
        &mut self,
        meta: &[u8],
        data: &[Bytes],
        class: i32,
        mode: SendMode,
        now: Instant,
    ) {
        let sequence = self.first + self.stored.len() as u64;
        let mut head = self.spare.pop().unwrap_or_default();
        head.clear();
        let mut total = 0;
        for frame in data {
            total += frame.len() as u64;
            head.extend_from_slice(&(frame.len() as u64).to_le_bytes());
        }
        head.extend_from_slice(meta);
        let after = self.last_of_class.insert(class, sequence).unwrap_or(0);
        if self.last_of_class.len() > self.classes_kept {
            let first = self.first;
            self.last_of_class.retain(|_, last| *last >= first);
            // They are looked at once for each one that comes, however many are under way.
            self.classes_kept = CLASSES_KEPT.max(2 * self.last_of_class.len());
        }
        let queued = mode == SendMode::Queue;
        if queued {
            self.queued.messages += 1;
            self.queued.bytes += total;
        } else {
            self.bytes += total;
        }
        self.stored.push_back(Stored {
            head,
            meta_len: meta.len() as u32,
            data: data.iter().cloned().collect(),
            lent: 0,
            records: SmallVec::new(),
            bytes: total,
            total,
            cut: 0,
            written: 0,
            class,
            queued,
            after,
            state: WriteProgress::Waiting,
            since: now,
        });
        self.waiting.push(class, sequence);
    }

    fn index(&self, sequence: u64) -> Option<usize> {
        let index = sequence.checked_sub(self.first)? as usize;
        (index < self.stored.len()).then_some(index)
    }

    /// True if nothing is to be cut into fragments any more.
    pub(super) const fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.begun.is_empty()
    }

    /// Sets whether data are sent more slowly than the link could carry them. Frames then tell the
    /// peer that nothing more waits, so that it concludes nothing about the link.
    pub(super) const fn set_paced(&mut self, paced: bool) {
        self.paced = paced;
    }

    /// Sets whether data wait for something at this end alone, on a long way: TCP's window, or the
    /// card. The peer is told the same, but what follows each other still shows what a connection
    /// carries, which is what trees go by.
    pub(super) const fn set_held_here(&mut self, held_here: bool) {
        self.held_here = held_here;
    }

    /// True if everything is confirmed.
    pub(super) fn is_empty(&self) -> bool {
        self.stored.is_empty()
    }

    /// Messages that are not wholly handed to a connection.
    pub(super) const fn waiting(&self) -> usize {
        self.waiting.len() + self.begun.len()
    }

    /// Messages that are not confirmed.
    pub(super) fn unconfirmed(&self) -> usize {
        self.stored.len()
    }

    /// The next fragment to write. `leases`: the connection's, if it has any.
    pub(super) fn next_fragment(
        &mut self,
        Beside { ack, follows }: Beside,
        Taker { only_large, most }: Taker,
        leases: Option<&mut Leases>,
    ) -> Option<Fragment> {
        let sequence = if only_large { self.choose_large()? } else { self.choose()? };
        let index = self.index(sequence)?;
        let fragment_bytes = self.limits.fragment_bytes.min(most) as u64;
        let message = &mut self.stored[index];
        if let Some(leases) = leases.filter(|_| message.state == WriteProgress::Waiting) {
            message.lend(leases);
        }
        let (offset, len) = (message.cut, (message.total - message.cut).min(fragment_bytes));
        message.cut += len;
        if message.cut == message.total {
            self.begun.retain(|begun| *begun != sequence);
            message.state = WriteProgress::Sent;
        } else if message.state == WriteProgress::Waiting {
            message.state = WriteProgress::Begun;
            self.begun.push(sequence);
        }
        let (ack_channel, ack) = ack.unwrap_or_default();
        let header = Header {
            kind: Kind::Message,
            frames: message.data.len() as u8,
            lent: message.lent,
            meta_len: message.meta_len,
            fragment_len: len as u32,
            sequence,
            after: message.after,
            offset,
            ack,
            ack_channel,
            more: !self.paced && !self.held_here && !self.is_idle(),
            follows: !self.paced && follows,
        };
        Some(Fragment { sequence, header: header.encode(), offset, len, done: 0 })
    }

    /// The most urgent: of equals, one that is begun.
    fn choose(&mut self) -> Option<u64> {
        match (self.most_urgent_begun(), self.waiting.next_priority()) {
            (Some((class, begun)), waiting)
                if self.begun.len() >= BEGUN_MAX || waiting.is_none_or(|other| class >= other) =>
            {
                Some(begun)
            }
            _ => self.waiting.pop(),
        }
    }

    /// What a further connection takes: of what is begun, else a message that is worth a way of its
    /// own. It is delivered in its turn, whatever comes first.
    fn choose_large(&mut self) -> Option<u64> {
        if let Some((_, begun)) = self.most_urgent_begun() {
            return Some(begun);
        }
        let next = self.index(*self.waiting.peek()?)?;
        if self.stored[next].total < LARGE {
            return None;
        }
        self.waiting.pop()
    }

    /// Class and number. There is at most one of each class.
    fn most_urgent_begun(&self) -> Option<(i32, u64)> {
        let class = |sequence: u64| self.index(sequence).map(|index| self.stored[index].class);
        self.begun.iter().filter_map(|n| Some((class(*n)?, *n))).max()
    }

    /// What of a fragment is still to be written.
    pub(super) fn slices<'a>(&'a self, fragment: &'a Fragment, out: &mut WriteSlices<'a>) {
        let mut skip = fragment.done;
        let mut add = |bytes: &'a [u8]| {
            if skip >= bytes.len() {
                skip -= bytes.len();
            } else {
                out.push(IoSlice::new(&bytes[skip..]));
                skip = 0;
            }
        };
        add(&fragment.header);
        if fragment.sequence == 0 {
            // No message: nothing, or padding.
            return add(&PADDING[..(fragment.len as usize).min(GRANULE)]);
        }
        let Some(index) = self.index(fragment.sequence) else { return };
        let message = &self.stored[index];
        add(&message.head);
        let (mut begin, end) = (0, fragment.offset + fragment.len);
        for frame in message.frames() {
            let (low, high) = (fragment.offset.max(begin), end.min(begin + frame.len() as u64));
            if low < high {
                add(&frame[(low - begin) as usize..(high - begin) as usize]);
            }
            begin += frame.len() as u64;
        }
    }

    /// Length of a fragment in the connection, in bytes.
    pub(super) fn len_of(&self, fragment: &Fragment) -> usize {
        let head = self.index(fragment.sequence).map_or(0, |index| self.stored[index].head.len());
        HEADER + head + fragment.len as usize
    }

    /// A connection took the whole fragment. If it was the last one of a message: how long the
    /// message took.
    pub(super) fn wrote(&mut self, fragment: &Fragment, now: Instant) -> Option<Duration> {
        let index = self.index(fragment.sequence)?;
        let message = &mut self.stored[index];
        message.written += fragment.len;
        (message.written >= message.total).then(|| now.saturating_duration_since(message.since))
    }

    /// Everything up to that message arrived; false if it was not even sent.
    pub(super) fn confirm(&mut self, upto: u64) -> bool {
        while self.first <= upto {
            let Some(front) = self.stored.front() else { return false };
            let gone = front.state == WriteProgress::Confirmed
                || front.state == WriteProgress::Sent && front.written >= front.total;
            if !gone {
                return false;
            }
            self.drop_front();
        }
        true
    }

    fn drop_front(&mut self) {
        let Some(front) = self.stored.pop_front() else { return };
        self.first += 1;
        if front.queued {
            self.queued.messages -= 1;
            self.queued.bytes -= front.bytes;
        } else {
            self.bytes -= front.bytes;
        }
        if self.spare.len() < SPARE_MAX && front.head.capacity() <= SPARE_BYTES_MAX {
            self.spare.push(front.head);
        }
    }

    /// A new connection to the same life of the peer, which has all messages up to `received` and
    /// those in `beyond`: the others go again. False if it cannot be the same.
    pub(super) fn resume(&mut self, received: u64, beyond: &[u64]) -> bool {
        if received < self.first - 1 || received - (self.first - 1) > self.stored.len() as u64 {
            return false;
        }
        while self.first <= received {
            self.drop_front();
        }
        for sequence in beyond {
            if let Some(index) = self.index(*sequence) {
                self.stored[index].state = WriteProgress::Confirmed;
            }
        }
        self.begun.clear();
        self.waiting = PriorityFifo::new();
        for (sequence, message) in (self.first..).zip(&mut self.stored) {
            if message.state != WriteProgress::Confirmed {
                message.state = WriteProgress::Waiting;
                message.unlend();
                (message.cut, message.written) = (0, 0);
                self.waiting.push(message.class, sequence);
            }
        }
        true
    }

    /// Gives all messages back, in the order in which they came; none of them was sent.
    pub(super) fn take_all(&mut self) -> Vec<Unsent> {
        let all = std::mem::replace(self, Self::new(self.limits)).stored.into_iter();
        all.map(|message| {
            let lengths = message.data.len() * size_of::<u64>();
            let meta = message.head.get(lengths..).unwrap_or_default().to_vec();
            Unsent { meta, data: message.data, priority: message.class }
        })
        .collect()
    }

    /// Another life of the peer, which has all messages up to `received`: what the former one did
    /// not confirm is lost. How many messages.
    pub(super) fn abandon(&mut self, received: u64) -> usize {
        let lost = self.stored.len();
        let spare = std::mem::take(&mut self.spare);
        *self = Self { spare, first: received + 1, ..Self::new(self.limits) };
        lost
    }
}

impl Stored {
    /// Lends what can be lent instead of sending it.
    fn lend(&mut self, leases: &mut Leases) {
        let entries = self.head.as_chunks_mut::<8>().0;
        for (number, (frame, entry)) in self.data.iter().zip(entries).enumerate() {
            if LENDABLE >> number & 1 == 0 {
                continue;
            }
            if let Some(record) = leases.lend(frame) {
                self.lent |= 1 << number;
                self.records.push(record);
                *entry = (LENT as u64).to_le_bytes();
                self.total = self.total - frame.len() as u64 + LENT as u64;
            }
        }
    }

    /// The connection over which it was lent has ended: as it was before.
    fn unlend(&mut self) {
        let entries = self.head.as_chunks_mut::<8>().0;
        for (frame, entry) in self.data.iter().zip(entries) {
            *entry = (frame.len() as u64).to_le_bytes();
        }
        (self.lent, self.total) = (0, self.bytes);
        self.records.clear();
    }

    /// The bytes that are sent for each frame.
    fn frames(&self) -> impl Iterator<Item = &[u8]> {
        let mut records = self.records.iter();
        self.data.iter().enumerate().map(move |(number, frame)| {
            let lent = u32::from(self.lent) >> number & 1 != 0;
            let record = if lent { records.next() } else { None };
            record.map_or(&frame[..], |record| &record[..])
        })
    }
}

impl Fragment {
    /// Padding of a probe, from there on. `more`: it may show what the link carries.
    pub(super) fn padding(offset: u64, follows: bool, more: bool) -> Self {
        let (len, fragment_len) = (GRANULE as u64, GRANULE as u32);
        let header = Header { offset, fragment_len, more, follows, ..Header::new(Kind::Probe) };
        Self { sequence: 0, header: header.encode(), offset, len, done: 0 }
    }

    /// A frame that is no message.
    pub(super) fn bare(kind: Kind) -> Self {
        Self { sequence: 0, header: Header::new(kind).encode(), offset: 0, len: 0, done: 0 }
    }
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
