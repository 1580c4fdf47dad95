//! RMSProp, plain and centered (`rmsprop_update`, `rmspropalex_update`). Its state is float32, and
//! so must the weights be.

use pslite_elements::Dtype;

use super::OptimizerError;
use super::attributes::Attributes;
use super::decimal::parameter;
use super::formula::{Formula, UpdateSlices, apply};
use super::number::Number;
use super::rule::{Rule, UpdateStep};

/// RMSProp's parameters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RmsProp {
    gamma1: f32,
    gamma2: f32,
    epsilon: f32,
    centered: bool,
    clip_weights: f32,
}

impl Rule for RmsProp {
    fn read(a: &mut Attributes<'_>) -> Result<Self, OptimizerError> {
        let clip_weights = a.optional_float("clip_weights")?.filter(|bound| *bound != 0.0);
        Ok(Self {
            gamma1: parameter(a.float("gamma1")?),
            gamma2: parameter(a.float("gamma2")?),
            epsilon: parameter(a.float("epsilon")?),
            centered: a.truth("centered", false)?,
            clip_weights: clip_weights.map_or(-1.0, parameter),
        })
    }

    fn tensors(&self) -> &'static [&'static str] {
        if self.centered { &["n", "g", "delta"] } else { &["n"] }
    }

    fn takes(&self, dtype: Dtype) -> bool {
        dtype == Dtype::F32
    }

    fn dense<T: Number>(&self, step: &UpdateStep<'_>, on: UpdateSlices<'_, T>) {
        let kernel = RmsPropKernel {
            gamma1: T::of(self.gamma1),
            gamma2: T::of(self.gamma2),
            epsilon: T::of(self.epsilon),
            clip_weights: T::of(self.clip_weights),
            rate: T::of(step.operator_rate),
            decay: T::of(step.operator_decay),
            rescale: T::of(step.common.operator_rescale),
            clip: T::of(step.common.operator_clip),
        };
        if self.centered {
            apply::<T, 3, _>(&kernel, on);
        } else {
            apply::<T, 1, _>(&kernel, on);
        }
    }
}

#[derive(Clone, Copy)]
struct RmsPropKernel<T> {
    gamma1: T,
    gamma2: T,
    epsilon: T,
    clip_weights: T,
    rate: T,
    decay: T,
    rescale: T,
    clip: T,
}

impl<T: Number> RmsPropKernel<T> {
    #[inline(always)]
    fn gradient(&self, weight: T, gradient: T) -> T {
        (self.rescale * gradient + self.decay * weight).clip(self.clip)
    }
}

impl<T: Number> Formula<T, 1> for RmsPropKernel<T> {
    #[inline(always)]
    fn element(&self, weight: T, gradient: T, [n]: [T; 1]) -> (T, [T; 1]) {
        let gradient = self.gradient(weight, gradient);
        let n = (T::of(1.0) - self.gamma1) * (gradient * gradient) + self.gamma1 * n;
        let weight = weight - self.rate * (gradient / (n + self.epsilon).sqrt());
        (weight.clip(self.clip_weights), [n])
    }
}

impl<T: Number> Formula<T, 3> for RmsPropKernel<T> {
    #[inline(always)]
    fn element(&self, weight: T, gradient: T, [n, g, delta]: [T; 3]) -> (T, [T; 3]) {
        let new = T::of(1.0) - self.gamma1;
        let gradient = self.gradient(weight, gradient);
        let n = new * gradient * gradient + self.gamma1 * n;
        let g = new * gradient + self.gamma1 * g;
        let delta = self.gamma2 * delta - self.rate * gradient / (n - g * g + self.epsilon).sqrt();
        ((weight + delta).clip(self.clip_weights), [n, g, delta])
    }
}
