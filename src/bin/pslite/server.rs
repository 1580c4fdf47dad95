//! `pslite server`: a server without an application: MXNet's workers, stock ones too, are served from
//! the library's own store. It needs no Python and no MXNet on its machine, and runs nobody's code.

use std::process::ExitCode;

use anyhow::{Context, Result};
use pslite::node::Postoffice;

use crate::told::JobArguments;

/// Serves until a worker stops it.
///
/// # Errors
/// The settings or the address are bad, a node was lost, or a stock worker wants an optimizer that the
/// store does not have; the text says which.
pub(crate) fn run(arguments: &JobArguments) -> Result<ExitCode> {
    Postoffice::new(arguments.lookup("server")).serve_server().context("the server ended")?;
    Ok(ExitCode::SUCCESS)
}
