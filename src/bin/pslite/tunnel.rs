//! `pslite tunnel`: a host's gateway without a node, for hosts that others are reached through
//! while nodes come and go, or that have none (docs/tunnels.md).

use std::process::ExitCode;

use anyhow::{Context, Result};
use pslite::node::{TunnelSettings, notices};

use crate::job_arguments::lookup;

/// Whose gateway this is, and who is reached how. Everything may come from the environment.
#[derive(Debug, clap::Args)]
pub(crate) struct TunnelArguments {
    /// This host, as the file with the links names it [default: $DMLC_NODE_HOST]
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// The port of the gateways of all hosts [default: $PSLITE_TUNNELS]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// The file with the links of all hosts [default: $PSLITE_LINKS]
    #[arg(long, value_name = "FILE")]
    links: Option<String>,
}

/// Passes connections on until it is ended by a signal.
///
/// # Errors
/// A setting is missing or bad, or this host has no such address; the text says which.
pub(crate) fn run(arguments: &TunnelArguments) -> Result<ExitCode> {
    let options = [
        ("DMLC_NODE_HOST", arguments.host.clone()),
        ("PSLITE_TUNNELS", arguments.port.map(|port| port.to_string())),
        ("PSLITE_LINKS", arguments.links.clone()),
    ];
    let told = options.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let lookup = lookup(told);
    notices::say_unknown(&lookup);
    let settings = TunnelSettings::read(&lookup).context("no gateway")?;
    let _tunnels = settings.serve().context("no gateway")?;
    loop {
        std::thread::park();
    }
}
