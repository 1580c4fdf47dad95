//! Bounds of what one server holds. Pure.

/// Keys that one server holds; more are refused.
pub(in crate::store) const TENSORS_MAX: usize = 1 << 22;
/// Pieces of one key that one server holds; orders that would make more are not followed.
pub(in crate::store) const PIECES_MAX: usize = 1 << 12;
