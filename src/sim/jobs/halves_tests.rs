//! Jobs with tensors in float16, which no scenario draws: with what optimizers keep in float32, and
//! without. Each pull brings what one undisturbed server would have given, to the bit.

use super::*;

/// Seeds of each scenario.
const SEEDS: u64 = 12;

/// That job with one tensor more; none if its values count pushes, for which a half has too few
/// bits.
fn with_halves(seed: u64, scenario: Scenario, multi_precision: bool) -> Option<JobConfig> {
    let mut config = job(seed, &Fixed { scenario: Some(scenario), ..Fixed::default() });
    config.tensors.halves = Some([16, 100, 64, 1][seed as usize % 4]);
    config.program.multi_precision = multi_precision;
    (!config.counts()).then_some(config)
}

fn play_all(multi_precision: bool) {
    let scenarios = [
        Scenario::Moves,
        Scenario::Joins,
        Scenario::Drains,
        Scenario::Deaths,
        Scenario::Restarts,
        Scenario::FalseDeaths,
        Scenario::Trees,
        Scenario::Storm,
    ];
    let mut played = 0;
    for scenario in scenarios {
        for seed in 0..SEEDS {
            let Some(config) = with_halves(seed, scenario, multi_precision) else { continue };
            let report = run(&config);
            let faults = report.ledger.faults();
            assert!(report.is_right(), "seed {seed} of {}: {faults:#?}", scenario.name());
            played += 1;
        }
    }
    assert!(played > 50, "only {played} jobs");
}

#[test]
fn halves_that_are_updated_as_halves() {
    play_all(false);
}

#[test]
fn halves_with_a_master_copy() {
    play_all(true);
}
