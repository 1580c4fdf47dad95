//! Large-batch SGD: gradients are added up over several updates, and the learning rate warms up
//! (`LBSGD`). It asks its scheduler before it counts, so with the number of the update before.

use super::OptimizerError;
use super::arrays::scalar;
use super::attributes::Attributes;
use super::formula::{Formula, UpdateSlices, apply};
use super::number::Number;
use super::rule::{NUMBERS, Rule, Sparse, UpdateStep};
use super::sgd::{momentum, momentum_step, plain};

/// LBSGD's parameters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lbsgd {
    momentum: f32,
    warmup: LbsgdWarmup,
    warmup_updates: f64,
    batch_scale: i64,
    first_count: i64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum LbsgdWarmup {
    Linear,
    Square,
    Root,
    None,
}

impl Rule for Lbsgd {
    fn read(a: &mut Attributes<'_>) -> Result<Self, OptimizerError> {
        a.ignore(&["num_epochs", "lbmult", "adaptive", "admult"]);
        if !a.dict("cumgrads")?.is_empty() {
            return Err(a.wrong("cumgrads", "not empty"));
        }
        let batch_scale = a.updates("batch_scale")?;
        if batch_scale < 1 {
            return Err(a.wrong("batch_scale", "below one"));
        }
        let warmup = match a.text("warmup_strategy")? {
            "linear" => LbsgdWarmup::Linear,
            "power2" => LbsgdWarmup::Square,
            "sqrt" => LbsgdWarmup::Root,
            "lars" => return Err(a.wrong("warmup_strategy", "lars, which sums in numpy's order")),
            _ => LbsgdWarmup::None,
        };
        Ok(Self {
            momentum: momentum(a)?,
            warmup,
            warmup_updates: a.float("warmup_epochs")? * a.float("updates_per_epoch")?,
            batch_scale,
            first_count: a.updates("init_updates")?,
        })
    }

    fn tensors(&self) -> &'static [&'static str] {
        match (self.momentum == 0.0, self.batch_scale == 1) {
            (true, true) => &[],
            (false, true) => &["momentum"],
            (true, false) => &["gradient_sum"],
            (false, false) => &["momentum", "gradient_sum"],
        }
    }

    /// How many gradients have come.
    fn numbers(&self) -> [f64; NUMBERS] {
        [self.first_count as f64, 0.0]
    }

    fn asks_before_counting(&self) -> bool {
        true
    }

    fn sparse(&self, _: f64) -> Sparse {
        Sparse::Missing("its native kernel is for dense gradients")
    }

    fn prepare(&self, step: &mut UpdateStep<'_>) {
        step.numbers[0] += 1.0;
        step.rate *= self.factor(step.numbers[0]);
    }

    fn dense<T: Number>(&self, step: &UpdateStep<'_>, on: UpdateSlices<'_, T>) {
        if self.batch_scale == 1 {
            return self.descend(step, on);
        }
        let [first, second, _] = on.state;
        let (momentum, sum) = if self.momentum == 0.0 {
            (<&mut [T::Stored]>::default(), first)
        } else {
            (first, second)
        };
        // The sum takes the place of the weights: it is what this formula changes.
        let adding =
            UpdateSlices { weight: &mut *sum, gradient: on.gradient, state: Default::default() };
        apply::<T, 0, _>(&Add, adding);
        if step.numbers[0] as i64 % self.batch_scale != 0 {
            return;
        }
        let scale: T = scalar(self.batch_scale as f64);
        for element in sum.iter_mut() {
            *element = (T::load(*element) / scale).store();
        }
        let state = [momentum, Default::default(), Default::default()];
        self.descend::<T>(step, UpdateSlices { weight: on.weight, gradient: sum, state });
        for element in sum {
            *element = T::of(0.0).store();
        }
    }
}

impl Lbsgd {
    fn descend<T: Number>(&self, step: &UpdateStep<'_>, on: UpdateSlices<'_, T>) {
        if self.momentum == 0.0 {
            plain(step, step.operator_decay, on);
        } else {
            momentum_step(self.momentum, step, on);
        }
    }

    /// What the learning rate is multiplied with while it warms up.
    fn factor(&self, updates: f64) -> f64 {
        let (most, warmup) = (self.batch_scale as f64, self.warmup_updates);
        if updates >= warmup {
            return most;
        }
        if warmup <= 1.0 {
            return 1.0;
        }
        match self.warmup {
            LbsgdWarmup::Linear => 1.0 + (most - 1.0) * updates / warmup,
            LbsgdWarmup::Square => 1.0 + (most - 1.0) * (updates * updates) / (warmup * warmup),
            LbsgdWarmup::Root => 1.0 + (most - 1.0) * (updates / warmup).sqrt(),
            LbsgdWarmup::None => 1.0,
        }
    }
}

#[derive(Clone, Copy)]
struct Add;

impl<T: Number> Formula<T, 0> for Add {
    #[inline(always)]
    fn element(&self, sum: T, gradient: T, []: [T; 0]) -> (T, [T; 0]) {
        (sum + gradient, [])
    }
}
