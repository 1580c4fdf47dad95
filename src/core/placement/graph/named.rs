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
                "no way leads from site {} to site {}: add a link, give one a rate above 0, or \
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

    /// Equal shares for those sites, by name; for all if none is named.
    ///
    /// # Errors
    /// There is no site of such a name.
    pub fn owners(&self, named: &[String]) -> Result<Vec<f64>, String> {
        let owns = |name: &String| named.is_empty() || named.contains(name);
        if let Some(unknown) = named.iter().find(|name| !self.names.contains(name)) {
            let known = self.names.join(", ");
            return Err(format!("there is no site {unknown}: the sites are {known}"));
        }
        let owners: Vec<f64> =
            self.names.iter().map(|name| if owns(name) { 1.0 } else { 0.0 }).collect();
        let count: f64 = owners.iter().sum();
        Ok(owners.into_iter().map(|owner| owner / count).collect())
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
        let wrong = named.owners(&["5".into()]).unwrap_err();
        assert_eq!(wrong, "there is no site 5: the sites are 1, 2");
        let apart = GraphError::Apart { from: 0, to: 1 };
        assert!(named.explain(&apart).starts_with("no way leads from site 1 to site 2"));
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
