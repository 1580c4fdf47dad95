//! Jobs in which somebody dies, leaves or comes back: nobody hangs, and everybody says who it was.

use std::time::Duration;

use super::*;
use crate::jobs::nodes::role;
use crate::network::LinkModel;
use pslite_core::random::Random;
use pslite_core::wire::Role;
use pslite_core::wire::balance::BalanceRule;

/// Jobs in which a worker is replaced.
const REPLACED_SEEDS: u64 = 60;
/// When all are surely in the middle of training.
const MET: Duration = Duration::from_millis(600);

/// The reason of each survivor's end; fails if one has none, or one that does not name the dead.
fn check_named(config: &JobConfig, report: &JobReport, victim: usize) {
    let seed = config.seed;
    assert_eq!(found(report), [""; 0], "seed {seed}");
    let address = &report.addresses[victim];
    let missing = format!("missing: 1 {}(s)", role(config, victim).name());
    for (process, end) in report.ends.iter().enumerate().filter(|(p, _)| *p != victim) {
        let End::Failed(text) = end else {
            panic!("seed {seed}: p{process} {end:?} after the death of p{victim} {address}")
        };
        // One that died before it registered has no address that anybody knows.
        let named = text.contains(address) || (!report.known[victim] && text.contains(&missing));
        assert!(named, "seed {seed}: p{process} of p{victim} {address}: {text}");
    }
}

/// A job of a second or so, in which one dies at a moment of chance.
fn deadly(seed: u64, victim: Role, fault: fn(usize) -> Fault) -> (JobConfig, usize) {
    let mut random = Random::new(seed ^ 0xDEAD);
    let mut config = job(seed);
    config.may_fail = true;
    config.program.rounds = 40;
    config.compute = Duration::from_millis(60);
    stays(&mut config).start_timeout = Some(Duration::from_secs(20));
    let candidates: Vec<usize> =
        (0..config.processes()).filter(|p| role(&config, *p) == victim).collect();
    let victim = candidates[random.below(candidates.len() as u64) as usize];
    let at = config.start_spread + random.time(Duration::from_millis(500));
    config.faults = vec![(at, fault(victim))];
    (config, victim)
}

#[test]
fn a_crash_ends_everybody_with_the_name_of_the_dead() {
    for role in [Role::Scheduler, Role::Server, Role::Worker] {
        for seed in 0..40 {
            let (config, victim) = deadly(seed, role, Fault::Crash);
            let report = run(&config);
            assert_eq!(report.ends[victim], End::Killed, "seed {seed}");
            check_named(&config, &report, victim);
        }
    }
}

#[test]
fn a_host_that_vanishes_ends_everybody_with_its_name() {
    for role in [Role::Scheduler, Role::Server, Role::Worker] {
        for seed in 0..30 {
            let (config, victim) = deadly(seed, role, Fault::Vanish);
            let report = run(&config);
            assert_eq!(report.ends[victim], End::Killed, "seed {seed}");
            check_named(&config, &report, victim);
        }
    }
}

#[test]
fn one_who_leaves_without_its_push_is_named_to_the_others() {
    for seed in 0..60 {
        let mut config = still(seed, 2 + (seed % 3) as usize, 1 + (seed / 3 % 2) as usize);
        config.may_fail = true;
        config.program.second_rule = None; // Nobody waits for anything but pushes.
        let rank = (seed % 2) as usize;
        stays(&mut config).leaves = Some((rank, seed % 3));
        let report = run(&config);
        assert_eq!(found(&report), [""; 0], "seed {seed}");
        // Ranks follow the ports, and so the processes.
        let leaver = 1 + config.servers + rank;
        let mut told = 0;
        for (process, end) in report.ends.iter().enumerate().filter(|(p, _)| *p != leaver) {
            let End::Failed(text) = end else { panic!("seed {seed}: p{process} {end:?}") };
            if role(&config, process) == Role::Worker {
                let named = text.contains(&report.addresses[leaver])
                    && text.contains("left without the push");
                assert!(named, "seed {seed}: p{process}: {text}");
                told += 1;
            }
        }
        assert_eq!(told, config.workers - 1);
        assert_ne!(report.ends[leaver], End::Running, "seed {seed}");
    }
}

/// A job in which a worker dies and its host starts another one: after the others were in the job,
/// and before or after they missed the dead one.
fn replaced(seed: u64) -> JobConfig {
    let (mut config, victim) = deadly(seed, Role::Worker, Fault::Crash);
    config.program.second_rule = None; // Who comes back knows no place where the others met.
    config.tensors.cut = None; // Its values say one round, not one for each server.
    stays(&mut config).heartbeat_timeout = Some(Duration::from_secs(8));
    let died = config.faults[0].0 + MET;
    let pause = Duration::from_millis(if seed.is_multiple_of(2) { 50 } else { 5000 });
    config.faults = vec![(died, Fault::Crash(victim)), (died + pause, Fault::Start(victim))];
    config.network.jitter = Duration::from_millis([1, 5, 20][seed as usize / 2 % 3]);
    if seed % 4 == 1 {
        // The first server hears of it long after it has asked.
        let latency = Duration::from_millis(100);
        config.edges = vec![(0, 1, LinkModel { rate: None, latency, jitter: Duration::ZERO })];
    }
    config
}

/// It goes on where the job is.
#[test]
fn a_worker_that_is_started_again_finishes_the_job() {
    for seed in 0..REPLACED_SEEDS {
        let config = replaced(seed);
        let report = run(&config);
        assert_eq!(found(&report), [""; 0], "seed {seed}");
        assert_eq!(report.outcome(), Outcome::Completed, "seed {seed}: {:?}", report.ends);
        // The dead one may not have looked at what it had pushed.
        assert!(report.ledger.checked() + 2 * tensors(&config) >= results(&config), "seed {seed}");
    }
}

/// It asks a server that has not heard of it yet.
#[test]
fn a_planted_answer_to_a_lost_node_is_a_hang() {
    let hangs = |seed: &u64| {
        let config = JobConfig { plant: Some(Plant::LostAnswered), ..replaced(*seed) };
        run(&config).outcome() == Outcome::Hung
    };
    let hung = (0..REPLACED_SEEDS).filter(hangs).count();
    assert!(hung > 5, "{hung} of {REPLACED_SEEDS}");
}

/// A job whose rounds are iterations of a batch session, and one of whose workers is replaced.
fn shared_job(seed: u64) -> JobConfig {
    let (mut config, victim) = deadly(seed, Role::Worker, Fault::Crash);
    // Where all meet in the middle rounds are not iterations of one session.
    config.program.second_rule = None;
    config.program.second_customer = None;
    config.tensors.cut = None;
    config.sessions = Some(Sessions {
        total: 24,
        ahead: (seed % 3) as u32,
        rule: BalanceRule::Cpu,
        reports: Reports::After,
        by_count: false,
    });
    stays(&mut config).heartbeat_timeout = Some(Duration::from_secs(8));
    let died = config.faults[0].0 + MET;
    let pause = Duration::from_millis(if seed.is_multiple_of(2) { 50 } else { 5000 });
    config.faults = vec![(died, Fault::Crash(victim)), (died + pause, Fault::Start(victim))];
    config
}

/// Rounds wait for who replaces a dead worker, and so does the lease of batches: it goes on with
/// those of the former one.
#[test]
fn batches_wait_for_a_worker_that_is_started_again() {
    for seed in 0..90 {
        let config = shared_job(seed);
        let report = run(&config);
        assert_eq!(found(&report), [""; 0], "seed {seed}");
        assert_eq!(report.outcome(), Outcome::Completed, "seed {seed}: {:?}", report.ends);
        assert!(report.ledger.batches().1 > 0, "seed {seed}: the new one takes none");
    }
}

#[test]
fn batches_that_do_not_wait_where_rounds_do_are_a_hang() {
    let mut wrong = 0;
    for seed in 0..20 {
        let config = JobConfig { plant: Some(Plant::PlacesFreed), ..shared_job(seed) };
        let report = run(&config);
        let fine = report.outcome() == Outcome::Completed && report.is_right();
        wrong += usize::from(!fine);
    }
    assert!(wrong > 5, "{wrong} of 20");
}

/// Without the values that were on it nobody can go on, but everybody ends.
#[test]
fn a_server_that_is_started_again_hangs_nobody() {
    for seed in 0..30 {
        let (mut config, victim) = deadly(seed, Role::Server, Fault::Crash);
        stays(&mut config).heartbeat_timeout = Some(Duration::from_secs(8));
        let died = config.faults[0].0 + MET;
        let pause = Duration::from_millis(if seed.is_multiple_of(2) { 50 } else { 5000 });
        config.faults = vec![(died, Fault::Crash(victim)), (died + pause, Fault::Start(victim))];
        let report = run(&config);
        assert_eq!(report.outcome(), Outcome::Failed, "seed {seed}: {:?}", report.ends);
        for (process, end) in report.ends.iter().enumerate() {
            let End::Failed(text) = end else { continue };
            assert!(text.contains("lost "), "seed {seed}: p{process}: {text}");
        }
    }
}

/// Deaths on a network that also loses a third of everything.
#[test]
fn a_crash_on_a_bad_network_hangs_nobody() {
    for seed in 0..45 {
        let role = [Role::Scheduler, Role::Server, Role::Worker][seed as usize % 3];
        let (mut config, victim) = deadly(seed, role, Fault::Crash);
        config.network = NetworkConfig { loss: 30, repeat: 20, reorder: true, ..config.network };
        config.resend = Some(Duration::from_millis(100));
        let report = run(&config);
        assert_eq!(report.ends[victim], End::Killed, "seed {seed}");
        check_named(&config, &report, victim);
    }
}

/// The oracle of hangs is not blind.
#[test]
fn planted_blindness_for_broken_channels_is_a_hang() {
    let mut hung = 0;
    for seed in 0..10 {
        let (mut config, _) = deadly(seed, Role::Worker, Fault::Crash);
        config.plant = Some(Plant::BreaksNotSeen);
        // Before silence is noticed.
        config.time_max = Duration::from_secs(9);
        hung += usize::from(run(&config).outcome() == Outcome::Hung);
    }
    assert_eq!(hung, 10);
}
