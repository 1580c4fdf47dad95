//! Several workers with a server in miniature: every job ends, whoever is faster, leaves early or
//! has other keys, and all are equal where they align, and when the iteration of all together is
//! over that follows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::*;
use crate::random::Random;
use crate::wire::Key;

/// A round of a key: it is over when everybody has sent that has not left.
#[derive(Default)]
struct Server {
    here: BTreeMap<Key, BTreeSet<usize>>,
    rounds: BTreeMap<Key, u64>,
    left: BTreeSet<usize>,
}

struct Worker {
    exchange: Exchange,
    /// Iterations that it computes.
    iterations: u64,
    done: u64,
    keys: Vec<Key>,
    /// What is left of this iteration.
    rest: Vec<Key>,
    /// The round of each key.
    rounds: BTreeMap<Key, u64>,
    here: BTreeMap<Key, u64>,
    unsent: BTreeMap<Key, u64>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Computes,
    Ends,
    Left,
    /// It is at an alignment.
    Aligns(Rest),
    /// It is at one, and says so; then that it has stopped; then that it is done.
    Says(Rest),
}

struct World {
    random: Random,
    server: Server,
    workers: Vec<Worker>,
    /// At the last alignment.
    equal: u64,
}

impl World {
    fn new(seed: u64, text: &str, iterations: &[u64], keys: impl Fn(usize) -> Vec<Key>) -> Self {
        let spec = spec::parse(text).unwrap();
        let worker = |(i, iterations): (usize, &u64)| Worker {
            exchange: Exchange::new(spec),
            iterations: *iterations,
            done: 0,
            keys: keys(i),
            rest: Vec::new(),
            rounds: BTreeMap::new(),
            here: BTreeMap::new(),
            unsent: BTreeMap::new(),
            state: State::Computes,
        };
        let workers = iterations.iter().enumerate().map(worker).collect();
        Self { random: Random::new(seed), server: Server::default(), workers, equal: 0 }
    }

    fn act(&mut self, i: usize, key: Key, act: Act) {
        let worker = &mut self.workers[i];
        if act.swap {
            let round = worker.here.remove(&key).expect("a value");
            assert!(worker.rounds.insert(key, round).is_none_or(|before| before < round));
        }
        if act.send {
            worker.unsent.insert(key, 0);
            assert!(self.server.here.entry(key).or_default().insert(i), "sent twice");
        }
    }

    /// Ends the rounds that are complete.
    fn serve(&mut self) {
        let all: BTreeSet<usize> = (0..self.workers.len()).collect();
        let awaited: BTreeSet<usize> = all.difference(&self.server.left).copied().collect();
        let over = |here: &BTreeSet<usize>| !here.is_empty() && here.is_superset(&awaited);
        let over: Vec<Key> =
            self.server.here.iter().filter(|(_, here)| over(here)).map(|(key, _)| *key).collect();
        for key in over {
            let here = self.server.here.remove(&key).unwrap();
            let round = self.server.rounds.entry(key).or_default();
            *round += 1;
            let round = *round;
            for i in here {
                self.workers[i].here.insert(key, round);
                let act = self.workers[i].exchange.answered(key);
                self.act(i, key, act);
            }
        }
    }

    fn step(&mut self, i: usize) {
        match self.workers[i].state {
            State::Computes => self.compute(i),
            State::Ends => {
                let resting = self.workers[i].exchange.rest(Rest::Own);
                resting.acts.iter().for_each(|(key, act)| self.act(i, *key, *act));
                if resting.is_done {
                    assert!(self.workers[i].unsent.values().all(|steps| *steps == 0));
                    assert!(self.workers[i].here.is_empty());
                    self.workers[i].state = State::Left;
                    self.server.left.insert(i);
                }
            }
            State::Aligns(how) => {
                let resting = self.workers[i].exchange.rest(how);
                resting.acts.iter().for_each(|(key, act)| self.act(i, *key, *act));
                let says = match how {
                    Rest::Open => resting.is_here,
                    Rest::Stopped => true,
                    _ => resting.is_done,
                };
                if says {
                    self.workers[i].state = State::Says(how);
                }
            }
            // It takes part until it hears that all are there.
            State::Says(Rest::Open) => {
                let resting = self.workers[i].exchange.rest(Rest::Open);
                resting.acts.iter().for_each(|(key, act)| self.act(i, *key, *act));
            }
            State::Says(_) | State::Left => {}
        }
        self.workers[i].exchange.validate().unwrap();
    }

    fn compute(&mut self, i: usize) {
        let worker = &mut self.workers[i];
        if worker.rest.is_empty() {
            if worker.done == worker.iterations {
                worker.state = State::Ends;
                return;
            }
            worker.done += 1;
            worker.rest.clone_from(&worker.keys);
            let from = self.random.below(worker.rest.len() as u64) as usize;
            worker.rest.rotate_left(from);
        }
        let key = *worker.rest.last().unwrap();
        let Push { before, turn } = worker.exchange.push(Duration::ZERO, key, 4);
        before.into_iter().for_each(|(other, act)| self.act(i, other, act));
        let worker = &mut self.workers[i];
        match turn {
            PushTurn::Held(Hold::Result) => {}
            PushTurn::Held(Hold::Align) => worker.state = State::Aligns(Rest::Open),
            PushTurn::Taken(act) => {
                worker.rest.pop();
                *worker.unsent.entry(key).or_default() += 1;
                self.act(i, key, act);
            }
        }
    }

    /// The scheduler: all that have not left say the same.
    fn schedule(&mut self) {
        let here: Vec<&Worker> =
            self.workers.iter().filter(|worker| worker.state != State::Left).collect();
        let all = |how| !here.is_empty() && here.iter().all(|w| w.state == State::Says(how));
        let sent = here.iter().map(|worker| worker.exchange.counts().sent).max().unwrap_or(0);
        let next = if all(Rest::Open) {
            State::Aligns(Rest::Stopped)
        } else if all(Rest::Stopped) {
            State::Aligns(Rest::Until(sent))
        } else if all(Rest::Until(sent)) {
            let first = &here[0].rounds;
            assert!(here.iter().all(|worker| worker.rounds == *first), "not equal");
            assert!(here.iter().all(|w| w.here.is_empty() && w.unsent.values().all(|n| *n == 0)));
            self.equal += 1;
            self.workers.iter_mut().for_each(|worker| worker.exchange.aligned());
            State::Computes
        } else {
            return;
        };
        for worker in self.workers.iter_mut().filter(|worker| worker.state != State::Left) {
            worker.state = next;
        }
    }

    fn run(&mut self) {
        for _ in 0..2_000_000 {
            if self.workers.iter().all(|worker| worker.state == State::Left) {
                return;
            }
            // One of them is much slower than the others.
            let all = self.workers.len() as u64;
            let i = self.random.below(4 * all).min(all - 1 + self.random.below(all)) % all;
            self.step(i as usize);
            if self.random.below(3) == 0 {
                self.serve();
            }
            self.schedule();
        }
        let states: Vec<State> = self.workers.iter().map(|worker| worker.state).collect();
        panic!("it does not end: {states:?}, {:?}", self.server.here);
    }
}

const FORMS: [&str; 6] = [
    "nbsync",
    "nbsync:sections=3,window=1",
    "nbsync:sections=4,window=4,steps=2",
    "nbsync:published",
    "fedavg:steps=3",
    "diloco:steps=1",
];

#[test]
fn every_job_ends_whoever_is_done_first() {
    for seed in 0..300 {
        let form = FORMS[seed as usize % FORMS.len()];
        let iterations = [seed % 13, 3 + seed % 40, 50];
        World::new(seed, form, &iterations, |_| (1..=5).collect()).run();
    }
}

/// The first iteration of one has keys that another one has later, so they cut otherwise.
#[test]
fn workers_that_have_cut_otherwise_do_not_wait_for_each_other() {
    for seed in 0..100 {
        let mut world = World::new(seed, "nbsync:sections=3,window=1", &[20, 30], |i| {
            if i == 0 { vec![2, 3, 4, 5] } else { vec![1, 2, 3, 4, 5] }
        });
        for _ in 0..4 {
            world.compute(0);
        }
        world.workers[0].keys.push(1);
        world.run();
    }
}

#[test]
fn all_are_equal_where_they_align() {
    for seed in 0..120 {
        let form = FORMS[seed as usize % FORMS.len()];
        let form = format!("{form}{}every=7", if form.contains(':') { "," } else { ":" });
        let mut world = World::new(seed, &form, &[30, 30, 30], |_| (1..=5).collect());
        world.run();
        assert_eq!(world.equal, 4, "{form}: before iterations 7, 14, 21 and 28");
    }
}

/// A worker that ends early is not awaited where the others align.
#[test]
fn who_has_left_is_not_missed_where_others_align() {
    for seed in 0..60 {
        let mut world =
            World::new(seed, "nbsync:sections=3,every=5", &[3, 22, 22], |_| (1..=4).collect());
        world.run();
        assert_eq!(world.equal, 4);
    }
}
