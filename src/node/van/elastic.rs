//! What the membership of an elastic job decides beyond links and barriers, handed to those who do
//! it (`docs/elastic.md`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Core, Van};
use crate::delivery::Delivery;
use crate::planning::{Measuring, Planning, Probe, Steps};
use crate::running::RunningNode;
use crate::sync::lock;
use crate::threads;
use pslite_core::cluster::{Action, Difference, Event, Policy};
use pslite_core::placement::links::Sent;
use pslite_core::text;
use pslite_core::wire::elastic::{KeyRoute, Word, WordKind};
use pslite_core::wire::{NodeId, Role};
use pslite_observe::log::{self, Level};
use pslite_transport::native::NativeTransport;

/// Why the values of a server do not move that has no store of ours, and whose application does not
/// help.
const OWN_HANDLER: &str = "an application's own handler keeps its values";

impl Van {
    /// Applies an action of an elastic job; what it leads to, if anything.
    pub(super) fn elastic(&self, core: &mut Core, action: Action) -> Option<Event> {
        match action {
            Action::Policy { policy, routes } => self.new_policy(core, policy, routes),
            Action::Collect { epoch } => {
                if !self.customers.have_store() {
                    let fixed = Some(OWN_HANDLER.to_owned());
                    let (claims, difference) = (Vec::new(), Difference::default());
                    return Some(Event::Claims { epoch, claims, difference, fixed, opaque: false });
                }
                let lost = core.lost.keys().copied().collect();
                let word = Word { epoch, lost, ..Word::default() };
                self.customers.broadcast(&Delivery::Collect(Arc::new(word)));
            }
            Action::Orders { moves } => {
                self.customers.broadcast(&Delivery::Orders(moves.into()));
            }
            Action::Leave => {
                let text = "the scheduler lets this server go: it was emptied, or the job is over";
                log::write(Level::Info, text);
                self.released.store(true, Ordering::Relaxed);
                self.changed.notify_all();
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
                let begun = self.native.as_ref().is_some_and(|native| native.probe(to));
                if begun && log::enabled(Level::Verbose) {
                    let to = core.cluster.describe(to);
                    log::write(Level::Verbose, &format!("the idle link to {to} is probed"));
                }
            }
            Action::Report { from, report } => {
                if let Some(planning) = &mut *lock(&self.planning) {
                    planning.report(self.now(), from, &report);
                }
            }
            _ => {}
        }
        None
    }

    /// Tells the scheduler what was measured. Called by the clock.
    pub(super) fn measure(&self) {
        let now = self.now();
        let rounds = self.customers.take_rounds();
        let served = self.customers.busy();
        let report = {
            let mut measuring = lock(&self.measuring);
            let measuring = measuring.get_or_insert_with(|| {
                Measuring::new(self.my_id(), now, self.state.settings.probe_after)
            });
            if let Some(native) = &self.native {
                let samples: Vec<_> = native.take_rates().into();
                measuring.received(self.state.started, &samples);
                measuring.look_at_idle(now, || native.senders_over_tcp());
                measuring.look_at_sent(now, || sent(native));
                if self.state.settings.role == Role::Server {
                    measuring.look_at_work(now, threads::ran);
                }
                if self.state.settings.share_inflow && self.state.settings.role == Role::Server {
                    native.set_inflow(measuring.inflow(now).map_or(0, |rate| rate as u64));
                    native.set_outflow(measuring.outflow(now).map_or(0, |rate| rate as u64));
                }
            }
            measuring.tell(now, &rounds, served)
        };
        if let Some(report) = report {
            self.event(Event::Report(report));
        }
    }

    /// The scheduler: orders what its planner wants to move. Called by the clock.
    pub(super) fn plan(&self) {
        if self.state.settings.role != Role::Scheduler {
            return;
        }
        // The planner is locked within the core's lock, never the other way round.
        let (steps, times, probes) = {
            let core = lock(&self.core);
            let mut planning = lock(&self.planning);
            let now = self.now();
            let planning = planning.get_or_insert_with(|| {
                let replicas = core.cluster.policy().replicas;
                let seed = self.random.load(Ordering::Relaxed);
                let settings = &self.state.settings;
                let (ranks, probe_after) = (settings.num_servers, settings.probe_after);
                Planning::new(settings.planning, replicas, ranks, seed, probe_after)
            });
            let probes = planning.probes(now, &core.cluster);
            (planning.look(now, &core.cluster), planning.times(now), probes)
        };
        match steps {
            Steps::None => {}
            Steps::Orders(orders) => self.event(Event::Orders(orders)),
            Steps::Copies(copies) => self.event(Event::Copies(copies)),
        }
        for Probe { from, to } in probes {
            self.event(Event::Probe { from, to });
        }
        self.event(Event::RoundTimes(times));
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
        let kind = WordKind::Policy as i32;
        let word = Word {
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
            routes,
            ..Word::default()
        };
        let word = Arc::new(word);
        if let Some(measuring) = &mut *lock(&self.measuring) {
            measuring.switched();
        }
        self.state.set_policy(Arc::clone(&word));
        self.customers.broadcast(&Delivery::Policy(word));
    }
}

/// What went to each node over TCP so far.
fn sent(native: &NativeTransport) -> BTreeMap<NodeId, Sent> {
    let sent = native.sent_over_tcp().into_iter();
    sent.map(|to| (to.peer, Sent { bytes: to.bytes, busy: to.busy })).collect()
}
