//! Where the parts of one key are: routes that do not overlap, of which those with higher terms win. Pure.

use super::ROUTES_MAX;
use crate::wire::elastic::Route;

/// Routes of one key, ascending.
#[derive(Clone, Debug, Default)]
pub(super) struct Routes {
    list: Vec<Route>,
}

impl Routes {
    /// Of two routes for an element that with the higher term stays; of equal ones the one that was here.
    pub(super) fn learn(&mut self, route: Route) {
        if route.from >= route.to {
            return;
        }
        let mut news = vec![route];
        let mut list = Vec::with_capacity(self.list.len() + 2);
        for known in self.list.drain(..) {
            if known.term >= route.term {
                news = news.iter().flat_map(|part| without(part, &known)).flatten().collect();
                list.push(known);
            } else {
                list.extend(without(&known, &route).into_iter().flatten());
            }
        }
        list.extend(news);
        list.sort_unstable_by_key(|route| route.from);
        list.truncate(ROUTES_MAX);
        self.list = list;
    }

    /// Those that say something about an element from `from` up to `to`.
    pub(super) fn about(&self, from: u64, to: u64) -> impl Iterator<Item = &Route> {
        self.list.iter().filter(move |route| route.from < to && from < route.to)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// What of a route is about elements that another one says nothing about.
fn without(route: &Route, other: &Route) -> [Option<Route>; 2] {
    let before = Route { to: route.to.min(other.from), ..*route };
    let after = Route { from: route.from.max(other.to), ..*route };
    [before, after].map(|part| (part.from < part.to).then_some(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn route((from, len, term, owner): (u64, u64, u64, i32)) -> Route {
        Route { from, to: from + len, term, owner }
    }

    proptest! {
        #[test]
        fn each_element_has_the_newest_route(
            news in prop::collection::vec((0..40_u64, 0..20_u64, 0..5_u64, 0..9_i32), 0..20),
        ) {
            let mut routes = Routes::default();
            let mut elements = [None::<Route>; 64];
            for one in news.into_iter().map(route) {
                routes.learn(one);
                for element in &mut elements[one.from as usize..one.to as usize] {
                    if element.is_none_or(|known| known.term < one.term) {
                        *element = Some(one);
                    }
                }
            }
            for (i, expected) in (0..).zip(elements) {
                let found: Vec<_> = routes.about(i, i + 1).collect();
                prop_assert!(found.len() <= 1);
                let name = |route: &Route| (route.term, route.owner);
                prop_assert_eq!(found.first().map(|route| name(route)), expected.as_ref().map(name));
            }
        }
    }
}
