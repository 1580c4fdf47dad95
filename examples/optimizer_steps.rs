//! Runs a native optimizer over a script of updates: the tests compare the weights with MXNet's.
//!
//! `optimizer_steps list` prints the optimizers, one a line. `optimizer_steps SCRIPT WEIGHTS` reads
//! a script (the layout is in compat-tests/optimizer_script.py) and writes the weights of the
//! updated key after every update, one after the other. `optimizer_steps bench` prints the time of
//! an update.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a program for tests may fail loudly")]

use std::collections::BTreeMap;
use std::time::Instant;
use std::{env, fs};

use pslite::optimizers::pickle::{Object, Value};
use pslite::optimizers::{Gradient, Optimizer, State};
use pslite::values::{Buffer, Dtype};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => Optimizer::SUPPORTED.iter().for_each(|class| println!("{class}")),
        ["bench", class] => bench(class),
        [script, weights] => run(&fs::read(script).unwrap(), weights),
        _ => panic!("usage: optimizer_steps list | bench CLASS | SCRIPT WEIGHTS"),
    }
}

/// Reads from the front of a script.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }

    fn int(&mut self) -> i64 {
        i64::from_le_bytes(self.bytes(8).try_into().unwrap())
    }

    fn length(&mut self) -> usize {
        self.int().try_into().unwrap()
    }

    fn text(&mut self) -> String {
        let length = self.length();
        String::from_utf8(self.bytes(length).to_vec()).unwrap()
    }

    fn buffer(&mut self) -> Buffer {
        let length = self.length();
        Buffer::copy_of(self.bytes(length))
    }

    fn values(&mut self) -> Vec<Value> {
        (0..self.length()).map(|_| self.value()).collect()
    }

    fn value(&mut self) -> Value {
        match self.bytes(1)[0] {
            b'N' => Value::None,
            b'B' => Value::Bool(self.int() != 0),
            b'I' => Value::Int(self.int()),
            b'F' => Value::Float(f64::from_bits(self.int() as u64)),
            b'S' => Value::Text(self.text()),
            b'L' => Value::List(self.values()),
            b'T' => Value::Tuple(self.values()),
            b'D' => Value::Dict((0..self.length()).map(|_| (self.value(), self.value())).collect()),
            b'O' => {
                let class = self.text();
                let attributes = (0..self.length()).map(|_| (self.text(), self.value())).collect();
                Value::Object(Box::new(Object { class, attributes }))
            }
            tag => panic!("unknown tag {tag}"),
        }
    }
}

struct Key {
    dtype: Dtype,
    weight: Buffer,
    state: Option<Box<State>>,
}

fn run(script: &[u8], output: &str) {
    let mut script = Reader(script);
    let optimizer =
        Optimizer::from_value(&script.value()).unwrap_or_else(|error| panic!("{error}"));
    let moves = script.int() != 0;
    let mut keys = BTreeMap::new();
    for _ in 0..script.length() {
        let (key, dtype) = (script.int(), Dtype::from_number(script.int()).unwrap());
        keys.insert(key, Key { dtype, weight: script.buffer(), state: None });
    }
    let mut weights = Vec::new();
    while !script.0.is_empty() {
        let name = script.int();
        let key = keys.get_mut(&name).unwrap();
        step(&optimizer, name, key, &mut script);
        if moves {
            key.state = Some(Box::new(moved(&optimizer, name, key)));
        }
        weights.extend_from_slice(key.weight.bytes());
    }
    fs::write(output, weights).unwrap();
}

fn step(optimizer: &Optimizer, name: i64, key: &mut Key, script: &mut Reader<'_>) {
    let row_len = script.length();
    let rows: Vec<i64> = (0..script.length()).map(|_| script.int()).collect();
    let values = script.buffer();
    if key.state.is_none()
        && let Some((what, reason)) = optimizer.unfit(name, row_len > 0)
    {
        // What a server says when the optimizer meets the key, before anything is pushed.
        panic!("before the first push: {} cannot update a {what} key: {reason}", optimizer.class());
    }
    let gradient = if row_len == 0 {
        Gradient::Dense(&values)
    } else {
        Gradient::RowSparse { rows: &rows, values: &values, row_len }
    };
    optimizer
        .update(name, key.dtype, &mut key.weight, &gradient, &mut key.state)
        .unwrap_or_else(|error| panic!("{error}"));
}

/// The state of a key after it was exported and imported.
fn moved(optimizer: &Optimizer, name: i64, key: &Key) -> State {
    let state = key.state.as_ref().unwrap();
    let tensors =
        state.tensors().map(|(name, _, tensor)| (name.to_owned(), tensor.clone())).collect();
    optimizer
        .restore_state(name, key.dtype, &key.weight, tensors, state.numbers(), state.count())
        .unwrap()
}

/// Milliseconds of an update of 100 MB of float32 weights, the best of ten.
fn bench(script: &str) {
    let optimizer = Optimizer::from_value(&Reader(&fs::read(script).unwrap()).value()).unwrap();
    let elements = 25_000_000;
    let mut weight = Buffer::zeroed(4 * elements);
    let mut gradient = Buffer::zeroed(4 * elements);
    gradient.elements_mut::<f32>().fill(0.001);
    weight.elements_mut::<f32>().fill(0.5);
    let mut state = None;
    let mut best = f64::MAX;
    for _ in 0..10 {
        let start = Instant::now();
        let gradient = Gradient::Dense(&gradient);
        optimizer.update(0, Dtype::F32, &mut weight, &gradient, &mut state).unwrap();
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{} {:.1} ms", optimizer.class(), best * 1e3);
}
