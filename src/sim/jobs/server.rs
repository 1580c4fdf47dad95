//! A server of a simulated job: the side that `node` drives, given what comes, and sending
//! what it says. After each step the ledger sees what its store holds.

use std::collections::BTreeSet;
use std::time::Duration;

use super::ledger::Ledger;
use super::sabotage::Sabotage;
use crate::app::{APP, Input, Judge, Output, View};
use bytes::Bytes;
use pslite_core::cluster::{Action, Event};
use pslite_core::keys::KeyName;
use pslite_core::kv::Unanswered;
use pslite_core::kv::messages::with_data;
use pslite_core::server::{ServerOutput, ServerSide, messages};
use pslite_core::store::command::Head;
use pslite_core::store::moving::Due;
use pslite_core::store::{Answer, Claimant, Outbound, Store, StoreConfig, SumOrder};
use pslite_core::values::{KvPairs, key_at};
use pslite_core::wire::elastic::Claim;
use pslite_core::wire::word::{Policy, RoutedPolicy};
use pslite_core::wire::{ALL_GROUP, Key, Message, Meta, NodeId, Payload};

/// What has so many items or fewer is checked after each step.
pub(super) const ITEMS_EACH_STEP: usize = 64;

/// Enters the job.
const START: u64 = 1;
/// Leaves it.
const EXIT: u64 = 2;
/// After that time a word has reached the scheduler.
const HEARD: Duration = Duration::from_millis(100);

/// What a server is told before it starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerConfig {
    pub(super) workers: usize,
    pub(super) servers: usize,
    pub(super) replicas: u32,
    /// Keys stay where they are.
    pub(super) stays: bool,
    /// Sums are made in the order of ranks.
    pub(super) order: SumOrder,
    /// For how many bytes one of a value stands.
    pub(super) weight: u64,
    /// Bytes of a part, at most.
    pub(super) part_bytes: usize,
}

/// One server.
pub(super) struct Server {
    config: ServerConfig,
    sabotage: Sabotage,
    /// Made once the id is known.
    side: Option<ServerSide>,
    /// Servers that are dead.
    lost: BTreeSet<NodeId>,
    /// When something was claimed for the first time.
    claims_since: Option<Duration>,
    leaving: bool,
    /// What it owes answers to, where its keys stay.
    unanswered: Unanswered,
}

impl Server {
    pub(super) fn new(config: ServerConfig, sabotage: Sabotage) -> Self {
        Self {
            config,
            sabotage,
            side: None,
            lost: BTreeSet::new(),
            claims_since: None,
            leaving: false,
            unanswered: Unanswered::new(),
        }
    }

    /// The store, to look at.
    pub(super) fn store(&self) -> Option<&Store> {
        self.side.as_ref().map(ServerSide::store)
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
                let late = self.sabotage.late().into_iter();
                out.extend(late.map(|outgoing| send(messages::transfer(outgoing, APP))));
                self.step(view, ledger, out, ServerSide::tick);
            }
            Input::CustomerLeft { id, customer_id } => {
                self.unanswered.customer_left(id, customer_id);
                self.step(view, ledger, out, |side, told| {
                    side.customer_left(id, customer_id, told);
                });
            }
            Input::Barrier { .. } | Input::Unsent { .. } | Input::Wake => {}
        }
        if self.config.stays {
            // Nobody asks who holds what.
            return self.end_stuck(view, out);
        }
        let Some(store) = self.store() else { return };
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
        let (id, elastic, part_bytes) = (me.id, !self.config.stays, self.config.part_bytes);
        let config = StoreConfig { workers, servers, id, order, elastic, replicas, part_bytes };
        self.side = Some(ServerSide::new(config));
        if !me.is_recovery {
            out.push(Output::Barrier { ticket: START, group: ALL_GROUP, leaving: false });
        }
    }

    fn node_lost(&mut self, id: NodeId) {
        self.unanswered.forget_node(id);
        let worker = pslite_core::wire::is_worker(id);
        if !worker {
            self.lost.insert(id);
        }
        if let Some(side) = self.side.as_mut().filter(|_| worker) {
            side.store_mut().forget_node(id);
        }
    }

    /// Something happens to the side, and what follows from it is done.
    fn step(
        &mut self,
        view: &View<'_>,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
        step: impl FnOnce(&mut ServerSide, &mut ServerOutput),
    ) {
        let Some(side) = &mut self.side else { return };
        let mut told = ServerOutput::default();
        step(side, &mut told);
        self.perform(view, told, ledger, out);
    }

    // ---- the membership -------------------------------------------------------------------------

    fn membership(
        &mut self,
        view: &View<'_>,
        action: Action,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let mut told = ServerOutput::default();
        let Some(side) = &mut self.side else { return };
        match action {
            Action::Policy(routed) => {
                routed.routes.iter().for_each(|route| ledger.route(route));
                let servers = routed.policy.servers.clone();
                for routed in self.sabotage.followed(routed) {
                    ledger.policy(view.process, &routed.policy);
                    side.policy(&self.sabotage.policy(as_obeyed(routed)), &mut told);
                }
                let joined = view.cluster.me().is_recovery;
                let forged = self.sabotage.end_of_commands(&servers).filter(|_| joined);
                if let Some((from, end)) = forged {
                    let _ = side.transfer(from, &end, &[], &mut told);
                }
            }
            Action::Collect { epoch } => {
                let lost = self.sabotage.lost(self.lost.iter().copied().collect());
                side.collect(epoch, &lost, &mut told);
            }
            Action::Orders { moves } => side.orders(&moves, &mut told),
            Action::Overlay(overlay) => {
                ledger.overlay(&overlay);
                side.overlay(&self.sabotage.overlay(overlay), &mut told);
            }
            Action::Leave => out.push(Output::End(Ok(()))),
            Action::Stop if !std::mem::replace(&mut self.leaving, true) => {
                out.push(Output::Barrier { ticket: EXIT, group: ALL_GROUP, leaving: true });
            }
            _ => {}
        }
        self.perform(view, told, ledger, out);
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
        let Some(side) = self.side.as_mut().filter(|_| meta.request) else { return };
        if view.cluster.is_gone(meta.sender) && !self.sabotage.takes_from_the_dead() {
            return;
        }
        let joined = view.cluster.me().is_recovery;
        let mut told = ServerOutput::default();
        if let Payload::Transfer(transfer) = &meta.payload {
            let came = self.sabotage.incoming(transfer, &data, joined);
            let Some((transfer, frames)) = came else { return };
            if let Err(error) = side.transfer(meta.sender, &transfer, &frames, &mut told) {
                let text = format!("from {}: {error} ({transfer:?})", meta.sender);
                ledger.fault(text.clone());
                out.push(Output::End(Err(text)));
            }
        } else if meta.simple_app {
            self.command(&self.sabotage.command(meta), &mut told, out);
        } else {
            let data = self.sabotage.pushed(meta.push, data);
            for meta in self.sabotage.request(meta, side.store().epoch()) {
                self.unanswered.asked(&meta, &data, view.now);
                side.request(meta, &data, &mut told);
            }
        }
        self.perform(view, told, ledger, out);
    }

    fn command(&mut self, meta: &Meta, told: &mut ServerOutput, out: &mut Vec<Output>) {
        let Some(side) = &mut self.side else { return };
        let (due, error) = match Head::from(meta.head) {
            Head::Stop => (Due::Now, String::new()),
            _ => match side.command(meta, told) {
                Ok(due) => (due, String::new()),
                Err(error) => (Due::Now, error.to_string()),
            },
        };
        if due == Due::Now {
            out.push(send(messages::command_answer(meta, APP, Bytes::new(), &error)));
        }
        if Head::from(meta.head) == Head::Stop && !std::mem::replace(&mut self.leaving, true) {
            out.push(Output::Barrier { ticket: EXIT, group: ALL_GROUP, leaving: true });
        }
    }

    fn answered(&mut self, request: &Meta) {
        self.unanswered.answered(request.sender, request.customer_id, request.timestamp);
    }

    /// Refuses what waits for a worker that has left (`node/server/stuck`).
    fn end_stuck(&mut self, view: &View<'_>, out: &mut Vec<Output>) {
        for stuck in self.unanswered.stuck() {
            let names: Vec<String> =
                stuck.left.iter().map(|(id, _)| view.cluster.describe(*id)).collect();
            let key = KeyName::of(stuck.request.key, self.config.servers);
            let refused = stuck.refused(&names.join(", "), key);
            self.answered(&refused);
            let nothing = KvPairs::default();
            out.push(send(with_data(messages::answer(&refused, &nothing, APP), nothing)));
        }
    }

    /// Does what the side says, in its order.
    fn perform(
        &mut self,
        view: &View<'_>,
        told: ServerOutput,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let ServerOutput { sent, claimed } = told;
        let Outbound { answers, mut downs, transfers } = self.sabotage.outgoing(sent);
        self.sabotage.down(&mut downs);
        out.extend(downs.into_iter().map(|(meta, kv)| {
            ledger.sent_by_tree(&meta, &kv);
            send(messages::down(meta, kv, APP))
        }));
        out.extend(answers.into_iter().map(|Answer { request, kv }| {
            self.answered(&request);
            send(if request.simple_app {
                messages::command_answer(&request, APP, Bytes::new(), &request.error)
            } else {
                with_data(messages::answer(&request, &kv, APP), kv)
            })
        }));
        out.extend(transfers.into_iter().map(|outgoing| send(messages::transfer(outgoing, APP))));
        for mut claimed in claimed {
            self.claims_since.get_or_insert(view.now);
            claimed.claims = weighed(self.sabotage.claims(claimed.claims), self.config.weight);
            self.sabotage.weighed(&mut claimed.claims);
            out.push(Output::Elastic(Event::Claims(claimed)));
        }
        let forged = self.sabotage.forged();
        if !forged.is_empty() {
            self.step(view, ledger, out, |side, told| {
                for (from, transfer) in forged {
                    let _ = side.transfer(from, &transfer, &[], told);
                }
            });
        }
    }
}

fn send(message: Message) -> Output {
    Output::Send(Box::new(message))
}

/// Claims of pieces whose bytes stand for so many.
fn weighed(mut claims: Vec<Claim>, weight: u64) -> Vec<Claim> {
    for claim in &mut claims {
        claim.bytes = claim.bytes.saturating_mul(weight);
        claim.state_bytes = claim.state_bytes.saturating_mul(weight);
    }
    claims
}

/// The keys that an input can be about; none if that can be all. (What is no key does no harm.)
fn keys_of(input: &Input) -> Option<Vec<Key>> {
    match input {
        Input::Message(message) => Some(match &message.meta.payload {
            Payload::Transfer(transfer) => {
                transfer.piece().map(|piece| piece.key).into_iter().collect()
            }
            _ => {
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
pub(super) fn as_obeyed(mut routed: RoutedPolicy) -> RoutedPolicy {
    let Policy { lost, released, .. } = &mut routed.policy;
    lost.extend(released.iter());
    lost.sort_unstable();
    routed
}
