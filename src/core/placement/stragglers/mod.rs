//! Planner C: what workers see of the servers (PSLD; docs/algorithms.md 4). Cards do not explain
//! everything: a server whose processor is busy elsewhere is slow with the best network. So workers
//! time each server, and where one takes longer than its card says, that is learnt and planned
//! with.
//!
//! [`Profile`] runs on each worker, the rest on the scheduler. Pure; time and chance are arguments.
//! Must not decide what moves: it corrects the model, and planner A plans with it
//! (docs/algorithms.md 4.9).

mod cause;
mod fit;
mod times;
mod trial;

#[cfg(test)]
mod tests;

pub use cause::{Cause, Evidence, cause};
pub use times::{IterationTime, Profile, ServerTime, SlowWorker, TimedRound, Times, WorkerReport};
pub use trial::{Trial, Verdict, verdict};

use std::collections::BTreeMap;
use std::time::Duration;

use super::statistics::{lower_median, median};
use crate::placement::tuning::{
    EXPLORATION, EXPLORATION_BOLDNESS, EXPLORATION_CALM, EXPLORATION_RESIDUAL, FADE_AFTER,
    FADE_HALF, FIT_FORGETTING, FIT_REGIME, FIXED_MIN, SLOWDOWN_MAX, STRAGGLER_ABOVE,
    STRAGGLER_REPORTS, TELLING_FRACTION,
};
use crate::wire::NodeId;
use fit::Fit;

/// What counts as a straggler, and how boldly to experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct StragglerParameters {
    /// A straggler takes longer than the mean of all by that fraction (docs/algorithms.md 4.3), ...
    pub theta: f64,
    /// ... in so many reports in a row (docs/algorithms.md 4.3).
    pub reports: u32,
    /// What an observation weighs after one more (docs/algorithms.md 4.5).
    pub forgetting: f64,
    /// A time that far from the expected one means that something has changed
    /// (docs/algorithms.md 4.5).
    pub regime: f64,
    /// How often a plan tries something else than the best known (docs/algorithms.md 4.5).
    pub exploration: f64,
    /// What the exploration is multiplied with at each report without a straggler
    /// (docs/algorithms.md 4.5).
    pub calm: f64,
    /// Deviation of the logarithm of what is tried (docs/algorithms.md 4.5).
    pub boldness: f64,
    /// Only servers whose times are that far from the expected ones are experimented with.
    pub residual: f64,
}

impl Default for StragglerParameters {
    fn default() -> Self {
        Self {
            theta: STRAGGLER_ABOVE,
            reports: STRAGGLER_REPORTS,
            forgetting: FIT_FORGETTING,
            regime: FIT_REGIME,
            exploration: EXPLORATION,
            calm: EXPLORATION_CALM,
            boldness: EXPLORATION_BOLDNESS,
            residual: EXPLORATION_RESIDUAL,
        }
    }
}

/// Seconds, or fractions of the bytes, that can be meant: reports come over the wire.
const LIKELY: std::ops::Range<f64> = 1e-9..1e9;

/// One server, as workers see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// The server.
    pub server: NodeId,
    /// Seconds from the first push to the last answer, median over workers.
    pub seconds: f64,
    /// Seconds that its card explains; without cards its share of the bytes. What is learnt is how
    /// the one follows from the other.
    pub expected: f64,
    /// Seconds that its card cannot be faster than; 0 without cards. A server may answer all that
    /// workers ask for and go on receiving copies of others: that it was early for them does not
    /// make the others slow.
    pub at_least: f64,
}

impl Seen {
    /// What is compared with the card, and with the other servers.
    fn taken(&self) -> f64 {
        self.seconds.max(self.at_least)
    }
}

/// What the card of a server does not explain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correction {
    /// Seconds that it takes for each that its card explains, compared with the other servers.
    pub slowdown: f64,
    /// Seconds that it takes whatever it holds, more than the others.
    pub fixed: f64,
}

impl Correction {
    /// The card explains everything.
    pub const NONE: Self = Self { slowdown: 1.0, fixed: 0.0 };
}

#[derive(Clone, Debug)]
struct KnownServer {
    fit: Fit,
    seconds: f64,
    residual: f64,
    above: u32,
    /// It was a straggler, and is still slower than its card says.
    corrected: bool,
    seen: Duration,
}

/// All servers, as workers see them.
#[derive(Clone, Debug)]
pub struct Stragglers {
    parameters: StragglerParameters,
    servers: BTreeMap<NodeId, KnownServer>,
    exploration: f64,
}

impl Stragglers {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(parameters: StragglerParameters) -> Self {
        let exploration = parameters.exploration;
        Self { parameters, servers: BTreeMap::new(), exploration }
    }

    /// One report of all servers that hold something.
    pub fn observe(&mut self, now: Duration, seen: &[Seen]) {
        let sane = |seen: &&Seen| {
            let good = |number: f64| LIKELY.contains(&number);
            good(seen.seconds) && good(seen.expected)
        };
        let longest = seen.iter().filter(sane).map(|seen| seen.expected).fold(0.0, f64::max);
        let telling = |seen: &&Seen| sane(seen) && seen.expected >= TELLING_FRACTION * longest;
        let seen: Vec<&Seen> = seen.iter().filter(telling).collect();
        #[allow(clippy::cast_precision_loss, reason = "a count of servers")]
        let mean = seen.iter().map(|seen| seen.taken()).sum::<f64>() / seen.len().max(1) as f64;
        for one in seen {
            self.observe_one(now, one, one.taken() > (1.0 + self.parameters.theta) * mean);
        }
        self.settle(now);
    }

    fn observe_one(&mut self, now: Duration, seen: &Seen, above: bool) {
        let parameters = &self.parameters;
        let known = self.servers.entry(seen.server).or_insert_with(|| KnownServer {
            fit: Fit::new(seen.expected, seen.taken()),
            seconds: seen.seconds,
            residual: 0.0,
            above: 0,
            corrected: false,
            seen: now,
        });
        let predicted = known.fit.predict(seen.expected);
        known.residual = (seen.taken() - predicted).abs() / predicted.max(f64::MIN_POSITIVE);
        if known.residual > parameters.regime {
            known.fit = Fit::new(seen.expected, seen.taken());
            self.exploration = parameters.exploration;
        } else {
            known.fit.observe(seen.expected, seen.taken(), parameters.forgetting);
        }
        known.seconds = seen.seconds;
        known.seen = now;
        known.above = if above { known.above.saturating_add(1) } else { 0 };
        known.corrected |= known.above >= parameters.reports;
    }

    /// Ends corrections that are no longer needed, and lets curiosity go while all is well.
    fn settle(&mut self, now: Duration) {
        let theta = self.parameters.theta;
        let raw: Vec<(NodeId, Correction)> =
            self.servers.keys().map(|server| (*server, self.raw(*server, now))).collect();
        for (server, raw) in raw {
            if let Some(known) = self.servers.get_mut(&server) {
                known.corrected &= raw.slowdown > 1.0 + theta || raw.fixed > 0.0;
            }
        }
        if self.stragglers().next().is_none() {
            self.exploration *= self.parameters.calm;
        }
    }

    /// The servers that have been too slow for long enough.
    pub fn stragglers(&self) -> impl Iterator<Item = NodeId> {
        let long_enough = |known: &KnownServer| known.above >= self.parameters.reports;
        self.servers.iter().filter(move |(_, known)| long_enough(known)).map(|(server, _)| *server)
    }

    /// The seconds last seen of a server.
    #[must_use]
    pub fn seconds(&self, server: NodeId) -> Option<f64> {
        self.servers.get(&server).map(|known| known.seconds)
    }

    /// What to correct about a server. [`Correction::NONE`] unless it has been a straggler.
    #[must_use]
    pub fn correction(&self, server: NodeId, now: Duration) -> Correction {
        if self.servers.get(&server).is_some_and(|known| known.corrected) {
            self.raw(server, now)
        } else {
            Correction::NONE
        }
    }

    /// Seconds for each unit of `expected`, straggler or not: all that is known without cards.
    #[must_use]
    pub fn slope(&self, server: NodeId) -> Option<f64> {
        self.servers.get(&server).map(|known| known.fit.slope())
    }

    /// The slope of the usual server.
    #[must_use]
    pub fn usual_slope(&self) -> Option<f64> {
        lower_median(self.servers.values().map(|known| known.fit.slope()))
    }

    /// What was learnt of a server, compared with the others.
    fn raw(&self, server: NodeId, now: Duration) -> Correction {
        let (Some(known), Some(usual)) = (self.servers.get(&server), self.usual_slope()) else {
            return Correction::NONE;
        };
        let slowdown = (known.fit.slope() / usual).clamp(1.0 / SLOWDOWN_MAX, SLOWDOWN_MAX);
        let idle = now.saturating_sub(known.seen).saturating_sub(FADE_AFTER);
        let faded = (-idle.as_secs_f64() / FADE_HALF.as_secs_f64()).exp2();
        // What all servers take is not theirs: workers compute meanwhile.
        let all = median(self.servers.values().map(|known| known.fit.fixed())).unwrap_or(0.0);
        let fixed = known.fit.fixed() - all;
        let fixed = if fixed > FIXED_MIN * known.seconds { fixed * faded } else { 0.0 };
        Correction { slowdown: slowdown.powf(faded), fixed }
    }

    /// What to try instead: as rarely as the exploration says, a factor for the share of each
    /// server whose times are far from the expected ones. `random` gives numbers evenly from [0,
    /// 1).
    pub fn explore(&self, random: &mut dyn FnMut() -> f64) -> BTreeMap<NodeId, f64> {
        if random() >= self.exploration {
            return BTreeMap::new();
        }
        let odd =
            self.servers.iter().filter(|(_, known)| known.residual > self.parameters.residual);
        odd.map(|(server, _)| (*server, (self.parameters.boldness * normal(random)).exp()))
            .collect()
    }

    /// A plan made the rounds longer: be more careful (docs/algorithms.md 4.5).
    pub fn failed(&mut self) {
        self.exploration *= 0.5;
    }

    /// How often a plan tries something else.
    #[must_use]
    pub const fn exploration(&self) -> f64 {
        self.exploration
    }

    /// A server is gone, or what was learnt of it no longer holds.
    pub fn forget(&mut self, server: NodeId) {
        self.servers.remove(&server);
    }
}

/// A number around 0 with deviation 1, by the method of Box and Muller.
fn normal(random: &mut dyn FnMut() -> f64) -> f64 {
    let radius = (-2.0 * (1.0 - random().clamp(0.0, 0.999_999)).ln()).sqrt();
    radius * (std::f64::consts::TAU * random()).cos()
}
