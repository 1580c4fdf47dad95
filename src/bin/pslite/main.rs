//! The command line program: starts local clusters, serves as a scheduler or a server, shows how a
//! job is, empties its servers, and finds out why a job does not start.
//!
//! Each command has its module; `main` only tells them apart. Nothing here is part of the library,
//! and nothing here is needed where the library is preloaded or linked by hand.
#![forbid(unsafe_code)]

mod doctor;
mod drain;
mod elf;
mod exec;
mod exit_codes;
mod job_arguments;
mod jobs;
mod npz;
mod print;
mod run;
mod save;
mod scheduler;
mod scheduler_address;
mod server;
mod sim;
mod sim_graph;
mod status;
mod tunnel;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A server holds each key in a few small blocks for the whole job, and takes and frees many more
/// in each round. glibc puts both side by side, so it can return little of what a round freed: a
/// server of 100,000 keys kept 1.4 times the memory (`scripts/bench keys`). The libraries use the
/// allocator of the process that loads them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A parameter-server library that speaks the API and the wire of ps-lite.
#[derive(Debug, Parser)]
#[command(name = "pslite", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Start a job on this machine: scheduler, servers and workers
    Run(run::RunArguments),
    /// Be the scheduler of a job, without an application
    Scheduler(job_arguments::JobArguments),
    /// Be a server of a job, without MXNet; with --join, of one that runs
    Server(server::ServerArguments),
    /// Show how a job is: its nodes, who holds how much, how long a round takes
    Status(status::StatusArguments),
    /// Empty a server of a job that runs, and release it
    Drain(drain::DrainArguments),
    /// Write the global model of a job that runs to a file, which numpy reads
    Save(save::SaveArguments),
    /// Pass connections on between hosts that have no link, without a node
    Tunnel(tunnel::TunnelArguments),
    /// Check what keeps a job from starting: address, port, NIC, counts, versions
    Doctor(doctor::DoctorArguments),
    /// Play jobs whose keys move, and whose servers come and go, on virtual time, and check every
    /// result
    Sim(sim::SimArguments),
    /// Become one process of a job (used by `run`)
    #[command(name = exec::COMMAND, hide = true)]
    Exec(exec::ExecArguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        CliCommand::Run(arguments) => run::run(&arguments),
        CliCommand::Scheduler(arguments) => scheduler::run(&arguments),
        CliCommand::Server(arguments) => server::run(&arguments),
        CliCommand::Status(arguments) => status::run(&arguments),
        CliCommand::Drain(arguments) => drain::run(&arguments),
        CliCommand::Save(arguments) => save::run(&arguments),
        CliCommand::Tunnel(arguments) => tunnel::run(&arguments),
        CliCommand::Doctor(arguments) => Ok(doctor::run(&arguments)),
        CliCommand::Sim(arguments) => sim::sim(&arguments),
        CliCommand::Exec(arguments) => return exec::run(&arguments),
    };
    result.unwrap_or_else(|error| {
        eprintln!("pslite: {error:#}");
        ExitCode::from(exit_codes::FAILED)
    })
}
