//! LARS: the learning rate of a tensor follows the norms of its weights and gradient
//! (`multi_sum_sq`, `multi_lars`, `preloaded_multi_sgd_update`). It needs whole tensors.
//!
//! The momentum is corrected when the learning rate changes. MXNet compares with the rate of
//! whatever key came before; here every key compares with its own last rate.

use super::OptimizerError;
use super::attributes::Attributes;
use super::decimal::parameter;
use super::formula::{Formula, UpdateSlices, apply};
use super::number::Number;
use super::rule::{NUMBERS, Passing, Rule, Sparse, UpdateStep};

/// Tensors with these names keep the plain rate.
const PLAIN_NAMES: [&str; 3] = ["gamma", "beta", "bias"];

/// LARS' parameters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lars {
    momentum: f64,
    corrects: bool,
    eta: f32,
    epsilon: f32,
    last_rate: f64,
}

impl Rule for Lars {
    fn read(a: &mut Attributes<'_>) -> Result<Self, OptimizerError> {
        super::sgd::momentum(a)?;
        a.ignore(&["lazy_update", "skip", "last_lr"]);
        Ok(Self {
            momentum: a.float("momentum")?,
            corrects: a.truth("momentum_correction", true)?,
            eta: parameter(a.float("eta")?),
            epsilon: parameter(a.float("eps")?),
            last_rate: a.optional_float("cur_lr")?.unwrap_or(f64::NAN),
        })
    }

    fn tensors(&self) -> &'static [&'static str] {
        if self.momentum == 0.0 { &[] } else { &["momentum"] }
    }

    /// The rate of the last update, NaN before the first, and the momentum of this one.
    fn numbers(&self) -> [f64; NUMBERS] {
        [self.last_rate, 0.0]
    }

    fn needs_whole(&self) -> bool {
        true
    }

    fn sparse(&self, _: f64) -> Sparse {
        Sparse::Missing("its native kernel is for dense gradients")
    }

    fn passing(&self, _: bool) -> Passing {
        Passing::Array
    }

    fn prepare(&self, step: &mut UpdateStep<'_>) {
        let [last, _] = step.numbers;
        let last = if last.is_nan() { step.plain_rate } else { last };
        let corrected = self.corrects && last != 0.0;
        let factor = if corrected { step.plain_rate / last } else { 1.0 };
        step.numbers = [step.plain_rate, self.momentum * factor];
    }

    fn dense<T: Number>(&self, step: &UpdateStep<'_>, on: UpdateSlices<'_, T>) {
        let mut rate = step.operator_rate;
        if !step.common.has_ending(step.key, &PLAIN_NAMES) {
            let [weights, gradients] = step.narrow_squares.unwrap_or_else(|| {
                [sum_of_squares::<T>(on.weight), sum_of_squares::<T>(on.gradient)]
            });
            rate = self.rate(step, weights, gradients);
        }
        let kernel = LarsKernel {
            momentum: T::of(parameter(step.numbers[1])),
            rate,
            decay_rate: rate * step.operator_decay,
            rescale_rate: T::of(step.common.operator_rescale).scaled(rate),
            rescale: T::of(step.common.operator_rescale),
            clip: T::of(step.common.operator_clip),
        };
        if self.momentum == 0.0 {
            apply::<T, 0, _>(&kernel, on);
        } else {
            apply::<T, 1, _>(&kernel, on);
        }
    }
}

impl Lars {
    fn rate(&self, step: &UpdateStep<'_>, weights: f32, gradients: f32) -> f32 {
        let norm = weights.sqrt();
        if norm > 0.0 && gradients > 0.0 {
            step.operator_rate * self.eta * norm
                / (gradients.sqrt() * step.common.operator_rescale
                    + step.operator_decay * norm
                    + self.epsilon)
        } else {
            step.operator_rate
        }
    }
}

/// The sum of the squares in MXNet's order: one after the other, in a float32.
pub(super) fn sum_of_squares<T: Number>(elements: &[T::Stored]) -> f32 {
    elements.iter().fold(0.0, |sum, element| {
        let element = T::load(*element);
        (element * element).added_to(sum)
    })
}

#[derive(Clone, Copy)]
struct LarsKernel<T> {
    momentum: T,
    rate: f32,
    decay_rate: f32,
    rescale_rate: T,
    rescale: T,
    clip: T,
}

impl<T: Number> LarsKernel<T> {
    #[inline(always)]
    fn momentum(&self, weight: T, gradient: T, momentum: T) -> T {
        let pull = if self.clip >= T::of(0.0) {
            (self.rescale * gradient).clip(self.clip).scaled(self.rate)
        } else {
            self.rescale_rate * gradient
        };
        self.momentum * momentum - weight.scaled(self.decay_rate) - pull
    }
}

impl<T: Number> Formula<T, 0> for LarsKernel<T> {
    #[inline(always)]
    fn element(&self, weight: T, gradient: T, []: [T; 0]) -> (T, [T; 0]) {
        (weight + self.momentum(weight, gradient, T::of(0.0)), [])
    }
}

impl<T: Number> Formula<T, 1> for LarsKernel<T> {
    #[inline(always)]
    fn element(&self, weight: T, gradient: T, [momentum]: [T; 1]) -> (T, [T; 1]) {
        let momentum = self.momentum(weight, gradient, momentum);
        (weight + momentum, [momentum])
    }
}
