//! What is learnt of servers from the times of workers.

use std::time::Duration;

use super::*;
use crate::placement::tests::jobs::normal;
use crate::random::Random;

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn seen(times: &[f64]) -> Vec<Seen> {
    let seen = |(rank, seconds): (usize, &f64)| Seen {
        server: crate::wire::server_id(rank),
        seconds: *seconds,
        expected: 1.0,
        at_least: 0.0,
    };
    times.iter().enumerate().map(seen).collect()
}

#[test]
fn a_straggler_is_slow_twice_in_a_row() {
    let mut stragglers = Stragglers::new(StragglerParameters::default());
    let named = |stragglers: &Stragglers| stragglers.stragglers().collect::<Vec<_>>();
    for times in [[1.0, 1.0, 1.0, 2.0], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 2.0]] {
        stragglers.observe(at(1), &seen(&times));
        assert!(named(&stragglers).is_empty());
        assert_eq!(stragglers.correction(14, at(1)), Correction::NONE);
    }
    stragglers.observe(at(2), &seen(&[1.0, 1.0, 1.0, 2.0]));
    assert_eq!(named(&stragglers), [14]);
    assert!(stragglers.correction(14, at(2)).slowdown > 1.5);
    // It stays corrected while it is slower than its card says, straggler or not.
    stragglers.observe(
        at(3),
        &[seen(&[1.0; 3]), vec![Seen { expected: 0.5, ..seen(&[1.0; 4])[3] }]].concat(),
    );
    assert!(named(&stragglers).is_empty());
    assert!(stragglers.correction(14, at(3)).slowdown > 1.5);
    for second in 4..20 {
        stragglers.observe(at(second), &seen(&[1.0; 4]));
    }
    assert_eq!(stragglers.correction(14, at(20)), Correction::NONE);
}

/// With copies: the slow server of two owns little and is soon done with that; what its card has
/// to do are the copies of the other one.
#[test]
fn who_is_early_makes_nobody_slow() {
    for (by_cards, slow) in [(true, false), (false, true)] {
        let mut stragglers = Stragglers::new(StragglerParameters::default());
        for second in 0..10 {
            let times = [(8, 4.1, 3.6), (10, 0.4, 2.9)].map(|(server, seconds, expected)| {
                let at_least = if by_cards { expected } else { 0.0 };
                Seen { server, seconds, expected, at_least }
            });
            stragglers.observe(at(second), &times);
        }
        assert_eq!(stragglers.correction(8, at(10)).slowdown > 2.0, slow);
        assert_eq!(stragglers.seconds(10), Some(0.4), "shown as it is");
    }
}

#[test]
fn noise_is_no_straggler() {
    let mut chance = Random::new(5);
    let mut stragglers = Stragglers::new(StragglerParameters::default());
    for second in 0..500 {
        let times: Vec<f64> = (0..8).map(|_| 1.0 + 0.04 * normal(&mut chance)).collect();
        stragglers.observe(at(second), &seen(&times));
        assert_eq!(stragglers.stragglers().count(), 0);
    }
    assert!(stragglers.exploration() < 1e-6, "curiosity goes while all is well");
}

#[test]
fn what_is_not_seen_any_more_fades() {
    let mut stragglers = Stragglers::new(StragglerParameters::default());
    for second in 0..5 {
        stragglers.observe(at(second), &seen(&[1.0, 1.0, 1.0, 4.0]));
    }
    let slowdown = |second| stragglers.correction(14, at(second)).slowdown;
    assert!((slowdown(5) - 4.0).abs() < 0.2 && slowdown(30) == slowdown(5));
    assert!((slowdown(4 + 30 + 60) - 2.0).abs() < 0.1, "{}", slowdown(94));
    assert!(slowdown(3600) < 1.01);
}

/// Times that are the same for all are the workers' own.
#[test]
fn what_all_have_is_no_fault() {
    let mut stragglers = Stragglers::new(StragglerParameters::default());
    for second in 0..9 {
        stragglers.observe(at(second), &seen(&[7.0, 7.0, 7.0, 14.0]));
    }
    assert!((stragglers.correction(14, at(9)).slowdown - 2.0).abs() < 0.05);
    assert_eq!(stragglers.correction(8, at(9)), Correction::NONE);
}

#[test]
fn experiments_are_rare_and_only_with_what_is_odd() {
    let mut stragglers = Stragglers::new(StragglerParameters::default());
    let mut chance = Random::new(9);
    let count = |stragglers: &Stragglers, chance: &mut Random| {
        (0..2000).filter(|_| !stragglers.explore(&mut || chance.unit()).is_empty()).count()
    };
    for second in 0..4 {
        stragglers.observe(at(second), &seen(&[1.0, 1.0, 1.0, 2.0]));
    }
    assert_eq!(count(&stragglers, &mut chance), 0, "all is as predicted");
    stragglers.observe(at(5), &seen(&[1.0, 1.0, 1.0, 2.8]));
    let often = count(&stragglers, &mut chance);
    assert!((50..150).contains(&often), "{often} of 2000");
    stragglers.failed();
    let rarer = count(&stragglers, &mut chance);
    assert!((20..80).contains(&rarer), "{rarer} of 2000");
    let tried = stragglers.explore(&mut || 0.0);
    assert_eq!(tried.keys().copied().collect::<Vec<_>>(), [14]);
}

fn report(worker: NodeId, rounds: (u64, u64), times: &[(NodeId, f64)]) -> WorkerReport {
    let servers =
        times.iter().map(|(server, seconds)| ServerTime { server: *server, seconds: *seconds });
    let (first_round, last_round) = rounds;
    let servers = servers.collect();
    WorkerReport { worker, first_round, last_round, round_seconds: 2.0, iteration: None, servers }
}

/// A worker whose iteration takes `seconds`, of which it computes.
fn computes(worker: NodeId, seconds: f64, computing: f64) -> WorkerReport {
    let iteration = Some(IterationTime { seconds, computing });
    let round_seconds = seconds - computing;
    WorkerReport { iteration, round_seconds, ..report(worker, (0, 4), &[(8, round_seconds)]) }
}

const NOBODY: [i32; 0] = [];

/// Who is slow among workers with such iterations, by rank.
fn slow(iterations: &[(f64, f64)]) -> Vec<i32> {
    let mut times = Times::default();
    for (rank, (seconds, computing)) in (0..).zip(iterations) {
        times.report(computes(crate::wire::worker_id(rank), *seconds, *computing));
    }
    times.slow_workers().iter().map(|slow| crate::wire::id_to_rank(slow.worker)).collect()
}

#[test]
fn who_computes_longer_than_the_others_holds_them_up() {
    assert_eq!(slow(&[(0.233, 0.01), (0.233, 0.22)]), [1], "the fast one waits longer");
    assert_eq!(slow(&[(0.2, 0.18), (0.2, 0.01), (0.21, 0.02)]), [0]);
    assert_eq!(slow(&[(0.2, 0.18), (0.2, 0.01), (0.2, 0.02), (0.2, 0.17)]), [0, 3]);
    assert_eq!(slow(&[(0.2, 0.18), (0.2, 0.16), (0.2, 0.17)]), NOBODY, "nobody waits for anybody");
    assert_eq!(slow(&[(1.0, 0.02), (1.0, 0.01)]), NOBODY, "the network holds all of them up");
    assert_eq!(slow(&[(0.03, 0.01), (0.3, 0.28)]), NOBODY, "dist_async: nobody waits");
    assert_eq!(slow(&[(0.233, 0.22)]), NOBODY, "there are no others");
    for nonsense in [(f64::NAN, 0.1), (0.2, f64::NAN), (0.2, 0.3), (0.2, -0.1), (0.0, 0.0)] {
        assert_eq!(slow(&[(0.2, 0.01), nonsense]), NOBODY, "{nonsense:?}");
    }
}

#[test]
fn the_round_of_the_slowest_worker_is_what_the_network_takes() {
    let mut times = Times::default();
    times.report(computes(9, 0.233, 0.01));
    times.report(computes(11, 0.233, 0.22));
    let least = times.least_round_seconds(0).unwrap();
    assert!((least - 0.013).abs() < 1e-9, "{least}");
    assert_eq!(times.least_round_seconds(1), None);
}

#[test]
fn the_median_over_workers_counts() {
    let mut times = Times::default();
    assert!(!times.is_news(3));
    times.report(report(9, (0, 4), &[(8, 1.0), (10, 2.0)]));
    times.report(report(11, (0, 4), &[(8, 1.1), (10, 2.2)]));
    times.report(report(13, (0, 4), &[(8, 9.0), (10, 9.0)]));
    assert!(times.is_news(3) && !times.is_news(3));
    let seconds = times.server_seconds(0);
    assert_eq!((seconds[&8], seconds[&10]), (1.1, 2.2));
    assert_eq!((times.newest_round(), times.rounds_since(0), times.rounds_since(1)), (4, 5, 0));
    assert!(times.server_seconds(1).is_empty(), "all rounds are from before");
    times.forget(13);
    assert!((times.server_seconds(0)[&8] - 1.05).abs() < 1e-9);
}

#[test]
fn a_profile_reports_medians() {
    let mut profile = Profile::new(9);
    let time = |seconds| [ServerTime { server: 8, seconds }];
    let mut reports = Vec::new();
    for (number, seconds) in (0..).zip([1.0, 1.2, 9.0, 1.1, 1.0, 2.0, 2.0]) {
        let servers = &time(seconds);
        let iteration = Some(IterationTime { seconds: 2.0 * seconds, computing: seconds });
        let round = TimedRound { number, begun: at(number), seconds, iteration, servers };
        reports.extend(profile.round(at(number), &round));
    }
    assert_eq!(reports.len(), 1);
    assert_eq!((reports[0].first_round, reports[0].last_round), (0, 4));
    assert_eq!((reports[0].round_seconds, reports[0].servers[0].seconds), (1.1, 1.1));
    assert_eq!(reports[0].iteration, Some(IterationTime { seconds: 2.2, computing: 1.1 }));
    // Long rounds do not wait for five of them; those before a switch, and the one in which it
    // came, do not count.
    profile.switched(at(8));
    let servers = &time(4.0);
    let round = |number, begun| {
        let begun = at(begun);
        TimedRound { number, begun, seconds: 5.0, iteration: None, servers }
    };
    assert_eq!(profile.round(at(12), &round(7, 7)), None);
    let report = profile.round(at(17), &round(8, 12)).unwrap();
    assert_eq!((report.first_round, report.last_round, report.round_seconds), (8, 8, 5.0));
    assert_eq!(report.iteration, None, "what was before the switch does not count");
}
