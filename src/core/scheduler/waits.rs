//! The scheduler says whom barriers have waited for, and who waits for each other: in a barrier, or
//! with a push in a round, of which servers and workers tell it ([`Topic::Stall`]). Reads the
//! membership, which knows nothing of rounds.
//!
//! [`Topic::Stall`]: crate::wire::topic::Topic::Stall

mod oldest;

use std::collections::BTreeMap;
use std::time::Duration;

use super::circle::{Wait, circle};
use super::lines::LogLine;
use super::open_wait::{OpenWait, barrier_name};
use super::status::{CircleStatus, WaitStatus};
use crate::chronicle::{JobEventKind, NewEvent};
use crate::cluster::{BarrierPlace, Cluster, OpenBarrier};
use crate::keys::KeyName;
use crate::wire::elastic::StalledRound;
use crate::wire::{NodeId, WORKER_GROUP, is_worker};

/// Workers look at what they wait for once a second.
const ROUNDS_SAID_AFTER: Duration = Duration::from_secs(2);

/// Limits between two such words, at most.
const ROUNDS_SAID_GAPS: u32 = 64;

/// A round that has waited for long, as a node told it.
#[derive(Clone, Debug)]
struct ToldRound {
    since: Duration,
    round: StalledRound,
}

/// A round that has waited for long.
struct LiveRound {
    /// For people.
    name: String,
    since: Duration,
    round: StalledRound,
}

impl LiveRound {
    fn into_wait(self) -> OpenWait {
        let Self { name, since, round } = self;
        OpenWait::of_round(name, since, round.missing, !round.pushed.is_empty())
    }
}

/// What waits, for people and for programs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitOverview {
    /// A line for each, and then one for whoever waits for each other.
    pub lines: Vec<String>,
    /// What waits, in the order of the lines.
    pub waits: Vec<WaitStatus>,
    /// Who waits for each other; empty: nobody does.
    pub circle: Vec<CircleStatus>,
}

/// When a round along a tree may be said again, and how long that is after it was said.
#[derive(Clone, Copy, Debug, Default)]
struct RoundsSaid {
    next: Duration,
    gap: Duration,
}

/// How often a barrier was said.
#[derive(Clone, Copy, Debug)]
struct BarrierSaid {
    /// Since when it waits. Another time: it is another barrier.
    since: Duration,
    /// After how long that is to be said next.
    after: Duration,
}

/// See the module.
#[derive(Debug)]
pub struct WaitWatch {
    /// What has waited for less is not said.
    limit: Duration,
    /// What servers told; and workers, of the round along a tree for which each waits.
    told: BTreeMap<NodeId, ToldRound>,
    barriers: BTreeMap<BarrierPlace, BarrierSaid>,
    rounds: RoundsSaid,
    /// The circle that was said last.
    said_circle: String,
}

impl WaitWatch {
    /// Nothing waits yet. What has waited for less than `limit` is not said.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self {
            limit,
            told: BTreeMap::new(),
            barriers: BTreeMap::new(),
            rounds: RoundsSaid::default(),
            said_circle: String::new(),
        }
    }

    /// A server tells which round has waited for long, or a worker of its push along a tree; no
    /// bytes: none does any more. What is to be said goes to `out`.
    pub fn told(
        &mut self,
        now: Duration,
        from: NodeId,
        bytes: &[u8],
        cluster: &Cluster,
        out: &mut Vec<LogLine>,
    ) {
        if bytes.is_empty() {
            self.told.remove(&from);
        } else if let Some(round) = StalledRound::read(bytes) {
            let since = now.saturating_sub(Duration::from_millis(round.waited));
            self.told.insert(from, ToldRound { since, round });
            self.say_circle(now, cluster, out);
        }
    }

    /// A customer of a node sends no more requests. Of a worker no round waits then.
    pub fn left(&mut self, id: NodeId) {
        if is_worker(id) {
            self.told.remove(&id);
        }
    }

    /// Time has passed. What is to be said goes to `out`.
    pub fn look(&mut self, now: Duration, cluster: &Cluster, out: &mut Vec<LogLine>) {
        if cluster.is_scheduler() && cluster.goes_on() {
            self.report_barriers(now, cluster, out);
            self.report_rounds(now, cluster, out);
        }
    }

    /// What waits, and then whoever waits for each other: barriers in which workers are, whether
    /// that is for long or not, and rounds of which servers have told.
    #[must_use]
    pub fn waiting(&self, now: Duration, cluster: &Cluster) -> WaitOverview {
        let barriers = cluster.open_barriers().filter(OpenBarrier::has_worker);
        let barriers = barriers.map(|barrier| OpenWait::of_barrier(&barrier, cluster));
        let rounds = self.live_rounds(cluster).into_iter().map(LiveRound::into_wait);
        let waits: Vec<OpenWait> = barriers.chain(rounds).collect();
        let circle = self.circle(now, cluster);
        let lines = waits.iter().map(|wait| wait.text(now, cluster));
        WaitOverview {
            lines: lines.chain(circle_text(&circle, cluster)).collect(),
            waits: waits.iter().map(|wait| wait.status(now)).collect(),
            circle,
        }
    }

    /// Says which members barriers wait for that have waited for long; each time after twice as
    /// long.
    fn report_barriers(&mut self, now: Duration, cluster: &Cluster, out: &mut Vec<LogLine>) {
        let mut kept = BTreeMap::new();
        let mut any_is_due = false;
        for barrier in cluster.open_barriers() {
            let said = self.barriers.get(&barrier.place).copied();
            let mut said = said
                .filter(|said| said.since == barrier.since)
                .unwrap_or(BarrierSaid { since: barrier.since, after: self.limit });
            if now >= said.since.saturating_add(said.after) {
                let waited = now.saturating_sub(said.since);
                said.after = waited.saturating_mul(2).max(self.limit);
                let wait = OpenWait::of_barrier(&barrier, cluster);
                out.push(match barrier.has_worker() {
                    true => LogLine::Event(wait.event(now, cluster)),
                    false => LogLine::Step(wait.text(now, cluster)),
                });
                any_is_due = true;
            }
            kept.insert(barrier.place, said);
        }
        self.barriers = kept;
        if any_is_due {
            self.say_circle(now, cluster, out);
        }
    }

    /// Says a circle that was not said last.
    fn say_circle(&mut self, now: Duration, cluster: &Cluster, out: &mut Vec<LogLine>) {
        let text = circle_text(&self.circle(now, cluster), cluster).unwrap_or_default();
        if !text.is_empty() && text != self.said_circle {
            out.push(LogLine::Event(NewEvent::warning(JobEventKind::Wait, &*text)));
        }
        self.said_circle = text;
    }

    /// Who waits for each other; empty: nobody does.
    fn circle(&self, now: Duration, cluster: &Cluster) -> Vec<CircleStatus> {
        let long = |barrier: &OpenBarrier<'_>| {
            now.saturating_sub(barrier.since) >= self.limit && barrier.has_worker()
        };
        let barriers = cluster.open_barriers().filter(long).map(|barrier| Wait {
            name: barrier_name(&barrier),
            members: barrier.members(),
            missing: barrier.missing(),
            blocks: true,
        });
        // Along a tree, who lacks nothing any more looks as if it had not pushed.
        let rounds = self.live_rounds_at_servers(cluster);
        let rounds = rounds.map(|LiveRound { name, round, .. }| Wait {
            name,
            members: round.pushed.iter().copied().collect(),
            missing: round.missing,
            blocks: false,
        });
        let waits: Vec<Wait> = barriers.chain(rounds).collect();
        let steps = circle(&waits).unwrap_or_default().into_iter();
        let step =
            |(wait, node): (usize, NodeId)| CircleStatus { what: waits[wait].name.clone(), node };
        steps.map(step).collect()
    }

    /// Says which round along a tree has waited for long, as servers say it of others.
    fn report_rounds(&mut self, now: Duration, cluster: &Cluster, out: &mut Vec<LogLine>) {
        let limit = self.limit;
        let oldest = self.live_rounds_of_trees(cluster).into_iter().min_by_key(|it| it.since);
        let Some(oldest) = oldest.filter(|_| now >= self.rounds.next) else { return };
        // All who have pushed tell it within a second of each other.
        let due = oldest.since.saturating_add(limit).saturating_add(ROUNDS_SAID_AFTER);
        if now < due {
            return;
        }
        let most = limit.saturating_mul(ROUNDS_SAID_GAPS);
        let RoundsSaid { next, gap } = self.rounds;
        // Where rounds always take long it is said ever more rarely.
        let is_anew = now.saturating_sub(next) > most;
        let gap = if is_anew { limit } else { gap.saturating_mul(2).clamp(limit, most) };
        self.rounds = RoundsSaid { next: now.saturating_add(gap), gap };
        out.push(LogLine::Event(oldest.into_wait().event(now, cluster)));
    }

    /// The rounds that somebody told of who is still there.
    fn live_rounds(&self, cluster: &Cluster) -> Vec<LiveRound> {
        self.live_rounds_at_servers(cluster).chain(self.live_rounds_of_trees(cluster)).collect()
    }

    fn live_rounds_at_servers(&self, cluster: &Cluster) -> impl Iterator<Item = LiveRound> {
        let rounds = self.told.iter();
        let rounds = rounds.filter(|(id, _)| !cluster.is_gone(**id) && !is_worker(**id));
        rounds.map(|(server, ToldRound { since, round })| {
            let (number, server) = (round.round, cluster.describe(*server));
            let key = KeyName::new(round.key, round.space);
            let name = format!("round {number} of key {key} at {server}");
            LiveRound { name, since: *since, round: round.clone() }
        })
    }

    /// Those along trees. Each worker tells of the oldest round for which it waits. A worker that
    /// tells of none has not pushed, or has its values while those of others are on their way.
    fn live_rounds_of_trees(&self, cluster: &Cluster) -> Vec<LiveRound> {
        let told = self.told.iter();
        let told = told.filter(|(id, _)| !cluster.is_gone(**id) && is_worker(**id));
        let mut rounds: BTreeMap<(i64, u32, u64), (Duration, Vec<NodeId>)> = BTreeMap::new();
        for (worker, ToldRound { since, round }) in told {
            let name = (round.key, round.space, round.round);
            let (first, pushed) = rounds.entry(name).or_insert((*since, Vec::new()));
            *first = (*first).min(*since);
            pushed.push(*worker);
        }
        if rounds.is_empty() {
            return Vec::new();
        }
        let workers = cluster.ids_of(WORKER_GROUP).unwrap_or_default();
        let lacks = |id: &NodeId| !cluster.is_gone(*id) && !self.told.contains_key(id);
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
}

/// Who waits for each other, for people; none: nobody does.
fn circle_text(circle: &[CircleStatus], cluster: &Cluster) -> Option<String> {
    let next = circle.iter().cycle().skip(1);
    let steps = circle.iter().zip(next).map(|(CircleStatus { what, node }, next)| {
        format!("{what} waits for {}, which is in {}", cluster.describe(*node), next.what)
    });
    let steps: Vec<String> = steps.collect();
    (!steps.is_empty()).then(|| format!("nodes wait for each other: {}", steps.join("; ")))
}
