//! The scheduler's end of an exchange (docs/nbsync.md), as a running node has it: behind a lock,
//! with the words that go to workers.

use std::sync::Mutex;
use std::time::Duration;

use crate::sync::lock;
use pslite_core::cluster::Tell;
use pslite_core::training::exchange::SchedulerExchange;
use pslite_core::training::exchange::coordinator::ExchangeOutbox;
use pslite_core::wire::NodeId;
use pslite_core::wire::exchange::ExchangeSpec;
use pslite_core::wire::exchange::status::ExchangeStatus;
use pslite_core::wire::exchange::word::{ExchangeReport, ExchangeWord};
use pslite_core::wire::topic::Topic;

/// See the module. Its lock is held while no other one of the node is taken.
#[derive(Default)]
pub(crate) struct LockedExchange(Mutex<SchedulerExchange>);

impl LockedExchange {
    /// A worker says how it is. `awaited`: whom rounds wait for, if that is not known here yet.
    /// Returns what follows.
    pub(crate) fn handle(
        &self,
        from: NodeId,
        word: &[u8],
        spec: &ExchangeSpec,
        awaited: impl FnOnce() -> Vec<NodeId>,
    ) -> Vec<Tell> {
        let Some(report) = ExchangeReport::read(word) else { return Vec::new() };
        self.with(|exchange, out| exchange.handle(from, report, spec, awaited, out))
    }

    /// A worker is gone. Returns what follows.
    pub(crate) fn lost(&self, id: NodeId) -> Vec<Tell> {
        self.with(|exchange, out| exchange.lost(id, out))
    }

    /// Whom rounds wait for may have changed. Returns what follows.
    pub(crate) fn awaits(&self, awaited: impl FnOnce() -> Vec<NodeId>) -> Vec<Tell> {
        self.with(|exchange, out| exchange.awaits(awaited, out))
    }

    /// Time has passed. Returns what follows.
    pub(crate) fn tick(&self, now: Duration) -> Vec<Tell> {
        self.with(|exchange, out| exchange.tick(now, out))
    }

    /// How the exchanges are.
    pub(crate) fn status(&self) -> Vec<ExchangeStatus> {
        lock(&self.0).status()
    }

    fn with(&self, act: impl FnOnce(&mut SchedulerExchange, &mut ExchangeOutbox)) -> Vec<Tell> {
        let mut out = ExchangeOutbox::new();
        act(&mut lock(&self.0), &mut out);
        let tell =
            |(to, word)| Tell { to, topic: Topic::Exchange, bytes: ExchangeWord::bytes(&word) };
        out.into_iter().map(tell).collect()
    }
}
