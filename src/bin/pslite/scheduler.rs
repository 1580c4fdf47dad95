//! `pslite scheduler`: a scheduler without an application, for stock nodes and ours. It needs no
//! Python and no MXNet on its machine.

use std::process::ExitCode;

use anyhow::{Context, Result};
use pslite::node::Postoffice;

use crate::job_arguments::JobArguments;
use crate::jobs;
use crate::scheduler_address::address;

/// Serves until every node has come and gone.
///
/// # Errors
/// The settings or the address are bad, or a node was lost; the text says which.
pub(crate) fn run(arguments: &JobArguments) -> Result<ExitCode> {
    let lookup = arguments.lookup("scheduler");
    let place = lookup("DMLC_PS_ROOT_URI").zip(lookup("DMLC_PS_ROOT_PORT"));
    let place = place.and_then(|(host, port)| address(&format!("{host}:{port}")).ok());
    let noted = place.and_then(|place| jobs::note(&place));
    let served = Postoffice::new(lookup).serve_scheduler();
    drop(noted);
    served.context("the scheduler ended")?;
    Ok(ExitCode::SUCCESS)
}
