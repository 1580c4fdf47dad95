//! `pslite sim --graph`: by which trees sums and values would go through a network, how long a
//! round would take, and what no scheme can beat.

use std::fs;
use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use pslite::placement::graph::{MOST_PACKED, ServingOrder, Topology, TransferMode};
use pslite::sim::trees::{
    DrawnGraph, NamedGraph, PlannedTrees, TreesConfig, drawing, parse, planned_trees,
};

use crate::print::say;

/// Parts of a graph's plan; all of them need --graph.
#[derive(Clone, Debug, Args)]
pub(crate) struct GraphArguments {
    /// Play nothing: plan trees through a network: netstorm (nine sites, thirteen links), mesh:N,
    /// random:N, switch:N, or a file with lines `link SITE SITE MBIT [MBIT]`, `card SITE MBIT
    /// [MBIT]`, `switch SITE SITE...`
    #[arg(
        long,
        value_name = "NAME|FILE",
        conflicts_with_all = [
            "scenario", "workers", "servers", "keys", "trace", "twice", "quiet", "plan", "plant",
        ]
    )]
    graph: Option<String>,
    /// With --graph: how trees are made: star, balanced:K, tsengine, fapt, fapt:R (NetStorm with R
    /// roots), packed, auto
    #[arg(long, requires = "graph", default_value = "auto")]
    topology: Topology,
    /// With --graph: sites that own the model, in equal shares or in these; else all do. Not with
    /// fapt:R, which chooses them itself
    #[arg(long, requires = "graph", value_name = "SITE[=SHARE],...", value_delimiter = ',')]
    owners: Vec<String>,
    /// With --graph: megabytes of the model
    #[arg(
        long,
        requires = "graph",
        value_name = "MB",
        default_value_t = 100.0,
        value_parser = above_zero
    )]
    model: f64,
    /// With --graph: kilobytes of a part
    #[arg(
        long,
        requires = "graph",
        value_name = "KB",
        default_value_t = 250.0,
        value_parser = above_zero
    )]
    part: f64,
    /// With --graph: which of the parts that wait for a link goes first
    #[arg(long, requires = "graph", value_enum, default_value_t = GraphOrder::Round)]
    order: GraphOrder,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum GraphOrder {
    /// The one that comes first in the round
    Round,
    /// The one that came first, as in stock and in NetStorm
    Arrival,
}

/// Where a graph comes from.
enum GraphSource {
    Drawn(DrawnGraph),
    Read(NamedGraph),
}

impl GraphArguments {
    /// What is to be planned; None: jobs are to be played.
    pub(crate) fn graph(&self) -> Option<&str> {
        self.graph.as_deref()
    }

    fn config(&self, named: &NamedGraph) -> anyhow::Result<TreesConfig> {
        let order = match self.order {
            GraphOrder::Round => ServingOrder::Round,
            GraphOrder::Arrival => ServingOrder::Arrival,
        };
        Ok(TreesConfig {
            topology: self.topology,
            shares: named.owners(&self.owners).map_err(anyhow::Error::msg)?,
            bytes: self.model * 1e6,
            transfer: TransferMode { part: self.part * 1e3, order },
        })
    }
}

fn above_zero(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "it is a number above 0".to_owned())
}

/// Plans for each seed; several are a line each, and their means. `seeds`: if some are asked for.
pub(crate) fn sim_graph(
    arguments: &GraphArguments,
    name: &str,
    seeds: Option<Range<u64>>,
) -> anyhow::Result<ExitCode> {
    let source = source(name)?;
    if seeds.is_some() && matches!(source, GraphSource::Read(_)) {
        bail!("a graph from a file is the same for every seed: leave --seed and --seeds out");
    }
    if matches!(arguments.topology, Topology::Fapt(_)) && !arguments.owners.is_empty() {
        bail!("{} chooses the owners itself: leave --owners out", arguments.topology);
    }
    let seeds = seeds.unwrap_or(0..1);
    let several = seeds.end - seeds.start > 1;
    let mut sums = SeedSums::default();
    for seed in seeds {
        let named = match &source {
            GraphSource::Drawn(drawn) => drawn.draw(seed)?,
            GraphSource::Read(named) => named.clone(),
        };
        let config = arguments.config(&named)?;
        let begin = Instant::now();
        let planned = planned_trees(&named.graph, &config);
        let planned = planned.map_err(|wrong| anyhow!("{name}: {}", named.explain(&wrong)))?;
        let took = begin.elapsed();
        sums.add(&planned);
        if several {
            say!("seed {seed}: {}", line(&planned, took));
        } else {
            print_all(&named, &config, &planned, took);
        }
    }
    if several {
        say!("{sums}");
    }
    Ok(ExitCode::SUCCESS)
}

fn source(name: &str) -> anyhow::Result<GraphSource> {
    match name.parse() {
        Ok(drawn) => Ok(GraphSource::Drawn(drawn)),
        // A name with a colon is meant as one, unless there is such a file.
        Err(wrong) if name.contains(':') && fs::metadata(name).is_err() => bail!("{wrong}"),
        Err(wrong) => {
            let read = || format!("--graph {name} is no file that can be read; {wrong}, or a file");
            let text = fs::read_to_string(name).with_context(read)?;
            Ok(GraphSource::Read(parse(&text).with_context(|| name.to_owned())?))
        }
    }
}

fn print_all(named: &NamedGraph, config: &TreesConfig, planned: &PlannedTrees, took: Duration) {
    let NamedGraph { graph, names } = named;
    let parts = (config.bytes / config.transfer.part).ceil().max(1.0);
    say!(
        "{} sites, {} edges; {:.1} MB in {parts} parts of {:.0} KB",
        graph.sites(),
        graph.edges().count(),
        config.bytes / 1e6,
        config.bytes / parts / 1e3,
    );
    say!("{}", line(planned, took));
    let owners = planned.with_owners;
    say!("T* with these owners {:.3} s; the star takes {:.3} s", owners.seconds, planned.star);
    if !owners.reached.is_finite() {
        say!("beyond {MOST_PACKED} sites T* is that of the narrowest site alone: too small");
    }
    for tree in &planned.proposal.scheme.trees {
        let side = |parents: &[Option<usize>]| drawing(names, tree.root, parents);
        say!("  {:5.1} %  up {}", 100.0 * tree.share, side(&tree.up));
        say!("         down {}", side(&tree.down));
    }
}

fn line(planned: &PlannedTrees, took: Duration) -> String {
    let PlannedTrees { proposal, bound, .. } = planned;
    let trees = proposal.scheme.trees.len();
    format!(
        "T* {:.3} s; {}, {trees} tree{}: a round {:.3} s, {:.2} x T* (eta {:.2}); {:.0} ms",
        bound.seconds,
        proposal.topology,
        if trees == 1 { "" } else { "s" },
        proposal.seconds,
        planned.ratio(),
        1.0 / planned.ratio(),
        took.as_secs_f64() * 1e3,
    )
}

/// What all seeds say together.
#[derive(Default)]
struct SeedSums {
    seeds: f64,
    ratios: f64,
    worst: f64,
    by_star: f64,
}

impl SeedSums {
    fn add(&mut self, planned: &PlannedTrees) {
        self.seeds += 1.0;
        self.ratios += planned.ratio();
        self.worst = self.worst.max(planned.ratio());
        let seconds = planned.proposal.seconds;
        self.by_star += if seconds > 0.0 { planned.star / seconds } else { 1.0 };
    }
}

impl std::fmt::Display for SeedSums {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mean = |sum: f64| sum / self.seeds;
        write!(
            f,
            "{} seeds: a round {:.2} x T* on average, {:.2} at worst; the star takes {:.1} x as \
             long",
            self.seeds,
            mean(self.ratios),
            self.worst,
            mean(self.by_star)
        )
    }
}
