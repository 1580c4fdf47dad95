//! Optimizers: MXNet 1.9.1's update rules, run by the server without Python.
//!
//! An [`Optimizer`] is made from the object that the workers pickled, and never changes afterwards;
//! what changes with every update is in the [`State`] of a key. So keys can be updated by several
//! threads at once, in any order, and moved between servers, and the result is the same. It is
//! equal to that of MXNet's `Updater` bit for bit, or as near as docs/optimizers.md says.
//!
//! `pickle` reads what the workers sent, without running any of it.
//!
//! Pure: bytes and elements in, elements out. Knows `elements` and nothing of keys, wires or
//! stores; must not do I/O, read a clock, draw random numbers or start threads.
#![forbid(unsafe_code)]

mod adagrad;
mod adam;
mod arrays;
mod attributes;
mod classes;
mod decimal;
mod error;
mod formula;
mod ftml;
mod ftrl;
mod lamb;
mod lars;
mod lbsgd;
mod method;
mod nadam;
mod nag;
mod number;
pub mod pickle;
mod rates;
mod rmsprop;
mod rows;
mod rule;
mod schedule;
mod sgd;
mod signum;
mod state;
mod state_codec;

use std::array;

use pslite_elements::{Buffer, Dtype};

use self::attributes::{Attributes, MOST_UPDATES};
use self::classes::CLASSES;
use self::formula::{MOST_TENSORS, UpdateSlices};
use self::lars::sum_of_squares;
use self::method::Method;
use self::number::{Half, Number};
use self::pickle::Value;
use self::rates::Common;
use self::rows::GivenRows;
use self::rule::{Sparse, UpdateStep};

pub use self::error::OptimizerError;
pub use self::state::State;

/// Elements of a float16 gradient that are converted at once for a float32 master copy. Fits the
/// first-level cache and the stack.
const GRADIENT_BLOCK: usize = 2048;

/// An optimizer, as the workers sent it.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimizer {
    class: &'static str,
    common: Common,
    method: Method,
}

/// A gradient, of the element type of the weights.
#[derive(Debug, Clone, Copy)]
pub enum Gradient<'a> {
    /// One element for each weight.
    Dense(&'a Buffer),
    /// Some rows of a matrix.
    RowSparse {
        /// The rows' numbers, without repetition.
        rows: &'a [i64],
        /// The rows, one after the other.
        values: &'a Buffer,
        /// Elements of a row, at least one.
        row_len: usize,
    },
}

impl Optimizer {
    /// The classes that can be run, by their names in Python.
    pub const SUPPORTED: &'static [&'static str] = CLASSES;

    /// From an unpickled object.
    ///
    /// # Errors
    /// If the class is not among [`Self::SUPPORTED`], or if it has an attribute that is not known,
    /// missing or senseless; the error names it.
    pub fn from_value(value: &Value) -> Result<Self, OptimizerError> {
        let Value::Object(object) = value else { return Err(OptimizerError::NotAnObject) };
        let mut attributes = Attributes::new(object);
        let (class, method) = Method::read(&object.class, &mut attributes)?;
        let common = Common::read(&mut attributes)?;
        attributes.finish()?;
        Ok(Self { class, common, method })
    }

    /// The name of its class.
    #[must_use]
    pub const fn class(&self) -> &'static str {
        self.class
    }

    /// True if there are kinds of keys that it can never update: [`Self::unfit`] says which.
    #[must_use]
    pub fn is_choosy(&self) -> bool {
        self.method.refuses_dense().is_some()
            || matches!(self.method.sparse(1.0), Sparse::Refused(_) | Sparse::Missing(_))
    }

    /// What about such a key it can never update here, and why, if so. Most of that MXNet cannot
    /// either: it says so at the first update. `rows`: the key is row_sparse.
    #[must_use]
    pub fn unfit(&self, key: i64, rows: bool) -> Option<(&'static str, &'static str)> {
        if !rows {
            return self.method.refuses_dense().map(|reason| ("dense", reason));
        }
        match self.method.sparse(self.common.decay(key)) {
            Sparse::Refused(reason) | Sparse::Missing(reason) => Some(("row_sparse", reason)),
            _ => None,
        }
    }

    /// True if it keeps float32 beside the weights, whatever they are: so those of other types need
    /// a float32 copy.
    #[must_use]
    pub fn wants_float32(&self) -> bool {
        !self.method.takes(Dtype::F16)
    }

    /// True if it updates each element for itself, so that a tensor can be cut anywhere and the
    /// result is the same. LARS and LAMB need the norms of whole tensors.
    #[must_use]
    pub fn is_elementwise(&self) -> bool {
        !self.method.needs_whole()
    }

    /// True if it keeps float32 copies of float16 weights. MXNet's kvstore then tells the server to
    /// store and update such keys in float32 itself (command `kSetMultiPrecision`).
    #[must_use]
    pub const fn multi_precision(&self) -> bool {
        self.common.multi_precision
    }

    /// The same one for gradients that are to be multiplied by a factor: one more of
    /// `rescale_grad`.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        self.common.scale(factor);
        self
    }

    /// A key's weights have become others, and not by an update: the state that goes by what they
    /// were follows.
    pub fn swapped(&self, state: &mut State, weight: &Buffer) {
        if self.method.begins_with_weights()
            && let Some(tensor) = state.tensors.first_mut()
        {
            tensor.clone_from(weight);
        }
    }

    /// The state of a key that has not been updated yet (`create_state_multi_precision`).
    ///
    /// # Errors
    /// If this optimizer cannot update elements of that type.
    pub fn new_state(
        &self,
        key: i64,
        dtype: Dtype,
        weight: &Buffer,
    ) -> Result<State, OptimizerError> {
        let master = self.has_master(dtype).then(|| widened(weight));
        let computed = if master.is_some() { Dtype::F32 } else { dtype };
        let float = matches!(computed, Dtype::F32 | Dtype::F64 | Dtype::F16);
        if !float || !self.method.takes(computed) {
            return Err(OptimizerError::Dtype { class: self.class, dtype });
        }
        let bytes = weight.len() / dtype.size() * computed.size();
        let names = self.method.tensors();
        let count = self.common.count_before(key);
        let mut tensors: Vec<_> = names.iter().map(|_| Buffer::zeroed(bytes)).collect();
        if self.method.begins_with_weights()
            && let Some(tensor) = tensors.first_mut()
        {
            tensor.clone_from(master.as_ref().unwrap_or(weight));
        }
        Ok(State {
            names,
            dtype: computed,
            tensors,
            master,
            numbers: self.method.numbers(),
            count,
            progress: self.common.progress(key, count),
        })
    }

    /// The state of a key that comes from another server.
    ///
    /// # Errors
    /// If the tensors are not those that this optimizer would have exported.
    pub fn restore_state(
        &self,
        key: i64,
        dtype: Dtype,
        weight: &Buffer,
        tensors: Vec<(String, Buffer)>,
        numbers: &[f64],
        count: i64,
    ) -> Result<State, OptimizerError> {
        let mut state = self.new_state(key, dtype, weight)?;
        state.fill(tensors, key)?;
        for (own, given) in state.numbers.iter_mut().zip(numbers) {
            *own = *given;
        }
        state.count = count.clamp(0, MOST_UPDATES);
        state.progress = self.common.progress(key, state.count);
        Ok(state)
    }

    /// Updates a key. Without a state, makes one first.
    ///
    /// # Errors
    /// If the gradient does not fit the weights, or this optimizer cannot work with their type or
    /// with a row_sparse gradient. Then nothing has been changed.
    pub fn update(
        &self,
        key: i64,
        dtype: Dtype,
        weight: &mut Buffer,
        gradient: &Gradient<'_>,
        state: &mut Option<Box<State>>,
    ) -> Result<(), OptimizerError> {
        self.check(key, dtype, weight, gradient)?;
        if state.is_none() {
            *state = Some(Box::new(self.new_state(key, dtype, weight)?));
        }
        let Some(state) = state else { return Ok(()) };
        if state
            .tensors()
            .any(|(_, of, tensor)| tensor.len() / of.size() != weight.len() / dtype.size())
        {
            let (found, expected) = (state.bytes(), weight.len());
            return Err(OptimizerError::Length { key, what: "state", found, expected });
        }
        match gradient {
            Gradient::Dense(gradient) => {
                self.update_dense(key, dtype, weight, gradient, state, false)
            }
            Gradient::RowSparse { rows, values, row_len } => {
                let rows = GivenRows { rows, values, row_len: (*row_len).max(1) };
                self.update_rows(key, dtype, weight, rows, state);
            }
        }
        Ok(())
    }

    const fn has_master(&self, dtype: Dtype) -> bool {
        self.common.multi_precision && matches!(dtype, Dtype::F16)
    }

    fn check(
        &self,
        key: i64,
        dtype: Dtype,
        weight: &Buffer,
        gradient: &Gradient<'_>,
    ) -> Result<(), OptimizerError> {
        let (found, expected) = match gradient {
            Gradient::Dense(gradient) => {
                if let Some(reason) = self.method.refuses_dense() {
                    return Err(OptimizerError::Unsupported { class: self.class, reason });
                }
                (gradient.len(), weight.len())
            }
            Gradient::RowSparse { rows, values, row_len } => {
                let refused = match self.method.sparse(self.common.decay(key)) {
                    Sparse::Refused(reason) | Sparse::Missing(reason) => Some(reason),
                    _ if self.has_master(dtype) => Some("float16 with a float32 copy"),
                    _ => None,
                };
                if let Some(reason) = refused {
                    return Err(OptimizerError::RowSparse { class: self.class, reason });
                }
                let row_bytes = (*row_len).max(1).saturating_mul(dtype.size());
                rows::check(key, rows, weight.len() / row_bytes)?;
                (values.len(), rows.len().saturating_mul(row_bytes))
            }
        };
        if found == expected {
            return Ok(());
        }
        Err(OptimizerError::Length { key, what: "gradient", found, expected })
    }

    /// Counts the update and finds its learning rate.
    fn begin(&self, key: i64, state: &mut State, sparse: bool) -> UpdateStep<'_> {
        state.count = state.count.saturating_add(1);
        let asked = state.count - i64::from(self.method.asks_before_counting());
        let plain_rate = self.common.plain_rate(asked, &mut state.progress);
        let mut step = UpdateStep {
            common: &self.common,
            key,
            count: state.count,
            plain_rate,
            rate: self.common.rate_factor(key).map_or(plain_rate, |factor| plain_rate * factor),
            decay: self.common.decay(key),
            numbers: state.numbers,
            densified: false,
            narrow_squares: None,
            operator_rate: 0.0,
            operator_decay: 0.0,
        };
        self.method.prepare(&mut step);
        state.numbers = step.numbers;
        step.pass(self.method.passing(sparse));
        step
    }

    fn update_dense(
        &self,
        key: i64,
        dtype: Dtype,
        weight: &mut Buffer,
        gradient: &Buffer,
        state: &mut State,
        densified: bool,
    ) {
        let step = UpdateStep { densified, ..self.begin(key, state, false) };
        if let Some(master) = &mut state.master {
            self.dense_with_master(&step, weight, gradient, master, &mut state.tensors);
            return;
        }
        match dtype {
            Dtype::F32 => self.dense::<f32>(&step, weight, gradient, &mut state.tensors),
            Dtype::F64 => self.dense::<f64>(&step, weight, gradient, &mut state.tensors),
            _ => self.dense::<Half>(&step, weight, gradient, &mut state.tensors),
        }
    }

    fn dense<T: Number>(
        &self,
        step: &UpdateStep<'_>,
        weight: &mut Buffer,
        gradient: &Buffer,
        tensors: &mut [Buffer],
    ) {
        let (weight, gradient) = (weight.elements_mut(), gradient.elements());
        self.method.dense::<T>(step, UpdateSlices { weight, gradient, state: views::<T>(tensors) });
    }

    /// Updates the float32 copy with the widened gradient and rounds it, block by block.
    fn dense_with_master(
        &self,
        step: &UpdateStep<'_>,
        weight: &mut Buffer,
        gradient: &Buffer,
        master: &mut Buffer,
        tensors: &mut [Buffer],
    ) {
        if self.method.needs_whole() {
            let squares = [&*weight, gradient].map(|of| sum_of_squares::<Half>(of.elements()));
            let step = UpdateStep { narrow_squares: Some(squares), ..*step };
            self.dense::<f32>(&step, master, &widened(gradient), tensors);
            return narrow(master.elements(), weight.elements_mut());
        }
        let mut wide = [0.0_f32; GRADIENT_BLOCK];
        let mut state = views::<f32>(tensors);
        let weights = weight.elements_mut::<half::f16>().chunks_mut(GRADIENT_BLOCK);
        let gradients = gradient.elements::<half::f16>().chunks(GRADIENT_BLOCK);
        let masters = master.elements_mut::<f32>().chunks_mut(GRADIENT_BLOCK);
        for ((weight, gradient), master) in weights.zip(gradients).zip(masters) {
            let wide = &mut wide[..gradient.len()];
            widen(gradient, wide);
            let mut rest = state;
            let block = array::from_fn(|place| {
                let tensor = std::mem::take(&mut rest[place]);
                let (block, after) = tensor.split_at_mut(tensor.len().min(wide.len()));
                rest[place] = after;
                block
            });
            state = rest;
            self.method
                .dense::<f32>(step, UpdateSlices { weight: master, gradient: wide, state: block });
            narrow(master, weight);
        }
    }
}

/// The tensors as elements; empty where there are less than [`MOST_TENSORS`].
fn views<T: Number>(tensors: &mut [Buffer]) -> [&mut [T::Stored]; MOST_TENSORS] {
    let mut tensors = tensors.iter_mut();
    array::from_fn(|_| tensors.next().map_or_else(Default::default, Buffer::elements_mut))
}

fn widened(weight: &Buffer) -> Buffer {
    let narrow = weight.elements::<half::f16>();
    let mut wide = Buffer::zeroed(narrow.len() * Dtype::F32.size());
    widen(narrow, wide.elements_mut());
    wide
}

fn widen(narrow: &[half::f16], wide: &mut [f32]) {
    for (wide, narrow) in wide.iter_mut().zip(narrow) {
        *wide = Half::load(*narrow).single();
    }
}

fn narrow(wide: &[f32], narrow: &mut [half::f16]) {
    for (narrow, wide) in narrow.iter_mut().zip(wide) {
        *narrow = Half::of(*wide).store();
    }
}

#[cfg(test)]
mod tests;
