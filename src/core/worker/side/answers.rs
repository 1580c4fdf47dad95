//! What comes back. May touch the side of the worker.

use std::time::Duration;

use super::{AnsweredBy, WorkerOutput, WorkerSide};
use crate::kv::flights::{Answered, Brought, PartAnswer};
use crate::kv::worker::Response;
use crate::kv::{Failure, FailureKind};
use crate::values::KvPairs;
use crate::wire::{Meta, NodeId, server_id};

impl<D> WorkerSide<D> {
    /// An answer with values, or to a push.
    pub fn answered(
        &mut self,
        now: Duration,
        meta: &Meta,
        pairs: KvPairs,
        out: &mut WorkerOutput<D>,
    ) {
        let Some(moving) = &self.moving else { return self.whole_answered(meta, pairs, out) };
        if moving.flights.has(meta.timestamp) {
            self.part_answered(now, meta, pairs, out);
        } else if meta.reply().is_none() {
            self.whole_answered(meta, pairs, out);
        }
        // Else it was said twice, or too late.
    }

    /// A server answers a command.
    pub fn obeyed(
        &mut self,
        timestamp: i32,
        server: NodeId,
        error: &str,
        out: &mut WorkerOutput<D>,
    ) {
        if error.is_empty() {
            self.commands.obeyed(timestamp, server);
        } else {
            self.commands.forget(timestamp);
        }
        let meta = Meta { timestamp, simple_app: true, ..Meta::default() };
        self.response(&meta, server, Response { error, ..Response::default() }, out);
    }

    /// One server has answered its slice.
    fn whole_answered(&mut self, meta: &Meta, pairs: KvPairs, out: &mut WorkerOutput<D>) {
        let no_keys = meta.error.is_empty() && meta.pull && pairs.keys.is_empty();
        let no_keys = no_keys.then(|| without_keys(meta.sender));
        let error = no_keys.as_ref().unwrap_or(&meta.error);
        let response = Response { pairs, error, ..Response::default() };
        self.response(meta, meta.sender, response, out);
    }

    /// A part was answered.
    pub(super) fn part_answered(
        &mut self,
        now: Duration,
        meta: &Meta,
        pairs: KvPairs,
        out: &mut WorkerOutput<D>,
    ) {
        self.rounds.answered(now, meta.sender);
        let Some(moving) = &mut self.moving else { return };
        let again = meta.reply().is_some_and(|reply| reply.again);
        let no_keys = meta.error.is_empty() && meta.pull && pairs.keys.is_empty() && !again;
        let no_keys = no_keys.then(|| without_keys(meta.sender));
        let error = no_keys.as_ref().unwrap_or(&meta.error);
        let answer = PartAnswer {
            timestamp: meta.timestamp,
            from: meta.sender,
            reply: meta.reply(),
            pairs,
            refused: !error.is_empty(),
        };
        let answered = moving.flights.answered(now, answer, &mut out.parts);
        if moving.flights.all_answered() {
            self.rounds.rests(now);
        }
        let (rank, response) = match answered {
            Ok(Answered::Unknown | Answered::Open) => return,
            Ok(Answered::Whole { rank, brought: Brought { pairs, more } }) => {
                (rank, Response { pairs, more, ..Response::default() })
            }
            Ok(Answered::Refused { rank }) => (rank, Response { error, ..Response::default() }),
            Err(error) => {
                // Its values do not fit the pieces that its key has now.
                moving.flights.forget(meta.timestamp);
                let failure = Failure::new(FailureKind::Unfit, error.to_string());
                return out.over.extend(self.requests.fail(meta.timestamp, failure));
            }
        };
        self.response(meta, server_id(rank as usize), response, out);
    }

    /// A server has answered all that it was asked for. `meta`: what it says of the request.
    fn response(
        &mut self,
        meta: &Meta,
        server: NodeId,
        response: Response<'_>,
        out: &mut WorkerOutput<D>,
    ) {
        let Meta { timestamp, simple_app, push, pull, .. } = *meta;
        if let Some(asked) = self.requests.tracker().asked(timestamp, server) {
            out.answered.push(AnsweredBy { server, asked, command: simple_app, push, pull });
        }
        out.over.extend(self.requests.on_response(timestamp, server, response));
    }
}

/// Why a pull failed that was answered with nothing.
fn without_keys(server: NodeId) -> String {
    format!("node {server} answered a pull without keys")
}
