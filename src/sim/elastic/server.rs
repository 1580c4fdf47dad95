//! A server of a simulated elastic job: the real store, given what comes as `node` gives it, and
//! sending what it says. After each step the ledger sees what it holds.

use std::collections::BTreeSet;
use std::time::Duration;

use super::ledger::Ledger;
use super::sabotage::Sabotage;
use crate::app::{APP, Input, Judge, Output, View, answer, with_data};
use pslite_core::cluster::said::Said;
use pslite_core::cluster::{Action, Event, Policy};
use pslite_core::store::command::Head;
use pslite_core::store::elastic::Due;
use pslite_core::store::{Answer, News, Outbound, Outgoing, Store, StoreConfig, SumOrder};
use pslite_core::values::key_at;
use pslite_core::wire::elastic::{Claim, KeyRoute, SchedulerMessage, SchedulerMessageKind};
use pslite_core::wire::{ALL_GROUP, Frames, Key, Message, Meta, NodeId};

/// What has so many items or fewer is checked after each step.
pub(super) const ITEMS_EACH_STEP: usize = 64;

/// Enters the job.
const START: u64 = 1;
/// Leaves it.
const EXIT: u64 = 2;
/// Moves cut pieces as if long ones were very long.
const SHORT_PARTS: usize = 128;
/// After that time a word has reached the scheduler.
const HEARD: Duration = Duration::from_millis(100);

/// What a server is told before it starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerConfig {
    pub(super) workers: usize,
    pub(super) servers: usize,
    pub(super) replicas: u32,
    /// Sums are made in the order of ranks.
    pub(super) order: SumOrder,
    /// For how many bytes one of a value stands.
    pub(super) weight: u64,
}

/// One server.
pub(super) struct Server {
    config: ServerConfig,
    sabotage: Sabotage,
    /// Made once the id is known.
    store: Option<Store>,
    /// Servers that are dead.
    lost: BTreeSet<NodeId>,
    /// What the scheduler was told of what is here.
    said: Said,
    /// When something was claimed for the first time.
    claims_since: Option<Duration>,
    leaving: bool,
}

impl Server {
    pub(super) fn new(config: ServerConfig, sabotage: Sabotage) -> Self {
        Self {
            config,
            sabotage,
            store: None,
            lost: BTreeSet::new(),
            said: Said::default(),
            claims_since: None,
            leaving: false,
        }
    }

    /// The store, to look at.
    pub(super) const fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// True if the scheduler has heard by now what it holds.
    pub(super) fn has_claimed(&self, now: Duration) -> bool {
        self.claims_since.is_some_and(|since| now >= since + HEARD)
    }

    pub(super) fn input(
        &mut self,
        view: &View<'_>,
        input: Input,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let about = keys_of(&input);
        match input {
            Input::Ready => self.ready(view, out),
            Input::Barrier { ticket: EXIT, result } => out.push(Output::End(result)),
            Input::Barrier { result: Err(text), .. } | Input::Failed(text) => {
                out.push(Output::End(Err(text)));
            }
            Input::Message(message) => self.message(view, message, ledger, out),
            Input::Elastic(action) => self.membership(view, *action, ledger, out),
            Input::NodeLost { id, .. } => self.node_lost(id),
            Input::Tick => {
                out.extend(self.sabotage.late().into_iter().map(transfer_message));
                self.claim(view.now, out);
            }
            Input::CustomerLeft { id, customer_id } => {
                let mut sent = Outbound::default();
                if let Some(store) = &mut self.store {
                    store.customer_left(id, customer_id, &mut sent);
                }
                self.send(sent, ledger, out);
            }
            Input::Barrier { .. } | Input::Unsent { .. } | Input::Wake => {}
        }
        let Some(store) = &self.store else { return };
        let id = view.cluster.me().id;
        match about {
            // All that it holds is looked at only while that is little.
            // Where keys are placed, it is looked whether they are placed well.
            _ if self.config.weight > 1 => {}
            Some(keys) if store.held() > ITEMS_EACH_STEP => {
                for key in keys {
                    ledger.holds(id, Some(key), &store.claims_of(key));
                    ledger.promised(view.process, store.validate_key(key));
                }
            }
            _ => ledger.holds(id, None, &store.claims()),
        }
    }

    fn ready(&mut self, view: &View<'_>, out: &mut Vec<Output>) {
        let me = view.cluster.me();
        let ServerConfig { workers, servers, replicas, order, .. } = self.config;
        let (id, elastic, part_bytes) = (me.id, true, SHORT_PARTS);
        let config = StoreConfig { workers, servers, id, order, elastic, replicas, part_bytes };
        self.store = Some(Store::new(config));
        if !me.is_recovery {
            out.push(Output::Barrier { ticket: START, group: ALL_GROUP, leaving: false });
        }
    }

    fn node_lost(&mut self, id: NodeId) {
        let worker = pslite_core::wire::is_worker(id);
        if !worker {
            self.lost.insert(id);
        }
        if let Some(store) = self.store.as_mut().filter(|_| worker) {
            store.forget_node(id);
        }
    }

    // ---- the membership -------------------------------------------------------------------------

    fn membership(
        &mut self,
        view: &View<'_>,
        action: Action,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let mut sent = Outbound::default();
        let Some(store) = &mut self.store else { return };
        match action {
            Action::Policy { policy, routes } => {
                routes.iter().for_each(|route| ledger.route(route));
                let servers = policy.servers.clone();
                for (policy, routes) in self.sabotage.followed(policy, routes) {
                    ledger.policy(view.process, &policy);
                    store.policy(&self.sabotage.policy(word_of(&policy, routes)), &mut sent);
                }
                let joined = view.cluster.me().is_recovery;
                let forged = self.sabotage.end_of_commands(&servers).filter(|_| joined);
                if let Some((from, end)) = forged {
                    let _ = store.transfer(from, &end, &[], &mut sent);
                }
            }
            Action::Collect { epoch } => {
                let lost = self.sabotage.lost(self.lost.iter().copied().collect());
                let word = SchedulerMessage { epoch, lost, ..SchedulerMessage::default() };
                let claims = self.sabotage.claims(store.collect(&word));
                let mut claims = weighed(claims, self.config.weight);
                self.sabotage.weighed(&mut claims);
                let difference = self.said.tell(None);
                out.push(Output::Elastic(Event::Claims {
                    epoch,
                    claims,
                    difference,
                    fixed: None,
                    opaque: false,
                }));
            }
            Action::Orders { moves } => store.orders(&moves, &mut sent),
            Action::Overlay(overlay) => {
                ledger.overlay(&overlay);
                store.overlay(&self.sabotage.overlay(overlay), &mut sent);
            }
            Action::Leave => out.push(Output::End(Ok(()))),
            Action::Stop if !std::mem::replace(&mut self.leaving, true) => {
                out.push(Output::Barrier { ticket: EXIT, group: ALL_GROUP, leaving: true });
            }
            _ => {}
        }
        self.send(sent, ledger, out);
    }

    /// Says what it holds, if that has changed.
    fn claim(&mut self, now: Duration, out: &mut Vec<Output>) {
        let Some(store) = &mut self.store else { return };
        if store.epoch() > 0 && Said::is_due(store.changes(), store.held(), false) {
            self.claims_since.get_or_insert(now);
            let (epoch, News { claims, gone }) = (store.epoch(), store.news());
            let difference = self.said.tell(gone);
            let mut claims = weighed(self.sabotage.claims(claims), self.config.weight);
            self.sabotage.weighed(&mut claims);
            let (fixed, opaque) = (None, false);
            out.push(Output::Elastic(Event::Claims { epoch, claims, difference, fixed, opaque }));
        }
    }

    // ---- messages -------------------------------------------------------------------------------

    fn message(
        &mut self,
        view: &View<'_>,
        message: Message,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let Message { meta, data } = message;
        let Some(store) = self.store.as_mut().filter(|_| meta.request) else { return };
        if view.cluster.is_gone(meta.sender) && !self.sabotage.takes_from_the_dead() {
            return;
        }
        let joined = view.cluster.me().is_recovery;
        let mut sent = Outbound::default();
        if let Some(transfer) = &meta.transfer {
            let came = self.sabotage.incoming(transfer, &data, joined);
            let Some((transfer, frames)) = came else { return };
            if let Err(error) = store.transfer(meta.sender, &transfer, &frames, &mut sent) {
                let text = format!("from {}: {error} ({transfer:?})", meta.sender);
                ledger.fault(text.clone());
                out.push(Output::End(Err(text)));
            }
        } else if meta.simple_app {
            self.command(&self.sabotage.command(meta), &mut sent, out);
        } else {
            for meta in self.sabotage.request(meta, store.epoch()) {
                store.serve(meta, &data, &mut sent);
            }
        }
        self.send(sent, ledger, out);
    }

    fn command(&mut self, meta: &Meta, sent: &mut Outbound, out: &mut Vec<Output>) {
        let Some(store) = &mut self.store else { return };
        let (due, error) = match Head::from(meta.head) {
            Head::Stop => (Due::Now, String::new()),
            _ => match store.obey(meta, sent) {
                Ok(due) => (due, String::new()),
                Err(error) => (Due::Now, error.to_string()),
            },
        };
        if due == Due::Now {
            out.push(Output::Send(Box::new(command_answer(meta, error))));
        }
        if Head::from(meta.head) == Head::Stop && !std::mem::replace(&mut self.leaving, true) {
            out.push(Output::Barrier { ticket: EXIT, group: ALL_GROUP, leaving: true });
        }
    }

    /// Sends what the store says, in its order.
    fn send(&mut self, sent: Outbound, ledger: &mut Ledger, out: &mut Vec<Output>) {
        let Outbound { answers, mut downs, transfers } = self.sabotage.outgoing(sent);
        self.sabotage.down(&mut downs);
        out.extend(downs.into_iter().map(|(meta, kv)| {
            ledger.sent_by_tree(&meta, &kv);
            Output::Send(Box::new(with_data(meta, kv)))
        }));
        for Answer { request, kv } in answers {
            let message = if request.simple_app {
                command_answer(&request, request.error.clone())
            } else {
                with_data(answer(&request, request.error.clone()), kv)
            };
            out.push(Output::Send(Box::new(message)));
        }
        out.extend(transfers.into_iter().map(transfer_message));
        let forged = self.sabotage.forged();
        let Some(store) = self.store.as_mut().filter(|_| !forged.is_empty()) else { return };
        let mut sent = Outbound::default();
        for (from, transfer) in forged {
            let _ = store.transfer(from, &transfer, &[], &mut sent);
        }
        self.send(sent, ledger, out);
    }
}

/// Claims of pieces whose bytes stand for so many.
fn weighed(mut claims: Vec<Claim>, weight: u64) -> Vec<Claim> {
    for claim in &mut claims {
        claim.bytes = claim.bytes.saturating_mul(weight);
        claim.state_bytes = claim.state_bytes.saturating_mul(weight);
    }
    claims
}

fn transfer_message(Outgoing { to, transfer, frames }: Outgoing) -> Output {
    let meta = Meta {
        app_id: APP,
        customer_id: APP,
        recver: to,
        request: true,
        overtakes: transfer.is_confirmation(),
        transfer: Some(Box::new(transfer)),
        ..Meta::default()
    };
    Output::Send(Box::new(Message { meta, data: frames.into_iter().collect() }))
}

/// The keys that an input can be about; none if that can be all. (What is no key does no harm.)
fn keys_of(input: &Input) -> Option<Vec<Key>> {
    match input {
        Input::Message(message) => Some(match &message.meta.transfer {
            Some(transfer) => vec![transfer.key],
            None => {
                let keys = message.data.first().map_or(&[][..], |keys| keys);
                (0..keys.len() / 8).filter_map(|index| key_at(keys, index)).collect()
            }
        }),
        Input::Tick | Input::Wake | Input::Barrier { .. } | Input::Unsent { .. } => {
            Some(Vec::new())
        }
        _ => None,
    }
}

/// A policy as the store and a worker's flights take it, made as the van makes it.
pub(super) fn word_of(policy: &Policy, routes: Vec<KeyRoute>) -> SchedulerMessage {
    let mut lost: Vec<NodeId> = policy.lost.iter().chain(&policy.released).copied().collect();
    lost.sort_unstable();
    SchedulerMessage {
        kind: SchedulerMessageKind::Policy as i32,
        epoch: policy.epoch,
        servers: policy.servers.clone(),
        draining: policy.draining.clone(),
        homes: policy.homes.clone(),
        lost,
        released: policy.released.clone(),
        replicas: policy.replicas,
        workers: policy.workers,
        copies: policy.copies.clone(),
        live: policy.live.clone(),
        exchange: policy.exchange,
        routes,
        ..SchedulerMessage::default()
    }
}

fn command_answer(request: &Meta, error: String) -> Message {
    Message { meta: answer(request, error), data: Frames::new() }
}
