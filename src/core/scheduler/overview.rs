//! How the job is, put together: what the membership knows, and beside it the parts of the planner,
//! of the coordinators and of those who watch waits. Each part is brought by its owner; none is
//! kept.

use std::collections::BTreeMap;
use std::time::Duration;

use super::advice::exchange_advice;
use super::status::{NodeStatus, OldestWait, Status};
use super::times::RoundTimes;
use super::waits::WaitOverview;
use crate::chronicle::ChroniclePart;
use crate::cluster::{Cluster, MemberOverview, MemberState, Phase};
use crate::wire::balance::SessionStatus;
use crate::wire::counters::NodeTotals;
use crate::wire::exchange::status::ExchangeStatus;
use crate::wire::{NodeId, Role};

/// What the membership does not know.
#[derive(Clone, Debug, Default)]
pub struct StatusParts {
    /// The planner's: how long a round takes.
    pub times: RoundTimes,
    /// How workers share batches.
    pub sessions: Vec<SessionStatus>,
    /// How workers train while deltas travel.
    pub exchanges: Vec<ExchangeStatus>,
    /// Who waits for whom ([`WaitWatch`](super::WaitWatch)).
    pub waiting: WaitOverview,
    /// The same as numbers.
    pub oldest_waits: Vec<OldestWait>,
    /// What has happened, if that was asked for.
    pub chronicle: Option<ChroniclePart>,
    /// What nodes have counted ([`CounterBook`](super::CounterBook)).
    pub totals: BTreeMap<NodeId, NodeTotals>,
    /// The time, by the membership's clock.
    pub now: Duration,
}

impl Status {
    /// How the job is, as this node knows it; the scheduler knows most.
    #[must_use]
    pub fn of(cluster: &Cluster, parts: StatusParts) -> Self {
        let StatusParts {
            times,
            sessions,
            exchanges,
            waiting,
            oldest_waits,
            chronicle,
            totals,
            now,
        } = parts;
        let WaitOverview { lines, waits, circle } = waiting;
        let (config, policy, overview) = (cluster.config(), cluster.policy(), cluster.overview());
        // Requests of an exchange go on beside the program's iterations.
        let iterates = cluster.exchange().is_none();
        let node = |member: &MemberOverview<'_>| {
            let time = times.workers.get(&member.node.id).filter(|_| iterates);
            NodeStatus {
                computes: seconds(time.map(|time| time.computes)),
                waits: seconds(time.map(|time| time.waits)),
                heard: seconds(member.heard.map(|at| now.saturating_sub(at))),
                totals: totals.get(&member.node.id).filter(|_| !member.state.is_gone()).copied(),
                ..status_of(member)
            }
        };
        let advised_servers = cluster.is_ready().then(|| {
            let count = overview.members.iter().filter(|member| serves(member)).count();
            count.saturating_add_signed(times.advised.into())
        });
        Self {
            scheduler: config.scheduler.address(),
            phase: phase(overview.phase).to_owned(),
            workers: config.num_workers,
            servers: config.num_servers,
            elastic: cluster.is_elastic(),
            epoch: policy.epoch,
            replicas: policy.replicas,
            nodes: overview.members.iter().map(node).collect(),
            predicted: seconds(times.predicted),
            measured: seconds(times.measured),
            iteration: seconds(times.iteration().filter(|_| iterates)),
            bound: seconds(times.bound),
            eta: times.eta().filter(|_| iterates),
            exchange_advice: exchange_advice(cluster, &times.workers),
            limit: times.limit,
            no_plan: times.no_plan,
            advice: times.advice,
            note: overview.note,
            waits: lines,
            waiting: waits,
            circle,
            sessions,
            trees: times.trees.as_deref().cloned(),
            exchange: cluster.exchange().map(|spec| spec.describe()),
            exchanges,
            uncopied: overview.uncopied,
            settings: overview.settings,
            chronicle,
            rounds: times.round,
            moved: times.moved,
            advised_servers,
            oldest_waits,
        }
    }
}

fn seconds(time: Option<Duration>) -> Option<f64> {
    time.map(|time| time.as_secs_f64())
}

/// A server that is to stay.
fn serves(member: &MemberOverview<'_>) -> bool {
    let stays = !member.state.is_gone() && member.state != MemberState::Draining;
    member.node.role == Role::Server && stays
}

fn status_of(member: &MemberOverview<'_>) -> NodeStatus {
    NodeStatus {
        role: member.node.role.name().to_owned(),
        rank: member.rank,
        id: member.node.id,
        address: member.node.address(),
        state: state(member.state).to_owned(),
        pieces: member.owned.pieces,
        bytes: member.owned.bytes,
        state_bytes: member.owned.state_bytes,
        computes: None,
        waits: None,
        heard: None,
        totals: None,
    }
}

const fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Forming => "forming",
        Phase::Running => "running",
        Phase::Changing => "changing",
        Phase::Failed => "failed",
    }
}

const fn state(state: MemberState) -> &'static str {
    match state {
        MemberState::Registered => "registered",
        MemberState::Live => "live",
        MemberState::Joining => "joining",
        MemberState::Draining => "draining",
        MemberState::Fixed => "fixed",
        MemberState::Dead => "dead",
        MemberState::Released => "released",
        MemberState::Back => "back",
    }
}

#[cfg(test)]
mod tests {
    use super::super::status::{CircleStatus, WaitStatus};
    use super::*;
    use crate::cluster::tests::config;

    #[test]
    fn status_shows_what_each_owner_brings() {
        let cluster = Cluster::new(config(Role::Scheduler, "s", 1, 1, 0), Duration::ZERO);
        let sessions = vec![SessionStatus { name: "a".to_owned(), ..SessionStatus::default() }];
        let time = |millis| Some(Duration::from_millis(millis));
        let times = RoundTimes {
            measured: time(500),
            bound: time(250),
            limit: "a card".to_owned(),
            ..RoundTimes::default()
        };
        let wait =
            WaitStatus { what: "a barrier".to_owned(), since: 1.0, waited: 0.5, missing: vec![9] };
        let waiting = WaitOverview {
            lines: vec!["a barrier".to_owned()],
            waits: vec![wait.clone()],
            circle: vec![CircleStatus { what: "a round".to_owned(), node: 9 }],
        };
        let chronicle = Some(ChroniclePart { first: 1, ..ChroniclePart::default() });
        let parts = StatusParts {
            times,
            sessions: sessions.clone(),
            waiting,
            chronicle,
            ..StatusParts::default()
        };
        let status = Status::of(&cluster, parts);
        assert_eq!((status.phase.as_str(), status.scheduler.as_str()), ("forming", "s:1"));
        assert_eq!((status.measured, status.eta), (Some(0.5), Some(0.5)));
        assert_eq!(
            (status.limit.as_str(), &status.waits[..]),
            ("a card", &["a barrier".into()][..])
        );
        assert_eq!((&status.waiting[..], status.circle[0].node), (&[wait][..], 9));
        assert_eq!(status.advised_servers, None, "it is not complete");
        assert_eq!(status.sessions, sessions);
        let json = status.json();
        assert!(
            json.contains(r#""waiting":[{"what":"a barrier","since":1.0,"waited":0.5,"for":[9]}"#)
        );
        let unasked = Status { chronicle: None, ..status.clone() }.json();
        assert!(json.contains("\"chronicle\"") && !unasked.contains("chronicle"), "{unasked}");
        assert_eq!(Status::from_json(&status.json()), Some(status));
    }
}
