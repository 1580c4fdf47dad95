//! Whether the job would do better with one server more, or as well with one fewer
//! (docs/algorithms.md 4.6).

use std::time::Duration;

use crate::placement::cost::Model;
use crate::wire::NodeId;

/// When to say so.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingParameters {
    /// A server is not needed if the round without it is longer by no more than that part.
    pub needless: f64,
    /// In so many looks in a row.
    pub looks: u32,
    /// One more server only if exchanging takes more than that part of a round.
    pub bottleneck: f64,
    /// Between two steps.
    pub pause: Duration,
    /// Rounds over which a step has to pay.
    pub horizon: f64,
    /// Servers that stay, at least.
    pub least: usize,
}

impl Default for ScalingParameters {
    fn default() -> Self {
        Self {
            needless: 0.02,
            looks: 3,
            bottleneck: 0.5,
            pause: Duration::from_secs(30),
            horizon: 100.0,
            least: 1,
        }
    }
}

/// A step in the number of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaling {
    /// This server in reserve would make rounds shorter.
    Out(NodeId),
    /// Rounds would be as short without this server.
    In(NodeId),
}

/// Looks at the job from time to time.
#[derive(Clone, Debug, Default)]
pub struct Scaler {
    parameters: ScalingParameters,
    /// What the last looks said, and how many in a row.
    candidate: Option<(Scaling, u32)>,
    last_step: Option<Duration>,
}

impl Scaler {
    /// With these parameters.
    #[must_use]
    pub const fn new(parameters: ScalingParameters) -> Self {
        Self { parameters, candidate: None, last_step: None }
    }

    /// One look. `reserve`: servers of the model that are not usable but could be. `total`: bytes
    /// of a round; `round`: its seconds as measured; `move_rate`: bytes per second at which pieces
    /// move.
    pub fn look(
        &mut self,
        now: Duration,
        model: &Model,
        reserve: &[NodeId],
        (total, round, move_rate): (f64, f64, f64),
    ) -> Option<Scaling> {
        let step = self
            .more(model, reserve, (total, round, move_rate))
            .or_else(|| self.fewer(model, total));
        let looks = match (step, self.candidate) {
            (Some(step), Some((same, looks))) if step == same => looks.saturating_add(1),
            _ => 1,
        };
        self.candidate = step.map(|step| (step, looks));
        let paused =
            self.last_step.is_some_and(|last| now.saturating_sub(last) < self.parameters.pause);
        step.filter(|_| looks >= self.parameters.looks && !paused)
    }

    /// A step is taken.
    pub const fn stepped(&mut self, now: Duration) {
        self.last_step = Some(now);
        self.candidate = None;
    }

    fn more(
        &self,
        model: &Model,
        reserve: &[NodeId],
        (total, round, move_rate): (f64, f64, f64),
    ) -> Option<Scaling> {
        // Workers seem to be full whenever servers are: what they can send shows only when servers
        // can take more. So servers alone are looked at, and the step is judged by what comes of
        // it.
        let model = model.without_workers();
        let now = model.bound(total);
        if now <= self.parameters.bottleneck * round {
            return None;
        }
        let saved = |id: &NodeId| now - model.with_usable(*id, true).bound(total);
        let best = reserve.iter().max_by(|a, b| saved(a).total_cmp(&saved(b)))?;
        #[allow(clippy::cast_precision_loss, reason = "a count of servers")]
        let many = model.servers().iter().filter(|server| server.usable).count() as f64 + 1.0;
        let cost = total / many / move_rate.max(1.0);
        // More than what would be given back at the next look.
        let worth = saved(best) > 2.0 * self.parameters.needless * now;
        (worth && saved(best) * self.parameters.horizon > cost).then_some(Scaling::Out(*best))
    }

    fn fewer(&self, model: &Model, total: f64) -> Option<Scaling> {
        let usable: Vec<_> = model.servers().iter().filter(|server| server.usable).collect();
        if usable.len() <= self.parameters.least.max(1) {
            return None;
        }
        let now = model.bound(total);
        let without = |id: NodeId| model.with_usable(id, false).bound(total);
        let slowest = usable.iter().min_by(|a, b| {
            let rate = |server: &crate::placement::cost::Server| {
                server.up.min(server.down) / server.slowdown / (1.0 + server.fixed)
            };
            rate(a).total_cmp(&rate(b))
        })?;
        (without(slowest.id) <= now * (1.0 + self.parameters.needless))
            .then_some(Scaling::In(slowest.id))
    }
}
