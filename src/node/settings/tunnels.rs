//! The settings of a host's gateway, with a node around it or without (docs/tunnels.md).

use super::reader::SettingsReader;
use super::{Lookup, Settings};
use crate::error::{NodeError, Result};
use pslite_core::placement::graph::NamedGraph;

/// Whose gateway it is, and who is reached how.
#[derive(Clone, Debug)]
pub struct TunnelSettings {
    /// `DMLC_NODE_HOST`: this host, as the links name it.
    pub host: String,
    /// `PSLITE_TUNNELS`: the port of the gateways of all hosts.
    pub port: u16,
    /// `PSLITE_LINKS`: the links of all hosts.
    pub links: NamedGraph,
}

impl TunnelSettings {
    /// Reads those of a gateway without a node.
    ///
    /// # Errors
    /// [`NodeError::Config`] names the variable that is missing or holds nonsense.
    pub fn read(lookup: &Lookup) -> Result<Self> {
        let env = SettingsReader { lookup };
        let missing =
            |name: &str| NodeError::Config(format!("{name} is not set (docs/tunnels.md)"));
        let port = env.tunnels()?.ok_or_else(|| missing("PSLITE_TUNNELS"))?;
        let links = env.links(true)?.ok_or_else(|| missing("PSLITE_LINKS"))?;
        let host = env.text("DMLC_NODE_HOST").ok_or_else(|| missing("DMLC_NODE_HOST"))?;
        Ok(Self { host, port, links })
    }

    /// Those of a node with that host, if it has tunnels.
    pub(crate) fn of_node(settings: &Settings, host: &str) -> Option<Self> {
        let (port, links) = (settings.tunnels?, settings.links.clone()?);
        Some(Self { host: host.to_owned(), port, links })
    }
}
