//! Nesterov's accelerated gradient (`nag_mom_update`; `sgd_update` without momentum).

use super::OptimizerError;
use super::attributes::Attributes;
use super::formula::{Formula, UpdateSlices, apply};
use super::number::Number;
use super::rule::{Rule, Sparse, UpdateStep};
use super::sgd::{momentum, plain};

/// NAG's parameters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Nag {
    momentum: f32,
}

impl Rule for Nag {
    fn read(a: &mut Attributes<'_>) -> Result<Self, OptimizerError> {
        Ok(Self { momentum: momentum(a)? })
    }

    fn tensors(&self) -> &'static [&'static str] {
        if self.momentum == 0.0 { &[] } else { &["momentum"] }
    }

    fn sparse(&self, _: f64) -> Sparse {
        if self.momentum == 0.0 { Sparse::Lazy } else { Sparse::Dense }
    }

    fn dense<T: Number>(&self, step: &UpdateStep<'_>, on: UpdateSlices<'_, T>) {
        if self.momentum == 0.0 {
            return plain(step, step.operator_decay, on);
        }
        let kernel = NagKernel {
            momentum: T::of(self.momentum),
            rate: T::of(step.operator_rate),
            decay: T::of(step.operator_decay),
            rescale: T::of(step.common.operator_rescale),
            clip: T::of(step.common.operator_clip),
            in_place: !step.densified,
        };
        apply(&kernel, on);
    }
}

#[derive(Clone, Copy)]
struct NagKernel<T> {
    momentum: T,
    rate: T,
    decay: T,
    rescale: T,
    clip: T,
    in_place: bool,
}

impl<T: Number> Formula<T, 1> for NagKernel<T> {
    #[inline(always)]
    fn element(&self, weight: T, gradient: T, [momentum]: [T; 1]) -> (T, [T; 1]) {
        let gradient = (self.rescale * gradient).clip(self.clip);
        let momentum = self.momentum * momentum;
        let ahead = momentum - self.rate * (gradient + self.decay * weight);
        let new = weight - momentum + (self.momentum + T::of(1.0)) * ahead;
        // MXNet's kernel writes the weight first and decays by the new one here; not so where it
        // works on dense copies of row_sparse arrays.
        let decayed = if self.in_place { new } else { weight };
        (new, [momentum - self.rate * (gradient + self.decay * decayed)])
    }
}
