//! The clock of one process, as the van has it: it stands still while the process does.

use std::time::Duration;

use pslite_core::awake::AwakeClock;

/// See the module. It begins with the time of the world.
#[derive(Debug)]
pub(super) struct OwnClock {
    began: Duration,
    clock: AwakeClock,
    /// Planted: it goes on while the process stands still.
    never_stops: bool,
    /// How much of what did not count was told.
    told: Duration,
}

impl OwnClock {
    pub(super) fn new(began: Duration, never_stops: bool) -> Self {
        Self { began, clock: AwakeClock::new(), never_stops, told: Duration::ZERO }
    }

    /// The time here when it is that late in the world.
    pub(super) fn read(&self, world: Duration) -> Duration {
        if self.never_stops {
            return world;
        }
        self.began + self.clock.read(world.saturating_sub(self.began))
    }

    /// When it is that late here, if the process goes on meanwhile.
    pub(super) fn in_world(&self, own: Duration) -> Duration {
        own.saturating_add(self.clock.missed())
    }

    /// True once after each pause.
    pub(super) fn stood_still(&mut self) -> bool {
        let missed = self.clock.missed();
        std::mem::replace(&mut self.told, missed) != missed
    }
}
