//! A server of a simulated job: MXNet's `dist_sync` rule without an optimizer
//! (kvstore_dist_server.h). A push is answered when as many pushes of its keys are here as there
//! are workers; their sum then replaces the value. A pull is answered at once.
//!
//! It counts messages and does not look who sent them, as MXNet does: what comes twice is counted
//! twice, and the ledger sees it.

use std::collections::BTreeMap;

use super::app::{APP, Input, Output, STOP, View, answer, frame, words};
use pslite_core::kv::Unanswered;
use pslite_core::kv::messages::{pairs_of, with_data};
use pslite_core::kv::unanswered::Stuck;
use pslite_core::values::{KvPairs, key_at};
use pslite_core::wire::{ALL_GROUP, Key, Message, Meta, NodeId};

/// Enters the job.
const START: u64 = 1;
/// Leaves it.
const EXIT: u64 = 2;

/// What is kept for the keys of one request, by the first of them.
#[derive(Clone, Debug, Default)]
struct StoredSum {
    value: Vec<u64>,
    /// The pushes of the round that is open.
    open: Vec<(Meta, KvPairs)>,
}

/// The sum store of one server.
#[derive(Debug)]
pub(super) struct Server {
    workers: usize,
    stored: BTreeMap<Key, StoredSum>,
    unanswered: Unanswered,
    left: bool,
    stopped: bool,
    /// Pushes until one is forgotten; for the tests of the oracle.
    forgets_after: Option<u64>,
}

impl Server {
    pub(super) fn new(workers: usize, forgets_after: Option<u64>) -> Self {
        Self {
            workers,
            stored: BTreeMap::new(),
            unanswered: Unanswered::new(),
            left: false,
            stopped: false,
            forgets_after,
        }
    }

    pub(super) fn input(&mut self, view: &View<'_>, input: Input, out: &mut Vec<Output>) {
        match input {
            Input::Ready if view.cluster.me().is_recovery => {}
            Input::Ready => {
                out.push(Output::Barrier { ticket: START, group: ALL_GROUP, leaving: false });
            }
            Input::Barrier { ticket: EXIT, result } => out.push(Output::End(result)),
            Input::Barrier { result: Err(text), .. } | Input::Failed(text) => {
                out.push(Output::End(Err(text)));
            }
            Input::Message(message) if message.meta.request => self.request(view, message, out),
            Input::NodeLost { id, .. } => self.forget(id),
            Input::CustomerLeft { id, customer_id } => {
                self.unanswered.customer_left(id, customer_id);
                self.left = true;
            }
            Input::Barrier { .. }
            | Input::Message(_)
            | Input::Unsent { .. }
            | Input::Wake
            | Input::Tick
            | Input::Elastic(_) => {}
        }
        self.end_stuck_requests(view, out);
    }

    fn request(&mut self, view: &View<'_>, message: Message, out: &mut Vec<Output>) {
        let Message { meta, data } = message;
        if meta.simple_app {
            let meta_of_answer = answer(&meta, String::new());
            out.push(Output::Send(Box::new(Message {
                meta: meta_of_answer,
                ..Message::default()
            })));
            if meta.head == STOP && !std::mem::replace(&mut self.stopped, true) {
                out.push(Output::Barrier { ticket: EXIT, group: ALL_GROUP, leaving: true });
            }
            return;
        }
        let kv = pairs_of(data);
        let key = key_at(&kv.keys, 0).unwrap_or(0);
        self.unanswered.received(&meta, key, view.now);
        let stored = self.stored.entry(key).or_default();
        if meta.push {
            stored.open.push((meta, kv));
            if stored.open.len() >= self.workers {
                self.close_round(key, out);
            }
        } else {
            let vals = frame(&stored.value);
            self.respond(&meta, KvPairs { keys: kv.keys, vals, ..KvPairs::default() }, out);
        }
    }

    /// All pushes are here: their sum replaces the value, and all are answered.
    fn close_round(&mut self, key: Key, out: &mut Vec<Output>) {
        let Some(stored) = self.stored.get_mut(&key) else { return };
        let mut sum: Vec<u64> = Vec::new();
        for (_, kv) in &stored.open {
            if let Some(left) = &mut self.forgets_after {
                *left = left.wrapping_sub(1);
                if *left == 0 {
                    continue;
                }
            }
            let words = words(&kv.vals);
            sum.resize(sum.len().max(words.len()), 0);
            sum.iter_mut().zip(words).for_each(|(sum, word)| *sum = sum.wrapping_add(word));
        }
        stored.value = sum;
        let vals = frame(&stored.value);
        for (meta, kv) in std::mem::take(&mut stored.open) {
            let kv = if meta.pull {
                KvPairs { keys: kv.keys, vals: vals.clone(), ..KvPairs::default() }
            } else {
                KvPairs::default()
            };
            self.respond(&meta, kv, out);
        }
    }

    fn respond(&mut self, request: &Meta, kv: KvPairs, out: &mut Vec<Output>) {
        self.unanswered.answered(request.sender, request.customer_id, request.timestamp);
        out.push(Output::Send(Box::new(with_data(answer(request, String::new()), kv))));
    }

    /// What a dead node had pushed into an open round does not count: who takes its place pushes
    /// again.
    fn forget(&mut self, id: NodeId) {
        self.unanswered.forget_node(id);
        for stored in self.stored.values_mut() {
            stored.open.retain(|(meta, _)| meta.sender != id);
        }
    }

    /// As the thread of a customer does when it has nothing else to do.
    fn end_stuck_requests(&mut self, view: &View<'_>, out: &mut Vec<Output>) {
        if !self.left {
            return;
        }
        for Stuck { request, left } in self.unanswered.stuck() {
            let who: Vec<String> =
                left.iter().map(|(node, _)| view.cluster.describe(*node)).collect();
            let error = format!("{} left without the push that others wait for", who.join(", "));
            self.unanswered.answered(request.sender, request.customer_id, request.timestamp);
            let meta = Meta {
                head: request.head,
                app_id: APP,
                customer_id: request.customer_id,
                timestamp: request.timestamp,
                recver: request.sender,
                push: request.push,
                pull: request.pull,
                error,
                ..Meta::default()
            };
            out.push(Output::Send(Box::new(Message { meta, ..Message::default() })));
        }
    }
}
