//! Why a job failed, in a few lines at its end: which process was the cause, what it said last, and
//! the exit code. Pure.
//!
//! The first process to end is mostly not the cause: Python takes its time to end, and the others
//! hear of it before. But what only heard of a failure has said so: nodes of ours write a line with
//! an error first.

use std::time::Duration;

use super::job::ProcessOutcome;
use super::output::Tail;

/// A process that ended with an error which we did not ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    /// Its place among the processes.
    pub(crate) index: usize,
    pub(crate) outcome: ProcessOutcome,
    /// Since the start.
    pub(crate) at: Duration,
}

/// The one that is the cause, of those that failed, in the order in which they ended: one that was
/// struck by a signal from outside of the job; else the first one that has said nothing of an
/// error; else the one that said so first.
pub(crate) fn cause<'a>(failed: &'a [Failed], tails: &[Tail]) -> Option<&'a Failed> {
    let said = |one: &&Failed| tails.get(one.index).and_then(|tail| tail.error);
    let struck = failed.iter().find(|one| one.outcome.is_from_outside());
    let silent = || failed.iter().find(|one| said(one).is_none());
    struck.or_else(silent).or_else(|| failed.iter().min_by_key(said))
}

/// The last lines of a job that failed.
pub(crate) fn lines(label: &str, failed: &Failed, tail: &Tail, code: u8) -> Vec<String> {
    let Failed { outcome, at, .. } = failed;
    let mut lines = vec![format!(
        "the job failed because of {label}, which {} after {:.1} s",
        outcome.text(),
        at.as_secs_f64()
    )];
    if tail.lines.is_empty() {
        lines.push(format!("{label} said nothing"));
    }
    lines.extend(tail.lines.iter().map(|line| format!("{label} said last: {line}")));
    lines.push(format!("exit code {code}"));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::Signal;

    fn failed(ends: &[(usize, ProcessOutcome)]) -> Vec<Failed> {
        let one = |(index, outcome): &(usize, ProcessOutcome)| Failed {
            index: *index,
            outcome: *outcome,
            at: Duration::from_secs(3),
        };
        ends.iter().map(one).collect()
    }

    fn heard(errors: &[Option<u64>]) -> Vec<Tail> {
        errors.iter().map(|error| Tail { error: *error, ..Tail::default() }).collect()
    }

    fn cause_of(ends: &[(usize, ProcessOutcome)], errors: &[Option<u64>]) -> Option<usize> {
        cause(&failed(ends), &heard(errors)).map(|one| one.index)
    }

    use ProcessOutcome::{Exited, Signaled};

    #[test]
    fn who_raised_an_exception_is_the_cause_though_others_end_first() {
        let ends = [(0, Exited(1)), (2, Exited(1)), (1, Exited(7))];
        assert_eq!(cause_of(&ends, &[Some(4), None, Some(5)]), Some(1));
    }

    #[test]
    fn who_was_struck_by_a_signal_is_the_cause_whatever_it_said() {
        let ends = [(0, Exited(1)), (1, Signaled(Signal::SIGKILL))];
        assert_eq!(cause_of(&ends, &[None, Some(9)]), Some(1));
        let ends = [(1, Exited(1)), (0, Signaled(Signal::SIGABRT))];
        assert_eq!(cause_of(&ends, &[Some(2), Some(1)]), Some(1), "no signal from outside");
    }

    #[test]
    fn who_said_an_error_first_is_the_cause_if_all_did() {
        let ends = [(0, Exited(1)), (1, Exited(2)), (2, Exited(3))];
        assert_eq!(cause_of(&ends, &[Some(8), Some(6), Some(7)]), Some(1));
        assert_eq!(cause_of(&[], &[]), None);
    }

    #[test]
    fn it_says_who_and_what_and_the_code() {
        let tail = Tail { lines: ["a".to_owned(), "b".to_owned()].into(), error: None };
        let told = lines("worker 1", &failed(&[(1, Exited(7))])[0], &tail, 7);
        assert_eq!(
            told,
            [
                "the job failed because of worker 1, which ended with exit code 7 after 3.0 s",
                "worker 1 said last: a",
                "worker 1 said last: b",
                "exit code 7",
            ]
        );
        let nothing = lines("server 0", &failed(&[(0, Exited(1))])[0], &Tail::default(), 1);
        assert_eq!(nothing[1], "server 0 said nothing");
    }
}
