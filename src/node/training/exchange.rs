//! The scheduler's end of an exchange (docs/nbsync.md), as a running node has it: the coordinator
//! of `core::training::exchange` behind a lock, and the words that go to workers.

use std::sync::Mutex;
use std::time::Duration;

use crate::sync::lock;
use pslite_core::cluster::Tell;
use pslite_core::training::exchange::ExchangeCoordinator;
use pslite_core::training::exchange::coordinator::ExchangeOutbox;
use pslite_core::wire::NodeId;
use pslite_core::wire::exchange::ExchangeSpec;
use pslite_core::wire::exchange::status::ExchangeStatus;
use pslite_core::wire::exchange::word::ExchangeReport;
use pslite_core::wire::topic::Topic;

/// Windows and steps follow what is measured that often.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// See the module. Its lock is held while no other one of the node is taken.
#[derive(Default)]
pub(crate) struct ExchangeDesk(Mutex<Desk>);

#[derive(Default)]
struct Desk {
    /// None before the first word of a worker.
    coordinator: Option<ExchangeCoordinator>,
    looked: Duration,
}

impl ExchangeDesk {
    /// A worker says how it is. `awaited`: whom rounds wait for, if that is not known here yet.
    /// Returns what follows.
    pub(crate) fn asked(
        &self,
        from: NodeId,
        word: &[u8],
        spec: &ExchangeSpec,
        awaited: impl FnOnce() -> Vec<NodeId>,
    ) -> Vec<Tell> {
        let Some(report) = ExchangeReport::read(word) else { return Vec::new() };
        let mut out = ExchangeOutbox::new();
        let mut desk = lock(&self.0);
        let coordinator = desk.coordinator.get_or_insert_with(|| {
            let mut new = ExchangeCoordinator::new(*spec);
            new.awaits(awaited(), &mut out);
            new
        });
        coordinator.handle(from, report, &mut out);
        words(out)
    }

    /// A worker is gone. Returns what follows.
    pub(crate) fn lost(&self, id: NodeId) -> Vec<Tell> {
        self.with(|coordinator, out| coordinator.lost(id, out))
    }

    /// Whom rounds wait for may have changed. Returns what follows.
    pub(crate) fn awaits(&self, awaited: impl FnOnce() -> Vec<NodeId>) -> Vec<Tell> {
        self.with(|coordinator, out| coordinator.awaits(awaited(), out))
    }

    /// Time has passed. Returns what follows, once a second.
    pub(crate) fn tick(&self, now: Duration) -> Vec<Tell> {
        {
            let mut desk = lock(&self.0);
            if now.saturating_sub(desk.looked) < LOOK_EVERY || desk.coordinator.is_none() {
                return Vec::new();
            }
            desk.looked = now;
        }
        self.with(ExchangeCoordinator::tick)
    }

    /// How the exchanges are.
    pub(crate) fn status(&self) -> Vec<ExchangeStatus> {
        lock(&self.0).coordinator.as_ref().map_or_else(Vec::new, ExchangeCoordinator::status)
    }

    fn with(&self, act: impl FnOnce(&mut ExchangeCoordinator, &mut ExchangeOutbox)) -> Vec<Tell> {
        let mut out = ExchangeOutbox::new();
        if let Some(coordinator) = &mut lock(&self.0).coordinator {
            act(coordinator, &mut out);
        }
        words(out)
    }
}

fn words(out: ExchangeOutbox) -> Vec<Tell> {
    out.into_iter()
        .map(|(to, word)| Tell { to, topic: Topic::Exchange, bytes: word.bytes() })
        .collect()
}
