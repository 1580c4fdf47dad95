//! Mistakes of workers that exchange deltas, and of the scheduler where they align.

use bytes::Bytes;

use super::{Plant, Sabotage};
use pslite_core::values::KeyPart;
use pslite_core::wire::Key;
use pslite_core::wire::exchange::word::ExchangeReport;
use pslite_core::worker::LocalStep;

impl Sabotage {
    /// True if a worker leaves without its last stretch.
    pub(in crate::jobs) fn forgets_the_end(&self) -> bool {
        self.is(Plant::LastStretchLost)
    }

    /// The value that servers answered of a key, as the local model is told it.
    pub(in crate::jobs) fn global(&mut self, key: Key, value: Bytes) -> Bytes {
        let whole = KeyPart { key, from: 0, to: 0 };
        let first = self.values.entry(whole).or_insert_with(|| value.clone()).clone();
        if self.is(Plant::SwapForgotten) { first } else { value }
    }

    /// True if those that align wait for the dead.
    pub(in crate::jobs) fn meets_the_dead(&self) -> bool {
        self.is(Plant::MeetingAwaitsTheDead)
    }

    /// What a worker says of itself, as the coordinator of the exchange hears it.
    pub(in crate::jobs) fn report(&self, report: ExchangeReport) -> ExchangeReport {
        let sent = if self.is(Plant::AlignsAtTheFirst) { 0 } else { report.sent };
        ExchangeReport { sent, ..report }
    }

    /// What a local model says is to be done, as it is done.
    pub(in crate::jobs) fn in_turn(&self, steps: &mut [LocalStep]) {
        if self.is(Plant::TurnsMixed) {
            let is_send = |step: &LocalStep| matches!(step, LocalStep::Send(_));
            let first = steps.iter().position(is_send);
            let last = steps.iter().rposition(is_send);
            if let (Some(first), Some(last)) = (first, last) {
                steps.swap(first, last);
            }
        }
    }

    /// A delta, as it is sent.
    pub(in crate::jobs) fn delta(&self, delta: Bytes, is_first: bool) -> Bytes {
        if is_first && self.is(Plant::FirstDeltaTwice) { times(&delta, 2.0) } else { delta }
    }
}

/// Float32 values, multiplied.
pub(super) fn times(values: &[u8], by: f32) -> Bytes {
    let (words, _) = values.as_chunks::<4>();
    words.iter().flat_map(|word| (f32::from_ne_bytes(*word) * by).to_ne_bytes()).collect()
}
