//! LAMB: Adam whose step follows the norms of weights and step (`multi_lamb_update`). It needs
//! whole tensors, and memory for one step while it updates.

use super::OptimizerError;
use super::attributes::Attributes;
use super::decimal::parameter;
use super::formula::UpdateSlices;
use super::lars::sum_of_squares;
use super::number::Number;
use super::rule::{Passing, Rule, UpdateStep};

/// LAMB's parameters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lamb {
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    lower: f32,
    upper: f32,
    corrects_bias: bool,
}

impl Rule for Lamb {
    fn read(a: &mut Attributes<'_>) -> Result<Self, OptimizerError> {
        let mut bound = |name| {
            let bound = a.optional_float(name)?.filter(|bound| *bound != 0.0);
            Ok(bound.map_or(-1.0, parameter))
        };
        let (lower, upper) = (bound("lower_bound")?, bound("upper_bound")?);
        Ok(Self {
            beta1: parameter(a.float("beta1")?),
            beta2: parameter(a.float("beta2")?),
            epsilon: parameter(a.float("epsilon")?),
            lower,
            upper,
            corrects_bias: a.truth("bias_correction", true)?,
        })
    }

    fn tensors(&self) -> &'static [&'static str] {
        &["mean", "variance"]
    }

    fn needs_whole(&self) -> bool {
        true
    }

    fn passing(&self, _: bool) -> Passing {
        Passing::List
    }

    fn dense<T: Number>(&self, step: &UpdateStep<'_>, on: UpdateSlices<'_, T>) {
        let before = step
            .narrow_squares
            .map_or_else(|| sum_of_squares::<T>(on.weight), |[weights, _]| weights);
        let mut steps = vec![0.0_f32; on.weight.len()];
        let kernel = self.kernel(step);
        let [mean, variance, _] = on.state;
        let state = mean.iter_mut().zip(variance);
        let inputs = on.weight.iter().zip(on.gradient);
        for (((weight, gradient), (mean, variance)), step) in inputs.zip(state).zip(&mut steps) {
            let moments = [T::load(*mean), T::load(*variance)];
            let (new, moments) = kernel.element(T::load(*weight), T::load(*gradient), moments);
            *step = new.single();
            (*mean, *variance) = (moments[0].store(), moments[1].store());
        }
        let rate = T::of(step.operator_rate) * self.trust(before, sum_of_squares::<f32>(&steps));
        for (weight, step) in on.weight.iter_mut().zip(&steps) {
            *weight = (T::load(*weight) - rate.scaled(*step)).store();
        }
    }
}

impl Lamb {
    fn kernel<T: Number>(&self, step: &UpdateStep<'_>) -> LambKernel<T> {
        let one = T::of(1.0);
        let (beta1, beta2) = (T::of(self.beta1), T::of(self.beta2));
        let count = T::of_double(step.count as f64);
        LambKernel {
            beta1,
            beta2,
            epsilon: T::of(self.epsilon),
            correction1: if self.corrects_bias { one - beta1.power(count) } else { one },
            correction2: if self.corrects_bias { one - beta2.power(count) } else { one },
            decay: T::of(step.operator_decay),
            rescale: step.common.operator_rescale,
            clip: T::of(step.common.operator_clip),
        }
    }

    /// How much of the learning rate a tensor gets.
    fn trust<T: Number>(&self, weights: f32, steps: f32) -> T {
        let (mut weights, steps) = (weights.sqrt(), steps.sqrt());
        if self.lower >= 0.0 {
            weights = weights.max(self.lower);
        }
        if self.upper >= 0.0 {
            weights = weights.min(self.upper);
        }
        T::of(if weights == 0.0 || steps == 0.0 { 1.0 } else { weights / steps })
    }
}

#[derive(Clone, Copy)]
struct LambKernel<T> {
    beta1: T,
    beta2: T,
    epsilon: T,
    correction1: T,
    correction2: T,
    decay: T,
    rescale: f32,
    clip: T,
}

impl<T: Number> LambKernel<T> {
    /// The step, and the new moments.
    #[inline(always)]
    fn element(&self, weight: T, gradient: T, [mean, variance]: [T; 2]) -> (T, [T; 2]) {
        let one = T::of(1.0);
        let gradient = gradient.scaled(self.rescale).clip(self.clip);
        let mean = self.beta1 * mean + (one - self.beta1) * gradient;
        let variance = self.beta2 * variance + (one - self.beta2) * gradient * gradient;
        let (mean_hat, variance_hat) = (mean / self.correction1, variance / self.correction2);
        let step = mean_hat.over_root(variance_hat, self.epsilon, self.decay * weight);
        (step, [mean, variance])
    }
}
