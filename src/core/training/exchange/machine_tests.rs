//! Any order of pushes and answers, and what each mode does in the plainest one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::wire::Key;
use crate::wire::exchange::ExchangeSpec;

const NOW: Duration = Duration::ZERO;

fn machine(text: &str) -> Exchange {
    Exchange::new(spec::parse(text).unwrap())
}

/// A push that is taken.
fn take(exchange: &mut Exchange, key: Key) -> (Vec<(Key, Act)>, Act) {
    let Push { before, turn } = exchange.push(NOW, key, 4);
    match turn {
        PushTurn::Taken(act) => (before, act),
        PushTurn::Held(hold) => panic!("{hold:?}"),
    }
}

/// An iteration over keys 1 to `keys`, which leaves nothing: what is done with each.
fn iterate(exchange: &mut Exchange, keys: u64) -> Vec<(bool, bool)> {
    let act = |key| {
        let (before, act) = take(exchange, key);
        assert_eq!(before, []);
        (act.swap, act.send)
    };
    (1..=keys).map(act).collect()
}

const NOTHING: (bool, bool) = (false, false);
const SENDS: (bool, bool) = (false, true);
const SWAPS: (bool, bool) = (true, false);
const BOTH: (bool, bool) = (true, true);

#[test]
fn the_published_form_swaps_and_sends_in_one_moment() {
    let mut exchange = machine("nbsync:published");
    assert_eq!(iterate(&mut exchange, 2), [SENDS; 2], "the first stretch is one step");
    assert_eq!(iterate(&mut exchange, 2), [NOTHING; 2]);
    assert!(exchange.answered(1).is_nothing());
    assert_eq!(iterate(&mut exchange, 2), [NOTHING; 2], "one value is not all of them");
    assert!(exchange.answered(2).is_nothing());
    assert_eq!(iterate(&mut exchange, 2), [BOTH; 2]);
    assert_eq!((exchange.counts().sent, exchange.counts().done), (2, 1));
    assert!(!exchange.withholds(1), "the program goes on");
}

#[test]
fn a_swap_of_one_section_waits_for_the_end_of_the_stretch() {
    let mut exchange = machine("nbsync:published,steps=3");
    for expected in [NOTHING, NOTHING, SENDS] {
        assert_eq!(iterate(&mut exchange, 1), [expected]);
    }
    exchange.answered(1);
    for expected in [NOTHING, NOTHING, BOTH] {
        assert_eq!(iterate(&mut exchange, 1), [expected]);
    }
}

/// An answer in the middle of an iteration changes nothing before the next one.
#[test]
fn no_iteration_has_half_a_swap() {
    let mut exchange = machine("nbsync:published");
    iterate(&mut exchange, 3);
    assert!(take(&mut exchange, 3).1.is_nothing());
    for key in 1..=3 {
        exchange.answered(key);
    }
    assert!(take(&mut exchange, 1).1.is_nothing() && take(&mut exchange, 2).1.is_nothing());
    assert_eq!(take(&mut exchange, 2).1, Act { swap: true, send: true });
    assert_eq!(take(&mut exchange, 1).1, Act { swap: true, send: true });
    let (before, _) = take(&mut exchange, 1);
    assert_eq!(before, [(3, Act { swap: true, send: true })], "what was not pushed follows");
    exchange.validate().unwrap();
}

#[test]
fn sections_take_turns_and_so_many_are_in_flight() {
    let mut exchange = machine("nbsync:sections=4,window=2");
    assert_eq!(iterate(&mut exchange, 4), [NOTHING; 4], "which sections there are is not known");
    assert_eq!(iterate(&mut exchange, 4), [SENDS, SENDS, NOTHING, NOTHING]);
    exchange.answered(2);
    assert_eq!(iterate(&mut exchange, 4), [NOTHING; 4], "the oldest comes first");
    exchange.answered(1);
    assert_eq!(iterate(&mut exchange, 4), [SWAPS, SWAPS, SENDS, SENDS]);
    exchange.answered(3);
    assert_eq!(iterate(&mut exchange, 4), [SENDS, NOTHING, SWAPS, NOTHING]);
    exchange.validate().unwrap();
}

/// A job of four sections in the middle of its third iteration: the fourth one's round is older
/// than that of the first, and its key is pushed last.
fn with_an_older_round_pushed_last() -> Exchange {
    let mut exchange = machine("nbsync:sections=4,window=4");
    iterate(&mut exchange, 4);
    assert_eq!(iterate(&mut exchange, 4), [SENDS; 4]);
    assert_eq!(exchange.turn(), None, "nobody knows what is pushed next");
    for key in 1..4 {
        exchange.answered(key);
    }
    assert_eq!(iterate(&mut exchange, 4), [BOTH, BOTH, BOTH, NOTHING]);
    exchange.answered(4);
    exchange.answered(1);
    assert_eq!(take(&mut exchange, 1).1, Act { swap: true, send: true });
    exchange
}

#[test]
fn what_is_sent_in_an_iteration_goes_in_the_order_of_rounds() {
    let mut exchange = with_an_older_round_pushed_last();
    assert_eq!((exchange.turn(), exchange.round_of(1)), (Some(7), Some(8)));
    assert_eq!((take(&mut exchange, 2).1, take(&mut exchange, 3).1), Default::default());
    assert_eq!(exchange.turn(), Some(7));
    assert_eq!(take(&mut exchange, 4).1, Act { swap: true, send: true });
    assert_eq!((exchange.turn(), exchange.round_of(4)), (None, Some(7)));
    exchange.validate().unwrap();
}

/// What is left out is awaited until the iteration is over, and not again before it was pushed
/// twice.
#[test]
fn a_key_that_is_left_out_keeps_nobody_longer_than_an_iteration() {
    let mut exchange = with_an_older_round_pushed_last();
    take(&mut exchange, 2);
    take(&mut exchange, 3);
    assert_eq!(exchange.turn(), Some(7));
    assert_eq!(take(&mut exchange, 1).0, [(4, Act { swap: true, send: true })]);
    assert_eq!(exchange.turn(), None);
    // Once more it is pushed, and then it is left out.
    take(&mut exchange, 2);
    take(&mut exchange, 3);
    take(&mut exchange, 4);
    for key in 1..=4 {
        exchange.answered(key);
    }
    take(&mut exchange, 1);
    assert!(exchange.turn().is_some_and(|round| round % 4 != 3), "{:?}", exchange.turn());
    take(&mut exchange, 2);
    take(&mut exchange, 3);
    assert_eq!(exchange.turn(), None, "one time is no habit");
    exchange.validate().unwrap();
}

#[test]
fn what_the_program_waits_for_goes_at_once() {
    let mut exchange = machine("fedavg:steps=1");
    (0..3).for_each(|_| {
        iterate(&mut exchange, 3);
        assert_eq!((exchange.turn(), exchange.round_of(2)), (None, None));
        (1..=3).for_each(|key| assert!(exchange.answered(key).swap));
    });
    let mut together = machine("nbsync:sections=2,window=2,every=3");
    (0..2).for_each(|_| drop(iterate(&mut together, 2)));
    (1..=2).for_each(|key| assert!(together.answered(key).is_nothing()));
    together.aligned();
    take(&mut together, 1);
    assert_eq!((together.turn(), together.round_of(1)), (None, None));
}

/// Else a worker would take the rest of its step for time that the network needs, and the fewer
/// rounds were in flight, the slower would the network seem.
#[test]
fn a_round_that_is_back_is_in_flight_no_more() {
    let mut exchange = machine("nbsync:sections=2,window=2");
    iterate(&mut exchange, 4);
    assert!(take(&mut exchange, 1).1.send);
    exchange.answered(1);
    assert_eq!(exchange.in_flight(), 2, "another key of its section follows");
    (2..=4).for_each(|key| assert!(take(&mut exchange, key).1.send));
    exchange.answered(2);
    assert_eq!(exchange.in_flight(), 1);
    exchange.answered(3);
    exchange.answered(4);
    assert_eq!((exchange.in_flight(), exchange.counts().done), (0, 0), "none is taken yet");
}

#[test]
fn the_window_is_the_schedulers_word_unless_the_job_was_told() {
    let mut exchange = machine("nbsync");
    assert_eq!(exchange.window(), 2);
    exchange.set_window(5);
    assert_eq!(exchange.window(), 5);
    exchange.set_window(99);
    assert_eq!(exchange.window(), 8);
    let mut told = machine("nbsync:window=3");
    told.set_window(5);
    assert_eq!(told.window(), 3);
}

#[test]
fn a_mode_that_waits_gives_out_no_value_before_the_global_one() {
    let mut exchange = machine("fedavg:steps=2");
    assert_eq!(iterate(&mut exchange, 2), [NOTHING; 2]);
    assert_eq!(iterate(&mut exchange, 2), [SENDS; 2]);
    assert!(exchange.withholds(1) && exchange.withholds(2));
    assert_eq!(exchange.push(NOW, 1, 4).turn, PushTurn::Held(Hold::Result), "nor may it compute");
    assert_eq!(exchange.oldest(), Some(1));
    assert_eq!(exchange.answered(1), Act { swap: true, send: false });
    assert!(!exchange.withholds(1) && exchange.withholds(2));
    assert_eq!(exchange.oldest(), Some(2));
    assert_eq!(exchange.push(NOW, 1, 4).turn, PushTurn::Held(Hold::Result));
    assert_eq!(exchange.answered(2), Act { swap: true, send: false });
    assert_eq!(iterate(&mut exchange, 2), [NOTHING; 2], "it is swapped once");
    assert_eq!(iterate(&mut exchange, 2), [SENDS; 2]);
    let mut faster = machine("esync:steps=2");
    faster.set_steps(4);
    let all: Vec<_> = (0..4).flat_map(|_| iterate(&mut faster, 1)).collect();
    assert_eq!(all, [NOTHING, NOTHING, NOTHING, SENDS]);
}

#[test]
fn a_worker_that_hears_nothing_is_held_and_goes_on_with_the_answer() {
    let mut exchange = machine("nbsync:published");
    for _ in 0..9 {
        iterate(&mut exchange, 1);
    }
    let at = Duration::from_secs;
    assert_eq!(exchange.push(at(1), 1, 4).turn, PushTurn::Held(Hold::Result));
    assert_eq!(
        exchange.push(at(2), 1, 4).turn,
        PushTurn::Held(Hold::Result),
        "as often as it asks"
    );
    exchange.answered(1);
    let act = Act { swap: true, send: true };
    assert_eq!(exchange.push(at(4), 1, 4), Push { before: vec![], turn: PushTurn::Taken(act) });
    assert_eq!(exchange.counts().held, at(3));
    assert_eq!(exchange.counts().iterations, 10);
}

/// Else the round for which it waits would never end.
#[test]
fn who_is_held_still_sends_what_it_did_not_push() {
    let mut exchange = machine("fedavg:steps=2");
    take(&mut exchange, 1);
    take(&mut exchange, 2);
    assert!(take(&mut exchange, 1).1.send);
    let before = vec![(2, Act { swap: false, send: true })];
    let turn = PushTurn::Held(Hold::Result);
    assert_eq!(exchange.push(NOW, 1, 4), Push { before, turn });
    assert_eq!(exchange.push(NOW, 1, 4), Push { before: vec![], turn }, "it is said once");
    assert_eq!(exchange.push(NOW, 2, 4).turn, turn, "what was sent without it is over");
    exchange.answered(1);
    exchange.answered(2);
    assert!(take(&mut exchange, 1).1.is_nothing());
}

#[test]
fn what_was_not_sent_is_not_answered() {
    let mut exchange = machine("fedavg:steps=1");
    assert!(exchange.answered(7).is_nothing());
    take(&mut exchange, 7);
    assert!(exchange.answered(8).is_nothing());
    assert!(!exchange.answered(7).is_nothing() && exchange.answered(7).is_nothing());
    exchange.validate().unwrap();
}

/// A worker, and what a ledger knows of it.
struct Played {
    exchange: Exchange,
    spec: ExchangeSpec,
    keys: u64,
    /// Steps of each key that were not sent.
    unsent: BTreeMap<Key, u64>,
    /// The round of the global model that each key has.
    rounds: BTreeMap<Key, u64>,
    under_way: BTreeSet<Key>,
    /// Values that are here and were not swapped.
    here: BTreeSet<Key>,
}

impl Played {
    fn new(text: &str, keys: u64) -> Self {
        let spec = spec::parse(text).unwrap();
        Self {
            exchange: Exchange::new(spec),
            spec,
            keys,
            unsent: BTreeMap::new(),
            rounds: BTreeMap::new(),
            under_way: BTreeSet::new(),
            here: BTreeSet::new(),
        }
    }

    fn act(&mut self, key: Key, act: Act) {
        if act.swap {
            assert!(self.here.remove(&key), "key {key} is swapped, and has no value");
            *self.rounds.entry(key).or_default() += 1;
        }
        if act.send {
            assert!(self.under_way.insert(key), "key {key} is sent twice");
            assert!(!self.here.contains(&key), "key {key} is sent before its value is taken");
            self.unsent.insert(key, 0);
        }
    }

    fn push(&mut self, key: Key) -> bool {
        let Push { before, turn } = self.exchange.push(NOW, key, key % 5);
        for (other, act) in &before {
            self.act(*other, *act);
        }
        self.look();
        match turn {
            PushTurn::Held(hold) => {
                assert_eq!(hold, Hold::Result);
                assert!(!self.under_way.is_empty(), "it is held, and nothing will free it");
                false
            }
            PushTurn::Taken(act) => {
                *self.unsent.entry(key).or_default() += 1;
                self.act(key, act);
                true
            }
        }
    }

    fn answer(&mut self, key: Key) {
        if self.under_way.remove(&key) {
            self.here.insert(key);
            let act = self.exchange.answered(key);
            assert_eq!(act, Act { swap: self.spec.waits, send: false });
            self.act(key, act);
        }
    }

    fn look(&self) {
        self.exchange.validate().unwrap();
        let most = if self.spec.sections == 1 { 1 } else { self.exchange.window() };
        assert!(self.exchange.counts().sent - self.exchange.counts().done <= most.into());
    }

    /// Ends: everything is sent once, and nothing stays under way.
    fn end(&mut self, order: &[usize]) {
        let mut order = order.iter().copied().cycle();
        for _ in 0..10_000 {
            let resting = self.exchange.rest(Rest::Own);
            resting.acts.iter().for_each(|(key, act)| self.act(*key, *act));
            self.exchange.validate().unwrap();
            if resting.is_done {
                assert!(resting.is_here && self.under_way.is_empty() && self.here.is_empty());
                assert!(self.unsent.values().all(|steps| *steps == 0), "{:?}", self.unsent);
                return;
            }
            assert!(!self.under_way.is_empty(), "it waits for nothing");
            let at = order.next().unwrap() % self.under_way.len();
            self.answer(*self.under_way.iter().nth(at).unwrap());
        }
        panic!("it does not end");
    }
}

const FORMS: [&str; 8] = [
    "nbsync:published",
    "nbsync:published,keep=1,steps=3",
    "nbsync:sections=2,window=1",
    "nbsync:sections=3,window=3",
    "nbsync:sections=4,window=2,steps=2",
    "nbsync",
    "fedavg:steps=3",
    "diloco:steps=1",
];

/// What happens: a push of one of the keys, or an answer to one of those under way.
fn events() -> impl Strategy<Value = Vec<(bool, usize)>> {
    proptest::collection::vec((any::<bool>(), 0..64_usize), 0..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// In whatever order, and whichever keys a program leaves out.
    #[test]
    fn any_order_of_pushes_and_answers(
        form in 0..FORMS.len(), keys in 1..7_u64, events in events(),
    ) {
        let mut played = Played::new(FORMS[form], keys);
        for (pushes, which) in &events {
            if *pushes {
                let key = *which as u64 % played.keys + 1;
                played.push(key);
            } else if !played.under_way.is_empty() {
                let at = which % played.under_way.len();
                let key = *played.under_way.iter().nth(at).unwrap();
                played.answer(key);
            }
        }
        let order: Vec<usize> = events.iter().map(|(_, which)| *which).chain([0]).collect();
        played.end(&order);
    }

    /// Where each iteration pushes all keys, all keys of a section are of one round when the next
    /// one begins.
    #[test]
    fn an_iteration_has_each_section_of_one_round(
        form in 0..FORMS.len(),
        keys in 1..7_u64,
        orders in proptest::collection::vec(any::<u64>(), 1..60),
    ) {
        let mut played = Played::new(FORMS[form], keys);
        for order in orders {
            let mut of_iteration: Vec<Key> = (1..=keys).collect();
            of_iteration.rotate_left((order % keys) as usize);
            for (i, key) in of_iteration.into_iter().enumerate() {
                while !played.push(key) {
                    let first = *played.under_way.first().unwrap();
                    played.answer(first);
                }
                // Answers come whenever they like.
                if order >> i & 1 == 1 && let Some(last) = played.under_way.last().copied() {
                    played.answer(last);
                }
            }
            if played.spec.waits {
                continue; // The program has no value before all are here.
            }
            let mut of_section = BTreeMap::<u64, u64>::new();
            for key in 1..=keys {
                let round = played.rounds.get(&key).copied().unwrap_or(0);
                let section = played.exchange.sections.of(key);
                prop_assert_eq!(*of_section.entry(section).or_insert(round), round);
            }
        }
    }
}
