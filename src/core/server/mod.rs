//! What a server joins of its rooms, in one place for `node` and the simulator: the store and what
//! the scheduler is told of it (`side`, `claims`), and the messages that it sends (`messages`). May
//! touch the rooms of `core` below it. Pure: what arrived is an argument; what is to be done is
//! returned.

mod claims;
pub mod messages;
mod side;

pub use claims::Claims;
pub use side::{ServerOutput, ServerSide};
