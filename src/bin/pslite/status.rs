//! `pslite status`: how a job is, as its scheduler says.

use std::process::ExitCode;

use anyhow::{Context, Result};

mod events;
mod exchange;
mod table;
mod watch;

use self::table::table;
use crate::print::{print, say};
use crate::scheduler_address::SchedulerArguments;

#[derive(Debug, clap::Args)]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    scheduler: SchedulerArguments,
    /// Print one JSON object for each job, or each event, instead of text
    #[arg(long)]
    json: bool,
    /// Show it again and again: on a terminal as a screen, elsewhere as tables [default: each
    /// second]
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        default_missing_value = "1",
        value_parser = watch::interval
    )]
    watch: Option<f64>,
    /// Print what has happened in the job, and then what happens, until its scheduler ends
    #[arg(long, conflicts_with = "watch")]
    events: bool,
}

/// Asks each scheduler once and prints the answers; with `--events` one of them, until it ends.
///
/// # Errors
/// No scheduler answers, or there is none to ask.
pub(crate) fn run(arguments: &StatusArguments) -> Result<ExitCode> {
    if let Some(seconds) = arguments.watch {
        let operator = arguments.scheduler.operator()?;
        return watch::run(operator, seconds, arguments.json);
    }
    if arguments.events {
        return events::follow(&arguments.scheduler.operator()?, arguments.json);
    }
    let mut failure = None;
    let mut answers = 0;
    for operator in arguments.scheduler.operators()? {
        let asked = operator.status();
        match asked.with_context(|| format!("no status of {}:{}", operator.host, operator.port)) {
            Ok(status) if arguments.json => say!("{}", status.json()),
            Ok(status) => print(format_args!("{}", table(&status))),
            Err(error) => {
                eprintln!("pslite: {error:#}");
                failure = Some(error);
                continue;
            }
        }
        answers += 1;
    }
    // One that is about to end may be among several.
    match failure.filter(|_| answers == 0) {
        Some(_) => Ok(ExitCode::from(crate::exit_codes::FAILED)),
        None => Ok(ExitCode::SUCCESS),
    }
}
