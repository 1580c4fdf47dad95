//! `pslite save`: writes the global model of a job that runs to a file, from outside.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use pslite::store::saved::SavedArray;

use crate::npz;
use crate::print::say;
use crate::scheduler_address::{ANSWER_WITHIN, Address, address, limit, operator};

#[derive(Debug, clap::Args)]
pub(crate) struct SaveArguments {
    /// The scheduler's address
    #[arg(value_name = "HOST:PORT", value_parser = address)]
    scheduler: Address,
    /// The file to write: numpy.load reads it. One that is there is replaced when all has come
    #[arg(value_name = "FILE.npz")]
    file: PathBuf,
    /// How long to wait for each answer
    #[arg(long, value_name = "SECONDS", default_value_t = ANSWER_WITHIN, value_parser = limit)]
    timeout: f64,
}

/// Asks, and writes what has come.
///
/// # Errors
/// The scheduler or a server does not answer, some values are nowhere, or the file cannot be
/// written.
pub(crate) fn run(arguments: &SaveArguments) -> Result<ExitCode> {
    let SaveArguments { scheduler, file, timeout } = arguments;
    let arrays = operator(scheduler, *timeout).save().context("not saved")?;
    ensure!(!arrays.is_empty(), "not saved: the servers have no values yet");
    write(file, &arrays).with_context(|| format!("cannot write {}", file.display()))?;
    let bytes: usize = arrays.iter().map(|array| array.values.len()).sum();
    say!("{} arrays, {bytes} bytes of values", arrays.len());
    Ok(ExitCode::SUCCESS)
}

/// Beside it first, so that there is a whole file or the former one.
fn write(file: &PathBuf, arrays: &[SavedArray]) -> Result<()> {
    let mut part = file.clone().into_os_string();
    part.push(".part");
    let part = PathBuf::from(part);
    let mut out = BufWriter::new(File::create(&part)?);
    npz::write(&mut out, arrays)?;
    out.into_inner().map_err(|error| error.into_error())?.sync_all()?;
    std::fs::rename(&part, file)?;
    Ok(())
}
