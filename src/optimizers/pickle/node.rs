//! What the machine builds: values that name each other by number, so that one may be shared and
//! changed after it was put into another, and so that none is freed by recursion.

use super::classes::Global;
use super::error::PickleError;
use super::limits::{CONTENT_BYTES_MAX, NODES_MAX};
use super::numpy::Scalar;

/// The number of a node.
pub(super) type PickleId = usize;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PickleNode {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<PickleId>),
    Tuple(Vec<PickleId>),
    Dict(Vec<(PickleId, PickleId)>),
    Global(Global),
    Dtype(Scalar),
    /// An object: its class and, once it was built, the dict of its attributes.
    Object(&'static str, Option<PickleId>),
}

/// All values of one pickle.
#[derive(Default)]
pub(super) struct Nodes {
    nodes: Vec<PickleNode>,
    /// Bytes of all texts so far.
    content: usize,
}

impl Nodes {
    pub(super) fn add(&mut self, node: PickleNode) -> Result<PickleId, PickleError> {
        if self.nodes.len() >= NODES_MAX {
            return Err(PickleError::TooMuch("values"));
        }
        self.content += match &node {
            PickleNode::Text(text) => text.len(),
            PickleNode::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        if self.content > CONTENT_BYTES_MAX {
            return Err(PickleError::TooMuch("bytes of texts"));
        }
        self.nodes.push(node);
        Ok(self.nodes.len() - 1)
    }

    pub(super) fn get(&self, id: PickleId) -> &PickleNode {
        // Numbers come from `add` alone, and nothing is removed.
        &self.nodes[id]
    }

    pub(super) fn get_mut(&mut self, id: PickleId) -> &mut PickleNode {
        &mut self.nodes[id]
    }
}
