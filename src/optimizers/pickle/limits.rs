//! The limits of what is read of a pickle: they hold whatever its sender wrote.

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
