//! `pslite scheduler`: a scheduler without an application, for stock nodes and ours. It needs no
//! Python and no MXNet on its machine.

use std::process::ExitCode;

use anyhow::{Context, Result};
use pslite::node::Postoffice;

use crate::told::JobArguments;

/// Serves until every node has come and gone.
///
/// # Errors
/// The settings or the address are bad, or a node was lost; the text says which.
pub(crate) fn run(arguments: &JobArguments) -> Result<ExitCode> {
    Postoffice::new(arguments.lookup("scheduler"))
        .serve_scheduler()
        .context("the scheduler ended")?;
    Ok(ExitCode::SUCCESS)
}
