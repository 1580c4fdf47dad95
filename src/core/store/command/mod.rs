//! What workers command: `head` names the commands, `modes` has what they set, `generations` which
//! optimizers came, `agreements` what workers say alike; `exchanging` what the policy sets in their
//! place, where workers exchange deltas.
//!
//! Pure books. Must not know pieces: what a command does to those is `mxnet`'s.

pub(super) mod agreements;
pub(super) mod exchanging;
pub(super) mod generations;
mod head;
pub(super) mod modes;

pub use self::head::Head;
