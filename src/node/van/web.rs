//! What this node says of itself over HTTP (`PSLITE_HTTP`, docs/watch.md): whether it is well, and,
//! at the scheduler, how the job is. May read all of the van; changes nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Van;
use crate::address;
use pslite_core::chronicle::RoundPoint;
use pslite_core::wire::chronicle::ChronicleQuestion;
use pslite_core::wire::word::Policy;
use pslite_core::wire::{NodeId, Role};
use pslite_web::{Shown, ShownEvent, ShownPoint};

/// The clock thread ticks twenty times a second. One that did not for so long stands still.
const TICK_LIMIT: Duration = Duration::from_secs(10);
/// Of a released server.
const HAS_LEFT: &str = "this server was emptied, and has left the job";

impl Van {
    /// Answers until the node ends.
    pub(super) fn serve_web(self: &Arc<Self>) {
        if let Some(door) = &self.web {
            // Another number than that of the node, which is nobody's to know.
            door.serve(&**self, address::incarnation());
        }
    }
}

/// Why a node of a complete job does not take part in it, if the newest policy says so.
fn apart(policy: &Policy, me: NodeId) -> Option<&'static str> {
    if policy.released.contains(&me) {
        Some(HAS_LEFT)
    } else if policy.draining.contains(&me) {
        Some("this server is being emptied")
    } else if policy.lost.contains(&me) {
        Some("the job goes on without this server: it was taken for dead")
    } else {
        None
    }
}

fn shown_point(point: &RoundPoint) -> ShownPoint {
    ShownPoint { millis: point.millis(), json: point.json() }
}

impl Shown for Van {
    fn status(&self) -> Option<String> {
        if self.state.settings.role != Role::Scheduler {
            return None;
        }
        Some(self.job_status().json())
    }

    fn events_since(&self, number: u64, most: usize) -> Vec<ShownEvent> {
        let mut told = Vec::new();
        let mut asked = ChronicleQuestion { after_event: number, after_point: u64::MAX };
        while let Some(part) = self.chronicle(asked).filter(|part| !part.events.is_empty()) {
            asked = part.next(asked);
            let shown = part.events.iter();
            told.extend(shown.map(|one| ShownEvent { number: one.number, json: one.json() }));
            if told.len() >= most {
                break;
            }
        }
        told.truncate(most);
        told
    }

    fn points(&self) -> Vec<ShownPoint> {
        self.state.round_points().iter().map(shown_point).collect()
    }

    fn metrics(&self) -> Option<String> {
        Some(self.openmetrics())
    }

    fn health(&self) -> Result<(), String> {
        let silent = self.web.as_ref().map(|door| door.since_tick());
        match silent.filter(|silent| *silent >= TICK_LIMIT) {
            None => Ok(()),
            Some(silent) => {
                Err(format!("the clock of this node has stood still for {} s", silent.as_secs()))
            }
        }
    }

    /// The scheduler's is true once it listens: others must find it before the job is complete.
    fn ready(&self) -> Result<(), String> {
        if self.state.settings.role == Role::Scheduler {
            return Ok(());
        }
        if self.stopping.load(Ordering::Relaxed) {
            return Err("this node ends".to_owned());
        }
        let core = self.job.lock();
        if let Some(failure) = &core.failure {
            return Err(format!("the job has failed: {}", failure.text));
        }
        if !self.job.is_ready() {
            // It says so itself, if the scheduler has told it who is missing.
            let note = core.cluster.overview().note;
            let begin = "the job is not complete: ";
            let is_said = note.starts_with(begin);
            return Err(if is_said { note } else { format!("{begin}{note}") });
        }
        drop(core);
        // It may leave before it hears of the policy that says so.
        if self.job.is_released() {
            return Err(HAS_LEFT.to_owned());
        }
        let why = self.state.policy().and_then(|routed| apart(&routed.policy, self.my_id()));
        why.map_or(Ok(()), |why| Err(why.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pslite_core::wire::server_id;

    #[test]
    fn a_server_that_is_emptied_or_taken_for_dead_is_not_ready() {
        let [one, two, three, four] = [0, 1, 2, 3].map(server_id);
        let policy = Policy {
            servers: vec![one, two],
            draining: vec![two],
            lost: vec![three],
            released: vec![four],
            ..Policy::default()
        };
        assert_eq!(apart(&policy, one), None);
        assert!(apart(&policy, two).is_some_and(|why| why.contains("being emptied")));
        assert!(apart(&policy, three).is_some_and(|why| why.contains("taken for dead")));
        assert!(apart(&policy, four).is_some_and(|why| why.contains("has left")));
    }
}
