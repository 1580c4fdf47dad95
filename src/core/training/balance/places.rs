//! The places of a session: who is in each, how far it is, and whether the others wait for it.

use std::collections::VecDeque;

use super::leases::Comer;
use super::split::Bounds;
use crate::invariant::{Valid, require};
use crate::lives::Awaited;
use crate::wire::NodeId;
use crate::wire::balance::BalanceShare;

/// What is known of a place beside its bounds and how far it is.
#[derive(Clone, Debug, Default)]
struct WorkerPlace {
    node: NodeId,
    life: u64,
    passes: bool,
    /// It has reported nothing since it came.
    is_fresh: bool,
    /// Its process is gone, and another one is to take its place.
    is_vacant: bool,
    /// Rounds, and so the lease, wait for it.
    is_awaited: bool,
    /// Its shares of iterations that all have computed that the lease waits for.
    owed: VecDeque<BalanceShare>,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct WorkerPlaces {
    all: Vec<WorkerPlace>,
    /// What each may take; nothing: nobody is there.
    bounds: Vec<Bounds>,
    /// How many iterations each has computed.
    computed: Vec<u64>,
    /// Somebody takes part that the lease does not wait for.
    has_guests: bool,
}

impl WorkerPlaces {
    pub(super) fn new(members: usize, first: u64) -> Self {
        Self {
            all: vec![WorkerPlace::default(); members],
            bounds: vec![Bounds::NOTHING; members],
            computed: vec![first; members],
            has_guests: false,
        }
    }

    /// Somebody comes. It begins there, or where the former process was.
    pub(super) fn take(&mut self, member: usize, comer: &Comer, from: u64) {
        let Comer { node, life, bounds, passes } = *comer;
        if !self.all[member].is_vacant {
            self.computed[member] = from;
        }
        self.bounds[member] = bounds;
        self.all[member] =
            WorkerPlace { node, life, passes, is_fresh: true, ..WorkerPlace::default() };
        self.find_awaited();
    }

    /// Nobody is there any more.
    pub(super) fn leave(&mut self, member: usize) {
        self.bounds[member] = Bounds::NOTHING;
        self.all[member] = WorkerPlace::default();
        self.find_awaited();
    }

    /// Another process is to come: the others wait for it.
    pub(super) fn vacate(&mut self, member: usize) {
        self.all[member].is_vacant = true;
    }

    pub(super) fn is_vacant(&self, member: usize) -> bool {
        self.all[member].is_vacant
    }

    fn find_awaited(&mut self) {
        let (all, bounds) = (&mut self.all, &self.bounds);
        let here = |(place, bounds): (&WorkerPlace, &Bounds)| {
            (bounds.max > 0).then_some((place.life, place.node))
        };
        let awaited = Awaited::of(all.iter().zip(bounds).filter_map(here));
        self.has_guests = false;
        for (place, bounds) in all.iter_mut().zip(bounds) {
            place.is_awaited = bounds.max > 0 && awaited.has(place.life, place.node);
            self.has_guests |= bounds.max > 0 && !place.is_awaited;
        }
    }

    /// True if the lease waits for that one.
    pub(super) fn awaits(&self, member: usize) -> bool {
        self.all[member].is_awaited
    }

    /// Those that it waits for.
    pub(super) fn awaited(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.all.len()).filter(|member| self.all[*member].is_awaited)
    }

    /// Those that take part and are not waited for.
    pub(super) fn guests(&self) -> impl Iterator<Item = usize> + '_ {
        let all = if self.has_guests { self.all.len() } else { 0 };
        (0..all).filter(|member| self.bounds[*member].max > 0 && !self.all[*member].is_awaited)
    }

    pub(super) fn bounds(&self) -> &[Bounds] {
        &self.bounds
    }

    pub(super) fn all_computed(&self) -> &[u64] {
        &self.computed
    }

    pub(super) fn computed(&self, member: usize) -> u64 {
        self.computed[member]
    }

    /// The same for who waits for it: one that has reported nothing counts as one further.
    pub(super) fn reach(&self, member: usize) -> u64 {
        self.computed[member] + u64::from(self.all[member].is_fresh)
    }

    pub(super) fn is_fresh(&self, member: usize) -> bool {
        self.all[member].is_fresh
    }

    pub(super) fn passes(&self, member: usize) -> bool {
        self.all[member].passes
    }

    /// It has computed the iterations before that one. `oldest`: from where on the segments go.
    pub(super) fn report(&mut self, member: usize, computed: u64, oldest: u64) {
        self.computed[member] = computed;
        let place = &mut self.all[member];
        place.is_fresh = false;
        if computed >= oldest {
            place.owed.clear();
        }
        while place.owed.get(1).is_some_and(|next| next.from <= computed) {
            place.owed.pop_front();
        }
    }

    pub(super) fn owed(&self, member: usize) -> &VecDeque<BalanceShare> {
        &self.all[member].owed
    }

    /// Iterations before `next` are forgotten, but for those that have yet to compute their share.
    pub(super) fn owe(&mut self, next: u64, share: impl Fn(usize) -> BalanceShare) {
        if !self.has_guests {
            return;
        }
        for member in self.guests().collect::<Vec<_>>() {
            if self.computed[member] >= next {
                continue;
            }
            let (share, owed) = (share(member), &mut self.all[member].owed);
            let same = |last: &BalanceShare| {
                BalanceShare { from: share.from, ..*last } == share || last.size + share.size == 0
            };
            let goes_on = owed.back().is_some_and(same);
            if !goes_on {
                owed.push_back(share);
            }
        }
    }

    /// Who owes something is here, and it is behind.
    pub(super) fn validate(&self) -> Valid {
        for (member, place) in self.all.iter().enumerate() {
            let owes = !place.owed.is_empty();
            require(!owes || self.bounds[member].max > 0, || format!("{member} is gone and owes"))?;
            require(!place.is_vacant || place.is_awaited, || {
                format!("nobody waits for who replaces {member}")
            })?;
        }
        Ok(())
    }
}
