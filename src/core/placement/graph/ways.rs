//! Ways from one site to another that share no site between: what one of them carries takes nothing
//! from the others, and a cut stops one of them only (Suurballe 1974, here as a flow of least
//! cost).
//!
//! Pure. A link costs one by its rate, as for NetStorm's trees (docs/algorithms.md 5).

use super::cells::{at, put};
use super::{Graph, GraphError};

/// One end of an arc is a site's entry, or its exit.
const ENTRY: usize = 0;
const EXIT: usize = 1;

/// What may be used once, and whether it is.
struct FlowArc {
    from: usize,
    to: usize,
    cost: f64,
    used: bool,
}

/// The cheapest such ways, at most so many; the sites of each, both ends included, the cheapest way
/// first. Where there are fewer, fewer. A direct link is a way of two sites.
///
/// # Errors
/// The first site does not reach the second one, or there is no such site.
pub fn ways(
    graph: &Graph,
    from: usize,
    to: usize,
    most: usize,
) -> Result<Vec<Vec<usize>>, GraphError> {
    let apart = GraphError::Apart { from, to };
    if from == to || from.max(to) >= graph.sites() {
        return Err(apart);
    }
    let mut arcs = arcs(graph, from, to);
    // Each search may turn around what earlier ones took, but never ends with fewer ways.
    for _ in 0..most {
        if !one_more(&mut arcs, graph.sites(), from, to) {
            break;
        }
    }
    let mut found: Vec<(f64, Vec<usize>)> = Vec::new();
    while let Some(way) = take(&mut arcs, from, to) {
        found.push(way);
    }
    found.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    if found.is_empty() { Err(apart) } else { Ok(found.into_iter().map(|(_, way)| way).collect()) }
}

/// A site between is entered once: its entry leads to its exit by an arc.
fn arcs(graph: &Graph, from: usize, to: usize) -> Vec<FlowArc> {
    let within = (0..graph.sites()).filter(|site| *site != from && *site != to);
    let within = within.map(|site| (2 * site + ENTRY, 2 * site + EXIT, 0.0));
    let links = graph
        .edges()
        .map(|edge| (2 * edge.from + EXIT, 2 * edge.to + ENTRY, 1.0 / graph.rate(edge)));
    let arc = |(from, to, cost)| FlowArc { from, to, cost, used: false };
    within.chain(links).map(arc).collect()
}

/// Finds one more way (Bellman and Ford: arcs that are turned around cost less than nothing).
fn one_more(arcs: &mut [FlowArc], sites: usize, from: usize, to: usize) -> bool {
    let (begin, end) = (2 * from + EXIT, 2 * to + ENTRY);
    let mut lengths = vec![f64::INFINITY; 2 * sites];
    let mut by: Vec<Option<usize>> = vec![None; 2 * sites];
    put(&mut lengths, begin, 0.0);
    for _ in 0..2 * sites {
        let mut news = false;
        for (number, arc) in arcs.iter().enumerate() {
            let (tail, head, cost) = match arc.used {
                false => (arc.from, arc.to, arc.cost),
                true => (arc.to, arc.from, -arc.cost),
            };
            let length = at(&lengths, tail) + cost;
            // Not for what only rounding makes shorter: that could go around for ever.
            if length.is_finite() && length < at(&lengths, head) * (1.0 - f64::EPSILON * 16.0) {
                put(&mut lengths, head, length);
                put(&mut by, head, Some(number));
                news = true;
            }
        }
        if !news {
            break;
        }
    }
    let (mut place, mut on_it) = (end, Vec::new());
    while place != begin {
        let Some(number) = at(&by, place).filter(|_| on_it.len() <= arcs.len()) else {
            return false;
        };
        let Some(arc) = arcs.get(number) else { return false };
        place = if arc.used { arc.to } else { arc.from };
        on_it.push(number);
    }
    for number in on_it {
        if let Some(arc) = arcs.get_mut(number) {
            arc.used = !arc.used;
        }
    }
    true
}

/// Takes one way out of the arcs that are used: its cost and its sites.
fn take(arcs: &mut [FlowArc], from: usize, to: usize) -> Option<(f64, Vec<usize>)> {
    let (mut place, mut cost, mut way) = (2 * from + EXIT, 0.0, vec![from]);
    while place != 2 * to + ENTRY {
        let arc = arcs.iter_mut().find(|arc| arc.used && arc.from == place)?;
        arc.used = false;
        place = arc.to;
        cost += arc.cost;
        if place % 2 == ENTRY {
            way.push(place / 2);
        }
    }
    Some((cost, way))
}

#[cfg(test)]
mod tests {
    use super::super::netstorm;
    use super::super::text::parse;
    use super::*;
    use std::collections::BTreeSet;

    fn named(text: &str, from: &str, to: &str, most: usize) -> Result<Vec<String>, GraphError> {
        let named = parse(text).unwrap();
        let site = |name: &str| named.names.iter().position(|known| known == name).unwrap();
        let found = ways(&named.graph, site(from), site(to), most)?;
        let text = |way: Vec<usize>| way.into_iter().map(|site| named.name(site)).collect();
        Ok(found.into_iter().map(text).collect())
    }

    /// The cheapest way alone, a b d f, would leave no second one.
    #[test]
    fn two_ways_cost_the_least_together() {
        let text = "link a b 90\nlink b d 90\nlink d f 90\nlink a c 30\nlink c d 30\nlink b e 30\n\
                    link e f 30";
        assert_eq!(named(text, "a", "f", 1).unwrap(), ["abdf"]);
        assert_eq!(named(text, "a", "f", 2).unwrap(), ["abef", "acdf"]);
        assert_eq!(named(text, "a", "f", 3).unwrap().len(), 2, "no more than there are");
    }

    #[test]
    fn a_fast_way_around_goes_before_a_slow_link() {
        let text = "link a b 10\nlink a c 80\nlink c b 80";
        assert_eq!(named(text, "a", "b", 2).unwrap(), ["acb", "ab"]);
        assert_eq!(named(text, "a", "c", 2).unwrap(), ["ac", "abc"]);
    }

    #[test]
    fn there_may_be_no_way() {
        let text = "link a b 0 10";
        assert!(named(text, "a", "b", 2).is_err(), "the link is down in that direction");
        assert_eq!(named(text, "b", "a", 2).unwrap(), ["ba"]);
        assert!(ways(&parse(text).unwrap().graph, 0, 7, 2).is_err());
    }

    #[test]
    fn ways_share_no_site_between() {
        for seed in 0..8_u32 {
            let mut number = seed;
            let graph = netstorm::graph(|| {
                number = (number * 75 + 74) % 65_537;
                20.0 + f64::from(number % 136)
            });
            let graph = graph.unwrap();
            let pairs = (0..9).flat_map(|from| (0..9).map(move |to| (from, to)));
            for (from, to) in pairs.filter(|(from, to)| from != to) {
                let found = ways(&graph, from, to, 2).unwrap();
                let between = |way: &Vec<usize>| way[1..way.len() - 1].to_vec();
                let all: Vec<usize> = found.iter().flat_map(between).collect();
                assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{found:?}");
                for way in &found {
                    assert_eq!((way[0], way[way.len() - 1]), (from, to));
                    assert!(way.windows(2).all(|link| graph.edge(link[0], link[1]).is_some()));
                }
            }
        }
    }
}
