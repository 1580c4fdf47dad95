//! Jobs that stand still: as a whole, which nobody may notice, or one process alone, which is as
//! good as dead. The limits are those of `nodes::cluster_config`: ten seconds of silence.

use std::time::Duration;

use super::*;
use crate::jobs::nodes::role;
use pslite_core::random::Random;
use pslite_core::wire::Role;

const SECOND: Duration = Duration::from_secs(1);
/// Silence that is suffered.
const SILENCE: Duration = Duration::from_secs(10);

/// A job of some seconds. The seed decides its size, and whether it resends, the dead may be
/// replaced, and the network is bad.
fn long(seed: u64) -> (JobConfig, Random) {
    let random = Random::new(seed ^ 0x57A9_D571);
    let mut config = job(seed);
    config.program.rounds = 120;
    config.compute = 100 * SECOND / 1000;
    stays(&mut config).start_timeout = Some(Duration::from_secs(20));
    stays(&mut config).heartbeat_timeout = (seed % 4 == 1).then_some(8 * SECOND);
    if seed % 5 == 2 {
        config.network = NetworkConfig { loss: 10, repeat: 10, reorder: true, ..config.network };
        config.resend = Some(SECOND / 10);
    }
    config.time_max = Duration::from_secs(2000);
    (config, random)
}

/// All processes stand still for that long, beginning about then; each begins and goes on up to
/// `apart` earlier or later than others.
fn stand_still(
    config: &mut JobConfig,
    random: &mut Random,
    at: Duration,
    time: Duration,
    apart: Duration,
) {
    for process in 0..config.processes() {
        let (early, late) = (random.time(apart), random.time(apart));
        config.faults.push((at + early, Fault::Pause(process, time + late - early)));
    }
}

#[test]
fn a_job_that_stood_still_as_a_whole_goes_on() {
    for seed in 0..60 {
        let (mut config, mut random) = long(seed);
        let at = SECOND / 10 + random.time(SECOND);
        let time = 10 * SECOND + random.time(300 * SECOND);
        stand_still(&mut config, &mut random, at, time, 4 * SECOND);
        let report = run(&config);
        check_complete(&config, &report);
        assert!(report.took > time, "seed {seed}: it ended before the pause did");
    }
}

/// Slices of time that a scheduler of jobs gives to several jobs in turn.
#[test]
fn a_job_that_stands_still_every_few_seconds_goes_on() {
    for seed in 0..40 {
        let (mut config, mut random) = long(seed);
        for slice in 0..6_u32 {
            let at = SECOND / 2 + slice * (Duration::from_secs(40) + SECOND);
            stand_still(&mut config, &mut random, at, Duration::from_secs(40), SECOND / 10);
        }
        check_complete(&config, &run(&config));
    }
}

#[test]
fn planted_clocks_that_do_not_stop_end_jobs() {
    let mut ended = 0;
    for seed in 0..30 {
        let (mut config, mut random) = long(seed);
        config.plant = Some(Plant::PausesCounted);
        stand_still(&mut config, &mut random, SECOND, 75 * SECOND, SECOND / 10);
        // In some what the others said before the pause is read in time.
        ended += usize::from(run(&config).outcome() == Outcome::Failed);
    }
    assert!(ended >= 20, "{ended} of 30");
}

/// Nobody can tell it from one that is dead, and it stays what it was.
#[test]
fn one_process_alone_that_stands_still_for_long_is_lost() {
    for seed in 0..60 {
        let (mut config, mut random) = long(seed);
        stays(&mut config).heartbeat_timeout = None;
        config.may_fail = true;
        let victim = random.below(config.processes() as u64) as usize;
        let at = SECOND / 2 + random.time(SECOND);
        config.faults.push((at, Fault::Pause(victim, SILENCE * 3)));
        let report = run(&config);
        assert_eq!(report.outcome(), Outcome::Failed, "seed {seed}: {:?}", report.ends);
        // A scheduler that goes on may find that all have left in order.
        for (process, end) in report.ends.iter().enumerate().filter(|(p, _)| *p != victim) {
            let End::Failed(text) = end else { panic!("seed {seed}: p{process} {end:?}") };
            let named = text.contains(&report.addresses[victim]);
            assert!(named, "seed {seed}: p{process} of p{victim}: {text}");
        }
    }
}

#[test]
fn one_process_alone_that_stands_still_for_less_is_not() {
    for seed in 0..30 {
        let (mut config, mut random) = long(seed);
        stays(&mut config).heartbeat_timeout = None;
        config.may_fail = true;
        let victim = random.below(config.processes() as u64) as usize;
        config.faults.push((SECOND, Fault::Pause(victim, SILENCE * 4 / 5)));
        check_complete(&config, &run(&config));
    }
}

/// A death is noticed though all that live are stopped again and again: silence counts on, over all
/// their pauses.
#[test]
fn the_dead_are_missed_by_those_who_are_stopped_again_and_again() {
    for seed in 0..30 {
        let (mut config, mut random) = long(seed);
        stays(&mut config).heartbeat_timeout = None;
        config.may_fail = true;
        let victims: Vec<usize> =
            (0..config.processes()).filter(|p| role(&config, *p) == Role::Worker).collect();
        let victim = victims[random.below(victims.len() as u64) as usize];
        config.faults.push((SECOND, Fault::Vanish(victim)));
        // Three seconds of each thirty they run.
        for slice in 0..12_u32 {
            let at = 2 * SECOND + slice * (30 * SECOND);
            stand_still(&mut config, &mut random, at, 27 * SECOND, SECOND / 10);
        }
        // Each slice and each pause count four seconds together, and silence is forgiven once.
        config.time_max = 2 * SECOND + 8 * (30 * SECOND);
        let report = run(&config);
        assert_eq!(report.outcome(), Outcome::Failed, "seed {seed}: {:?}", report.ends);
    }
}
