//! Who asks what a server knows of pieces, and who changes it: both borrow what they need for one
//! event. What they do is in the files around, which may name this one; it must name none of them.

use bytes::Bytes;

use super::state::Elsewhere;
use crate::store::error::StoreError;
use crate::store::holdings::Holdings;
use crate::store::outbound::Outbound;
use crate::wire::NodeId;
use crate::wire::transfer::Transfer;

/// Looks where pieces are, and what is known of them.
#[derive(Clone, Copy)]
pub(in crate::store) struct Whereabouts<'a> {
    pub(in crate::store) held: &'a Holdings,
    pub(in crate::store) known: &'a Elsewhere,
}

/// Moves, copies and takes over pieces, and says what is due.
pub(in crate::store) struct Mover<'a> {
    pub(in crate::store) held: &'a mut Holdings,
    pub(in crate::store) known: &'a mut Elsewhere,
    pub(in crate::store) out: &'a mut Outbound,
}

impl Mover<'_> {
    /// The same, to look only.
    pub(super) fn look(&self) -> Whereabouts<'_> {
        Whereabouts { held: self.held, known: self.known }
    }

    /// See `Store::transfer`.
    pub(in crate::store) fn transfer(
        &mut self,
        from: NodeId,
        transfer: &Transfer,
        frames: &[Bytes],
    ) -> Result<(), StoreError> {
        if self.known.servers.is_gone(from) {
            return Ok(());
        }
        match transfer {
            Transfer::Move(written) => self.take_move(from, written, frames)?,
            Transfer::Moved(piece) => self.take_moved(from, *piece),
            Transfer::Forgotten(piece) => self.settled(from, piece),
            Transfer::Seed(written) => self.take_seed(from, written, frames)?,
            Transfer::Round(sum) => self.take_round(from, sum, frames)?,
            Transfer::Confirmed { piece, version } => self.confirmed(from, piece, *version),
            Transfer::Cut(cut) => self.take_cut(from, cut)?,
            Transfer::Drop(piece) => self.take_drop(from, *piece),
            Transfer::CopyForgotten(piece) => self.copy_gone(from, piece),
            Transfer::Command(command) => self.take_command(command, frames)?,
            Transfer::OptimizerCount(count) => self.take_count(count)?,
            Transfer::CommandsEnd(end) => self.take_commands_end(from, end),
            Transfer::CommandsConfirmed { until } => self.told(from, *until),
            Transfer::MoveOpaque(_) | Transfer::Refused(_) => {
                return Err(StoreError::Transfer("no application's handler keeps the values here"));
            }
            Transfer::Unknown => return Err(StoreError::Transfer("its kind is unknown")),
        }
        Ok(())
    }
}
