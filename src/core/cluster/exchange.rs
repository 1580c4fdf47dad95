//! Training while deltas travel (`docs/nbsync.md`): the scheduler decides it when the job is
//! complete, before any key is made, and each policy says it. A job that cannot do it does not
//! begin, since the program would train in another way than it was asked to. What it means is not
//! known here.

use super::{Action, Cluster, JobFailure, JobFailureKind};
use crate::chronicle::{JobEventKind, NewEvent};
use crate::wire::exchange::ExchangeSpec;
use crate::wire::{EMPTY, Node};

/// Why a node is turned away that comes later.
pub(super) const CANNOT: &str =
    "it cannot exchange deltas, as the others do: its version is older, or it has no store";

/// Why a node of ours cannot.
const LACKS: &str = "cannot: its version is older, or its values are in an \
    application's own handler";

impl Cluster {
    /// How this job's workers train while deltas travel, as the policy in force says; `None`: they
    /// push gradients, or there is no policy.
    #[must_use]
    pub const fn exchange(&self) -> Option<ExchangeSpec> {
        self.elastic.policy.exchange
    }

    /// Scheduler: all members are known, and it is decided whether pieces move. True if the job
    /// ends, since its owner wants an exchange and somebody cannot do it.
    pub(super) fn refuses_exchange(&mut self, out: &mut Vec<Action>) -> bool {
        if self.config.exchange.is_none() {
            return false;
        }
        let Some((who, why)) = self.cannot_exchange() else { return false };
        let text = format!("the job cannot begin with an exchange (PSLITE_SYNC): {who} {why}");
        self.fail_everywhere(EMPTY, JobFailure { kind: JobFailureKind::Config, text }, out);
        true
    }

    /// Scheduler: the job begins with it, or goes on.
    pub(super) fn say_exchange(&self, out: &mut Vec<Action>) {
        if let Some(spec) = self.exchange() {
            let text = format!("exchange: {}", spec.describe());
            Self::say(out, NewEvent::info(JobEventKind::Note, text));
        }
    }

    /// The first node that keeps the job from an exchange, and why.
    #[must_use]
    pub fn cannot_exchange(&self) -> Option<(String, &'static str)> {
        let first = |fails: fn(&Node) -> bool| self.members.values().find(|node| fails(node));
        if let Some(node) = first(|node| !node.is_ours()) {
            return Some((node.describe(), "is stock"));
        }
        if let Some(node) = first(|node| !node.is_elastic()) {
            return Some((
                node.describe(),
                "does not follow keys that move; docs/elastic.md says with what settings none does",
            ));
        }
        let node = first(|node| !node.can_exchange())?;
        Some((node.describe(), LACKS))
    }

    /// Scheduler: with which the job of a journal began. Says so if this process was told
    /// otherwise.
    pub(super) fn exchange_that_is_kept(&self) -> Option<&'static str> {
        let (told, kept) = (self.config.exchange, self.elastic.policy.exchange);
        match (told, kept) {
            (told, kept) if told == kept => None,
            (_, Some(_)) => Some(
                "the job of the journal began with another PSLITE_SYNC than this scheduler has, \
                 and goes on with that",
            ),
            (_, None) => Some(
                "PSLITE_SYNC has no effect: the job of the journal began without it, and goes on \
                 without",
            ),
        }
    }
}
