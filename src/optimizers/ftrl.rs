//! Follow the regularised leader (`ftrl_update`). Its state is float32, and so must the weights be.

use pslite_elements::Dtype;

use super::OptimizerError;
use super::attributes::Attributes;
use super::decimal::parameter;
use super::formula::{Formula, UpdateSlices, apply};
use super::number::Number;
use super::rule::{Rule, Sparse, UpdateStep};

/// Ftrl's parameters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ftrl {
    lambda: f32,
    beta: f32,
}

impl Rule for Ftrl {
    fn read(a: &mut Attributes<'_>) -> Result<Self, OptimizerError> {
        Ok(Self { lambda: parameter(a.float("lamda1")?), beta: parameter(a.float("beta")?) })
    }

    fn tensors(&self) -> &'static [&'static str] {
        &["z", "n"]
    }

    fn takes(&self, dtype: Dtype) -> bool {
        dtype == Dtype::F32
    }

    fn sparse(&self, _: f64) -> Sparse {
        Sparse::Lazy
    }

    fn dense<T: Number>(&self, step: &UpdateStep<'_>, on: UpdateSlices<'_, T>) {
        let kernel = FtrlKernel {
            lambda: T::of(self.lambda),
            beta: T::of(self.beta),
            rate: T::of(step.operator_rate),
            decay: T::of(step.operator_decay),
            rescale: T::of(step.common.operator_rescale),
            clip: T::of(step.common.operator_clip),
        };
        apply(&kernel, on);
    }
}

#[derive(Clone, Copy)]
struct FtrlKernel<T> {
    lambda: T,
    beta: T,
    rate: T,
    decay: T,
    rescale: T,
    clip: T,
}

impl<T: Number> Formula<T, 2> for FtrlKernel<T> {
    #[inline(always)]
    fn element(&self, weight: T, gradient: T, [z, n]: [T; 2]) -> (T, [T; 2]) {
        let gradient = (gradient * self.rescale).clip(self.clip);
        let square = gradient * gradient;
        let z = z + (gradient - ((n + square).sqrt() - n.sqrt()) * weight / self.rate);
        let n = n + square;
        let beyond = if z.abs() > self.lambda { T::of(1.0) } else { T::of(0.0) };
        let scale = (self.beta + n.sqrt()) / self.rate + self.decay;
        ((z.sign() * self.lambda - z) / scale * beyond, [z, n])
    }
}
