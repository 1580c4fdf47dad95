//! Learning rates that change with the number of updates (mxnet/lr_scheduler.py).
//!
//! MXNet's scheduler objects keep their progress in attributes and are asked with the largest
//! update count of any key on a server, so what a key gets depends on who came first. Here every
//! key asks for itself, with its own [`ScheduleProgress`]: runs repeat, and where all keys are
//! updated once a round, the rates are those of MXNet. All arithmetic is in doubles and in Python's
//! order.

use super::OptimizerError;
use super::attributes::{Attributes, MOST_UPDATES, integer};
use crate::pickle::{Object, Value};

/// A scheduler as the worker sent it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Schedule {
    kind: ScheduleKind,
    start: ScheduleProgress,
    warmup: Warmup,
}

/// How far a key is: what MXNet keeps in the attributes of the scheduler.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ScheduleProgress {
    pub(super) base: f64,
    pub(super) count: i64,
    pub(super) steps_done: usize,
}

#[derive(Debug, Clone, PartialEq)]
struct Warmup {
    steps: i64,
    begin: f64,
    end: f64,
    constant: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum ScheduleKind {
    Factor { step: i64, factor: f64, stop: f64 },
    MultiFactor { steps: Vec<i64>, factor: f64 },
    Poly { power: f64, decay: Decay },
    Cosine { decay: Decay },
}

/// From one rate to another over a number of updates.
#[derive(Debug, Clone, PartialEq)]
struct Decay {
    from: f64,
    to: f64,
    max_update: i64,
    max_steps: i64,
}

impl Schedule {
    /// From an object of one of MXNet's four classes.
    ///
    /// # Errors
    /// If the class or an attribute is not known, or a value makes no sense.
    pub(super) fn from_object(object: &Object) -> Result<Self, OptimizerError> {
        let mut attributes = Attributes::new(object);
        let Some(class) = object.class.strip_prefix("mxnet.lr_scheduler.") else {
            return Err(OptimizerError::Unknown { class: object.class.clone() });
        };
        let start =
            ScheduleProgress { base: attributes.float("base_lr")?, count: 0, steps_done: 0 };
        let warmup = Warmup::read(&mut attributes)?;
        let (kind, start) = match class {
            "FactorScheduler" => Self::factor(&mut attributes, start)?,
            "MultiFactorScheduler" => Self::multi_factor(&mut attributes, start)?,
            "PolyScheduler" => {
                let power = attributes.float("power")?;
                (ScheduleKind::Poly { power, decay: Decay::read(&mut attributes)? }, start)
            }
            "CosineScheduler" => {
                (ScheduleKind::Cosine { decay: Decay::read(&mut attributes)? }, start)
            }
            _ => return Err(OptimizerError::Unknown { class: object.class.clone() }),
        };
        attributes.finish()?;
        Ok(Self { kind, start, warmup })
    }

    fn factor(
        a: &mut Attributes<'_>,
        start: ScheduleProgress,
    ) -> Result<(ScheduleKind, ScheduleProgress), OptimizerError> {
        let (step, factor) = (a.updates("step")?, a.float("factor")?);
        if step < 1 {
            return Err(a.wrong("step", "must be at least 1"));
        }
        let stop = a.float("stop_factor_lr")?;
        let start = ScheduleProgress { count: a.updates("count")?, ..start };
        Ok((ScheduleKind::Factor { step, factor, stop }, start))
    }

    fn multi_factor(
        a: &mut Attributes<'_>,
        start: ScheduleProgress,
    ) -> Result<(ScheduleKind, ScheduleProgress), OptimizerError> {
        let Some(Value::List(steps)) = a.find("step") else {
            return Err(a.wrong("step", "not a list"));
        };
        let steps: Option<Vec<i64>> = steps.iter().map(integer).collect();
        let steps = steps.ok_or_else(|| a.wrong("step", "not a list of integers"))?;
        let done = a.int("cur_step_ind")?;
        let steps_done = usize::try_from(done).map_err(|_| a.wrong("cur_step_ind", "negative"))?;
        let start = ScheduleProgress { count: a.updates("count")?, steps_done, ..start };
        Ok((ScheduleKind::MultiFactor { steps, factor: a.float("factor")? }, start))
    }

    /// Where a key begins.
    pub(super) const fn start(&self) -> ScheduleProgress {
        self.start
    }

    /// Where a key is after `count` updates, the first of which had the number `first`.
    pub(super) fn resume(&self, first: i64, count: i64) -> ScheduleProgress {
        let mut progress = self.start;
        let last = match &self.kind {
            ScheduleKind::Factor { .. } | ScheduleKind::MultiFactor { .. } => count,
            ScheduleKind::Poly { decay, .. } | ScheduleKind::Cosine { decay } => {
                count.min(decay.max_update)
            }
        };
        if last >= first {
            self.rate(last, &mut progress);
        }
        progress
    }

    /// The rate of the update of that number; numbers must not decrease.
    pub(super) fn rate(&self, update: i64, progress: &mut ScheduleProgress) -> f64 {
        if update < self.warmup.steps {
            return self.warmup.rate(update);
        }
        match &self.kind {
            ScheduleKind::Factor { step, factor, stop } => {
                factor_rate(update, *step, *factor, *stop, progress);
            }
            ScheduleKind::MultiFactor { steps, factor } => {
                while let Some(&step) = steps.get(progress.steps_done)
                    && update > step
                {
                    progress.count = step;
                    progress.steps_done += 1;
                    progress.base *= factor;
                }
            }
            ScheduleKind::Poly { power, decay } if update <= decay.max_update => {
                let share = (update - self.warmup.steps) as f64 / decay.max_steps as f64;
                progress.base = decay.to + (decay.from - decay.to) * (1.0 - share).powf(*power);
            }
            ScheduleKind::Cosine { decay } if update <= decay.max_update => {
                let angle = std::f64::consts::PI * (update - self.warmup.steps) as f64
                    / decay.max_steps as f64;
                progress.base = decay.to + (decay.from - decay.to) * (1.0 + angle.cos()) / 2.0;
            }
            ScheduleKind::Poly { .. } | ScheduleKind::Cosine { .. } => {}
        }
        progress.base
    }
}

/// Every `step` updates the rate is multiplied by `factor`, and never below `stop`.
fn factor_rate(update: i64, step: i64, factor: f64, stop: f64, progress: &mut ScheduleProgress) {
    while update > progress.count.saturating_add(step) {
        let before = progress.base;
        progress.count += step;
        progress.base *= factor;
        if progress.base < stop {
            progress.base = stop;
        }
        if progress.base == before {
            // It will not change any more: skip the rest, whatever the number of updates.
            let rest = (update - 1 - progress.count) / step;
            progress.count += rest.max(0) * step;
        }
    }
}

impl Warmup {
    fn read(a: &mut Attributes<'_>) -> Result<Self, OptimizerError> {
        let constant = match a.text("warmup_mode")? {
            "linear" => false,
            "constant" => true,
            _ => return Err(a.wrong("warmup_mode", "neither linear nor constant")),
        };
        Ok(Self {
            steps: a.updates("warmup_steps")?,
            begin: a.float("warmup_begin_lr")?,
            end: a.float("warmup_final_lr")?,
            constant,
        })
    }

    fn rate(&self, update: i64) -> f64 {
        if self.constant {
            return self.begin;
        }
        self.begin + (self.end - self.begin) * update as f64 / self.steps as f64
    }
}

impl Decay {
    fn read(a: &mut Attributes<'_>) -> Result<Self, OptimizerError> {
        let max_steps = a.int("max_steps")?;
        if max_steps == 0 || max_steps.unsigned_abs() > MOST_UPDATES.unsigned_abs() {
            return Err(a.wrong("max_steps", "zero, by which MXNet divides, or too large"));
        }
        Ok(Self {
            from: a.float("base_lr_orig")?,
            to: a.float("final_lr")?,
            max_update: a.updates("max_update")?,
            max_steps,
        })
    }
}
