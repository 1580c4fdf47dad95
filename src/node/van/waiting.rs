//! Blocks the application until the job is complete, a barrier is passed, or all nodes have left.
//! May touch the van; decides nothing itself.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{TICK, Van, error_of, stopped};
use crate::error::{NodeError, Result};
use crate::running::RunningNode;
use crate::settings::Settings;
use pslite_core::cluster::{Cluster, Event};
use pslite_core::wire::{NodeId, SCHEDULER, id_to_rank};
use pslite_observe::log::{self, Level};
use pslite_transport::fork;

/// How long a node that comes back after the end of a job waits for a new scheduler at the old
/// address. Programs that restart all nodes do so at once.
const NEW_SCHEDULER: Duration = Duration::from_secs(2);

/// How long it may take until connections stand again that went through a gateway which ended.
const GATEWAY_RETURNS: Duration = Duration::from_secs(3);

/// The barriers in the life of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// All nodes', at the start.
    Start,
    /// The application's.
    Between,
    /// All nodes', before they end.
    End,
}

impl Van {
    /// Registers a customer and waits until the job is complete.
    pub(crate) fn register(&self, customer_id: i32) -> Result<()> {
        self.event(Event::Register { customer_id });
        self.wait_for_job(None)
    }

    /// Likewise, but gives up without a connection: the job that was at this address is over, and a
    /// new scheduler may never come.
    pub(crate) fn register_again(&self, customer_id: i32) -> Result<()> {
        self.event(Event::Register { customer_id });
        self.wait_for_job(Some(NEW_SCHEDULER))
    }

    /// `alone`: for how long the connection to the scheduler may be down.
    fn wait_for_job(&self, alone: Option<Duration>) -> Result<()> {
        let mut heard = self.now();
        let mut core = self.job.lock();
        loop {
            match &core.failure {
                // The old scheduler may still be there, and refuses.
                Some(failure) if alone.is_some() => return Err(self.job_is_over(&failure.text)),
                Some(failure) => return Err(error_of(failure)),
                None => {}
            }
            if core.cluster.is_ready() {
                let rank = u32::try_from(id_to_rank(core.cluster.me().id)).unwrap_or(0);
                fork::note_node(self.state.settings.role as u32, rank);
                return Ok(());
            }
            if self.stopping.load(Ordering::Relaxed) {
                return Err(stopped());
            }
            let Some(alone) = alone else {
                core = self.job.wait(core);
                continue;
            };
            if core.channels.get(&SCHEDULER).is_some_and(|up| *up) {
                heard = self.now();
            } else if self.now().saturating_sub(heard) > alone {
                return Err(self.job_is_over("no scheduler answers there any more"));
            }
            core = self.job.wait_for(core, TICK);
        }
    }

    fn job_is_over(&self, why: &str) -> NodeError {
        let Settings { root_host, root_port, .. } = &self.state.settings;
        NodeError::NotStarted(format!(
            "the job of this process is over: it left that at {root_host}:{root_port} together \
             with all other \
             nodes. Keep one kvstore until the end of the script, or start a new job ({why})"
        ))
    }

    /// Enters a barrier and waits for its release.
    pub(crate) fn barrier(&self, customer_id: i32, group: i32, at: Meeting) -> Result<()> {
        let (leaving, instance) = (at == Meeting::End, at != Meeting::Between);
        if self.is_released() {
            // Nobody waits for it any more.
            return Ok(());
        }
        let ticket = {
            let mut core = self.job.lock();
            let ticket = core.next_ticket;
            core.next_ticket += 1;
            core.barriers.insert(ticket, None);
            ticket
        };
        self.event(Event::EnterBarrier { ticket, customer_id, group, leaving, instance });
        let mut core = self.job.lock();
        loop {
            if core.barriers.get(&ticket).is_some_and(Option::is_some) {
                let result = core.barriers.remove(&ticket).flatten();
                if let Some(Err(failure)) = result {
                    return Err(error_of(&failure));
                }
                let is_first = !std::mem::replace(&mut core.met, true);
                drop(core);
                if is_first {
                    self.trace_start();
                }
                return Ok(());
            }
            if self.is_released() {
                core.barriers.remove(&ticket);
                return Ok(());
            }
            if self.stopping.load(Ordering::Relaxed) {
                core.barriers.remove(&ticket);
                return Err(stopped());
            }
            core = self.job.wait(core);
        }
    }

    /// Logs how long the start took: until the job was complete and its first barrier passed.
    fn trace_start(&self) {
        let took = self.now().as_secs_f64() * 1e3;
        log::write(
            Level::Verbose,
            &format!("through the first barrier, {took:.1} ms after the start"),
        );
    }

    /// For a scheduler without an application: blocks until every node has come and left. If all
    /// connections go through one gateway, they may break together and be back soon.
    pub(crate) fn wait_for_end(&self) -> Result<()> {
        let patience = if self.tunnels.is_some() { GATEWAY_RETURNS } else { Duration::ZERO };
        let mut alone = None;
        let mut core = self.job.lock();
        loop {
            if let Some(failure) = &core.failure {
                return Err(error_of(failure));
            }
            let all_gone = core.cluster.is_ready() && are_all_gone(&core.cluster, &core.channels);
            let since = all_gone.then(|| alone.unwrap_or_else(|| self.now()));
            alone = since;
            let is_over = since.is_some_and(|since| self.now() >= since.saturating_add(patience));
            if is_over || self.stopping.load(Ordering::Relaxed) {
                return Ok(());
            }
            core = self.job.wait_for(core, TICK);
        }
    }
}

/// True if the job has no nodes any more. Those that are lost may be replaced while it is not over.
fn are_all_gone(cluster: &Cluster, channels: &BTreeMap<NodeId, bool>) -> bool {
    let nodes = cluster.others();
    match nodes.is_empty() {
        true => cluster.job_is_over(),
        false => are_all_down(&nodes, channels, |id| cluster.is_done(id)),
    }
}

/// True if no channel to these nodes stands any more. One that was never seen to stand does not
/// count as down, unless its node is done: it was here for a moment only. Channels without a
/// node's id are those of guests, such as `pslite status`.
fn are_all_down(
    nodes: &[NodeId],
    channels: &BTreeMap<NodeId, bool>,
    is_done: impl Fn(NodeId) -> bool,
) -> bool {
    nodes.iter().all(|id| channels.get(id).map_or_else(|| is_done(*id), |up| !up))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pslite_core::wire::{server_id, worker_id};

    #[test]
    fn a_scheduler_is_done_when_all_nodes_have_left_and_no_guest_ends_or_holds_it() {
        let (server, worker) = (server_id(0), worker_id(0));
        let gone = |channels: &[(NodeId, bool)]| {
            let channels = channels.iter().copied().collect::<BTreeMap<_, _>>();
            are_all_down(&[worker, server], &channels, |_| false)
        };
        assert!(!gone(&[]));
        assert!(!gone(&[(-1, false)]), "an operator asked before the first node's channel stood");
        assert!(!gone(&[(server, false)]), "it died before the worker's channel stood");
        assert!(!gone(&[(-1, false), (-2, false), (worker, true), (server, false)]));
        assert!(!gone(&[(server, true), (worker, false)]));
        assert!(gone(&[(server, false), (worker, false)]));
        assert!(gone(&[(-3, true), (-1, false), (server, false), (worker, false)]));
        let channels = BTreeMap::from([(server, false)]);
        assert!(are_all_down(&[worker, server], &channels, |id| id == worker), "a short job");
    }
}
