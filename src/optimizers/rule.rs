//! What makes one optimizer differ from another.

use pslite_elements::Dtype;

use super::OptimizerError;
use super::attributes::Attributes;
use super::decimal::{list_element, parameter};
use super::formula::UpdateSlices;
use super::number::Number;
use super::rates::Common;

/// Numbers that an optimizer may keep for a key.
pub(super) const NUMBERS: usize = 2;

/// One update of one key.
pub(super) struct UpdateStep<'a> {
    /// What all optimizers have in common.
    pub common: &'a Common,
    /// The kvstore's key.
    pub key: i64,
    /// The number of this update; the first is `begin_num_update + 1`.
    pub count: i64,
    /// Learning rate, before the multiplier of the key.
    pub plain_rate: f64,
    /// Learning rate; a rule may change it.
    pub rate: f64,
    /// Weight decay.
    pub decay: f64,
    /// The numbers of the key's state; a rule may change them in [`Rule::prepare`].
    pub numbers: [f64; NUMBERS],
    /// The gradient was row_sparse and has been made dense.
    pub densified: bool,
    /// The sums of squares of weights and gradient, where these are float16 with a master copy: for
    /// rules that need whole tensors, which MXNet sums in float16 even then.
    pub narrow_squares: Option<[f32; 2]>,
    /// The rate as a parameter of an operator.
    pub operator_rate: f32,
    /// The weight decay as a parameter of an operator.
    pub operator_decay: f32,
}

/// How learning rate and weight decay reach MXNet's operator.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Passing {
    /// Each as a parameter.
    Parameter,
    /// In a list of numbers.
    List,
    /// In an array of float32.
    Array,
}

impl UpdateStep<'_> {
    /// Computes the operator's parameters from the rate and the decay.
    pub(super) fn pass(&mut self, passing: Passing) {
        let pass = match passing {
            Passing::Parameter => parameter,
            Passing::List => list_element,
            Passing::Array => |value| value as f32,
        };
        self.operator_rate = pass(self.rate);
        self.operator_decay = pass(self.decay);
    }
}

/// What an optimizer does with a row_sparse gradient.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sparse {
    /// Its kernel updates the rows of the gradient only.
    Lazy,
    /// Its kernel updates all rows.
    Standard,
    /// MXNet makes the gradient dense first.
    Dense,
    /// MXNet fails.
    Refused(&'static str),
    /// MXNet can do it; here there is no kernel for it.
    Missing(&'static str),
}

/// An optimizer's own part.
pub(super) trait Rule: Sized {
    /// Reads the attributes that only this class has.
    fn read(attributes: &mut Attributes<'_>) -> Result<Self, OptimizerError>;

    /// The names of the tensors of state, which begin as zeros.
    fn tensors(&self) -> &'static [&'static str];

    /// True if it can compute in this type.
    fn takes(&self, _: Dtype) -> bool {
        true
    }

    /// The numbers with which a key begins.
    fn numbers(&self) -> [f64; NUMBERS] {
        [0.0; NUMBERS]
    }

    /// True if the first tensor of state begins as a copy of the weights.
    fn begins_with_weights(&self) -> bool {
        false
    }

    /// True if it must see all elements of a tensor at once.
    fn needs_whole(&self) -> bool {
        false
    }

    /// True if it takes the learning rate of the update before.
    fn asks_before_counting(&self) -> bool {
        false
    }

    /// Why it cannot work with dense gradients, if so.
    fn refuses_dense(&self) -> Option<&'static str> {
        None
    }

    /// What it does with row_sparse gradients, given the weight decay of the key. Most have no
    /// operator for them, and get a dense one.
    fn sparse(&self, _: f64) -> Sparse {
        Sparse::Dense
    }

    /// How rate and decay reach the operator.
    fn passing(&self, _: bool) -> Passing {
        Passing::Parameter
    }

    /// Called once per update before any element; may change the step's rate.
    fn prepare(&self, _: &mut UpdateStep<'_>) {}

    /// Updates elements with a dense gradient.
    fn dense<T: Number>(&self, step: &UpdateStep<'_>, on: UpdateSlices<'_, T>);

    /// What happens to all weights before the first row of a row_sparse gradient.
    fn before_rows<T: Number>(&self, _: &UpdateStep<'_>, _weight: &mut [T::Stored]) {}

    /// Updates one row with its row of the gradient; with zeros where the gradient has no such row
    /// and the update is [`Sparse::Standard`].
    fn row<T: Number>(&self, step: &UpdateStep<'_>, on: UpdateSlices<'_, T>) {
        self.dense(step, on);
    }
}
