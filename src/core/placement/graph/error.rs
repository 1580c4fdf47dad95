//! What is wrong with a graph, with what is asked of it, or with a scheme.

use thiserror::Error;

use super::limits::MOST_SITES;

/// What is wrong with a graph, with what is asked of it, or with a scheme. Sites are counted from 1
/// here, as people do.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum GraphError {
    /// It has no sites, or more than [`MOST_SITES`].
    #[error("{0} sites: a graph has 1 to {MOST_SITES}")]
    Sites(usize),
    /// An edge that is none.
    #[error("edge {number} (site {from} to {to}): {wrong}", from = .from + 1, to = .to + 1)]
    Edge {
        /// Which one, from 0.
        number: usize,
        /// Where it begins.
        from: usize,
        /// Where it ends.
        to: usize,
        /// What is wrong.
        wrong: &'static str,
    },
    /// A rate that is none.
    #[error("the rate of resource {number} is {rate}: give bytes per second, 0 if it is down")]
    Rate {
        /// Which one, from 0.
        number: usize,
        /// What it has.
        rate: f64,
    },
    /// No way leads from one site to another.
    #[error(
        "no path leads from site {from} to site {to}: add a link, give one a rate above 0, or \
         leave the site out",
        from = .from + 1, to = .to + 1
    )]
    Apart {
        /// Where one cannot leave.
        from: usize,
        /// Where one cannot arrive.
        to: usize,
    },
    /// Shares of owners that are none.
    #[error("the shares of the owners: {0}")]
    Shares(&'static str),
    /// A scheme breaks a promise.
    #[error("tree {tree}: {wrong}")]
    Broken {
        /// Which one, from 0.
        tree: usize,
        /// Which promise.
        wrong: String,
    },
    /// A prediction would take too long.
    #[error("{parts} parts for {sites} sites are too many to predict: take larger parts")]
    TooFine {
        /// Parts of the model.
        parts: u64,
        /// Sites of the graph.
        sites: usize,
    },
    /// A size that is none.
    #[error("{0}")]
    Size(&'static str),
}
