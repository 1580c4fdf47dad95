//! AdaGrad, and GroupAdaGrad with one history for each row. Their state is float32, and so must the
//! weights be.

use pslite_elements::Dtype;

use super::OptimizerError;
use super::arrays::{ClipBounds, scalar};
use super::attributes::Attributes;
use super::decimal::parameter;
use super::formula::{Formula, UpdateSlices, apply};
use super::number::Number;
use super::rule::{Rule, Sparse, UpdateStep};

/// Why rows are refused.
const WITHOUT_DECAY: &str = "with a weight decay, which its update of rows lacks; use wd=0";

/// AdaGrad: operations on arrays for dense gradients, `sparse.adagrad_update` for rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AdaGrad {
    epsilon: f64,
}

impl Rule for AdaGrad {
    fn read(a: &mut Attributes<'_>) -> Result<Self, OptimizerError> {
        Ok(Self { epsilon: a.float("float_stable_eps")? })
    }

    fn tensors(&self) -> &'static [&'static str] {
        &["history"]
    }

    fn takes(&self, dtype: Dtype) -> bool {
        dtype == Dtype::F32
    }

    fn sparse(&self, decay: f64) -> Sparse {
        if decay == 0.0 { Sparse::Lazy } else { Sparse::Refused(WITHOUT_DECAY) }
    }

    fn dense<T: Number>(&self, step: &UpdateStep<'_>, on: UpdateSlices<'_, T>) {
        let kernel = Dense {
            epsilon: scalar(self.epsilon),
            rate: scalar(-step.rate),
            decay: scalar(step.decay),
            rescale: scalar(step.common.rescale),
            bounds: ClipBounds::new(step.common.clip),
        };
        apply(&kernel, on);
    }

    fn row<T: Number>(&self, step: &UpdateStep<'_>, on: UpdateSlices<'_, T>) {
        let kernel = AdaGradKernel {
            epsilon: T::of(parameter(self.epsilon)),
            rate: T::of(step.operator_rate),
            rescale: T::of(step.common.operator_rescale),
            clip: T::of(step.common.operator_clip),
        };
        apply(&kernel, on);
    }
}

#[derive(Clone, Copy)]
struct Dense<T> {
    epsilon: T,
    rate: T,
    decay: T,
    rescale: T,
    bounds: ClipBounds<T>,
}

impl<T: Number> Formula<T, 1> for Dense<T> {
    #[inline(always)]
    fn element(&self, weight: T, gradient: T, [history]: [T; 1]) -> (T, [T; 1]) {
        let gradient = self.bounds.clip(gradient * self.rescale);
        let history = history + gradient * gradient;
        let step = gradient / (history + self.epsilon).sqrt();
        (weight + (step + weight * self.decay) * self.rate, [history])
    }
}

#[derive(Clone, Copy)]
struct AdaGradKernel<T> {
    epsilon: T,
    rate: T,
    rescale: T,
    clip: T,
}

impl<T: Number> Formula<T, 1> for AdaGradKernel<T> {
    #[inline(always)]
    fn element(&self, weight: T, gradient: T, [history]: [T; 1]) -> (T, [T; 1]) {
        let gradient = (gradient * self.rescale).clip(self.clip);
        let history = history + gradient * gradient;
        let step = gradient / (history + self.epsilon).sqrt();
        (weight - step * self.rate, [history])
    }
}

/// GroupAdaGrad (`contrib.group_adagrad_update`). MXNet's server keeps dense values without their
/// shape, so only row_sparse gradients have rows there. Every element of a row holds the row's
/// history, so that states are cut and moved as those of other optimizers are.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct GroupAdaGrad {
    epsilon: f32,
}

impl Rule for GroupAdaGrad {
    fn read(a: &mut Attributes<'_>) -> Result<Self, OptimizerError> {
        Ok(Self { epsilon: parameter(a.float("float_stable_eps")?) })
    }

    fn tensors(&self) -> &'static [&'static str] {
        &["history"]
    }

    fn takes(&self, dtype: Dtype) -> bool {
        dtype == Dtype::F32
    }

    fn refuses_dense(&self) -> Option<&'static str> {
        Some("it updates rows, and a dense value has none on a server")
    }

    fn sparse(&self, decay: f64) -> Sparse {
        if decay == 0.0 { Sparse::Lazy } else { Sparse::Refused(WITHOUT_DECAY) }
    }

    fn dense<T: Number>(&self, step: &UpdateStep<'_>, mut on: UpdateSlices<'_, T>) {
        let rescale = T::of(step.common.operator_rescale);
        let clip = T::of(step.common.operator_clip);
        let mut sum = T::of(0.0);
        for gradient in on.gradient {
            let gradient = (T::load(*gradient) * rescale).clip(clip);
            sum = sum + gradient * gradient;
        }
        let mean = sum / T::of_double(on.gradient.len() as f64);
        let [history, ..] = &mut on.state;
        for element in history.iter_mut() {
            *element = (T::load(*element) + mean).store();
        }
        let rate = T::of(step.operator_rate);
        apply(&GroupAdaGradKernel { epsilon: T::of(self.epsilon), rate, rescale, clip }, on);
    }
}

#[derive(Clone, Copy)]
struct GroupAdaGradKernel<T> {
    epsilon: T,
    rate: T,
    rescale: T,
    clip: T,
}

impl<T: Number> Formula<T, 1> for GroupAdaGradKernel<T> {
    #[inline(always)]
    fn element(&self, weight: T, gradient: T, [history]: [T; 1]) -> (T, [T; 1]) {
        let gradient = (gradient * self.rescale).clip(self.clip);
        let step = self.rate * gradient / (history + self.epsilon).sqrt();
        (weight - step, [history])
    }
}
