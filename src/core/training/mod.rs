//! What the scheduler decides about training itself, in place of how values travel. `balance` is
//! LB-BSP: how many samples each worker computes in an iteration (`docs/lbbsp.md`). `exchange` is
//! NBSync: when a worker sends what it has changed, and takes what the others have
//! (`docs/nbsync.md`).
//!
//! Pure: time is an argument, and what is to be sent is returned. May use `wire`, `random`, `text`
//! and `invariant`; knows nothing of servers or policies. `exchange` is told wire keys, and knows
//! nothing of what they hold.

pub mod balance;
pub mod exchange;
