//! Where keys are: gives the planner of placement the nodes' reports and the job's members, and
//! turns its plans into orders. Sends nothing itself. Pure; the time is an argument.

use std::collections::BTreeMap;
use std::time::Duration;

use super::lines::LogLines;
use super::probes::{ProbePair, Probes};
use super::status::MovedStatus;
use super::times::{RoundTimes, WorkerTime};
use crate::chronicle::{JobEventKind, MovedShare, NewEvent};
use crate::cluster::Cluster;
use crate::cluster::claims::{Piece, Pieces};
use crate::placement::cost::Replicas;
use crate::placement::layout::{Move, MoveOccasion, PieceLoad, Plan};
use crate::placement::links::PROBE_AFTER;
use crate::placement::measured::Measured;
use crate::placement::planner::{
    Advice, Duty, Members, PlacementSettings, Planner, Report, ServerMember, ServerStep, Status,
    WorkerMember,
};
use crate::placement::stragglers::{IterationTime, SlowWorker};
use crate::random::Random;
use crate::text;
use crate::values::{KeyRange, server_key_ranges};
use crate::wire::elastic::{CopyPlace, Order};
use crate::wire::{NodeId, Role, id_to_rank};

/// What the scheduler is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyDecision {
    /// Nothing.
    None,
    /// Pieces move, from the servers that are named.
    Moves(Vec<(NodeId, Order)>),
    /// Copies are kept elsewhere.
    Copies(Vec<CopyPlace>),
}

/// What the planner was told of pieces.
#[derive(Clone, Copy, Debug)]
struct Listed {
    /// Their number ([`Cluster::pieces_number`]).
    number: u64,
    /// No piece was on its way.
    whole: bool,
    pieces: u32,
    at: Duration,
}

/// Between two lists of all pieces there is at least that time for each: some fifty times what it
/// takes to list one.
const PAUSE_FOR_EACH: Duration = Duration::from_micros(10);

/// How often the log tells what is counted on.
const DESCRIBE_EVERY: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Debug)]
pub(super) struct KeyPlanner {
    planner: Planner,
    /// As the job began with.
    replicas: Replicas,
    members: Members,
    /// None if the planner knows of no pieces yet.
    listed: Option<Listed>,
    /// How many keys belong to each rank.
    range: u64,
    /// A plan was ordered, and the planner does not know yet what became of it.
    ordered: bool,
    round_seconds: f64,
    /// The newest round that some worker has finished.
    round: Option<u64>,
    /// Bytes that plans have moved.
    moved: BTreeMap<MoveOccasion, u64>,
    random: Random,
    /// When it was last said what is counted on.
    described: Duration,
    /// What the log has last of one server more, and of one fewer.
    advised: [Option<Advice>; 2],
    /// The gate that the log last named, and when.
    held_by: Option<(&'static str, Duration)>,
    probes: Probes,
    /// Keys may move that need not. So it matters what an idle link can carry.
    enabled: bool,
}

impl KeyPlanner {
    /// A planner that knows nothing. `ranks`: how many the application counts with. `probe_after`:
    /// links of a job that rests for so long are probed.
    pub(super) fn new(
        replicas: u32,
        ranks: usize,
        seed: u64,
        probe_after: Option<Duration>,
    ) -> Self {
        let ranges = server_key_ranges(ranks);
        let replicas = if replicas == 0 { Replicas::None } else { Replicas::Next { ratio: 1.0 } };
        Self {
            planner: Planner::new(PlacementSettings {
                replicas: replicas.clone(),
                ..PlacementSettings::default()
            }),
            replicas,
            members: Members::default(),
            listed: None,
            range: ranges.first().map_or(u64::MAX, KeyRange::size),
            ordered: false,
            round_seconds: 0.0,
            round: None,
            moved: BTreeMap::new(),
            random: Random::new(seed),
            described: Duration::ZERO,
            advised: [None; 2],
            held_by: None,
            probes: Probes::new(probe_after.unwrap_or(PROBE_AFTER)),
            enabled: true,
        }
    }

    /// Whether it may move what need not move. The planner begins anew when that changes: what it
    /// learnt of rounds along trees says nothing of those that go straight.
    pub(super) fn set_enabled(&mut self, enabled: bool) {
        if self.enabled != enabled {
            self.enabled = enabled;
            let settings = PlacementSettings {
                enabled,
                replicas: self.replicas.clone(),
                ..PlacementSettings::default()
            };
            self.planner = self.planner.anew(settings);
            (self.members, self.listed, self.ordered) = (Members::default(), None, false);
        }
    }

    /// A node told what it measured.
    pub(super) fn report(&mut self, now: Duration, from: NodeId, measured: Measured) {
        let Measured { links, rounds, progress, busy, idle, .. } = measured;
        if self.enabled {
            self.probes.idle(now, from, &idle);
        }
        if let Some(links) = links {
            if links.links.iter().any(|link| link.recent > 0.0) {
                self.probes.traffic(now);
            }
            self.planner.report(now, Report::Links(links));
        }
        if let Some(rounds) = rounds {
            self.round_seconds = rounds.round_seconds;
            self.round = self.round.max(Some(rounds.last_round));
            self.planner.report(now, Report::Rounds(rounds));
        }
        if let Some(round) = progress {
            self.round = self.round.max(Some(round));
            self.planner.report(now, Report::Progress { round });
        }
        if let Some(busy) = busy {
            let seconds = busy * self.round_seconds;
            self.planner.report(now, Report::Handler { server: from, seconds });
        }
    }

    /// Says now and then what the planner counts on.
    fn describe(&mut self, now: Duration, lines: &mut LogLines) {
        if lines.is_verbose() && now.saturating_sub(self.described) >= DESCRIBE_EVERY {
            self.described = now;
            if let Some(text) = self.planner.describe(now) {
                lines.step(format!("planner (Mbit/s up/down): {text}"));
            }
        }
    }

    /// Says what another number of servers would bring, if that is news.
    fn advise(&mut self, lines: &mut LogLines) {
        for (advice, said) in self.planner.advice().into_iter().zip(&mut self.advised) {
            let Some(advice) = advice else { continue };
            if said.is_none_or(|said| advice.differs_from(&said)) {
                *said = Some(advice);
                let text = format!("advice: {advice}");
                lines.say(NewEvent::info(JobEventKind::Advice, text));
            }
        }
    }

    /// Says why nothing is moved, if that is another reason than the last one.
    fn tell_why_not(&mut self, now: Duration, lines: &mut LogLines) {
        let Some(reason) = self.planner.no_plan() else { return };
        let same = |(gate, at): (&str, Duration)| {
            gate == reason.gate || now.saturating_sub(at) < DESCRIBE_EVERY
        };
        if lines.is_verbose() && !self.held_by.is_some_and(same) {
            lines.step(format!("nothing is moved ({}): {reason}", reason.gate));
            self.held_by = Some((reason.gate, now));
        }
    }

    /// What is to be done now.
    pub(super) fn look(
        &mut self,
        now: Duration,
        cluster: &Cluster,
        lines: &mut LogLines,
    ) -> KeyDecision {
        self.describe(now, lines);
        self.advise(lines);
        let members = members(cluster);
        if members != self.members {
            self.planner.set_members(members.clone());
            self.members = members;
        }
        if !cluster.may_order() || cluster.has_open_orders() || !self.list(now, cluster, lines) {
            return KeyDecision::None;
        }
        let pairs = cluster.policy().copies.iter().map(|copy| (copy.owner, copy.holder));
        self.planner.set_copies(pairs.collect());
        if let Some(pairs) = self.planner.copies(now) {
            lines.say(NewEvent::info(JobEventKind::Move, told_copies(&pairs)));
            let place = |(owner, holder)| CopyPlace { owner, holder };
            return KeyDecision::Copies(pairs.into_iter().map(place).collect());
        }
        let random = &mut self.random;
        let Some(plan) = self.planner.tick(now, &mut || random.unit()) else {
            self.tell_why_not(now, lines);
            return KeyDecision::None;
        };
        self.held_by = None;
        self.ordered = true;
        let bytes = self.moved.entry(plan.occasion).or_default();
        *bytes = bytes.saturating_add(plan.moved_bytes);
        lines.say(moved(&plan, cluster.pieces()));
        KeyDecision::Moves(plan.moves.iter().map(order).collect())
    }

    /// Tells the planner where all pieces are, if they may be elsewhere than when it was told.
    /// False if some is on its way, or if it was told a short while ago: to list very many pieces
    /// must not take all the time there is.
    fn list(&mut self, now: Duration, cluster: &Cluster, lines: &mut LogLines) -> bool {
        let number = cluster.pieces_number();
        if let Some(listed) = self.listed {
            if listed.number == number && !(listed.whole && self.ordered) {
                return listed.whole;
            }
            let pause = PAUSE_FOR_EACH.saturating_mul(listed.pieces);
            if now.saturating_sub(listed.at) < pause {
                return false;
            }
        }
        let layout = layout(cluster, self.range);
        let pieces = layout.as_ref().map_or(cluster.pieces().len(), Vec::len);
        let pieces = u32::try_from(pieces).unwrap_or(u32::MAX);
        self.listed = Some(Listed { number, whole: layout.is_some(), pieces, at: now });
        let Some(layout) = layout else { return false };
        self.ordered = false;
        if let Err(error) = self.planner.set_layout(layout) {
            let text = format!("what servers hold cannot be: {error}");
            lines.say(NewEvent::warning(JobEventKind::Note, text));
        }
        true
    }

    /// The idle links that are to be probed now.
    pub(super) fn probes(&mut self, now: Duration, cluster: &Cluster) -> Vec<ProbePair> {
        self.probes.due(now, |id| cluster.node(id).is_some() && !cluster.is_gone(id))
    }

    /// For `pslite status`, where rounds go along trees: workers that hold the others up.
    pub(super) fn held_up(&self, now: Duration) -> String {
        slow_workers(&self.planner.status(now).slow_workers)
    }

    /// For `pslite status`.
    /// `exchange`: workers train while deltas travel, so none waits for another's iteration.
    pub(super) fn times(&self, now: Duration, exchange: bool) -> RoundTimes {
        let status = self.planner.status(now);
        let seconds = |seconds: Option<f64>| {
            seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        };
        let time = |time: IterationTime| {
            let (computes, waits) = (Some(time.computing), Some(time.waiting()));
            Some(WorkerTime { computes: seconds(computes)?, waits: seconds(waits)? })
        };
        let workers = status.iterations.iter();
        RoundTimes {
            predicted: seconds(status.predicted),
            measured: seconds(status.measured),
            bound: seconds(status.bound),
            round: self.round,
            workers: workers.filter_map(|(id, taken)| Some((*id, time(*taken)?))).collect(),
            limit: note(&status, exchange),
            no_plan: status.no_plan.as_ref().map(ToString::to_string).unwrap_or_default(),
            advice: advised(&status),
            advised: steps(&status),
            moved: self
                .moved
                .iter()
                .map(|(occasion, bytes)| moved_status(*occasion, *bytes))
                .collect(),
            trees: None,
        }
    }
}

fn told_copies(pairs: &[(NodeId, NodeId)]) -> String {
    let rank = id_to_rank;
    let pair =
        |(owner, holder): &(NodeId, NodeId)| format!("{} at {}", rank(*owner), rank(*holder));
    let pairs = text::few(pairs.iter().map(pair));
    format!("copies of servers are to be kept at others: {pairs}")
}

/// Workers that hold the others up.
fn slow_workers(workers: &[SlowWorker]) -> String {
    let slow = |slow: &SlowWorker| {
        format!(
            "worker {} holds the others up: it computes {:.3} s of an iteration of {:.3} s, the \
             usual one of the others {:.3} s",
            id_to_rank(slow.worker),
            slow.time.computing,
            slow.time.seconds,
            slow.usual
        )
    };
    text::few(workers.iter().map(slow))
}

/// Servers and workers that hold the others up, and why.
fn note(status: &Status, exchange: bool) -> String {
    let stragglers = status.servers.iter().filter_map(|server| {
        let cause = server.straggler?;
        let rank = id_to_rank(server.id);
        Some(format!(
            "server {rank} is {:.1} times as slow as its links: {cause:?}",
            server.slowdown
        ))
    });
    let slow = if exchange { String::new() } else { slow_workers(&status.slow_workers) };
    stragglers.chain((!slow.is_empty()).then_some(slow)).collect::<Vec<_>>().join("; ")
}

/// What another number of servers would bring.
fn advised(status: &Status) -> String {
    let texts = status.advice.iter().flatten().map(ToString::to_string);
    texts.collect::<Vec<_>>().join("; ")
}

/// Servers more, or fewer.
fn steps(status: &Status) -> i8 {
    let step = |advice: &Advice| match advice.step {
        ServerStep::More => 1,
        ServerStep::Fewer(_) => -1,
    };
    status.advice.iter().flatten().map(step).sum()
}

fn moved_status(occasion: MoveOccasion, bytes: u64) -> MovedStatus {
    MovedStatus { reason: occasion.name().to_owned(), bytes }
}

fn told(plan: &Plan) -> String {
    let megabytes = plan.moved_bytes as f64 / 1e6;
    let bound = plan.bound.map_or(String::new(), |bound| format!(", at best {bound:.3} s"));
    format!(
        "moving {megabytes:.1} MB in {} pieces: a round takes {:.3} s, then {:.3} s{bound} ({})",
        plan.moves.len(),
        plan.before,
        plan.predicted,
        plan.reason
    )
}

/// The plan as an event.
fn moved(plan: &Plan, pieces: &Pieces) -> NewEvent {
    let mut shares: BTreeMap<(NodeId, NodeId), u64> = BTreeMap::new();
    for part in &plan.moves {
        *shares.entry((part.owner, part.to_server)).or_default() += weight(part, pieces);
    }
    let share = |((from, to), bytes)| MovedShare { from, to, bytes };
    let event = NewEvent::info(JobEventKind::Move, told(plan))
        .with("bytes", plan.moved_bytes as f64)
        .with("pieces", plan.moves.len() as f64)
        .with("before", plan.before)
        .with("after", plan.predicted)
        .moving(plan.reason.clone(), shares.into_iter().map(share).collect());
    plan.bound.into_iter().fold(event, |event, bound| event.with("bound", bound))
}

/// All that moves with that part of a piece, in bytes.
fn weight(part: &Move, pieces: &Pieces) -> u64 {
    let pieces = pieces.get(&part.key).map(|key| &key.pieces[..]).unwrap_or_default();
    let place = pieces.partition_point(|piece| piece.to <= part.from);
    pieces.get(place).map_or(0, |piece| {
        let all = u128::from(piece.to.saturating_sub(piece.from).max(1));
        let moves = u128::from(part.to.saturating_sub(part.from));
        u64::try_from(u128::from(piece.weight()) * moves / all).unwrap_or(u64::MAX)
    })
}

fn order(of: &Move) -> (NodeId, Order) {
    (of.owner, Order { key: of.key, from: of.from, to: of.to, owner: of.to_server })
}

/// Who is in the job. Nodes with the same host name are on one host.
fn members(cluster: &Cluster) -> Members {
    let mut hosts: BTreeMap<&str, u32> = BTreeMap::new();
    let mut members = Members::default();
    let able = cluster.able_servers();
    let policy = cluster.policy();
    for node in cluster.members().values().filter(|node| !cluster.is_gone(node.id)) {
        let number = hosts.len() as u32;
        let host = Some(*hosts.entry(&node.hostname).or_insert(number));
        let id = node.id;
        match node.role {
            Role::Worker => members.workers.push(WorkerMember { id, host }),
            Role::Server if policy.servers.contains(&id) => {
                let duty = if able.contains(&id) { Duty::Active } else { Duty::Draining };
                members.servers.push(ServerMember { id, host, duty });
            }
            Role::Server | Role::Scheduler => {}
        }
    }
    members
}

/// Where all pieces are; `None` while some is on its way. An application numbers its keys alike
/// within the ranges of all ranks, and in the order in which it comes to them.
fn layout(cluster: &Cluster, range: u64) -> Option<Vec<PieceLoad>> {
    let pieces = cluster.pieces().values().flat_map(|key| &key.pieces);
    let load = |piece: &Piece| {
        (piece.leaving_to.is_none()).then_some(PieceLoad {
            key: piece.key,
            position: piece.key % range.max(1),
            from: piece.from,
            to: piece.to,
            bytes: piece.bytes,
            state_bytes: piece.state_bytes,
            owner: piece.owner,
            divisible: piece.align != 0,
            align: piece.align.max(1),
        })
    };
    pieces.map(load).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::claims::KeyPieces;

    fn piece(from: u64, to: u64, owner: NodeId) -> Piece {
        Piece {
            key: 3,
            from,
            to,
            term: 0,
            version: 0,
            owner,
            leaving_to: None,
            bytes: 4 * (to - from),
            state_bytes: 4 * (to - from),
            align: 1,
            safe: true,
        }
    }

    /// What moves between two servers is one share, and a part of a piece is a part of its bytes.
    #[test]
    fn a_plan_is_an_event_with_its_numbers() {
        let pieces = vec![piece(0, 100, 8), piece(100, 200, 10), piece(200, 300, 8)];
        let pieces = Pieces::from([(3, KeyPieces { length: 300, pieces })]);
        let part = |from, to, owner| Move { key: 3, from, to, owner, to_server: 12 };
        let plan = Plan {
            moves: vec![part(50, 100, 8), part(100, 200, 10), part(200, 300, 8)],
            before: 0.5,
            predicted: 0.25,
            bound: Some(0.2),
            moved_bytes: 2000,
            reason: "the links".to_owned(),
            occasion: MoveOccasion::Shorter,
        };
        let event = moved(&plan, &pieces);
        assert_eq!((event.text.as_str(), event.reason.as_str()), (&*told(&plan), "the links"));
        let share = |from, bytes| MovedShare { from, to: 12, bytes };
        assert_eq!(event.moves, [share(8, 1200), share(10, 800)]);
        let numbers: Vec<(&str, f64)> =
            event.numbers.iter().map(|(name, number)| (&**name, *number)).collect();
        let expected =
            [("after", 0.25), ("before", 0.5), ("bound", 0.2), ("bytes", 2000.0), ("pieces", 3.0)];
        assert_eq!(numbers, expected);
    }
}
