//! The pickled optimizer that workers send, read without running anything: plain data, and objects
//! of classes that are on a list.

pub mod value;

pub use value::{Object, Value};
