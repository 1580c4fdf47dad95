//! Where keys belong.
pub mod cost;
#[cfg(test)]
mod fluid;
pub mod layout;
pub mod links;
pub mod planner;
pub mod shares;
mod statistics;
pub mod stragglers;
#[cfg(test)]
mod testing;
