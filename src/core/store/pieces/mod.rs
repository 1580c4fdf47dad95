//! A piece: its value, the round that it waits for, who has pushed to that, and what has counted.
//!
//! `tensor` has pieces and where they are in their tensor; `round` what a piece waits for, of
//! `contribution`s of `contributors`, and `awaited` whose pushes those are to be; `marks` which
//! pushes, by their `name`, have counted; `sums` what pushes bring; `stalls` which rounds wait;
//! `limits` how many tensors there may be.
//!
//! Pure. May touch `wire` types and `values`. Must know neither requests nor other servers: nothing
//! of the store but its errors.

pub(super) mod awaited;
pub(super) mod contribution;
mod contributors;
pub(super) mod limits;
pub(super) mod marks;
pub(super) mod name;
pub(super) mod round;
pub(super) mod stalls;
pub(super) mod sums;
pub(super) mod tensor;
mod update;
