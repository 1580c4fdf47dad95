//! `pslite drain`: empties a server of a job that runs, and releases it.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use pslite::node::Operator;
use pslite::observe::awake;
use pslite::scheduler::Status;
use pslite::wire::{NodeId, server_id};

use crate::print::say;
use crate::scheduler_address::{SchedulerArguments, limit};

/// How often to look whether the server is empty.
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Debug, clap::Args)]
pub(crate) struct DrainArguments {
    /// Which one: server:RANK, as `pslite status` names it
    #[arg(value_name = "server:RANK", value_parser = server)]
    server: NodeId,
    #[command(flatten)]
    scheduler: SchedulerArguments,
    /// Return when the server is released, and fail if that takes longer
    #[arg(long, value_name = "SECONDS", value_parser = limit)]
    wait: Option<f64>,
}

/// Reads `server:RANK`; the id of that server.
fn server(text: &str) -> Result<NodeId, String> {
    let rank = text.strip_prefix("server:").and_then(|rank| rank.parse::<u16>().ok());
    rank.map(|rank| server_id(usize::from(rank)))
        .ok_or_else(|| format!("write it as server:RANK, like server:2, not {text:?}"))
}

/// Tells the scheduler, and waits if that is wanted.
///
/// # Errors
/// The scheduler does not answer or refuses, or the server is not released in time.
pub(crate) fn run(arguments: &DrainArguments) -> Result<ExitCode> {
    let operator = arguments.scheduler.operator()?;
    say!("{}", operator.drain(arguments.server).context("not drained")?);
    if let Some(seconds) = arguments.wait {
        let limit = Duration::try_from_secs_f64(seconds).context("--wait")?;
        wait(&operator, arguments.server, limit)?;
        say!("released");
    }
    Ok(ExitCode::SUCCESS)
}

fn wait(operator: &Operator, server: NodeId, limit: Duration) -> Result<()> {
    let until = awake::now() + limit;
    loop {
        let state = state(&operator.status()?, server);
        match state.as_str() {
            "released" => return Ok(()),
            "dead" => bail!("it died before it was empty"),
            _ if awake::now() >= until => bail!("it is not empty after {limit:?}: {state}"),
            _ => thread::sleep(LOOK_EVERY),
        }
    }
}

fn state(status: &Status, server: NodeId) -> String {
    let of = status.nodes.iter().find(|node| node.id == server && node.role == "server");
    of.map_or_else(|| "unknown".to_owned(), |node| node.state.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_by_rank() {
        assert_eq!(server("server:0"), Ok(8));
        assert_eq!(server("server:2"), Ok(12));
        for wrong in ["", "2", "server", "server:", "server:-1", "worker:0", "server:99999"] {
            assert!(server(wrong).is_err(), "{wrong}");
        }
    }
}
