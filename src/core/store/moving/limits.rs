//! Bounds of what one server keeps of pieces that move. Pure.

/// Bytes of pieces that are on their way to a new replica, unless one piece is larger.
pub(super) const SEED_BYTES_MAX: usize = 32 << 20;
/// Orders about one key that wait for the end of a round; of more the oldest are forgotten.
pub(super) const ORDERS_MAX: usize = 1 << 10;
/// Rounds of one key whose answers wait for the replica; over it pushes are answered *again*.
pub(super) const ANSWERS_WAITING_MAX: usize = 1 << 12;
/// Commands that are answered when those who joined have obeyed; of more the answer does not wait.
pub(super) const COMMANDS_MAX: usize = 1 << 12;
