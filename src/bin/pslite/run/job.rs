//! Decides whom to end when: a state machine without I/O and without a clock.
//!
//! `children` tells it what happened and at which time since the start, and does what it answers.

use std::time::Duration;

use nix::sys::signal::Signal;

/// How long a process may take to end after SIGTERM, before SIGKILL.
pub(crate) const TERM_WAIT: Duration = Duration::from_secs(5);
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
    fn is_from_outside(self) -> bool {
        use Signal::{SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM};
        matches!(self, Self::Signaled(SIGHUP | SIGINT | SIGKILL | SIGQUIT | SIGTERM))
    }

    /// The code of a shell for this outcome.
    fn code(self) -> u8 {
        match self {
            Self::Exited(code) => u8::try_from(code).unwrap_or(1),
            Self::Signaled(signal) => 128 + signal as u8,
        }
    }

    fn text(self) -> String {
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

/// The processes of a job and what is known of them.
#[derive(Debug)]
pub(crate) struct Job {
    processes: Vec<Process>,
    grace: Duration,
    limit: Option<Duration>,
    phase: Phase,
    failure: Option<u8>,
    /// A signal from outside of the job is known to be its cause.
    struck: bool,
    /// The code of the first replaceable process that failed: it counts unless workers end well,
    /// all that are not replaceable and at least one.
    missed: Option<u8>,
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
            struck: false,
            missed: None,
            signals: 0,
        }
    }

    /// A process has ended.
    pub(crate) fn ended(&mut self, now: Duration, index: usize, outcome: Outcome) -> Vec<Action> {
        let Some(process) = self.processes.get_mut(index) else { return Vec::new() };
        process.outcome = Some(outcome);
        let ours = matches!(self.phase, Phase::Terminating(_) | Phase::Killing(_));
        let importance = process.importance;
        let mut actions = Vec::new();
        let replaceable =
            matches!(importance, Importance::Replaceable | Importance::ReplaceableWorker);
        if !outcome.is_ok() && self.phase == Phase::Running && replaceable {
            self.missed.get_or_insert(outcome.code());
            let label = &self.processes[index].label;
            let text = format!("{label} {}; the others go on if they can", outcome.text());
            if self.workers_are_done() {
                self.phase = Phase::Grace(now + self.grace);
            }
            return vec![Action::Say(text)];
        }
        let Some(process) = self.processes.get(index) else { return actions };
        if !outcome.is_ok() && !ours {
            let mut text = format!("{} {}", process.label, outcome.text());
            if self.phase == Phase::Running && self.running().next().is_some() {
                text += &format!("; the others have {} to end", in_seconds(self.grace));
            }
            actions.push(Action::Say(text));
            actions.extend(self.cause(index, outcome));
        }
        if !outcome.is_ok() {
            self.failure.get_or_insert(outcome.code());
        }
        if self.phase != Phase::Running {
            return actions;
        }
        if !outcome.is_ok() || self.workers_are_done() {
            self.phase = Phase::Grace(now + self.grace);
        }
        actions
    }

    /// The others may miss a process before it has ended: Python takes leave of the job after
    /// SIGINT. So the first to end with an error is not the cause if another one was struck by a
    /// signal that we did not send.
    fn cause(&mut self, index: usize, outcome: Outcome) -> Option<Action> {
        if self.struck || !outcome.is_from_outside() {
            return None;
        }
        self.struck = true;
        let is_first = self.failure.replace(outcome.code()).is_none();
        let text = || {
            let Process { label, .. } = &self.processes[index];
            format!(
                "{label} is the cause: the signal came from outside of the job, and the others \
                 missed it"
            )
        };
        (!is_first).then(|| Action::Say(text()))
    }

    fn workers_are_done(&self) -> bool {
        let mut workers = self.workers().peekable();
        workers.peek().is_some() && workers.all(|worker| worker.outcome.is_some())
    }

    fn workers(&self) -> impl Iterator<Item = &Process> {
        let is_worker =
            |importance| matches!(importance, Importance::Worker | Importance::ReplaceableWorker);
        self.processes.iter().filter(move |process| is_worker(process.importance))
    }

    /// Somebody asks the job to end: the first request is passed on, the second one ends it.
    pub(crate) fn interrupted(&mut self, now: Duration, signal: Signal) -> Vec<Action> {
        self.signals += 1;
        self.failure = Some(128 + signal as u8);
        if self.signals > 1 {
            return self.kill(now);
        }
        let mut actions =
            vec![Action::Say(format!("{signal}: passed on to {}", self.list_running()))];
        actions.extend(self.signal_running(signal));
        self.phase = Phase::Terminating(now + self.grace);
        actions
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
            Phase::Grace(at) | Phase::Terminating(at) | Phase::Killing(at) => Some(at),
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

    /// 0 iff every process ended with 0, but for those that nobody missed; else the code of the
    /// first that did not.
    pub(crate) fn exit_code(&self) -> u8 {
        let unknown = self.processes.iter().any(|process| process.outcome.is_none());
        let is_done = self.workers_are_done()
            && self.workers().any(|worker| worker.outcome.is_some_and(Outcome::is_ok));
        let missed = self.missed.filter(|_| !is_done);
        self.failure.or(missed).unwrap_or(u8::from(unknown))
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
    fn who_was_struck_by_a_signal_is_the_cause_though_others_end_first() {
        let mut job = job();
        job.ended(at(1), 2, Outcome::Exited(1));
        let said = job.ended(at(2), 3, Outcome::Signaled(Signal::SIGINT));
        let Some(Action::Say(text)) = said.last() else { panic!("{said:?}") };
        assert!(text.starts_with("worker 1 is the cause"), "{text}");
        // What the others do of it, and what we send them, changes nothing.
        assert_eq!(job.ended(at(3), 0, Outcome::Signaled(Signal::SIGKILL)).len(), 1);
        job.tick(at(16));
        job.ended(at(17), 1, Outcome::Signaled(Signal::SIGTERM));
        assert_eq!(job.exit_code(), 130);
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
        assert_eq!(job.deadline(), Some(at(17)));
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
        assert_eq!(nobody.deadline(), Some(at(17)));
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
        let passed = job.interrupted(at(1), Signal::SIGINT);
        assert_eq!(
            signals(&passed),
            [(1, Signal::SIGINT), (2, Signal::SIGINT), (3, Signal::SIGINT)]
        );
        assert_eq!(signals(&job.interrupted(at(2), Signal::SIGINT)).len(), 3);
        for index in 1..4 {
            job.ended(at(2), index, Outcome::Signaled(Signal::SIGKILL));
        }
        assert_eq!(job.exit_code(), 130);
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
