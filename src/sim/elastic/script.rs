//! What every worker of an elastic job does, stage by stage, as an MXNet script makes its kvstore
//! do it.

use bytes::Bytes;

use super::optimizer::Rule;
use pslite_core::store::command::Head;
use pslite_core::values::compression::{Compression, TwoBit};

/// The threshold of compressed gradients.
const THRESHOLD: f32 = 0.5;

/// One stage; it is over when all that it began is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stage {
    /// A command to all servers, by the first worker alone or by everybody.
    Command { head: i32, body: Bytes, everybody: bool },
    /// All workers meet.
    Meet,
    /// The first worker makes all tensors.
    Init,
    /// Pushes and pulls, up to that round of each tensor.
    Train { round: u64 },
    /// Pulls all tensors once more.
    Look,
    /// Leaves the job.
    Exit,
}

/// How the servers are to work.
#[derive(Clone, Debug)]
pub struct Program {
    /// `dist_sync`.
    pub sync: bool,
    /// Pushes of each tensor by each worker.
    pub rounds: u64,
    /// What applies gradients; none: the sum of a round takes the value's place.
    pub rule: Option<Rule>,
    /// Comes in the middle of the job.
    pub second_rule: Option<Rule>,
    /// Some tensor is compressed.
    pub compressed: bool,
}

impl Program {
    /// The round after which the second optimizer comes.
    #[must_use]
    pub const fn middle(&self) -> u64 {
        self.rounds / 2
    }

    /// The body of the command that sets compression.
    #[must_use]
    pub fn compression(&self) -> Option<Bytes> {
        let body = || TwoBit::new(THRESHOLD).ok().map(|two| Compression::TwoBit(two).to_body());
        self.compressed.then(body).flatten().map(|text| text.into_bytes().into())
    }

    /// The optimizers, each with the round after which it comes.
    #[must_use]
    pub fn rules(&self) -> Vec<(u64, Rule)> {
        let first = self.rule.map(|rule| (0, rule));
        let second = self.second_rule.map(|rule| (self.middle(), rule));
        first.into_iter().chain(second).collect()
    }

    pub(super) fn stages(&self) -> Vec<Stage> {
        let command =
            |head: Head, body, everybody| Stage::Command { head: head.number(), body, everybody };
        let optimizer = |rule: Rule| command(Head::Controller, Bytes::from(rule.pickled()), true);
        let mut stages = Vec::new();
        if self.sync {
            stages.push(command(Head::SyncMode, Bytes::new(), false));
        }
        stages.extend(self.compression().map(|body| command(Head::Compression, body, false)));
        stages.extend([Stage::Meet, Stage::Init, Stage::Meet]);
        if let Some(rule) = self.rule {
            stages.extend([optimizer(rule), Stage::Meet]);
        }
        if let Some(rule) = self.second_rule {
            stages.extend([Stage::Train { round: self.middle() }, Stage::Meet]);
            stages.extend([optimizer(rule), Stage::Meet]);
        }
        stages.extend([Stage::Train { round: self.rounds }, Stage::Meet, Stage::Look, Stage::Meet]);
        stages.extend([command(Head::Stop, Bytes::new(), false), Stage::Exit]);
        stages
    }
}
