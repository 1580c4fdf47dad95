//! Workers and the scheduler over connections that break, with workers that die, come back, leave
//! and open the next session of the same name. Whatever happens, no sample of an iteration is
//! computed by two, and where nobody was lost none is left out. Seeds decide what happens;
//! `PSLITE_TEST_SEEDS` says how many are played.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::*;
use crate::random::Random;
use crate::wire::balance::{BalanceMessage, BalanceOpen, BalanceReport, BalanceRule};
use crate::wire::worker_id;

const TOTAL: u32 = 40;
const LENGTH: u64 = 130;
/// Iterations of an epoch.
const PER_EPOCH: u64 = LENGTH / TOTAL as u64;
/// Iterations of a phase, where each phase of a training has a session of its own.
const PHASE: u64 = 5;
/// Between the numbers of the iterations of two phases.
const APART: u64 = 1 << 32;

/// One worker's process, its two directions to the scheduler, and what it has begun.
struct Process {
    worker: Participant,
    up: VecDeque<BalanceMessage>,
    down: VecDeque<BalanceMessage>,
    begun: VecDeque<Batch>,
    speed: f64,
    /// In which life of its id it is.
    life: u64,
}

/// Who had which part: of an iteration, or of an epoch where batches are dealt.
#[derive(Default)]
struct Ledger(BTreeMap<u64, Vec<(u64, u64, Owner)>>);

/// A rank and its process.
type Owner = (usize, u64);

struct World {
    coordinator: Coordinator,
    processes: Vec<Option<Process>>,
    random: Random,
    now: Duration,
    rule: BalanceRule,
    instance: u64,
    /// What the job does without those that die.
    gone: Gone,
    lookahead: u32,
    ledger: Ledger,
    /// Processes that died: what they had may be given to others.
    dead: Vec<Owner>,
    /// Workers that have ended by themselves.
    over: Vec<bool>,
    /// Iterations that a worker begins in one session, and how many sessions it has closed.
    limit: u64,
    phases: Vec<u64>,
    /// The first iteration, and how many iterations of each epoch are computed: the others are
    /// skipped.
    first: u64,
    computes: Option<fn(u64) -> u64>,
}

impl World {
    fn new(seed: u64, members: usize, rule: BalanceRule) -> Self {
        let mut world = Self {
            coordinator: Coordinator::default(),
            processes: (0..members).map(|_| None).collect(),
            random: Random::new(seed),
            now: Duration::ZERO,
            rule,
            instance: 0,
            gone: Gone::HasLeft,
            lookahead: 1 + seed as u32 % 3,
            ledger: Ledger::default(),
            dead: Vec::new(),
            over: vec![false; members],
            limit: u64::MAX,
            phases: vec![0; members],
            first: 0,
            computes: None,
        };
        (0..members).for_each(|rank| world.start(rank));
        world
    }

    fn start(&mut self, rank: usize) {
        self.instance += 1;
        self.over[rank] = false;
        let open = BalanceOpen {
            length: LENGTH,
            total: TOTAL,
            members: self.processes.len() as u32,
            quantum: 1,
            rule: self.rule as i32,
            lookahead: self.lookahead,
            min: 1,
            rank: rank as u32,
            instance: self.instance,
            epochs: 3,
            first: self.first,
            ..BalanceOpen::default()
        };
        let (worker, message) = Participant::open("a", open, self.now).unwrap();
        let speed = 1.0 + 3.0 * self.random.unit();
        let (up, down, begun) = ([message].into(), VecDeque::new(), VecDeque::new());
        let came_back = self.dead.iter().any(|(dead, _)| *dead == rank);
        let life = if self.gone == Gone::IsMissed && came_back { self.instance } else { 0 };
        self.processes[rank] = Some(Process { worker, up, down, begun, speed, life });
    }

    /// A message goes to the scheduler, and its answers on their way.
    fn up(&mut self, rank: usize) {
        let life = self.processes[rank].as_ref().map_or(0, |process| process.life);
        let Some(message) = self.processes[rank].as_mut().and_then(|p| p.up.pop_front()) else {
            return;
        };
        let mut out = Outbox::new();
        self.coordinator.handle(Worker { node: worker_id(rank), life }, &message, &mut out);
        self.send(out);
    }

    fn send(&mut self, out: Outbox) {
        self.coordinator.validate().unwrap();
        for (to, message) in out {
            let rank = crate::wire::id_to_rank(to) as usize;
            if let Some(process) = &mut self.processes[rank] {
                process.down.push_back(message);
            }
        }
    }

    fn down(&mut self, rank: usize) {
        let Some(process) = &mut self.processes[rank] else { return };
        let Some(message) = process.down.pop_front() else { return };
        let mut out = Vec::new();
        process.worker.received(self.now, &message, &mut out);
        process.worker.validate().unwrap();
        process.up.extend(out);
    }

    /// Takes a batch, as a loader does ahead of time.
    fn take(&mut self, rank: usize) {
        let Some(process) = &mut self.processes[rank] else { return };
        let next = process.worker.progress().0;
        if next >= self.limit {
            return;
        }
        if process.worker.is_answered() && self.computes.is_some_and(|of| leaves(of, next)) {
            return self.leave(rank);
        }
        let Some(process) = &mut self.processes[rank] else { return };
        let mut out = Vec::new();
        let turn = process.worker.next(self.now, &mut out);
        process.worker.validate().unwrap();
        process.up.extend(out);
        match turn {
            Turn::Batch(batch) => {
                process.begun.push_back(batch);
                let owner = (rank, process.worker.settings().instance);
                let of =
                    if self.rule == BalanceRule::Dealt { batch.epoch } else { batch.iteration };
                self.ledger.0.entry(of + self.phases[rank] * APART).or_default().push((
                    batch.place,
                    u64::from(batch.size),
                    owner,
                ));
            }
            Turn::Wait => {}
            Turn::End => self.over[rank] = true,
            Turn::Refused(why) => panic!("rank {rank}: {why}"),
        }
    }

    /// An epoch is left early.
    fn leave(&mut self, rank: usize) {
        let Some(process) = &mut self.processes[rank] else { return };
        if process.begun.is_empty() {
            let next = process.worker.progress().0;
            process.up.extend(process.worker.skip((next / PER_EPOCH + 1) * PER_EPOCH).unwrap());
            process.worker.validate().unwrap();
        }
    }

    fn report(&mut self, rank: usize) {
        let Some(process) = &mut self.processes[rank] else { return };
        let Some(batch) = process.begun.pop_front() else { return };
        let seconds = f64::from(batch.size) / process.speed * (0.9 + 0.2 * self.random.unit());
        let report = BalanceReport { seconds, cpu: 1.0, memory: 0.5 };
        let said = process.worker.report(batch.iteration, report).unwrap();
        process.up.extend(said);
    }

    /// The connection breaks: all that is under way is lost.
    fn cut(&mut self, rank: usize) {
        if let Some(process) = &mut self.processes[rank] {
            process.up.clear();
            process.down.clear();
        }
    }

    /// Closes the session, and opens the next one of that name over the same connection.
    fn go_on(&mut self, rank: usize) {
        let Some(mut old) = self.processes[rank].take() else { return };
        old.up.extend(old.worker.close());
        self.phases[rank] += 1;
        self.start(rank);
        let process = self.processes[rank].as_mut().unwrap();
        let opening = std::mem::replace(&mut process.up, old.up);
        process.up.extend(opening);
        process.down = old.down;
    }

    fn die(&mut self, rank: usize) {
        let Some(process) = self.processes[rank].take() else { return };
        self.dead.push((rank, process.worker.settings().instance));
        let mut out = Outbox::new();
        self.coordinator.lost(worker_id(rank), self.gone, &mut out);
        self.send(out);
    }

    fn tick(&mut self) {
        self.now += Duration::from_millis(400);
        for process in self.processes.iter_mut().flatten() {
            let mut out = Vec::new();
            process.worker.tick(self.now, &mut out);
            process.up.extend(out);
        }
    }

    /// One step of one worker. `faults`: whether anything goes wrong.
    fn step(&mut self, faults: bool) {
        let rank = self.random.below(self.processes.len() as u64) as usize;
        // A session that nobody takes part in is forgotten: one worker at least stays.
        let others = self.processes.iter().enumerate().filter(|(other, _)| *other != rank);
        let stays =
            |(_, p): (usize, &Option<Process>)| p.as_ref().is_some_and(|p| p.worker.is_answered());
        let may_die = others.into_iter().any(stays);
        match self.random.below(if faults { 103 } else { 100 }) {
            0..30 => self.up(rank),
            30..60 => self.down(rank),
            60..75 => self.take(rank),
            75..95 => self.report(rank),
            95..100 => self.tick(),
            100 => self.cut(rank),
            101 if may_die => self.die(rank),
            _ if self.processes[rank].is_none() => self.start(rank),
            _ => {}
        }
    }

    fn lowest(&self) -> u64 {
        let progress = self.processes.iter().flatten().map(|p| p.worker.progress().1);
        progress.min().unwrap_or(0)
    }

    fn highest(&self) -> u64 {
        let progress = self.processes.iter().flatten().map(|p| p.worker.progress().0);
        progress.max().unwrap_or(0)
    }
}

impl Ledger {
    /// No two processes of which both live have the same sample.
    fn is_disjoint(&self, dead: &[Owner]) {
        for (of, parts) in &self.0 {
            let mut parts: Vec<_> = parts.iter().filter(|part| !dead.contains(&part.2)).collect();
            parts.sort_unstable();
            for pair in parts.windows(2) {
                assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{of}: {pair:?}");
            }
        }
    }

    /// All samples were taken.
    fn is_whole(&self, of: u64, from: u64, length: u64) {
        let mut parts = self.0.get(&of).cloned().unwrap_or_default();
        parts.sort_unstable();
        let mut end = from;
        for (place, size, owner) in parts {
            assert!(place <= end, "{of}: nobody has {end}..{place}, {owner:?} goes on");
            end = end.max(place + size);
        }
        assert_eq!(end, from + length, "{of}");
    }
}

fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("PSLITE_TEST_SEED").unwrap_or(0);
    first..first + number("PSLITE_TEST_SEEDS").unwrap_or(300)
}

const RULES: [BalanceRule; 4] =
    [BalanceRule::Cpu, BalanceRule::CpuLast, BalanceRule::Gpu, BalanceRule::Fixed];

fn iterations_are_shared_out(seed: u64) {
    let mut random = Random::new(seed);
    let (members, deaths) = (1 + random.below(5) as usize, random.percent(50));
    let mut world = World::new(seed, members, RULES[random.below(4) as usize]);
    world.gone = [Gone::HasLeft, Gone::IsMissed, Gone::IsReplaced][random.below(3) as usize];
    for _ in 0..2_000 {
        if deaths {
            world.step(true);
        } else {
            // Connections break, but nobody dies.
            world.step(false);
            if world.random.percent(1) {
                let rank = world.random.below(members as u64) as usize;
                world.cut(rank);
            }
        }
    }
    // From here on nothing goes wrong: who is missing comes back, and all go on.
    for rank in 0..members {
        if world.processes[rank].is_none() {
            world.start(rank);
        }
    }
    let mut steps = 0;
    while world.processes.iter().flatten().any(|p| !p.worker.is_answered()) {
        world.step(false);
        steps += 1;
        assert!(steps < 200_000, "seed {seed}: somebody is not let in");
    }
    // What was lent before somebody came is over.
    let calm = world.highest() + 4;
    while world.lowest() < calm + 20 {
        world.step(false);
        steps += 1;
        assert!(steps < 200_000, "seed {seed}: stuck at {} of {}", world.lowest(), calm + 20);
    }
    // Who replaces another computes again what that one has not reported.
    let replaced = if world.gone == Gone::IsReplaced { &world.dead[..] } else { &[] };
    world.ledger.is_disjoint(replaced);
    let whole = if deaths { calm } else { 0 }..calm + 20;
    let per_epoch = LENGTH / u64::from(TOTAL);
    for iteration in whole {
        let from = iteration % per_epoch * u64::from(TOTAL);
        world.ledger.is_whole(iteration, from, u64::from(TOTAL));
    }
}

fn epochs_are_dealt(seed: u64) {
    let mut random = Random::new(seed);
    let members = 1 + random.below(5) as usize;
    let mut world = World::new(seed, members, BalanceRule::Dealt);
    let mut steps = 0;
    while !world.processes.iter().zip(&world.over).all(|(p, over)| p.is_none() || *over) {
        world.step(steps < 1_500);
        steps += 1;
        assert!(steps < 200_000, "seed {seed}: stuck");
    }
    world.ledger.is_disjoint(&world.dead);
    (0..3).for_each(|epoch| world.ledger.is_whole(epoch, 0, LENGTH));
}

/// Nobody begins the next session while others are in the one before, and all come to it, though
/// the word that a worker has closed one may be lost.
fn phases_follow_each_other(seed: u64) {
    let mut random = Random::new(seed);
    let members = 1 + random.below(4) as usize;
    let mut world = World::new(seed, members, RULES[random.below(4) as usize]);
    world.limit = PHASE;
    let mut steps = 0;
    while world.phases.iter().any(|phase| *phase < 4) {
        world.step(false);
        let rank = world.random.below(members as u64) as usize;
        let worker = world.processes[rank].as_ref().map(|process| &process.worker);
        if world.phases[rank] < 4 && worker.is_some_and(|w| w.progress() == (PHASE, PHASE)) {
            world.go_on(rank);
        }
        if world.random.percent(2) {
            world.cut(rank);
        }
        steps += 1;
        assert!(steps < 200_000, "seed {seed}: stuck in {:?}", world.phases);
    }
    world.ledger.is_disjoint(&[]);
    let per_epoch = LENGTH / u64::from(TOTAL);
    for (phase, iteration) in (0..4).flat_map(|phase| (0..PHASE).map(move |i| (phase, i))) {
        let from = iteration % per_epoch * u64::from(TOTAL);
        world.ledger.is_whole(phase * APART + iteration, from, u64::from(TOTAL));
    }
}

/// True if a worker that has begun the iterations before that one skips the rest of its epoch.
fn leaves(computes: fn(u64) -> u64, next: u64) -> bool {
    next % PER_EPOCH == computes(next / PER_EPOCH) % PER_EPOCH && !next.is_multiple_of(PER_EPOCH)
}

/// A session that begins in the middle, and whose epochs all workers leave early, each when it
/// comes there.
fn epochs_are_left_early(seed: u64) {
    let mut random = Random::new(seed);
    let members = 1 + random.below(4) as usize;
    let mut world = World::new(seed, members, RULES[random.below(4) as usize]);
    world.first = random.below(100);
    world.computes = Some(|epoch| 1 + crate::random::mix(epoch) % PER_EPOCH);
    world.processes.iter_mut().for_each(|process| *process = None);
    (0..members).for_each(|rank| world.start(rank));
    let (first, mut steps) = (world.first, 0);
    while world.lowest() < first + 40 {
        world.step(false);
        if world.random.percent(1) {
            let rank = world.random.below(members as u64) as usize;
            world.cut(rank);
        }
        steps += 1;
        assert!(steps < 200_000, "seed {seed}: stuck at {}", world.lowest());
    }
    world.ledger.is_disjoint(&[]);
    // The first epoch may begin behind the place where the others are left.
    let (whole, computes) =
        (first.next_multiple_of(PER_EPOCH)..first + 40, world.computes.unwrap());
    for iteration in whole {
        let from = iteration % PER_EPOCH * u64::from(TOTAL);
        if iteration % PER_EPOCH < computes(iteration / PER_EPOCH) {
            world.ledger.is_whole(iteration, from, u64::from(TOTAL));
        } else {
            assert!(!world.ledger.0.contains_key(&iteration), "{iteration} was skipped");
        }
    }
    assert!(!world.ledger.0.contains_key(&first.wrapping_sub(1)));
}

#[test]
fn workers_leave_epochs_early() {
    seeds().for_each(epochs_are_left_early);
}

#[test]
fn one_session_follows_the_other() {
    seeds().for_each(phases_follow_each_other);
}

#[test]
fn each_sample_of_an_iteration_has_one_worker() {
    seeds().for_each(iterations_are_shared_out);
}

#[test]
fn each_sample_of_an_epoch_is_dealt_once() {
    seeds().for_each(epochs_are_dealt);
}
