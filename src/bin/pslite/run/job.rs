//! Decides whom to end when: a state machine without I/O and without a clock.
//!
//! `children` tells it what happened and at which time since the start, and does what it answers.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::verdict::Failed;

/// How long a process may take to end after SIGTERM, before SIGKILL.
pub(crate) const TERM_WAIT: Duration = Duration::from_secs(5);
/// How long processes may take to end by themselves after a failure, if no worker is left: nothing
/// can come of them any more.
pub(crate) const LAST_WAIT: Duration = Duration::from_secs(2);
/// After a signal to the job, workers have so long to leave it before the others get the signal.
pub(crate) const WORKERS_FIRST: Duration = Duration::from_secs(2);
/// How long to wait for the kernel after SIGKILL before giving up.
pub(crate) const KILL_WAIT: Duration = Duration::from_secs(10);
/// The exit code when `--timeout` has passed, as of timeout(1).
pub(crate) const TIMED_OUT: u8 = 124;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessOutcome {
    /// It returned this code.
    Exited(i32),
    /// A signal ended it.
    Signaled(Signal),
}

impl ProcessOutcome {
    fn is_ok(self) -> bool {
        self == Self::Exited(0)
    }

    /// Somebody sent a signal that no process gives itself by a fault.
    pub(super) fn is_from_outside(self) -> bool {
        use Signal::{SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM};
        matches!(self, Self::Signaled(SIGHUP | SIGINT | SIGKILL | SIGQUIT | SIGTERM))
    }

    /// The code of a shell for this outcome.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Exited(code) => u8::try_from(code).unwrap_or(1),
            Self::Signaled(signal) => 128 + signal as u8,
        }
    }

    /// What happened, for people.
    pub(super) fn text(self) -> String {
        match self {
            Self::Exited(code) => format!("ended with exit code {code}"),
            Self::Signaled(signal) => format!("was ended by {signal}"),
        }
    }
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunAction {
    /// Tell the user.
    Say(String),
    /// Send a signal to the group of a process.
    Signal(usize, Signal),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunPhase {
    Running,
    /// A signal was passed on to the workers. The rest gets it then, or when no worker is left.
    Leaving(Duration, Signal),
    /// The rest may end by itself until then.
    Grace(Duration),
    /// SIGTERM was sent.
    Terminating(Duration),
    /// SIGKILL was sent.
    Killing(Duration),
    GivenUp,
}

/// What the end of a process means for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Importance {
    /// When all of these have ended, the job has.
    Worker,
    /// The others cannot do without it.
    Needed,
    /// The others may be able to do without it; if not, they end by themselves.
    Replaceable,
    /// A worker of that kind.
    ReplaceableWorker,
}

#[derive(Debug)]
struct TrackedProcess {
    label: String,
    importance: Importance,
    outcome: Option<ProcessOutcome>,
}

impl TrackedProcess {
    const fn is_worker(&self) -> bool {
        matches!(self.importance, Importance::Worker | Importance::ReplaceableWorker)
    }
}

/// The processes of a job and what is known of them.
#[derive(Debug)]
pub(crate) struct Job {
    processes: Vec<TrackedProcess>,
    grace: Duration,
    limit: Option<Duration>,
    phase: RunPhase,
    /// Why it fails, apart from what processes did: somebody asked for its end, or time was up.
    failure: Option<u8>,
    /// What processes failed at by themselves, in the order in which they ended.
    failed: Vec<Failed>,
    /// The code of the first process that ended badly after we had ended the job.
    late: Option<u8>,
    /// The first replaceable process that failed: it counts unless workers end well, all that are
    /// not replaceable and at least one.
    missed: Option<Failed>,
    signals: u32,
}

impl Job {
    /// A job of processes, each with its name and its importance.
    pub(crate) fn new(
        processes: Vec<(String, Importance)>,
        grace: Duration,
        limit: Option<Duration>,
    ) -> Self {
        let processes = processes
            .into_iter()
            .map(|(label, importance)| TrackedProcess { label, importance, outcome: None })
            .collect();
        Self {
            processes,
            grace,
            limit,
            phase: RunPhase::Running,
            failure: None,
            failed: Vec::new(),
            late: None,
            missed: None,
            signals: 0,
        }
    }

    /// A process has ended.
    pub(crate) fn ended(
        &mut self,
        now: Duration,
        index: usize,
        outcome: ProcessOutcome,
    ) -> Vec<RunAction> {
        let Some(process) = self.processes.get_mut(index) else { return Vec::new() };
        process.outcome = Some(outcome);
        let label = process.label.clone();
        let replaceable =
            matches!(process.importance, Importance::Replaceable | Importance::ReplaceableWorker);
        let mut actions = Vec::new();
        match self.phase {
            RunPhase::Running if !outcome.is_ok() && replaceable => {
                self.missed.get_or_insert(Failed { index, outcome, at: now });
                let text = format!("{label} {}; the others go on if they can", outcome.text());
                actions.push(RunAction::Say(text));
            }
            RunPhase::Running | RunPhase::Grace(_) if !outcome.is_ok() => {
                self.failed.push(Failed { index, outcome, at: now });
                let mut text = format!("{label} {}", outcome.text());
                let wait = self.wait_for_the_rest();
                if self.phase == RunPhase::Running && self.running().next().is_some() {
                    text += &format!("; the others have {} to end", in_seconds(wait));
                }
                actions.push(RunAction::Say(text));
            }
            RunPhase::Leaving(_, signal) if self.workers_are_done() => {
                actions.extend(self.pass_on(now, signal));
            }
            RunPhase::Terminating(_) | RunPhase::Killing(_) if !outcome.is_ok() => {
                self.late.get_or_insert(outcome.code());
            }
            _ => {}
        }
        match self.phase {
            RunPhase::Running if !self.failed.is_empty() || self.workers_are_done() => {
                self.phase = RunPhase::Grace(now + self.wait_for_the_rest());
            }
            RunPhase::Grace(until) if self.workers_are_done() => {
                self.phase = RunPhase::Grace(until.min(now + self.wait_for_the_rest()));
            }
            _ => {}
        }
        actions
    }

    /// How long the others have to end by themselves.
    fn wait_for_the_rest(&self) -> Duration {
        let has_failed = !self.failed.is_empty() || self.missed.is_some() && !self.is_done();
        if has_failed && self.workers_are_done() { self.grace.min(LAST_WAIT) } else { self.grace }
    }

    /// True while it is worth asking the scheduler whether the job is complete: a worker has ended,
    /// and others wait, perhaps for it.
    pub(crate) fn wants_to_know_if_complete(&self) -> bool {
        let ended_well =
            |worker: &TrackedProcess| worker.outcome.is_some_and(ProcessOutcome::is_ok);
        self.phase == RunPhase::Running
            && self.workers().any(ended_well)
            && !self.workers_are_done()
    }

    /// The scheduler says that nodes are missing, though a worker has ended: it never was in the
    /// job, and the others wait for it in vain.
    pub(crate) fn is_incomplete(&mut self, now: Duration) -> Vec<RunAction> {
        if !self.wants_to_know_if_complete() {
            return Vec::new();
        }
        let ended = self.workers().filter(|worker| worker.outcome.is_some());
        let labels: Vec<&str> = ended.map(|worker| worker.label.as_str()).collect();
        let text = format!(
            "the job can never begin: {} ended before it was in the job (with MXNet: before it \
             made its kvstore), and the others wait for it",
            labels.join(", ")
        );
        self.failure = Some(1);
        let mut actions = vec![RunAction::Say(text)];
        actions.extend(self.terminate(now, "nothing can go on"));
        actions
    }

    fn workers_are_done(&self) -> bool {
        let mut workers = self.workers().peekable();
        workers.peek().is_some() && workers.all(|worker| worker.outcome.is_some())
    }

    fn workers(&self) -> impl Iterator<Item = &TrackedProcess> {
        self.processes.iter().filter(|process| process.is_worker())
    }

    /// Somebody asks the job to end: the first request is passed on, the second one ends it.
    pub(crate) fn interrupted(&mut self, now: Duration, signal: Signal) -> Vec<RunAction> {
        self.signals += 1;
        self.failure = Some(128 + signal as u8);
        if self.signals > 1 {
            return self.kill(now);
        }
        let workers: Vec<usize> = self.running_workers().collect();
        if workers.is_empty() {
            let text = format!("{signal}: passed on to {}", self.list_running());
            let mut actions = vec![RunAction::Say(text)];
            actions.extend(self.pass_on(now, signal));
            return actions;
        }
        self.phase = RunPhase::Leaving(now + WORKERS_FIRST, signal);
        let labels: Vec<&str> =
            workers.iter().map(|index| self.processes[*index].label.as_str()).collect();
        let text = format!("{signal}: passed on to {}, then to the others", labels.join(", "));
        let mut actions = vec![RunAction::Say(text)];
        actions.extend(workers.into_iter().map(|index| RunAction::Signal(index, signal)));
        actions
    }

    /// The others get the signal that the workers have got.
    fn pass_on(&mut self, now: Duration, signal: Signal) -> Vec<RunAction> {
        self.phase = RunPhase::Terminating(now + self.grace);
        let workers: Vec<usize> = self.running_workers().collect();
        let all = self.signal_running(signal).into_iter();
        let new =
            |action: &RunAction| !matches!(action, RunAction::Signal(i, _) if workers.contains(i));
        all.filter(new).collect()
    }

    fn running_workers(&self) -> impl Iterator<Item = usize> {
        self.running().filter(|(_, process)| process.is_worker()).map(|(index, _)| index)
    }

    /// A process could not even be started.
    pub(crate) fn abandon(&mut self, now: Duration, code: u8) -> Vec<RunAction> {
        self.failure = Some(code);
        self.kill(now)
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Duration) -> Vec<RunAction> {
        if self.limit.is_some_and(|limit| now >= limit) {
            self.limit = None;
            self.failure = Some(TIMED_OUT);
            return self.terminate(now, "the time of --timeout has passed");
        }
        match self.phase {
            RunPhase::Leaving(until, signal) if now >= until => self.pass_on(now, signal),
            RunPhase::Grace(until) if now >= until => self.terminate(now, "did not end by itself"),
            RunPhase::Terminating(until) if now >= until => self.kill(now),
            RunPhase::Killing(until) if now >= until => {
                let text = format!("{} cannot be ended", self.list_running());
                self.phase = RunPhase::GivenUp;
                vec![RunAction::Say(text)]
            }
            _ => Vec::new(),
        }
    }

    fn terminate(&mut self, now: Duration, why: &str) -> Vec<RunAction> {
        self.phase = RunPhase::Terminating(now + TERM_WAIT);
        let mut actions =
            vec![RunAction::Say(format!("{why}: {}; sending SIGTERM", self.list_running()))];
        actions.extend(self.signal_running(Signal::SIGTERM));
        actions
    }

    fn kill(&mut self, now: Duration) -> Vec<RunAction> {
        self.phase = RunPhase::Killing(now + KILL_WAIT);
        let mut actions = Vec::new();
        if self.running().next().is_some() {
            actions.push(RunAction::Say(format!(
                "still there: {}; sending SIGKILL",
                self.list_running()
            )));
        }
        actions.extend(self.signal_running(Signal::SIGKILL));
        actions
    }

    fn running(&self) -> impl Iterator<Item = (usize, &TrackedProcess)> {
        self.processes.iter().enumerate().filter(|(_, process)| process.outcome.is_none())
    }

    fn signal_running(&self, signal: Signal) -> Vec<RunAction> {
        self.running().map(|(index, _)| RunAction::Signal(index, signal)).collect()
    }

    fn list_running(&self) -> String {
        let labels: Vec<&str> = self.running().map(|(_, process)| process.label.as_str()).collect();
        labels.join(", ")
    }

    /// When to call [`Self::tick`] next.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let phase = match self.phase {
            RunPhase::Leaving(at, _)
            | RunPhase::Grace(at)
            | RunPhase::Terminating(at)
            | RunPhase::Killing(at) => Some(at),
            RunPhase::Running | RunPhase::GivenUp => None,
        };
        match (phase, self.limit) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Nothing is left to wait for.
    pub(crate) fn is_finished(&self) -> bool {
        self.phase == RunPhase::GivenUp || self.running().next().is_none()
    }

    /// What processes failed at by themselves, in the order in which they ended; empty if somebody
    /// asked for the end of the job, or if its failure is no process's.
    pub(crate) fn failures(&self) -> Vec<Failed> {
        if self.failure.is_some() {
            return Vec::new();
        }
        let missed = self.missed.filter(|_| !self.is_done());
        self.failed.iter().copied().chain(missed).collect()
    }

    /// The name of a process.
    pub(crate) fn label(&self, index: usize) -> &str {
        self.processes.get(index).map_or("", |process| &process.label)
    }

    /// Workers have ended well, and so the job.
    fn is_done(&self) -> bool {
        self.workers_are_done()
            && self.workers().any(|worker| worker.outcome.is_some_and(ProcessOutcome::is_ok))
    }

    /// 0 iff every process ended with 0, but for those that nobody missed; else the code of the
    /// first that did not. The cause's code goes before it ([`super::verdict`]).
    pub(crate) fn exit_code(&self) -> u8 {
        let unknown = self.processes.iter().any(|process| process.outcome.is_none());
        let first = self.failed.first().map(|failed| failed.outcome.code());
        let missed = self.missed.filter(|_| !self.is_done());
        let missed = missed.map(|failed| failed.outcome.code());
        self.failure.or(first).or(missed).or(self.late).unwrap_or(u8::from(unknown))
    }
}

fn in_seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
