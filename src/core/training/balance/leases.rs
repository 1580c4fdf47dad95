//! Which iterations may begin, and with which sizes. Loaders take batches before they are computed,
//! so an iteration's sizes are fixed as soon as anybody may take it: the *lease* goes to `until`,
//! and a change of sizes begins there. The lease grows with the slowest worker, so nobody waits for
//! an answer in the middle of an iteration.
//!
//! It waits for whom rounds of `dist_sync` wait ([`crate::lives`]), and for nobody else: a worker
//! that came back ends its push only when those that rounds wait for have pushed too, so they must
//! not wait for its report. It has a share of an iteration if it is in time. What it is too late
//! for the others compute.

use std::collections::VecDeque;

use super::places::WorkerPlaces;
use super::sizing::{Look, Sizes, Sizing};
use super::spec;
use super::split::Bounds;
use crate::invariant::{Valid, require};
use crate::wire::NodeId;
use crate::wire::balance::{BalanceOpen, BalanceReport, BalanceRule, BalanceShare, BalanceSkip};

/// So many iterations more may begin as long as a worker has reported none. A worker whose first
/// iteration is measured by its pushes knows only with the second one which push was the first
/// one's last.
const FIRST: u64 = 1;
/// A worker that rounds do not wait for is in time if it is at most so many iterations further
/// behind than those that they wait for may be. Its pushes may fall into the round after.
const LATE: u64 = 2;
/// Shares that are kept for a worker that is late.
const OWED_MAX: usize = 2 * spec::LOOKAHEAD_MAX as usize;

/// The sizes of all iterations from one on.
#[derive(Clone, Debug)]
struct LeaseSegment {
    from: u64,
    sizes: Vec<u32>,
    /// The first sample of each worker, counted within the iteration.
    starts: Vec<u32>,
    /// How many workers have samples: all but those that were gone when the sizes were set.
    workers: u32,
}

impl LeaseSegment {
    fn new(from: u64, sizes: Vec<u32>) -> Self {
        let mut start = 0;
        let starts = sizes.iter().map(|size| {
            start += size;
            start - size
        });
        let starts = starts.collect();
        let workers = sizes.iter().filter(|size| **size > 0).count() as u32;
        Self { from, sizes, starts, workers }
    }

    fn share(&self, member: usize) -> BalanceShare {
        let (start, size) = (self.starts[member], self.sizes[member]);
        BalanceShare { from: self.from, start, size, workers: self.workers }
    }
}

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// Nothing that anybody has to hear.
    Nothing,
    /// The lease: all are to be told.
    Lease,
    /// The workers that are left cannot take all samples.
    Impossible,
}

/// Who comes to a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comer {
    pub(super) node: NodeId,
    /// In which life of its id it is ([`crate::lives`]).
    pub(super) life: u64,
    pub(super) bounds: Bounds,
    /// It passes over iterations of which it has no samples.
    pub(super) passes: bool,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct SampleLeases {
    total: u32,
    quantum: u32,
    lookahead: u64,
    /// The iteration that begins the session.
    first: u64,
    per_epoch: u64,
    sizing: Sizing,
    /// The workers have come: iterations have begun.
    begun: bool,
    /// Iterations before it may begin.
    until: u64,
    segments: VecDeque<LeaseSegment>,
    places: WorkerPlaces,
    /// How far the slowest of those is that the lease waits for, and how many of them are no
    /// further. Who has reported nothing counts as [`FIRST`] further.
    lowest: (u64, usize),
    /// What was skipped last, and by whom.
    skip: Option<(usize, BalanceSkip)>,
    /// The furthest that the slowest ever was.
    furthest: u64,
}

impl SampleLeases {
    pub(super) fn new(open: &BalanceOpen) -> Self {
        let members = open.members as usize;
        let rule = spec::rule_of(open).unwrap_or(BalanceRule::Fixed);
        Self {
            total: open.total,
            quantum: open.quantum,
            lookahead: u64::from(open.lookahead),
            first: open.first,
            per_epoch: spec::per_epoch(open).max(1),
            sizing: Sizing::new(rule, open.total, members),
            begun: false,
            until: open.first,
            segments: VecDeque::new(),
            places: WorkerPlaces::new(members, open.first),
            lowest: (open.first, 0),
            skip: None,
            furthest: open.first,
        }
    }

    /// A worker takes part: with the next iteration that is free, or, where it replaces one, with
    /// the first one that the former process has not reported. Returns that, and whether more may
    /// begin by it.
    pub(super) fn joined(&mut self, member: usize, comer: &Comer) -> (u64, Moved) {
        let replaces = self.places.is_vacant(member);
        // What others skip is not for it to compute.
        let next = self.until.max(self.skip.map_or(0, |(_, skip)| skip.to));
        self.places.take(member, comer, next);
        let first = self.places.computed(member);
        if !self.begun {
            return (first, Moved::Nothing);
        }
        self.sizing.changed(member);
        self.find_lowest();
        (first, if replaces { self.advance() } else { Moved::Nothing })
    }

    /// Those that are to come are here. False: their bounds do not allow it.
    pub(super) fn begin(&mut self) -> bool {
        let first = Sizing::first(self.total, self.places.bounds(), self.quantum);
        let Some(sizes) = first else { return false };
        self.begun = true;
        self.segments.push_back(LeaseSegment::new(self.first, sizes));
        self.until = self.first + self.lookahead + FIRST;
        self.find_lowest();
        true
    }

    pub(super) const fn has_begun(&self) -> bool {
        self.begun
    }

    /// A worker takes part no more. What it had in iterations that may have begun is lost.
    pub(super) fn left(&mut self, member: usize) -> Moved {
        self.places.leave(member);
        if !self.begun {
            return Moved::Nothing;
        }
        self.sizing.changed(member);
        self.find_lowest();
        self.advance()
    }

    /// A worker is gone, and the job waits for another process in its place: so does the lease.
    /// Nothing to wait for before iterations have begun.
    pub(super) fn vacated(&mut self, member: usize) {
        if self.begun {
            self.places.vacate(member);
        } else {
            self.places.leave(member);
        }
    }

    /// Nobody is in that place, nor is to be.
    pub(super) fn forget(&mut self, member: usize) {
        self.places.leave(member);
    }

    /// True if that place waits for another process.
    pub(super) fn is_vacant(&self, member: usize) -> bool {
        self.places.is_vacant(member)
    }

    /// A worker has computed the iterations before `computed`; `reports` are of the last of them.
    ///
    /// # Errors
    /// It cannot have; for people.
    pub(super) fn computed(
        &mut self,
        member: usize,
        computed: u64,
        reports: &[BalanceReport],
    ) -> Result<Moved, String> {
        let before = self.places.computed(member);
        if computed <= before || !self.begun {
            return Ok(Moved::Nothing); // It came twice.
        }
        if computed > self.until {
            let until = self.until;
            return Err(format!("rank {member} reports iteration {computed}, lent until {until}"));
        }
        self.check_skip(member, before, computed)?;
        let newest = self.segments.back().map_or(0, |segment| segment.from);
        let known = (computed - before).min(reports.len() as u64);
        for (iteration, report) in
            (computed - known..computed).zip(&reports[reports.len() - known as usize..])
        {
            let size = self.size(member, iteration);
            self.sizing.observe(member, size, report, iteration >= newest);
        }
        Ok(self.moves(member, computed))
    }

    /// A worker computes none of these iterations.
    ///
    /// # Errors
    /// Others skip to another iteration; for people.
    pub(super) fn skips(&mut self, member: usize, skip: BalanceSkip) -> Result<Moved, String> {
        if skip.to <= self.places.computed(member) || !self.begun {
            return Ok(Moved::Nothing); // It came twice.
        }
        if skip.to > spec::FIRST_MAX || skip.from > skip.to {
            return Err(format!("rank {member} skips to iteration {}", skip.to));
        }
        if let Some((other, theirs)) = self.skip {
            let overlap = theirs.from < skip.to && skip.from < theirs.to;
            if other != member && overlap && theirs.to != skip.to {
                return Err(format!(
                    "rank {other} skips to iteration {}, rank {member} to {}: all workers are to \
                     skip alike",
                    theirs.to, skip.to
                ));
            }
        }
        let before = self.computed(member, skip.from, &[])?;
        if before == Moved::Impossible {
            return Ok(before);
        }
        self.skip = Some((member, skip));
        Ok(match self.moves(member, skip.to) {
            Moved::Nothing => before,
            moved => moved,
        })
    }

    /// What one worker skips, no other one may compute: the iteration would lack samples.
    fn check_skip(&self, member: usize, from: u64, to: u64) -> Result<(), String> {
        let Some((other, skip)) = self.skip else { return Ok(()) };
        if other == member || to <= skip.from || from >= skip.to {
            return Ok(());
        }
        let BalanceSkip { from: first, to: end } = skip;
        Err(format!(
            "rank {other} skips the iterations from {first} to {}, and rank {member} has computed \
             iteration {}: all workers are to skip alike",
            end - 1,
            from.max(first)
        ))
    }

    /// A worker has done the iterations before `to`.
    fn moves(&mut self, member: usize, to: u64) -> Moved {
        let reach = self.places.reach(member);
        let oldest = self.segments.front().map_or(0, |segment| segment.from);
        self.places.report(member, to, oldest);
        if !self.places.awaits(member) || reach != self.lowest.0 {
            return Moved::Nothing;
        }
        if self.places.reach(member) > reach {
            self.lowest.1 -= 1;
        }
        if self.lowest.1 > 0 {
            return Moved::Nothing;
        }
        self.find_lowest();
        self.advance()
    }

    fn find_lowest(&mut self) {
        let reach = || self.places.awaited().map(|member| self.places.reach(member));
        let lowest = reach().min().unwrap_or(self.until);
        self.lowest = (lowest, reach().filter(|reach| *reach == lowest).count());
        self.furthest = self.furthest.max(lowest);
    }

    /// The fewest iterations that any of those has computed that the lease waits for.
    fn least(&self) -> u64 {
        let computed = self.places.awaited().map(|member| self.places.computed(member));
        computed.min().unwrap_or(self.until)
    }

    /// The slowest is further: so may be the others.
    fn advance(&mut self) -> Moved {
        let until = self.lowest.0 + self.lookahead;
        if until <= self.until || self.places.awaited().next().is_none() {
            return Moved::Nothing;
        }
        let in_time = self.in_time(until);
        // The others alone may not be able to take all: then it is not left out.
        match self.decide(&in_time) {
            Sizes::Impossible if in_time != self.places.bounds() => {
                let all = self.places.bounds().to_vec();
                match self.decide(&all) {
                    Sizes::Impossible => return Moved::Impossible,
                    decided => self.sizes_are(decided),
                }
            }
            Sizes::Impossible => return Moved::Impossible,
            decided => self.sizes_are(decided),
        }
        self.until = until;
        self.forget_old();
        Moved::Lease
    }

    /// What each worker may take if the lease goes up to there: nothing, if it is too late for it.
    /// By its last batch a worker knows that an epoch is over, so of that iteration all have some.
    fn in_time(&self, until: u64) -> Vec<Bounds> {
        let mut bounds = self.places.bounds().to_vec();
        if self.until / self.per_epoch != until / self.per_epoch {
            return bounds;
        }
        for member in self.places.guests() {
            let behind = until.saturating_sub(self.reached(member));
            if behind > self.lookahead + LATE && self.places.passes(member) {
                bounds[member] = Bounds::NOTHING;
            }
        }
        bounds
    }

    fn decide(&mut self, bounds: &[Bounds]) -> Sizes {
        let Some(newest) = self.segments.back() else { return Sizes::Same };
        let differs = |(size, bounds): (&u32, &Bounds)| (*size > 0) != (bounds.max > 0);
        if newest.sizes.iter().zip(bounds).any(differs) {
            self.sizing.force();
        }
        self.sizing.decide(&Look {
            total: self.total,
            quantum: self.quantum,
            sizes: &newest.sizes,
            bounds,
            from: self.until,
            computed: self.places.all_computed(),
        })
    }

    fn sizes_are(&mut self, decided: Sizes) {
        if let Sizes::New(sizes) = decided {
            self.segments.push_back(LeaseSegment::new(self.until, sizes));
        }
    }

    /// What all have computed that the lease waits for. Others may owe something of it.
    fn forget_old(&mut self) {
        let least = self.least();
        while let Some(next) = self.segments.get(1).map(|next| next.from).filter(|n| *n <= least) {
            let Some(old) = self.segments.pop_front() else { return };
            self.places.owe(next, |member| old.share(member));
        }
    }

    /// A worker that rounds do not wait for, and that is so far behind that nobody can remember
    /// what it owes.
    pub(super) fn too_late(&self) -> Option<usize> {
        self.places.guests().find(|member| self.places.owed(*member).len() > OWED_MAX)
    }

    /// The shares of a worker in the iterations that are not forgotten, in order.
    fn shares(&self, member: usize) -> impl Iterator<Item = BalanceShare> + '_ {
        let owed = self.places.owed(member).iter().copied();
        owed.chain(self.segments.iter().map(move |segment| segment.share(member)))
    }

    /// The first iteration of which a worker has samples that it has not reported.
    fn reached(&self, member: usize) -> u64 {
        let mut at = self.places.computed(member);
        let ends = self.shares(member).skip(1).map(|next| next.from).chain([self.until]);
        for (share, end) in self.shares(member).zip(ends) {
            if share.size > 0 && end > at {
                return at.max(share.from);
            }
            at = at.max(end);
        }
        at
    }

    fn size(&self, member: usize, iteration: u64) -> u32 {
        let until = self.shares(member).take_while(|share| share.from <= iteration);
        until.last().map_or(0, |share| share.size)
    }

    /// What that worker may begin: until when, and its shares from where it is.
    pub(super) fn grant(&self, member: usize) -> (u64, Vec<BalanceShare>) {
        let at = self.places.computed(member);
        let behind = self.shares(member).take_while(|share| share.from <= at).count();
        let ahead = self.shares(member).skip(behind.saturating_sub(1));
        // Who came back begins together with the others, not ahead of them.
        let waits = !self.places.awaits(member) && self.places.is_fresh(member);
        let until = if waits && self.least() < at { at } else { self.until };
        (until, ahead.collect())
    }

    /// The newest sizes, the last seconds, and the iteration of the slowest worker.
    pub(super) fn state(&self) -> (&[u32], &[f64], u64) {
        let sizes = self.segments.back().map_or(&[][..], |segment| &segment.sizes);
        (sizes, self.sizing.seconds(), self.least())
    }

    /// How many iterations a worker has computed, those before it came included.
    pub(super) fn computed_by(&self, member: usize) -> u64 {
        self.places.computed(member)
    }

    /// True if somebody waits beyond what is lent, since it has skipped.
    pub(super) fn skipped_to(&self) -> Option<(usize, u64)> {
        let (member, skip) = self.skip?;
        (skip.to > self.until).then_some((member, skip.to))
    }

    /// Those that the others wait for: of the workers that rounds wait for, those that have
    /// computed the fewest iterations.
    pub(super) fn slowest(&self) -> impl Iterator<Item = usize> + '_ {
        let least = self.least();
        self.places.awaited().filter(move |member| self.places.computed(*member) == least)
    }

    /// What this promises: each iteration's samples are shared out without a gap, the lease is that
    /// of the slowest, and no size is beyond a worker's bounds.
    pub(super) fn validate(&self) -> Valid {
        for segment in &self.segments {
            let sum: u64 = segment.sizes.iter().map(|size| u64::from(*size)).sum();
            require(sum == u64::from(self.total), || {
                format!("the sizes from {} on add up to {sum}, not {}", segment.from, self.total)
            })?;
            require(segment.from < self.until, || {
                format!("sizes begin at {}, lent until {}", segment.from, self.until)
            })?;
        }
        let ascend = self.segments.iter().zip(self.segments.iter().skip(1));
        for (one, next) in ascend {
            require(one.from < next.from, || format!("two sizes from {} on", next.from))?;
        }
        self.places.validate()?;
        if !self.begun || self.places.awaited().next().is_none() {
            return Ok(());
        }
        let reach = self.places.awaited().map(|member| self.places.reach(member)).min();
        require(reach == Some(self.lowest.0), || {
            format!("the slowest is at {reach:?}, not {}", self.lowest.0)
        })?;
        // The slowest may be another one than before, which was late and not waited for.
        require(self.until <= self.lookahead + self.furthest, || {
            format!("lent until {}, the slowest was at {}", self.until, self.furthest)
        })?;
        require(self.least() <= self.until, || {
            format!("computed {} of {}", self.least(), self.until)
        })
    }
}
