//! What every worker of a job does, stage by stage, as an MXNet script makes its kvstore
//! do it.

use bytes::Bytes;

use super::optimizer::ServerRule;
use pslite_core::store::command::Head;
use pslite_core::values::compression::{Compression, TwoBit};
use pslite_core::values::{SHARED, Space};

/// The threshold of compressed gradients.
const THRESHOLD: f32 = 0.5;

/// One stage; it is over when all that it began is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ScriptStage {
    /// A command of a customer to all servers, by the first worker alone or by everybody.
    Command { customer: Space, head: i32, body: Bytes, everybody: bool },
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
    pub rule: Option<ServerRule>,
    /// Comes in the middle of the job.
    pub second_rule: Option<ServerRule>,
    /// Optimizers apply gradients of narrower types in float32 (`kSetMultiPrecision`).
    pub multi_precision: bool,
    /// Some tensor is compressed.
    pub compressed: bool,
    /// Each worker has a second customer, with as many tensors of its own.
    pub second_customer: Option<SecondCustomer>,
}

/// What servers are to do for the second customer of each worker: as for the first one, but for
/// the optimizer.
#[derive(Clone, Copy, Debug)]
pub struct SecondCustomer {
    /// What applies its gradients.
    pub rule: Option<ServerRule>,
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

    /// How many customers each worker has.
    #[must_use]
    pub const fn customers(&self) -> Space {
        if self.second_customer.is_some() { 2 } else { 1 }
    }

    /// The optimizers of a customer, each with the round after which it comes.
    #[must_use]
    pub fn rules(&self, customer: Space) -> Vec<(u64, ServerRule)> {
        if customer != SHARED {
            let rule = self.second_customer.and_then(|second| second.rule);
            return rule.map(|rule| (0, rule)).into_iter().collect();
        }
        let first = self.rule.map(|rule| (0, rule));
        let second = self.second_rule.map(|rule| (self.middle(), rule));
        first.into_iter().chain(second).collect()
    }

    pub(super) fn stages(&self) -> Vec<ScriptStage> {
        let command = |customer, head: Head, body, everybody| ScriptStage::Command {
            customer,
            head: head.number(),
            body,
            everybody,
        };
        // As `KVStore.set_optimizer` sends it.
        let optimizer = |customer, rule: ServerRule| {
            let rule = command(customer, Head::Controller, Bytes::from(rule.pickled()), true);
            let precision = command(customer, Head::MultiPrecision, Bytes::new(), true);
            std::iter::once(rule).chain(self.multi_precision.then_some(precision))
        };
        let mut stages = Vec::new();
        for customer in 0..self.customers() {
            if self.sync {
                stages.push(command(customer, Head::SyncMode, Bytes::new(), false));
            }
            let compression = self.compression();
            stages
                .extend(compression.map(|body| command(customer, Head::Compression, body, false)));
        }
        stages.extend([ScriptStage::Meet, ScriptStage::Init, ScriptStage::Meet]);
        for customer in 0..self.customers() {
            let first = self.rules(customer).into_iter().find(|(after, _)| *after == 0);
            if let Some((_, rule)) = first {
                stages.extend(optimizer(customer, rule).chain([ScriptStage::Meet]));
            }
        }
        if let Some(rule) = self.second_rule {
            stages.extend([ScriptStage::Train { round: self.middle() }, ScriptStage::Meet]);
            stages.extend(optimizer(SHARED, rule).chain([ScriptStage::Meet]));
        }
        stages.extend([
            ScriptStage::Train { round: self.rounds },
            ScriptStage::Meet,
            ScriptStage::Look,
            ScriptStage::Meet,
        ]);
        stages.extend([command(SHARED, Head::Stop, Bytes::new(), false), ScriptStage::Exit]);
        stages
    }
}
