//! Optimizers that MXNet writes in Python with operations on whole arrays: DCASGD, AdaDelta, Adamax
//! and Test. Every operation rounds to the element type, and so does every formula here.

use pslite_elements::Dtype;

use super::OptimizerError;
use super::attributes::Attributes;
use super::decimal::{double_parameter, parameter};
use super::formula::{Formula, UpdateSlices, apply};
use super::number::Number;
use super::rule::{Rule, Sparse, UpdateStep};

/// A number in an operation with an array.
pub(super) fn scalar<T: Number>(value: f64) -> T {
    T::of_double(double_parameter(value))
}

/// The bounds of `clip(grad, -clip_gradient, clip_gradient)`; infinite if it is `None`, so that
/// loops have no branch.
#[derive(Clone, Copy)]
pub(super) struct ClipBounds<T> {
    low: T,
    high: T,
}

impl<T: Number> ClipBounds<T> {
    pub(super) fn new(clip: Option<f64>) -> Self {
        let bound = clip.unwrap_or(f64::INFINITY);
        Self { low: T::of(parameter(-bound)), high: T::of(parameter(bound)) }
    }

    #[inline(always)]
    pub(super) fn clip(&self, value: T) -> T {
        value.within(self.low, self.high)
    }
}

/// DCASGD: stochastic gradient descent with delay compensation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Dcasgd {
    lambda: f64,
}

impl Rule for Dcasgd {
    fn read(a: &mut Attributes<'_>) -> Result<Self, OptimizerError> {
        if a.float("momentum")? != 0.0 {
            return Err(a.wrong("momentum", "not zero, with which MXNet's own update fails"));
        }
        if !a.dict("weight_previous")?.is_empty() {
            return Err(a.wrong("weight_previous", "not empty"));
        }
        Ok(Self { lambda: a.float("lamda")? })
    }

    fn tensors(&self) -> &'static [&'static str] {
        &["previous_weight"]
    }

    fn begins_with_weights(&self) -> bool {
        true
    }

    fn dense<T: Number>(&self, step: &UpdateStep<'_>, on: UpdateSlices<'_, T>) {
        let kernel = Compensated {
            lambda: scalar(self.lambda),
            rate: scalar(-step.rate),
            decay: scalar(step.decay),
            rescale: scalar(step.common.rescale),
            bounds: ClipBounds::new(step.common.clip),
        };
        apply(&kernel, on);
    }
}

#[derive(Clone, Copy)]
struct Compensated<T> {
    lambda: T,
    rate: T,
    decay: T,
    rescale: T,
    bounds: ClipBounds<T>,
}

impl<T: Number> Formula<T, 1> for Compensated<T> {
    #[inline(always)]
    fn element(&self, weight: T, gradient: T, [previous]: [T; 1]) -> (T, [T; 1]) {
        let gradient = self.bounds.clip(gradient * self.rescale);
        let compensation = self.lambda * gradient * gradient * (weight - previous);
        let step = (gradient + self.decay * weight + compensation) * self.rate;
        (weight + step, [weight])
    }
}

/// AdaDelta. Its state is float32, and so must the weights be. It has no learning rate.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AdaDelta {
    rho: f64,
    epsilon: f64,
}

impl Rule for AdaDelta {
    fn read(a: &mut Attributes<'_>) -> Result<Self, OptimizerError> {
        Ok(Self { rho: a.float("rho")?, epsilon: a.float("epsilon")? })
    }

    fn tensors(&self) -> &'static [&'static str] {
        &["accumulated_g", "accumulated_delta"]
    }

    fn takes(&self, dtype: Dtype) -> bool {
        dtype == Dtype::F32
    }

    fn dense<T: Number>(&self, step: &UpdateStep<'_>, on: UpdateSlices<'_, T>) {
        let kernel = Delta {
            rho: scalar(self.rho),
            new: scalar(1.0 - self.rho),
            epsilon: scalar(self.epsilon),
            decay: scalar(step.decay),
            rescale: scalar(step.common.rescale),
            bounds: ClipBounds::new(step.common.clip),
        };
        apply(&kernel, on);
    }
}

#[derive(Clone, Copy)]
struct Delta<T> {
    rho: T,
    new: T,
    epsilon: T,
    decay: T,
    rescale: T,
    bounds: ClipBounds<T>,
}

impl<T: Number> Formula<T, 2> for Delta<T> {
    #[inline(always)]
    fn element(&self, weight: T, gradient: T, [squares, deltas]: [T; 2]) -> (T, [T; 2]) {
        let gradient = self.bounds.clip(gradient * self.rescale);
        let squares = squares * self.rho + self.new * gradient * gradient;
        let delta = (deltas + self.epsilon).sqrt() / (squares + self.epsilon).sqrt() * gradient;
        let deltas = deltas * self.rho + self.new * delta * delta;
        (weight - (delta + self.decay * weight), [squares, deltas])
    }
}

/// Adamax: Adam with the infinity norm.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Adamax {
    beta1: f64,
    beta2: f64,
}

impl Rule for Adamax {
    fn read(a: &mut Attributes<'_>) -> Result<Self, OptimizerError> {
        Ok(Self { beta1: a.float("beta1")?, beta2: a.float("beta2")? })
    }

    fn tensors(&self) -> &'static [&'static str] {
        &["mean", "variance"]
    }

    fn prepare(&self, step: &mut UpdateStep<'_>) {
        step.rate /= 1.0 - self.beta1.powf(step.count as f64);
    }

    fn dense<T: Number>(&self, step: &UpdateStep<'_>, on: UpdateSlices<'_, T>) {
        let kernel = Infinity {
            beta1: scalar(self.beta1),
            new: scalar(1.0 - self.beta1),
            beta2: scalar(self.beta2),
            rate: scalar(step.rate),
            decay: scalar(step.decay),
            rescale: scalar(step.common.rescale),
            bounds: ClipBounds::new(step.common.clip),
        };
        apply(&kernel, on);
    }
}

#[derive(Clone, Copy)]
struct Infinity<T> {
    beta1: T,
    new: T,
    beta2: T,
    rate: T,
    decay: T,
    rescale: T,
    bounds: ClipBounds<T>,
}

impl<T: Number> Formula<T, 2> for Infinity<T> {
    #[inline(always)]
    fn element(&self, weight: T, gradient: T, [mean, largest]: [T; 2]) -> (T, [T; 2]) {
        let gradient = self.bounds.clip(gradient * self.rescale + self.decay * weight);
        let mean = mean * self.beta1 + self.new * gradient;
        let (kept, size) = (self.beta2 * largest, gradient.abs());
        let largest = if kept > size { kept } else { size };
        (weight - self.rate * mean / largest, [mean, largest])
    }
}

/// Test: adds the gradient.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Test;

impl Rule for Test {
    fn read(_: &mut Attributes<'_>) -> Result<Self, OptimizerError> {
        Ok(Self)
    }

    fn tensors(&self) -> &'static [&'static str] {
        // MXNet keeps a copy of the weights here, which nothing reads.
        &[]
    }

    /// The sum of two row_sparse arrays leaves the rows that only the weights have. MXNet's `Test`
    /// then fails to copy the weights into its dense state, after the weights were updated.
    fn sparse(&self, _: f64) -> Sparse {
        Sparse::Lazy
    }

    fn dense<T: Number>(&self, step: &UpdateStep<'_>, on: UpdateSlices<'_, T>) {
        apply(&AddRescaled { rescale: scalar(step.common.rescale) }, on);
    }
}

#[derive(Clone, Copy)]
struct AddRescaled<T> {
    rescale: T,
}

impl<T: Number> Formula<T, 0> for AddRescaled<T> {
    #[inline(always)]
    fn element(&self, weight: T, gradient: T, []: [T; 0]) -> (T, [T; 0]) {
        (weight + gradient * self.rescale, [])
    }
}
