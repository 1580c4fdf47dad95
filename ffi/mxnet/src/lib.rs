//! The library that is preloaded into the stock MXNet wheel: `libpslite_mxnet.so`.
//!
//! The work is done in `cpp/`, which defines the `ps::` symbols of the wheel (GCC 4.8 layouts, old
//! string ABI) over the C ABI of the crate `ps`. This file only ties both into one library; it
//! adds nothing of its own (see `exports.map`) and runs nothing when the library is loaded.

// The C++ side calls the C ABI, and so may others in the process: it must be linked in.
pub use ps::*;
