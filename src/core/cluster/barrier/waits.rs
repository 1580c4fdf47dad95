//! The scheduler says whom barriers have waited for, and who waits for each other: in a barrier, or
//! with a push in a round, of which servers tell it. Touches the membership's books alone.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::circle::{Wait, circle};
use super::super::{Action, Cluster, Level};
use super::{BETWEEN, Entered, RoundsSaid};
use crate::keys::KeyName;
use crate::wire::elastic::{SchedulerMessage, SchedulerMessageKind, StalledRound};
use crate::wire::{ALL_GROUP, NodeId, SCHEDULER, SERVER_GROUP, WORKER_GROUP, is_worker};

/// Nodes that one line names.
const NODES_NAMED_MAX: usize = 4;
/// Workers look at what they wait for once a second.
const ROUNDS_SAID_AFTER: Duration = Duration::from_secs(2);

/// Limits between two such words, at most.
const ROUNDS_SAID_GAPS: u32 = 64;

/// A round that has waited for long.
struct LiveRound {
    /// For people.
    name: String,
    since: Duration,
    round: StalledRound,
}

impl Cluster {
    /// Scheduler: says which members barriers wait for that have waited for long; each time after
    /// twice as long.
    pub(in crate::cluster) fn report_barriers(&mut self, now: Duration, out: &mut Vec<Action>) {
        let mut due = Vec::new();
        for (place, entered) in &mut self.entered {
            if now >= entered.due() {
                let waited = now.saturating_sub(entered.since);
                entered.say_after = waited.saturating_mul(2).max(self.config.stall_report);
                due.push(*place);
            }
        }
        for (place, entered) in due.iter().filter_map(|place| self.entered.get_key_value(place)) {
            let level = if entered.has_worker() { Level::Warning } else { Level::Verbose };
            Self::log(out, level, self.barrier_text(now, *place, entered));
        }
        if !due.is_empty() {
            self.say_circle(now, out);
        }
    }

    /// Server: tells a scheduler of ours.
    pub(in crate::cluster) fn tell_stalled(
        &mut self,
        stalled: Option<StalledRound>,
        out: &mut Vec<Action>,
    ) {
        if self.ready && self.failure.is_none() && !self.is_scheduler() && self.is_ours(SCHEDULER) {
            let kind = SchedulerMessageKind::Stalled as i32;
            self.word(
                SCHEDULER,
                SchedulerMessage { kind, stalled, ..SchedulerMessage::default() },
                out,
            );
        }
    }

    /// Scheduler: a server tells, or a worker of its push along a tree.
    pub(in crate::cluster) fn stalled_came(
        &mut self,
        now: Duration,
        from: NodeId,
        round: Option<&StalledRound>,
        out: &mut Vec<Action>,
    ) {
        if self.node(from).is_none() || !self.is_scheduler() {
            return;
        }
        match round {
            None => {
                self.stalled.remove(&from);
            }
            Some(round) => {
                let since = now.saturating_sub(Duration::from_millis(round.waited));
                self.stalled.insert(from, (since, round.clone()));
                self.say_circle(now, out);
            }
        }
    }

    /// Says a circle that was not said last.
    fn say_circle(&mut self, now: Duration, out: &mut Vec<Action>) {
        let text = self.circle_text(now).unwrap_or_default();
        if !text.is_empty() && text != self.circle {
            Self::log(out, Level::Warning, text.clone());
        }
        self.circle = text;
    }

    /// Scheduler: what waits, a line for each, and then whoever waits for each other: barriers in
    /// which workers are, whether that is for long or not, and rounds of which servers have told.
    pub(in crate::cluster) fn waits(&self, now: Duration) -> Vec<String> {
        let barriers = self.entered.iter().filter(|(_, entered)| entered.has_worker());
        let barriers = barriers.map(|(place, entered)| self.barrier_text(now, *place, entered));
        let rounds = self.live_rounds();
        let rounds = rounds.iter().map(|round| self.round_text(now, round));
        barriers.chain(rounds).chain(self.circle_text(now)).collect()
    }

    /// Who waits for each other, if somebody does.
    fn circle_text(&self, now: Duration) -> Option<String> {
        let long = |entered: &Entered| {
            now.saturating_sub(entered.since) >= self.config.stall_report && entered.has_worker()
        };
        let barriers = self.entered.iter().filter(|(_, entered)| long(entered));
        let barriers = barriers.map(|((group, domain), entered)| Wait {
            name: format!("a barrier of {}", members(*group)),
            members: entered.members.keys().map(|(member, _)| *member).collect(),
            missing: self.missing(*group, *domain, entered),
            blocks: true,
        });
        // Along a tree, who lacks nothing any more looks as if it had not pushed.
        let rounds = self.live_rounds_at_servers();
        let rounds = rounds.map(|LiveRound { name, round, .. }| Wait {
            name,
            members: round.pushed.iter().copied().collect(),
            missing: round.missing,
            blocks: false,
        });
        let waits: Vec<Wait> = barriers.chain(rounds).collect();
        let steps = circle(&waits)?;
        let next = steps.iter().cycle().skip(1);
        let steps = steps.iter().zip(next).map(|((wait, node), (next, _))| {
            let (wait, next) = (&waits[*wait].name, &waits[*next].name);
            format!("{wait} waits for {}, which is in {next}", self.describe(*node))
        });
        let steps: Vec<String> = steps.collect();
        Some(format!("nodes wait for each other: {}", steps.join("; ")))
    }

    /// Scheduler: says which round along a tree has waited for long, as servers say it of others.
    pub(in crate::cluster) fn report_rounds(&mut self, now: Duration, out: &mut Vec<Action>) {
        let limit = self.config.stall_report;
        let oldest = self.live_rounds_of_trees().into_iter().min_by_key(|it| it.since);
        let Some(oldest) = oldest.filter(|_| now >= self.rounds_said.next) else { return };
        // All who have pushed tell it within a second of each other.
        let due = oldest.since.saturating_add(limit).saturating_add(ROUNDS_SAID_AFTER);
        if now < due {
            return;
        }
        let most = limit.saturating_mul(ROUNDS_SAID_GAPS);
        let RoundsSaid { next, gap } = self.rounds_said;
        // Where rounds always take long it is said ever more rarely.
        let is_anew = now.saturating_sub(next) > most;
        let gap = if is_anew { limit } else { gap.saturating_mul(2).clamp(limit, most) };
        self.rounds_said = RoundsSaid { next: now.saturating_add(gap), gap };
        Self::log(out, Level::Warning, self.round_text(now, &oldest));
    }

    fn round_text(&self, now: Duration, LiveRound { name, since, round }: &LiveRound) -> String {
        let waited = now.saturating_sub(*since).as_secs();
        if round.missing.is_empty() && !round.pushed.is_empty() {
            return format!("{name} has waited {waited} s, and all workers have pushed");
        }
        format!("{name} has waited {waited} s for {}", self.names(&round.missing, NODES_NAMED_MAX))
    }

    /// The rounds that somebody told of who is still there.
    fn live_rounds(&self) -> Vec<LiveRound> {
        self.live_rounds_at_servers().chain(self.live_rounds_of_trees()).collect()
    }

    fn live_rounds_at_servers(&self) -> impl Iterator<Item = LiveRound> {
        let rounds = self.stalled.iter().filter(|(id, _)| !self.is_gone(**id) && !is_worker(**id));
        rounds.map(|(server, (since, round))| {
            let (number, server) = (round.round, self.describe(*server));
            let key = KeyName::new(round.key, round.space);
            let name = format!("round {number} of key {key} at {server}");
            LiveRound { name, since: *since, round: round.clone() }
        })
    }

    /// Those along trees. Each worker tells of the oldest round for which it waits. A worker that
    /// tells of none has not pushed, or has its values while those of others are on their way.
    fn live_rounds_of_trees(&self) -> Vec<LiveRound> {
        let told = || self.stalled.iter().filter(|(id, _)| !self.is_gone(**id) && is_worker(**id));
        let mut rounds: BTreeMap<(i64, u32, u64), (Duration, Vec<NodeId>)> = BTreeMap::new();
        for (worker, (since, round)) in told() {
            let name = (round.key, round.space, round.round);
            let (first, pushed) = rounds.entry(name).or_insert((*since, Vec::new()));
            *first = (*first).min(*since);
            pushed.push(*worker);
        }
        if rounds.is_empty() {
            return Vec::new();
        }
        let workers = self.ids_of(WORKER_GROUP).unwrap_or_default();
        let lacks = |id: &NodeId| !self.is_gone(*id) && !self.stalled.contains_key(id);
        let missing: Vec<NodeId> = workers.into_iter().filter(lacks).collect();
        let rounds = rounds.into_iter().map(|((key, space, number), (since, pushed))| LiveRound {
            name: format!("round {number} of key {} along a tree", KeyName::new(key, space)),
            since,
            round: StalledRound {
                key,
                space,
                round: number,
                pushed,
                missing: missing.clone(),
                ..StalledRound::default()
            },
        });
        rounds.collect()
    }

    /// Some of these nodes for people.
    fn names(&self, nodes: &[NodeId], most: usize) -> String {
        let mut names: Vec<String> = nodes.iter().take(most).map(|id| self.describe(*id)).collect();
        match nodes.len() - names.len() {
            _ if names.is_empty() => names.push("others".to_owned()),
            0 => {}
            more => names.push(format!("{more} more")),
        }
        names.join(", and for ")
    }

    fn barrier_text(
        &self,
        now: Duration,
        (group, domain): (i32, i32),
        entered: &Entered,
    ) -> String {
        let missing: Vec<NodeId> = self.missing(group, domain, entered);
        let missing: Vec<NodeId> = missing.into_iter().filter(|id| !self.is_gone(*id)).collect();
        // Of the nodes of a process any may come.
        let names =
            if domain == BETWEEN && self.config.group_size > 1 { 0 } else { NODES_NAMED_MAX };
        let whom = self.names(&missing, names);
        let waited = now.saturating_sub(entered.since).as_secs();
        let who = members(group);
        format!("a barrier of {who} has waited {waited} s for {whom}")
    }
}

/// A group for people.
fn members(group: i32) -> String {
    let who = match group {
        WORKER_GROUP => "all workers",
        SERVER_GROUP => "all servers",
        SCHEDULER => "the scheduler",
        ALL_GROUP => "all nodes",
        _ if group == WORKER_GROUP + SERVER_GROUP => "all workers and servers",
        _ if group == WORKER_GROUP + SCHEDULER => "all workers and the scheduler",
        _ => "all servers and the scheduler",
    };
    format!("{who} (group {group})")
}
