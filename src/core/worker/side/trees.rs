//! A worker's part in rounds along trees (`docs/trees.md`): its relay, joined with its requests.
//! May touch the side of the worker.

use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use super::{WorkerOutput, WorkerSide};
use crate::kv::flights::Outgoing;
use crate::trees::Step;
use crate::values::KvPairs;
use crate::wire::Meta;
use crate::wire::trees::Overlay;

impl<D> WorkerSide<D> {
    /// These trees are in force. What the relay does then is done with the next call.
    /// False if newer ones are known.
    pub fn know_trees(&mut self, now: Duration, overlay: &Overlay) -> bool {
        let Some(moving) = &mut self.moving else { return false };
        let is_new = moving.relay.overlay(overlay, &mut moving.undone);
        if is_new {
            moving.flights.set_trees(now, moving.me, Arc::clone(moving.relay.trees()));
        }
        is_new
    }

    /// These trees are in force. What waited for them may go.
    pub fn overlay(&mut self, now: Duration, overlay: &Overlay, out: &mut WorkerOutput<D>) {
        if self.know_trees(now, overlay) {
            self.retry(now, out);
        }
    }

    /// Something came along a tree.
    pub fn hop(&mut self, now: Duration, meta: Meta, kv: KvPairs, out: &mut WorkerOutput<D>) {
        let Some(moving) = &mut self.moving else { return };
        moving.relay.came(meta, kv, &mut moving.undone);
        self.catch_up(now, out);
    }

    /// Does what the relay says.
    pub(super) fn catch_up(&mut self, now: Duration, out: &mut WorkerOutput<D>) {
        let Some(moving) = &mut self.moving else { return };
        for step in take(&mut moving.undone) {
            match step {
                Step::Send(meta, kv) => out.parts.push(Outgoing { meta, kv }),
                Step::Answer(meta, kv) => {
                    if self.flights().is_some_and(|flights| flights.has(meta.timestamp)) {
                        self.part_answered(now, &meta, kv, out);
                    }
                }
                Step::Void(part, void) => {
                    if let Some(moving) = &mut self.moving {
                        moving.flights.void_ticket(part, void);
                    }
                }
            }
        }
    }

    /// The messages that are to be sent, in order. Parts that go along a tree are given to this
    /// worker's relay, and what it sends takes their place.
    #[must_use]
    pub fn messages(&mut self, out: &mut WorkerOutput<D>) -> Vec<Outgoing> {
        let messages = take(&mut out.parts);
        let Some(moving) = &mut self.moving else { return messages };
        let me = moving.me;
        if !messages.iter().any(|message| message.is_for_relay(me)) {
            return messages;
        }
        let mut steps = Vec::new();
        let (own, mut others): (Vec<Outgoing>, Vec<Outgoing>) =
            messages.into_iter().partition(|message| message.is_for_relay(me));
        for Outgoing { mut meta, kv } in own {
            meta.sender = me;
            moving.relay.push(meta, kv, &mut steps);
        }
        // A push is answered by what comes down, never at once.
        others.extend(steps.into_iter().filter_map(|step| match step {
            Step::Send(meta, kv) => Some(Outgoing { meta, kv }),
            Step::Answer(..) | Step::Void(..) => None,
        }));
        others
    }
}
