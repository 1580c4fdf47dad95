//! Pieces that move: the server's side of docs/elastic.md. Only a job whose nodes all follow pieces
//! has it (`StoreConfig::elastic`); in any other one nothing here is called.
//!
//! Pure like all of the store. It is given requests, transfers of other servers and words of the
//! scheduler, and answers with an [`Outbound`]: answers to workers, transfers to other servers. Its
//! owner promises:
//!
//! - messages of one server to another arrive once and in order; between different pairs any order
//!   will do;
//! - after [`Store::collect`] it gives nothing of a lost server any more (the store ignores it all
//!   the same);
//! - answers and transfers of one call leave in the order in which they stand there.
//!
//! What its owner calls:
//!
//! | call | when |
//! |---|---|
//! | [`Store::serve`] | a push or pull came, with `meta.placed` |
//! | [`Store::obey`] | a command came; tells if the answer is due now or comes in an `Outbound` |
//! | [`Store::transfer`] | another server sent a transfer; an error ends the job |
//! | [`Store::orders`] | the scheduler orders moves |
//! | [`Store::collect`] | the scheduler's word `Collect`; what it returns goes back as `Claims` |
//! | [`Store::policy`] | the scheduler's word `Policy` |
//! | [`Store::news`] | to report to the scheduler, when there are [`Store::changes`] |
//! | [`Store::forget_node`] | a worker is gone, or another process has its id |
//! | [`Store::customer_left`] | a worker's customer sends no more |
//! | [`Store::overlay`] | the scheduler's word `Overlay` |
//!
//! What a server knows is in `state`: of it `kept` has what waits for other servers, `seeds` what a
//! new replica lacks, `settings` what commands said, `parts` how long pieces are. These know of no
//! store. The other files are what a store does with it: `requests` has which piece a request is
//! about, and what waits for one that is on its way; `orders` and `moves` moves; `replicas` what an
//! owner's replica gets and the answers that wait for it, `seeding` what a new one gets, `copies`
//! the replica's side; `promotion` deaths and policies; `commands` what joiners are told; `travel`
//! a piece as a transfer; `workers` whom rounds wait for; `tickets` by which trees rounds go,
//! `choice` which of them a round takes, `questions` what workers are told who ask; `validate` is
//! what all of this promises.

pub(super) mod changes;
mod choice;
mod commands;
mod copies;
mod kept;
mod limits;
mod moves;
mod orders;
pub(super) mod parked;
mod parts;
mod promotion;
mod questions;
mod replicas;
mod requests;
mod seeding;
mod seeds;
mod settings;
mod state;
mod tickets;
mod travel;
mod validate;
mod workers;

use bytes::Bytes;

use super::error::StoreError;
use super::outbound::Outbound;
use super::state::Store;
use crate::wire::NodeId;
use crate::wire::transfer::Transfer;

pub use self::commands::Due;
pub(super) use self::questions::Asked;
pub(super) use self::replicas::{RoundDone, Shipped};
pub(super) use self::requests::Place;
pub(super) use self::state::Elastic;

impl Store {
    /// What another server sent. Of one that is gone nothing counts.
    ///
    /// # Errors
    /// It is malformed, or cannot be: the two servers do not agree any more, and the job cannot go
    /// on.
    pub fn transfer(
        &mut self,
        from: NodeId,
        transfer: &Transfer,
        frames: &[Bytes],
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        self.take_transfer(from, transfer, frames, out)?;
        self.look_at(transfer.piece().map(|piece| piece.key));
        Ok(())
    }

    fn take_transfer(
        &mut self,
        from: NodeId,
        transfer: &Transfer,
        frames: &[Bytes],
        out: &mut Outbound,
    ) -> Result<(), StoreError> {
        let Some(elastic) = &self.elastic else {
            return Err(StoreError::Transfer("no piece moves in this job"));
        };
        if elastic.is_gone(from) {
            return Ok(());
        }
        match transfer {
            Transfer::Move(written) => self.take_move(from, written, frames, out)?,
            Transfer::Moved(piece) => self.take_moved(from, *piece, out),
            Transfer::Forgotten(piece) => self.settled(from, piece, out),
            Transfer::Seed(written) => self.take_seed(from, written, frames, out)?,
            Transfer::Round(sum) => self.take_round(from, sum, frames, out)?,
            Transfer::Confirmed { piece, version } => self.confirmed(from, piece, *version, out),
            Transfer::Cut(cut) => self.take_cut(from, cut)?,
            Transfer::Drop(piece) => self.take_drop(from, *piece, out),
            Transfer::CopyForgotten(piece) => self.copy_gone(from, piece, out),
            Transfer::Command(command) => self.take_command(command, frames)?,
            Transfer::OptimizerCount(count) => self.take_count(count)?,
            Transfer::CommandsEnd(end) => self.take_commands_end(from, end, out),
            Transfer::CommandsConfirmed { until } => self.told(from, *until, out),
            Transfer::MoveOpaque(_) | Transfer::Refused(_) => {
                return Err(StoreError::Transfer("no application's handler keeps the values here"));
            }
            Transfer::Unknown => return Err(StoreError::Transfer("its kind is unknown")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
