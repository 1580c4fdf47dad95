//! Trees through a network that is no switch: sites that are joined by few, slow, uneven links. How
//! short a round could be, how long it takes by a scheme, and which schemes there are.
//! `docs/trees.md` tells it as a whole; docs/algorithms.md 1 and 5 has the sources.
//!
//! | module | what it is |
//! |---|---|
//! | `sites` | [`Graph`]: resources and edges, for cards and for links |
//! | [`scheme`] | trees, their shares, and what must hold of them |
//! | [`bound`] | T*: no scheme can give a shorter round |
//! | [`predict`] | the round that a scheme gives, part by part |
//! | [`topology`] | the schemes by name, and the choice among them |
//! | `star`, `balanced`, `tsengine`, `fapt`, `packed` | one kind of scheme each |
//! | [`ways`] | ways that share no site between |
//! | [`netstorm`] | NetStorm's nine sites |
//! | `named`, [`text`], `drawing` | names of sites; a graph, and a tree, as people read them |
//! | `pack`, `weighted`, `costed_edges`, `master`, `arborescence`, `routes` | what computes them |
//!
//! Pure: rates in bytes per second, sizes in bytes, times in seconds; the same input gives the same
//! output to the bit. Sites are numbers from 0. It knows nothing of nodes, keys or messages.

mod arborescence;
mod balanced;
mod bound;
mod cells;
mod costed_edges;
mod drawing;
mod error;
mod fapt;
mod limits;
mod master;
mod named;
pub mod netstorm;
mod pack;
mod packed;
mod predict;
mod roots;
mod routes;
pub mod scheme;
mod sites;
mod star;
#[cfg(test)]
mod tests;
pub mod text;
pub mod topology;
mod tsengine;
mod ways;
mod weighted;

pub use bound::{Bound, MOST_PACKED, bound};
pub use drawing::drawing;
pub use error::GraphError;
pub use limits::MOST_SITES;
pub use named::NamedGraph;
pub use predict::{ServingOrder, TransferMode, predict};
pub use roots::Roots;
pub use routes::SiteRoutes;
pub use scheme::{Scheme, Tree};
pub use sites::{Edge, Graph};
pub use topology::{Proposal, Topology, blind, propose};
pub use ways::ways;
