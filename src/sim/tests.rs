//! Whole jobs over many seeds, and proof that the oracle sees what it has to see.

use std::time::Duration;

use super::*;
use pslite_core::random::Random;

/// A small job whose size the seed decides: up to three workers and two servers.
fn job(seed: u64) -> JobConfig {
    JobConfig::new(seed, 1 + (seed % 3) as usize, 1 + (seed / 3 % 2) as usize)
}

/// Results that the workers of a whole job look at.
pub(super) fn results(config: &JobConfig) -> u64 {
    let keys =
        config.program.small_tensors + usize::from(config.program.wide_tensor) * 2 * config.servers;
    (config.workers * keys) as u64 * config.program.rounds
}

/// The job ended well, and every worker saw every result.
pub(super) fn check_complete(config: &JobConfig, report: &Report) {
    let seed = config.seed;
    assert_eq!(report.ledger.faults(), [""; 0], "seed {seed}");
    assert_eq!(report.outcome(), Outcome::Completed, "seed {seed}: {:?}", report.ends);
    assert_eq!(report.ledger.checked(), results(config), "seed {seed}");
}

#[test]
fn jobs_without_faults_complete() {
    for seed in 0..200 {
        let config = job(seed);
        let report = run(&config);
        check_complete(&config, &report);
    }
}

#[test]
fn a_bad_network_counts_every_push_once() {
    for seed in 0..100 {
        let config = bad_network(seed);
        let report = run(&config);
        check_complete(&config, &report);
    }
}

fn bad_network(seed: u64) -> JobConfig {
    let mut config = job(seed);
    config.network = NetworkConfig { loss: 30, repeat: 20, reorder: true, ..config.network };
    config.resend = Some(Duration::from_millis(100));
    config
}

/// One node was told other counts: nobody trains, and nobody waits. Also those hear it that start
/// when the scheduler knows it already.
#[test]
fn counts_that_differ_end_the_job_everywhere_before_it_begins() {
    for seed in 0..100 {
        let mut config = job(seed);
        config.start_spread = Duration::from_secs(seed % 4);
        let misled = (seed % config.processes() as u64) as usize;
        config.misled = Some((misled, config.workers + 1));
        let report = run(&config);
        let addresses = [&report.addresses[misled], "DMLC_NUM_WORKER is "];
        for (process, end) in report.ends.iter().enumerate() {
            let End::Failed(text) = end else {
                panic!("seed {seed}: process {process}, {misled} is misled: {end:?}");
            };
            assert!(addresses.iter().all(|part| text.contains(*part)), "seed {seed}: {text}");
        }
        assert_eq!(report.ledger.checked(), 0, "seed {seed}");
    }
}

/// A cut that is shorter than the limit costs what was under way, and the resender brings it back.
#[test]
fn short_cuts_cost_nothing() {
    for seed in 0..40 {
        let mut config = job(seed);
        config.resend = Some(Duration::from_millis(100));
        config.program.rounds = 6;
        let mut random = Random::new(seed);
        for _ in 0..3 {
            let pair = (
                random.below(config.processes() as u64),
                1 + random.below(config.processes() as u64 - 1),
            );
            let (a, b) = (pair.0 as usize, pair.1 as usize);
            let at = Duration::from_millis(25) + random.time(Duration::from_millis(100));
            let length = random.time(Duration::from_millis(2500));
            config.faults.extend([(at, Fault::Cut(a, b)), (at + length, Fault::Mend(a, b))]);
        }
        let report = run(&config);
        check_complete(&config, &report);
    }
}

#[test]
fn a_seed_decides_every_byte() {
    for seed in 0..10 {
        let config = JobConfig { keep_trace: true, ..bad_network(seed) };
        let (first, again) = (run(&config).trace, run(&config).trace);
        assert!(first.lines() > 100 && first.text().is_some(), "seed {seed}");
        assert_eq!(first.text(), again.text(), "seed {seed}");
        assert_eq!(first.hash(), again.hash(), "seed {seed}");
        let other = run(&JobConfig { seed: seed + 1000, ..config }).trace;
        assert_ne!((first.hash(), first.text()), (other.hash(), other.text()), "seed {seed}");
    }
}

/// The faults do happen, as often as they should.
#[test]
fn a_bad_network_is_bad() {
    let report = run(&bad_network(5));
    let (lost, repeated) = report.faults;
    assert!(lost > 50 && repeated > 30, "{lost} lost, {repeated} repeated");
    let good = run(&job(5));
    assert_eq!(good.faults, (0, 0));
}

/// With a resender that delivers repetitions some push is counted twice, and the ledger says so.
#[test]
fn planted_repetitions_are_caught() {
    let mut caught = 0;
    for seed in 0..30 {
        let config = JobConfig {
            plant: Some(Plant::DeliverRepetitions),
            time_max: Duration::from_secs(20),
            ..bad_network(seed * 3 + 1)
        };
        let report = run(&config);
        let twice = report.ledger.faults().iter().any(|text| text.contains("counted"));
        caught += usize::from(twice);
    }
    assert!(caught >= 28, "{caught} of 30");
}

#[test]
fn a_planted_forgotten_push_is_caught() {
    for seed in 0..30 {
        let plant = Some(Plant::ForgetPush(1 + seed % 4));
        let report = run(&JobConfig { plant, ..job(seed) });
        assert!(!report.ledger.faults().is_empty(), "seed {seed}");
        assert!(report.ledger.faults()[0].contains("0"), "{:?}", report.ledger.faults());
    }
}

/// Without the resender a bad network does not give a whole job: the tests above need it.
#[test]
fn a_bad_network_without_the_resender_is_no_good() {
    let mut whole = 0;
    for seed in 0..20 {
        let mut config = JobConfig { resend: None, ..bad_network(seed) };
        config.time_max = Duration::from_secs(60);
        let report = run(&config);
        whole += usize::from(
            report.outcome() == Outcome::Completed && report.ledger.faults().is_empty(),
        );
    }
    assert_eq!(whole, 0);
}

#[test]
fn a_job_that_has_too_many_steps_hangs() {
    let config = JobConfig { steps_max: 50, ..job(1) };
    let report = run(&config);
    assert_eq!((report.outcome(), report.steps), (Outcome::Hung, 50));
}

/// Who ends without waiting for confirmations takes the release of the exit barrier with it, if
/// that was lost: [`JobConfig::drain`] is needed.
#[test]
fn without_a_drain_the_end_of_a_job_can_be_lost() {
    let lost = (0..30).filter(|seed| {
        let report = run(&JobConfig { drain: false, ..bad_network(*seed) });
        assert_eq!(report.ledger.faults(), [""; 0], "seed {seed}");
        report.outcome() == Outcome::Failed
    });
    assert!(lost.count() > 5);
}
