//! Seeds of all scenarios, and proof that the oracle sees what it has to see.

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::network::LinkModel;

/// Seeds that every run of the tests plays: about 20 of each scenario. `PSLITE_TEST_SEEDS` and
/// `PSLITE_TEST_SEED` say how many if they are to be others, and which is the first.
const SEEDS: u64 = 300;
/// Further seeds of jobs with trees.
const TREE_SEEDS: u64 = 60;
/// Further seeds of jobs whose workers exchange deltas.
const EXCHANGE_SEEDS: u64 = 200;
/// Jobs whose keys stay where they are.
const STAYS_SEEDS: u64 = 100;
/// Further seeds of jobs whose workers share batches.
const SESSION_SEEDS: u64 = 60;
/// Jobs whose keys are placed.
const PLACEMENT_SEEDS: u64 = 6;
/// Tests that share them.
const PARTS: u64 = 6;
/// A mistake shows in one of so many jobs.
const PLANTED_MAX: u64 = 60;

/// What is wrong with a seed's job, and the command that repeats it; `scenario` is that of the job
/// if it is not the seed's.
fn wrong(seed: u64, scenario: Option<Scenario>, config: &JobConfig) -> Option<String> {
    fault(seed, scenario, &run(config))
}

fn fault(seed: u64, scenario: Option<Scenario>, report: &JobReport) -> Option<String> {
    let faults: Vec<String> = report.ledger.faults().iter().map(ToString::to_string).collect();
    let named = scenario.map_or_else(String::new, |named| format!(" --scenario {}", named.name()));
    let again = format!("again: pslite sim --trace --seed {seed}{named}");
    (!report.is_right()).then(|| format!("{}\n  {again}", faults.join("\n")))
}

fn play(part: u64) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("PSLITE_TEST_SEED").unwrap_or(0);
    let all = first..first + number("PSLITE_TEST_SEEDS").unwrap_or(SEEDS);
    let seeds = all.filter(|seed| seed % PARTS == part);
    let found: Vec<String> =
        seeds.filter_map(|seed| wrong(seed, None, &job(seed, &Fixed::default()))).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Seeds by which something was found that is mended: pieces of a server that nobody had spoken of,
/// commands whose receivers all died, a scheduler that was started again after the end.
#[test]
fn seeds_that_were_wrong_once() {
    let known = [
        (2502, Scenario::Losses),
        (6257, Scenario::Storm),
        (11619, Scenario::Storm),
        (12077, Scenario::Restarts),
        (24623, Scenario::StockWire),
        (35948, Scenario::Scheduler),
        (100_416, Scenario::Losses),
        (104_382, Scenario::StockWire),
    ];
    let of = |scenario| Fixed { scenario: Some(scenario), ..Fixed::default() };
    let found: Vec<String> = known
        .into_iter()
        .filter_map(|(seed, scenario)| wrong(seed, Some(scenario), &job(seed, &of(scenario))))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Rounds go along trees that change, are lost and whose nodes die.
#[test]
fn seeds_with_trees() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("PSLITE_TEST_SEED").unwrap_or(0);
    let fixed = Fixed { scenario: Some(Scenario::Trees), ..Fixed::default() };
    let (mut found, mut opened) = (Vec::new(), 0);
    let seeds = number("PSLITE_TEST_SEEDS").unwrap_or(TREE_SEEDS);
    for seed in first..first + seeds {
        let report = run(&job(seed, &fixed));
        found.extend(fault(seed, fixed.scenario, &report));
        opened += report.ledger.opened();
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(opened > 100 * seeds, "{opened} sums in {seeds} jobs");
}

/// Keys stay where they are.
#[test]
fn seeds_of_jobs_whose_keys_stay() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("PSLITE_TEST_SEED").unwrap_or(0);
    let fixed = Fixed { scenario: Some(Scenario::Stays), ..Fixed::default() };
    let (mut found, mut ends) = (Vec::new(), BTreeSet::new());
    let seeds = number("PSLITE_TEST_SEEDS").unwrap_or(STAYS_SEEDS);
    for seed in first..first + seeds {
        let report = run(&job(seed, &fixed));
        found.extend(fault(seed, fixed.scenario, &report));
        ends.insert(report.outcome() == Outcome::Completed);
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert_eq!(ends.len(), 2, "some jobs are completed, and some fail");
}

/// Workers share batches, and die and come back meanwhile.
#[test]
fn seeds_with_sessions() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("PSLITE_TEST_SEED").unwrap_or(0);
    let fixed = Fixed { scenario: Some(Scenario::Sessions), ..Fixed::default() };
    let (mut found, mut taken, mut back) = (Vec::new(), 0, 0);
    let seeds = number("PSLITE_TEST_SEEDS").unwrap_or(SESSION_SEEDS);
    for seed in first..first + seeds {
        let report = run(&job(seed, &fixed));
        found.extend(fault(seed, fixed.scenario, &report));
        let batches = report.ledger.batches();
        (taken, back) = (taken + batches.0, back + batches.1);
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(taken > 10 * seeds as usize, "{taken} batches in {seeds} jobs");
    assert!(back > seeds as usize, "{back} of {taken} batches by workers that came back");
}

/// Workers exchange deltas: each step of each worker is in the global model once.
#[test]
fn seeds_with_exchanges() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("PSLITE_TEST_SEED").unwrap_or(0);
    let fixed = Fixed { scenario: Some(Scenario::Exchange), ..Fixed::default() };
    let (mut found, mut rounds, mut held, mut opened) = (Vec::new(), 0, 0, 0);
    let (mut equal, mut by_program) = (0, 0);
    let seeds = number("PSLITE_TEST_SEEDS").unwrap_or(EXCHANGE_SEEDS);
    for seed in first..first + seeds {
        let config = job(seed, &fixed);
        assert!(config.exchange.is_some(), "seed {seed}");
        by_program += u64::from(config.exchange.is_some_and(|plan| plan.by_program));
        let report = run(&config);
        found.extend(fault(seed, fixed.scenario, &report));
        let exchanges = report.ledger.exchanges();
        (rounds, held) = (rounds + exchanges.0, held + exchanges.1);
        opened += report.ledger.opened();
        equal += report.ledger.compared_equal();
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(equal > 5 * seeds, "{equal} values were equal where workers aligned");
    assert!(by_program > seeds / 10, "programs of {by_program} of {seeds} jobs step themselves");
    assert!(rounds > 20 * seeds as usize, "{rounds} rounds of keys in {seeds} jobs");
    assert!(held > seeds / 10, "{held} pushes were held in {seeds} jobs");
    assert!(opened > 5 * seeds, "{opened} sums went along trees in {seeds} jobs");
}

/// A job whose keys are placed, of a size that takes a second or two.
const PLACED: Fixed = Fixed {
    scenario: Some(Scenario::Placement),
    workers: Some(2),
    servers: Some(3),
    keys: None,
    second_customer: None,
};

/// Nodes measure, and the planner places keys by what they say.
#[test]
fn seeds_with_placement() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("PSLITE_TEST_SEED").unwrap_or(0);
    let seeds = number("PSLITE_TEST_SEEDS").unwrap_or(PLACEMENT_SEEDS);
    let (mut found, mut plans, mut iterations) = (Vec::new(), 0, 0);
    for seed in first..first + seeds {
        let report = run(&job(seed, &PLACED));
        let sizes = "--workers 2 --servers 3";
        let fault = fault(seed, PLACED.scenario, &report);
        found.extend(fault.map(|fault| format!("{fault} {sizes}")));
        let placed = report.ledger.plans_and_iterations();
        (plans, iterations) = (plans + placed.0, iterations + placed.1);
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(plans > seeds as usize, "{plans} plans in {seeds} jobs");
    assert!(iterations > 30 * seeds as usize, "{iterations} iterations in {seeds} jobs");
}

/// The same, and workers die and come back.
#[test]
fn seeds_with_exchanges_whose_workers_die() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("PSLITE_TEST_SEED").unwrap_or(0);
    let seeds = number("PSLITE_TEST_SEEDS").unwrap_or(EXCHANGE_SEEDS);
    let fixed = Fixed { scenario: Some(Scenario::ExchangeLives), ..Fixed::default() };
    let (mut found, mut returned) = (Vec::new(), 0);
    for seed in first..first + seeds {
        let report = run(&job(seed, &fixed));
        found.extend(fault(seed, fixed.scenario, &report));
        returned += report.ledger.returned();
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(returned > seeds, "{returned} deltas of workers that came back in {seeds} jobs");
}

/// Seeds play pulls that ask nobody, and others.
#[test]
fn some_pulls_have_their_values_ahead() {
    for scenario in [Scenario::Calm, Scenario::Moves, Scenario::Deaths] {
        let fixed = Fixed { scenario: Some(scenario), ..Fixed::default() };
        let (mut ahead, mut all) = (0, 0);
        for seed in 0..20 {
            let ledger = run(&job(seed, &fixed)).ledger;
            ahead += ledger.ahead();
            all += ledger.checked();
        }
        assert!(ahead > 20 && ahead * 5 < all * 4, "{scenario:?}: {ahead} of {all}");
    }
}

#[test]
fn seeds_of_part_0() {
    play(0);
}

#[test]
fn seeds_of_part_1() {
    play(1);
}

#[test]
fn seeds_of_part_2() {
    play(2);
}

#[test]
fn seeds_of_part_3() {
    play(3);
}

#[test]
fn seeds_of_part_4() {
    play(4);
}

#[test]
fn seeds_of_part_5() {
    play(5);
}

/// What a job with so many small keys takes: bytes of words, and things that happen.
fn cost_of_keys(keys: usize) -> (u64, u64) {
    let fixed = Fixed {
        scenario: Some(Scenario::Calm),
        workers: Some(2),
        servers: Some(2),
        keys: Some(keys),
        ..Fixed::default()
    };
    let report = run(&job(0, &fixed));
    assert!(report.is_right(), "{:?}", report.ledger.faults());
    (report.words, report.steps)
}

#[test]
fn what_keys_cost_grows_with_their_number_and_not_with_its_square() {
    let ((words, steps), (more_words, more_steps)) = (cost_of_keys(250), cost_of_keys(1000));
    assert!(more_words < words * 5, "{words} and {more_words} bytes of words");
    assert!(more_steps < steps * 5, "{steps} and {more_steps} steps");
}

/// What a job of so many nodes takes: messages, bytes of words, and things that happen.
fn cost_of_nodes(scenario: Scenario, servers: usize, workers: usize) -> [u64; 3] {
    let fixed = Fixed {
        scenario: Some(scenario),
        workers: Some(workers),
        servers: Some(servers),
        keys: Some(20),
        ..Fixed::default()
    };
    let report = run(&job(0, &fixed));
    assert!(report.is_right(), "{:?}", report.ledger.faults());
    [report.messages, report.words, report.steps]
}

/// How much more each costs from 50 nodes of a kind to 100 than from 25 to 50, where all else
/// stays: twice as much if that grows with their number, four times with its square, eight times
/// with its cube.
fn growth_of_nodes(cost: impl Fn(usize) -> [u64; 3]) -> [f64; 3] {
    let (few, more, many) = (cost(25), cost(50), cost(100));
    std::array::from_fn(|at| (many[at] - more[at]) as f64 / (more[at] - few[at]) as f64)
}

/// Each node is told of each other one, and each server has a connection to each other node: that
/// is all that may grow with the square.
#[test]
fn what_nodes_cost_grows_with_their_number_but_for_what_they_know_of_each_other() {
    let servers = |scenario| growth_of_nodes(move |servers| cost_of_nodes(scenario, servers, 4));
    let workers = |scenario| growth_of_nodes(move |workers| cost_of_nodes(scenario, 4, workers));
    for scenario in [Scenario::Calm, Scenario::Joins, Scenario::Deaths] {
        for growth in [servers(scenario), workers(scenario)] {
            let [messages, words, steps] = growth;
            // One message more for each two nodes would be three times.
            assert!(messages < 2.75, "{}: messages grew {messages} times", scenario.name());
            assert!(words < 5.0, "{}: bytes grew {words} times", scenario.name());
            assert!(steps < 5.0, "{}: steps grew {steps} times", scenario.name());
        }
    }
}

#[test]
fn a_seed_always_goes_the_same_way() {
    let mut hashes = Vec::new();
    for (scenario, seed) in Scenario::ALL.into_iter().zip(SEEDS..) {
        let config = job(seed, &Fixed { scenario: Some(scenario), ..Fixed::default() });
        let (first, second) = (run(&config), run(&config));
        assert_eq!(first.trace.hash(), second.trace.hash(), "{}", scenario.name());
        assert_eq!((first.steps, first.took), (second.steps, second.took));
        hashes.push(first.trace.hash());
    }
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), Scenario::ALL.len(), "different jobs go different ways");
}

/// Jobs with two customers in each scenario.
const SECOND_SEEDS: u64 = 6;

/// Where each mistake shows soonest.
const PLANTED: [(Plant, Scenario); 47] = [
    (Plant::DuplicateCounted, Scenario::Calm),
    (Plant::AnswerBeforeReplica, Scenario::Restarts),
    (Plant::StaleRouteWins, Scenario::Moves),
    (Plant::ReplicaSkipsRound, Scenario::Restarts),
    (Plant::MoveShipsOpenRound, Scenario::Hiccups),
    (Plant::ParkedRequestLost, Scenario::Restarts),
    (Plant::MarksNotMoved, Scenario::Moves),
    (Plant::StateNotMoved, Scenario::FalseDeaths),
    (Plant::RoundWithoutMarks, Scenario::Restarts),
    (Plant::TakesFromTheDead, Scenario::Deaths),
    (Plant::OldEpochAccepted, Scenario::Joins),
    (Plant::JoinerServesEarly, Scenario::Joins),
    (Plant::ReplicaClaimsToOwn, Scenario::Restarts),
    (Plant::OldClaims, Scenario::Drains),
    (Plant::ForgottenBeforeSafe, Scenario::Deaths),
    (Plant::EpochsNotNoted, Scenario::Storm),
    (Plant::JoinsNotNoted, Scenario::Scheduler),
    (Plant::InitCounted, Scenario::Workers),
    (Plant::LivesMixed, Scenario::Workers),
    (Plant::DeadAwaited, Scenario::Workers),
    (Plant::AheadOfAnEarlier, Scenario::Moves),
    (Plant::NameForgotten, Scenario::Trees),
    (Plant::NameTwice, Scenario::Trees),
    (Plant::SumAgain, Scenario::Trees),
    (Plant::FloorNotHeard, Scenario::Trees),
    (Plant::RoundsMerged, Scenario::Trees),
    (Plant::RelayAnswers, Scenario::Trees),
    (Plant::EarlierValues, Scenario::Trees),
    (Plant::EarlyHopLost, Scenario::Trees),
    (Plant::TreeChanged, Scenario::Trees),
    (Plant::OverlaysNotNoted, Scenario::Trees),
    (Plant::AskersApart, Scenario::Trees),
    (Plant::CountedPushedAgain, Scenario::Trees),
    (Plant::CustomersMixed, Scenario::Calm),
    (Plant::CommandsMixed, Scenario::Calm),
    (Plant::LeaseAwaitsReturned, Scenario::Sessions),
    (Plant::LeaseAwaitsDead, Scenario::Sessions),
    (Plant::ShareKept, Scenario::Sessions),
    (Plant::PausesCounted, Scenario::StandStill),
    (Plant::FirstDeltaTwice, Scenario::Exchange),
    (Plant::LastStretchLost, Scenario::Exchange),
    (Plant::SwapForgotten, Scenario::Exchange),
    (Plant::DividedTwice, Scenario::Exchange),
    (Plant::LeftAwaited, Scenario::Exchange),
    (Plant::AlignsAtTheFirst, Scenario::Exchange),
    (Plant::MeetingAwaitsTheDead, Scenario::ExchangeLives),
    (Plant::TurnsMixed, Scenario::Exchange),
];

/// The same, of a size that the seed decides.
const PLACED_ANYHOW: Fixed = Fixed { workers: None, servers: None, ..PLACED };

/// Mistakes of nodes that measure and of the scheduler that plans, each with a job that shows it.
const MISPLACED: [(Plant, Fixed, u64); 15] = [
    (Plant::BacklogNotSeen, PLACED, 2),
    (Plant::ArrivalsAtOnce, PLACED, 80),
    (Plant::PeersMixed, PLACED, 6),
    (Plant::HalfSeen, PLACED, 2),
    (Plant::TwiceSeen, PLACED, 21),
    (Plant::ServersSilent, PLACED, 1),
    (Plant::ReportKept, PLACED, 9),
    (Plant::WaitsSwapped, PLACED, 16),
    (Plant::BytesUnknown, PLACED, 21),
    (Plant::ReportsSwapped, PLACED, 2),
    (Plant::LooksEnd, PLACED, 1),
    (Plant::PlannersForget, PLACED, 1),
    (Plant::OrdersToOne, PLACED, 14),
    (Plant::OrdersLost, PLACED, 20),
    (Plant::OrdersTurned, PLACED_ANYHOW, 3),
];

#[test]
fn planted_mistakes_of_placement_first_part() {
    are_caught(&MISPLACED[..4], Invariant::Placed);
}

#[test]
fn planted_mistakes_of_placement_second_part() {
    are_caught(&MISPLACED[4..], Invariant::Placed);
}

/// Each mistake shows as that in its job.
pub(super) fn are_caught(planted: &[(Plant, Fixed, u64)], shown: Invariant) {
    let mut right = BTreeSet::new();
    for (plant, fixed, seed) in planted.iter().copied() {
        let config = job(seed, &fixed);
        let planted = JobConfig { plant: Some(plant), ..config.clone() };
        let report = run(&planted);
        let is_shown = |fault: &Found| fault.invariant == shown;
        assert!(report.ledger.faults().iter().any(is_shown), "{plant:?} is not found in {seed}");
        // It is the mistake that was found.
        if right.insert((fixed.servers, seed)) {
            assert_eq!(wrong(seed, fixed.scenario, &config), None);
        }
    }
}

fn is_caught((plant, scenario): (Plant, Scenario)) {
    let of = |seed, plant| {
        let fixed = Fixed { scenario: Some(scenario), ..Fixed::default() };
        JobConfig { plant, ..job(seed, &fixed) }
    };
    let seed = (0..PLANTED_MAX).find(|seed| !run(&of(*seed, Some(plant))).is_right());
    let Some(seed) = seed else { panic!("{plant:?} is in no job of {} found", scenario.name()) };
    // It is the mistake that was found.
    assert_eq!(wrong(seed, Some(scenario), &of(seed, None)), None);
}

#[test]
fn planted_mistakes_are_all_caught_first_part() {
    PLANTED[..6].iter().copied().for_each(is_caught);
}

#[test]
fn planted_mistakes_are_all_caught_second_part() {
    PLANTED[6..12].iter().copied().for_each(is_caught);
}

#[test]
fn planted_mistakes_are_all_caught_third_part() {
    PLANTED[12..21].iter().copied().for_each(is_caught);
    let mut plants: Vec<Plant> = PLANTED.iter().map(|(plant, _)| *plant).collect();
    plants.extend(MISPLACED.iter().map(|(plant, ..)| *plant));
    plants.extend(sites_tests::MISPLANTED.iter().map(|(plant, ..)| *plant));
    plants.extend(stays_tests::PLANTED);
    plants.sort_unstable();
    assert_eq!(plants, Plant::ALL, "each has its job");
}

#[test]
fn planted_mistakes_with_batches_are_all_caught() {
    PLANTED[35..38].iter().copied().for_each(is_caught);
}

#[test]
fn planted_mistakes_along_trees_are_all_caught() {
    PLANTED[21..33].iter().copied().for_each(is_caught);
    // What comes down a tree waits for the replica too.
    is_caught((Plant::AnswerBeforeReplica, Scenario::Trees));
}

#[test]
fn planted_clocks_that_never_stop_are_caught() {
    PLANTED[38..39].iter().copied().for_each(is_caught);
}

#[test]
fn planted_mistakes_with_deltas_are_all_caught() {
    PLANTED[39..].iter().copied().for_each(is_caught);
    is_caught((Plant::DuplicateCounted, Scenario::Exchange));
}

#[test]
fn planted_mistakes_about_customers_are_caught() {
    PLANTED[33..35].iter().copied().for_each(is_caught);
}

/// Two customers of each worker, whose keys have the same numbers: each has the values that it
/// would have alone, whatever happens to the servers.
#[test]
fn customers_with_keys_of_their_own_train_as_if_they_were_alone() {
    let scenarios = [
        Scenario::Calm,
        Scenario::Moves,
        Scenario::Restarts,
        Scenario::Deaths,
        Scenario::Joins,
        Scenario::Drains,
        Scenario::Workers,
        Scenario::Trees,
        Scenario::Scheduler,
    ];
    for scenario in scenarios {
        for seed in 0..SECOND_SEEDS {
            let fixed =
                Fixed { scenario: Some(scenario), second_customer: Some(true), ..Fixed::default() };
            let found = wrong(seed, Some(scenario), &job(seed, &fixed));
            assert_eq!(found.map(|found| found + " --two-customers"), None);
        }
    }
}

/// A graph of links: a ring of narrow edges, and all others wide, slow ones. The job is right,
/// takes longer than without it, goes the same way twice, and an edge that is narrower for a while
/// delays it more.
#[test]
fn a_job_runs_on_a_graph_of_links() {
    let fixed = Fixed { scenario: Some(Scenario::Moves), ..Fixed::default() };
    for seed in 0..4 {
        let plain = job(seed, &fixed);
        let mut graph = plain.clone();
        let nodes = graph.processes();
        let ms = Duration::from_millis(1);
        for from in 1..nodes {
            for to in (1..nodes).filter(|to| *to != from) {
                let next = to % (nodes - 1) + 1 == from || from % (nodes - 1) + 1 == to;
                let (rate, latency) = if next { (Some(20_000), 10 * ms) } else { (None, 60 * ms) };
                graph.edges.push((from, to, LinkModel { rate, latency, jitter: ms }));
            }
        }
        let mut worse = graph.clone();
        let narrow = LinkModel { rate: Some(2_000), latency: 300 * ms, jitter: ms };
        for other in 2..nodes {
            worse.faults.push((100 * ms, Fault::Edge(1, other, Some(narrow))));
        }
        let took = |config: &JobConfig| {
            assert_eq!(wrong(seed, fixed.scenario, config), None);
            run(config).took
        };
        let (usual, on_graph, on_worse) = (took(&plain), took(&graph), took(&worse));
        assert!(usual < on_graph && on_graph < on_worse, "{usual:?} {on_graph:?} {on_worse:?}");
        assert_eq!(run(&graph).trace.hash(), run(&graph).trace.hash());
    }
}
