//! A worker of a simulated job: goes through the stages of the program, pushes and pulls
//! each tensor at its own pace, and has the ledger look at what comes back.

mod batches;
mod commands;
mod exchange;
mod iterations;
mod purpose;
mod stays;

use std::sync::Arc;
use std::time::Duration;

use self::batches::SessionBatches;
use self::exchange::Trainer;
pub(super) use self::purpose::Purpose;
use super::config::{Exchanges, Sessions, Stays};
use super::ledger::Ledger;
use super::paces::Paces;
use super::requests::{CustomerRequests, NewRequest, Over};
use super::sabotage::Sabotage;
use super::script::ScriptStage;
use super::server::as_obeyed;
use super::workload::{PushOf, Tensor};
use crate::app::{APP, Input, Output, View};
use pslite_core::cluster::{Action, Event};
use pslite_core::invariant::Valid;
use pslite_core::random::Random;
use pslite_core::values::{KeyRange, Space, server_key_ranges};
use pslite_core::wire::elastic::KeyRoute;
use pslite_core::wire::topic::Topic;
use pslite_core::wire::word::RoutedPolicy;
use pslite_core::wire::{ALL_GROUP, Meta, Payload, SERVER_GROUP, WORKER_GROUP, id_to_rank};

/// Enters the job.
const START: u64 = 1;
/// Leaves it.
const EXIT: u64 = 2;
/// Between two stages.
const MEET: u64 = 3;
const LEAVES: Output = Output::Barrier { ticket: EXIT, group: ALL_GROUP, leaving: true };

/// What a worker is told before it starts.
#[derive(Clone, Debug)]
pub(super) struct WorkerConfig {
    pub(super) servers: usize,
    pub(super) tensors: Arc<Vec<Tensor>>,
    pub(super) stages: Arc<Vec<ScriptStage>>,
    /// Values count pushes.
    pub(super) counts: bool,
    /// The longest that it computes between two pushes of a tensor.
    pub(super) compute: Duration,
    /// So many percent of the pushes are followed by a pull.
    pub(super) pulls: u32,
    /// It says when it has no more to push (`JobConfig::elastic_workers`).
    pub(super) may_leave_early: bool,
    /// It shares batches with the others, of which there are so many.
    pub(super) sessions: Option<Sessions>,
    /// It trains while deltas travel.
    pub(super) exchange: Option<Exchanges>,
    pub(super) workers: usize,
    /// It pushes and pulls all tensors before it goes on to the next iteration.
    pub(super) in_step: bool,
    /// So many percent of what comes along a tree are lost, until then.
    pub(super) hop_loss: Option<(u32, Duration)>,
    /// Keys stay where they are.
    pub(super) stays: Option<Stays>,
}

/// The customers of a worker whose tensors these are.
fn customers_of(config: &WorkerConfig, sabotage: &Sabotage) -> Vec<CustomerRequests<Purpose>> {
    let last = config.tensors.iter().map(|tensor| tensor.customer).max().unwrap_or(0);
    let all: std::ops::RangeInclusive<Space> = 0..=last;
    all.map(|customer| CustomerRequests::new(config.servers, sabotage.clone(), customer)).collect()
}

/// One worker.
pub(super) struct Worker {
    config: WorkerConfig,
    ranges: Vec<KeyRange>,
    random: Random,
    rank: usize,
    /// Its customers, by their numbers.
    customers: Vec<CustomerRequests<Purpose>>,
    paces: Paces,
    /// The round up to which it trains.
    training: Option<u64>,
    /// When it will have computed this iteration, where it goes from one to the next.
    computed: Option<Duration>,
    stage: usize,
    /// Requests that this stage waits for, training apart.
    open: usize,
    /// It took the place of a dead one.
    came_back: bool,
    /// It has its batches from a session.
    batches: Option<SessionBatches>,
    /// It exchanges deltas.
    trainer: Option<Trainer>,
}

impl Worker {
    pub(super) fn new(config: WorkerConfig, mut random: Random, sabotage: &Sabotage) -> Self {
        let (compute, workers) = (config.compute, config.workers);
        let batches = |plan| SessionBatches::new(plan, compute, workers, &mut random);
        let batches = config.sessions.map(batches);
        Self {
            ranges: server_key_ranges(config.servers),
            random,
            rank: 0,
            customers: customers_of(&config, sabotage),
            training: None,
            computed: None,
            paces: Paces::new(config.tensors.iter().map(|tensor| tensor.window)),
            stage: 0,
            open: 0,
            came_back: false,
            batches,
            trainer: None,
            config,
        }
    }

    /// True if it pushes gradients, or has done so.
    pub(super) fn trains(&self) -> bool {
        self.stage >= self.first_training()
    }

    fn first_training(&self) -> usize {
        let trains = |stage: &ScriptStage| matches!(stage, ScriptStage::Train { .. });
        self.config.stages.iter().position(trains).unwrap_or(usize::MAX)
    }

    /// What its exchange promises of itself.
    pub(super) fn validate_exchange(&self) -> Valid {
        self.trainer.as_ref().map_or(Ok(()), Trainer::validate)
    }

    /// The requests of each customer, to look at.
    pub(super) fn requests(&self) -> &[CustomerRequests<Purpose>] {
        &self.customers
    }

    /// How far it is, for people.
    pub(super) fn describe(&self) -> String {
        let rounds: Vec<String> =
            self.paces.all().iter().map(|pace| format!("{}/{}", pace.done, pace.begun)).collect();
        format!(
            "stage {} {:?}, rounds {}; {}",
            self.stage,
            self.config.stages.get(self.stage),
            rounds.join(" "),
            self.batches
                .as_ref()
                .map(SessionBatches::describe)
                .or_else(|| self.trainer.as_ref().map(Trainer::describe))
                .unwrap_or_default()
        )
    }

    pub(super) fn input(
        &mut self,
        view: &View<'_>,
        input: Input,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        self.take(view, input, ledger, out);
        self.do_local(view, ledger, out);
        while let Some(over) = self.customers.iter_mut().find_map(|one| one.end_ahead(ledger, out))
        {
            ledger.note_ahead();
            over.into_iter().for_each(|one| self.over(view, one, ledger, out));
            self.do_local(view, ledger, out);
        }
    }

    fn take(&mut self, view: &View<'_>, input: Input, ledger: &mut Ledger, out: &mut Vec<Output>) {
        match input {
            Input::Ready => {
                self.rank = usize::try_from(id_to_rank(view.cluster.me().id)).unwrap_or(0);
                let (me, life) = (view.cluster.me().id, view.cluster.my_life());
                let (is_back, makes_keys) = (life > 0, self.rank == 0);
                if self.config.stays.is_some() {
                    return self.enter(view, ledger, out);
                }
                // The first policy came before this.
                let policy = view.cluster.policy().clone();
                let routed = as_obeyed(RoutedPolicy { policy, routes: Vec::new() });
                self.each(view, ledger, out, |customer, ledger, out| {
                    customer.follow(me, life, makes_keys);
                    customer.policy(view.now, &routed, ledger, out)
                });
                let trainer = |plan| Trainer::new(plan, &self.config, self.rank, is_back);
                self.trainer = self.config.exchange.map(trainer);
                if view.cluster.me().is_recovery {
                    self.came_back = true;
                    return self.begin_stage(view, ledger, out);
                }
                out.push(Output::Barrier { ticket: START, group: ALL_GROUP, leaving: false });
            }
            Input::Barrier { ticket: EXIT, result } => out.push(Output::End(result)),
            Input::Barrier { result: Err(text), .. } | Input::Failed(text) => {
                out.push(Output::End(Err(text)));
            }
            Input::Barrier { ticket: START, .. } => self.begin_stage(view, ledger, out),
            Input::Barrier { .. } => self.next_stage(view, ledger, out),
            Input::Message(message) if message.meta.payload.is_hop() => {
                self.hop(view, message, ledger, out);
            }
            Input::Message(message) if !message.meta.request => {
                self.answered(view, message, ledger, out);
            }
            Input::NodeLost { id, reason } => {
                self.each(view, ledger, out, |customer, ledger, out| {
                    customer.lost(view.now, id, &reason, ledger, out)
                });
            }
            Input::Unsent { meta, reason } => {
                let Some(customer) = self.of(&meta) else { return };
                let over = customer.unsent(view.now, &meta, &reason, ledger, out);
                over.into_iter().for_each(|one| self.over(view, one, ledger, out));
            }
            Input::Elastic(action) => self.membership(view, *action, ledger, out),
            Input::Wake => self.train(view, ledger, out),
            Input::Tick => {
                if let Some(batches) = &mut self.batches {
                    batches::say(batches.tick(view.now), out);
                }
                self.beat(view, ledger, out);
                self.each(view, ledger, out, |customer, ledger, out| {
                    customer.tick(view.now, ledger, out)
                });
            }
            Input::Message(_) | Input::CustomerLeft { .. } => {}
        }
    }

    fn membership(
        &mut self,
        view: &View<'_>,
        action: Action,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let routed = match action {
            Action::Policy(routed) => routed,
            Action::Routes { routes } => {
                routes.iter().for_each(|route| ledger.route(route));
                return self.each(view, ledger, out, |customer, ledger, out| {
                    customer.learn(view.now, &routes, ledger, out)
                });
            }
            Action::Overlay(overlay) => {
                return self.each(view, ledger, out, |customer, ledger, out| {
                    customer.overlay(view.now, &overlay, ledger, out)
                });
            }
            Action::Told { topic: Topic::Batches, bytes, .. } => {
                return self.told_of_batches(view, &bytes, ledger, out);
            }
            Action::Told { topic: Topic::Exchange, bytes, .. } => {
                return self.told_of_exchange(view, &bytes, ledger, out);
            }
            _ => return,
        };
        ledger.policy(view.process, &routed.policy);
        routed.routes.iter().for_each(|route| ledger.route(route));
        let routed = as_obeyed(routed);
        self.each(view, ledger, out, |customer, ledger, out| {
            customer.policy(view.now, &routed, ledger, out)
        });
        let servers = view.cluster.ids_of(SERVER_GROUP).unwrap_or_default();
        self.each(view, ledger, out, |customer, ledger, out| {
            customer.command_again(&servers, ledger, out)
        });
    }

    /// The customer that a message is for, if it has that one.
    fn of(&mut self, meta: &Meta) -> Option<&mut CustomerRequests<Purpose>> {
        usize::try_from(meta.customer_id).ok().and_then(|at| self.customers.get_mut(at))
    }

    /// Does that with each customer, and ends what is over.
    fn each(
        &mut self,
        view: &View<'_>,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
        mut step: impl FnMut(
            &mut CustomerRequests<Purpose>,
            &mut Ledger,
            &mut Vec<Output>,
        ) -> Vec<Over<Purpose>>,
    ) {
        let all = self.customers.iter_mut();
        let over: Vec<_> = all.flat_map(|customer| step(customer, ledger, out)).collect();
        over.into_iter().for_each(|one| self.over(view, one, ledger, out));
    }

    fn answered(
        &mut self,
        view: &View<'_>,
        message: pslite_core::wire::Message,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let Some(customer) = self.of(&message.meta) else { return };
        if let Some(reply) = message.meta.reply()
            && let Some(key) = customer.key_of(message.meta.timestamp, reply.slice)
        {
            for route in &reply.routes {
                ledger.route(&KeyRoute { key, route: *route });
            }
        }
        let over = customer.answered(view.now, message, ledger, out);
        over.into_iter().for_each(|one| self.over(view, one, ledger, out));
    }

    /// Something came along a tree. Now and then it is lost, as when a link is cut.
    fn hop(
        &mut self,
        view: &View<'_>,
        message: pslite_core::wire::Message,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        // What the scheduler does about that once it is over comes when it is over for all.
        if let Some((percent, until)) = self.config.hop_loss
            && view.outside < until
            && self.random.percent(percent)
        {
            return;
        }
        if let Payload::Down(reply, hop) = &message.meta.payload {
            for route in &reply.routes {
                ledger.route(&KeyRoute { key: hop.key, route: *route });
            }
        }
        // A node drops what is for no customer of its own.
        let Some(customer) = self.of(&message.meta) else { return };
        let over = customer.hop(view.now, message, ledger, out);
        over.into_iter().for_each(|one| self.over(view, one, ledger, out));
    }

    // ---- stages ---------------------------------------------------------------------------------

    fn next_stage(&mut self, view: &View<'_>, ledger: &mut Ledger, out: &mut Vec<Output>) {
        self.stage += 1;
        self.begin_stage(view, ledger, out);
    }

    fn begin_stage(&mut self, view: &View<'_>, ledger: &mut Ledger, out: &mut Vec<Output>) {
        let stages = Arc::clone(&self.config.stages);
        let Some(stage) = stages.get(self.stage) else { return };
        match stage {
            ScriptStage::Command { head, body, .. } if self.trainer.is_some() => {
                match self.trainer.as_mut().map(|trainer| trainer.obeys(*head, body)) {
                    Some(Ok(true)) => return self.next_stage(view, ledger, out),
                    Some(Err(why)) => return out.push(Output::End(Err(why))),
                    _ => self.command(view, stage, ledger, out),
                }
            }
            ScriptStage::Command { .. } => self.command(view, stage, ledger, out),
            // MXNet's workers that come back skip the barriers at their start.
            ScriptStage::Meet if self.came_back && !self.trains() => {
                return self.next_stage(view, ledger, out);
            }
            ScriptStage::Meet => {
                self.customers.iter_mut().for_each(CustomerRequests::drop_ahead);
                if self.config.may_leave_early && self.trains() {
                    out.push(Output::Elastic(Event::Leaving { customer_id: APP }));
                }
                return out.push(Output::Barrier {
                    ticket: MEET,
                    group: WORKER_GROUP,
                    leaving: false,
                });
            }
            ScriptStage::Init => {
                for tensor in 0..self.config.tensors.len() {
                    if self.rank == 0 {
                        self.push(view, tensor, 0, ledger, out);
                        self.open += 1;
                    }
                }
            }
            ScriptStage::Train { .. } => return self.train(view, ledger, out),
            ScriptStage::Look if self.trainer.is_some() => {
                for tensor in 0..self.config.tensors.len() {
                    self.open += 1;
                    self.ask_values(view, tensor, Purpose::Last, ledger, out);
                }
            }
            ScriptStage::Look => {
                for tensor in 0..self.config.tensors.len() {
                    self.pull(view, tensor, ledger, out);
                }
            }
            ScriptStage::Exit => return out.push(LEAVES),
        }
        self.end_stage_if_over(view, ledger, out);
    }

    fn end_stage_if_over(&mut self, view: &View<'_>, ledger: &mut Ledger, out: &mut Vec<Output>) {
        let pulls = self.paces.is_any_pulled();
        if self.open == 0 && !pulls {
            self.next_stage(view, ledger, out);
        }
    }

    // ---- training -------------------------------------------------------------------------------

    fn train(&mut self, view: &View<'_>, ledger: &mut Ledger, out: &mut Vec<Output>) {
        let stages = Arc::clone(&self.config.stages);
        let Some(ScriptStage::Train { round }) = stages.get(self.stage) else { return };
        if let Some(batches) = self.batches.take() {
            return self.train_by_batches(view, batches, ledger, out);
        }
        if self.trainer.is_some() {
            return self.train_by_exchange(view, ledger, out);
        }
        let leaves = self.leaves_after();
        let round = leaves.map_or(*round, |leaves| leaves.min(*round));
        if self.training != Some(round) {
            self.training = Some(round);
            self.paces.until(round);
        }
        if self.config.in_step {
            return self.iterate(view, ledger, out);
        }
        for tensor in self.paces.due(view.now) {
            let until = view.now + self.random.time(self.config.compute);
            self.paces.change(tensor, |pace| (pace.begun, pace.until) = (pace.begun + 1, until));
            let round = self.paces.all()[tensor].begun;
            self.push(view, tensor, round, ledger, out);
        }
        if self.paces.are_over() {
            if leaves == Some(round) {
                return out.push(LEAVES);
            }
            return self.next_stage(view, ledger, out);
        }
        let next = self.paces.next(view.now);
        out.extend(next.map(|next| Output::WakeAfter(next - view.now)));
    }

    fn push(
        &mut self,
        view: &View<'_>,
        tensor: usize,
        round: u64,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let of = &self.config.tensors[tensor];
        // What a worker that came back makes is there already, and must not count: so it would
        // show.
        let of_round = if self.came_back { round.max(1) } else { round };
        let push = PushOf { worker: self.rank, round: of_round, counts: self.config.counts };
        let kv = of.push(push, &self.ranges);
        let both = of.both && round > 0;
        let payload = if both {
            let bounds = ledger.both_begun(tensor, self.rank, round);
            Purpose::Both { tensor, round, bounds }
        } else {
            Purpose::Push { tensor, round }
        };
        if round > 0 {
            ledger.push_begun(self.rank, tensor);
        }
        let what = format!("push {round} of tensor {tensor}");
        let request = NewRequest { head: of.head(round == 0), push: true, pull: both, kv, payload };
        self.ask(view, tensor, request, what, ledger, out);
    }

    fn pull(&mut self, view: &View<'_>, tensor: usize, ledger: &mut Ledger, out: &mut Vec<Output>) {
        self.paces.change(tensor, |pace| pace.pulls += 1);
        let of = &self.config.tensors[tensor];
        let (me, life) = (view.cluster.me().id, view.cluster.my_life());
        let purpose = Purpose::Pull { tensor, bounds: ledger.pull_begun(tensor, me, life) };
        let what = format!("pull of tensor {tensor}");
        self.ask(view, tensor, pull_of(of, purpose), what, ledger, out);
    }

    /// Pulls a tensor for its values alone.
    fn ask_values(
        &mut self,
        view: &View<'_>,
        tensor: usize,
        purpose: Purpose,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let request = pull_of(&self.config.tensors[tensor], purpose);
        self.ask(view, tensor, request, format!("values of tensor {tensor}"), ledger, out);
    }

    /// Makes a request about a tensor. `what`: the request as people read it.
    fn ask(
        &mut self,
        view: &View<'_>,
        tensor: usize,
        request: NewRequest<Purpose>,
        what: String,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        let of = &self.config.tensors[tensor];
        let request = NewRequest { kv: of.as_the_customer_knows(request.kv), ..request };
        // The look at the end is at the servers.
        if self.trainer.is_some() && !matches!(request.payload, Purpose::Last) {
            return self.ask_local(view, request, what, ledger, out);
        }
        let customer = &mut self.customers[of.customer as usize];
        match customer.values(view.now, request, ledger, out) {
            Ok(timestamp) => ledger.wait_begun(view.process, timestamp, what),
            Err(error) => out.push(Output::End(Err(error))),
        }
    }

    // ---- ends -----------------------------------------------------------------------------------

    fn over(
        &mut self,
        view: &View<'_>,
        (timestamp, purpose, result): Over<Purpose>,
        ledger: &mut Ledger,
        out: &mut Vec<Output>,
    ) {
        ledger.wait_ended(view.process, timestamp);
        if let Purpose::Own { key } = purpose {
            return self.own_over(view, key, result, ledger, out);
        }
        let assembled = match result {
            Ok(assembled) => assembled,
            Err(error) => return out.push(Output::End(Err(format!("{purpose:?}: {error}")))),
        };
        match purpose {
            Purpose::Command => {
                self.open -= 1;
                return self.end_stage_if_over(view, ledger, out);
            }
            Purpose::Push { round: 0, .. } => {
                self.open -= 1;
                return self.end_stage_if_over(view, ledger, out);
            }
            Purpose::CatchUp { tensor } => {
                let values = assembled.vals.concat();
                return self.caught_up(view, tensor, &values, ledger, out);
            }
            Purpose::Last => {
                self.open -= 1;
                ledger.last_values(self.rank, &assembled.vals.concat());
                return self.end_stage_if_over(view, ledger, out);
            }
            Purpose::Step { tensor, pulls: false } => {
                return self.ask_values(view, tensor, Purpose::Local { tensor }, ledger, out);
            }
            Purpose::Step { tensor, pulls: true } | Purpose::Local { tensor } => {
                return self.local_values(view, tensor, &assembled.vals.concat(), ledger, out);
            }
            Purpose::Own { .. } => return, // It is the local model's, above.
            Purpose::Push { tensor, round } => {
                self.paces.change(tensor, |pace| pace.done += 1);
                ledger.push_done(self.rank, tensor, round);
                if self.random.percent(self.config.pulls) {
                    self.pull(view, tensor, ledger, out);
                }
            }
            Purpose::Pull { tensor, bounds } => {
                self.paces.change(tensor, |pace| pace.pulls -= 1);
                ledger.pulled(self.rank, tensor, &bounds, &assembled.vals.concat());
            }
            Purpose::Both { tensor, round, bounds } => {
                self.paces.change(tensor, |pace| pace.done += 1);
                ledger.push_done(self.rank, tensor, round);
                ledger.pulled(self.rank, tensor, &bounds, &assembled.vals.concat());
            }
        }
        match self.config.stages.get(self.stage) {
            Some(ScriptStage::Train { .. }) => self.train(view, ledger, out),
            _ => self.end_stage_if_over(view, ledger, out),
        }
    }
}

/// A pull of a whole tensor.
fn pull_of(tensor: &Tensor, payload: Purpose) -> NewRequest<Purpose> {
    NewRequest { head: tensor.head(false), push: false, pull: true, kv: tensor.pull(), payload }
}
