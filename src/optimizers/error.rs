//! What can be wrong with an optimizer or an update.

use pslite_elements::Dtype;

use super::classes::CLASSES;

/// Why an optimizer is refused, or an update cannot be done.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OptimizerError {
    /// The object is of a class that has no native kernel.
    #[error(
        "there is no native optimizer {class}; there are: {}",
        CLASSES.join(", ")
    )]
    Unknown {
        /// The class, with its module.
        class: String,
    },
    /// The class is known, but its update draws random numbers or cannot work on a server.
    #[error("{class} cannot run on a server: {reason}")]
    Unsupported {
        /// The class, without its module.
        class: &'static str,
        /// What is in the way.
        reason: &'static str,
    },
    /// The value is no optimizer object at all.
    #[error("this is no optimizer object")]
    NotAnObject,
    /// An attribute that is not known, and so may change the result.
    #[error("{class} has an attribute {name} that is not known here")]
    UnknownAttribute {
        /// The class, with its module.
        class: String,
        /// The attribute.
        name: String,
    },
    /// An attribute that is missing or has a value that makes no sense.
    #[error("attribute {name} of {class}: {problem}")]
    Attribute {
        /// The class, with its module.
        class: String,
        /// The attribute.
        name: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// Elements that this optimizer cannot update (neither can MXNet).
    #[error("{class} cannot update weights of type {dtype}")]
    Dtype {
        /// The class, without its module.
        class: &'static str,
        /// The type of the weights.
        dtype: Dtype,
    },
    /// A gradient whose length does not fit the weights.
    #[error("key {key}: {found} bytes of {what} where {expected} are expected")]
    Length {
        /// The kvstore's key.
        key: i64,
        /// Gradient or a state tensor.
        what: &'static str,
        /// Bytes found.
        found: usize,
        /// Bytes expected.
        expected: usize,
    },
    /// A row that the weights do not have.
    #[error("key {key}: there is no row {row}")]
    Row {
        /// The kvstore's key.
        key: i64,
        /// The row.
        row: i64,
    },
    /// A row_sparse gradient, and the optimizer has no way to apply one (neither has MXNet).
    #[error("{class} cannot apply a row_sparse gradient: {reason}")]
    RowSparse {
        /// The class, without its module.
        class: &'static str,
        /// What is in the way.
        reason: &'static str,
    },
    /// A state that was exported by another optimizer.
    #[error("a state of this optimizer has the tensors {expected:?}, not {found:?}")]
    State {
        /// The names of its tensors.
        expected: Vec<&'static str>,
        /// The names that were handed in.
        found: Vec<String>,
    },
    /// A state that came from another server and is malformed.
    #[error("a state of {class} that came from another server is malformed: {problem}")]
    Travelled {
        /// The class, without its module.
        class: &'static str,
        /// What is wrong.
        problem: &'static str,
    },
}
