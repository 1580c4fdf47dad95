//! Seeds of all scenarios, and proof that the oracle sees what it has to see.

use super::*;

fn check(seed: u64, scenario: Scenario) {
    let fixed = Fixed { scenario: Some(scenario), ..Fixed::default() };
    let report = run(&job(seed, &fixed));
    assert!(
        report.is_right(),
        "seed {seed} of {}: {}",
        scenario.name(),
        report.ledger.faults().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn calm() {
    (0..20).for_each(|seed| check(seed, Scenario::Calm));
}
