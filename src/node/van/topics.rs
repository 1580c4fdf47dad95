//! What nodes and the scheduler tell each other of topics ([`Topic`]): what comes goes to its
//! owner, and what owners have to say to the membership, which passes it on. Owners are the planner
//! (`planning`), the coordinators of what workers share (`training`), the native data plane and the
//! customers. May touch the van; decides nothing itself.

use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::Van;
use super::job::Core;
use crate::customers::CustomerKey;
use crate::delivery::Delivery;
use crate::running::RunningNode;
use pslite_core::chronicle::{JobEventKind, NewEvent};
use pslite_core::cluster::{Event, Tell};
use pslite_core::training::balance::{Gone, Worker};
use pslite_core::wire::exchange::word::ExchangeWord;
use pslite_core::wire::topic::{ProbeRequest, Topic};
use pslite_core::wire::{NodeId, Role, SCHEDULER, is_worker};
use pslite_observe::log::{self, Level};
use pslite_transport::native::ProbeOf;

impl Van {
    /// Another node tells something of a topic. Returns what follows.
    pub(super) fn told(
        &self,
        core: &mut Core,
        from: NodeId,
        topic: Topic,
        bytes: &Bytes,
    ) -> Option<Event> {
        let is_scheduler = self.state.settings.role == Role::Scheduler;
        match topic {
            Topic::Batches => {
                let words = match is_scheduler {
                    true => {
                        let mut notes = Vec::new();
                        let worker = self.batch_worker(core, from);
                        let words = self.training.asked(worker, bytes, &mut notes);
                        let batch = |text| NewEvent::warning(JobEventKind::Batch, text).of(from);
                        notes.into_iter().for_each(|note: String| self.state.say(&batch(note)));
                        words
                    }
                    false => self.training.told(self.now(), bytes),
                };
                (!words.is_empty()).then_some(Event::Tell(words))
            }
            Topic::Exchange => self.told_of_exchange(core, from, bytes),
            Topic::Measure => {
                self.planning.report(&self.state, from, bytes);
                None
            }
            Topic::Probe if is_scheduler => None,
            Topic::Probe => self.asked_to_probe(core, ProbeRequest::read(bytes)?.to),
            Topic::Stall => {
                self.stalled(core, from, bytes);
                None
            }
            Topic::Counters => {
                self.totals_told(core, from, bytes);
                None
            }
            Topic::Later(_) => None,
        }
    }

    /// Sends padding to a node if the link there is idle, so that it can measure the link. One that
    /// cannot be sent now is asked for again.
    fn asked_to_probe(&self, core: &Core, to: NodeId) -> Option<Event> {
        // Links between workers are those of trees, which rounds use all the time.
        let of = match self.state.settings.role == Role::Worker && is_worker(to) {
            true => ProbeOf::InUse,
            false => ProbeOf::Idle,
        };
        let native = self.native.as_ref();
        let begun = native.is_some_and(|native| native.transport.probe(to, of));
        if begun && log::enabled(Level::Verbose) {
            let to = core.cluster.describe(to);
            log::write(Level::Verbose, &format!("the idle link to {to} is probed"));
        }
        Some(Event::Meet { id: to })
    }

    /// Reports what was measured to the scheduler. Called by the clock.
    pub(super) fn measure(&self) {
        let (rounds, served) = (self.customers.take_rounds(), self.customers.busy());
        let meter = self.native.as_ref().map(|native| &native.transport);
        if let Some(report) = self.gauge.look(&self.state, meter, &rounds, served) {
            let word = Tell { to: SCHEDULER, topic: Topic::Measure, bytes: report };
            self.event(Event::Tell(vec![word]));
        }
    }

    /// On the scheduler: passes the planner's decisions to the membership. Called by the clock.
    pub(super) fn plan(&self) {
        if self.state.settings.role != Role::Scheduler {
            return;
        }
        let seed = self.random.load(Ordering::Relaxed);
        let events = self.planning.look(&self.state, &self.job.lock().cluster, seed);
        events.into_iter().for_each(|event| self.event(event));
    }

    /// Says again what was not answered, and what coordinators say by themselves. Called by the
    /// clock.
    pub(super) fn balance(&self) {
        let now = self.now();
        for words in [self.training.tick(now), self.training.exchange.tick(now)] {
            if !words.is_empty() {
                self.event(Event::Tell(words));
            }
        }
    }

    /// A worker as sessions see it: their lease waits for whom rounds wait for. Without servers
    /// there are no rounds.
    fn batch_worker(&self, core: &Core, node: NodeId) -> Worker {
        let has_rounds = self.state.settings.num_servers > 0;
        Worker { node, life: if has_rounds { core.cluster.life_of(node) } else { 0 } }
    }

    /// What the job does without a worker that is lost.
    pub(super) fn gone(&self, core: &Core, id: NodeId) -> Gone {
        let has_rounds = self.state.settings.num_servers > 0;
        match () {
            () if core.cluster.has_elastic_workers() => Gone::IsMissed,
            () if has_rounds && core.cluster.may_be_replaced(id) => Gone::IsReplaced,
            () => Gone::HasLeft,
        }
    }

    /// A worker is gone, or sends no more. Returns what the others are told of their batches, and
    /// of where they align.
    pub(super) fn balance_without(&self, core: &Core, id: NodeId, gone: Gone) -> Option<Event> {
        let mut words = self.training.lost(id, gone);
        if gone != Gone::HasLeft {
            words.extend(self.training.exchange.lost(id));
        }
        words.extend(self.training.exchange.awaits(|| core.cluster.awaited_workers()));
        (!words.is_empty()).then_some(Event::Tell(words))
    }

    /// Whom rounds wait for may have changed.
    pub(super) fn look_at_awaited(&self, core: &Core) -> Option<Event> {
        let words = self.training.exchange.awaits(|| core.cluster.awaited_workers());
        (!words.is_empty()).then_some(Event::Tell(words))
    }

    /// Something is said of an exchange: by a worker, or to it.
    fn told_of_exchange(&self, core: &Core, from: NodeId, bytes: &[u8]) -> Option<Event> {
        if self.state.settings.role == Role::Scheduler {
            let spec = core.cluster.exchange()?;
            let awaited = || core.cluster.awaited_workers();
            let words = self.training.exchange.handle(from, bytes, &spec, awaited);
            return (!words.is_empty()).then_some(Event::Tell(words));
        }
        let word = ExchangeWord::read(bytes)?;
        let of = CustomerKey { app_id: word.of.app, customer_id: word.of.customer };
        // Who is asked has said something first, so it exists; if it has ended, nobody waits.
        self.customers.tell(of, Delivery::Word(Box::new(word)));
        None
    }
}
