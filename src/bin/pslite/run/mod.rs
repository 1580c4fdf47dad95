//! `pslite run`: starts the processes of a job on this machine and stays with them to the end.
//!
//! `plan` decides what to start, `library` finds what to preload, `importance` says what the job
//! loses with a process, `web` where the page of the job is, `job` is the state machine that
//! decides whom to end when, `children` does the I/O, `output` prints. Nothing here knows the wire.

mod children;
mod importance;
mod job;
pub(crate) mod library;
mod output;
mod plan;
mod verdict;
mod web;

pub(crate) use plan::ProcessRole;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use crate::jobs;
use crate::scheduler_address::Address;

/// What `pslite run` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArguments {
    /// Workers of the whole job (DMLC_NUM_WORKER)
    #[arg(
        short = 'n',
        long = "workers",
        value_name = "W",
        value_parser = clap::value_parser!(u32).range(1..=MAX_PROCESSES)
    )]
    pub(crate) workers: u32,
    /// Servers of the whole job (DMLC_NUM_SERVER); 0: its workers only share batches and barriers
    #[arg(
        short = 's',
        long = "servers",
        value_name = "S",
        value_parser = clap::value_parser!(u32).range(0..=MAX_PROCESSES)
    )]
    pub(crate) servers: u32,
    /// Start only these roles here; the others run elsewhere
    #[arg(long, value_delimiter = ',', default_value = "scheduler,server,worker", value_enum)]
    pub(crate) roles: Vec<ProcessRole>,
    /// How many of the workers to start here [default: all]
    #[arg(long, value_name = "K")]
    pub(crate) local_workers: Option<u32>,
    /// How many of the servers to start here [default: all]
    #[arg(long, value_name = "K")]
    pub(crate) local_servers: Option<u32>,
    /// Where the scheduler listens [default: 127.0.0.1 and a free port]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) root: Option<String>,
    /// The address of this machine that the other nodes connect to (DMLC_NODE_HOST)
    #[arg(long, value_name = "IP")]
    pub(crate) host: Option<String>,
    /// Ports on which servers and workers may listen (PSLITE_PORT_RANGE)
    #[arg(long, value_name = "LO-HI", conflicts_with = "stock")]
    pub(crate) port_range: Option<String>,
    /// Preload nothing: run on the ps-lite inside the program
    #[arg(long)]
    pub(crate) stock: bool,
    /// Use the stand-alone scheduler instead of running the command in that role too
    #[arg(long)]
    pub(crate) native_scheduler: bool,
    /// Use stand-alone servers instead of running the command in that role too
    #[arg(long)]
    pub(crate) native_servers: bool,
    /// The library to preload [default: $PSLITE_LIBRARY, or libpslite_mxnet.so beside this program
    /// or in ../lib]
    #[arg(long, value_name = "PATH", conflicts_with = "stock")]
    pub(crate) library: Option<PathBuf>,
    /// Set a variable for every process; may be repeated
    #[arg(long = "env", value_name = "K=V")]
    pub(crate) variables: Vec<String>,
    /// Seconds that the others get to end after one has failed, and servers after the workers
    #[arg(long, value_name = "SECONDS", default_value = "15", value_parser = seconds)]
    pub(crate) grace: Duration,
    /// End the job after this many seconds, with exit code 124
    #[arg(long, value_name = "SECONDS", value_parser = some_seconds)]
    pub(crate) timeout: Option<Duration>,
    /// The command that every process runs
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// More processes than that on one machine are a slip of the pen.
const MAX_PROCESSES: i64 = 4096;

fn seconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text.parse().map_err(|_| format!("{text} is not a number of seconds"))?;
    if !(0.0..=MAX_SECONDS).contains(&value) {
        return Err(format!("{text} is not between 0 and {MAX_SECONDS} seconds"));
    }
    Ok(Duration::from_secs_f64(value))
}

/// A job that ends before it begins is nobody's wish.
fn some_seconds(text: &str) -> Result<Duration, String> {
    let found = seconds(text)?;
    if found.is_zero() {
        Err("it is a number above 0; leave it out for no limit".to_owned())
    } else {
        Ok(found)
    }
}

/// Thirty years: a limit, not a wish.
const MAX_SECONDS: f64 = 1e9;

/// Runs the job.
///
/// # Errors
/// The arguments contradict each other, or a process cannot be started.
pub(crate) fn run(arguments: &RunArguments) -> Result<ExitCode> {
    let plan = plan::RunPlan::new(arguments)?;
    let job = job::Job::new(
        plan.processes.iter().map(|p| (p.label.clone(), importance::of(p))).collect(),
        arguments.grace,
        arguments.timeout,
    );
    let noted = plan.scheduler.as_ref().and_then(|scheduler| {
        let Address { host, port } = scheduler;
        eprintln!(
            "pslite: the scheduler listens on {host}:{port}; to see the job: pslite status \
             --scheduler {host}:{port}"
        );
        jobs::note(scheduler)
    });
    for line in &plan.web_lines {
        eprintln!("pslite: {line}");
    }
    let ended = children::supervise(plan, job);
    drop(noted);
    ended
}
