//! Applies the membership's actions that only elastic jobs have (`docs/elastic.md`): policies,
//! routes and orders to customers, records to the journal. May touch the van; decides nothing
//! itself.

use std::sync::Arc;

use super::Van;
use super::job::Core;
use crate::delivery::Delivery;
use pslite_core::chronicle::{JobEventKind, NewEvent};
use pslite_core::cluster::{Action, Event};
use pslite_core::text;
use pslite_core::wire::Role;
use pslite_core::wire::word::{ClaimWord, Policy, RoutedPolicy};
use pslite_observe::log::{self, Level};

/// Why values stay where they are at a server that has no store of ours and whose application does
/// not help to move them.
const OWN_HANDLER: &str = "an application's own handler keeps its values";

impl Van {
    /// Applies an action of an elastic job. Returns the event that follows from it, if any.
    pub(super) fn elastic(&self, core: &mut Core, action: Action) -> Option<Event> {
        match action {
            Action::Policy(routed) => {
                self.new_policy(core, routed);
                return self.look_at_awaited(core);
            }
            Action::Collect { epoch } => {
                if !self.customers.have_store() {
                    let fixed = Some(OWN_HANDLER.to_owned());
                    return Some(Event::Claims(ClaimWord { epoch, fixed, ..ClaimWord::default() }));
                }
                let lost = core.lost.keys().copied().collect();
                self.customers.broadcast(&Delivery::Collect { epoch, lost });
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
                let broken = core.journal.as_mut().and_then(|journal| journal.append(&record));
                if let Some(text) = broken {
                    self.state.say(&NewEvent::error(JobEventKind::Note, text));
                }
            }
            _ => {}
        }
        None
    }

    fn new_policy(&self, core: &Core, mut routed: RoutedPolicy) {
        let Policy { epoch, servers, lost, released, .. } = &mut routed.policy;
        let names = servers.iter().map(|id| pslite_core::wire::id_to_rank(*id).to_string());
        let text = format!("policy {epoch}: servers {} serve", text::few(names));
        // The first one says nothing new, and the scheduler has said why.
        let is_news = *epoch > 1 && self.state.settings.role != Role::Scheduler;
        log::write(if is_news { Level::Info } else { Level::Verbose }, &text);
        lost.extend(released.iter());
        lost.extend(core.lost.keys().filter(|id| !servers.contains(id)));
        lost.sort_unstable();
        lost.dedup();
        let routed = Arc::new(routed);
        self.gauge.switched(self.now());
        self.state.set_policy(Arc::clone(&routed));
        self.customers.broadcast(&Delivery::Policy(routed));
    }
}
