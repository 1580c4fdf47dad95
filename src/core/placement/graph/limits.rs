//! How large a graph may be, and how exact shares are.

/// Sites of a graph, at most: the routes of all pairs are kept.
pub const MOST_SITES: usize = 256;
/// Shares that add up to 1 within that do add up.
pub(super) const SHARE_SLACK: f64 = 1e-6;
