//! `pslite sim`: plays jobs on virtual time, seed by seed, and says what was wrong, with
//! the one command that shows it again.

use std::collections::BTreeMap;
use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use pslite::placement::cost::MOST_SERVERS;
use pslite::sim::jobs::{Fixed, JobReport, Plant, Scenario, job, run};
use pslite::sim::planning::{PlannedLayout, PlanningConfig, planned};

use crate::print::{print, say};
use crate::sim_graph::{GraphArguments, sim_graph};

/// Jobs that play on virtual time, and what to play.
#[derive(Clone, Debug, Args)]
pub(crate) struct SimArguments {
    /// The seed of one job
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Seeds, the last one not included [default: 0..100]
    #[arg(long, value_name = "A..B")]
    seeds: Option<String>,
    /// What the jobs are to show; else each seed takes its turn
    #[arg(long, value_parser = scenario)]
    scenario: Option<Scenario>,
    /// Workers; else the seed decides
    #[arg(long, value_parser = nodes)]
    workers: Option<usize>,
    /// Servers that a job begins with; else the seed decides
    #[arg(long, value_parser = nodes)]
    servers: Option<usize>,
    /// So many tensors of ten elements, pushed twice; else the seed decides
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    keys: Option<u32>,
    /// Each worker has two customers with keys of their own; else the seed decides
    #[arg(long)]
    two_customers: bool,
    /// Print all that happens
    #[arg(long)]
    trace: bool,
    /// Play each job twice, and see that both go the same way
    #[arg(long)]
    twice: bool,
    /// Print the lines of those jobs only in which something is wrong
    #[arg(long, short)]
    quiet: bool,
    /// Play nothing: plan where keys belong in a network of --servers and --workers, with rates
    /// that the seed draws
    #[arg(
        long,
        conflicts_with_all = ["seeds", "scenario", "keys", "trace", "twice", "quiet", "plant"]
    )]
    plan: bool,
    /// With --plan: tensors of the model
    #[arg(
        long,
        requires = "plan",
        default_value_t = 1000,
        value_parser = clap::value_parser!(u64).range(1..=100_000)
    )]
    tensors: u64,
    /// With --plan: each piece has a copy
    #[arg(long, requires = "plan")]
    copies: bool,
    #[command(flatten)]
    graph: GraphArguments,
    /// Plant a mistake (for tests of the simulation)
    #[arg(long, hide = true, value_parser = plant)]
    plant: Option<Plant>,
}

/// A job without workers or servers moves nothing: a simulated one would wait for ever.
fn nodes(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=NODES_MAX).contains(number));
    number.ok_or_else(|| format!("it is a number from 1 to {NODES_MAX}"))
}

fn scenario(name: &str) -> Result<Scenario, String> {
    let known = Scenario::ALL.into_iter().find(|scenario| scenario.name() == name);
    let names: Vec<&str> = Scenario::ALL.iter().map(|scenario| scenario.name()).collect();
    known.ok_or_else(|| format!("there are {}", names.join(", ")))
}

fn plant(name: &str) -> Result<Plant, String> {
    let known = Plant::ALL.into_iter().find(|plant| format!("{plant:?}") == name);
    known.ok_or_else(|| format!("there are {:?}", Plant::ALL))
}

/// Plays them. The exit code is 1 if something was wrong.
pub(crate) fn sim(arguments: &SimArguments) -> anyhow::Result<ExitCode> {
    if arguments.plan {
        return plan(arguments);
    }
    if let Some(name) = arguments.graph.graph() {
        return sim_graph(&arguments.graph, name, from_to(arguments)?);
    }
    let asked = [arguments.workers, arguments.servers];
    if let Some(many) = asked.into_iter().flatten().find(|number| *number > PLAYED_MAX) {
        bail!(
            "{many} nodes of a kind are too many to play, at most {PLAYED_MAX} are; with --plan \
             nothing is played"
        );
    }
    if arguments.scenario == Some(Scenario::Sites) {
        let workers = arguments.workers.unwrap_or(PLAYED_MAX);
        if workers < 2 || arguments.servers.is_some_and(|servers| servers > workers) {
            bail!("sites have a worker each, two at least, and no more servers than workers");
        }
    }
    let mut summary = SeedSummary::default();
    for seed in from_to(arguments)?.unwrap_or(0..100) {
        play(arguments, seed, &mut summary);
    }
    say!("{summary}");
    Ok(if summary.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The slowest and the fastest card of a network to plan for, in Mbit/s.
const RATES: (u64, u64) = (100, 10_000);
/// The most nodes of one kind to plan for.
const NODES_MAX: usize = 100_000;
/// The most nodes of one kind to play: each pair of them exchanges messages.
const PLAYED_MAX: usize = 256;

fn plan(arguments: &SimArguments) -> anyhow::Result<ExitCode> {
    let config = PlanningConfig {
        seed: arguments.seed.unwrap_or(0),
        workers: arguments.workers.unwrap_or(10_000),
        servers: arguments.servers.unwrap_or(1000),
        tensors: arguments.tensors,
        rates: RATES,
        copies: arguments.copies,
    };
    let begin = Instant::now();
    let planned = planned(&config)?;
    print_plan(&config, &planned, begin.elapsed().as_secs_f64());
    Ok(ExitCode::SUCCESS)
}

#[allow(clippy::cast_precision_loss, reason = "rounded for people")]
fn print_plan(config: &PlanningConfig, planned: &PlannedLayout, took: f64) {
    let PlannedLayout { bytes, pieces, before, bound, ref plan } = *planned;
    say!(
        "seed {}: {} servers, {} workers, {} to {} Mbit/s; {} tensors, {:.1} MB",
        config.seed,
        config.servers,
        config.workers,
        config.rates.0,
        config.rates.1,
        config.tensors,
        bytes as f64 / 1e6
    );
    say!("planned in {took:.2} s");
    say!("a round now {before:.2} s, T* {bound:.2} s");
    match plan {
        None => say!("nothing is worth moving; {} pieces", pieces.0),
        Some(plan) => say!(
            "a round then {:.2} s (eta {:.2}); {} moves, {:.1} MB with state, {} pieces, then {}",
            plan.predicted,
            bound / plan.predicted,
            plan.moves.len(),
            plan.moved_bytes as f64 / 1e6,
            pieces.0,
            pieces.1
        ),
    }
    if config.copies && config.servers > MOST_SERVERS {
        say!("T* and the shares do not count copies beyond {MOST_SERVERS} servers; rounds do");
    }
}

/// The seeds that are asked for, if some are.
fn from_to(arguments: &SimArguments) -> anyhow::Result<Option<Range<u64>>> {
    if let Some(seed) = arguments.seed {
        return Ok(Some(seed..seed.saturating_add(1)));
    }
    let Some(text) = arguments.seeds.as_deref() else { return Ok(None) };
    let (from, to) = text.split_once("..").context("--seeds wants A..B")?;
    let (from, to) = (from.parse()?, to.parse()?);
    if from >= to {
        bail!("--seeds {text} are none");
    }
    Ok(Some(from..to))
}

fn play(arguments: &SimArguments, seed: u64, summary: &mut SeedSummary) {
    let fixed = Fixed {
        scenario: arguments.scenario,
        workers: arguments.workers,
        servers: arguments.servers,
        keys: arguments.keys.map(|keys| keys as usize),
        second_customer: arguments.two_customers.then_some(true),
    };
    let scenario = fixed.scenario.unwrap_or(Scenario::of_seed(seed));
    let mut config = job(seed, &fixed);
    config.keep_trace = arguments.trace;
    config.plant = arguments.plant;
    let report = run(&config);
    if let Some(text) = report.trace.text() {
        print(format_args!("{text}"));
    }
    let again = arguments.twice.then(|| run(&config).trace.hash());
    let same = again.is_none_or(|hash| hash == report.trace.hash());
    let right = report.is_right() && same;
    if !right || !arguments.quiet {
        say!("{}", line(seed, scenario, &report));
    }
    if !same {
        say!("  the second run of the seed went another way");
    }
    for fault in report.ledger.faults() {
        say!("  {fault}");
    }
    if !right {
        say!("  again: {}", command(arguments, seed));
    }
    summary.add(seed, scenario, &report, right);
}

fn line(seed: u64, scenario: Scenario, report: &JobReport) -> String {
    format!(
        "seed {seed} {}: {}, {:.2} s, {} steps, {} pulls right, policy {}, {} deaths, trace \
         {:016x}",
        scenario.name(),
        if report.is_right() { "ok" } else { "WRONG" },
        report.took.as_secs_f64(),
        report.steps,
        report.ledger.checked(),
        report.epoch,
        report.deaths,
        report.trace.hash(),
    )
}

fn command(arguments: &SimArguments, seed: u64) -> String {
    let mut command = format!("pslite sim --trace --seed {seed}");
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            command.push_str(&format!(" --{name} {value}"));
        }
    };
    add("scenario", arguments.scenario.map(|scenario| scenario.name().to_owned()));
    add("workers", arguments.workers.map(|number| number.to_string()));
    add("servers", arguments.servers.map(|number| number.to_string()));
    add("keys", arguments.keys.map(|number| number.to_string()));
    add("plant", arguments.plant.map(|plant| format!("{plant:?}")));
    command
}

#[derive(Default)]
struct SeedSummary {
    runs: BTreeMap<Scenario, u64>,
    steps: u64,
    pulls: u64,
    deaths: usize,
    wrong: Vec<u64>,
}

impl SeedSummary {
    fn add(&mut self, seed: u64, scenario: Scenario, report: &JobReport, right: bool) {
        *self.runs.entry(scenario).or_default() += 1;
        self.steps += report.steps;
        self.pulls += report.ledger.checked();
        self.deaths += report.deaths;
        if !right {
            self.wrong.push(seed);
        }
    }
}

impl std::fmt::Display for SeedSummary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all: u64 = self.runs.values().sum();
        let runs: Vec<String> =
            self.runs.iter().map(|(scenario, n)| format!("{} {n}", scenario.name())).collect();
        write!(
            f,
            "{all} jobs ({}): {} wrong, {} steps, {} pulls, {} deaths",
            runs.join(", "),
            self.wrong.len(),
            self.steps,
            self.pulls,
            self.deaths
        )
    }
}
