//! Nadam: Adam with Nesterov momentum, in operations on arrays.
//!
//! MXNet multiplies its momentum schedule at every update of any key, so what a key gets depends on
//! how many keys share its server. Here every key has a schedule of its own, as in the paper.

use super::OptimizerError;
use super::arrays::{ClipBounds, scalar};
use super::attributes::Attributes;
use super::formula::{Formula, UpdateSlices, apply};
use super::number::Number;
use super::rule::{NUMBERS, Rule, UpdateStep};

/// Nadam's parameters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Nadam {
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    schedule_decay: f64,
    start: f64,
}

impl Nadam {
    /// The momentum of an update.
    fn momentum(&self, count: f64) -> f64 {
        self.beta1 * (1.0 - 0.5 * 0.96_f64.powf(count * self.schedule_decay))
    }
}

impl Rule for Nadam {
    fn read(a: &mut Attributes<'_>) -> Result<Self, OptimizerError> {
        Ok(Self {
            beta1: a.float("beta1")?,
            beta2: a.float("beta2")?,
            epsilon: a.float("epsilon")?,
            schedule_decay: a.float("schedule_decay")?,
            start: a.float("m_schedule")?,
        })
    }

    fn tensors(&self) -> &'static [&'static str] {
        &["mean", "variance"]
    }

    /// The product of all momenta so far.
    fn numbers(&self) -> [f64; NUMBERS] {
        [self.start, 0.0]
    }

    fn prepare(&self, step: &mut UpdateStep<'_>) {
        step.numbers[0] *= self.momentum(step.count as f64);
    }

    fn dense<T: Number>(&self, step: &UpdateStep<'_>, on: UpdateSlices<'_, T>) {
        let count = step.count as f64;
        let (now, next) = (self.momentum(count), self.momentum(count + 1.0));
        let schedule = step.numbers[0];
        let kernel = NadamKernel {
            beta1: scalar(self.beta1),
            new1: scalar(1.0 - self.beta1),
            beta2: scalar(self.beta2),
            new2: scalar(1.0 - self.beta2),
            epsilon: scalar(self.epsilon),
            gradient_correction: scalar(1.0 - schedule),
            mean_correction: scalar(1.0 - schedule * next),
            variance_correction: scalar(1.0 - self.beta2.powf(count)),
            of_gradient: scalar(1.0 - now),
            of_mean: scalar(next),
            rate: scalar(step.rate),
            decay: scalar(step.decay),
            rescale: scalar(step.common.rescale),
            bounds: ClipBounds::new(step.common.clip),
        };
        apply(&kernel, on);
    }
}

#[derive(Clone, Copy)]
struct NadamKernel<T> {
    beta1: T,
    new1: T,
    beta2: T,
    new2: T,
    epsilon: T,
    gradient_correction: T,
    mean_correction: T,
    variance_correction: T,
    of_gradient: T,
    of_mean: T,
    rate: T,
    decay: T,
    rescale: T,
    bounds: ClipBounds<T>,
}

impl<T: Number> Formula<T, 2> for NadamKernel<T> {
    #[inline(always)]
    fn element(&self, weight: T, gradient: T, [mean, variance]: [T; 2]) -> (T, [T; 2]) {
        let gradient = self.bounds.clip(gradient * self.rescale + self.decay * weight);
        let mean = mean * self.beta1 + self.new1 * gradient;
        let variance = variance * self.beta2 + self.new2 * gradient * gradient;
        let mixed = self.of_gradient * (gradient / self.gradient_correction)
            + self.of_mean * (mean / self.mean_correction);
        let scale = (variance / self.variance_correction).sqrt() + self.epsilon;
        (weight - self.rate * mixed / scale, [mean, variance])
    }
}
