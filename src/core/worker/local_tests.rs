//! The local model beside servers that a test plays: a round of each key ends when all workers have
//! pushed it, and moves the value by the mean of the deltas.

use std::collections::BTreeMap;

use super::*;
use crate::kv::flights::AheadSlice;
use crate::kv::{Slices, slice};
use crate::store::command::Head;
use crate::store::local::Obeyed;
use crate::store::pickled_tests::pickled;
use crate::training::exchange::ExchangeCoordinator;
use crate::training::exchange::coordinator::ExchangeOutbox;
use crate::training::exchange::spec::parse;
use crate::values::kind::{RequestKind, command_of};
use crate::values::{Dtype, KvPairs, server_key_ranges};
use crate::wire::{Key, Meta};
use bytes::Bytes;
use std::time::Duration;

const SERVERS: usize = 2;
const NOW: Duration = Duration::from_secs(1);

/// A key of each server.
fn keys() -> [Key; 2] {
    [1, server_key_ranges(SERVERS)[1].begin + 1]
}

fn bytes(value: f32) -> Bytes {
    Bytes::copy_from_slice(&value.to_ne_bytes())
}

fn number(bytes: &[u8]) -> f32 {
    f32::from_ne_bytes(bytes.try_into().unwrap())
}

fn sgd() -> Bytes {
    pickled("SGD", &[("momentum", "F0.0\n"), ("lazy_update", "I01\n")])
}

/// A job of some workers, played by hand.
struct Job {
    workers: Vec<LocalTraining>,
    /// What each worker is told to do and has not done.
    steps: Vec<Vec<LocalStep>>,
    values: BTreeMap<Key, f32>,
    /// Deltas of the open round of each key, by worker.
    rounds: BTreeMap<Key, BTreeMap<usize, f32>>,
    next: i32,
    coordinator: ExchangeCoordinator,
    said: ExchangeOutbox,
}

/// The id of a worker.
fn id(worker: usize) -> i32 {
    9 + 2 * worker as i32
}

impl Job {
    fn new(sync: &str, workers: usize) -> Self {
        let spec = parse(sync).unwrap();
        let new = |rank| {
            let who = Begins { makes_keys: rank == 0, is_back: false };
            LocalTraining::new(&spec, workers as u32, SERVERS, who)
        };
        let mut job = Self {
            workers: (0..workers).map(new).collect(),
            steps: vec![Vec::new(); workers],
            values: BTreeMap::new(),
            rounds: BTreeMap::new(),
            next: 0,
            coordinator: ExchangeCoordinator::new(spec),
            said: Vec::new(),
        };
        job.coordinator.awaits((0..workers).map(id), &mut job.said);
        for worker in &mut job.workers {
            let obeyed = worker.command(Head::Controller, &sgd());
            assert_eq!(obeyed, Ok(Obeyed::Here));
        }
        job
    }

    /// As above, and all keys have the value 10 everywhere.
    fn begun(sync: &str, workers: usize) -> Self {
        Self::new(sync, workers).begin()
    }

    /// As [`Self::begun`], but programs step their values themselves.
    fn stepped_by_programs(sync: &str, workers: usize) -> Self {
        let mut job = Self::new(sync, workers);
        let spec = parse(sync).unwrap();
        for (rank, worker) in job.workers.iter_mut().enumerate() {
            assert!(worker.step_by_program().is_err(), "an optimizer was set");
            let who = Begins { makes_keys: rank == 0, is_back: false };
            *worker = LocalTraining::new(&spec, workers as u32, SERVERS, who);
            worker.step_by_program().unwrap();
        }
        job.begin()
    }

    fn begin(self) -> Self {
        let (workers, mut job) = (self.workers.len(), self);
        let first = job.push(0, 10.0);
        job.serve();
        assert_eq!(job.answers(0), [(first, None)]);
        for worker in 0..workers {
            let pulled = job.pull(worker);
            job.serve();
            assert_eq!(job.answers(worker), [(pulled, Some([10.0; 2]))]);
        }
        job
    }

    fn ask(&mut self, worker: usize, (push, pull): (Option<f32>, bool), kind: RequestKind) -> i32 {
        self.next += 1;
        let keys: Bytes = keys().iter().flat_map(|key| key.to_ne_bytes()).collect();
        let vals = push.map(|value| [bytes(value), bytes(value)].concat()).unwrap_or_default();
        let kv = KvPairs { keys, vals: vals.into(), lens: Bytes::new() };
        let head = command_of(kind, Dtype::F32);
        let push = push.is_some();
        let meta =
            Meta { head, push, pull, timestamp: self.next, request: true, ..Meta::default() };
        let ranges = server_key_ranges(SERVERS);
        let slices: Slices = slice(&kv, 4, &ranges).unwrap();
        self.workers[worker].ask(NOW, meta, slices, &ranges, &mut self.steps[worker]);
        self.validate();
        self.next
    }

    fn push(&mut self, worker: usize, gradient: f32) -> i32 {
        self.ask(worker, (Some(gradient), false), RequestKind::Default)
    }

    fn pull(&mut self, worker: usize) -> i32 {
        self.ask(worker, (None, true), RequestKind::Default)
    }

    fn push_pull(&mut self, worker: usize, gradient: f32) -> i32 {
        self.ask(worker, (Some(gradient), true), RequestKind::Default)
    }

    fn validate(&self) {
        self.workers.iter().for_each(|worker| worker.validate().unwrap());
    }

    /// The servers do what they were sent, until nothing is left.
    fn serve(&mut self) {
        while let Some((worker, step)) = self.take_sent() {
            if let LocalStep::Send(own) = &step {
                assert!(own.meta.background, "its sender answers the program, and must not wait");
            }
            match step {
                LocalStep::Forward(asked) => {
                    let (meta, slices) = *asked;
                    assert!(!meta.background, "the program waits for it, as ever");
                    for kv in slices.into_iter().flatten() {
                        let key = Key::from_ne_bytes(kv.keys[..8].try_into().unwrap());
                        self.values.entry(key).or_insert_with(|| number(&kv.vals));
                    }
                    self.steps[worker].push(LocalStep::Answer(meta.timestamp, Vec::new()));
                }
                LocalStep::Send(own) if !own.meta.push => {
                    let value = self.values.get(&own.key).map(|value| bytes(*value));
                    let value = value.as_deref().ok_or_else(|| "no such key".to_owned());
                    self.workers[worker].own_answered(NOW, own.key, value, &mut self.steps[worker]);
                }
                LocalStep::Send(own) => self.delta(worker, &own),
                LocalStep::Say(report) => {
                    self.coordinator.handle(id(worker), *report, &mut self.said);
                    for (to, word) in std::mem::take(&mut self.said) {
                        let to = (to as usize - 9) / 2;
                        self.workers[to].told(NOW, &word, &mut self.steps[to]);
                    }
                }
                LocalStep::Answer(..) | LocalStep::Refuse(..) => unreachable!(),
            }
            self.validate();
        }
    }

    fn delta(&mut self, worker: usize, own: &Own) {
        let round = self.rounds.entry(own.key).or_default();
        let twice = round.insert(worker, number(&own.kv.vals));
        assert_eq!(twice, None, "one delta of a worker in a round");
        if round.len() < self.workers.len() {
            return;
        }
        let mean = round.values().sum::<f32>() / self.workers.len() as f32;
        self.rounds.remove(&own.key);
        let value = self.values.get_mut(&own.key).unwrap();
        *value += mean;
        let value = bytes(*value);
        for (worker, steps) in self.workers.iter_mut().zip(&mut self.steps) {
            worker.own_answered(NOW, own.key, Ok(&value), steps);
        }
    }

    /// The first thing that goes to a server, or to the scheduler.
    fn take_sent(&mut self) -> Option<(usize, LocalStep)> {
        let is_sent = |step: &LocalStep| {
            matches!(step, LocalStep::Forward(..) | LocalStep::Send(..) | LocalStep::Say(..))
        };
        for (worker, steps) in self.steps.iter_mut().enumerate() {
            if let Some(at) = steps.iter().position(is_sent) {
                return Some((worker, steps.remove(at)));
            }
        }
        None
    }

    /// What a worker's requests brought, of those that are answered.
    fn answers(&mut self, worker: usize) -> Vec<(i32, Option<[f32; 2]>)> {
        let mut answers = Vec::new();
        self.steps[worker].retain(|step| {
            let LocalStep::Answer(timestamp, brought) = step else { return true };
            let value = |slice: &AheadSlice| {
                let vals = &slice.brought.pairs.vals;
                (!vals.is_empty()).then(|| number(vals))
            };
            let values: Vec<f32> = brought.iter().filter_map(value).collect();
            answers.push((*timestamp, values.try_into().ok()));
            false
        });
        answers
    }

    fn refusals(&mut self, worker: usize) -> Vec<(i32, String)> {
        std::mem::take(&mut self.steps[worker])
            .into_iter()
            .filter_map(|step| match step {
                LocalStep::Refuse(timestamp, why) => Some((timestamp, why)),
                _ => None,
            })
            .collect()
    }
}

#[test]
fn a_worker_steps_by_itself_and_a_round_has_the_mean_of_what_they_changed() {
    // Rate 0.5, gradients times two workers.
    let mut job = Job::begun("fedavg:steps=1", 2);
    let (one, other) = (job.push_pull(0, 1.0), job.push_pull(1, 3.0));
    assert_eq!((job.answers(0), job.answers(1)), (vec![], vec![]), "it waits for the round");
    job.serve();
    // 10 - 1 and 10 - 3: the mean of the deltas is -2.
    assert_eq!(job.answers(0), [(one, Some([8.0; 2]))]);
    assert_eq!(job.answers(1), [(other, Some([8.0; 2]))]);
}

#[test]
fn values_that_programs_step_are_exchanged_alike() {
    let mut job = Job::stepped_by_programs("fedavg:steps=2", 2);
    let (one, other) = (job.push_pull(0, 11.0), job.push_pull(1, 12.0));
    assert_eq!(job.answers(0), [(one, Some([11.0; 2]))], "the program's own value");
    assert_eq!(job.answers(1), [(other, Some([12.0; 2]))]);
    let (one, other) = (job.push_pull(0, 14.0), job.push_pull(1, 10.0));
    assert_eq!((job.answers(0), job.answers(1)), (vec![], vec![]), "it waits for the round");
    job.serve();
    // They changed it by 4 and by nothing.
    assert_eq!(job.answers(0), [(one, Some([12.0; 2]))]);
    assert_eq!(job.answers(1), [(other, Some([12.0; 2]))]);
    let command = job.workers[0].command(Head::Controller, &sgd());
    assert!(command.unwrap_err().to_string().contains("steps these values itself"));
}

#[test]
fn what_is_pushed_and_pulled_in_turn_waits_as_well() {
    let mut job = Job::begun("fedavg:steps=2", 2);
    for worker in 0..2 {
        let first = job.push(worker, 1.0);
        let pulled = job.pull(worker);
        assert_eq!(job.answers(worker), [(first, None), (pulled, Some([9.0; 2]))], "no round yet");
    }
    let pushed = [job.push(0, 1.0), job.push(1, 2.0)];
    let pulled = [job.pull(0), job.pull(1)];
    for (worker, pushed) in pushed.into_iter().enumerate() {
        assert_eq!(job.answers(worker), [(pushed, None)], "the value is on its way");
    }
    job.serve();
    for (worker, pulled) in pulled.into_iter().enumerate() {
        assert_eq!(job.answers(worker), [(pulled, Some([7.5; 2]))]);
    }
}

/// Else the oldest round would be the last to travel, and nothing more could be sent.
#[test]
fn deltas_go_in_the_order_of_rounds() {
    let mut job = Job::begun("nbsync:momentum=0,sections=2,window=2", 1);
    let [first, second] = keys();
    let mut sent = Vec::new();
    for answered in [vec![], vec![], vec![first], vec![second, first]] {
        for key in answered {
            let steps = &mut job.steps[0];
            job.workers[0].own_answered(NOW, key, Ok(&bytes(8.0)), steps);
        }
        job.push_pull(0, 2.0);
        let of_iteration = job.steps[0].iter().filter_map(|step| match step {
            LocalStep::Send(own) => Some((own.round.unwrap(), own.key)),
            _ => None,
        });
        sent.push(of_iteration.collect::<Vec<_>>());
        job.steps[0].clear();
    }
    // The program pushes the first key first, and in the last iteration its round is the newer one.
    let expected = [vec![], vec![(0, first), (1, second)], vec![(2, first)]];
    assert_eq!(sent[..3], expected);
    assert_eq!(sent[3], [(3, second), (4, first)]);
}

#[test]
fn nobody_waits_for_the_network_until_it_would_run_away() {
    let mut job = Job::begun("nbsync:published", 2);
    // The other worker computes nothing, so no round ends.
    let (mut answered, mut held) = (0, None);
    while answered < 100 && held.is_none() {
        let asked = job.push_pull(0, 1.0);
        match job.answers(0)[..] {
            [(timestamp, Some(_))] if timestamp == asked => answered += 1,
            _ => held = Some(asked),
        }
    }
    assert!((8..100).contains(&answered), "{answered}");
    let held = held.unwrap();
    assert_eq!(job.workers[0].waits_for(held), Some(WaitsFor::Ahead(Some(keys()[0]))));
    assert_eq!(job.workers[0].waits_for(held - 1), None, "it is answered");
    job.push_pull(1, 1.0);
    job.serve();
    assert_eq!(job.answers(0).len(), 1, "it goes on with the round");
    assert!(job.workers[0].waits().is_none());
    assert_eq!(job.workers[0].waits_for(held), None);
}

#[test]
fn people_are_told_what_a_request_waits_for() {
    let mut job = Job::new("fedavg:steps=1", 2);
    let (early, pushed) = (job.pull(1), job.push(0, 10.0));
    assert_eq!(job.workers[1].waits_for(early), Some(WaitsFor::FirstValue(keys()[0])));
    job.serve();
    assert_eq!(job.workers[0].waits_for(pushed), None);
    let mut job = Job::begun("fedavg:steps=1", 2);
    let asked = job.push_pull(0, 1.0);
    assert_eq!(job.workers[0].waits_for(asked), Some(WaitsFor::Round(keys()[0])));
    let again = job.push(0, 1.0);
    assert_eq!(job.workers[0].waits_for(again), Some(WaitsFor::Round(keys()[0])));
    let mut job = Job::begun("nbsync:every=2", 2);
    job.push(0, 1.0);
    let next = job.push(0, 1.0);
    assert_eq!(job.workers[0].waits_for(next), Some(WaitsFor::Ahead(Some(keys()[0]))));
    // What it owes is there; the other one trains.
    let mut job = Job::begun("nbsync:every=1", 2);
    let next = job.push(0, 1.0);
    job.serve();
    assert_eq!(job.workers[0].waits_for(next), Some(WaitsFor::Others(vec![id(1)])));
}

#[test]
fn who_asks_before_the_key_is_made_is_told_and_may_ask_again() {
    let mut job = Job::new("fedavg:steps=1", 2);
    let early = job.pull(1);
    job.serve();
    let refused: Vec<i32> = job.refusals(1).into_iter().map(|(timestamp, _)| timestamp).collect();
    assert_eq!(refused, [early]);
    job.push(0, 4.0);
    job.serve();
    // A gradient of a key that is not here waits for its value; so does the pull behind it.
    let asked = job.push_pull(1, 1.0);
    let other = job.push_pull(0, 1.0);
    job.serve();
    assert_eq!(job.answers(1), [(asked, Some([3.0; 2]))]);
    assert!(job.answers(0).contains(&(other, Some([3.0; 2]))));
}

#[test]
fn what_cannot_be_exchanged_is_refused_with_a_text() {
    let mut job = Job::begun("fedavg:steps=1", 1);
    job.ask(0, (Some(1.0), false), RequestKind::RowSparse);
    assert!(job.refusals(0)[0].1.contains("row_sparse"));
    let spec = parse("fedavg:steps=1").unwrap();
    job.workers[0] = LocalTraining::new(&spec, 1, SERVERS, Begins::default());
    job.push(0, 1.0);
    job.serve();
    let refused = job.refusals(0);
    assert!(refused[0].1.contains("no optimizer was set"), "{refused:?}");
}

#[test]
fn a_worker_whose_training_has_diverged_ends_and_says_which_key() {
    let mut job = Job::begun("nbsync:published", 1);
    job.push_pull(0, f32::NAN);
    job.push_pull(0, 1.0);
    let refused = job.refusals(0);
    assert!(refused[0].1.contains("not finite"), "{refused:?}");
    job.pull(0);
    assert!(job.refusals(0)[0].1.contains("not finite"), "nothing goes on");
    assert!(job.workers[0].leave(NOW, &mut Vec::new()).is_err());
    job.workers[0].finish(NOW, &mut Vec::new());
    assert!(job.workers[0].is_finished().is_err());
}

#[test]
fn all_slices_of_a_request_are_sent_before_one_of_them_waits() {
    let mut job = Job::new("fedavg:steps=1", 2);
    let sent = |job: &Job, worker: usize| -> Vec<Key> {
        let own = |step: &LocalStep| match step {
            LocalStep::Send(own) => Some(own.key),
            _ => None,
        };
        job.steps[worker].iter().filter_map(own).collect()
    };
    job.push(0, 10.0);
    job.serve();
    job.answers(0);
    // The first values.
    let pulled = job.pull(1);
    assert_eq!(sent(&job, 1), keys());
    job.serve();
    assert_eq!(job.answers(1), [(pulled, Some([10.0; 2]))]);
    // The deltas of a push that waits for the values.
    let asked = job.push_pull(1, 1.0);
    assert_eq!(sent(&job, 1), keys());
    assert!(job.workers[1].has(asked));
}

#[test]
fn who_waits_for_a_round_is_told_when_another_key_ends_the_training() {
    let mut job = Job::begun("fedavg:steps=1", 2);
    let waits = job.push_pull(1, 1.0);
    let other = keys()[0] + 1;
    job.values.insert(other, 0.0);
    let kv = KvPairs {
        keys: Bytes::copy_from_slice(&other.to_ne_bytes()),
        vals: bytes(f32::NAN),
        lens: Bytes::new(),
    };
    let ranges = server_key_ranges(SERVERS);
    let slices = slice(&kv, 4, &ranges).unwrap();
    let head = command_of(RequestKind::Default, Dtype::F32);
    let meta = Meta { head, push: true, timestamp: 99, request: true, ..Meta::default() };
    job.workers[1].ask(NOW, meta, slices, &ranges, &mut job.steps[1]);
    job.serve();
    job.validate();
    let refused: Vec<i32> = job.refusals(1).into_iter().map(|(timestamp, _)| timestamp).collect();
    assert_eq!(refused, [99, waits]);
}

#[test]
fn who_leaves_sends_its_last_stretch() {
    let mut job = Job::begun("nbsync:published", 1);
    for _ in 0..3 {
        job.push_pull(0, 1.0);
    }
    for _ in 0..100 {
        let mut steps = Vec::new();
        let is_over = job.workers[0].leave(NOW, &mut steps).unwrap();
        job.steps[0].extend(steps);
        job.serve();
        if is_over {
            // Three steps of a half each.
            assert_eq!(job.values.values().copied().collect::<Vec<_>>(), [8.5, 8.5]);
            return;
        }
    }
    panic!("it never ends");
}

#[test]
fn a_push_of_old_and_new_keys_is_refused() {
    let mut job = Job::begun("fedavg:steps=1", 1);
    let ranges = server_key_ranges(SERVERS);
    let keys = [keys()[0], keys()[1] + 1];
    let kv = KvPairs {
        keys: keys.iter().flat_map(|key| key.to_ne_bytes()).collect(),
        vals: [bytes(1.0), bytes(1.0)].concat().into(),
        lens: Bytes::new(),
    };
    let head = command_of(RequestKind::Default, Dtype::F32);
    let meta = Meta { head, push: true, timestamp: 99, request: true, ..Meta::default() };
    let slices = slice(&kv, 4, &ranges).unwrap();
    let mut steps = Vec::new();
    job.workers[0].ask(NOW, meta, slices, &ranges, &mut steps);
    assert!(
        matches!(&steps[..], [LocalStep::Refuse(99, why)] if why.contains("first values")),
        "{steps:?}"
    );
}

// ---- where all align ----------------------------------------------------------------------------

/// The values that each worker has.
fn values_of(job: &mut Job) -> Vec<[f32; 2]> {
    let workers = 0..job.workers.len();
    let pulled: Vec<i32> = workers.clone().map(|worker| job.pull(worker)).collect();
    let answers = workers.map(|worker| job.answers(worker));
    answers
        .zip(pulled)
        .map(|(answers, asked)| {
            let of = answers.into_iter().find(|(timestamp, _)| *timestamp == asked);
            of.and_then(|(_, value)| value).expect("an answer")
        })
        .collect()
}

/// A fast worker waits for the slow one before the iteration that is one of all together, and what
/// each pulls in it is the global model.
#[test]
fn what_is_pulled_in_each_nth_iteration_is_equal_at_all_workers() {
    for sync in ["nbsync:every=4", "nbsync:published,every=4", "diloco:steps=3,every=4"] {
        let mut job = Job::begun(sync, 2);
        for together in 1..=3 {
            for worker in 0..2 {
                for _ in 0..3 {
                    job.push_pull(worker, 1.0 + worker as f32);
                    job.serve();
                }
            }
            job.serve();
            let first = job.push_pull(0, 2.0);
            job.serve();
            let early = job.answers(0);
            assert!(
                early.iter().all(|(at, _)| *at != first),
                "{sync}: it does not wait: {early:?}"
            );
            let other = job.push_pull(1, 5.0);
            job.serve();
            let of = |job: &mut Job, worker: usize, asked: i32| {
                let answers = job.answers(worker);
                answers.iter().find(|(at, _)| *at == asked).and_then(|(_, value)| *value)
            };
            let values = (of(&mut job, 0, first), of(&mut job, 1, other));
            assert!(values.0.is_some() && values.0 == values.1, "{sync}, {together}: {values:?}");
            let global: Vec<f32> = job.values.values().copied().collect();
            assert_eq!(values.0.map(Vec::from), Some(global), "{sync}, {together}");
        }
    }
}

#[test]
fn a_program_can_wait_until_all_are_equal() {
    let mut job = Job::begun("nbsync", 3);
    for worker in 0..3 {
        for step in 0..4 + 3 * worker {
            job.push_pull(worker, step as f32);
            job.serve();
        }
    }
    for worker in 0..3 {
        let mut steps = Vec::new();
        job.workers[worker].finish(NOW, &mut steps);
        job.steps[worker].extend(steps);
        job.serve();
        let waits = job.workers[0].is_finished() == Ok(false);
        assert_eq!(waits, worker < 2, "it waits for the last one");
    }
    let values = values_of(&mut job);
    assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
    let global: Vec<f32> = job.values.values().copied().collect();
    assert_eq!(Vec::from(values[0]), global);
    // And they train on.
    let asked = job.push_pull(0, 1.0);
    assert_eq!(job.answers(0).last().map(|(timestamp, _)| *timestamp), Some(asked));
}

/// Rounds do not wait for it, so it cannot be equal to the others; it does not hold them up.
#[test]
fn a_worker_that_came_back_does_not_align() {
    let spec = parse("nbsync:every=2").unwrap();
    let mut job = Job::begun("nbsync:every=2", 1);
    let back = Begins { makes_keys: false, is_back: true };
    job.workers[0] = LocalTraining::new(&spec, 1, SERVERS, back);
    let own = [("momentum", "F0.0\n"), ("lazy_update", "I01\n")];
    job.workers[0].command(Head::Controller, &pickled("SGD", &own)).unwrap();
    for _ in 0..6 {
        let asked = job.push_pull(0, 1.0);
        job.serve();
        assert_eq!(job.answers(0).len(), 1, "{asked} is answered at once");
    }
    job.workers[0].finish(NOW, &mut Vec::new());
    job.serve();
    assert_eq!(job.workers[0].is_finished(), Ok(true));
}

#[test]
fn a_worker_says_how_it_is_once_a_second() {
    let mut job = Job::begun("nbsync", 1);
    job.push_pull(0, 1.0);
    let mut said = 0;
    for tenth in 0..=20 {
        let mut steps = Vec::new();
        job.workers[0].tick(NOW + Duration::from_millis(100 * tenth), &mut steps);
        said += steps.len();
    }
    assert_eq!(said, 3);
    assert_eq!(job.workers[0].report(NOW).iterations, 1);
}
