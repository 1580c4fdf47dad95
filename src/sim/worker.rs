//! A worker of a simulated job: pushes each tensor, pulls the sum, and has the ledger look at it,
//! round after round, as MXNet's `dist_sync` store does. One that took the place of a dead worker
//! asks the servers how far the job is and goes on from there.

use super::app::{APP, Input, Judge, Output, Program, STOP, View, frame, words};
use super::batches::Batches;
use super::ledger::{Ledger, WORDS, gradient};
use pslite_core::cluster::Action;
use pslite_core::kv::messages::{pairs_of, with_data};
use pslite_core::kv::worker::Response;
use pslite_core::kv::{Finished, Pending, State, WorkerRequests, slice};
use pslite_core::random::Random;
use pslite_core::values::{KeyRange, KvPairs, server_key_ranges};
use pslite_core::wire::topic::Topic;
use pslite_core::wire::{
    ALL_GROUP, Frames, Key, Message, Meta, NodeId, WORKER_GROUP, id_to_rank, server_id,
};

/// Enters the job.
const START: u64 = 1;
/// Leaves it.
const EXIT: u64 = 2;
/// Between two rounds.
const MEET: u64 = 3;
/// After the last round.
const LAST: u64 = 4;

/// What a request is for.
#[derive(Clone, Copy, Debug)]
enum RequestPurpose {
    Push,
    Pull,
    PushPull,
    /// To learn how far the job is.
    CatchUp,
}

#[derive(Clone, Debug)]
struct Tensor {
    keys: Vec<Key>,
    push_pull: bool,
    /// Rounds that are over.
    rounds: u64,
}

/// One worker.
#[derive(Debug)]
pub(super) struct Worker {
    program: Program,
    workers: usize,
    ranges: Vec<KeyRange>,
    random: Random,
    rank: usize,
    tensors: Vec<Tensor>,
    requests: WorkerRequests<(RequestPurpose, usize)>,
    /// Tensors that this round waits for.
    open: usize,
    /// The request that stops the servers.
    stopping: Option<i32>,
    batches: Option<Batches>,
}

impl Worker {
    pub(super) fn new(program: Program, workers: usize, servers: usize, random: Random) -> Self {
        let ranges = server_key_ranges(servers);
        let tensors = tensors(&program, &ranges);
        let batches = program.shares.map(Batches::new);
        Self {
            program,
            workers,
            ranges,
            random,
            rank: 0,
            tensors,
            requests: WorkerRequests::new(),
            open: 0,
            stopping: None,
            batches,
        }
    }

    pub(super) fn input(
        &mut self,
        view: &View<'_>,
        input: Input,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        match input {
            Input::Ready => self.ready(view, out),
            Input::Barrier { ticket: EXIT, result } => out.push(Output::End(result)),
            Input::Barrier { result: Err(text), .. } | Input::Failed(text) => {
                out.push(Output::End(Err(text)));
            }
            Input::Barrier { ticket: LAST, .. } => self.stop_servers(out),
            Input::Barrier { .. } | Input::Wake => self.begin_round(view, ledger, out),
            Input::Message(message) if !message.meta.request => {
                self.response(message, ledger, out);
            }
            Input::NodeLost { id, reason } => {
                let finished = self.requests.fail_node(id, reason);
                finished.into_iter().for_each(|one| self.finished(one, ledger, out));
            }
            Input::Unsent { meta, reason } => {
                let finished = self.requests.fail(meta.timestamp, reason);
                finished.into_iter().for_each(|one| self.finished(one, ledger, out));
            }
            Input::Elastic(action) => {
                if let Action::Told { topic: Topic::Batches, bytes, .. } = *action {
                    self.told_of_batches(view, &bytes, ledger, out);
                }
            }
            Input::Message(_) | Input::CustomerLeft { .. } | Input::Tick => {}
        }
    }

    fn told_of_batches(
        &mut self,
        view: &View<'_>,
        word: &[u8],
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let Some(batches) = &mut self.batches else { return };
        batches.told(view.now, word, out);
        if batches.waits {
            self.begin_round(view, ledger, out);
        }
    }

    fn ready(&mut self, view: &View<'_>, out: &mut Vec<Output>) {
        let me = view.cluster.me();
        self.rank = usize::try_from(id_to_rank(me.id)).unwrap_or(0);
        if !me.is_recovery {
            out.push(Output::Barrier { ticket: START, group: ALL_GROUP, leaving: false });
            return;
        }
        self.open = self.tensors.len();
        for index in 0..self.tensors.len() {
            self.request(RequestPurpose::CatchUp, index, out);
        }
    }

    fn begin_round(&mut self, view: &View<'_>, ledger: &mut Ledger, out: &mut Vec<Output>) {
        let round = self.round();
        if round >= self.program.rounds {
            if let Some(batches) = &mut self.batches {
                batches.waits = false;
                batches.close(out);
            }
            out.push(Output::Barrier { ticket: LAST, group: WORKER_GROUP, leaving: false });
            return;
        }
        if self.program.leaves == Some((self.rank, round)) {
            out.push(Output::Barrier { ticket: EXIT, group: ALL_GROUP, leaving: true });
            return;
        }
        if let Some(batches) = &mut self.batches {
            let who = (self.rank, self.workers);
            if !batches.begins(view, who, round, ledger, out) {
                return;
            }
        }
        for index in 0..self.tensors.len() {
            let (rounds, both) = (self.tensors[index].rounds, self.tensors[index].push_pull);
            if rounds == round {
                self.open += 1;
                self.request(
                    if both { RequestPurpose::PushPull } else { RequestPurpose::Push },
                    index,
                    out,
                );
            }
        }
    }

    fn round(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.rounds).min().unwrap_or(u64::MAX)
    }

    /// Cuts a request by server and sends it (kv_app.h:574).
    fn request(&mut self, purpose: RequestPurpose, index: usize, out: &mut Vec<Output>) {
        let tensor = &self.tensors[index];
        let keys = frame(&tensor.keys);
        let push = matches!(purpose, RequestPurpose::Push | RequestPurpose::PushPull);
        let vals: Vec<u64> = if push {
            let gradient = |key: &Key| gradient(self.rank, *key, tensor.rounds);
            tensor.keys.iter().flat_map(gradient).collect()
        } else {
            Vec::new()
        };
        let kv = KvPairs { keys: keys.clone(), vals: frame(&vals), ..KvPairs::default() };
        let servers: Vec<NodeId> = (0..self.ranges.len()).map(server_id).collect();
        let timestamp = self.requests.new_request(&servers);
        let payload = (purpose, index);
        let pull = !matches!(purpose, RequestPurpose::Push);
        let pending =
            if pull { Pending::pull(keys, false, payload) } else { Pending::push(payload) };
        let slices = match slice(&kv, size_of::<u64>(), &self.ranges) {
            Ok(slices) if self.requests.expect(timestamp, pending).is_ok() => slices,
            Ok(_) => return out.push(Output::End(Err("a new request is over already".to_owned()))),
            Err(error) => return out.push(Output::End(Err(error.to_string()))),
        };
        for (rank, slice) in slices.into_iter().enumerate() {
            let Some(kv) = slice else {
                // Each tensor has a key, so that somebody is asked.
                drop(self.requests.skip(timestamp, server_id(rank)));
                continue;
            };
            let meta = Meta { push, pull, ..self.meta(timestamp, server_id(rank)) };
            out.push(Output::Send(Box::new(with_data(meta, kv))));
        }
    }

    fn meta(&self, timestamp: i32, recver: NodeId) -> Meta {
        Meta {
            head: 0,
            app_id: APP,
            customer_id: APP,
            timestamp,
            recver,
            request: true,
            ..Meta::default()
        }
    }

    fn response(&mut self, message: Message, ledger: &mut Ledger, out: &mut Vec<Output>) {
        let Message { meta, data } = message;
        let response =
            Response { pairs: pairs_of(data), error: &meta.error, ..Response::default() };
        let finished = self.requests.on_response(meta.timestamp, meta.sender, response);
        if let Some(finished) = finished {
            self.finished(finished, ledger, out);
        }
        if self.stopping.is_some_and(|ts| self.requests.state(ts) == State::Done) {
            self.stopping = None;
            out.push(Output::Barrier { ticket: EXIT, group: ALL_GROUP, leaving: true });
        }
    }

    fn finished(
        &mut self,
        finished: Finished<(RequestPurpose, usize)>,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let Finished { ts, payload: (purpose, index), outcome } = finished;
        self.requests.complete(ts);
        let assembled = match outcome {
            Ok(assembled) => assembled.unwrap_or_default(),
            Err(error) => return out.push(Output::End(Err(error.to_string()))),
        };
        let values = words(&assembled.vals.concat());
        match purpose {
            RequestPurpose::Push => return self.request(RequestPurpose::Pull, index, out),
            RequestPurpose::Pull | RequestPurpose::PushPull => self.look_at(index, &values, ledger),
            RequestPurpose::CatchUp => {
                // Every worker adds the number of the round, counted from one.
                let sum = values.get(WORDS - 1).copied().unwrap_or(0);
                self.tensors[index].rounds = sum / self.workers as u64;
            }
        }
        self.open -= 1;
        if self.open == 0 {
            self.end_round(matches!(purpose, RequestPurpose::CatchUp), out);
        }
    }

    fn look_at(&mut self, index: usize, values: &[u64], ledger: &mut Ledger) {
        let tensor = &mut self.tensors[index];
        let found = values.len() / WORDS;
        if found != tensor.keys.len() || !values.len().is_multiple_of(WORDS) {
            ledger.fault(format!("{} words for {} keys", values.len(), tensor.keys.len()));
        }
        for (key, words) in tensor.keys.iter().zip(values.chunks(WORDS)) {
            ledger.pulled(self.rank, *key, tensor.rounds, words);
        }
        tensor.rounds += 1;
    }

    fn end_round(&mut self, caught_up: bool, out: &mut Vec<Output>) {
        let (round, every) = (self.round(), self.program.barrier_every);
        if let Some(batches) = self.batches.as_mut().filter(|_| !caught_up) {
            batches.computed(out);
        }
        let meets = every > 0 && round.is_multiple_of(every) && round < self.program.rounds;
        if meets && !caught_up {
            out.push(Output::Barrier { ticket: MEET, group: WORKER_GROUP, leaving: false });
        } else {
            out.push(Output::WakeAfter(self.random.time(self.program.compute)));
        }
    }

    /// The first worker stops the servers, as MXNet's does; the others leave at once.
    fn stop_servers(&mut self, out: &mut Vec<Output>) {
        if self.rank != 0 {
            out.push(Output::Barrier { ticket: EXIT, group: ALL_GROUP, leaving: true });
            return;
        }
        let servers: Vec<NodeId> = (0..self.ranges.len()).map(server_id).collect();
        let timestamp = self.requests.new_request(&servers);
        self.stopping = Some(timestamp);
        for server in servers {
            let meta = Meta { head: STOP, simple_app: true, ..self.meta(timestamp, server) };
            out.push(Output::Send(Box::new(Message { meta, data: Frames::new() })));
        }
    }
}

/// The tensors of a job: one key on one server each, and one with two keys on every server.
fn tensors(program: &Program, ranges: &[KeyRange]) -> Vec<Tensor> {
    let mut all = Vec::new();
    for index in 0..program.small_tensors {
        let begin = ranges.get(index % ranges.len().max(1)).map_or(0, |range| range.begin);
        all.push(vec![begin + index as Key]);
    }
    if program.wide_tensor {
        all.push(
            ranges.iter().flat_map(|range| [range.begin + 1000, range.begin + 1001]).collect(),
        );
    }
    let both = |index: usize| program.push_pull && index % 2 == 1;
    let numbered = all.into_iter().enumerate();
    numbered.map(|(index, keys)| Tensor { keys, push_pull: both(index), rounds: 0 }).collect()
}
