//! `pslite server`: a server without an application: MXNet's workers, stock ones too, are served
//! from the library's own store. It needs no Python and no MXNet on its machine, and runs nobody's
//! code.

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use pslite::node::{Lookup, Postoffice};

use crate::job_arguments::{JobArguments, lookup};
use crate::scheduler_address::{ANSWER_WITHIN, Address, address, operator};

#[derive(Debug, clap::Args)]
pub(crate) struct ServerArguments {
    #[command(flatten)]
    job: JobArguments,
    /// Join the job of the scheduler at that address, while it runs; the scheduler says the rest
    #[arg(long, value_name = "HOST:PORT", value_parser = address,
          conflicts_with_all = ["workers", "servers", "host", "port"])]
    join: Option<Address>,
}

/// Serves until a worker stops it, or it was emptied.
///
/// # Errors
/// The settings or the address are bad, the job cannot be joined, a node was lost, or a stock
/// worker wants an optimizer that the store does not have; the text says which.
pub(crate) fn run(arguments: &ServerArguments) -> Result<ExitCode> {
    let settings = match &arguments.join {
        Some(address) => joining(address)?,
        None => arguments.job.lookup("server"),
    };
    Postoffice::new(settings).serve_server().context("the server ended")?;
    Ok(ExitCode::SUCCESS)
}

/// The settings of a server that joins: what all nodes must agree on, as the scheduler has it.
fn joining(address: &Address) -> Result<Lookup> {
    let job = operator(address, ANSWER_WITHIN).status().context("no job to join")?;
    ensure!(
        job.elastic || job.phase == "forming",
        "servers of the job at {} cannot come and go: a node of it does not follow keys that move",
        job.scheduler
    );
    let told = vec![
        ("DMLC_ROLE", "server".to_owned()),
        ("DMLC_NUM_WORKER", job.workers.to_string()),
        ("DMLC_NUM_SERVER", job.servers.to_string()),
        ("DMLC_PS_ROOT_URI", address.host.clone()),
        ("DMLC_PS_ROOT_PORT", address.port.to_string()),
        ("PSLITE_ELASTIC", "1".to_owned()),
        // If all others do; else it means nothing.
        ("PSLITE_ELASTIC_WORKERS", "1".to_owned()),
        ("PSLITE_JOIN", "1".to_owned()),
    ];
    Ok(lookup(told))
}
