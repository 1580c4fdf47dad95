//! Mistakes in jobs whose keys stay where they are.

use bytes::Bytes;

use super::{Plant, Sabotage};
use pslite_core::wire::Frames;

/// Between two pushes that [`Plant::PushesForgotten`] forgets.
const FORGOTTEN_EVERY: u64 = 3;

impl Sabotage {
    /// True if resenders deliver repetitions.
    pub(in crate::jobs) fn repeats(plant: Option<Plant>) -> bool {
        plant == Some(Plant::RepetitionsDelivered)
    }

    /// True if nobody notices that connections break.
    pub(in crate::jobs) fn sees_no_breaks(plant: Option<Plant>) -> bool {
        plant == Some(Plant::BreaksNotSeen)
    }

    /// True if what comes of a lost node is answered at once.
    pub(in crate::jobs) fn answers_the_lost(plant: Option<Plant>) -> bool {
        plant == Some(Plant::LostAnswered)
    }

    /// True if the place of a dead worker is not kept for its successor.
    pub(in crate::jobs) fn frees_places(&self) -> bool {
        self.is(Plant::PlacesFreed)
    }

    /// The frames of a request, as the store is given them.
    pub(in crate::jobs) fn pushed(&mut self, push: bool, mut frames: Frames) -> Frames {
        self.pushes += u64::from(push);
        if push
            && self.is(Plant::PushesForgotten)
            && self.pushes.is_multiple_of(FORGOTTEN_EVERY)
            && let Some(values) = frames.get_mut(1)
        {
            *values = Bytes::from(vec![0; values.len()]);
        }
        frames
    }
}
