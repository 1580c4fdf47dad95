//! The tunnels of a node (`PSLITE_TUNNELS`, docs/tunnels.md): works out from the links of the hosts
//! which of them are reached through others, and by which ways. May read settings and start the
//! thread that passes connections on; decides nothing about peers.

use std::collections::BTreeMap;

use crate::error::{NodeError, Result};
use crate::settings::{Settings, TunnelSettings};
use pslite_core::placement::graph::{NamedGraph, ways};
use pslite_transport::descriptors::make_room;
use pslite_transport::tunnel::{TunnelOptions, Tunnels};

/// Ways to a host, at most. They share no host between, and more than two are rare.
const WAYS: usize = 2;
/// Descriptors of a gateway without a node, needed and wanted: two for each connection.
const DESCRIPTORS: (u64, u64) = (512, 2 * 4096 + 64);

impl TunnelSettings {
    /// Passes connections on for a host without a node: as many as there may be.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn serve(&self) -> Result<Tunnels> {
        // With less room there are fewer.
        let _ = make_room(DESCRIPTORS.0, DESCRIPTORS.1);
        self.start()
    }

    /// Begins to pass connections on.
    ///
    /// # Errors
    /// The links do not name this host, or it has no such address.
    pub fn start(&self) -> Result<Tunnels> {
        let Self { host, port, links } = self;
        let ways = all_ways(links, host).map_err(NodeError::Config)?;
        let started = Tunnels::start(TunnelOptions { host: host.clone(), port: *port, ways });
        started.map_err(|error| NodeError::Address(format!("PSLITE_TUNNELS={port}: {error}")))
    }
}

/// Starts those of a node, if it is told to. `host`: this node's, as others know it.
///
/// # Errors
/// As [`TunnelSettings::start`].
pub(super) fn start(settings: &Settings, host: &str) -> Result<Option<Tunnels>> {
    TunnelSettings::of_node(settings, host).map(|settings| settings.start()).transpose()
}

/// The ways to each other host, by the hosts between. Where there is a link it is the first one:
/// what it carries is measured and planned for.
fn all_ways(
    links: &NamedGraph,
    host: &str,
) -> std::result::Result<BTreeMap<String, Vec<Vec<String>>>, String> {
    let own = links.names.iter().position(|name| name == host).ok_or_else(|| {
        format!(
            "PSLITE_LINKS names no host {host} (DMLC_NODE_HOST, at the scheduler \
             DMLC_PS_ROOT_URI), and PSLITE_TUNNELS needs it"
        )
    })?;
    let graph = &links.graph;
    let mut found = BTreeMap::new();
    for (site, name) in links.names.iter().enumerate().filter(|(site, _)| *site != own) {
        let is_next = graph.edge(own, site).is_some() || graph.edge(site, own).is_some();
        let mut over = match across(links, own, site) {
            // A link may carry nothing in one direction.
            Err(_) if is_next => Vec::new(),
            across => across?,
        };
        if is_next {
            over.retain(|way| !way.is_empty());
            over.insert(0, Vec::new());
        }
        over.truncate(WAYS);
        found.insert(name.clone(), over);
    }
    Ok(found)
}

/// The hosts between of each way from one to another.
fn across(
    links: &NamedGraph,
    from: usize,
    to: usize,
) -> std::result::Result<Vec<Vec<String>>, String> {
    let all = ways(&links.graph, from, to, WAYS)
        .map_err(|wrong| format!("PSLITE_LINKS: {}", links.explain(&wrong)))?;
    let name = |site: &usize| links.name(*site).to_owned();
    let between = |way: &Vec<usize>| match way.as_slice() {
        [_, between @ .., _] => between.iter().map(name).collect(),
        _ => Vec::new(),
    };
    Ok(all.iter().map(between).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pslite_core::placement::graph::text::parse;

    #[test]
    fn hosts_without_a_link_are_reached_through_others() {
        let links =
            parse("link a b 10\nlink b c 10\nlink a d 10\nlink d c 10\nlink c e 10 0\nlink e d 10");
        let links = links.unwrap();
        let found = all_ways(&links, "a").unwrap();
        assert_eq!(found["b"], [vec![], vec!["d", "c"]], "a detour, if the link is cut");
        assert_eq!(found["c"], [["b"], ["d"]]);
        assert_eq!(found["e"], [vec!["d"], vec!["b", "c"]]);
        assert!(!found.contains_key("a"));
        // A link that carries nothing in one direction is a link all the same.
        assert_eq!(all_ways(&links, "e").unwrap()["c"], [vec![], vec!["d"]]);
        assert!(all_ways(&links, "z").unwrap_err().contains("names no host z"));
    }
}
