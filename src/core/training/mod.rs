//! What the scheduler decides about training itself, in place of how values travel. `balance` is
//! LB-BSP: how many samples each worker computes in an iteration (`docs/lbbsp.md`).
//!
//! Pure: time is an argument, and what is to be sent is returned. May use `wire`, `random`, `text`
//! and `invariant`; knows nothing of keys, servers or policies.

pub mod balance;
