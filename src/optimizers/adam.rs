//! Adam (`adam_update`).

use super::OptimizerError;
use super::attributes::Attributes;
use super::decimal::parameter;
use super::formula::{Formula, UpdateSlices, apply};
use super::number::Number;
use super::rule::{Rule, Sparse, UpdateStep};

/// Adam's parameters: as the operator gets them, and the decays of the moments as Python has them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Adam {
    beta1: f64,
    beta2: f64,
    operator_beta1: f32,
    operator_beta2: f32,
    epsilon: f32,
    lazy: bool,
}

impl Rule for Adam {
    fn read(a: &mut Attributes<'_>) -> Result<Self, OptimizerError> {
        let (beta1, beta2) = (a.float("beta1")?, a.float("beta2")?);
        Ok(Self {
            beta1,
            beta2,
            operator_beta1: parameter(beta1),
            operator_beta2: parameter(beta2),
            epsilon: parameter(a.float("epsilon")?),
            lazy: a.truth("lazy_update", true)?,
        })
    }

    fn tensors(&self) -> &'static [&'static str] {
        &["mean", "variance"]
    }

    fn sparse(&self, _: f64) -> Sparse {
        if self.lazy { Sparse::Lazy } else { Sparse::Standard }
    }

    fn prepare(&self, step: &mut UpdateStep<'_>) {
        let count = step.count as f64;
        let (mean, variance) = (1.0 - self.beta1.powf(count), 1.0 - self.beta2.powf(count));
        step.rate *= variance.sqrt() / mean;
    }

    fn dense<T: Number>(&self, step: &UpdateStep<'_>, on: UpdateSlices<'_, T>) {
        apply(&self.formula(step, false), on);
    }

    fn row<T: Number>(&self, step: &UpdateStep<'_>, on: UpdateSlices<'_, T>) {
        // The kernels for rows square first: the lazy one if it clips, the standard one always.
        let square_first = !self.lazy || step.common.operator_clip >= 0.0;
        apply(&self.formula(step, square_first), on);
    }
}

impl Adam {
    fn formula<T: Number>(&self, step: &UpdateStep<'_>, square_first: bool) -> AdamKernel<T> {
        AdamKernel {
            rate: T::of(step.operator_rate),
            decay: T::of(step.operator_decay),
            rescale: T::of(step.common.operator_rescale),
            clip: T::of(step.common.operator_clip),
            beta1: T::of(self.operator_beta1),
            beta2: T::of(self.operator_beta2),
            epsilon: T::of(self.epsilon),
            square_first,
        }
    }
}

#[derive(Clone, Copy)]
struct AdamKernel<T> {
    rate: T,
    decay: T,
    rescale: T,
    clip: T,
    beta1: T,
    beta2: T,
    epsilon: T,
    square_first: bool,
}

impl<T: Number> Formula<T, 2> for AdamKernel<T> {
    #[inline(always)]
    fn element(&self, weight: T, gradient: T, [mean, variance]: [T; 2]) -> (T, [T; 2]) {
        let one = T::of(1.0);
        let gradient = (gradient * self.rescale + weight * self.decay).clip(self.clip);
        let mean = self.beta1 * mean + (one - self.beta1) * gradient;
        let square = if self.square_first {
            (one - self.beta2) * (gradient * gradient)
        } else {
            (one - self.beta2) * gradient * gradient
        };
        let variance = self.beta2 * variance + square;
        let weight = weight - self.rate * mean / (variance.sqrt() + self.epsilon);
        (weight, [mean, variance])
    }
}
