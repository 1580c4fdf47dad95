//! What the job says: who is gone, where pieces are, and that time has passed. May touch the side
//! of the worker.

use std::time::Duration;

use super::{Moving, WorkerOutput, WorkerSide};
use crate::kv::KvError;
use crate::kv::flights::Flights;
use crate::wire::NodeId;
use crate::wire::elastic::KeyRoute;
use crate::wire::word::RoutedPolicy;

impl<D> WorkerSide<D> {
    /// A new policy.
    pub fn policy(&mut self, now: Duration, policy: &RoutedPolicy, out: &mut WorkerOutput<D>) {
        self.step(now, out, |moving, out| moving.flights.policy(now, policy, &mut out.parts));
    }

    /// Where pieces are that have moved.
    pub fn learn(&mut self, now: Duration, routes: &[KeyRoute], out: &mut WorkerOutput<D>) {
        self.step(now, out, |moving, _| {
            moving.flights.learn(routes);
            Ok(())
        });
    }

    /// What waits may go now.
    pub fn retry(&mut self, now: Duration, out: &mut WorkerOutput<D>) {
        self.step(now, out, |moving, out| {
            if moving.flights.waits() { moving.flights.retry(now, &mut out.parts) } else { Ok(()) }
        });
    }

    /// Does what is undone, and then that. If what waits does not fit its pieces, no request of
    /// this customer can be followed: all fail.
    fn step(
        &mut self,
        now: Duration,
        out: &mut WorkerOutput<D>,
        step: impl FnOnce(&mut Moving, &mut WorkerOutput<D>) -> Result<(), KvError>,
    ) {
        self.catch_up(now, out);
        let Some(moving) = &mut self.moving else { return };
        let Err(error) = step(moving, out) else { return };
        self.fail_all(&error.to_string(), out);
    }

    /// Nothing is answered any more.
    pub fn fail_all(&mut self, reason: &str, out: &mut WorkerOutput<D>) {
        let failed = self.requests.fail_all(reason);
        // Nobody waits for them any more, so none is to be tried again.
        failed.iter().for_each(|finished| self.forget(finished.ts));
        out.over.extend(failed);
        out.has_failed = true;
    }

    /// A node is gone. What was sent to it waits, or fails where keys stay.
    pub fn lost(&mut self, now: Duration, node: NodeId, reason: &str, out: &mut WorkerOutput<D>) {
        match &mut self.moving {
            None => out.over.extend(self.requests.fail_node(node, reason)),
            Some(moving) => {
                moving.flights.lost(now, node);
                self.end_commands(node, out);
            }
        }
    }

    /// A part could not be sent: its receiver is gone.
    pub fn unsent(&mut self, now: Duration, node: NodeId) {
        if let Some(moving) = &mut self.moving {
            moving.flights.lost(now, node);
        }
    }

    /// Other workers may go on without this one: values that came ahead are theirs no more.
    pub fn drop_ahead(&mut self) {
        if let Some(moving) = &mut self.moving {
            Flights::drop_ahead(&mut moving.flights);
        }
    }
}
