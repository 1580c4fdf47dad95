//! What a customer that trains on a local model says to the scheduler, and hears from it; and what
//! it does while its program computes nothing: where all workers align, and at the end.

use std::time::Duration;

use super::{LocalStep, LocalTraining, Stays};
use crate::training::exchange::Rest;
use crate::training::exchange::rest::Resting;
use crate::wire::NodeId;
use crate::wire::exchange::word::{ExchangeReport, ExchangeWord};

/// A worker says how it is that often.
const SAID_EVERY: Duration = Duration::from_secs(1);

impl LocalTraining {
    /// The scheduler says something.
    pub fn told(&mut self, now: Duration, word: &ExchangeWord, steps: &mut Vec<LocalStep>) {
        if word.window > 0 {
            self.machine.set_window(word.window);
        }
        if word.steps > 0 {
            self.machine.set_steps(word.steps);
        }
        self.missing.clone_from(&word.missing);
        let before = self.aligning.stage();
        self.aligning.told(word);
        if self.aligning.stage() != before {
            self.say(now, steps);
        }
        self.look_at_held(now, steps);
        self.after(now, steps);
    }

    /// Time has passed. Says how it is, once a second.
    pub fn tick(&mut self, now: Duration, steps: &mut Vec<LocalStep>) {
        if self.said.is_none_or(|said| now.saturating_sub(said) >= SAID_EVERY) {
            self.say(now, steps);
        }
    }

    fn say(&mut self, now: Duration, steps: &mut Vec<LocalStep>) {
        self.said = Some(now);
        steps.push(LocalStep::Say(Box::new(self.report(now))));
    }

    /// How it is.
    #[must_use]
    pub fn report(&self, now: Duration) -> ExchangeReport {
        let counts = self.machine.counts();
        let sections = self.machine.section_count();
        let report = ExchangeReport {
            sent: counts.sent,
            iterations: counts.iterations,
            rounds: counts.done,
            sections: u32::try_from(sections).unwrap_or(u32::MAX),
            held: u64::try_from(counts.held.as_micros()).unwrap_or(u64::MAX),
            window: self.machine.window(),
            steps: self.machine.steps(),
            ..ExchangeReport::default()
        };
        self.aligning.report(self.gauge.report(now, sections, report))
    }

    // ---- where all align ------------------------------------------------------------------------

    /// The program computes nothing until all workers are equal ([`Self::is_finished`]). One that
    /// came back waits until all that it has changed is in rounds that are over.
    pub fn finish(&mut self, now: Duration, steps: &mut Vec<LocalStep>) {
        self.finishes = true;
        if !self.who.is_back {
            self.aligning.begin();
        }
        self.after(now, steps);
    }

    /// True if nobody waits any more who asked for [`Self::finish`].
    ///
    /// # Errors
    /// It can never be.
    pub fn is_finished(&self) -> Result<bool, String> {
        match &self.broken {
            Some(why) => Err(why.clone()),
            None => Ok(!self.finishes),
        }
    }

    /// Some of those that this worker waits for where all align.
    #[must_use]
    pub fn missing(&self) -> &[NodeId] {
        &self.missing
    }

    /// Does what can be done where all align.
    pub(super) fn go_on_aligning(&mut self, now: Duration, steps: &mut Vec<LocalStep>) {
        if self.who.is_back {
            return self.finish_alone(steps);
        }
        while let Some(how) = self.aligning.rest()
            && self.broken.is_none()
        {
            let before = (self.aligning.stage(), steps.len());
            let Ok(resting) = self.rest(how, steps) else { return self.end_if_broken(steps) };
            if self.aligning.rested(&resting) {
                self.aligned(now, steps);
                self.say(now, steps);
                return;
            }
            if self.aligning.stage() != before.0 {
                self.say(now, steps);
            } else {
                return;
            }
        }
    }

    /// One that came back does not align.
    fn finish_alone(&mut self, steps: &mut Vec<LocalStep>) {
        if !self.finishes || self.broken.is_some() {
            return;
        }
        match self.rest(Rest::Own, steps) {
            Ok(resting) if resting.is_here && resting.is_done => {
                self.model.settle_all();
                self.finishes = false;
            }
            Ok(_) => {}
            Err(_) => self.end_if_broken(steps),
        }
    }

    /// All workers are equal: the next iteration may begin.
    fn aligned(&mut self, now: Duration, steps: &mut Vec<LocalStep>) {
        self.machine.aligned();
        self.model.settle_all();
        self.finishes = false;
        self.missing.clear();
        self.look_at_held(now, steps);
        self.end_if_broken(steps);
    }

    // ---- the end --------------------------------------------------------------------------------

    /// The program computes nothing any more: what it has not sent goes. To be asked again after
    /// each answer. True once all is in rounds that are over: nobody waits for this worker then.
    ///
    /// # Errors
    /// It can never be: what was changed cannot be sent.
    pub fn leave(&mut self, now: Duration, steps: &mut Vec<LocalStep>) -> Result<bool, String> {
        let rested = self.rest(Rest::Own, steps);
        self.send_in_turn(steps);
        self.end_if_broken(steps);
        let is_over = rested.is_ok_and(|resting| resting.is_here && resting.is_done);
        match &self.broken {
            Some(why) => Err(why.clone()),
            None if is_over => {
                self.aligning.leave();
                self.say(now, steps);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Rests. If that fails, the training is broken.
    fn rest(&mut self, how: Rest, steps: &mut Vec<LocalStep>) -> Result<Resting, ()> {
        if self.broken.is_some() {
            return Err(());
        }
        let mut resting = self.machine.rest(how);
        for (key, act) in std::mem::take(&mut resting.acts) {
            if let Err(Stays::Refused(why)) = self.act(key, act, steps) {
                self.broken.get_or_insert(why);
                return Err(());
            }
        }
        Ok(resting)
    }
}
