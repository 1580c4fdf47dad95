//! The scheduler's end of an exchange (docs/nbsync.md): the real coordinator, asked as `node`'s
//! desk asks it.

use std::time::Duration;

use super::sabotage::Sabotage;
use crate::app::{Output, View};
use pslite_core::cluster::{Event, Tell};
use pslite_core::invariant::Valid;
use pslite_core::training::exchange::ExchangeCoordinator;
use pslite_core::training::exchange::coordinator::ExchangeOutbox;
use pslite_core::wire::exchange::word::ExchangeReport;
use pslite_core::wire::topic::Topic;
use pslite_core::wire::{NodeId, SCHEDULER};

/// Windows and steps follow what is measured that often.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Default)]
pub(super) struct Desk {
    coordinator: Option<ExchangeCoordinator>,
    looked: Duration,
}

impl Desk {
    /// A worker says how it is.
    pub(super) fn asked(
        &mut self,
        view: &View<'_>,
        from: NodeId,
        word: &[u8],
        sabotage: &Sabotage,
        out: &mut Vec<Output>,
    ) {
        let (Some(spec), Some(report)) = (view.cluster.exchange(), ExchangeReport::read(word))
        else {
            return;
        };
        let mut words = ExchangeOutbox::new();
        let coordinator = self.coordinator.get_or_insert_with(|| {
            let mut new = ExchangeCoordinator::new(spec);
            new.awaits(view.cluster.awaited_workers(), &mut words);
            new
        });
        coordinator.handle(from, sabotage.report(report), &mut words);
        say(words, out);
    }

    /// A worker is gone.
    pub(super) fn lost(&mut self, id: NodeId, out: &mut Vec<Output>) {
        self.with(out, |coordinator, words| coordinator.lost(id, words));
    }

    /// Whom rounds wait for may have changed.
    pub(super) fn awaits(&mut self, view: &View<'_>, out: &mut Vec<Output>) {
        self.with(out, |coordinator, words| {
            coordinator.awaits(view.cluster.awaited_workers(), words);
        });
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Duration, out: &mut Vec<Output>) {
        if now.saturating_sub(self.looked) >= LOOK_EVERY {
            self.looked = now;
            self.with(out, ExchangeCoordinator::tick);
        }
    }

    fn with(
        &mut self,
        out: &mut Vec<Output>,
        act: impl FnOnce(&mut ExchangeCoordinator, &mut ExchangeOutbox),
    ) {
        let mut words = ExchangeOutbox::new();
        if let Some(coordinator) = &mut self.coordinator {
            act(coordinator, &mut words);
        }
        say(words, out);
    }

    pub(super) fn validate(&self) -> Valid {
        self.coordinator.as_ref().map_or(Ok(()), ExchangeCoordinator::validate)
    }
}

/// To workers.
fn say(words: ExchangeOutbox, out: &mut Vec<Output>) {
    if !words.is_empty() {
        let tell = words.into_iter().map(|(to, word)| Tell {
            to,
            topic: Topic::Exchange,
            bytes: word.bytes(),
        });
        out.push(Output::Elastic(Event::Tell(tell.collect())));
    }
}

/// To the scheduler.
pub(super) fn tell(report: &ExchangeReport) -> Output {
    let bytes = report.bytes();
    Output::Elastic(Event::Tell(vec![Tell { to: SCHEDULER, topic: Topic::Exchange, bytes }]))
}
