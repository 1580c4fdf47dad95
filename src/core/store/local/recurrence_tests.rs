//! The recurrence that docs/nbsync.md writes down, in a loop of its own, beside the worker's
//! machine (`training/exchange`), what it keeps (`store/local`) and the server's store joined:
//! equal to the bit after each iteration, in the global model and at each worker.

use std::collections::VecDeque;
use std::time::Duration;

use half::f16;
use pslite_optimizers::pickle::Value as Pickled;

use super::tests::{bytes, optimizer};
use super::*;
use crate::store::{Answer, Store, StoreConfig};
use crate::training::exchange::{Exchange, Push, PushTurn, spec};
use crate::values::kind::{RequestKind, command_of};
use crate::wire::exchange::MILLION;
use crate::wire::{Meta, id_to_rank, worker_id};

const KEYS: usize = 4;
const ELEMENTS: usize = 3;

/// What a program computes from the values that it has: the same in both.
fn gradient(worker: usize, step: u64, key: usize, value: &[f32]) -> Vec<f32> {
    let element = |(i, value): (usize, &f32)| {
        let seed = worker as u64 * 7919 + step * 104_729 + key as u64 * 31 + i as u64;
        let noise = (crate::random::mix(seed) >> 40) as f32 / (1 << 24) as f32 - 0.5;
        0.125 * (value - worker as f32) + 0.25 * noise
    };
    value.iter().enumerate().map(element).collect()
}

fn first_value(key: usize) -> Vec<f32> {
    (0..ELEMENTS).map(|i| (key + i) as f32 * 0.5 + 0.25).collect()
}

/// As the wire carries it.
fn wire(dtype: Dtype, values: &[f32]) -> Vec<u8> {
    match dtype {
        Dtype::F16 => values.iter().flat_map(|x| f16::from_f32(*x).to_ne_bytes()).collect(),
        _ => bytes(values),
    }
}

fn read(dtype: Dtype, bytes: &[u8]) -> Vec<f32> {
    let each = bytes.chunks(dtype.size());
    match dtype {
        Dtype::F16 => each.map(|x| f16::from_ne_bytes(x.try_into().unwrap()).to_f32()).collect(),
        _ => each.map(|x| f32::from_ne_bytes(x.try_into().unwrap())).collect(),
    }
}

fn rounded(dtype: Dtype, values: &[f32]) -> Vec<f32> {
    read(dtype, &wire(dtype, values))
}

// ---- the recurrence -----------------------------------------------------------------------------

struct Key1 {
    value: Buffer,
    start: Vec<f32>,
    sent: Vec<f32>,
    coming: Option<Vec<f32>>,
    state: Option<Box<State>>,
}

#[derive(Default)]
struct Flying {
    number: usize,
    is_here: bool,
}

struct Plain {
    keys: Vec<Key1>,
    flights: VecDeque<Flying>,
    iteration: u64,
    since: u32,
    sent: usize,
}

/// All workers and the servers.
struct Reference {
    spec: ExchangeSpec,
    dtype: Dtype,
    optimizer: Optimizer,
    workers: Vec<Plain>,
    global: Vec<Vec<f32>>,
    momentum: Vec<Vec<f32>>,
    /// What was sent to each round of each key, in the order of its coming.
    deltas: BTreeMap<(usize, usize), Vec<Vec<f32>>>,
    /// What each round made of a key, as it travels.
    results: BTreeMap<(usize, usize), Vec<f32>>,
}

impl Reference {
    fn new(spec: ExchangeSpec, dtype: Dtype, optimizer: Optimizer, workers: usize) -> Self {
        let key = |key| Key1 {
            value: Buffer::copy_of(&bytes(&rounded(dtype, &first_value(key)))),
            start: rounded(dtype, &first_value(key)),
            sent: Vec::new(),
            coming: None,
            state: None,
        };
        let worker = |_| Plain {
            keys: (0..KEYS).map(key).collect(),
            flights: VecDeque::new(),
            iteration: 0,
            since: 0,
            sent: 0,
        };
        Self {
            spec,
            dtype,
            optimizer,
            workers: (0..workers).map(worker).collect(),
            global: (0..KEYS).map(|key| rounded(dtype, &first_value(key))).collect(),
            momentum: vec![vec![0.0; ELEMENTS]; KEYS],
            deltas: BTreeMap::new(),
            results: BTreeMap::new(),
        }
    }

    /// The sections of keys of equal size.
    fn section(&self, key: usize) -> usize {
        key * self.spec.sections as usize / KEYS
    }

    fn iterate(&mut self, i: usize) {
        let (sections, several) = (self.spec.sections as usize, self.spec.sections > 1);
        let me = &mut self.workers[i];
        if self.spec.waits && !me.flights.is_empty() {
            return;
        }
        (me.iteration, me.since) = (me.iteration + 1, me.since + 1);
        let may_send = me.since >= self.spec.steps && (!several || me.iteration >= 2);
        let (mut swaps, mut sends) = (Vec::new(), Vec::new());
        if may_send || several {
            while me.flights.front().is_some_and(|flight| flight.is_here) {
                swaps.push(me.flights.pop_front().unwrap().number % sections);
            }
        }
        while may_send && me.flights.len() < self.spec.window as usize {
            sends.push(me.sent);
            me.flights.push_back(Flying { number: me.sent, is_here: false });
            (me.sent, me.since) = (me.sent + 1, 0);
        }
        for key in 0..KEYS {
            let section = self.section(key);
            let swap = swaps.contains(&section);
            let send = sends.iter().find(|number| **number % sections == section).copied();
            let delta = self.work(i, key, swap, send.is_some());
            if let Some(number) = send {
                self.arrives(number, key, delta);
            }
        }
    }

    /// One key of one iteration.
    fn work(&mut self, i: usize, key: usize, swap: bool, send: bool) -> Vec<f32> {
        let (dtype, spec) = (self.dtype, self.spec);
        let step = self.workers[i].iteration;
        let own = &mut self.workers[i].keys[key];
        let seen = rounded(dtype, own.value.elements());
        let gradient = rounded(dtype, &gradient(i, step, key, &seen));
        let gradient = Buffer::copy_of(&bytes(&gradient));
        let gradient = Gradient::Dense(&gradient);
        self.optimizer
            .update(key as i64, Dtype::F32, &mut own.value, &gradient, &mut own.state)
            .unwrap();
        let value: Vec<f32> = own.value.elements().to_vec();
        let minus = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<_>>();
        let plus = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a + b).collect::<Vec<_>>();
        // What is sent, and what of it arrives.
        let exact = minus(&value, &own.start);
        let mut delta = rounded(dtype, &exact);
        let is_narrow = dtype == Dtype::F16;
        let mut new = value.clone();
        if spec.sections == 1 {
            if swap {
                let global = own.coming.take().unwrap();
                new = if spec.keep { plus(&global, &exact) } else { global.clone() };
                own.start = match spec.keep && is_narrow {
                    true => plus(&global, &delta),
                    false => new.clone(),
                };
            } else if send {
                own.start = if is_narrow { plus(&own.start, &delta) } else { value };
            }
        } else {
            if swap {
                let global = own.coming.take().unwrap();
                new = plus(&global, &minus(&value, &own.sent));
                own.start = global;
                delta = rounded(dtype, &minus(&new, &own.start));
            }
            if send {
                own.sent = if is_narrow { plus(&own.start, &delta) } else { new.clone() };
            }
        }
        own.value = Buffer::copy_of(&bytes(&new));
        if swap && let Some(state) = &mut own.state {
            self.optimizer.swapped(state, &own.value);
        }
        delta
    }

    /// The server.
    fn arrives(&mut self, number: usize, key: usize, delta: Vec<f32>) {
        let here = self.deltas.entry((number, key)).or_default();
        here.push(delta);
        if here.len() < self.workers.len() {
            return;
        }
        let outer = self.spec.outer;
        let part = |millionths: u32| millionths as f32 / MILLION as f32;
        let (mu, rate) = (part(outer.momentum), part(outer.rate));
        for i in 0..ELEMENTS {
            let sum = here.iter().skip(1).fold(here[0][i], |sum, delta| sum + delta[i]);
            let mean = sum / self.workers.len() as f32;
            let (global, momentum) = (&mut self.global[key][i], &mut self.momentum[key][i]);
            let before = mu * *momentum;
            *momentum = before + rate * mean;
            *global = match (outer.momentum > 0, outer.nesterov) {
                (true, true) => *global - before + (mu + 1.0) * *momentum,
                _ => *global + *momentum,
            };
        }
        self.results.insert((number, key), rounded(self.dtype, &self.global[key]));
    }

    /// A worker gets what has come for it.
    fn deliver(&mut self, i: usize) {
        let (sections, waits) = (self.spec.sections as usize, self.spec.waits);
        let me = &mut self.workers[i];
        for flight in &mut me.flights {
            let of_section = |key: &usize| *key * sections / KEYS == flight.number % sections;
            for key in (0..KEYS).filter(of_section) {
                let Some(result) = self.results.get(&(flight.number, key)) else { continue };
                if flight.is_here {
                    continue;
                }
                let own = &mut me.keys[key];
                if waits {
                    own.value = Buffer::copy_of(&bytes(result));
                    own.start.clone_from(result);
                    if let Some(state) = &mut own.state {
                        self.optimizer.swapped(state, &own.value);
                    }
                } else {
                    own.coming = Some(result.clone());
                }
            }
            let all = (0..KEYS).filter(of_section);
            flight.is_here =
                all.into_iter().all(|key| self.results.contains_key(&(flight.number, key)));
        }
        if waits {
            me.flights.retain(|flight| !flight.is_here);
        }
    }
}

// ---- the rooms, joined --------------------------------------------------------------------------

struct Joined {
    dtype: Dtype,
    store: Store,
    workers: Vec<Worker>,
    timestamp: i32,
}

struct Worker {
    exchange: Exchange,
    model: LocalModel,
    step: u64,
    /// Answers that have not come yet.
    answers: Vec<(Key, Bytes)>,
}

impl Joined {
    fn new(spec: ExchangeSpec, dtype: Dtype, optimizer: &Optimizer, workers: usize) -> Self {
        let mut store = Store::new(StoreConfig::alone(workers));
        store.exchange(&spec).unwrap();
        let worker = |_| {
            let mut model = LocalModel::new(&spec, workers as u32, 1);
            model.use_optimizer(optimizer.clone()).unwrap();
            for key in 0..KEYS {
                model.begin(key as Key, dtype, &wire(dtype, &first_value(key))).unwrap();
            }
            Worker { exchange: Exchange::new(spec), model, step: 0, answers: Vec::new() }
        };
        let mut joined =
            Self { dtype, store, workers: (0..workers).map(worker).collect(), timestamp: 0 };
        for key in 0..KEYS {
            joined.push(0, key as Key, wire(dtype, &first_value(key)).into());
        }
        joined.workers[0].answers.clear();
        joined
    }

    fn push(&mut self, i: usize, key: Key, value: Bytes) {
        self.timestamp += 1;
        let request = Meta {
            sender: worker_id(i),
            customer_id: 0,
            timestamp: self.timestamp,
            head: command_of(RequestKind::Default, self.dtype),
            push: true,
            pull: true,
            request: true,
            ..Meta::default()
        };
        let lens = Bytes::copy_from_slice(&(value.len() as i32).to_ne_bytes());
        let keys = Bytes::copy_from_slice(&key.to_ne_bytes());
        let mut answers = Vec::new();
        self.store.request(request, &[keys, value, lens], &mut answers);
        for Answer { request, kv } in answers {
            assert_eq!(request.error, "");
            let worker = &mut self.workers[id_to_rank(request.sender) as usize];
            worker.answers.push((key, kv.vals));
        }
    }

    fn iterate(&mut self, i: usize) {
        for key in 0..KEYS {
            let worker = &mut self.workers[i];
            let Push { before, turn } = worker.exchange.push(Duration::ZERO, key as Key, 12);
            assert_eq!(before, []);
            let act = match turn {
                PushTurn::Held(_) if key == 0 => return,
                PushTurn::Held(hold) => panic!("{hold:?} in mid-iteration"),
                PushTurn::Taken(act) => act,
            };
            worker.step += u64::from(key == 0);
            let seen = read(self.dtype, &worker.model.value(key as Key).unwrap().1);
            let gradient = wire(self.dtype, &gradient(i, worker.step, key, &seen));
            worker.model.step(key as Key, self.dtype, &gradient).unwrap();
            if let Some(delta) = worker.model.exchange(key as Key, act.swap, act.send).unwrap() {
                self.push(i, key as Key, delta);
            }
        }
        self.workers[i].exchange.validate().unwrap();
    }

    fn deliver(&mut self, i: usize) {
        let worker = &mut self.workers[i];
        for (key, value) in std::mem::take(&mut worker.answers) {
            worker.model.arrived(key, &value).unwrap();
            let act = worker.exchange.answered(key);
            worker.model.exchange(key, act.swap, act.send).unwrap();
        }
    }

    fn global(&mut self, key: Key) -> Vec<f32> {
        let request = Meta { sender: 9, pull: true, request: true, ..Meta::default() };
        let head = command_of(RequestKind::Default, self.dtype);
        let mut answers = Vec::new();
        let keys = Bytes::copy_from_slice(&key.to_ne_bytes());
        self.store.request(Meta { head, ..request }, &[keys], &mut answers);
        read(self.dtype, &answers[0].kv.vals)
    }
}

// ---- both ---------------------------------------------------------------------------------------

/// Eleven optimizers, whose gradients are multiplied by that.
fn optimizers(rescale: f64) -> Vec<Optimizer> {
    let float = |name: &'static str, value| (name, Pickled::Float(value));
    let scale = || float("rescale_grad", rescale);
    let rate = |rate| float("lr", rate);
    let dict = |name| (name, Pickled::Dict(Vec::new()));
    let betas = || [scale(), float("beta1", 0.9), float("beta2", 0.999), rate(0.05)];
    let with = |more: &[(&'static str, Pickled)]| [&betas()[..], more].concat();
    vec![
        optimizer("SGD", &[scale(), float("momentum", 0.0), float("wd", 0.01)]),
        optimizer(
            "SGD",
            &[scale(), float("momentum", 0.9), rate(0.125), float("clip_gradient", 0.3)],
        ),
        optimizer("NAG", &[scale(), float("momentum", 0.5), rate(0.25)]),
        optimizer("Adam", &with(&[float("epsilon", 1e-8)])),
        optimizer("Adamax", &betas()),
        optimizer(
            "Nadam",
            &with(&[
                float("epsilon", 1e-8),
                float("schedule_decay", 0.004),
                float("m_schedule", 1.0),
            ]),
        ),
        optimizer("AdaGrad", &[scale(), float("float_stable_eps", 1e-7), rate(0.125)]),
        optimizer("AdaDelta", &[scale(), float("rho", 0.9), float("epsilon", 1e-5)]),
        optimizer(
            "RMSProp",
            &[
                scale(),
                rate(0.02),
                float("gamma1", 0.9),
                float("gamma2", 0.9),
                float("epsilon", 1e-8),
            ],
        ),
        optimizer("Signum", &[scale(), rate(0.02), float("momentum", 0.9), float("wd_lh", 0.0)]),
        optimizer(
            "DCASGD",
            &[scale(), float("momentum", 0.0), float("lamda", 0.04), dict("weight_previous")],
        ),
    ]
}

/// Plays a script: which worker computes, and which hears what has come.
fn compare(text: &str, dtype: Dtype, workers: usize, which: usize) -> (usize, u64) {
    let spec = spec::parse(text).unwrap();
    let mut joined = Joined::new(spec, dtype, &optimizers(1.0)[which], workers);
    let scaled = optimizers(workers as f64).swap_remove(which);
    let mut reference = Reference::new(spec, dtype, scaled, workers);
    for t in 0..40_u64 {
        for i in 0..workers {
            // Steps of a stretch differ from worker to worker.
            if crate::random::mix(t * 8 + i as u64) % 4 < 3 - u64::from(i == 1) {
                joined.iterate(i);
                reference.iterate(i);
            }
        }
        for i in 0..workers {
            if !crate::random::mix(t * 1000 + i as u64).is_multiple_of(3) {
                joined.deliver(i);
                reference.deliver(i);
            }
        }
        for key in 0..KEYS {
            let global = rounded(dtype, &reference.global[key]);
            let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            let name = format!("{text} {dtype} {workers} workers, optimizer {which}, {t}, {key}");
            assert!(global.iter().all(|x| x.is_finite()), "{name}");
            assert_eq!(bits(&joined.global(key as Key)), bits(&global), "{name}");
            for (worker, plain) in joined.workers.iter_mut().zip(&reference.workers) {
                let seen = read(dtype, &worker.model.value(key as Key).unwrap().1);
                let expected = rounded(dtype, plain.keys[key].value.elements());
                assert_eq!(bits(&seen), bits(&expected), "{name}");
            }
        }
    }
    let steps = joined.workers.iter().map(|worker| worker.step).sum();
    (reference.results.len(), steps)
}

fn compare_all(text: &str) {
    for which in 0..optimizers(1.0).len() {
        for workers in 1..5 {
            for dtype in [Dtype::F32, Dtype::F16] {
                let (rounds, steps) = compare(text, dtype, workers, which);
                assert!(rounds >= 12 && steps >= 15, "{text}: {rounds} rounds, {steps} steps");
            }
        }
    }
}

#[test]
fn the_published_form() {
    compare_all("nbsync:published");
    compare_all("nbsync:published,steps=2,rate=0.5");
}

#[test]
fn the_corrected_form() {
    compare_all("nbsync:published,keep=1,momentum=0.5");
}

#[test]
fn sections() {
    compare_all("nbsync:sections=4,window=2");
    compare_all("nbsync:sections=2,window=2,steps=2,nesterov=0");
}

#[test]
fn forms_that_wait() {
    compare_all("fedavg:steps=2");
    compare_all("diloco:steps=2");
}

/// The comparison would see it: another outer rate at the reference alone.
#[test]
fn the_comparison_is_not_blind() {
    let spec = spec::parse("nbsync:published").unwrap();
    let mut joined = Joined::new(spec, Dtype::F32, &optimizers(1.0)[0], 1);
    let mut other = spec;
    other.outer.rate -= 1;
    let mut reference = Reference::new(other, Dtype::F32, optimizers(1.0).swap_remove(0), 1);
    joined.iterate(0);
    reference.iterate(0);
    assert_ne!(joined.global(0), reference.global[0]);
}
