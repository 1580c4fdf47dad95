//! `pslite scheduler`: a scheduler without an application, for stock nodes and ours. It needs no
//! Python and no MXNet on its machine.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use pslite::node::{Lookup, Postoffice};

/// What `pslite scheduler` is told; everything else comes from the environment.
#[derive(Debug, clap::Args)]
pub(crate) struct SchedulerArguments {
    /// Workers of the job [default: $DMLC_NUM_WORKER]
    #[arg(short = 'n', long = "workers", value_name = "W")]
    workers: Option<u32>,
    /// Servers of the job [default: $DMLC_NUM_SERVER]
    #[arg(short = 's', long = "servers", value_name = "S")]
    servers: Option<u32>,
    /// The address to listen on, as the other nodes know it [default: $DMLC_PS_ROOT_URI]
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// The port to listen on [default: $DMLC_PS_ROOT_PORT]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
}

/// Serves until every node has come and gone.
///
/// # Errors
/// The settings or the address are bad, or a node was lost; the text says which.
pub(crate) fn run(arguments: &SchedulerArguments) -> Result<ExitCode> {
    serve(lookup(arguments)).context("the scheduler ended")?;
    Ok(ExitCode::SUCCESS)
}

fn serve(lookup: Lookup) -> pslite::node::Result<()> {
    Postoffice::new(lookup).serve_scheduler()
}

/// The environment, with what the command line says in front.
fn lookup(arguments: &SchedulerArguments) -> Lookup {
    let mut told = vec![("DMLC_ROLE", "scheduler".to_owned())];
    let options = [
        ("DMLC_NUM_WORKER", arguments.workers.map(|count| count.to_string())),
        ("DMLC_NUM_SERVER", arguments.servers.map(|count| count.to_string())),
        ("DMLC_PS_ROOT_URI", arguments.host.clone()),
        ("DMLC_PS_ROOT_PORT", arguments.port.map(|port| port.to_string())),
    ];
    told.extend(options.into_iter().filter_map(|(name, value)| Some((name, value?))));
    Arc::new(move |name| {
        let of_command_line =
            told.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
        of_command_line.or_else(|| std::env::var(name).ok()).or_else(|| default(name))
    })
}

/// Somebody looks at this program's output, so it says more than a library would.
fn default(name: &str) -> Option<String> {
    let quiet = std::env::var_os("PS_VERBOSE").is_none();
    (name == "PSLITE_LOG" && quiet).then(|| "info".to_owned())
}
