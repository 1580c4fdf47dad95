//! The scheduler's end of an exchange from the first word of a worker on: when there is a
//! coordinator, and how often it looks at what was measured. Node and simulator drive it. Pure.

use std::time::Duration;

use super::coordinator::{ExchangeCoordinator, ExchangeOutbox};
use crate::invariant::Valid;
use crate::wire::NodeId;
use crate::wire::exchange::ExchangeSpec;
use crate::wire::exchange::status::ExchangeStatus;
use crate::wire::exchange::word::ExchangeReport;

/// Windows and steps follow what is measured that often.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct SchedulerExchange {
    /// None before the first word of a worker.
    coordinator: Option<ExchangeCoordinator>,
    looked: Duration,
}

impl SchedulerExchange {
    /// A worker says how it is. `awaited`: whom rounds wait for, if that is not known here yet.
    pub fn handle(
        &mut self,
        from: NodeId,
        report: ExchangeReport,
        spec: &ExchangeSpec,
        awaited: impl FnOnce() -> Vec<NodeId>,
        out: &mut ExchangeOutbox,
    ) {
        let coordinator = self.coordinator.get_or_insert_with(|| {
            let mut new = ExchangeCoordinator::new(*spec);
            new.awaits(awaited(), out);
            new
        });
        coordinator.handle(from, report, out);
    }

    /// A worker is gone.
    pub fn lost(&mut self, node: NodeId, out: &mut ExchangeOutbox) {
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.lost(node, out);
        }
    }

    /// Whom rounds wait for may have changed.
    pub fn awaits(&mut self, awaited: impl FnOnce() -> Vec<NodeId>, out: &mut ExchangeOutbox) {
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.awaits(awaited(), out);
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Duration, out: &mut ExchangeOutbox) {
        if let Some(coordinator) = &mut self.coordinator
            && now.saturating_sub(self.looked) >= LOOK_EVERY
        {
            self.looked = now;
            coordinator.tick(out);
        }
    }

    /// How the exchanges are.
    #[must_use]
    pub fn status(&self) -> Vec<ExchangeStatus> {
        self.coordinator.as_ref().map_or_else(Vec::new, ExchangeCoordinator::status)
    }

    /// # Errors
    /// The first promise of the coordinator that does not hold.
    pub fn validate(&self) -> Valid {
        self.coordinator.as_ref().map_or(Ok(()), ExchangeCoordinator::validate)
    }
}
