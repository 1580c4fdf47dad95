//! Why a pickle is not read.

use thiserror::Error;

/// Why a pickle is not read. Whatever the reason, nothing of it was run.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PickleError {
    /// It names a class or function that is not on the list.
    #[error("the pickle names {class}, which is not on the list of classes that are read")]
    Refused {
        /// Module and name, with what is not printable escaped, cut at a bound.
        class: String,
    },
    /// It calls something with arguments for which there is no plain meaning.
    #[error("the pickle calls {0} in a way that is not plain data")]
    Call(&'static str),
    /// An opcode that stands for something else than plain data.
    #[error("the pickle has the opcode {name} (0x{code:02x}), which is not plain data")]
    Opcode {
        /// The byte.
        code: u8,
        /// Its name in Python's pickletools.
        name: &'static str,
    },
    /// A byte that no version of pickle has as an opcode.
    #[error("the pickle has the unknown opcode 0x{0:02x}")]
    UnknownOpcode(u8),
    /// A protocol that is not known.
    #[error("the pickle is of protocol {0}")]
    Protocol(u8),
    /// The bytes end too early.
    #[error("the pickle is cut off")]
    Truncated,
    /// Something is above its bound, which is a constant in [`reader`](super::reader).
    #[error("the pickle has too much of: {0}")]
    TooMuch(&'static str),
    /// A number that is none, a text that is no Unicode, and the like.
    #[error("the pickle has a malformed {0}")]
    Malformed(&'static str),
    /// An integer that 64 bits with a sign do not hold.
    #[error("the pickle has an integer of more than 64 bits")]
    IntegerTooLarge,
    /// A value is taken from an empty stack, or from below a mark.
    #[error("the pickle takes more values than it has")]
    Underflow,
    /// A memo is read that was not written.
    #[error("the pickle reads memo {0}, which it did not write")]
    NoMemo(u64),
    /// An operation meets a value of the wrong type.
    #[error("the pickle has the wrong type of value for {0}")]
    Type(&'static str),
    /// Something contains itself.
    #[error("the pickle has a value that contains itself")]
    Cycle,
    /// A numpy scalar of a type that is no number.
    #[error("the pickle has a numpy scalar of type {0}")]
    NumpyType(String),
}
