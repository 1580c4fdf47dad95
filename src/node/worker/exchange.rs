//! A customer whose local model answers the program while deltas travel (NBSync, docs/nbsync.md):
//! gives requests and answers to `core::worker`, which decides, and does what that says. All but
//! commands is handled on the customer's turn, so an optimizer runs beside nothing else of this
//! customer. May touch the customer and its queue.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::ahead::longest;
use super::{RequestEnd, Requests, WorkerCustomer};
use crate::delivery::Delivery;
use crate::error::{NodeError, Result};
use crate::recipient::Finish;
use crate::running::NodeRef;
use crate::sync::lock;
use pslite_core::kv::{Assembled, RequestError, Slices};
use pslite_core::store::Reminder;
use pslite_core::store::command::Head;
use pslite_core::store::local::Obeyed;
use pslite_core::wire::exchange::ExchangeSpec;
use pslite_core::wire::exchange::word::{ExchangeId, ExchangeReport, ExchangeWord};
use pslite_core::wire::topic::Topic;
use pslite_core::wire::{Key, Meta};
use pslite_core::worker::{Begins, LocalSent, LocalStep, LocalTraining, WorkerOutput};
use pslite_observe::log::{self, Level};

/// Between two looks whether the job goes on, while somebody waits for the last rounds.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Between two looks whether the local model has something to say.
const BEAT_EVERY: Duration = Duration::from_millis(500);

/// What a customer has if the job's policy says an exchange. Locked after nothing, and before
/// [`Requests`].
#[derive(Default)]
pub(super) struct Here {
    /// The local model; `None`: servers answer.
    training: Option<Arc<Mutex<LocalTraining>>>,
    /// Requests of the program whose turn has not come.
    asked: BTreeMap<i32, (Meta, Slices)>,
    /// Somebody waits for this.
    finish: Option<Finish>,
    /// The same from its turn on: before that, nothing that happens is the end of it.
    begun: Option<Finish>,
    /// It is so, or can never be.
    finished: Option<std::result::Result<(), String>>,
    /// When the local model may have something to say again.
    beat: Duration,
}

impl Here {
    /// From now on the local model answers.
    pub(super) fn begin(&mut self, spec: &ExchangeSpec, node: &NodeRef, who: Begins) {
        let settings = node.settings();
        let training = LocalTraining::new(
            spec,
            u32::try_from(settings.num_workers).unwrap_or(u32::MAX),
            settings.num_servers,
            who,
        );
        self.training = Some(Arc::new(Mutex::new(training)));
    }

    /// True if the local model answers.
    pub(super) const fn answers(&self) -> bool {
        self.training.is_some()
    }
}

impl Requests {
    /// Keeps a request until its turn.
    pub(super) fn ask_here(&mut self, meta: Meta, slices: Slices) {
        self.side.keep_local(meta.timestamp);
        self.here.asked.insert(meta.timestamp, (meta, slices));
    }
}

impl WorkerCustomer {
    pub(super) fn training(&self) -> Option<Arc<Mutex<LocalTraining>>> {
        lock(&self.requests).here.training.clone()
    }

    /// Asks the local model soon, on the customer's turn.
    pub(super) fn ask_soon(&self, meta: &Meta) {
        self.base.queue.push(meta.priority, Delivery::Ask(meta.timestamp));
    }

    /// The turn of a request that the local model answers.
    pub(crate) fn asked_here(&self, timestamp: i32) {
        let Ok(node) = self.node() else { return };
        let (training, asked, ranges) = {
            let mut state = lock(&self.requests);
            let asked = state.here.asked.remove(&timestamp);
            (state.here.training.clone(), asked, state.side.ranges().to_vec())
        };
        let (Some(training), Some((meta, slices))) = (training, asked) else { return };
        if let Some(failure) = node.failure() {
            // It was asked for after all others had failed.
            let mut out = WorkerOutput::default();
            let mut state = lock(&self.requests);
            state.side.fail(timestamp, &failure.to_string(), &mut out);
            return self.perform(Some(&node), state, out);
        }
        let mut steps = Vec::new();
        lock(&training).ask(node.now(), meta, slices, &ranges, &mut steps);
        self.do_here(&node, steps);
    }

    /// A command of the program, if the local model obeys it: the number of a request that is over.
    ///
    /// # Errors
    /// It cannot be obeyed.
    pub(super) fn command_here(&self, head: i32, body: &Bytes) -> Result<Option<i32>> {
        let Some(training) = self.training() else { return Ok(None) };
        let obeyed = lock(&training)
            .command(Head::from(head), body)
            .map_err(|error| NodeError::Invalid(error.to_string()))?;
        Ok(match obeyed {
            Obeyed::Here => Some(lock(&self.requests).side.requests_mut().new_request(&[])),
            Obeyed::ByServers => None,
        })
    }

    /// Does what the local model says, in order.
    fn do_here(&self, node: &NodeRef, steps: Vec<LocalStep>) {
        self.do_steps(node, steps);
        self.go_on_finishing(node);
    }

    fn do_steps(&self, node: &NodeRef, steps: Vec<LocalStep>) {
        for step in steps {
            let mut out = WorkerOutput::default();
            let mut state = lock(&self.requests);
            state.side.set_longest_ahead(longest(node));
            let sent = state.side.do_local(node.now(), step, RequestEnd::Own, &mut out);
            if let LocalSent::Own(timestamp) = sent {
                state.asked(node.traffic(), timestamp);
            }
            self.perform_for(sent.request(), Some(node), state, out);
        }
    }

    /// Tells the scheduler how the local model is.
    pub(super) fn report(&self, node: &NodeRef, report: ExchangeReport) {
        let of = ExchangeId { app: self.base.app_id, customer: self.base.customer_id };
        let bytes = ExchangeReport { of, ..report }.bytes();
        node.tell(Topic::Exchange, bytes);
    }

    /// A request of the worker's own is over.
    pub(super) fn own_over(
        &self,
        timestamp: i32,
        key: Key,
        outcome: std::result::Result<Option<Assembled>, RequestError>,
    ) {
        lock(&self.requests).side.complete(timestamp);
        let (Ok(node), Some(training)) = (self.node(), self.training()) else { return };
        let value = match outcome {
            Ok(Some(assembled)) => Ok(joined(&assembled)),
            Ok(None) => Err("a value was asked for, and none came".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let mut steps = Vec::new();
        let value = value.as_deref().map_err(Clone::clone);
        lock(&training).own_answered(node.now(), key, value, &mut steps);
        self.do_here(&node, steps);
    }

    // ---- what the scheduler says ----------------------------------------------------------------

    /// The scheduler says something to the local model.
    pub(crate) fn told(&self, word: &ExchangeWord) {
        let (Ok(node), Some(training)) = (self.node(), self.training()) else { return };
        let mut steps = Vec::new();
        lock(&training).told(node.now(), word, &mut steps);
        self.do_here(&node, steps);
    }

    /// True if the local model may have something to say, once in a while.
    pub(crate) fn wants_beat(&self, now: Duration) -> bool {
        let mut state = lock(&self.requests);
        let due = state.here.answers() && now >= state.here.beat;
        if due {
            state.here.beat = now.saturating_add(BEAT_EVERY);
        }
        due
    }

    /// How the local model is, if there is one.
    pub(crate) fn exchange_report(&self, now: Duration) -> Option<ExchangeReport> {
        self.training().map(|training| lock(&training).report(now))
    }

    /// Time has passed.
    pub(crate) fn beat(&self) {
        let (Ok(node), Some(training)) = (self.node(), self.training()) else { return };
        let mut steps = Vec::new();
        lock(&training).tick(node.now(), &mut steps);
        self.do_here(&node, steps);
    }

    // ---- while the program computes nothing -----------------------------------------------------

    /// Waits until all that this customer has changed is in rounds that are over, and if so asked
    /// until all workers are equal. The first is to be called before it takes leave: nobody waits
    /// for this worker after that.
    ///
    /// # Errors
    /// It can never be: the job has failed, or what was changed cannot be sent.
    pub(crate) fn finish_exchange(&self, finish: Finish) -> Result<()> {
        let node = self.node()?;
        {
            let mut state = lock(&self.requests);
            if !state.here.answers() {
                return Ok(());
            }
            if state.here.finish.is_some() {
                let why = "another thread waits for the end of this exchange";
                return Err(NodeError::Invalid(why.to_owned()));
            }
            state.here.finish = Some(finish);
            state.here.finished = None;
        }
        self.base.queue.push(i32::MIN, Delivery::Rest);
        let finished = self.wait_finished(&node);
        let mut state = lock(&self.requests);
        (state.here.finish, state.here.begun) = (None, None);
        drop(state);
        finished
    }

    fn wait_finished(&self, node: &NodeRef) -> Result<()> {
        let began = node.now();
        let mut reminder = Reminder::new(node.settings().stall_report);
        let mut state = lock(&self.requests);
        loop {
            if let Some(finished) = state.here.finished.take() {
                return finished.map_err(NodeError::Remote);
            }
            if let Some(failure) = node.failure() {
                return Err(failure);
            }
            let (guard, _) = self
                .answered
                .wait_timeout(state, LOOK_EVERY)
                .unwrap_or_else(PoisonError::into_inner);
            let now = node.now();
            let waited = now.saturating_sub(began);
            if waited >= node.settings().stall_report && reminder.is_due(now) {
                reminder.said(now);
                drop(guard);
                self.say_unfinished(node, waited);
                state = lock(&self.requests);
            } else {
                state = guard;
            }
        }
    }

    /// Says for whom this worker waits.
    fn say_unfinished(&self, node: &NodeRef, waited: Duration) {
        let missing = self.training().map(|training| lock(&training).missing().to_vec());
        let missing = missing.unwrap_or_default();
        let whom: Vec<String> = node
            .with_cluster(|cluster, _| missing.iter().map(|id| cluster.describe(*id)).collect());
        let whom = match whom.is_empty() {
            true => "the rounds of what it has changed".to_owned(),
            false => whom.join(", and for "),
        };
        let seconds = waited.as_secs();
        let text = format!("the end of this worker's exchange has waited {seconds} s for {whom}");
        log::write(Level::Warning, &text);
    }

    /// The turn of [`Self::finish_exchange`].
    pub(crate) fn rest(&self) {
        let (Ok(node), Some(training)) = (self.node(), self.training()) else { return };
        let finish = lock(&self.requests).here.finish;
        if finish == Some(Finish::Aligns) {
            let mut steps = Vec::new();
            lock(&training).finish(node.now(), &mut steps);
            self.do_steps(&node, steps);
        }
        lock(&self.requests).here.begun = finish;
        self.go_on_finishing(&node);
    }

    fn go_on_finishing(&self, node: &NodeRef) {
        let (training, finish) = {
            let state = lock(&self.requests);
            let finish = state.here.begun.filter(|_| state.here.finished.is_none());
            (state.here.training.clone(), finish)
        };
        let (Some(training), Some(finish)) = (training, finish) else { return };
        let mut steps = Vec::new();
        let over = match finish {
            Finish::Leaves => lock(&training).leave(node.now(), &mut steps),
            Finish::Aligns => lock(&training).is_finished(),
        };
        self.do_steps(node, steps);
        let finished = match over {
            Ok(false) => return,
            Ok(true) => Ok(()),
            Err(why) => Err(why),
        };
        lock(&self.requests).here.finished = Some(finished);
        self.answered.notify_all();
    }
}

/// The value of one key.
fn joined(assembled: &Assembled) -> Bytes {
    if let [whole] = assembled.vals.as_slice() {
        return whole.clone();
    }
    let mut all = BytesMut::with_capacity(assembled.total_vals);
    assembled.vals.iter().for_each(|part| all.extend_from_slice(part));
    all.freeze()
}
