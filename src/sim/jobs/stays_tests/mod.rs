//! Whole jobs whose keys stay where they are, over many seeds, and proof that the oracle sees what
//! it has to see.

mod deaths;
mod pauses;

use std::time::Duration;

use super::*;
use crate::{End, NetworkConfig};
use pslite_core::random::Random;
use pslite_core::store::SumOrder;
use pslite_core::values::server_key_ranges;

/// Mistakes that only jobs show whose keys stay; tests below plant them.
pub(super) const PLANTED: [Plant; 5] = [
    Plant::RepetitionsDelivered,
    Plant::PushesForgotten,
    Plant::BreaksNotSeen,
    Plant::PlacesFreed,
    Plant::LostAnswered,
];

/// Rounds of a job.
const ROUNDS: u64 = 3;

/// A job of so many nodes in which nothing goes wrong. The seed decides what is trained.
fn still(seed: u64, workers: usize, servers: usize) -> JobConfig {
    let rule = [None, Some(ServerRule::Momentum { rate: 0.25, momentum: 0.5 })];
    let rule = rule[seed as usize % 2];
    JobConfig {
        seed,
        workers,
        servers,
        joiners: 0,
        replicas: 0,
        order: SumOrder::Ranks,
        program: Program {
            sync: true,
            rounds: ROUNDS,
            rule,
            second_rule: rule.map(|_| ServerRule::Adam { rate: 0.01 }),
            multi_precision: false,
            compressed: seed.is_multiple_of(3),
            second_customer: seed
                .is_multiple_of(5)
                .then_some(SecondCustomer { rule: Some(ServerRule::Sgd { rate: 0.5 }) }),
        },
        tensors: Tensors {
            dense: vec![3, 100],
            cut: Some(64),
            halves: None,
            two_bit: seed.is_multiple_of(3).then_some(50),
            rows: seed.is_multiple_of(4).then_some((6, 4)),
            empty_pushes: true,
            both: true,
            // Nothing says which of two pushes was the first: MXNet's workers have one under way.
            pipelined: false,
        },
        compute: Duration::from_millis(5),
        pulls: 100,
        network: NetworkConfig::default(),
        edges: Vec::new(),
        native: false,
        resend: None,
        move_every: None,
        trees: None,
        drains: Vec::new(),
        elastic_workers: false,
        sessions: None,
        exchange: None,
        placement: None,
        sites: None,
        stays: Some(Stays::default()),
        start_spread: Duration::from_millis(20),
        journal: false,
        faults: Vec::new(),
        heal: Duration::MAX,
        mild: false,
        may_fail: false,
        plant: None,
        time_max: Duration::from_secs(300),
        steps_max: 1_000_000,
        keep_trace: false,
    }
}

/// A small job whose size the seed decides: up to three workers and two servers.
fn job(seed: u64) -> JobConfig {
    still(seed, 1 + (seed % 3) as usize, 1 + (seed / 3 % 2) as usize)
}

/// The limits of a job whose keys stay.
fn stays(config: &mut JobConfig) -> &mut Stays {
    config.stays.get_or_insert_default()
}

fn tensors(config: &JobConfig) -> u64 {
    let ranges = server_key_ranges(config.servers);
    config.tensors.make(&ranges, config.program.customers()).len() as u64
}

/// Values that the workers of a whole job look at: after each round, and at the end.
fn results(config: &JobConfig) -> u64 {
    config.workers as u64 * tensors(config) * (config.program.rounds + 1)
}

/// What the oracle found.
fn found(report: &JobReport) -> Vec<String> {
    report.ledger.faults().iter().map(ToString::to_string).collect()
}

/// The job ended well, and every worker saw every result.
fn check_complete(config: &JobConfig, report: &JobReport) {
    let seed = config.seed;
    assert_eq!(found(report), [""; 0], "seed {seed}");
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
        config.may_fail = true;
        config.start_spread = Duration::from_secs(seed % 4);
        let misled = (seed % config.processes() as u64) as usize;
        stays(&mut config).misled = Some((misled, config.workers + 1));
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
            plant: Some(Plant::RepetitionsDelivered),
            time_max: Duration::from_secs(20),
            ..bad_network(seed * 3 + 1)
        };
        let report = run(&config);
        let wrong = report.ledger.faults().iter();
        caught += usize::from(wrong.clone().any(|fault| fault.invariant == Invariant::Version));
    }
    assert!(caught >= 28, "{caught} of 30");
}

#[test]
fn planted_forgotten_pushes_are_caught() {
    for seed in 0..30 {
        let report = run(&JobConfig { plant: Some(Plant::PushesForgotten), ..job(seed) });
        let wrong = |fault: &Found| fault.invariant == Invariant::Version;
        assert!(report.ledger.faults().iter().any(wrong), "seed {seed}");
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
        whole += usize::from(report.outcome() == Outcome::Completed && report.is_right());
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
/// that was lost: nodes wait for what they sent.
#[test]
fn without_a_drain_the_end_of_a_job_can_be_lost() {
    let lost = (0..30).filter(|seed| {
        let mut config = JobConfig { may_fail: true, ..bad_network(*seed) };
        stays(&mut config).hurries = true;
        let report = run(&config);
        assert_eq!(found(&report), [""; 0], "seed {seed}");
        report.outcome() == Outcome::Failed
    });
    assert!(lost.count() > 5);
}
