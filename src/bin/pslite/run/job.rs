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
pub(crate) enum Outcome {
    /// It returned this code.
    Exited(i32),
    /// A signal ended it.
    Signaled(Signal),
}

impl Outcome {
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
pub(crate) enum Action {
    /// Tell the user.
    Say(String),
    /// Send a signal to the group of a process.
    Signal(usize, Signal),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
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
struct Process {
    label: String,
    importance: Importance,
    outcome: Option<Outcome>,
}

impl Process {
    const fn is_worker(&self) -> bool {
        matches!(self.importance, Importance::Worker | Importance::ReplaceableWorker)
    }
}

/// The processes of a job and what is known of them.
#[derive(Debug)]
pub(crate) struct Job {
    processes: Vec<Process>,
    grace: Duration,
    limit: Option<Duration>,
    phase: Phase,
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
            .map(|(label, importance)| Process { label, importance, outcome: None })
            .collect();
        Self {
            processes,
            grace,
            limit,
            phase: Phase::Running,
            failure: None,
            failed: Vec::new(),
            late: None,
            missed: None,
            signals: 0,
        }
    }

    /// A process has ended.
    pub(crate) fn ended(&mut self, now: Duration, index: usize, outcome: Outcome) -> Vec<Action> {
        let Some(process) = self.processes.get_mut(index) else { return Vec::new() };
        process.outcome = Some(outcome);
        let label = process.label.clone();
        let replaceable =
            matches!(process.importance, Importance::Replaceable | Importance::ReplaceableWorker);
        let mut actions = Vec::new();
        match self.phase {
            Phase::Running if !outcome.is_ok() && replaceable => {
                self.missed.get_or_insert(Failed { index, outcome, at: now });
                let text = format!("{label} {}; the others go on if they can", outcome.text());
                actions.push(Action::Say(text));
            }
            Phase::Running | Phase::Grace(_) if !outcome.is_ok() => {
                self.failed.push(Failed { index, outcome, at: now });
                let mut text = format!("{label} {}", outcome.text());
                let wait = self.wait_for_the_rest();
                if self.phase == Phase::Running && self.running().next().is_some() {
                    text += &format!("; the others have {} to end", in_seconds(wait));
                }
                actions.push(Action::Say(text));
            }
            Phase::Leaving(_, signal) if self.workers_are_done() => {
                actions.extend(self.pass_on(now, signal));
            }
            Phase::Terminating(_) | Phase::Killing(_) if !outcome.is_ok() => {
                self.late.get_or_insert(outcome.code());
            }
            _ => {}
        }
        match self.phase {
            Phase::Running if !self.failed.is_empty() || self.workers_are_done() => {
                self.phase = Phase::Grace(now + self.wait_for_the_rest());
            }
            Phase::Grace(until) if self.workers_are_done() => {
                self.phase = Phase::Grace(until.min(now + self.wait_for_the_rest()));
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
        let ended_well = |worker: &Process| worker.outcome.is_some_and(Outcome::is_ok);
        self.phase == Phase::Running && self.workers().any(ended_well) && !self.workers_are_done()
    }

    /// The scheduler says that nodes are missing, though a worker has ended: it never was in the
    /// job, and the others wait for it in vain.
    pub(crate) fn is_incomplete(&mut self, now: Duration) -> Vec<Action> {
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
        let mut actions = vec![Action::Say(text)];
        actions.extend(self.terminate(now, "nothing can go on"));
        actions
    }

    fn workers_are_done(&self) -> bool {
        let mut workers = self.workers().peekable();
        workers.peek().is_some() && workers.all(|worker| worker.outcome.is_some())
    }

    fn workers(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(|process| process.is_worker())
    }

    /// Somebody asks the job to end: the first request is passed on, the second one ends it.
    pub(crate) fn interrupted(&mut self, now: Duration, signal: Signal) -> Vec<Action> {
        self.signals += 1;
        self.failure = Some(128 + signal as u8);
        if self.signals > 1 {
            return self.kill(now);
        }
        let workers: Vec<usize> = self.running_workers().collect();
        if workers.is_empty() {
            let text = format!("{signal}: passed on to {}", self.list_running());
            let mut actions = vec![Action::Say(text)];
            actions.extend(self.pass_on(now, signal));
            return actions;
        }
        self.phase = Phase::Leaving(now + WORKERS_FIRST, signal);
        let labels: Vec<&str> =
            workers.iter().map(|index| self.processes[*index].label.as_str()).collect();
        let text = format!("{signal}: passed on to {}, then to the others", labels.join(", "));
        let mut actions = vec![Action::Say(text)];
        actions.extend(workers.into_iter().map(|index| Action::Signal(index, signal)));
        actions
    }

    /// The others get the signal that the workers have got.
    fn pass_on(&mut self, now: Duration, signal: Signal) -> Vec<Action> {
        self.phase = Phase::Terminating(now + self.grace);
        let workers: Vec<usize> = self.running_workers().collect();
        let all = self.signal_running(signal).into_iter();
        let new = |action: &Action| !matches!(action, Action::Signal(i, _) if workers.contains(i));
        all.filter(new).collect()
    }

    fn running_workers(&self) -> impl Iterator<Item = usize> {
        self.running().filter(|(_, process)| process.is_worker()).map(|(index, _)| index)
    }

    /// A process could not even be started.
    pub(crate) fn abandon(&mut self, now: Duration, code: u8) -> Vec<Action> {
        self.failure = Some(code);
        self.kill(now)
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Duration) -> Vec<Action> {
        if self.limit.is_some_and(|limit| now >= limit) {
            self.limit = None;
            self.failure = Some(TIMED_OUT);
            return self.terminate(now, "the time of --timeout has passed");
        }
        match self.phase {
            Phase::Leaving(until, signal) if now >= until => self.pass_on(now, signal),
            Phase::Grace(until) if now >= until => self.terminate(now, "did not end by itself"),
            Phase::Terminating(until) if now >= until => self.kill(now),
            Phase::Killing(until) if now >= until => {
                let text = format!("{} cannot be ended", self.list_running());
                self.phase = Phase::GivenUp;
                vec![Action::Say(text)]
            }
            _ => Vec::new(),
        }
    }

    fn terminate(&mut self, now: Duration, why: &str) -> Vec<Action> {
        self.phase = Phase::Terminating(now + TERM_WAIT);
        let mut actions =
            vec![Action::Say(format!("{why}: {}; sending SIGTERM", self.list_running()))];
        actions.extend(self.signal_running(Signal::SIGTERM));
        actions
    }

    fn kill(&mut self, now: Duration) -> Vec<Action> {
        self.phase = Phase::Killing(now + KILL_WAIT);
        let mut actions = Vec::new();
        if self.running().next().is_some() {
            actions.push(Action::Say(format!(
                "still there: {}; sending SIGKILL",
                self.list_running()
            )));
        }
        actions.extend(self.signal_running(Signal::SIGKILL));
        actions
    }

    fn running(&self) -> impl Iterator<Item = (usize, &Process)> {
        self.processes.iter().enumerate().filter(|(_, process)| process.outcome.is_none())
    }

    fn signal_running(&self, signal: Signal) -> Vec<Action> {
        self.running().map(|(index, _)| Action::Signal(index, signal)).collect()
    }

    fn list_running(&self) -> String {
        let labels: Vec<&str> = self.running().map(|(_, process)| process.label.as_str()).collect();
        labels.join(", ")
    }

    /// When to call [`Self::tick`] next.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let phase = match self.phase {
            Phase::Leaving(at, _)
            | Phase::Grace(at)
            | Phase::Terminating(at)
            | Phase::Killing(at) => Some(at),
            Phase::Running | Phase::GivenUp => None,
        };
        match (phase, self.limit) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Nothing is left to wait for.
    pub(crate) fn is_finished(&self) -> bool {
        self.phase == Phase::GivenUp || self.running().next().is_none()
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
            && self.workers().any(|worker| worker.outcome.is_some_and(Outcome::is_ok))
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
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(15);
    const OK: Outcome = Outcome::Exited(0);
    use Importance::{Needed, Replaceable, ReplaceableWorker, Worker};

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn job() -> Job {
        let names = [
            ("scheduler", Needed),
            ("server 0", Needed),
            ("worker 0", Worker),
            ("worker 1", Worker),
        ];
        Job::new(names.iter().map(|(l, w)| ((*l).to_owned(), *w)).collect(), GRACE, None)
    }

    fn signals(actions: &[Action]) -> Vec<(usize, Signal)> {
        actions
            .iter()
            .filter_map(|a| if let Action::Signal(i, s) = a { Some((*i, *s)) } else { None })
            .collect()
    }

    #[test]
    fn all_ended_well() {
        let mut job = job();
        for index in 0..4 {
            assert!(!job.is_finished());
            assert_eq!(job.ended(at(1), index, OK), []);
        }
        assert!(job.is_finished());
        assert_eq!(job.exit_code(), 0);
    }

    #[test]
    fn a_failure_gives_the_others_grace_then_term_then_kill() {
        let mut job = job();
        let said = job.ended(at(1), 3, Outcome::Exited(7));
        assert_eq!(
            said,
            [Action::Say("worker 1 ended with exit code 7; the others have 15 s to end".into())]
        );
        assert_eq!(job.deadline(), Some(at(16)));
        assert_eq!(job.tick(at(15)), []);
        assert_eq!(job.ended(at(15), 2, OK), []);
        assert_eq!(signals(&job.tick(at(16))), [(0, Signal::SIGTERM), (1, Signal::SIGTERM)]);
        assert_eq!(job.ended(at(17), 0, Outcome::Signaled(Signal::SIGTERM)), []);
        assert_eq!(signals(&job.tick(at(21))), [(1, Signal::SIGKILL)]);
        job.ended(at(21), 1, Outcome::Signaled(Signal::SIGKILL));
        assert!(job.is_finished());
        assert_eq!(job.exit_code(), 7);
    }

    #[test]
    fn failures_are_told_in_the_order_of_their_ends_without_those_we_asked_for() {
        let mut job = job();
        job.ended(at(1), 2, Outcome::Exited(1));
        job.ended(at(2), 3, Outcome::Signaled(Signal::SIGINT));
        // No worker is left: nothing is waited for.
        assert_eq!(job.deadline(), Some(at(4)));
        job.tick(at(4));
        job.ended(at(5), 0, Outcome::Signaled(Signal::SIGTERM));
        job.ended(at(5), 1, Outcome::Signaled(Signal::SIGTERM));
        let ends = job.failures().into_iter().map(|failed| (failed.index, failed.at));
        assert_eq!(ends.collect::<Vec<_>>(), [(2, at(1)), (3, at(2))]);
    }

    #[test]
    fn a_job_whose_worker_never_came_is_ended_with_a_text() {
        let mut job = job();
        assert!(!job.wants_to_know_if_complete());
        job.ended(at(1), 3, OK);
        assert!(job.wants_to_know_if_complete());
        let actions = job.is_incomplete(at(3));
        let Some(Action::Say(text)) = actions.first() else { panic!("{actions:?}") };
        assert!(text.contains("worker 1 ended before it was in the job"), "{text}");
        assert_eq!(signals(&actions).len(), 3);
        assert_eq!(job.is_incomplete(at(4)), [], "it is said once");
        for index in 0..3 {
            job.ended(at(4), index, Outcome::Signaled(Signal::SIGTERM));
        }
        assert_eq!((job.exit_code(), job.failures()), (1, vec![]));
    }

    #[test]
    fn nobody_asks_where_no_worker_waits() {
        let mut job = job();
        job.ended(at(1), 2, OK);
        job.ended(at(1), 3, OK);
        assert!(!job.wants_to_know_if_complete());
        assert_eq!(job.is_incomplete(at(2)), []);
    }

    #[test]
    fn who_aborts_because_of_a_failure_is_not_its_cause() {
        let mut job = job();
        job.ended(at(1), 2, Outcome::Exited(7));
        assert_eq!(job.ended(at(2), 3, Outcome::Signaled(Signal::SIGABRT)).len(), 1);
        assert_eq!(job.exit_code(), 7);
    }

    #[test]
    fn servers_that_stay_after_the_workers_are_ended_and_count() {
        let mut job = job();
        job.ended(at(1), 2, OK);
        job.ended(at(2), 3, OK);
        assert_eq!(job.deadline(), Some(at(17)));
        job.ended(at(3), 0, OK);
        assert_eq!(signals(&job.tick(at(17))), [(1, Signal::SIGTERM)]);
        job.ended(at(17), 1, Outcome::Signaled(Signal::SIGTERM));
        assert_eq!(job.exit_code(), 143);
    }

    #[test]
    fn a_server_that_is_not_missed_does_not_count() {
        let names = [("scheduler", Needed), ("server 0", Replaceable), ("worker 0", Worker)];
        let processes =
            names.iter().map(|(label, importance)| ((*label).to_owned(), *importance)).collect();
        let mut job = Job::new(processes, GRACE, None);
        let said = job.ended(at(1), 1, Outcome::Signaled(Signal::SIGKILL));
        assert_eq!(
            said,
            [Action::Say("server 0 was ended by SIGKILL; the others go on if they can".into())]
        );
        assert_eq!(job.deadline(), None);
        assert_eq!(job.exit_code(), 137, "so far");
        job.ended(at(9), 2, OK);
        job.ended(at(9), 0, OK);
        assert!(job.is_finished());
        assert_eq!(job.exit_code(), 0);
    }

    #[test]
    fn a_server_that_is_missed_ends_the_workers_and_they_count() {
        let names = [("scheduler", Needed), ("server 0", Replaceable), ("worker 0", Worker)];
        let processes =
            names.iter().map(|(label, importance)| ((*label).to_owned(), *importance)).collect();
        let mut job = Job::new(processes, GRACE, None);
        job.ended(at(1), 1, Outcome::Signaled(Signal::SIGKILL));
        job.ended(at(2), 2, Outcome::Exited(255));
        assert_eq!(job.deadline(), Some(at(4)));
        job.ended(at(3), 0, OK);
        assert_eq!(job.exit_code(), 255);
    }

    #[test]
    fn workers_go_on_without_one_and_one_is_enough() {
        let names = [
            ("scheduler", Needed),
            ("worker 0", ReplaceableWorker),
            ("worker 1", ReplaceableWorker),
        ];
        let job = || {
            let processes = names
                .iter()
                .map(|(label, importance)| ((*label).to_owned(), *importance))
                .collect();
            Job::new(processes, GRACE, None)
        };
        let mut goes_on = job();
        let said = goes_on.ended(at(1), 1, Outcome::Signaled(Signal::SIGKILL));
        assert_eq!(
            said,
            [Action::Say("worker 0 was ended by SIGKILL; the others go on if they can".into())]
        );
        assert_eq!((goes_on.deadline(), goes_on.exit_code()), (None, 137));
        goes_on.ended(at(9), 2, OK);
        assert_eq!(goes_on.deadline(), Some(at(24)), "the scheduler alone");
        goes_on.ended(at(9), 0, OK);
        assert_eq!(goes_on.exit_code(), 0);
        let mut nobody = job();
        nobody.ended(at(1), 1, Outcome::Exited(7));
        nobody.ended(at(2), 2, Outcome::Exited(8));
        assert_eq!(nobody.deadline(), Some(at(4)), "nothing can come of the scheduler alone");
        nobody.ended(at(3), 0, OK);
        assert_eq!(nobody.exit_code(), 7);
    }

    #[test]
    fn servers_alone_may_run_for_ever() {
        let mut job =
            Job::new(vec![("server 0".into(), Needed), ("server 1".into(), Needed)], GRACE, None);
        job.ended(at(1), 0, OK);
        assert_eq!(job.deadline(), None);
    }

    #[test]
    fn a_signal_is_passed_on_and_the_second_one_kills() {
        let mut job = job();
        job.ended(at(0), 0, OK);
        // Workers leave the job first: else they would miss the others, and say so.
        let passed = job.interrupted(at(1), Signal::SIGINT);
        assert_eq!(signals(&passed), [(2, Signal::SIGINT), (3, Signal::SIGINT)]);
        assert_eq!(job.deadline(), Some(at(3)));
        assert_eq!(signals(&job.tick(at(3))), [(1, Signal::SIGINT)]);
        assert_eq!(signals(&job.interrupted(at(2), Signal::SIGINT)).len(), 3);
        for index in 1..4 {
            job.ended(at(2), index, Outcome::Signaled(Signal::SIGKILL));
        }
        assert_eq!(job.exit_code(), 130);
    }

    #[test]
    fn the_others_get_a_signal_as_soon_as_no_worker_is_left() {
        let mut job = job();
        job.interrupted(at(1), Signal::SIGINT);
        job.ended(at(1), 2, Outcome::Signaled(Signal::SIGINT));
        let passed = job.ended(at(2), 3, Outcome::Exited(1));
        assert_eq!(signals(&passed), [(0, Signal::SIGINT), (1, Signal::SIGINT)]);
        for index in 0..2 {
            assert_eq!(job.ended(at(2), index, Outcome::Signaled(Signal::SIGINT)), []);
        }
        assert_eq!((job.exit_code(), job.failures()), (130, vec![]));
    }

    #[test]
    fn the_limit_ends_all() {
        let mut job = Job::new(vec![("worker 0".into(), Worker)], GRACE, Some(at(5)));
        assert_eq!(job.deadline(), Some(at(5)));
        assert_eq!(signals(&job.tick(at(5))), [(0, Signal::SIGTERM)]);
        assert_eq!(signals(&job.tick(at(10))), [(0, Signal::SIGKILL)]);
        assert!(!job.is_finished());
        job.tick(at(20));
        assert!(job.is_finished(), "a process that survives SIGKILL must not keep us");
        assert_eq!(job.exit_code(), TIMED_OUT);
    }
}
