//! Where the parts of one key are, as far as one node knows (`docs/elastic.md`).
//!
//! Pure. Routes may come from anybody, in any order, and as often as they like: for each element
//! the one with the highest term counts. May touch `wire` types and `invariant` only.

use smallvec::SmallVec;

use crate::invariant::{self, Valid};
use crate::wire::NodeId;
use crate::wire::elastic::Route;

/// Pieces of one key; routes beyond are not kept, and whoever needs them asks again.
pub const PIECES_MAX: usize = 4096;

/// A few routes.
pub type Few = SmallVec<[Route; 2]>;

/// Routes of one key: ascending, without overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRoutes {
    routes: Few,
    /// Where the last piece ends that was ever heard of.
    length: u64,
}

impl KeyRoutes {
    /// Takes a route in. Of two that overlap the one with the higher term keeps the overlap; of
    /// equal terms the one that was here. False if nothing changed.
    pub fn learn(&mut self, route: Route) -> bool {
        if route.from >= route.to || self.routes.len() >= PIECES_MAX {
            return false;
        }
        self.length = self.length.max(route.to);
        let before = std::mem::take(&mut self.routes);
        let mut kept = Merge { kept: Few::new(), route, taken: 0, last_is_new: false };
        let mut from = route.from;
        for known in before {
            if known.to <= route.from {
                kept.keep_known(known);
            } else if known.from >= route.to {
                kept.keep_new(from, route.to);
                from = route.to;
                kept.keep_known(known);
            } else if known.term >= route.term {
                kept.keep_new(from, known.from);
                from = from.max(known.to);
                kept.keep_known(known);
            } else {
                kept.keep_known(Route { to: route.from.max(known.from), ..known });
                let to = known.to.min(route.to);
                kept.keep_new(from, to);
                from = from.max(to);
                kept.keep_known(Route { from: to, ..known });
            }
        }
        kept.keep_new(from, route.to);
        self.routes = kept.kept;
        kept.taken > 0
    }

    /// The routes that overlap `[from, to)`, cut to it.
    #[must_use]
    pub fn within(&self, from: u64, to: u64) -> Few {
        let overlap = self.routes.iter().filter(|route| route.from < to && from < route.to);
        overlap
            .map(|route| Route { from: route.from.max(from), to: route.to.min(to), ..*route })
            .collect()
    }

    /// All of them, if together they cover the key from its first element without a gap.
    #[must_use]
    pub fn whole(&self) -> Option<&[Route]> {
        (!self.routes.is_empty() && self.covers(0, self.length)).then_some(&self.routes[..])
    }

    /// Forgets those to servers that are gone: where their pieces are is said anew, or the home
    /// knows.
    pub(crate) fn forget(&mut self, gone: &[NodeId]) {
        self.routes.retain(|route| !gone.contains(&route.owner));
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Route] {
        &self.routes
    }

    /// Routes ascend and do not overlap, and none ends behind the last end that was heard of.
    ///
    /// # Errors
    /// The first one that breaks that.
    pub fn validate(&self) -> Valid {
        invariant::disjoint(self.routes.iter().map(|route| (route.from, route.to)), self.length)
    }

    /// True if they cover `[from, to)` without a gap.
    #[must_use]
    pub fn covers(&self, from: u64, to: u64) -> bool {
        let mut at = from;
        for route in self.within(from, to) {
            if route.from != at {
                return false;
            }
            at = route.to;
        }
        at >= to
    }
}

/// Writes known routes and parts of a new one in ascending order.
struct Merge {
    kept: Few,
    route: Route,
    taken: u64,
    last_is_new: bool,
}

impl Merge {
    fn keep_known(&mut self, known: Route) {
        if known.from < known.to {
            self.kept.push(known);
            self.last_is_new = false;
        }
    }

    /// A part of the new route. Parts that follow each other are one piece.
    fn keep_new(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        self.taken += to - from;
        match self.kept.last_mut() {
            Some(last) if self.last_is_new && last.to == from => last.to = to,
            _ => self.kept.push(Route { from, to, ..self.route }),
        }
        self.last_is_new = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use proptest::prelude::*;

    fn route(from: u64, to: u64, term: u64, owner: NodeId) -> Route {
        Route { from, to, term, owner }
    }

    #[test]
    fn the_newer_one_keeps_the_overlap() {
        let mut routes = KeyRoutes::default();
        assert!(routes.learn(route(0, 100, 1, 8)));
        assert!(!routes.learn(route(0, 100, 1, 8)));
        assert!(routes.learn(route(40, 60, 2, 10)));
        assert_eq!(routes.all(), [route(0, 40, 1, 8), route(40, 60, 2, 10), route(60, 100, 1, 8)]);
        assert!(routes.learn(route(0, 40, 2, 8)), "the same owner, under the new term");
        assert!(!routes.learn(route(10, 90, 1, 12)), "an old word");
        assert!(routes.learn(route(0, 100, 3, 12)));
        assert_eq!(routes.whole(), Some(&[route(0, 100, 3, 12)][..]));
    }

    #[test]
    fn neighbours_stay_pieces_of_their_own() {
        let mut routes = KeyRoutes::default();
        routes.learn(route(0, 10, 2, 8));
        routes.learn(route(10, 20, 2, 8));
        assert_eq!(routes.all().len(), 2);
        assert!(routes.learn(route(20, 30, 1, 8)));
        assert!(!routes.learn(route(5, 25, 1, 8)));
        assert_eq!(routes.all().len(), 3);
        assert!(routes.covers(5, 30) && !routes.covers(5, 31));
        assert_eq!(&routes.within(5, 12)[..], [route(5, 10, 2, 8), route(10, 12, 2, 8)]);
    }

    #[test]
    fn a_gap_is_not_the_whole() {
        let mut routes = KeyRoutes::default();
        assert_eq!(routes.whole(), None);
        routes.learn(route(10, 20, 1, 8));
        assert_eq!(routes.whole(), None);
        routes.learn(route(0, 5, 1, 8));
        assert_eq!(routes.whole(), None);
        routes.learn(route(0, 10, 2, 10));
        assert_eq!(routes.whole().map(<[Route]>::len), Some(2));
    }

    proptest! {
        /// In whatever order routes come: for each element the one with the highest term is known.
        #[test]
        fn order_does_not_matter(
            mut given in proptest::collection::vec((0..40_u64, 1..20_u64, 0..3_i32), 1..12),
            order in any::<u64>(),
        ) {
            // Terms are unique here: two owners never have the same term for an element.
            let all: Vec<Route> = given
                .drain(..)
                .enumerate()
                .map(|(i, (from, len, owner))| route(from, from + len, i as u64 + 1, owner))
                .collect();
            let mut shuffled = all.clone();
            let mut random = Random::new(order);
            for i in (1..shuffled.len()).rev() {
                shuffled.swap(i, random.below(i as u64 + 1) as usize);
            }
            let mut routes = KeyRoutes::default();
            for route in &shuffled {
                routes.learn(*route);
            }
            for at in 0..64 {
                let covers = |r: &&Route| r.from <= at && at < r.to;
                let wanted = all.iter().filter(covers).max_by_key(|r| r.term);
                let found = routes.within(at, at + 1);
                prop_assert_eq!(
                    found.first().map(|r| (r.term, r.owner)),
                    wanted.map(|r| (r.term, r.owner))
                );
            }
            prop_assert!(routes.all().windows(2).all(|pair| pair[0].to <= pair[1].from));
        }
    }
}
