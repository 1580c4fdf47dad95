//! What counts as held back by the link (`held`).

use super::*;

const SEGMENT: f64 = 1448.0;
/// The time between two looks, as an I/O thread has them.
const LOOK: Duration = Duration::from_millis(100);

const NONE: [f64; 0] = [];

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// One connection whose application always has more to send, or sends a little now and then.
struct Connection {
    info: TcpInfo,
    /// What this end's card carries of it, and the link behind, in bytes per second.
    card: f64,
    link: f64,
    /// Segments that may be under way, and the most that ever may: losses on the way keep it there.
    window: f64,
    window_max: f64,
    queue: f64,
    now: Duration,
    window_use: WindowUse,
    start: Instant,
}

impl Connection {
    fn new(way: Duration, link: f64, window_max: f64) -> Self {
        let info = TcpInfo { peer_window: None, ..TcpInfo::of(way) };
        let (window_use, start) = (WindowUse::default(), Instant::now());
        let (queue, now) = (link * 0.05, Duration::ZERO);
        let card = f64::INFINITY;
        Self { info, card, link, window: 10.0, window_max, queue, now, window_use, start }
    }

    /// Sends for so long, and gives the bytes that arrived.
    fn sends(&mut self, time: Duration) -> f64 {
        let way = self.info.shortest_round_trip.unwrap_or_default();
        let (mut arrived, mut under) = (0.0, 0.0);
        let end = self.now + time;
        while self.now < end {
            // In steps of a round trip, or what is left.
            let step = way.max(ms(1)).min(end - self.now);
            let under_way = self.window * SEGMENT;
            // What is beyond the link's own capacity waits in front of it.
            let waits = (under_way - self.link * way.as_secs_f64()).max(0.0);
            let round_trip = way.as_secs_f64() + waits / self.link;
            let rate = (under_way / round_trip).min(self.card);
            arrived += rate * step.as_secs_f64();
            self.info.round_trip = Duration::from_secs_f64(round_trip);
            self.info.busy += step;
            let full = waits > self.queue.max(self.link * way.as_secs_f64());
            // It grows only while it is in use.
            let sent = rate * round_trip / SEGMENT;
            let grows = if sent * 2.0 < self.window { 0.0 } else { step.as_secs_f64() };
            let by_card = rate * round_trip < under_way;
            let doubled = self.window * (1.0 + grows / round_trip);
            self.window = if full { self.window * 0.7 } else { doubled.min(self.window_max) };
            under = if by_card { sent } else { self.window };
            self.now += step;
        }
        self.info.window = self.window as u32;
        self.info.unconfirmed = under as u32;
        self.info.unsent = 64 << 10;
        self.info.confirmed += arrived as u64;
        arrived
    }

    /// Small messages, each of them under way for a whole round trip.
    fn sends_little(&mut self, time: Duration) -> f64 {
        self.now += time;
        self.info.busy += time;
        (self.info.unconfirmed, self.info.unsent) = (1, 0);
        let arrived = 1000.0 * time.as_secs_f64();
        self.info.confirmed += arrived as u64;
        arrived
    }

    /// At this moment; `paced`: for how long it was paced.
    fn seen(&mut self, paced: Duration) -> ChannelSeen {
        let waits_for = self.window_use.look(self.start + self.now, &self.info);
        ChannelSeen::of(&[(self.info, waits_for)], paced)
    }
}

/// What is taken for the rate of the card, and of the link behind it.
#[derive(Debug, Default, PartialEq)]
struct Measured {
    card: Vec<f64>,
    link: Vec<f64>,
}

const NOTHING: Measured = Measured { card: Vec::new(), link: Vec::new() };

/// What looks show that count entirely; of so many seconds.
fn measured(
    connection: &mut Connection,
    seconds: u64,
    mut sends: impl FnMut(&mut Connection, u64) -> f64,
) -> Measured {
    let start = Instant::now();
    let mut held = HeldBack::default();
    let mut rates = Measured::default();
    for look in 0..seconds * 10 {
        let before = held.total();
        let arrived = sends(connection, look);
        held.look(start + connection.now, connection.seen(Duration::ZERO));
        let rate = arrived / LOOK.as_secs_f64();
        if held.total() - before >= LOOK.mul_f64(0.8) {
            rates.card.push(rate);
        }
        if !held.at_this_end() {
            rates.link.push(rate);
        }
    }
    rates
}

/// Whatever the way, what counts is what the link carries.
#[test]
fn a_link_that_is_filled_is_measured() {
    for (way, link) in
        [(0, 62.5e6), (1, 62.5e6), (10, 12.5e6), (40, 12.5e6), (80, 12.5e6), (300, 6.25e6)]
    {
        let mut connection = Connection::new(ms(way), link, f64::INFINITY);
        let found = measured(&mut connection, 30, |one, _| one.sends(LOOK));
        let rates = found.link;
        assert!(rates.len() > 100, "{way} ms: {}", rates.len());
        assert_eq!(found.card.is_empty(), way > 10, "{way} ms: another card holds it back");
        // While TCP's window grows within a look, a short way shows less for that look.
        let from = usize::from(way < 20) * 2;
        let least = rates[from..].iter().copied().fold(f64::INFINITY, f64::min);
        assert!(least > 0.7 * link, "{way} ms: {least} of {link}");
    }
}

/// How connections share the card says nothing of the links behind it. All together they show what
/// the card carries.
#[test]
fn a_card_that_is_filled_says_nothing_of_the_link() {
    for (way, card) in [(15, 12.5e6), (40, 12.5e6), (80, 1.7e6), (80, 12.5e6), (300, 12.5e6)] {
        let mut connection = Connection { card, ..Connection::new(ms(way), 62.5e6, f64::INFINITY) };
        let found = measured(&mut connection, 30, |one, _| one.sends(LOOK));
        assert_eq!(found.link, NONE, "{way} ms");
        assert!(found.card.len() > 100, "{way} ms: {}", found.card.len());
        let least = found.card.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(least > 0.99 * card, "{way} ms: {least} of {card}");
    }
}

/// A kernel that spreads what it sends over a round trip, as BBR does, never fills a window. What
/// holds it back is the rate that it has found.
#[test]
fn a_kernel_that_paces_itself_is_not_held_by_the_card() {
    // Nearly two seconds of the link may be under way; a tenth of a second is.
    let mut info = TcpInfo { window: 15_000, peer_window: None, ..TcpInfo::of(ms(80)) };
    (info.round_trip, info.unconfirmed, info.unsent) = (ms(110), 900, 64 << 10);
    let (start, mut window_use, mut looks) = (Instant::now(), WindowUse::default(), 0);
    let mut look = |pace| {
        looks += 1;
        info.confirmed += 1_250_000;
        window_use.look(start + LOOK * looks, &TcpInfo { pace, ..info })
    };
    assert_eq!(look(None), ConnectionWait::Link, "nothing is known before");
    assert_eq!(look(Some(12_600_000)), ConnectionWait::Link);
    assert_eq!(look(None), ConnectionWait::Card);
    assert_eq!(look(Some(100_000_000)), ConnectionWait::Card);
}

/// A few bytes on their way, and a window that losses keep narrow, say nothing of a long way.
#[test]
fn what_the_link_does_not_hold_back_is_not_measured() {
    for way in [15, 40, 80, 300].map(ms) {
        let little = |one: &mut Connection, _| one.sends_little(LOOK);
        let mut connection = Connection::new(way, 12.5e6, f64::INFINITY);
        assert_eq!(measured(&mut connection, 30, little), NOTHING, "{way:?}");
        let mut lossy = Connection::new(way, 12.5e6, 12.0);
        let rates = measured(&mut lossy, 30, |one, _| one.sends(LOOK));
        assert_eq!(rates, NOTHING, "{way:?}, losses");
        // The same, always looked at when much was just confirmed.
        let rates = measured(&mut lossy, 30, |one, _| {
            let arrived = one.sends(LOOK);
            one.info.unconfirmed /= 2;
            arrived
        });
        assert_eq!(rates, NOTHING, "{way:?}, looked at after a confirmation");
        // Some small messages, then a burst that is over before the window is wide.
        let mut bursts = Connection::new(way, 125e6, f64::INFINITY);
        let rates = measured(&mut bursts, 30, |one, look| {
            if look % 10 < 2 {
                one.sends(LOOK)
            } else {
                one.window = 10.0;
                one.sends_little(LOOK)
            }
        });
        assert_eq!(rates, NOTHING, "{way:?}, bursts");
    }
}

/// What a pace would be made from does not become less because of what the pace holds back. Once a
/// long way was measured while next to nothing went out, and a pace by that kept it so.
#[test]
fn a_pace_does_not_feed_on_itself() {
    for way in [0, 40, 80, 300].map(ms) {
        let mut connection =
            Connection { card: 12.5e6, ..Connection::new(way, 62.5e6, f64::INFINITY) };
        connection.sends(ms(5000));
        let start = Instant::now();
        let (mut held, mut paced) = (HeldBack::default(), Duration::ZERO);
        for look in 0..100 {
            connection.sends(LOOK);
            // From the second second on.
            paced += if look >= 10 { LOOK } else { Duration::ZERO };
            let seen = connection.seen(paced);
            let before = held.total();
            held.look(start + connection.now, seen);
            assert!(look < 10 || held.total() == before, "{way:?}: look {look}");
        }
        assert!(held.total() >= ms(300), "{way:?}: {:?}", held.total());
    }
}

/// On a short way the kernel's count is the time.
#[test]
fn a_short_way_counts_whatever_is_under_way() {
    for way in [0, 1, 10].map(ms) {
        let mut connection = Connection::new(way, 12.5e6, f64::INFINITY);
        let rates = measured(&mut connection, 3, |one, _| one.sends_little(LOOK));
        assert_eq!((rates.card.len(), rates.link.len()), (29, 30), "{way:?}");
    }
}

/// Each fragment tells the peer whether it shows what the link carries.
#[test]
fn a_long_way_begins_with_the_window() {
    let start = Instant::now();
    let at_this_end = |way, after: u64| {
        let mut connection = Connection::new(ms(way), 12.5e6, f64::INFINITY);
        let mut held = HeldBack::default();
        held.look(start, connection.seen(Duration::ZERO));
        for _ in 0..after {
            connection.sends(LOOK);
            held.look(start + connection.now, connection.seen(Duration::ZERO));
        }
        held.at_this_end()
    };
    assert!(at_this_end(80, 0) && at_this_end(80, 2) && !at_this_end(80, 30));
    assert!(!at_this_end(1, 0) && !at_this_end(1, 1) && !at_this_end(10, 0));
}
