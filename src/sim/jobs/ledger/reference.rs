//! What a single server, whose keys stay where they are, makes of the same pushes: the values that
//! every pull of a synchronous job must bring, to the bit.

use std::collections::BTreeMap;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::jobs::optimizer::ServerRule;
use crate::jobs::workload::{PushOf, Tensor, TensorSlice};
use pslite_core::store::command::Head;
use pslite_core::store::{Answer, Outbound, PART_BYTES, Store, StoreConfig, SumOrder};
use pslite_core::values::{KeyRange, KvPairs, SHARED};
use pslite_core::wire::{Key, Meta, server_id, worker_id};

/// What the reference needs to know of a job.
#[derive(Clone, Debug)]
pub(in crate::jobs) struct ReferencePlan {
    pub(in crate::jobs) workers: usize,
    /// Workers may die, and come back.
    pub(in crate::jobs) mortal: bool,
    pub(in crate::jobs) ranges: Vec<KeyRange>,
    /// Optimizers apply gradients of narrower types in float32.
    pub(in crate::jobs) multi_precision: bool,
    /// The body of the command that sets compression.
    pub(in crate::jobs) compression: Option<Bytes>,
    /// Of each customer: optimizers, each with the round after which it comes; ascending.
    pub(in crate::jobs) rules: Vec<Vec<(u64, ServerRule)>>,
}

/// The values of one wire key after each round.
struct History {
    store: Store,
    values: Vec<Bytes>,
}

/// The values of all keys after each round.
pub(super) struct Reference {
    plan: ReferencePlan,
    keys: BTreeMap<Key, History>,
}

impl Reference {
    pub(super) const fn new(plan: ReferencePlan) -> Self {
        Self { plan, keys: BTreeMap::new() }
    }

    /// The value of a slice after a round; an error is a fault of the reference itself.
    pub(super) fn value(
        &mut self,
        tensor: &Tensor,
        slice: &TensorSlice,
        round: u64,
    ) -> Result<Bytes, String> {
        if !self.keys.contains_key(&slice.key) {
            let history = self.begin(tensor, slice)?;
            self.keys.insert(slice.key, history);
        }
        let Self { plan, keys } = self;
        let Some(history) = keys.get_mut(&slice.key) else { return Err("no history".to_owned()) };
        while history.values.len() as u64 <= round {
            history.play(plan, tensor, slice)?;
        }
        Ok(history.values[round as usize].clone())
    }

    fn begin(&self, tensor: &Tensor, slice: &TensorSlice) -> Result<History, String> {
        let mut store = Store::new(StoreConfig {
            workers: self.plan.workers,
            servers: self.plan.ranges.len(),
            id: server_id(slice.rank),
            order: SumOrder::Ranks,
            elastic: false,
            replicas: 0,
            part_bytes: PART_BYTES,
        });
        let space = tensor.customer;
        store.command(space, Head::SyncMode, &[]).map_err(|error| error.to_string())?;
        if let Some(body) = &self.plan.compression {
            let set = store.command(space, Head::Compression, body);
            set.map_err(|error| error.to_string())?;
        }
        let mut history = History { store, values: Vec::new() };
        let init = PushOf { worker: 0, round: 0, counts: false };
        history.push(tensor, slice, init, &self.plan)?;
        history.keep(tensor, slice)?;
        Ok(history)
    }
}

impl History {
    /// One more round.
    fn play(
        &mut self,
        plan: &ReferencePlan,
        tensor: &Tensor,
        slice: &TensorSlice,
    ) -> Result<(), String> {
        let round = self.values.len() as u64;
        let rules = plan.rules.get(tensor.customer as usize).into_iter().flatten();
        for (number, (after, rule)) in rules.enumerate() {
            if *after + 1 == round {
                let meta = Meta {
                    head: Head::Controller.number(),
                    body: rule.pickled().into(),
                    sender: worker_id(0),
                    timestamp: number as i32,
                    ..of_customer(tensor)
                };
                let obeyed = self.store.obey(&meta, &mut Outbound::default());
                obeyed.map_err(|error| error.to_string())?;
                if plan.multi_precision {
                    let set = self.store.command(tensor.customer, Head::MultiPrecision, &[]);
                    set.map_err(|error| error.to_string())?;
                }
            }
        }
        for worker in 0..plan.workers {
            self.push(tensor, slice, PushOf { worker, round, counts: false }, plan)?;
        }
        self.keep(tensor, slice)
    }

    fn push(
        &mut self,
        tensor: &Tensor,
        slice: &TensorSlice,
        push: PushOf,
        plan: &ReferencePlan,
    ) -> Result<(), String> {
        let kv = tensor.push_slice(slice, push, &plan.ranges);
        let meta = Meta {
            head: tensor.head(push.round == 0),
            sender: worker_id(push.worker),
            push: true,
            request: true,
            timestamp: push.round as i32,
            ..of_customer(tensor)
        };
        self.ask(meta, kv).map(drop)
    }

    fn keep(&mut self, tensor: &Tensor, slice: &TensorSlice) -> Result<(), String> {
        let of_slice = Tensor { slices: vec![*slice], ..tensor.clone() };
        let meta = Meta {
            head: tensor.head(false),
            sender: worker_id(0),
            pull: true,
            request: true,
            ..of_customer(tensor)
        };
        let answers = self.ask(meta, of_slice.pull())?;
        let [answer] = &answers[..] else {
            return Err(format!("{} answers to a pull", answers.len()));
        };
        self.values.push(answer.kv.vals.clone());
        Ok(())
    }

    fn ask(&mut self, meta: Meta, kv: KvPairs) -> Result<Vec<Answer>, String> {
        let frames: SmallVec<[Bytes; 3]> = [kv.keys, kv.vals, kv.lens].into_iter().collect();
        let mut answers = Vec::new();
        self.store.request(meta, &frames, &mut answers);
        match answers.iter().find(|answer| !answer.request.error.is_empty()) {
            Some(refused) => Err(refused.request.error.clone()),
            None => Ok(answers),
        }
    }
}

/// What says whose request it is.
fn of_customer(tensor: &Tensor) -> Meta {
    let customer_id = tensor.customer as i32;
    Meta { customer_id, own_keys: tensor.customer != SHARED, ..Meta::default() }
}
