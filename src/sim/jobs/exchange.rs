//! What a worker and the scheduler of a simulated job say to each other of an exchange
//! (docs/nbsync.md).

use crate::app::Output;
use pslite_core::cluster::{Event, Tell};
use pslite_core::training::exchange::coordinator::ExchangeOutbox;
use pslite_core::wire::SCHEDULER;
use pslite_core::wire::exchange::word::ExchangeReport;
use pslite_core::wire::topic::Topic;

/// To workers.
pub(super) fn say(words: ExchangeOutbox, out: &mut Vec<Output>) {
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
