//! What the scheduler knows of a process that has registered.

use crate::wire::Node;

/// One process that registered, and which of its customers did.
#[derive(Clone, Debug)]
pub(super) struct Registrant {
    pub(super) node: Node,
    pub(super) customers: Vec<i32>,
}
