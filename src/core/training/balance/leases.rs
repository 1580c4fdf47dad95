//! Which iterations may begin, and with which sizes. Loaders take batches before they are computed,
//! so an iteration's sizes are fixed as soon as anybody may take it: the *lease* goes to `until`,
//! and a change of sizes begins there. The lease grows with the slowest worker, so nobody waits for
//! an answer in the middle of an iteration.

use std::collections::VecDeque;

use super::sizing::{Look, Sizes, Sizing};
use super::spec;
use super::split::Bounds;
use crate::invariant::{Valid, require};
use crate::wire::balance::{BalanceOpen, BalanceReport, BalanceRule, BalanceShare, BalanceSkip};

/// So many iterations more may begin at first. A worker whose first iteration is measured by its
/// pushes knows only with the second one which push was the first one's last.
const FIRST: u64 = 1;

/// The sizes of all iterations from one on.
#[derive(Clone, Debug)]
struct Segment {
    from: u64,
    sizes: Vec<u32>,
    /// The first sample of each worker, counted within the iteration.
    starts: Vec<u32>,
    /// How many workers have samples: all but those that were gone when the sizes were set.
    workers: u32,
}

impl Segment {
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

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Leases {
    total: u32,
    quantum: u32,
    lookahead: u64,
    /// The iteration that begins the session.
    first: u64,
    sizing: Sizing,
    /// The workers have come: iterations have begun.
    begun: bool,
    /// Iterations before it may begin.
    until: u64,
    segments: VecDeque<Segment>,
    /// How many iterations each worker has computed.
    computed: Vec<u64>,
    bounds: Vec<Bounds>,
    /// The fewest of those that are left, and how many of them have computed so few.
    lowest: (u64, usize),
    /// What was skipped last, and by whom.
    skip: Option<(usize, BalanceSkip)>,
}

impl Leases {
    pub(super) fn new(open: &BalanceOpen) -> Self {
        let members = open.members as usize;
        let rule = spec::rule_of(open).unwrap_or(BalanceRule::Fixed);
        Self {
            total: open.total,
            quantum: open.quantum,
            lookahead: u64::from(open.lookahead),
            first: open.first,
            sizing: Sizing::new(rule, open.total, members),
            begun: false,
            until: open.first,
            segments: VecDeque::new(),
            computed: vec![open.first; members],
            bounds: vec![Bounds::NOTHING; members],
            lowest: (open.first, 0),
            skip: None,
        }
    }

    /// A worker takes part. Returns from which iteration on.
    pub(super) fn joined(&mut self, member: usize, bounds: Bounds) -> u64 {
        self.bounds[member] = bounds;
        // What others skip is not for it to compute.
        let first = self.until.max(self.skip.map_or(0, |(_, skip)| skip.to));
        self.computed[member] = first;
        if self.begun {
            self.sizing.changed(member);
            self.find_lowest();
        }
        first
    }

    /// All workers are here. False: their bounds do not allow it.
    pub(super) fn begin(&mut self) -> bool {
        let Some(sizes) = Sizing::first(self.total, &self.bounds, self.quantum) else {
            return false;
        };
        self.begun = true;
        self.segments.push_back(Segment::new(self.first, sizes));
        self.until = self.first + self.lookahead + FIRST;
        self.find_lowest();
        true
    }

    pub(super) const fn has_begun(&self) -> bool {
        self.begun
    }

    /// A worker takes part no more. What it had in iterations that may have begun is lost.
    pub(super) fn left(&mut self, member: usize) -> Moved {
        self.bounds[member] = Bounds::NOTHING;
        if !self.begun {
            return Moved::Nothing;
        }
        self.sizing.changed(member);
        self.find_lowest();
        self.advance()
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
        let before = self.computed[member];
        if computed <= before || !self.begun {
            return Ok(Moved::Nothing); // It came twice.
        }
        if computed > self.until {
            let until = self.until;
            return Err(format!("rank {member} reports iteration {computed}, lent until {until}"));
        }
        self.check_skip(member, before, computed)?;
        let newest = self.segments.back().map_or(0, |segment| segment.from);
        for iteration in before..computed {
            let behind = (computed - iteration) as usize;
            let report = reports.len().checked_sub(behind).map(|at| reports[at]);
            let size = self.size(member, iteration);
            let newest = iteration >= newest;
            self.sizing.observe(member, size, &report.unwrap_or_default(), newest);
        }
        Ok(self.moves(member, computed))
    }

    /// A worker computes none of these iterations.
    ///
    /// # Errors
    /// Others skip to another iteration; for people.
    pub(super) fn skips(&mut self, member: usize, skip: BalanceSkip) -> Result<Moved, String> {
        if skip.to <= self.computed[member] || !self.begun {
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
        let before = std::mem::replace(&mut self.computed[member], to);
        if before != self.lowest.0 {
            return Moved::Nothing;
        }
        self.lowest.1 -= 1;
        if self.lowest.1 > 0 {
            return Moved::Nothing;
        }
        self.find_lowest();
        self.advance()
    }

    fn live(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.bounds.len()).filter(|member| self.bounds[*member].max > 0)
    }

    fn find_lowest(&mut self) {
        let lowest = self.live().map(|member| self.computed[member]).min().unwrap_or(self.until);
        let count = self.live().filter(|member| self.computed[*member] == lowest).count();
        self.lowest = (lowest, count);
    }

    /// The slowest is further: so may be the others.
    fn advance(&mut self) -> Moved {
        let until = self.lowest.0 + self.lookahead;
        if until <= self.until || self.live().next().is_none() {
            return Moved::Nothing;
        }
        let Some(newest) = self.segments.back() else { return Moved::Nothing };
        let look = Look {
            total: self.total,
            quantum: self.quantum,
            sizes: &newest.sizes,
            bounds: &self.bounds,
            from: self.until,
            computed: &self.computed,
        };
        match self.sizing.decide(&look) {
            Sizes::Same => {}
            Sizes::New(sizes) => self.segments.push_back(Segment::new(self.until, sizes)),
            Sizes::Impossible => return Moved::Impossible,
        }
        self.until = until;
        while self.segments.get(1).is_some_and(|next| next.from <= self.lowest.0) {
            self.segments.pop_front();
        }
        Moved::Lease
    }

    fn segment(&self, iteration: u64) -> Option<&Segment> {
        let behind = self.segments.partition_point(|segment| segment.from <= iteration);
        self.segments.get(behind.checked_sub(1)?)
    }

    fn size(&self, member: usize, iteration: u64) -> u32 {
        self.segment(iteration).map_or(0, |segment| segment.sizes[member])
    }

    /// What that worker may begin: until when, and its shares from where it is.
    pub(super) fn grant(&self, member: usize) -> (u64, Vec<BalanceShare>) {
        let at = self.computed[member];
        let behind = self.segments.partition_point(|segment| segment.from <= at);
        let ahead = self.segments.iter().skip(behind.saturating_sub(1));
        (self.until, ahead.map(|segment| segment.share(member)).collect())
    }

    /// The newest sizes, the last seconds, and the iteration of the slowest worker.
    pub(super) fn state(&self) -> (&[u32], &[f64], u64) {
        let sizes = self.segments.back().map_or(&[][..], |segment| &segment.sizes);
        (sizes, self.sizing.seconds(), self.lowest.0)
    }

    /// How many iterations a worker has computed, those before it came included.
    pub(super) fn computed_by(&self, member: usize) -> u64 {
        self.computed[member]
    }

    /// True if somebody waits beyond what is lent, since it has skipped.
    pub(super) fn skipped_to(&self) -> Option<(usize, u64)> {
        let (member, skip) = self.skip?;
        (skip.to > self.until).then_some((member, skip.to))
    }

    /// The workers that have computed the fewest iterations.
    pub(super) fn slowest(&self) -> impl Iterator<Item = usize> + '_ {
        self.live().filter(|member| self.computed[*member] == self.lowest.0)
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
        if !self.begun || self.live().next().is_none() {
            return Ok(());
        }
        let lowest = self.live().map(|member| self.computed[member]).min();
        require(lowest == Some(self.lowest.0), || {
            format!("the slowest is at {lowest:?}, not {}", self.lowest.0)
        })?;
        let most = self.lookahead + self.lowest.0.max(self.first + FIRST);
        require((self.lowest.0..=most).contains(&self.until), || {
            format!("lent until {}, the slowest is at {}", self.until, self.lowest.0)
        })
    }
}
