//! The way in: bytes to a [`Value`], with every bound that holds on the way.
//!
//! What MXNet's workers send is protocol 0 (python/mxnet/kvstore/kvstore.py, `set_optimizer`). The
//! plain data of protocols 1 to 5 is read too. Shared values become copies; cycles are refused.

use super::convert::convert;
use super::error::PickleError;
use super::machine::Machine;
use super::value::Value;

/// The longest pickle, in bytes. An optimizer with the names of 100 000 parameters has 4 MB.
pub const PICKLE_BYTES_MAX: usize = 16 << 20;
/// The longest line, in bytes: a text with every character escaped.
pub const LINE_BYTES_MAX: usize = 6 << 20;
/// The longest text or `bytes`, in bytes of UTF-8.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
/// All texts together while the pickle is read, in bytes.
pub const CONTENT_BYTES_MAX: usize = 32 << 20;
/// The most values in a pickle, and the most on its stack.
pub const NODES_MAX: usize = 1 << 20;
/// The largest number of a memo.
pub const MEMO_INDEX_MAX: u64 = NODES_MAX as u64;
/// How deep values may be in each other. MXNet's optimizers need 6.
pub const DEPTH_MAX: usize = 64;
/// The most values in the result, shared ones counted where they are used.
pub const RESULT_VALUES_MAX: usize = 1 << 20;
/// All texts of the result together, in bytes.
pub const RESULT_TEXT_BYTES_MAX: usize = 32 << 20;

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
