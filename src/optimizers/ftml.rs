//! Follow the moving leader (`ftml_update`).

use super::OptimizerError;
use super::attributes::Attributes;
use super::decimal::{double_parameter, parameter};
use super::formula::{Formula, UpdateSlices, apply};
use super::number::Number;
use super::rule::{Rule, UpdateStep};

/// FTML's parameters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ftml {
    beta1: f32,
    beta2: f32,
    epsilon: f64,
}

impl Rule for Ftml {
    fn read(a: &mut Attributes<'_>) -> Result<Self, OptimizerError> {
        Ok(Self {
            beta1: parameter(a.float("beta1")?),
            beta2: parameter(a.float("beta2")?),
            epsilon: double_parameter(a.float("epsilon")?),
        })
    }

    fn tensors(&self) -> &'static [&'static str] {
        &["d", "v", "z"]
    }

    fn dense<T: Number>(&self, step: &UpdateStep<'_>, on: UpdateSlices<'_, T>) {
        let one = T::of(1.0);
        let (beta1, beta2) = (T::of(self.beta1), T::of(self.beta2));
        let count = T::of_double(step.count as f64);
        let kernel = FtmlKernel {
            beta1,
            beta2,
            epsilon: T::of_double(self.epsilon),
            scale: (one - beta1.power(count)) / T::of(step.operator_rate),
            correction: one - beta2.power(count),
            decay: T::of(step.operator_decay),
            rescale: T::of(step.common.operator_rescale),
            clip: T::of(step.common.operator_clip),
        };
        apply(&kernel, on);
    }
}

#[derive(Clone, Copy)]
struct FtmlKernel<T> {
    beta1: T,
    beta2: T,
    epsilon: T,
    scale: T,
    correction: T,
    decay: T,
    rescale: T,
    clip: T,
}

impl<T: Number> Formula<T, 3> for FtmlKernel<T> {
    #[inline(always)]
    fn element(&self, weight: T, gradient: T, [d, v, z]: [T; 3]) -> (T, [T; 3]) {
        let one = T::of(1.0);
        let gradient = (self.rescale * gradient + self.decay * weight).clip(self.clip);
        let v = self.beta2 * v + (one - self.beta2) * (gradient * gradient);
        let new_d = self.scale * ((v / self.correction).sqrt() + self.epsilon);
        let z = self.beta1 * z + (one - self.beta1) * gradient - (new_d - self.beta1 * d) * weight;
        (-z / new_d, [new_d, v, z])
    }
}
