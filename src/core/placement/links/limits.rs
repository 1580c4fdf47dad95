//! How much is remembered of links, and told of them, at most.

/// Peers that a node remembers, and nodes that the scheduler remembers, at most; more are ignored.
pub const MOST_PEERS: usize = 16_384;
/// Links that the scheduler remembers, at most.
pub const MOST_LINKS: usize = 1 << 18;
/// Links of which one report tells, at most: those that changed most.
pub const MOST_REPORTED: usize = 256;
