//! The command line program: starts local clusters, serves as a scheduler or a server, and finds out why a job
//! does not start.
//!
//! Each command has its module; `main` only tells them apart. Nothing here is part of the library,
//! and nothing here is needed where the library is preloaded or linked by hand.
#![forbid(unsafe_code)]

mod doctor;
mod exec;
mod run;
mod scheduler;
mod server;
mod sim;
mod told;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A parameter-server library that speaks the API and the wire of ps-lite.
#[derive(Debug, Parser)]
#[command(name = "pslite", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a job on this machine: scheduler, servers and workers
    Run(run::RunArguments),
    /// Be the scheduler of a job, without an application
    Scheduler(told::JobArguments),
    /// Be a server of a job, without MXNet
    Server(told::JobArguments),
    /// Check what keeps a job from starting: address, port, NIC, counts, versions
    Doctor(doctor::DoctorArguments),
    /// Play jobs whose keys move, and whose servers come and go, on virtual time, and check every result
    Sim(sim::SimArguments),
    /// Become one process of a job (used by `run`)
    #[command(name = exec::COMMAND, hide = true)]
    Exec(exec::ExecArguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Scheduler(arguments) => scheduler::run(&arguments),
        Command::Server(arguments) => server::run(&arguments),
        Command::Doctor(arguments) => Ok(doctor::run(&arguments)),
        Command::Sim(arguments) => sim::sim(&arguments),
        Command::Exec(arguments) => return exec::run(&arguments),
    };
    result.unwrap_or_else(|error| {
        eprintln!("pslite: {error:#}");
        ExitCode::from(FAILED)
    })
}

/// As clap's own code for wrong arguments: the command did not do its work.
const FAILED: u8 = 2;
