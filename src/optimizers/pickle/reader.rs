//! The way in: bytes to a [`Value`], with every bound that holds on the way.
//!
//! What MXNet's workers send is protocol 0 (python/mxnet/kvstore/kvstore.py, `set_optimizer`). The
//! plain data of protocols 1 to 5 is read too. Shared values become copies; cycles are refused.

pub use super::limits::{
    CONTENT_BYTES_MAX, DEPTH_MAX, LINE_BYTES_MAX, MEMO_INDEX_MAX, NODES_MAX, PICKLE_BYTES_MAX,
    RESULT_TEXT_BYTES_MAX, RESULT_VALUES_MAX, TEXT_BYTES_MAX,
};

use super::convert::convert;
use super::error::PickleError;
use super::machine::Machine;
use super::value::Value;

/// Reads a pickle. Nothing in it is run. Bytes after its end are ignored, as Python does.
///
/// A numpy scalar becomes a plain number, an `OrderedDict` or `defaultdict` a dict. Values that
/// Python would share are copies of each other.
///
/// # Errors
/// [`PickleError::Refused`] if it names a class or function that is not on the list; another one if
/// it is malformed, above a bound, or not plain data.
pub fn read(bytes: &[u8]) -> Result<Value, PickleError> {
    if bytes.len() > PICKLE_BYTES_MAX {
        return Err(PickleError::TooMuch("bytes"));
    }
    let (nodes, root) = Machine::new(bytes).run()?;
    convert(&nodes, root)
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
