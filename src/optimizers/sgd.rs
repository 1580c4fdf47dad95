//! Stochastic gradient descent, with and without momentum (`SGD`, `ccSGD`).

use super::OptimizerError;
use super::attributes::Attributes;
use super::decimal::parameter;
use super::formula::{Formula, UpdateSlices, apply};
use super::number::Number;
use super::rule::{Passing, Rule, Sparse, UpdateStep};

/// `multi_sgd_update` and `multi_sgd_mom_update`; for row_sparse gradients `sgd_update` and
/// `sgd_mom_update`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sgd {
    momentum: f32,
    lazy: bool,
}

impl Rule for Sgd {
    fn read(a: &mut Attributes<'_>) -> Result<Self, OptimizerError> {
        Ok(Self { momentum: momentum(a)?, lazy: a.truth("lazy_update", true)? })
    }

    fn tensors(&self) -> &'static [&'static str] {
        if self.momentum == 0.0 { &[] } else { &["momentum"] }
    }

    fn sparse(&self, _: f64) -> Sparse {
        if self.lazy { Sparse::Lazy } else { Sparse::Standard }
    }

    fn passing(&self, sparse: bool) -> Passing {
        if sparse { Passing::Parameter } else { Passing::List }
    }

    fn dense<T: Number>(&self, step: &UpdateStep<'_>, on: UpdateSlices<'_, T>) {
        momentum_step(self.momentum, step, on);
    }

    fn before_rows<T: Number>(&self, step: &UpdateStep<'_>, weight: &mut [T::Stored]) {
        if self.momentum == 0.0 && !self.lazy {
            let kept = T::of(1.0 - step.operator_rate * step.operator_decay);
            for element in weight {
                *element = (T::load(*element) * kept).store();
            }
        }
    }

    fn row<T: Number>(&self, step: &UpdateStep<'_>, on: UpdateSlices<'_, T>) {
        if self.momentum == 0.0 {
            let decay = if self.lazy { step.operator_decay } else { 0.0 };
            plain(step, decay, on);
        } else {
            momentum_step(self.momentum, step, on);
        }
    }
}

/// The attribute `momentum`; MXNet does not mean it to be negative and mixes two updates if it is.
pub(super) fn momentum(a: &mut Attributes<'_>) -> Result<f32, OptimizerError> {
    let momentum = a.float("momentum")?;
    if momentum >= 0.0 { Ok(parameter(momentum)) } else { Err(a.wrong("momentum", "negative")) }
}

/// The update of the `multi_` operators, with a state tensor or, if momentum is zero, without.
pub(super) fn momentum_step<T: Number>(
    momentum: f32,
    step: &UpdateStep<'_>,
    on: UpdateSlices<'_, T>,
) {
    let formula = Momentum {
        momentum: T::of(momentum),
        rate: T::of(step.operator_rate),
        decay: T::of(step.operator_decay),
        rescale: T::of(step.common.operator_rescale),
        clip: T::of(step.common.operator_clip),
    };
    if momentum == 0.0 { apply::<T, 0, _>(&formula, on) } else { apply::<T, 1, _>(&formula, on) }
}

/// The update of `sgd_update`.
pub(super) fn plain<T: Number>(step: &UpdateStep<'_>, decay: f32, on: UpdateSlices<'_, T>) {
    let formula = Plain {
        rate: T::of(step.operator_rate),
        decay: T::of(decay),
        rescale: T::of(step.common.operator_rescale),
        clip: T::of(step.common.operator_clip),
    };
    apply(&formula, on);
}

#[derive(Clone, Copy)]
struct Momentum<T> {
    momentum: T,
    rate: T,
    decay: T,
    rescale: T,
    clip: T,
}

impl<T: Number> Momentum<T> {
    #[inline(always)]
    fn momentum(&self, weight: T, gradient: T, momentum: T) -> T {
        let pull = if self.clip >= T::of(0.0) {
            self.rate * (self.rescale * gradient).clip(self.clip)
        } else {
            self.rate * self.rescale * gradient
        };
        self.momentum * momentum - self.rate * self.decay * weight - pull
    }
}

impl<T: Number> Formula<T, 0> for Momentum<T> {
    #[inline(always)]
    fn element(&self, weight: T, gradient: T, []: [T; 0]) -> (T, [T; 0]) {
        (weight + self.momentum(weight, gradient, T::of(0.0)), [])
    }
}

impl<T: Number> Formula<T, 1> for Momentum<T> {
    #[inline(always)]
    fn element(&self, weight: T, gradient: T, [momentum]: [T; 1]) -> (T, [T; 1]) {
        let momentum = self.momentum(weight, gradient, momentum);
        (weight + momentum, [momentum])
    }
}

#[derive(Clone, Copy)]
struct Plain<T> {
    rate: T,
    decay: T,
    rescale: T,
    clip: T,
}

impl<T: Number> Formula<T, 0> for Plain<T> {
    #[inline(always)]
    fn element(&self, weight: T, gradient: T, []: [T; 0]) -> (T, [T; 0]) {
        let pull = if self.clip >= T::of(0.0) {
            self.rate * (self.rescale * gradient).clip(self.clip)
        } else {
            self.rate * self.rescale * gradient
        };
        ((T::of(1.0) - self.rate * self.decay) * weight - pull, [])
    }
}
