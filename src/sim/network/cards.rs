//! Cards that many connections share a chunk at a time, as TCP shares them: what kept connections
//! carry where [`Chunks`] are configured. Each connection has a window. A card sends for its
//! connections in turn, and receives in the order in which chunks come. Of a connection's messages
//! the most urgent goes first, by its class; a small message behind a large one of the same class
//! waits for it, and one of another connection does not.
//!
//! Knows bytes and times, and what a data plane would measure of them. Draws no chance.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::between_sites::BetweenSites;
use super::lines::{PassTimes, Rates};
use super::{ConnectionId, Process};
use pslite_core::wire::native::PROBE_BYTES;

/// How data are cut.
#[derive(Clone, Copy, Debug)]
pub struct Chunks {
    /// Bytes of a chunk.
    pub bytes: u64,
    /// Chunks of a connection that are under way at a time, at most.
    pub window: usize,
    /// For how many bytes one byte of values stands.
    pub weight: u64,
}

/// A chunk that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkArrival {
    /// The connection.
    pub connection: ConnectionId,
    /// Its bytes.
    pub bytes: u64,
    /// When its first and its last byte were there.
    pub first: Duration,
    /// See `first`.
    pub last: Duration,
    /// Its sender had more for this connection when it sent it.
    pub more: bool,
    /// It came right after the one before it on its connection.
    pub follows: bool,
    /// What it is of.
    pub of: ChunkOf,
}

/// What a chunk belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkOf {
    /// A message.
    Message,
    /// It is a whole probe of an idle link.
    Probe,
    /// Padding, which shows what a link in use carries.
    Padding,
}

/// What went over a connection so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CarriedBytes {
    /// Bytes that have arrived.
    pub bytes: u64,
    /// Bytes of probes that were sent.
    pub padding: u64,
    /// For how long something was under way, or waited for that.
    pub busy: Duration,
    /// For how long something waited.
    pub held: Duration,
}

/// What happens next to a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChunkStep {
    /// It has left its sender's card.
    Left(Chunk),
    /// It has passed a link between sites.
    Passed(Chunk),
    /// The receiver's card has let it in.
    Landed(Chunk),
}

/// A chunk under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub(super) connection: ConnectionId,
    pub(super) epoch: u32,
    bytes: u64,
    began: Duration,
    first: Duration,
    last: Duration,
    more: bool,
    follows: bool,
    /// Links between sites that it has passed, or is on.
    passed: usize,
    sending: Sending,
    /// That ends with it.
    ends: bool,
}

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    /// The message of that number on its connection.
    Message(u64),
    Probe,
    Padding,
}

/// Of which connection, in which of its lives, and between whom.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowEnds {
    pub(super) connection: ConnectionId,
    pub(super) epoch: u32,
    pub(super) from: Process,
    pub(super) to: Process,
}

/// A message, as cards see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageLoad {
    /// Its number on its connection.
    pub(super) number: u64,
    /// Of two messages the one of the higher class goes first.
    pub(super) class: i32,
    /// Bytes of its values.
    pub(super) values: usize,
}

/// The place of a message among those that wait: the most urgent first, of equals the oldest.
type SendTurn = (Reverse<i32>, u64);

/// A step, and when it is due.
pub(super) type DueStep = (Duration, ChunkStep);

#[derive(Debug)]
struct SharedCard {
    rates: Rates,
    /// A chunk is on its way out.
    sends: bool,
    /// Connections that have something to send, in turn.
    turn: VecDeque<ConnectionId>,
    /// When it has let in what has come.
    free_at: Duration,
}

#[derive(Debug, Default)]
struct ChunkFlow {
    from: Process,
    to: Process,
    epoch: u32,
    /// What is to be sent, and the bytes that are left of it.
    waiting: BTreeMap<SendTurn, (Sending, u64)>,
    /// How often something was to be sent.
    sendings: u64,
    under_way: usize,
    carried: CarriedBytes,
    /// When `carried` was brought up to date.
    noted: Duration,
    /// The last chunk has left, and the next one leaves after a pause.
    paused: bool,
}

impl ChunkFlow {
    /// Something is under way, or waits for that.
    fn is_busy(&self) -> bool {
        self.under_way > 0 || !self.waiting.is_empty()
    }

    /// A probe waits for more to be sent of it.
    fn is_probed(&self) -> bool {
        let last = self.waiting.last_key_value();
        last.is_some_and(|(_, (sending, _))| !matches!(sending, Sending::Message(_)))
    }

    fn note(&mut self, now: Duration) {
        let passed = now.saturating_sub(std::mem::replace(&mut self.noted, now));
        let waits = !self.waiting.is_empty();
        if waits || self.under_way > 0 {
            self.carried.busy += passed;
        }
        if waits {
            self.carried.held += passed;
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Cards {
    chunks: Chunks,
    /// What is between the cards of processes at different sites.
    pub(super) sites: BetweenSites,
    cards: BTreeMap<Process, SharedCard>,
    flows: BTreeMap<ConnectionId, ChunkFlow>,
    came: BTreeMap<Process, Vec<ChunkArrival>>,
}

/// A card without a limit is as fast as that, in bytes a second.
const FAST: u64 = 10_000_000_000;
/// Bytes that show what a link in use carries (`native/channel/probing`).
const LONG_PROBE: u64 = 2 * PROBE_BYTES;
/// Bytes of a message beside its values.
const HEAD: u64 = 100;

/// How long so many bytes take.
pub(super) fn time(bytes: u64, rate: u64) -> Duration {
    Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / rate.max(1))
}

impl Cards {
    pub(super) fn new(chunks: Chunks) -> Self {
        Self {
            chunks,
            sites: BetweenSites::default(),
            cards: BTreeMap::new(),
            flows: BTreeMap::new(),
            came: BTreeMap::new(),
        }
    }

    fn card(&mut self, process: Process) -> &mut SharedCard {
        let rates = Rates { up: FAST, down: FAST };
        let fresh =
            || SharedCard { rates, sends: false, turn: VecDeque::new(), free_at: Duration::ZERO };
        self.cards.entry(process).or_insert_with(fresh)
    }

    pub(super) fn set_rates(&mut self, process: Process, rates: Option<Rates>) {
        self.card(process).rates = rates.unwrap_or(Rates { up: FAST, down: FAST });
    }

    /// A message is to go over a connection.
    pub(super) fn send(
        &mut self,
        now: Duration,
        ends: FlowEnds,
        load: MessageLoad,
    ) -> Option<DueStep> {
        let bytes = (load.values as u64).saturating_mul(self.chunks.weight) + HEAD;
        self.add(now, ends, Sending::Message(load.number), load.class, bytes)
    }

    /// Padding is to go over a connection, if that carries nothing now; of a link in use, whenever
    /// nothing else is to be sent.
    pub(super) fn probe(&mut self, now: Duration, ends: FlowEnds, in_use: bool) -> Option<DueStep> {
        let connection = ends.connection;
        let flow = self.flows.get(&connection);
        if flow.is_some_and(|flow| !in_use && flow.is_busy() || flow.is_probed()) {
            return None;
        }
        let (sending, bytes) = match in_use {
            true => (Sending::Padding, LONG_PROBE),
            false => (Sending::Probe, PROBE_BYTES),
        };
        let due = self.add(now, ends, sending, i32::MIN, bytes);
        if let Some(flow) = self.flows.get_mut(&connection) {
            flow.carried.padding += bytes;
        }
        due
    }

    fn add(
        &mut self,
        now: Duration,
        ends: FlowEnds,
        sending: Sending,
        class: i32,
        bytes: u64,
    ) -> Option<DueStep> {
        let FlowEnds { connection, epoch, from, to } = ends;
        let flow = self.flows.entry(connection).or_default();
        flow.note(now);
        if flow.waiting.is_empty() {
            flow.paused = true;
        }
        (flow.from, flow.to, flow.epoch) = (from, to, epoch);
        flow.sendings += 1;
        flow.waiting.insert((Reverse(class), flow.sendings), (sending, bytes));
        self.offer(connection);
        self.go_on(now, from)
    }

    /// It has its turn, if it may send.
    fn offer(&mut self, connection: ConnectionId) {
        let Some(flow) = self.flows.get(&connection) else { return };
        let may = !flow.waiting.is_empty() && flow.under_way < self.chunks.window;
        let from = flow.from;
        let card = self.card(from);
        if may && !card.turn.contains(&connection) {
            card.turn.push_back(connection);
        }
    }

    /// The card sends the next chunk, if it sends none.
    fn go_on(&mut self, now: Duration, process: Process) -> Option<DueStep> {
        let most = self.chunks.bytes;
        let card = self.card(process);
        if card.sends {
            return None;
        }
        let rate = card.rates.up;
        loop {
            let connection = self.card(process).turn.pop_front()?;
            let Some(flow) = self.flows.get_mut(&connection) else { continue };
            flow.note(now);
            let Some(mut first) = flow.waiting.first_entry() else { continue };
            let (sending, left) = *first.get();
            // A probe goes as a whole.
            let bytes = if sending == Sending::Probe { left } else { left.min(most) };
            let ends = left == bytes;
            match ends {
                true => _ = first.remove(),
                false => first.get_mut().1 = left - bytes,
            }
            flow.under_way += 1;
            let follows = !std::mem::replace(&mut flow.paused, false);
            let (epoch, more) = (flow.epoch, !flow.waiting.is_empty());
            let (began, first, last) = (now, now, now);
            let passed = 0;
            let chunk = Chunk {
                connection,
                epoch,
                bytes,
                began,
                first,
                last,
                more,
                follows,
                passed,
                sending,
                ends,
            };
            self.card(process).sends = true;
            self.offer(connection);
            return Some((now + time(bytes, rate), ChunkStep::Left(chunk)));
        }
    }

    /// A chunk has left. `way`: how long it is under way. When it has landed; and when the next one
    /// has left.
    pub(super) fn left(
        &mut self,
        now: Duration,
        chunk: Chunk,
        from: Process,
        way: Duration,
    ) -> [Option<DueStep>; 2] {
        self.card(from).sends = false;
        let chunk = Chunk { first: chunk.began, last: now, ..chunk };
        [self.passed(chunk, way), self.go_on(now, from)]
    }

    /// A chunk has passed the last thing on its way, by its own times. When it has passed the next
    /// link between sites, or else has landed.
    pub(super) fn passed(&mut self, chunk: Chunk, way: Duration) -> Option<DueStep> {
        let flow = self.flows.get(&chunk.connection).filter(|flow| flow.epoch == chunk.epoch)?;
        let ends = [flow.from, flow.to];
        let left = PassTimes { first: chunk.first, last: chunk.last };
        if let Some(times) = self.sites.carry(ends, chunk.passed, left, chunk.bytes) {
            let PassTimes { first, last } = times;
            let chunk = Chunk { first, last, passed: chunk.passed + 1, ..chunk };
            return Some((last, ChunkStep::Passed(chunk)));
        }
        let card = self.card(ends[1]);
        let first = (left.first + way).max(card.free_at);
        let last = (left.last + way).max(first + time(chunk.bytes, card.rates.down));
        card.free_at = last;
        Some((last, ChunkStep::Landed(Chunk { first, last, ..chunk })))
    }

    /// A chunk has landed. The number of the message that ends with it; and when the next one has
    /// left.
    pub(super) fn landed(&mut self, now: Duration, chunk: Chunk) -> (Option<u64>, Option<DueStep>) {
        let Chunk { connection, epoch, bytes, first, last, more, follows, sending, ends, .. } =
            chunk;
        let flow = self.flows.get_mut(&connection).filter(|flow| flow.epoch == epoch);
        let Some(flow) = flow else { return (None, None) };
        flow.note(now);
        flow.under_way -= 1;
        flow.carried.bytes += bytes;
        let (from, to) = (flow.from, flow.to);
        let of = match sending {
            Sending::Message(_) => ChunkOf::Message,
            Sending::Probe => ChunkOf::Probe,
            Sending::Padding => ChunkOf::Padding,
        };
        let fragment = ChunkArrival { connection, bytes, first, last, more, follows, of };
        self.came.entry(to).or_default().push(fragment);
        self.offer(connection);
        let message = match sending {
            Sending::Message(number) if ends => Some(number),
            Sending::Message(_) | Sending::Probe | Sending::Padding => None,
        };
        (message, self.go_on(now, from))
    }

    /// A connection broke: nothing of it is under way any more.
    pub(super) fn forget(&mut self, connection: ConnectionId) {
        self.flows.remove(&connection);
    }

    /// What came in at a process since the last call.
    pub(super) fn take_came(&mut self, process: Process) -> Vec<ChunkArrival> {
        self.came.remove(&process).unwrap_or_default()
    }

    /// What went over a connection so far.
    pub(super) fn carried(
        &mut self,
        now: Duration,
        connection: ConnectionId,
    ) -> Option<CarriedBytes> {
        let flow = self.flows.get_mut(&connection)?;
        flow.note(now);
        Some(flow.carried)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNKS: Chunks = Chunks { bytes: 1000, window: 4, weight: 1 };
    const SECOND: Duration = Duration::from_secs(1);

    /// Plays what is due to the end; when each message has arrived, by its connection.
    fn played(
        cards: &mut Cards,
        mut due: Vec<DueStep>,
        way: Duration,
    ) -> Vec<(ConnectionId, Duration)> {
        let mut arrived = Vec::new();
        while let Some(next) = (0..due.len()).min_by_key(|at| due[*at].0) {
            let (now, step) = due.remove(next);
            match step {
                ChunkStep::Left(chunk) => {
                    let from = cards.flows[&chunk.connection].from;
                    due.extend(cards.left(now, chunk, from, way).into_iter().flatten());
                }
                ChunkStep::Passed(chunk) => due.extend(cards.passed(chunk, way)),
                ChunkStep::Landed(chunk) => {
                    let (ends, more) = cards.landed(now, chunk);
                    due.extend(more);
                    if ends.is_some() {
                        arrived.push((chunk.connection, now));
                    }
                }
            }
        }
        arrived
    }

    fn cards(rates: &[(Process, u64, u64)]) -> Cards {
        let mut cards = Cards::new(CHUNKS);
        for (process, up, down) in rates {
            cards.set_rates(*process, Some(Rates { up: *up, down: *down }));
        }
        cards
    }

    fn ends(connection: ConnectionId, from: Process, to: Process) -> FlowEnds {
        FlowEnds { connection, epoch: 0, from, to }
    }

    const fn load(values: usize) -> MessageLoad {
        MessageLoad { number: 0, class: 0, values }
    }

    fn near(time: Duration, seconds: f64) -> bool {
        (time.as_secs_f64() - seconds).abs() < 0.1 * seconds
    }

    #[test]
    fn two_senders_share_a_receiver_and_a_sender_its_connections() {
        let mut cards = cards(&[(1, 1_000_000, 1), (2, 1_000_000, 1), (3, 1, 1_000_000)]);
        let mut due = Vec::new();
        for from in [1, 2] {
            due.extend(cards.send(Duration::ZERO, ends(from, from, 3), load(500_000)));
        }
        let arrived = played(&mut cards, due, Duration::ZERO);
        assert!(arrived.iter().all(|(_, at)| near(*at, 1.0)), "{arrived:?}");
        let mut cards = self::cards(&[(1, 1_000_000, 1)]);
        let due: Vec<DueStep> = [2, 3]
            .into_iter()
            .filter_map(|to| cards.send(Duration::ZERO, ends(to, 1, to), load(500_000)))
            .collect();
        let arrived = played(&mut cards, due, Duration::ZERO);
        assert!(arrived.iter().all(|(_, at)| near(*at, 1.0)), "{arrived:?}");
    }

    /// A slow receiver keeps its own connection waiting, and no other one.
    #[test]
    fn a_slow_receiver_holds_up_nobody_else() {
        let mut cards = cards(&[(1, 1_000_000, 1), (2, 1, 10_000), (3, 1, 1_000_000)]);
        let due: Vec<DueStep> = [(2, 100_000), (3, 900_000)]
            .into_iter()
            .filter_map(|(to, bytes)| cards.send(Duration::ZERO, ends(to, 1, to), load(bytes)))
            .collect();
        let arrived = played(&mut cards, due, Duration::from_millis(1));
        let at = |id| arrived.iter().find(|(connection, _)| *connection == id).unwrap().1;
        assert!(near(at(3), 0.95) && near(at(2), 10.0), "{arrived:?}");
        let carried = cards.carried(at(2), 2).unwrap();
        assert!(near(carried.busy, 10.0) && near(carried.held, 9.7), "{carried:?}");
        assert_eq!(carried.bytes, 100_000 + HEAD);
        let came = cards.take_came(2);
        assert_eq!(came.iter().map(|one| one.bytes).sum::<u64>(), 100_000 + HEAD);
        assert!(came.iter().all(|one| one.first < one.last), "{came:?}");
        assert!(!came[0].follows && came[1].follows && came[1].more);
        assert!(!came.last().unwrap().more && cards.take_came(2).is_empty());
    }

    #[test]
    fn messages_of_a_connection_keep_their_order_and_a_break_forgets_them() {
        let mut cards = cards(&[(1, 1_000_000, 1)]);
        let mut due: Vec<DueStep> = Vec::new();
        for bytes in [1_000_000, 0] {
            due.extend(cards.send(Duration::ZERO, ends(7, 1, 2), load(bytes)));
        }
        let arrived = played(&mut cards, due, Duration::ZERO);
        assert!(arrived.len() == 2 && arrived.iter().all(|(_, at)| near(*at, 1.0)), "{arrived:?}");
        let due = cards.send(SECOND, ends(7, 1, 2), load(10_000));
        cards.forget(7);
        // The card is free again once the chunk that it sends has left.
        let (now, step) = due.unwrap();
        let ChunkStep::Left(chunk) = step else { panic!("{step:?}") };
        assert!(cards.left(now, chunk, 1, Duration::ZERO).iter().all(Option::is_none));
        assert!(cards.send(now, ends(8, 1, 2), load(1)).is_some());
    }
}
