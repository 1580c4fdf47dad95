//! Jobs whose trees are planned by what links between sites carry, and the mistakes that such jobs
//! show.

use super::*;

/// Jobs that every run of the tests plays; `PSLITE_TEST_SEEDS` and `PSLITE_TEST_SEED` say how many
/// if they are to be others, and which is the first.
const SEEDS: u64 = 8;

/// Mistakes, each with a job that shows it.
pub(super) const MISPLANTED: [(Plant, u64); 10] = [
    (Plant::AnswersLost, 2),
    (Plant::LinksUnheard, 2),
    (Plant::LinksSwapped, 2),
    (Plant::WeightsEven, 2),
    (Plant::WaysSwapped, 2),
    (Plant::TreesForgotten, 2),
    (Plant::TrainsNotSeen, 2),
    (Plant::HopsTwice, 2),
    (Plant::ProbesForgotten, 31),
    (Plant::ClassesForgotten, 2),
];

fn of_seed(seed: u64) -> JobConfig {
    job(seed, &Fixed { scenario: Some(Scenario::Sites), ..Fixed::default() })
}

fn faults(report: &JobReport) -> Vec<String> {
    report.ledger.faults().iter().map(ToString::to_string).collect()
}

/// Nodes measure links, and the planner plants trees by what they say.
#[test]
fn seeds_with_sites() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("PSLITE_TEST_SEED").unwrap_or(0);
    let seeds = number("PSLITE_TEST_SEEDS").unwrap_or(SEEDS);
    let (mut found, mut plans, mut iterations) = (Vec::new(), 0, 0);
    for seed in first..first + seeds {
        let report = run(&of_seed(seed));
        if !report.is_right() {
            let again = format!("again: pslite sim --trace --seed {seed} --scenario sites");
            found.extend([faults(&report).join("\n"), again]);
        }
        let planted = report.ledger.plans_and_iterations();
        (plans, iterations) = (plans + planted.0, iterations + planted.1);
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(plans > seeds as usize, "{plans} changes of trees in {seeds} jobs");
    assert!(iterations > 15 * seeds as usize, "{iterations} iterations in {seeds} jobs");
}

fn are_caught(misplanted: &[(Plant, u64)]) {
    let mut right = std::collections::BTreeSet::new();
    for (plant, seed) in misplanted.iter().copied() {
        let report = run(&JobConfig { plant: Some(plant), ..of_seed(seed) });
        let planted = |fault: &Found| fault.invariant == Invariant::Planted;
        assert!(report.ledger.faults().iter().any(planted), "{plant:?} is not found in {seed}");
        // It is the mistake that was found.
        if right.insert(seed) {
            assert_eq!(faults(&run(&of_seed(seed))), [""; 0]);
        }
    }
}

#[test]
fn planted_mistakes_of_planting_first_part() {
    are_caught(&MISPLANTED[..5]);
}

#[test]
fn planted_mistakes_of_planting_second_part() {
    are_caught(&MISPLANTED[5..]);
}
