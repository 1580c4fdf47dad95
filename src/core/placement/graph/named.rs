//! A graph whose sites have names, for people and for nodes that know where they are. Pure.

use super::{Graph, GraphError};

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
    use super::super::Edge;
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
}
