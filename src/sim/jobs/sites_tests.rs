//! Jobs whose trees are planned by what links between sites carry, and the mistakes that such jobs
//! show.

use super::tests::are_caught;
use super::*;

/// Jobs that every run of the tests plays; `PSLITE_TEST_SEEDS` and `PSLITE_TEST_SEED` say how many
/// if they are to be others, and which is the first.
const SEEDS: u64 = 8;

/// Mistakes, each with a job that shows it.
pub(super) const MISPLANTED: [(Plant, Fixed, u64); 10] = [
    (Plant::AnswersLost, SITES, 2),
    (Plant::LinksUnheard, SITES, 2),
    (Plant::LinksSwapped, SITES, 2),
    (Plant::WeightsEven, SITES, 2),
    (Plant::WaysSwapped, SITES, 2),
    (Plant::TreesForgotten, SITES, 2),
    (Plant::TrainsNotSeen, SITES, 2),
    (Plant::HopsTwice, SITES, 2),
    (Plant::ProbesForgotten, SITES, 31),
    (Plant::ClassesForgotten, SITES, 2),
];

/// A job of sites, of a size that the seed decides.
const SITES: Fixed = Fixed {
    scenario: Some(Scenario::Sites),
    workers: None,
    servers: None,
    keys: None,
    second_customer: None,
};

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
        let report = run(&job(seed, &SITES));
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

#[test]
fn planted_mistakes_of_planting_first_part() {
    are_caught(&MISPLANTED[..5], Invariant::Planted);
}

#[test]
fn planted_mistakes_of_planting_second_part() {
    are_caught(&MISPLANTED[5..], Invariant::Planted);
}
