//! A graph whose sites have names, for people and for nodes that know where they are. Pure.

use std::collections::BTreeSet;

use super::{Edge, Graph, GraphError};

/// A graph whose sites have names.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedGraph {
    /// The graph.
    pub graph: Graph,
    /// The name of each site: its number from 1, unless a text gave another.
    pub names: Vec<String>,
}

impl NamedGraph {
    /// Its sites are numbers, from 1.
    #[must_use]
    pub fn numbered(graph: Graph) -> Self {
        let names = (1..=graph.sites()).map(|number| number.to_string()).collect();
        Self { graph, names }
    }

    /// The name of a site.
    #[must_use]
    pub fn name(&self, site: usize) -> &str {
        self.names.get(site).map_or("?", String::as_str)
    }

    /// What is wrong, with the names of sites.
    #[must_use]
    pub fn explain(&self, wrong: &GraphError) -> String {
        match wrong {
            GraphError::Apart { from, to } => format!(
                "no path leads from site {} to site {}: add a link, give one a rate above 0, or \
                 leave the site out",
                self.name(*from),
                self.name(*to)
            ),
            wrong => wrong.to_string(),
        }
    }

    /// Those sites alone, and the edges between them.
    ///
    /// # Errors
    /// None is left.
    pub fn among(&self, stays: impl Fn(usize) -> bool) -> Result<Self, GraphError> {
        let left: Vec<usize> = (0..self.graph.sites()).filter(|site| stays(*site)).collect();
        let site_now = |site: usize| left.binary_search(&site).ok();
        let edges = || {
            let all = self.graph.all_edges();
            all.filter_map(|edge| Some((site_now(edge.from)?, site_now(edge.to)?, edge)))
        };
        let taken: BTreeSet<usize> =
            edges().flat_map(|(_, _, edge)| edge.resources.iter().copied()).collect();
        let taken: Vec<usize> = taken.into_iter().collect();
        let rates = taken.iter().filter_map(|at| self.graph.resources().get(*at).copied());
        let edges = edges().map(|(from, to, edge)| {
            let now = edge.resources.iter().filter_map(|at| taken.binary_search(at).ok());
            Edge { from, to, resources: now.collect() }
        });
        let (rates, edges) = (rates.collect(), edges.collect());
        let names = left.iter().map(|site| self.name(*site).to_owned()).collect();
        Ok(Self { graph: Graph::new(left.len(), rates, edges)?, names })
    }

    /// The shares of sites, which add up to 1. `named`: sites by name, with equal shares; or each
    /// as `name=amount`, with shares as these amounts. Without any, all have equal shares.
    ///
    /// # Errors
    /// There is no site of such a name; a site comes twice; an amount is no number above 0.
    pub fn owners(&self, named: &[String]) -> Result<Vec<f64>, String> {
        let all = if named.is_empty() { 1.0 } else { 0.0 };
        let mut owners = vec![all; self.names.len()];
        for text in named {
            let (name, amount) = text.split_once('=').unwrap_or((text, "1"));
            let site = self.names.iter().position(|known| known == name);
            let Some(owner) = site.and_then(|site| owners.get_mut(site)) else {
                let known = self.names.join(", ");
                return Err(format!("there is no site {name}: the sites are {known}"));
            };
            if *owner > 0.0 {
                return Err(format!("site {name} comes twice"));
            }
            let number = amount.parse::<f64>().ok().filter(|it| it.is_finite() && *it > 0.0);
            *owner = number.ok_or_else(|| format!("{text}: {amount} is no number above 0"))?;
        }
        let sum: f64 = owners.iter().sum();
        Ok(owners.into_iter().map(|owner| owner / sum).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::parse;
    use super::*;

    #[test]
    fn owners_are_named() {
        let edge = |from: usize, to: usize| Edge { from, to, resources: vec![0] };
        let graph = Graph::new(2, vec![1.0], vec![edge(0, 1), edge(1, 0)]).unwrap();
        let named = NamedGraph::numbered(graph);
        assert_eq!(named.owners(&[]).unwrap(), [0.5; 2]);
        assert_eq!(named.owners(&["2".into()]).unwrap(), [0.0, 1.0]);
        assert_eq!(named.owners(&["2=3".into(), "1=1".into()]).unwrap(), [0.25, 0.75]);
        assert_eq!(named.owners(&["2".into(), "2".into()]).unwrap_err(), "site 2 comes twice");
        for amount in ["0", "-1", "inf", "x", ""] {
            let wrong = named.owners(&[format!("1={amount}")]).unwrap_err();
            assert!(wrong.contains("no number above 0"), "{wrong}");
        }
        let wrong = named.owners(&["5".into()]).unwrap_err();
        assert_eq!(wrong, "there is no site 5: the sites are 1, 2");
        let apart = GraphError::Apart { from: 0, to: 1 };
        assert!(named.explain(&apart).starts_with("no path leads from site 1 to site 2"));
    }

    #[test]
    fn sites_can_be_left_out() {
        let all = parse("link a b 40 30\nlink b c 20\nlink a c 10\ncard c 50").unwrap();
        let left = all.among(|site| all.name(site) != "b").unwrap();
        assert_eq!(left, parse("link a c 10\ncard c 50").unwrap());
        assert_eq!(all.among(|_| true).unwrap().names, all.names);
        assert!(all.among(|_| false).is_err());
        // What is left need not hang together.
        let row = parse("link a b\nlink b c").unwrap();
        assert!(row.among(|site| site != 1).unwrap().graph.connected().is_err());
    }
}
