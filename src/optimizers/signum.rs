//! Signum and SignSGD (`signum_update`, `signsgd_update`): only the sign counts.

use super::OptimizerError;
use super::attributes::Attributes;
use super::decimal::parameter;
use super::formula::{Formula, UpdateSlices, apply};
use super::number::Number;
use super::rule::{Rule, UpdateStep};
use super::sgd::momentum;

/// Signum's parameters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Signum {
    momentum: f32,
    decoupled_decay: f32,
}

impl Rule for Signum {
    fn read(a: &mut Attributes<'_>) -> Result<Self, OptimizerError> {
        Ok(Self { momentum: momentum(a)?, decoupled_decay: parameter(a.float("wd_lh")?) })
    }

    fn tensors(&self) -> &'static [&'static str] {
        if self.momentum == 0.0 { &[] } else { &["momentum"] }
    }

    fn dense<T: Number>(&self, step: &UpdateStep<'_>, on: UpdateSlices<'_, T>) {
        let kernel = SignumKernel {
            momentum: T::of(self.momentum),
            decoupled_decay: T::of(self.decoupled_decay),
            rate: T::of(step.operator_rate),
            decay: T::of(step.operator_decay),
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

#[derive(Clone, Copy)]
struct SignumKernel<T> {
    momentum: T,
    decoupled_decay: T,
    rate: T,
    decay: T,
    rescale: T,
    clip: T,
}

impl<T: Number> Formula<T, 0> for SignumKernel<T> {
    #[inline(always)]
    fn element(&self, weight: T, gradient: T, []: [T; 0]) -> (T, [T; 0]) {
        let kept = (T::of(1.0) - self.rate * self.decay) * weight;
        (kept - self.rate * gradient.sign(), [])
    }
}

impl<T: Number> Formula<T, 1> for SignumKernel<T> {
    #[inline(always)]
    fn element(&self, weight: T, gradient: T, [momentum]: [T; 1]) -> (T, [T; 1]) {
        let one = T::of(1.0);
        let new = one - self.momentum;
        let pull = if self.clip >= T::of(0.0) {
            new * (self.rescale * gradient).clip(self.clip)
        } else {
            new * self.rescale * gradient
        };
        let momentum = self.momentum * momentum - new * self.decay * weight - pull;
        let kept = (one - self.rate * self.decoupled_decay) * weight;
        (kept + self.rate * momentum.sign(), [momentum])
    }
}
