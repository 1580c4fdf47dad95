//! Cards that many connections share a chunk at a time, as TCP shares them: what kept connections
//! carry where [`Chunks`] are configured. Each connection has a window. A card sends for its
//! connections in turn, and receives in the order in which chunks come. A small message behind a
//! large one of the same connection waits for it; one of another connection does not.
//!
//! Knows bytes and times, and what a data plane would measure of them. Draws no chance.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::lines::Rates;
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
    /// It is a whole probe of the link, and belongs to no message.
    pub probe: bool,
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
    /// What ends with it; nothing, if more of its message follows.
    ends: Option<Sending>,
}

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    Message,
    Probe,
}

/// Of which connection, in which of its lives, and between whom.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowEnds {
    pub(super) connection: ConnectionId,
    pub(super) epoch: u32,
    pub(super) from: Process,
    pub(super) to: Process,
}

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
    waiting: VecDeque<(Sending, u64)>,
    under_way: usize,
    carried: CarriedBytes,
    /// When `carried` was brought up to date.
    noted: Duration,
    /// The last chunk has left, and the next one leaves after a pause.
    paused: bool,
}

impl ChunkFlow {
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
    cards: BTreeMap<Process, SharedCard>,
    flows: BTreeMap<ConnectionId, ChunkFlow>,
    came: BTreeMap<Process, Vec<ChunkArrival>>,
}

/// A card without a limit is as fast as that, in bytes a second.
const FAST: u64 = 10_000_000_000;
/// Bytes of a message beside its values.
const HEAD: u64 = 100;

fn time(bytes: u64, rate: u64) -> Duration {
    Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / rate.max(1))
}

impl Cards {
    pub(super) const fn new(chunks: Chunks) -> Self {
        Self { chunks, cards: BTreeMap::new(), flows: BTreeMap::new(), came: BTreeMap::new() }
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

    /// A message with so many bytes of values is to go over a connection.
    pub(super) fn send(&mut self, now: Duration, ends: FlowEnds, values: usize) -> Option<DueStep> {
        let bytes = (values as u64).saturating_mul(self.chunks.weight) + HEAD;
        self.add(now, ends, Sending::Message, bytes)
    }

    /// Padding is to go over a connection, if that carries nothing now.
    pub(super) fn probe(&mut self, now: Duration, ends: FlowEnds) -> Option<DueStep> {
        let connection = ends.connection;
        let flow = self.flows.get(&connection);
        if flow.is_some_and(|flow| flow.under_way > 0 || !flow.waiting.is_empty()) {
            return None;
        }
        let due = self.add(now, ends, Sending::Probe, PROBE_BYTES);
        if let Some(flow) = self.flows.get_mut(&connection) {
            flow.carried.padding += PROBE_BYTES;
        }
        due
    }

    fn add(
        &mut self,
        now: Duration,
        ends: FlowEnds,
        sending: Sending,
        bytes: u64,
    ) -> Option<DueStep> {
        let FlowEnds { connection, epoch, from, to } = ends;
        let flow = self.flows.entry(connection).or_default();
        flow.note(now);
        if flow.waiting.is_empty() {
            flow.paused = true;
        }
        (flow.from, flow.to, flow.epoch) = (from, to, epoch);
        flow.waiting.push_back((sending, bytes));
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
            let Some((sending, left)) = flow.waiting.front_mut() else { continue };
            // A probe goes as a whole.
            let bytes = if *sending == Sending::Probe { *left } else { (*left).min(most) };
            *left -= bytes;
            let ends = (*left == 0).then_some(*sending);
            if ends.is_some() {
                flow.waiting.pop_front();
            }
            flow.under_way += 1;
            let follows = !std::mem::replace(&mut flow.paused, false);
            let (epoch, more) = (flow.epoch, !flow.waiting.is_empty());
            let (began, first, last) = (now, now, now);
            let chunk = Chunk { connection, epoch, bytes, began, first, last, more, follows, ends };
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
        let flow = self.flows.get(&chunk.connection).filter(|flow| flow.epoch == chunk.epoch);
        let landed = flow.map(|flow| flow.to).map(|to| {
            let card = self.card(to);
            let first = (chunk.began + way).max(card.free_at);
            let last = (now + way).max(first + time(chunk.bytes, card.rates.down));
            card.free_at = last;
            (last, ChunkStep::Landed(Chunk { first, last, ..chunk }))
        });
        [landed, self.go_on(now, from)]
    }

    /// A chunk has landed. Whether a message ends with it; and when the next one has left.
    pub(super) fn landed(&mut self, now: Duration, chunk: Chunk) -> (bool, Option<DueStep>) {
        let Chunk { connection, epoch, bytes, first, last, more, follows, ends, .. } = chunk;
        let flow = self.flows.get_mut(&connection).filter(|flow| flow.epoch == epoch);
        let Some(flow) = flow else { return (false, None) };
        flow.note(now);
        flow.under_way -= 1;
        flow.carried.bytes += bytes;
        let (from, to) = (flow.from, flow.to);
        let probe = ends == Some(Sending::Probe);
        let fragment = ChunkArrival { connection, bytes, first, last, more, follows, probe };
        self.came.entry(to).or_default().push(fragment);
        self.offer(connection);
        (ends == Some(Sending::Message), self.go_on(now, from))
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
                ChunkStep::Landed(chunk) => {
                    let (ends, more) = cards.landed(now, chunk);
                    due.extend(more);
                    if ends {
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

    fn near(time: Duration, seconds: f64) -> bool {
        (time.as_secs_f64() - seconds).abs() < 0.1 * seconds
    }

    #[test]
    fn two_senders_share_a_receiver_and_a_sender_its_connections() {
        let mut cards = cards(&[(1, 1_000_000, 1), (2, 1_000_000, 1), (3, 1, 1_000_000)]);
        let mut due = Vec::new();
        for from in [1, 2] {
            due.extend(cards.send(Duration::ZERO, ends(from, from, 3), 500_000));
        }
        let arrived = played(&mut cards, due, Duration::ZERO);
        assert!(arrived.iter().all(|(_, at)| near(*at, 1.0)), "{arrived:?}");
        let mut cards = self::cards(&[(1, 1_000_000, 1)]);
        let due: Vec<DueStep> = [2, 3]
            .into_iter()
            .filter_map(|to| cards.send(Duration::ZERO, ends(to, 1, to), 500_000))
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
            .filter_map(|(to, bytes)| cards.send(Duration::ZERO, ends(to, 1, to), bytes))
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
            due.extend(cards.send(Duration::ZERO, ends(7, 1, 2), bytes));
        }
        let arrived = played(&mut cards, due, Duration::ZERO);
        assert!(arrived.len() == 2 && arrived.iter().all(|(_, at)| near(*at, 1.0)), "{arrived:?}");
        let due = cards.send(SECOND, ends(7, 1, 2), 10_000);
        cards.forget(7);
        // The card is free again once the chunk that it sends has left.
        let (now, step) = due.unwrap();
        let ChunkStep::Left(chunk) = step else { panic!("{step:?}") };
        assert!(cards.left(now, chunk, 1, Duration::ZERO).iter().all(Option::is_none));
        assert!(cards.send(now, ends(8, 1, 2), 1).is_some());
    }
}
