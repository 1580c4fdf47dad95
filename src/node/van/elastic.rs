//! Applies the membership's actions that only elastic jobs have (`docs/elastic.md`): routes to
//! customers, probes to the native data plane, what was measured to the scheduler. May touch the
//! van; decides nothing itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Van;
use super::job::Core;
use crate::delivery::Delivery;
use crate::running::RunningNode;
use pslite_core::cluster::{Action, Difference, Event, Policy};
use pslite_core::text;
use pslite_core::training::balance::{Gone, Worker};
use pslite_core::wire::elastic::{KeyRoute, SchedulerMessage, SchedulerMessageKind, Topic};
use pslite_core::wire::exchange::word::ExchangeWord;
use pslite_core::wire::{NodeId, Role, is_worker};
use pslite_observe::log::{self, Level};
use pslite_transport::native::ProbeOf;

/// Why values stay where they are at a server that has no store of ours and whose application does
/// not help to move them.
const OWN_HANDLER: &str = "an application's own handler keeps its values";

impl Van {
    /// Applies an action of an elastic job. Returns the event that follows from it, if any.
    pub(super) fn elastic(&self, core: &mut Core, action: Action) -> Option<Event> {
        match action {
            Action::Policy { policy, routes } => {
                self.new_policy(core, policy, routes);
                return self.look_at_awaited(core);
            }
            Action::Collect { epoch } => {
                if !self.customers.have_store() {
                    let fixed = Some(OWN_HANDLER.to_owned());
                    let (claims, difference) = (Vec::new(), Difference::default());
                    return Some(Event::Claims { epoch, claims, difference, fixed, opaque: false });
                }
                let lost = core.lost.keys().copied().collect();
                let word = SchedulerMessage { epoch, lost, ..SchedulerMessage::default() };
                self.customers.broadcast(&Delivery::Collect(Arc::new(word)));
            }
            Action::Routes { routes } => {
                self.gauge.switched(self.now());
                self.customers.broadcast(&Delivery::Routes(routes.into()));
            }
            Action::Overlay(overlay) => {
                let overlay = Arc::new(overlay);
                self.state.add_overlay(Arc::clone(&overlay));
                self.customers.broadcast(&Delivery::Overlay(overlay));
            }
            Action::Orders { moves } => {
                self.customers.broadcast(&Delivery::Orders(moves.into()));
            }
            Action::Leave => {
                let text = "the scheduler lets this server go: it was emptied, or the job is over";
                log::write(Level::Info, text);
                self.job.release();
                self.customers.broadcast(&Delivery::Leave);
            }
            Action::Stop => self.customers.broadcast(&Delivery::Stop),
            Action::Record(record) => {
                if let Some(journal) = &mut core.journal {
                    journal.append(&record);
                }
            }
            Action::Probe { to } => {
                // One that cannot be sent now is asked for again.
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
            }
            Action::Report { from, report } => {
                self.desk.report(&self.state, from, &report);
            }
            Action::Told { from, topic: Topic::Batches, bytes } => {
                let words = match self.state.settings.role {
                    Role::Scheduler => self.training.asked(self.batch_worker(core, from), &bytes),
                    _ => self.training.told(self.now(), &bytes),
                };
                return (!words.is_empty()).then_some(Event::Tell(words));
            }
            Action::Told { from, topic: Topic::Exchange, bytes } => {
                return self.told_of_exchange(core, from, &bytes);
            }
            _ => {}
        }
        None
    }

    /// Reports what was measured to the scheduler. Called by the clock.
    pub(super) fn measure(&self) {
        let (rounds, served) = (self.customers.take_rounds(), self.customers.busy());
        let meter = self.native.as_ref().map(|native| &native.transport);
        if let Some(report) = self.gauge.look(&self.state, meter, &rounds, served) {
            self.event(Event::Report(report));
        }
    }

    /// On the scheduler: passes the planner's decisions to the membership. Called by the clock.
    pub(super) fn plan(&self) {
        if self.state.settings.role != Role::Scheduler {
            return;
        }
        let seed = self.random.load(Ordering::Relaxed);
        let events = self.desk.look(&self.state, &self.job.lock().cluster, seed);
        events.into_iter().for_each(|event| self.event(event));
    }

    /// Says again what was not answered, and what `pslite status` shows of batch sizes. Called by
    /// the clock.
    pub(super) fn balance(&self) {
        let words = self.training.tick(self.now());
        if !words.is_empty() {
            self.event(Event::Tell(words));
        }
        if let Some(sessions) = self.training.status() {
            self.event(Event::Sessions(sessions));
        }
        let of_exchange = self.training.exchange.tick(self.now());
        of_exchange.into_iter().for_each(|event| self.event(event));
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
    fn look_at_awaited(&self, core: &Core) -> Option<Event> {
        let words = self.training.exchange.awaits(|| core.cluster.awaited_workers());
        (!words.is_empty()).then_some(Event::Tell(words))
    }

    /// Something is said of an exchange: by a worker, or to it.
    fn told_of_exchange(&self, core: &Core, from: NodeId, bytes: &[u8]) -> Option<Event> {
        if self.state.settings.role == Role::Scheduler {
            let spec = core.cluster.exchange()?;
            let awaited = || core.cluster.awaited_workers();
            let words = self.training.exchange.asked(from, bytes, &spec, awaited);
            return (!words.is_empty()).then_some(Event::Tell(words));
        }
        let word = ExchangeWord::read(bytes)?;
        let of = (word.of.app, word.of.customer);
        // Who is asked has said something first, so it exists; if it has ended, nobody waits.
        self.customers.tell(of, Delivery::Word(Box::new(word)));
        None
    }

    fn new_policy(&self, core: &Core, policy: Policy, routes: Vec<KeyRoute>) {
        let Policy {
            epoch,
            servers,
            draining,
            homes,
            mut lost,
            released,
            replicas,
            workers,
            copies,
            live,
            exchange,
        } = policy;
        let names = servers.iter().map(|id| pslite_core::wire::id_to_rank(*id).to_string());
        let text = format!("policy {epoch}: servers {} serve", text::few(names));
        // The first one says nothing new, and the scheduler has said why.
        let is_news = epoch > 1 && self.state.settings.role != Role::Scheduler;
        log::write(if is_news { Level::Info } else { Level::Verbose }, &text);
        lost.extend(&released);
        lost.extend(core.lost.keys().filter(|id| !servers.contains(id)));
        lost.sort_unstable();
        lost.dedup();
        let kind = SchedulerMessageKind::Policy as i32;
        let word = SchedulerMessage {
            kind,
            epoch,
            servers,
            draining,
            homes,
            lost,
            released,
            replicas,
            workers,
            copies,
            live,
            exchange,
            routes,
            ..SchedulerMessage::default()
        };
        let word = Arc::new(word);
        self.gauge.switched(self.now());
        self.state.set_policy(Arc::clone(&word));
        self.customers.broadcast(&Delivery::Policy(word));
    }
}
