//! The scheduler of a simulated job: beside MXNet's two barriers it orders moves and drains
//! at random, as a planner would that knows nothing; or it has the real planners place keys.

use std::collections::BTreeMap;
use std::time::Duration;

use super::exchange;
use super::ledger::Ledger;
use super::sabotage::Sabotage;
use super::trees;
use crate::app::{Input, Output, View};
use pslite_core::cluster::claims::Piece;
use pslite_core::cluster::{Action, Event, Tell};
use pslite_core::placement::graph::{NamedGraph, Topology};
use pslite_core::random::Random;
use pslite_core::scheduler::{LogLines, PlannerSettings, Planners, TreeAnswer};
use pslite_core::training::balance::{Coordinator, Gone, Outbox, Worker};
use pslite_core::training::exchange::SchedulerExchange;
use pslite_core::training::exchange::coordinator::ExchangeOutbox;
use pslite_core::wire::balance::{BalanceKind, BalanceMessage};
use pslite_core::wire::elastic::{CopyPlace, Order};
use pslite_core::wire::exchange::word::ExchangeReport;
use pslite_core::wire::topic::Topic;
use pslite_core::wire::word::RoutedPolicy;
use pslite_core::wire::{ALL_GROUP, NodeId};

/// Enters the job.
const START: u64 = 1;
/// Leaves it.
const EXIT: u64 = 2;
/// Orders at a time.
const ORDERS_MAX: u64 = 3;
/// So often the copies get other places instead.
const COPIES_PERCENT: u32 = 15;
/// Where pieces may be cut.
const ALIGN: u64 = 16;
/// Once nothing goes wrong any more, a server is empty after that time: a few rounds.
const TO_EMPTY: Duration = Duration::from_secs(4);

/// Trees are worked out in less than that.
const WORKED_OUT: Duration = Duration::from_millis(500);

/// What the scheduler orders.
#[derive(Clone, Debug, Default)]
pub(super) struct SchedulerConfig {
    /// The longest time between two moves; none: nothing moves.
    pub(super) move_every: Option<Duration>,
    /// Until then.
    pub(super) until: Duration,
    /// When a server is to be emptied.
    pub(super) drains: Vec<Duration>,
    /// Servers that are left at least.
    pub(super) servers_min: usize,
    /// The longest time between two overlays; none: no trees.
    pub(super) trees_every: Option<Duration>,
    /// So many percent of them say that what went along the former ones may be lost.
    pub(super) lossy: u32,
    /// So many percent of what goes along a tree are lost, while things go wrong.
    pub(super) hop_loss: u32,
    /// Keys are placed by what nodes measure.
    pub(super) plans: Option<Plans>,
}

/// What the planners of a job begin with.
#[derive(Clone, Debug)]
pub(super) struct Plans {
    pub(super) replicas: u32,
    pub(super) servers: usize,
    pub(super) seed: u64,
    /// Trees are planned; none: keys are placed.
    pub(super) trees: Option<PlannedTopology>,
}

/// Of which trees, and over which links.
#[derive(Clone, Debug)]
pub(super) struct PlannedTopology {
    pub(super) topology: Topology,
    pub(super) links: NamedGraph,
    /// The same trees in every run.
    pub(super) repeats: bool,
}

impl Plans {
    fn planners(&self) -> Planners {
        Planners::new(self.replicas, self.servers, self.seed, None)
    }

    fn settings(&self) -> PlannerSettings<'_> {
        let trees = self.trees.as_ref();
        PlannerSettings {
            planning: true,
            topology: trees.map_or(Topology::Star, |trees| trees.topology),
            links: trees.map(|trees| &trees.links),
            repeats: trees.is_some_and(|trees| trees.repeats),
        }
    }
}

/// To workers.
fn say(words: Outbox, out: &mut Vec<Output>) {
    if !words.is_empty() {
        let word = |(to, message): (NodeId, BalanceMessage)| Tell {
            to,
            topic: Topic::Batches,
            bytes: message.bytes(),
        };
        out.push(Output::Elastic(Event::Tell(words.into_iter().map(word).collect())));
    }
}

/// See the module.
pub(super) struct Scheduler {
    config: SchedulerConfig,
    random: Random,
    next_move: Duration,
    next_trees: Duration,
    /// What was lost until nothing is lost any more was made good.
    settled: bool,
    /// Since when servers are being emptied under a policy.
    draining: BTreeMap<(NodeId, u64), Duration>,
    /// The sessions by which workers share batches.
    coordinator: Coordinator,
    /// How workers align that exchange deltas.
    exchange: SchedulerExchange,
    /// The planners, where keys are placed.
    planners: Option<Planners>,
    planning_since: Duration,
    /// Trees that are being worked out, and when that is done.
    worked_out: Option<(Duration, TreeAnswer)>,
    sabotage: Sabotage,
}

impl Scheduler {
    pub(super) fn new(config: SchedulerConfig, random: Random, sabotage: Sabotage) -> Self {
        Self {
            planners: config.plans.as_ref().map(Plans::planners),
            worked_out: None,
            planning_since: Duration::ZERO,
            config,
            random,
            next_move: Duration::ZERO,
            next_trees: Duration::ZERO,
            settled: false,
            draining: BTreeMap::new(),
            coordinator: Coordinator::default(),
            exchange: SchedulerExchange::default(),
            sabotage,
        }
    }

    pub(super) fn input(
        &mut self,
        view: &View<'_>,
        input: Input,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        match input {
            Input::Ready if view.cluster.me().is_recovery => {
                out.push(Output::Barrier { ticket: EXIT, group: ALL_GROUP, leaving: true });
            }
            Input::Ready => {
                out.push(Output::Barrier { ticket: START, group: ALL_GROUP, leaving: false });
            }
            Input::Barrier { ticket: EXIT, result } => out.push(Output::End(result)),
            Input::Barrier { result: Ok(()), .. } => {
                out.push(Output::Barrier { ticket: EXIT, group: ALL_GROUP, leaving: true });
            }
            Input::Barrier { result: Err(text), .. } | Input::Failed(text) => {
                out.push(Output::End(Err(text)));
            }
            Input::NodeLost { id, .. } => {
                ledger.gone(id);
                if !view.cluster.may_be_replaced(id) {
                    ledger.worker_lost(id);
                }
                if !self.sabotage.awaits_the_dead() {
                    let replaced =
                        view.cluster.may_be_replaced(id) && !self.sabotage.frees_places();
                    let gone = if replaced { Gone::IsReplaced } else { Gone::IsMissed };
                    self.batches_without(view, id, gone, ledger, out);
                }
                if !self.sabotage.meets_the_dead() {
                    let mut words = ExchangeOutbox::new();
                    self.exchange.lost(id, &mut words);
                    exchange::say(words, out);
                    self.awaits(view, out);
                }
            }
            Input::CustomerLeft { id, .. } => {
                self.batches_without(view, id, Gone::HasLeft, ledger, out);
                if !self.sabotage.meets_the_dead() {
                    self.awaits(view, out);
                }
            }
            Input::Elastic(action) => match *action {
                Action::Policy(RoutedPolicy { policy, routes }) => {
                    ledger.policy(view.process, &policy);
                    routes.iter().for_each(|route| ledger.route(route));
                    if !self.sabotage.meets_the_dead() {
                        self.awaits(view, out);
                    }
                }
                Action::Overlay(overlay) => ledger.overlay(&overlay),
                Action::Told { from, topic: Topic::Batches, bytes } => {
                    self.asked(view, from, &bytes, ledger, out)
                }
                Action::Told { from, topic: Topic::Exchange, bytes } => {
                    self.exchanges(view, from, &bytes, out);
                    ledger.promised(view.process, self.exchange.validate());
                }
                Action::Told { from, topic: Topic::Measure, bytes } => {
                    if let Some(planners) = &mut self.planners
                        && self.sabotage.hears_links()
                    {
                        planners.report(view.now, self.sabotage.reporter(from), &bytes);
                    }
                }
                _ => {}
            },
            Input::Tick => {
                self.place(view, ledger, out);
                self.look_at_drained(view, ledger);
                let mut words = ExchangeOutbox::new();
                self.exchange.tick(view.now, &mut words);
                exchange::say(words, out);
                self.plant(view, out);
                self.tick(view, out);
            }
            _ => {}
        }
    }

    /// A worker says how its exchange is.
    fn exchanges(&mut self, view: &View<'_>, from: NodeId, word: &[u8], out: &mut Vec<Output>) {
        let (Some(spec), Some(report)) = (view.cluster.exchange(), ExchangeReport::read(word))
        else {
            return;
        };
        let (report, mut words) = (self.sabotage.report(report), ExchangeOutbox::new());
        let awaited = || view.cluster.awaited_workers();
        self.exchange.handle(from, report, &spec, awaited, &mut words);
        exchange::say(words, out);
    }

    /// Whom rounds wait for may have changed.
    fn awaits(&mut self, view: &View<'_>, out: &mut Vec<Output>) {
        let mut words = ExchangeOutbox::new();
        self.exchange.awaits(|| view.cluster.awaited_workers(), &mut words);
        exchange::say(words, out);
    }

    /// A worker says something about its batches.
    fn asked(
        &mut self,
        view: &View<'_>,
        node: NodeId,
        word: &[u8],
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let Some(message) = BalanceMessage::read(word) else { return };
        let (had, mut words) = (!self.coordinator.is_empty(), Outbox::new());
        let life = self.sabotage.life(view.cluster.life_of(node));
        self.coordinator.handle(Worker { node, life }, &message, &mut words);
        if !had && !self.coordinator.is_empty() {
            ledger.session_begins();
        }
        let opened = words.iter().filter(|(_, word)| word.kind == BalanceKind::Opened as i32);
        opened.for_each(|(to, word)| {
            let worker = Worker { node: *to, life: view.cluster.life_of(*to) };
            ledger.placed(worker, word.instance, word.iteration);
        });
        ledger.promised(view.process, self.coordinator.validate());
        say(words, out);
    }

    fn batches_without(
        &mut self,
        view: &View<'_>,
        worker: NodeId,
        gone: Gone,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let mut words = Outbox::new();
        self.coordinator.lost(worker, gone, &mut words);
        ledger.promised(view.process, self.coordinator.validate());
        say(words, out);
    }

    /// Has the planners look where keys belong.
    fn place(&mut self, view: &View<'_>, ledger: &mut Ledger, out: &mut Vec<Output>) {
        let Some((planners, plans)) = self.planners.as_mut().zip(self.config.plans.as_ref()) else {
            return;
        };
        if self.sabotage.forgets(view.now, self.planning_since) {
            (*planners, self.planning_since) = (plans.planners(), view.now);
        }
        if !self.sabotage.looks(view.now) {
            return;
        }
        if let Some((_, answer)) = self.worked_out.take_if(|(at, _)| *at <= view.now)
            && !self.sabotage.loses_answers()
        {
            planners.answered(answer);
        }
        let mut lines = LogLines::new(true);
        let settings = plans.settings();
        let mut events = planners.look(view.now, view.cluster, settings, &mut lines);
        if plans.trees.is_some() {
            let times = planners.times(view.now, view.cluster, settings);
            ledger.rounds_expected(times.predicted);
        }
        if let Some(job) = planners.take_job() {
            let done = view.now + self.random.time(WORKED_OUT);
            self.worked_out = Some((done, TreeAnswer::of(job)));
        }
        lines.into_lines().into_iter().for_each(|line| ledger.say(line.into_text()));
        self.sabotage.decided(&mut events);
        let is_plan = |event: &Event| matches!(event, Event::Orders(_) | Event::Overlay { .. });
        if events.iter().any(is_plan) {
            ledger.moves_planned();
        }
        out.extend(events.into_iter().map(Output::Elastic));
    }

    /// Other trees, now and then; and once nothing is lost any more, so that what was is noticed.
    fn plant(&mut self, view: &View<'_>, out: &mut Vec<Output>) {
        let Some(every) = self.config.trees_every else { return };
        let ends = view.now >= self.config.until;
        let due = if ends { !self.settled } else { self.next_trees <= view.now };
        if !due || !view.cluster.may_order() {
            return;
        }
        self.settled = ends;
        self.next_trees = view.now + self.random.time(every);
        let was_lost = ends && self.config.hop_loss > 0;
        let lossy = was_lost || self.random.percent(self.config.lossy);
        let trees = trees::draw(view, &mut self.random);
        let over = view.cluster.overlay().number;
        out.push(Output::Elastic(Event::Overlay { over, trees, lossy }));
    }

    fn tick(&mut self, view: &View<'_>, out: &mut Vec<Output>) {
        if !view.cluster.may_order() || view.now >= self.config.until {
            return;
        }
        if self.config.drains.first().is_some_and(|at| *at <= view.now) {
            self.config.drains.remove(0);
            self.drain(view, out);
        }
        let Some(every) = self.config.move_every.filter(|_| self.next_move <= view.now) else {
            return;
        };
        self.next_move = view.now + self.random.time(every);
        if self.random.percent(COPIES_PERCENT) {
            out.push(Output::Elastic(Event::Copies(self.copies(view))));
            return;
        }
        let count = 1 + self.random.below(ORDERS_MAX);
        let orders: Vec<(NodeId, Order)> = (0..count).filter_map(|_| self.order(view)).collect();
        if !orders.is_empty() {
            out.push(Output::Elastic(Event::Orders(orders)));
        }
    }

    fn drain(&mut self, view: &View<'_>, out: &mut Vec<Output>) {
        let able = view.cluster.able_servers();
        if able.len() > self.config.servers_min.max(1) {
            let id = able[self.random.below(able.len() as u64) as usize];
            out.push(Output::Elastic(Event::Drain { id }));
        }
    }

    /// For some servers, who is to keep their copies.
    fn copies(&mut self, view: &View<'_>) -> Vec<CopyPlace> {
        let able = view.cluster.able_servers();
        let mut place = |owner: NodeId| {
            let holder = able[self.random.below(able.len() as u64) as usize];
            (holder != owner && self.random.percent(80)).then_some(CopyPlace { owner, holder })
        };
        able.iter().filter_map(|owner| place(*owner)).collect()
    }

    /// A server that is to be emptied is, and goes.
    fn look_at_drained(&mut self, view: &View<'_>, ledger: &mut Ledger) {
        let policy = view.cluster.policy();
        let ids = policy.draining.iter().map(|id| (*id, policy.epoch));
        let quiet = view.cluster.may_order() && view.now >= self.config.until;
        let now = |id| (id, self.draining.get(&id).copied().unwrap_or(view.now));
        self.draining = ids.filter(|_| quiet).map(now).collect();
        for ((id, epoch), since) in &self.draining {
            if view.now >= *since + TO_EMPTY {
                ledger.not_emptied(*id, *epoch);
            }
        }
    }

    /// Some part of some piece, to some server.
    fn order(&mut self, view: &View<'_>) -> Option<(NodeId, Order)> {
        let pieces: Vec<&Piece> =
            view.cluster.pieces().values().flat_map(|key| &key.pieces).collect();
        let piece = pieces.get(self.random.below(pieces.len() as u64) as usize)?;
        let able = view.cluster.able_servers();
        let owner = *able.get(self.random.below(able.len() as u64) as usize)?;
        let border = |random: &mut Random| {
            let at = piece.from + random.below(piece.to - piece.from + 1);
            // Now and then it is none where a cut is possible.
            if random.percent(90) { at / ALIGN * ALIGN } else { at }
        };
        let (a, b) = (border(&mut self.random), border(&mut self.random));
        let whole = self.random.percent(30);
        let (from, to) = if whole { (piece.from, piece.to) } else { (a.min(b), a.max(b)) };
        let order = Order { key: piece.key, from, to, owner };
        (from < to).then_some((piece.owner, order))
    }
}
