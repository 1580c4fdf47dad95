//! Workers that align by words that are lost, come twice, or come late, with a scheduler that
//! forgets all and workers that die: all meet, and each goes on until the same round.

use std::time::Duration;

use super::coordinator::ExchangeOutbox;
use super::rest::Resting;
use super::*;
use crate::random::Random;
use crate::wire::NodeId;
use crate::wire::exchange::ExchangeSpec;
use crate::wire::exchange::word::{ExchangeId, ExchangeReport, ExchangeWord, Stage};

const OF: ExchangeId = ExchangeId { app: 0, customer: 3 };

fn spec(text: &str) -> ExchangeSpec {
    spec::parse(text).unwrap()
}

/// A worker that has nothing to exchange but words.
struct Worker {
    id: NodeId,
    aligning: Aligning,
    sent: u64,
    /// Meetings that it still goes to.
    left: u64,
    met: Vec<u64>,
    dead: bool,
}

impl Worker {
    fn report(&self) -> ExchangeReport {
        let report = ExchangeReport { of: OF, sent: self.sent, ..ExchangeReport::default() };
        self.aligning.report(report)
    }

    /// Goes on. True if it has something to say at once.
    fn step(&mut self, random: &mut Random) -> bool {
        let before = self.aligning;
        match self.aligning.rest() {
            None if self.left == 0 => self.aligning.leave(),
            None => {
                self.sent += random.below(3);
                if random.below(4) == 0 {
                    self.aligning.begin();
                }
            }
            Some(how) => {
                let is_here = random.below(2) == 0;
                let mut is_done = false;
                match how {
                    Rest::Open => self.sent += random.below(2),
                    Rest::Until(until) => {
                        assert!(self.sent <= until, "{} of {until}", self.sent);
                        self.sent = (self.sent + random.below(3)).min(until);
                        is_done = self.sent == until;
                    }
                    Rest::Own | Rest::Stopped => {}
                }
                if self.aligning.rested(&Resting { is_here, is_done, ..Resting::default() }) {
                    self.met.push(self.sent);
                    self.left -= 1;
                }
            }
        }
        self.aligning.stage() != before.stage()
    }
}

struct World {
    random: Random,
    workers: Vec<Worker>,
    coordinator: ExchangeCoordinator,
    up: Vec<(NodeId, ExchangeReport)>,
    down: ExchangeOutbox,
    /// So many percent of the words are lost.
    loss: u64,
}

impl World {
    fn new(seed: u64, meetings: &[u64], loss: u64) -> Self {
        let worker = |(at, left): (usize, &u64)| Worker {
            id: 9 + 2 * at as NodeId,
            aligning: Aligning::default(),
            sent: 0,
            left: *left,
            met: Vec::new(),
            dead: false,
        };
        let workers: Vec<Worker> = meetings.iter().enumerate().map(worker).collect();
        let mut world = Self {
            random: Random::new(seed),
            coordinator: ExchangeCoordinator::new(spec("nbsync:every=7")),
            workers,
            up: Vec::new(),
            down: Vec::new(),
            loss,
        };
        world.awaits();
        world
    }

    fn awaits(&mut self) {
        let living = self.workers.iter().filter(|worker| !worker.dead).map(|worker| worker.id);
        self.coordinator.awaits(living, &mut self.down);
    }

    /// A scheduler that was started again knows nobody's stage.
    fn forgets(&mut self) {
        self.coordinator = ExchangeCoordinator::new(*self.coordinator.spec());
        self.awaits();
    }

    fn dies(&mut self, at: usize) {
        self.workers[at].dead = true;
        self.coordinator.lost(self.workers[at].id, &mut self.down);
        self.awaits();
    }

    /// Words of one pair of nodes come in order; any pair's may be next.
    fn deliver(&mut self) {
        let lost = self.random.below(100) < self.loss;
        if !self.up.is_empty() && self.random.below(2) == 0 {
            let any = self.random.below(self.up.len() as u64) as usize;
            let from = self.up[any].0;
            let at = self.up.iter().position(|(id, _)| *id == from).unwrap();
            let (from, report) = self.up.remove(at);
            let lives = self.workers.iter().any(|worker| worker.id == from && !worker.dead);
            if lives && !lost {
                self.coordinator.handle(from, report, &mut self.down);
            }
        } else if !self.down.is_empty() {
            let any = self.random.below(self.down.len() as u64) as usize;
            let to = self.down[any].0;
            let at = self.down.iter().position(|(id, _)| *id == to).unwrap();
            let (to, word) = self.down.remove(at);
            if !lost && let Some(worker) = self.workers.iter_mut().find(|one| one.id == to) {
                worker.aligning.told(&word);
            }
        }
    }

    fn run(&mut self, mut fate: impl FnMut(&mut Self, u64)) {
        for step in 0..400_000 {
            let over = |worker: &Worker| worker.dead || worker.aligning.stage() == Stage::Left;
            if self.workers.iter().all(over) {
                return;
            }
            fate(self, step);
            let at = self.random.below(self.workers.len() as u64) as usize;
            if !self.workers[at].dead {
                // What has changed is said at once, and all now and then.
                let changed = self.workers[at].step(&mut self.random);
                if changed || self.random.below(10) == 0 {
                    self.up.push((self.workers[at].id, self.workers[at].report()));
                }
            }
            (0..self.random.below(4)).for_each(|_| self.deliver());
            self.coordinator.validate().unwrap();
        }
        let stages: Vec<(NodeId, &Aligning)> =
            self.workers.iter().map(|worker| (worker.id, &worker.aligning)).collect();
        panic!("they never meet: {stages:?}, {:?}", self.coordinator);
    }

    /// Those that live and came to a meeting came with equal numbers.
    fn are_equal(&self) {
        let living = || self.workers.iter().filter(|worker| !worker.dead);
        let most = living().map(|worker| worker.met.len()).max().unwrap_or(0);
        for meeting in 0..most {
            let mut met = living().filter_map(|worker| worker.met.get(meeting));
            let first = met.next();
            assert!(met.all(|sent| Some(sent) == first), "meeting {meeting} ends unequally");
        }
    }
}

#[test]
fn all_meet_whatever_is_lost() {
    for seed in 0..200 {
        let mut world = World::new(seed, &[5, 5, 5, 5], [0, 10, 40][seed as usize % 3]);
        world.run(|_, _| ());
        world.are_equal();
        assert!(world.workers.iter().all(|worker| worker.met.len() == 5));
    }
}

#[test]
fn nobody_waits_for_who_has_left() {
    for seed in 0..100 {
        let mut world = World::new(seed, &[2, 6, 4], 10);
        world.run(|_, _| ());
        world.are_equal();
    }
}

#[test]
fn a_scheduler_that_has_forgotten_all_learns_it_from_the_workers() {
    for seed in 0..200 {
        let mut world = World::new(seed, &[4, 4, 4], 10);
        world.run(|world, _| {
            if world.random.below(60) == 0 {
                world.forgets();
            }
        });
        world.are_equal();
    }
}

#[test]
fn nobody_waits_for_the_dead() {
    for seed in 0..200 {
        let mut world = World::new(seed, &[4, 4, 4, 4], 10);
        world.run(|world, step| {
            if step == 40 + seed || step == 100 + seed / 2 {
                world.dies(usize::from(step > 100 + seed / 3));
            }
        });
        world.are_equal();
    }
}

/// One that came back is not awaited, so it neither meets nor holds up a meeting.
#[test]
fn who_is_not_awaited_changes_nothing() {
    let mut world = World::new(1, &[3, 3], 0);
    let stranger = ExchangeReport { of: OF, ..ExchangeReport::default() };
    world.coordinator.handle(99, stranger, &mut world.down);
    world.run(|_, _| ());
    world.are_equal();
}

#[test]
fn a_worker_that_waits_hears_for_whom() {
    let mut coordinator = ExchangeCoordinator::new(spec("nbsync:every=7"));
    let mut out = ExchangeOutbox::new();
    coordinator.awaits([9, 11, 13], &mut out);
    let here =
        |stage: Stage| ExchangeReport { of: OF, stage: stage as i32, ..ExchangeReport::default() };
    coordinator.handle(11, here(Stage::Trains), &mut out);
    assert_eq!(out, []);
    coordinator.handle(9, here(Stage::Here), &mut out);
    let missing = vec![11, 13];
    let word = ExchangeWord { of: OF, missing, ..ExchangeWord::default() };
    assert_eq!(out, [(9, word)]);
}

// ---- what is measured ---------------------------------------------------------------------------

fn measured(step: u64, exchange: u64, window: u32, steps: u32) -> ExchangeReport {
    ExchangeReport { of: OF, step, exchange, window, steps, ..ExchangeReport::default() }
}

#[test]
fn the_window_follows_the_slowest_worker_by_one_at_a_time() {
    let mut coordinator = ExchangeCoordinator::new(spec("nbsync"));
    let mut out = ExchangeOutbox::new();
    coordinator.awaits([9, 11], &mut out);
    coordinator.tick(&mut out);
    assert_eq!(out, [], "nothing is measured");
    // An exchange takes as long as two steps of the slowest: 1 + 8 / 2.
    let mut window = 2;
    for expected in [3, 4, 5, 5] {
        coordinator.handle(9, measured(100_000, 900_000, window, 1), &mut out);
        coordinator.handle(11, measured(400_000, 800_000, window, 1), &mut out);
        coordinator.tick(&mut out);
        let said: Vec<(NodeId, u32)> = out.drain(..).map(|(to, word)| (to, word.window)).collect();
        let all = [(9, expected), (11, expected)];
        assert_eq!(said, if expected == window { &[][..] } else { &all[..] });
        window = expected;
    }
    // It left: the other one alone counts.
    let left = ExchangeReport { stage: Stage::Left as i32, ..measured(400_000, 800_000, 5, 1) };
    coordinator.handle(11, left, &mut out);
    coordinator.tick(&mut out);
    assert_eq!(out[0].1.window, 4);
}

#[test]
fn the_window_that_a_job_was_told_stays() {
    let mut coordinator = ExchangeCoordinator::new(spec("nbsync:window=3"));
    let mut out = ExchangeOutbox::new();
    coordinator.awaits([9], &mut out);
    coordinator.handle(9, measured(100_000, 900_000, 3, 1), &mut out);
    coordinator.tick(&mut out);
    assert_eq!(out, []);
}

/// ESync: the slowest takes the steps that were asked for, a faster one as many as fit.
#[test]
fn a_faster_worker_takes_more_steps() {
    let mut coordinator = ExchangeCoordinator::new(spec("esync:steps=2"));
    let mut out = ExchangeOutbox::new();
    coordinator.awaits([9, 11, 13], &mut out);
    for (node, step) in [(9, 100_000), (11, 390_000), (13, 400_000)] {
        coordinator.handle(node, measured(step, 1, 1, 2), &mut out);
    }
    coordinator.tick(&mut out);
    let said: Vec<(NodeId, u32)> = out.drain(..).map(|(to, word)| (to, word.steps)).collect();
    assert_eq!(said, [(9, 8), (11, 2), (13, 2)]);
    for (node, step, steps) in [(9, 100_000, 8), (11, 390_000, 2), (13, 400_000, 2)] {
        coordinator.handle(node, measured(step, 1, 1, steps), &mut out);
    }
    coordinator.tick(&mut out);
    assert_eq!(out, [], "all know it");
    // Whose step takes no time at all has a limit.
    coordinator.handle(9, measured(1, 1, 1, 8), &mut out);
    coordinator.tick(&mut out);
    assert_eq!(out[0].1.steps, 128);
}

#[test]
fn times_of_a_worker_are_reported_in_microseconds() {
    let mut gauge = Gauge::default();
    gauge.computed(Duration::from_millis(3));
    let report = gauge.report(Duration::ZERO, 1, ExchangeReport::default());
    assert_eq!((report.step, report.computed), (3000, 3000));
}
