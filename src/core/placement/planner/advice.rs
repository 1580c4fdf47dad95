//! Whether one server more, or one fewer, would pay (docs/algorithms.md 4.6): for the operator, who
//! alone can start a server or drain one. Nothing here moves anything.
//!
//! Pure arithmetic on the model of a look. Must not decide who is in the job.

use std::fmt;

use super::look::{Basis, PlannerLook};
use super::state::Planner;
use crate::placement::cost::{Model, Server};
use crate::placement::statistics::median;
use crate::placement::tuning::{
    ADVICE_DIFFERS, ADVICE_FEWER_LOSS, ADVICE_LOOKS, ADVICE_MORE_GAIN, ADVICE_SERVERS_FRACTION,
};
use crate::wire::{NodeId, id_to_rank};

/// A step in the number of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerStep {
    /// One more, like the median one.
    More,
    /// This one could go.
    Fewer(NodeId),
}

/// What another number of servers would bring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Advice {
    /// What to do.
    pub step: ServerStep,
    /// Seconds of the shortest possible round with the servers of now.
    pub now: f64,
    /// The same after the step. Of one server more as far as servers decide: workers seem full
    /// whenever servers are, so what they can take shows only then.
    pub then: f64,
}

impl Advice {
    /// Whether this says something else than an earlier one.
    #[must_use]
    pub fn differs_from(&self, said: &Self) -> bool {
        let promise = |advice: &Self| advice.then / advice.now;
        self.step != said.step || (promise(self) - promise(said)).abs() > ADVICE_DIFFERS
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, now, then } = self;
        let percent = 100.0 * (then / now - 1.0);
        match step {
            ServerStep::More => write!(
                f,
                "one server more like the median one: a round of {then:.3} s at best, now \
                 {now:.3} s ({percent:+.0} %), if workers can take it"
            ),
            ServerStep::Fewer(server) => write!(
                f,
                "server {} is hardly needed: without it a round of {then:.3} s at best, now \
                 {now:.3} s ({percent:+.0} %)",
                id_to_rank(*server)
            ),
        }
    }
}

/// Whether one server more would pay for `total` bytes, where rounds take `measured` seconds.
fn one_more(model: &Model, total: f64, measured: f64) -> Option<Advice> {
    // Workers seem to be full whenever servers are, so servers alone are compared.
    let model = model.without_workers();
    let usable = || model.servers().iter().filter(|server| server.usable);
    let id = model.servers().last()?.id.checked_add(2)?;
    let (up, down) = (median(usable().map(|s| s.up))?, median(usable().map(|s| s.down))?);
    let now = model.bound(total);
    let then = model.with_server(Server::new(id, up, down)).bound(total);
    let worth = then <= now * (1.0 - ADVICE_MORE_GAIN) && now > ADVICE_SERVERS_FRACTION * measured;
    worth.then_some(Advice { step: ServerStep::More, now, then })
}

/// Whether the slowest server is hardly needed for `total` bytes.
fn one_fewer(model: &Model, total: f64) -> Option<Advice> {
    let usable = || model.servers().iter().filter(|server| server.usable);
    // A copy needs another server.
    let least = if model.copy_ratio() > 0.0 { 2 } else { 1 };
    if usable().count() <= least {
        return None;
    }
    let rate = |s: &Server| s.up.min(s.down) / s.slowdown / (1.0 + s.fixed);
    let slowest = usable().min_by(|a, b| rate(a).total_cmp(&rate(b)))?.id;
    let now = model.bound(total);
    let then = model.with_usable(slowest, false).bound(total);
    let step = ServerStep::Fewer(slowest);
    (then <= now * (1.0 + ADVICE_FEWER_LOSS)).then_some(Advice { step, now, then })
}

/// Keeps what is advised about one more, or about one fewer, until several looks in a row say
/// something else.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Adviser {
    advice: Option<Advice>,
    /// What the last looks said, and how many of them.
    looks: (Option<ServerStep>, u32),
}

impl Adviser {
    /// One more look.
    fn note(&mut self, fresh: Option<Advice>) {
        let step = fresh.map(|advice| advice.step);
        let before = if self.looks.0 == step { self.looks.1 } else { 0 };
        self.looks = (step, before.saturating_add(1));
        let same = step == self.advice.map(|advice| advice.step);
        if same || self.looks.1 >= ADVICE_LOOKS {
            self.advice = fresh;
        }
    }

    pub(super) const fn advice(&self) -> Option<Advice> {
        self.advice
    }
}

impl Planner {
    /// What one server more would bring, and one fewer. None: nothing worth saying, or not known.
    #[must_use]
    pub const fn advice(&self) -> [Option<Advice>; 2] {
        [self.advisers[0].advice(), self.advisers[1].advice()]
    }

    /// Looks at the number of servers, after new times of workers. A layout that is being judged,
    /// or that is not the planner's yet, does not matter: shortest possible rounds are compared.
    pub(super) fn consider_advice(&mut self, look: &PlannerLook) {
        let known = look.basis == Basis::Links && self.is_measured();
        let measured = self.times.round_seconds(self.switch_round).filter(|_| known);
        let (model, total) = (&look.seen, look.total());
        let more = measured.and_then(|measured| one_more(model, total, measured));
        let fewer = measured.and_then(|_| one_fewer(model, total));
        for (adviser, fresh) in self.advisers.iter_mut().zip([more, fewer]) {
            adviser.note(fresh);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::cost::Replicas;
    use crate::placement::tests::jobs::{model_of, server_id};

    const TOTAL: f64 = 1000.0;

    /// Two workers of 400 bytes per second beside such servers.
    fn job(servers: &[f64]) -> Model {
        model_of(&[400.0; 2], servers)
    }

    #[test]
    fn one_more_where_servers_keep_workers() {
        let more = |servers: &[f64], measured| one_more(&job(servers), TOTAL, measured);
        // 2 * 1000 / 200, and / 300.
        let third = more(&[100.0; 2], 11.0).unwrap();
        assert_eq!(third.step, ServerStep::More);
        assert!((third.now - 10.0).abs() < 1e-9 && (third.then - 20.0 / 3.0).abs() < 1e-9);
        assert_eq!(
            third.to_string(),
            "one server more like the median one: a round of 6.667 s at best, now 10.000 s \
             (-33 %), if workers can take it"
        );
        assert_eq!(more(&[100.0; 2], 40.0), None, "workers compute meanwhile");
        assert_eq!(more(&[100.0; 10], 2.2), None, "an eleventh brings less than a tenth");
        // The median one, not the fastest.
        let mixed = more(&[400.0, 100.0, 100.0], 4.0).unwrap();
        assert!((mixed.then - 2.0 * TOTAL / 700.0).abs() < 1e-9, "{mixed:?}");
        assert_eq!(more(&[], 1.0), None);
    }

    #[test]
    fn one_fewer_where_it_brings_next_to_nothing() {
        let fewer = |servers: &[f64]| one_fewer(&job(servers), TOTAL);
        let last = fewer(&[100.0, 100.0, 2.0]).unwrap();
        assert_eq!(last.step, ServerStep::Fewer(server_id(2)));
        assert!(last.to_string().starts_with("server 2 is hardly needed: without it a round of"));
        assert!(last.to_string().ends_with("now 9.901 s (+1 %)"), "{last}");
        assert_eq!(fewer(&[100.0, 100.0, 20.0]), None, "all are needed");
        // Workers decide: three of such servers are enough for them.
        let idle = one_fewer(&model_of(&[20.0; 2], &[100.0; 4]), TOTAL).unwrap();
        assert_eq!((idle.step, idle.now), (ServerStep::Fewer(server_id(0)), 50.0));
        assert_eq!(fewer(&[100.0]), None, "somebody has to hold the values");
        let copies = job(&[100.0, 1.0]).with_replicas(Replicas::Next { ratio: 1.0 });
        assert_eq!(one_fewer(&copies, TOTAL), None, "and somebody the copies");
    }

    #[test]
    fn advice_changes_only_if_several_looks_say_so() {
        let more = |then| Some(Advice { step: ServerStep::More, now: 10.0, then });
        let fewer = Some(Advice { step: ServerStep::Fewer(8), now: 10.0, then: 10.0 });
        let mut adviser = Adviser::default();
        let mut note = |fresh| {
            adviser.note(fresh);
            adviser.advice()
        };
        assert_eq!([note(more(7.0)), note(more(7.1)), note(more(7.2))], [None, None, more(7.2)]);
        assert_eq!(note(more(7.3)), more(7.3), "its numbers follow");
        assert_eq!([note(None), note(fewer), note(None)], [more(7.3); 3]);
        assert_eq!([note(fewer), note(fewer), note(fewer)], [more(7.3), more(7.3), fewer]);
        assert_eq!([note(None), note(None), note(None)], [fewer, fewer, None]);
    }

    #[test]
    fn the_same_is_not_said_twice() {
        let said = Advice { step: ServerStep::More, now: 10.0, then: 7.0 };
        assert!(!Advice { now: 9.0, then: 6.5, ..said }.differs_from(&said));
        assert!(Advice { then: 5.9, ..said }.differs_from(&said));
        assert!(Advice { step: ServerStep::Fewer(8), ..said }.differs_from(&said));
    }
}
