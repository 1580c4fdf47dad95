//! Bounds of what one server holds. Pure.

/// Keys that one server holds; more are refused.
pub(in crate::store) const TENSORS_MAX: usize = 1 << 22;
