//! What a worker keeps of its tensors while deltas travel (NBSync, docs/nbsync.md): the value that
//! it trains, with the script's own optimizer, and what it has to remember to say what it changed.
//! *When* it sends and takes values is `training/exchange`'s, which this does not name.
//!
//! Of each wire key: the local value; where the stretch began; what of it was sent; the global
//! value that has come and was not taken. Values of float16 are trained in float32, and travel as
//! float16: what is lost of a delta by that goes with the next one.
//!
//! Three ways to exchange, which the spec sets:
//!
//! - **One section.** Taking and sending are one moment: `d = value - start`, `value = G + keep d`,
//!   `start = value`, and `d` is sent. The published form keeps nothing.
//! - **Several sections.** Taken: `own = value - sent`, `value = G + own`, `start = G`. Sent:
//!   `value - start`, and `sent = value`. So a step counts in one delta, whatever comes when.
//! - **Waiting.** Sent: `value - start`. Taken: `value = start = G`.
//!
//! Pure like all of the store. It is of one customer: its owner has one for each.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use pslite_elements::precision;
use pslite_optimizers::pickle;
use pslite_optimizers::{Gradient, Optimizer, State};

use self::arithmetic::{add, is_finite, subtract};
use self::program::Known;
use super::command::Head;
use super::error::StoreError;
use super::pieces::limits::TENSORS_MAX;
use super::view::RankRanges;
use crate::keys::KeyName;
use crate::values::compression::Compression;
use crate::values::value::Value;
use crate::values::{Buffer, Dtype};
use crate::wire::Key;
use crate::wire::exchange::ExchangeSpec;

mod arithmetic;
mod program;
#[cfg(test)]
mod program_tests;
#[cfg(test)]
mod recurrence_tests;
#[cfg(test)]
mod tests;

/// Optimizers that keep the weights, or their sum with something, in their own state: they would
/// write over what comes from the others.
const WEIGHTS_IN_STATE: [&str; 2] = ["Ftrl", "FTML"];

/// Who obeys a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obeyed {
    /// The worker, and it is done: servers hear nothing of it.
    Here,
    /// The servers.
    ByServers,
}

/// See the module.
#[derive(Debug)]
pub struct LocalModel {
    form: ExchangedForm,
    /// Gradients are multiplied by it.
    factor: f64,
    view: RankRanges,
    optimizer: Option<Arc<Optimizer>>,
    /// What is pushed are new values, not gradients.
    by_program: bool,
    tensors: BTreeMap<Key, Tensor>,
    /// A gradient in the type in which it is applied.
    scratch: Buffer,
}

/// How values are exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExchangedForm {
    One { keep: bool },
    Several,
    Waits,
}

/// What is kept of a key. All but `narrow` is in the type in which is computed.
#[derive(Debug)]
struct Tensor {
    dtype: Dtype,
    value: Value,
    /// The value in its own type, where that is another one; none: to be made when it is asked for.
    narrow: Option<Value>,
    /// Where the stretch began; none before the first step.
    start: Option<Buffer>,
    /// The value when it was sent, where it goes on from there.
    sent: Option<Buffer>,
    /// The global value that came.
    coming: Option<Buffer>,
    known: Known,
    state: Option<Box<State>>,
}

impl Tensor {
    /// The type in which is computed.
    const fn wide(&self) -> Dtype {
        wide(self.dtype)
    }

    fn bytes(&self) -> usize {
        let narrow = self.narrow.as_ref().map_or(0, |narrow| narrow.buffer().len());
        let given = self.known.other();
        let kept = [self.start.as_ref(), self.sent.as_ref(), self.coming.as_ref(), given];
        let kept = kept.into_iter().flatten();
        let state = self.state.as_ref().map_or(0, |state| state.bytes());
        self.value.buffer().len() + narrow + kept.map(Buffer::len).sum::<usize>() + state
    }
}

const fn wide(dtype: Dtype) -> Dtype {
    match dtype {
        Dtype::F16 => Dtype::F32,
        other => other,
    }
}

fn widened(dtype: Dtype, bytes: &[u8]) -> Buffer {
    match dtype {
        Dtype::F16 => precision::to_f32(dtype, bytes),
        _ => Buffer::copy_of(bytes),
    }
}

/// The same in its own type.
fn narrowed(dtype: Dtype, wide: Buffer) -> Buffer {
    match dtype {
        Dtype::F16 => {
            let mut narrow = Buffer::zeroed(wide.len() / 2);
            precision::from_f32(&wide, dtype, &mut narrow);
            narrow
        }
        _ => wide,
    }
}

impl LocalModel {
    /// One without tensors, of a worker in a job of so many workers and servers.
    #[must_use]
    pub fn new(spec: &ExchangeSpec, workers: u32, servers: usize) -> Self {
        let form = match (spec.waits, spec.sections) {
            (true, _) => ExchangedForm::Waits,
            (false, 0 | 1) => ExchangedForm::One { keep: spec.keep },
            (false, _) => ExchangedForm::Several,
        };
        Self {
            form,
            factor: if spec.scale { f64::from(workers.max(1)) } else { 1.0 },
            view: RankRanges::new(servers),
            optimizer: None,
            by_program: false,
            tensors: BTreeMap::new(),
            scratch: Buffer::default(),
        }
    }

    // ---- commands -------------------------------------------------------------------------------

    /// A command that the program sends to the servers. The optimizer stays here; each one that
    /// comes begins without any state, as on a server.
    ///
    /// # Errors
    /// It cannot be obeyed in a job that exchanges deltas, or is malformed. Nothing has changed.
    pub fn command(&mut self, head: Head, body: &[u8]) -> Result<Obeyed, StoreError> {
        match head {
            Head::Controller => self.set_optimizer(body).map(|()| Obeyed::Here),
            Head::SyncMode | Head::MultiPrecision => Ok(Obeyed::Here),
            Head::Compression => match Compression::from_body(body)? {
                Compression::None => Ok(Obeyed::Here),
                Compression::TwoBit(_) => Err(refused(
                    "gradient compression is for gradients, and this job exchanges deltas \
                     (PSLITE_SYNC): drop compression_params",
                )),
            },
            Head::Stop | Head::Profiler | Head::Agree | Head::Other(_) => Ok(Obeyed::ByServers),
        }
    }

    fn set_optimizer(&mut self, body: &[u8]) -> Result<(), StoreError> {
        let wrong = |why: String| StoreError::Optimizer(why);
        let value = pickle::read(body).map_err(|error| wrong(error.to_string()))?;
        let optimizer = Optimizer::from_value(&value).map_err(|error| wrong(error.to_string()))?;
        self.use_optimizer(optimizer)
    }

    /// The same of one that was read.
    fn use_optimizer(&mut self, optimizer: Optimizer) -> Result<(), StoreError> {
        self.check_optimizer_steps()?;
        let class = optimizer.class();
        if WEIGHTS_IN_STATE.contains(&class) {
            return Err(refused(&format!(
                "{class} keeps the weights in its state, so it would undo what comes from other \
                 workers: take another optimizer, or train without PSLITE_SYNC"
            )));
        }
        self.optimizer = Some(Arc::new(optimizer.scaled(self.factor)));
        self.tensors.values_mut().for_each(|tensor| tensor.state = None);
        Ok(())
    }

    // ---- values ---------------------------------------------------------------------------------

    /// True if it has that key.
    #[must_use]
    pub fn has(&self, key: Key) -> bool {
        self.tensors.contains_key(&key)
    }

    /// The value with which a key begins, as the servers have it. Of one that is here nothing
    /// changes.
    ///
    /// # Errors
    /// There are too many keys, or the bytes are no whole number of elements.
    pub fn begin(&mut self, key: Key, dtype: Dtype, value: &[u8]) -> Result<(), StoreError> {
        if self.has(key) {
            return Ok(());
        }
        if self.tensors.len() >= TENSORS_MAX {
            return Err(StoreError::Full(TENSORS_MAX));
        }
        if !value.len().is_multiple_of(dtype.size()) {
            return Err(StoreError::Malformed("a value is no whole number of elements"));
        }
        let tensor = Tensor {
            dtype,
            value: Value::new(widened(dtype, value)),
            narrow: None,
            start: None,
            sent: None,
            coming: None,
            known: Known::Nothing,
            state: None,
        };
        self.tensors.insert(key, tensor);
        Ok(())
    }

    /// The value that the program trains with, and its type.
    ///
    /// # Errors
    /// The key is not here.
    pub fn value(&mut self, key: Key) -> Result<(Dtype, Bytes), StoreError> {
        let name = self.view.name(key);
        let tensor = self.tensors.get_mut(&key).ok_or(StoreError::Unknown { key: name })?;
        let dtype = tensor.dtype;
        tensor.known = Known::Value;
        if dtype == tensor.wide() {
            return Ok((dtype, tensor.value.lend()));
        }
        let wide = tensor.value.buffer();
        let narrow = tensor.narrow.get_or_insert_with(|| {
            let mut narrow = Buffer::zeroed(wide.len() / wide_size(dtype) * dtype.size());
            precision::from_f32(wide, dtype, &mut narrow);
            Value::new(narrow)
        });
        Ok((dtype, narrow.lend()))
    }

    /// Applies a gradient to a key, by the script's optimizer and its own count of updates. Where
    /// the program steps ([`Self::step_by_program`]), takes its new value.
    ///
    /// # Errors
    /// The key is not here, the gradient or value does not fit it, no optimizer was set, it cannot
    /// update such a key, or the program has not pulled the value. Nothing has changed.
    pub fn step(&mut self, key: Key, dtype: Dtype, gradient: &[u8]) -> Result<(), StoreError> {
        let (local, name) = (self.view.local(key), self.view.name(key));
        let Self { tensors, optimizer, scratch, .. } = self;
        let tensor = tensors.get_mut(&key).ok_or(StoreError::Unknown { key: name })?;
        if self.by_program {
            return tensor.step_to(name, dtype, gradient);
        }
        let Some(optimizer) = optimizer else {
            return Err(refused(&format!(
                "key {name}: this job exchanges deltas (PSLITE_SYNC), so the worker applies \
                 gradients, and no optimizer was set: set update_on_kvstore=True, call \
                 kv.set_optimizer, or step the values yourself (pslite.sync)"
            )));
        };
        tensor.check_fits(name, dtype, gradient.len(), "gradient")?;
        if dtype == tensor.wide() {
            scratch.resize(gradient.len());
            scratch.bytes_mut().copy_from_slice(gradient);
        } else {
            *scratch = widened(dtype, gradient);
        }
        let start = tensor.start.is_none().then(|| tensor.value.buffer().clone());
        let wide = tensor.wide();
        let gradient = Gradient::Dense(scratch);
        optimizer.update(local, wide, tensor.value.change(), &gradient, &mut tensor.state)?;
        tensor.narrow = None;
        if let Some(start) = start {
            tensor.start = Some(start);
        }
        Ok(())
    }

    // ---- exchange -------------------------------------------------------------------------------

    /// The global value of a key has come, in answer to what was sent of it. It is taken at the
    /// next swap.
    ///
    /// # Errors
    /// The key is not here, or the value does not fit it.
    pub fn arrived(&mut self, key: Key, value: &[u8]) -> Result<(), StoreError> {
        let name = self.view.name(key);
        let tensor = self.tensors.get_mut(&key).ok_or(StoreError::Unknown { key: name })?;
        let coming = widened(tensor.dtype, value);
        if coming.len() != tensor.value.buffer().len() {
            return Err(StoreError::Malformed("a global value is not as long as the local one"));
        }
        tensor.coming = Some(coming);
        Ok(())
    }

    /// Takes the global value of a key, sends what was changed, or both. What is to be sent, in the
    /// key's own type.
    ///
    /// # Errors
    /// The key is not here; there is no global value to be taken; or what was changed is not
    /// finite, and so would be everybody's. The last leaves the key as it was.
    pub fn exchange(
        &mut self,
        key: Key,
        swap: bool,
        send: bool,
    ) -> Result<Option<Bytes>, StoreError> {
        let name = self.view.name(key);
        let (form, optimizer) = (self.form, self.optimizer.clone());
        let tensor = self.tensors.get_mut(&key).ok_or(StoreError::Unknown { key: name })?;
        if swap && self.by_program {
            tensor.remember_given();
        }
        let delta = match form {
            ExchangedForm::One { keep } if swap && send => Some(tensor.swap_and_send(name, keep)?),
            _ => {
                if swap {
                    tensor.swap(name, form)?;
                }
                if send { Some(tensor.send(name, form)?) } else { None }
            }
        };
        if swap {
            tensor.narrow = None;
            if let (Some(optimizer), Some(state)) = (&optimizer, &mut tensor.state) {
                optimizer.swapped(state, tensor.value.buffer());
            }
        }
        Ok(delta)
    }

    /// Where the program computes nothing and nothing is under way, the value of a key becomes the
    /// global one that was taken last: what a float16 delta could not say is given up.
    pub fn settle(&mut self, key: Key) {
        let by_program = self.by_program;
        if let Some(tensor) = self.tensors.get_mut(&key) {
            tensor.settle(by_program);
        }
    }

    /// The same of all keys.
    pub fn settle_all(&mut self) {
        let by_program = self.by_program;
        self.tensors.values_mut().for_each(|tensor| tensor.settle(by_program));
    }

    /// How many keys it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// True if it has no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// Bytes of memory that it takes. It walks over all keys.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.tensors.values().map(Tensor::bytes).sum::<usize>() + self.scratch.len()
    }
}

impl Tensor {
    /// What the program pushes fits the key. `what`: it is a gradient, or a value.
    fn check_fits(
        &self,
        name: KeyName,
        dtype: Dtype,
        bytes: usize,
        what: &str,
    ) -> Result<(), StoreError> {
        let elements = self.value.buffer().len() / wide_size(self.dtype);
        if dtype == self.dtype && bytes == elements * dtype.size() {
            return Ok(());
        }
        let expected = elements * self.dtype.size();
        Err(refused(&format!(
            "key {name} has {expected} bytes of {}, the {what} {bytes} of {dtype}",
            self.dtype
        )))
    }

    /// What was changed since the start, and what arrives of it elsewhere, where that is less
    /// exact.
    fn delta(&self, name: KeyName) -> Result<(Buffer, Option<Buffer>), StoreError> {
        let value = self.value.buffer();
        let wide = match &self.start {
            Some(start) => subtract(self.wide(), value, start),
            None => Buffer::zeroed(value.len()),
        };
        let delta = narrowed(self.dtype, wide);
        if !is_finite(self.dtype, &delta) {
            return Err(refused(&format!(
                "key {name}: what this worker has changed since its last exchange is not finite \
                 (NaN, infinite, or beyond {}): its training has diverged",
                self.dtype
            )));
        }
        let arrives = (self.dtype != self.wide()).then(|| widened(self.dtype, delta.bytes()));
        Ok((delta, arrives))
    }

    fn send(&mut self, name: KeyName, form: ExchangedForm) -> Result<Bytes, StoreError> {
        let (delta, arrives) = self.delta(name)?;
        // Up to where it is sent: of float16 what was rounded off is still to be sent.
        let sent = match (&arrives, &self.start) {
            (Some(arrives), Some(start)) => add(self.wide(), start, arrives),
            _ => self.value.buffer().clone(),
        };
        match form {
            ExchangedForm::Several => {
                self.start.get_or_insert_with(|| sent.clone());
                self.sent = Some(sent);
            }
            ExchangedForm::One { .. } | ExchangedForm::Waits => self.start = Some(sent),
        }
        Ok(delta.into_bytes())
    }

    fn swap(&mut self, name: KeyName, form: ExchangedForm) -> Result<(), StoreError> {
        let global = self.take_coming(name)?;
        let since = match form {
            ExchangedForm::Several => self.sent.take().or_else(|| self.start.take()),
            ExchangedForm::One { keep: true } => self.start.take(),
            ExchangedForm::One { keep: false } | ExchangedForm::Waits => None,
        };
        let wide = self.wide();
        let value = match since {
            Some(since) => add(wide, &global, &subtract(wide, self.value.buffer(), &since)),
            None => global.clone(),
        };
        self.value.overwrite().bytes_mut().copy_from_slice(value.bytes());
        self.start = Some(global);
        Ok(())
    }

    fn swap_and_send(&mut self, name: KeyName, keep: bool) -> Result<Bytes, StoreError> {
        let (delta, arrives) = self.delta(name)?;
        let global = self.take_coming(name)?;
        let wide = self.wide();
        let value = match (&self.start, keep) {
            (Some(start), true) => add(wide, &global, &subtract(wide, self.value.buffer(), start)),
            _ => global.clone(),
        };
        self.value.overwrite().bytes_mut().copy_from_slice(value.bytes());
        self.start = Some(match arrives.filter(|_| keep) {
            Some(arrives) => add(wide, &global, &arrives),
            None => value,
        });
        Ok(delta.into_bytes())
    }

    fn settle(&mut self, by_program: bool) {
        if self.start.as_ref().is_none_or(|start| self.value.buffer() == start) {
            return;
        }
        if by_program {
            self.remember_given();
        }
        if let Some(start) = &self.start {
            self.value.overwrite().bytes_mut().copy_from_slice(start.bytes());
            self.narrow = None;
        }
    }

    fn take_coming(&mut self, name: KeyName) -> Result<Buffer, StoreError> {
        self.coming.take().ok_or_else(|| {
            refused(&format!("key {name}: a global value is to be taken, and none has come"))
        })
    }
}

const fn wide_size(dtype: Dtype) -> usize {
    wide(dtype).size()
}

fn refused(text: &str) -> StoreError {
    StoreError::Exchange(text.to_owned())
}
