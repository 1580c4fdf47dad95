//! Reads the pickled optimizer that MXNet's workers send to servers.
//!
//! MXNet's own server unpickles it, which runs whatever the sender wrote. This reader runs nothing:
//! it knows a list of class names and plain data, and refuses the rest by name. May touch nothing
//! but the bytes; must not panic, recurse without a bound, or trust a length.

mod classes;
mod convert;
mod error;
mod input;
mod limits;
mod machine;
mod node;
mod numpy;
pub mod reader;
pub mod value;

pub use classes::is_known;
pub use error::PickleError;
pub use reader::read;
pub use value::{Object, Value};
