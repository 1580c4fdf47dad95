//! Who computes which samples: in each iteration of a session no sample is taken by two, each is
//! taken by somebody unless its worker was lost, all are in the same iteration up to the lookahead,
//! and who was there from the beginning leaves none out.

use std::collections::BTreeMap;

use pslite_core::training::balance::{Batch, Worker};
use pslite_core::wire::{NodeId, id_to_rank, worker_id};

/// A batch that a worker took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TakenBatch {
    /// Which session of the job: all its workers may have closed one before.
    pub(crate) run: u64,
    pub(crate) rank: usize,
    pub(crate) instance: u64,
    pub(crate) life: u64,
    pub(crate) batch: Batch,
}

/// What was taken of one iteration: from, to, and by which process.
type SampleParts = Vec<(u64, u64, u64)>;

/// A process in a session.
#[derive(Clone, Copy, Debug)]
struct SessionProcess {
    rank: usize,
    life: u64,
    /// The iteration after the last one of which it took a batch.
    next: u64,
    is_lost: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Samples {
    /// Samples of an iteration, and how many are lent ahead.
    total: u64,
    ahead: u64,
    run: u64,
    taken: BTreeMap<(u64, u64), SampleParts>,
    members: BTreeMap<(u64, u64), SessionProcess>,
    /// Processes that have a place, with their first iteration, and have taken nothing yet.
    placed: BTreeMap<(u64, u64), SessionProcess>,
    /// Of which iterations a lost worker may have had samples that it never took: session, from,
    /// to.
    lost: Vec<(u64, u64, u64)>,
    /// The first iteration that nobody is to take.
    end: u64,
    /// Who takes the place of a dead worker takes what that one took, and what it left.
    replaced: bool,
}

impl Samples {
    /// Workers share so many samples, and take so many iterations ahead; the last one of all is
    /// before `end`.
    pub(super) fn new(total: u32, ahead: u32, end: u64) -> Self {
        Self { total: total.into(), ahead: ahead.into(), end, ..Self::default() }
    }

    /// The places of the dead are kept for those who replace them.
    pub(super) const fn keep_places(&mut self) {
        self.replaced = true;
    }

    /// The scheduler has a session, and had none.
    pub(super) fn begins(&mut self) {
        self.run += 1;
    }

    pub(super) const fn run(&self) -> u64 {
        self.run
    }

    /// How many batches were taken, and how many of them by workers that came back.
    pub(super) fn count(&self) -> (usize, usize) {
        let back = |instance: u64| {
            self.members.iter().any(|((_, of), member)| *of == instance && member.life > 0)
        };
        let all = || self.taken.values().flatten();
        (all().count(), all().filter(|(.., instance)| back(*instance)).count())
    }

    /// The scheduler has given a worker a place, from that iteration on. Whoever had it before is
    /// gone, also if nobody had noticed.
    pub(super) fn placed(&mut self, worker: Worker, instance: u64, first: u64) {
        let Worker { node, life } = worker;
        self.lost_but(node, Some(instance));
        let of = (self.run, instance);
        if !self.members.contains_key(&of) {
            let rank = usize::try_from(id_to_rank(node)).unwrap_or(usize::MAX);
            self.placed.insert(of, SessionProcess { rank, life, next: first, is_lost: false });
        }
    }

    /// A worker takes a batch.
    pub(super) fn taken(&mut self, taken: &TakenBatch) -> Vec<String> {
        let TakenBatch { run, rank, instance, life, batch } = *taken;
        let Batch { iteration, place, size, .. } = batch;
        let mut found = Vec::new();
        let known = SessionProcess { rank, life, next: 0, is_lost: false };
        let member = self.members.entry((run, instance)).or_insert(known);
        if life == 0 && run == 1 && member.next != iteration {
            let next = member.next;
            found.push(format!(
                "rank {rank} takes iteration {iteration} and has taken {next} before"
            ));
        }
        member.next = iteration + 1;
        self.placed.remove(&(run, instance));
        let parts = self.taken.entry((run, iteration)).or_default();
        let from = place % self.total;
        let to = from + u64::from(size);
        if size == 0 || to > self.total {
            found.push(format!("rank {rank} takes {from}..{to} of iteration {iteration}"));
        }
        let members = &self.members;
        let has_replaced = |other: &(u64, u64, u64)| {
            let same_rank = members.get(&(run, other.2)).is_some_and(|one| one.rank == rank);
            self.replaced && same_rank && (other.0, other.1) == (from, to)
        };
        let overlaps = |other: &&(u64, u64, u64)| other.0 < to && from < other.1;
        if let Some(other) = parts.iter().filter(overlaps).find(|other| !has_replaced(other)) {
            found.push(format!(
                "iteration {iteration}: rank {rank} takes {from}..{to}, and {other:?}"
            ));
        }
        parts.push((from, to, instance));
        // Those that are left of the beginning are waited for: none of them is further behind.
        let begun =
            |other: &&SessionProcess| other.life == 0 && !other.is_lost && other.next < self.end;
        let of_run = self.members.range((run, 0)..=(run, u64::MAX)).map(|(_, member)| member);
        let behind = of_run.filter(begun).find(|other| other.next + self.ahead + 2 < iteration);
        if let Some(other) = behind {
            found.push(format!("rank {rank} takes iteration {iteration}, and others: {other:?}"));
        }
        found
    }

    /// The scheduler has lost a worker.
    pub(super) fn lost(&mut self, node: NodeId) {
        self.lost_but(node, None);
    }

    /// The processes that had that id are gone, but for that one.
    fn lost_but(&mut self, node: NodeId, here: Option<u64>) {
        let last = self.taken.keys().next_back().copied().unwrap_or_default();
        for ((run, instance), member) in &mut self.members {
            let is_gone = worker_id(member.rank) == node && here != Some(*instance);
            if is_gone && !member.is_lost {
                member.is_lost = true;
                if !self.replaced {
                    self.lost.push((*run, member.next, last.1 + self.ahead + 2));
                }
            }
        }
        // It may have had its place, and taken nothing of all that it had until it was too late.
        let until = last.1 + self.ahead + 2;
        let (lost, members, replaced) = (&mut self.lost, &mut self.members, self.replaced);
        self.placed.retain(|(run, instance), member| {
            let is_gone = worker_id(member.rank) == node && here != Some(*instance);
            if is_gone {
                if !replaced {
                    lost.push((*run, member.next, until));
                }
                // It may be alive, and take batches yet.
                members.insert((*run, *instance), SessionProcess { is_lost: true, ..*member });
            }
            !is_gone
        });
    }

    /// At the end: the samples that nobody took.
    pub(super) fn check(&self) -> Vec<String> {
        let mut found = Vec::new();
        let iterations = if self.run > 0 { 0..self.end } else { 0..0 };
        for iteration in iterations {
            let may_lack =
                |(run, from, to): &(u64, u64, u64)| *run == 1 && (*from..=*to).contains(&iteration);
            if self.lost.iter().any(may_lack) {
                continue;
            }
            let mut parts = self.taken.get(&(1, iteration)).cloned().unwrap_or_default();
            parts.sort_unstable();
            let mut end = 0;
            for (from, to, _) in parts {
                if from > end {
                    break;
                }
                end = end.max(to);
            }
            if end != self.total {
                found.push(format!("iteration {iteration}: nobody took the samples from {end} on"));
            }
        }
        found
    }
}
