//! The step between `pslite run` and a process of the job: ties the process to its launcher, then
//! becomes the user's command.
//!
//! What must happen between fork and exec is done here, in a fresh process, because there it needs
//! no unsafe code. The parent-death signal and an empty signal mask both survive exec.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, parent_id};
use std::process::{Command, ExitCode};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal};

/// The name of the hidden command.
pub(crate) const COMMAND: &str = "__exec";

/// What a shell answers when it cannot run a command.
const NOT_RUN: u8 = 127;

#[derive(Debug, clap::Args)]
pub(crate) struct ExecArguments {
    /// The process that started this one; if it is gone already, nothing is run.
    #[arg(long)]
    parent: u32,
    /// The value of LD_PRELOAD for the command; the helper itself goes without.
    #[arg(long)]
    preload: Option<OsString>,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// The arguments that make `pslite` run a command in this way.
pub(crate) fn arguments(
    parent: u32,
    preload: Option<&OsString>,
    command: &[OsString],
) -> Vec<OsString> {
    let mut all: Vec<OsString> = vec![COMMAND.into(), "--parent".into(), parent.to_string().into()];
    if let Some(preload) = preload {
        all.extend(["--preload".into(), preload.clone()]);
    }
    all.push("--".into());
    all.extend_from_slice(command);
    all
}

/// Becomes the command; returns only if that fails.
pub(crate) fn run(arguments: &ExecArguments) -> ExitCode {
    if let Err(error) = set_pdeathsig(Signal::SIGKILL) {
        eprintln!("pslite: cannot tie this process to its launcher: {error}");
        return ExitCode::from(NOT_RUN);
    }
    // The launcher may have died before the line above took effect.
    if parent_id() != arguments.parent {
        return ExitCode::from(NOT_RUN);
    }
    // The launcher waits for signals with a mask, which children inherit.
    if let Err(error) = SigSet::all().thread_unblock() {
        eprintln!("pslite: cannot unblock signals: {error}");
        return ExitCode::from(NOT_RUN);
    }
    let Some((program, rest)) = arguments.command.split_first() else {
        return ExitCode::from(NOT_RUN);
    };
    let mut command = Command::new(program);
    command.args(rest);
    if let Some(preload) = &arguments.preload {
        command.env("LD_PRELOAD", preload);
    }
    let error = command.exec();
    eprintln!("pslite: cannot run {}: {error}", program.to_string_lossy());
    ExitCode::from(NOT_RUN)
}
