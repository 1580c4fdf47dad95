//! The processes of a job: starts them, reads their output, hears of their ends and of signals, and
//! does what `job` decides.
//!
//! Every process leads a process group of its own and is reaped only at the very end, so that its
//! number cannot come to mean somebody else while we still send signals to it.

use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use pslite::observe::awake;
use std::os::unix::process::CommandExt;

use super::job::{Job, ProcessOutcome, RunAction};
use super::output::{Tails, copy_errors, copy_lines};
use super::plan::{JobProcess, RunPlan};
use super::verdict;
use crate::exec;
use crate::scheduler_address::{Address, operator};

/// What wakes the main thread.
enum ChildEvent {
    Ended(usize, ProcessOutcome),
    Signal(Signal),
    OutputDone,
    /// The scheduler says that nodes are missing (true), or not.
    Incomplete(bool),
}

/// Events that may wait; each sender has at most one in flight.
const MAX_EVENTS: usize = 1024;
/// How long to wait for the last output after all processes are gone: somebody outside the job may
/// hold the other end of a pipe.
const OUTPUT_WAIT: Duration = Duration::from_secs(2);
/// How many seconds the scheduler has to answer whether the job is complete, ...
const ANSWER_WITHIN: f64 = 2.0;
/// ... and how long after a question the next one is asked.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// The longest sleep of the main thread; only a bound.
const IDLE: Duration = Duration::from_secs(3600);

struct Running {
    child: Child,
    group: Pid,
}

/// Starts the processes of the plan and returns when all have ended.
///
/// # Errors
/// A process or a thread could not be started; those that were are ended first.
pub(crate) fn supervise(plan: RunPlan, mut job: Job) -> Result<ExitCode> {
    let started = awake::now();
    let (sender, events) = sync_channel(MAX_EVENTS);
    watch_signals(&sender)?;
    // Held up to here so that nobody else takes these ports.
    drop(plan.reserved_ports);
    let tails = Tails::new(plan.processes.len());
    let mut running = Vec::with_capacity(plan.processes.len());
    let mut failed = None;
    for (index, process) in plan.processes.iter().enumerate() {
        match start(index, process, &tails, &sender) {
            Ok(child) => running.push(child),
            Err(error) => {
                failed = Some(error);
                perform(&job.abandon(awake::since(started), 1), &running);
                break;
            }
        }
    }
    let mut watch = ChildWatch { started, running, tails, closed: 0 };
    if failed.is_none() {
        let asking = Asking { scheduler: plan.scheduler, events: sender, next: Duration::ZERO };
        watch.until_finished(&mut job, &events, asking);
    }
    let tails = watch.tails.clone();
    finish(watch.running, &events, watch.closed);
    match failed {
        Some(error) => Err(error),
        None => Ok(ExitCode::from(conclude(&job, &tails))),
    }
}

/// Says why the job failed, if it did. Its exit code: that of the process that is the cause.
fn conclude(job: &Job, tails: &Tails) -> u8 {
    let (failures, tails) = (job.failures(), tails.all());
    let Some(cause) = verdict::cause(&failures, &tails) else { return job.exit_code() };
    let code = cause.outcome.code();
    let tail = tails.get(cause.index).cloned().unwrap_or_default();
    for line in verdict::lines(job.label(cause.index), cause, &tail, code) {
        eprintln!("pslite: {line}");
    }
    code
}

/// Asks the scheduler whether the job is complete, on a thread of its own.
struct Asking {
    /// Ours, if it is started here; stock's does not answer.
    scheduler: Option<Address>,
    events: SyncSender<ChildEvent>,
    /// When to ask; [`Duration::MAX`]: never again, or an answer is awaited.
    next: Duration,
}

impl Asking {
    /// When the next question is due, if the job wants to know.
    fn deadline(&self, job: &Job) -> Option<Duration> {
        let due = self.scheduler.is_some() && self.next != Duration::MAX;
        (due && job.wants_to_know_if_complete()).then_some(self.next)
    }

    fn ask_if_due(&mut self, now: Duration, job: &Job) {
        if self.deadline(job).is_none_or(|at| now < at) {
            return;
        }
        self.next = Duration::MAX;
        let Some(scheduler) = self.scheduler.clone() else { return };
        let events = self.events.clone();
        // Without a thread nobody asks; nothing else depends on it.
        let _ = thread::Builder::new().name("asking".into()).spawn(move || {
            let answer = operator(&scheduler, ANSWER_WITHIN).status();
            let missing = answer.map(|status| status.phase == "forming");
            // No answer says nothing: the scheduler may be about to start, or to end.
            let _ = events.send(ChildEvent::Incomplete(missing.unwrap_or(false)));
        });
    }

    /// An answer came.
    fn answered(&mut self, now: Duration) {
        self.next = now + ASK_EVERY;
    }
}

/// What is watched.
struct ChildWatch {
    started: Instant,
    running: Vec<Running>,
    tails: Tails,
    /// How many streams of output have ended.
    closed: usize,
}

impl ChildWatch {
    fn until_finished(&mut self, job: &mut Job, events: &Receiver<ChildEvent>, mut asking: Asking) {
        while !job.is_finished() {
            let now = awake::since(self.started);
            asking.ask_if_due(now, job);
            let next = job.deadline().into_iter().chain(asking.deadline(job)).min();
            let left = |at: Duration| at.saturating_sub(now).min(awake::LOOK_EVERY);
            let event = events.recv_timeout(next.map_or(IDLE, left));
            let now = awake::since(self.started);
            let actions = match event {
                Ok(ChildEvent::Ended(index, outcome)) => job.ended(now, index, outcome),
                Ok(ChildEvent::Signal(signal)) => job.interrupted(now, signal),
                Ok(ChildEvent::OutputDone) => {
                    self.closed += 1;
                    Vec::new()
                }
                Ok(ChildEvent::Incomplete(missing)) => {
                    asking.answered(now);
                    if missing { job.is_incomplete(now) } else { Vec::new() }
                }
                Err(RecvTimeoutError::Timeout) => Vec::new(),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            perform(&actions, &self.running);
            perform(&job.tick(awake::since(self.started)), &self.running);
        }
    }
}

fn perform(actions: &[RunAction], running: &[Running]) {
    for action in actions {
        match action {
            RunAction::Say(text) => eprintln!("pslite: {text}"),
            RunAction::Signal(index, signal) => {
                if let Some(process) = running.get(*index) {
                    send(process.group, *signal);
                }
            }
        }
    }
}

/// ESRCH: the group is empty, which is what we want.
fn send(group: Pid, signal: Signal) {
    if let Err(error) = killpg(group, signal)
        && error != Errno::ESRCH
    {
        eprintln!("pslite: cannot send {signal} to {group}: {error}");
    }
}

/// Ends what the processes left behind in their groups, reaps them, and prints what they last said.
fn finish(running: Vec<Running>, events: &Receiver<ChildEvent>, closed: usize) {
    let mut open = (2 * running.len()).saturating_sub(closed);
    for mut process in running {
        send(process.group, Signal::SIGKILL);
        // A process that survived SIGKILL is left to the kernel: try_wait does not block.
        let _ = process.child.try_wait();
    }
    let until = awake::now() + OUTPUT_WAIT;
    while open > 0 {
        match events.recv_timeout(awake::left(until)) {
            Ok(ChildEvent::OutputDone) => open -= 1,
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) if awake::now() < until => {}
            Err(_) => return,
        }
    }
}

fn start(
    index: usize,
    process: &JobProcess,
    tails: &Tails,
    events: &SyncSender<ChildEvent>,
) -> Result<Running> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut command = Command::new(program);
    command
        .args(exec::arguments(std::process::id(), process.preload.as_ref(), &process.command))
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    for name in &process.unset {
        command.env_remove(name);
    }
    command.envs(&process.variables);
    let mut child = command.spawn().with_context(|| format!("cannot start {}", process.label))?;
    let group = Pid::from_raw(child.id().cast_signed());
    let streams = (child.stdout.take(), child.stderr.take());
    let running = Running { child, group };
    let threads = (|| {
        if let (Some(stdout), Some(stderr)) = streams {
            print(&process.label, events, move |label| {
                copy_lines(label, stdout, std::io::stdout())
            })?;
            let tails = tails.clone();
            print(&process.label, events, move |label| {
                copy_errors(label, index, &tails, stderr, std::io::stderr());
            })?;
        }
        watch_end(index, group, events)
    })();
    if let Err(error) = threads {
        send(group, Signal::SIGKILL);
        return Err(error).with_context(|| format!("cannot watch {}", process.label));
    }
    Ok(running)
}

fn print<F>(label: &str, events: &SyncSender<ChildEvent>, copy: F) -> std::io::Result<()>
where
    F: FnOnce(&str) + Send + 'static,
{
    let (label, events) = (label.to_owned(), events.clone());
    thread::Builder::new().name("output".into()).spawn(move || {
        copy(&label);
        let _ = events.send(ChildEvent::OutputDone);
    })?;
    Ok(())
}

/// WNOWAIT leaves the process to be reaped later, see above.
fn watch_end(index: usize, process: Pid, events: &SyncSender<ChildEvent>) -> std::io::Result<()> {
    let events = events.clone();
    thread::Builder::new().name("wait".into()).spawn(move || {
        let outcome = loop {
            match waitid(Id::Pid(process), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
                Ok(WaitStatus::Exited(_, code)) => break ProcessOutcome::Exited(code),
                Ok(WaitStatus::Signaled(_, signal, _)) => break ProcessOutcome::Signaled(signal),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => break ProcessOutcome::Exited(1),
            }
        };
        let _ = events.send(ChildEvent::Ended(index, outcome));
    })?;
    Ok(())
}

/// Signals are blocked in every thread and taken by one, which needs no handler and so no unsafe.
fn watch_signals(events: &SyncSender<ChildEvent>) -> Result<()> {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        set.add(signal);
    }
    set.thread_block().context("cannot block signals")?;
    let events = events.clone();
    thread::Builder::new().name("signals".into()).spawn(move || {
        while let Ok(signal) = set.wait() {
            if events.send(ChildEvent::Signal(signal)).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}
