//! The van's clock thread. At each tick it reads which channels came up or went down, sends again
//! what was not confirmed in time, and wakes the state machines whose time has come. As it wakes
//! many times a second, the clock of this process counts all time in which it runs, and it finds
//! that the process stood still. May touch the van; decides nothing itself.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::{TICK, Van};
use crate::running::RunningNode;
use crate::sync::lock;
use pslite_core::chronicle::{JobEventKind, NewEvent};
use pslite_core::cluster::Event;
use pslite_observe::awake;
use pslite_observe::log::RateLimit;
use pslite_transport::carrier::SendMode;
use pslite_transport::zmq::NumberedEvent;

/// When it is looked again whether there is room for what waits, if there just was.
const SOON: Duration = Duration::from_millis(2);
/// A pause that is worth a line. A busy machine makes shorter ones.
const LONG_PAUSE: Duration = Duration::from_secs(5);

impl Van {
    /// Ticks until the node stops.
    pub(super) fn keep_time(self: &Arc<Self>) {
        let mut watches = Default::default();
        let mut missed = awake::missed();
        let mut events: Vec<NumberedEvent> = Vec::new();
        while !self.stopping.load(Ordering::Relaxed) {
            if let Some(door) = &self.web {
                door.note_tick();
            }
            self.look_for_pause(&mut missed);
            events.clear();
            self.transport.channel_events(&mut events);
            events.iter().for_each(|event| self.handle_channel(*event));
            if !events.is_empty() {
                self.job.tell();
            }
            self.watch_inline_handlers(&mut watches);
            self.watch_native();
            self.resend_due();
            self.customers.tick_gates();
            self.customers.report_stalls();
            if self.state.is_elastic() {
                self.customers.retry_waiting();
                self.customers.beat(self.now());
                self.measure();
                self.plan();
            }
            self.balance();
            self.tell_totals();
            self.event(Event::Tick);
            self.look_at_waits();
            self.rest();
        }
        self.say_last_carriers();
    }

    /// Finds that this process, or its machine, stood still since the last tick.
    fn look_for_pause(&self, told: &mut Duration) {
        static SAID: OnceLock<RateLimit> = OnceLock::new();
        // Nobody may have read it since.
        let _ = self.now();
        let missed = awake::missed();
        let pause = missed.saturating_sub(std::mem::replace(told, missed));
        if pause.is_zero() {
            return;
        }
        // All nodes of the process find it.
        let said = SAID.get_or_init(|| RateLimit::new(LONG_PAUSE));
        if pause >= LONG_PAUSE && said.hit().is_some() {
            let seconds = pause.as_secs_f64();
            let text = format!(
                "this process stood still for {seconds:.1} s (it was stopped, or its machine was): \
                 that is not counted as silence of others"
            );
            self.state.say(&NewEvent::warning(JobEventKind::Note, text));
        }
        self.event(Event::StoodStill);
    }

    /// Sleeps until the next tick. What waits for room goes on meanwhile, as long as peers take it:
    /// a connection takes as many messages at a time as its water mark says, however soon it is
    /// ready for more.
    fn rest(&self) {
        let until = self.now().saturating_add(self.sleep());
        loop {
            let flushed = self.transport.flush();
            let held = self.send_held();
            let left = until.saturating_sub(self.now());
            let moves = (flushed.sent && flushed.left) || (held.sent && held.left);
            if left.is_zero() || self.stopping.load(Ordering::Relaxed) {
                return;
            }
            std::thread::park_timeout(if moves { left.min(SOON) } else { left });
            if !moves {
                return;
            }
        }
    }

    fn sleep(&self) -> Duration {
        let now = self.now();
        let mut sleep = TICK;
        if let Some(at) = self.job.lock().cluster.next_deadline() {
            sleep = sleep.min(at.saturating_sub(now));
        }
        if let Some(resender) = &self.resender
            && let Some(at) = lock(resender).next_deadline()
        {
            sleep = sleep.min(at.saturating_sub(now));
        }
        sleep.max(Duration::from_millis(1))
    }

    fn resend_due(&self) {
        let Some(resender) = &self.resender else { return };
        let mut again = Vec::new();
        let mut gave_up = Vec::new();
        lock(resender).tick(self.now(), &mut again, &mut gave_up);
        for (to, message) in again {
            // A failure here is found by the next tick, or by the channel itself.
            let _ = self.post(to, &message, SendMode::Control);
        }
        for id in gave_up {
            self.event(Event::Unreachable { id });
        }
    }
}
