//! Learning rate and weight decay of a key (`Optimizer._get_lrs`, `_get_wds`), and what else all
//! optimizers have in common.

use std::collections::BTreeMap;

use super::OptimizerError;
use super::attributes::{Attributes, MOST_UPDATES, integer, number};
use super::decimal::parameter;
use super::schedule::{Schedule, ScheduleProgress};
use crate::pickle::Value;

/// The attributes of MXNet's base class `Optimizer`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Common {
    /// Every gradient is multiplied by it.
    pub rescale: f64,
    /// The same as a parameter of an operator.
    pub operator_rescale: f32,
    /// The bound of gradients, for optimizers that ask `is not None`.
    pub clip: Option<f64>,
    /// The same as a parameter of an operator, for those that ask `if self.clip_gradient`: zero is
    /// none too. None is below zero, as in the operators.
    pub operator_clip: f32,
    /// Keep a float32 master copy of float16 weights.
    pub multi_precision: bool,
    rate: Option<f64>,
    decay: f64,
    schedule: Option<Schedule>,
    rate_factors: Factors,
    decay_factors: Factors,
    names: BTreeMap<i64, String>,
    first_count: i64,
    largest_count: i64,
    counts: BTreeMap<i64, i64>,
}

/// Multipliers by key and by name.
#[derive(Debug, Clone, Default, PartialEq)]
struct Factors {
    by_key: BTreeMap<i64, f64>,
    by_name: BTreeMap<String, f64>,
}

impl Common {
    pub(super) fn read(a: &mut Attributes<'_>) -> Result<Self, OptimizerError> {
        // What a scheduler or the constructor has used up already, or what only local updates use.
        a.ignore(&["allow_np_array", "aggregate_num", "sym_info", "_index_update_count"]);
        if !a.dict("param_dict")?.is_empty() {
            return Err(a.wrong("param_dict", "not empty; a pickled optimizer has none"));
        }
        let schedule = a.object("lr_scheduler")?.map(Schedule::from_object).transpose()?;
        let rate = a.optional_float("lr")?;
        if rate.is_none() && schedule.is_none() {
            return Err(a.wrong("lr", "missing, and there is no lr_scheduler"));
        }
        let first_count = a.updates("begin_num_update")?;
        let rescale = a.float("rescale_grad")?;
        let clip = a.optional_float("clip_gradient")?;
        Ok(Self {
            rescale,
            operator_rescale: parameter(rescale),
            clip,
            operator_clip: clip.filter(|clip| *clip != 0.0).map_or(-1.0, parameter),
            multi_precision: a.truth("multi_precision", false)?,
            rate,
            decay: a.float("wd")?,
            schedule,
            rate_factors: Factors::read(a, "lr_mult")?,
            decay_factors: Factors::read(a, "wd_mult")?,
            names: names(a)?,
            first_count,
            largest_count: a.updates("num_update")?,
            counts: counts(a)?,
        })
    }

    /// Every gradient is multiplied by that too.
    pub(super) fn scale(&mut self, factor: f64) {
        self.rescale *= factor;
        self.operator_rescale = parameter(self.rescale);
    }

    /// How often a key that is new here has been updated before.
    pub(super) fn count_before(&self, key: i64) -> i64 {
        self.counts.get(&key).copied().unwrap_or(self.first_count)
    }

    /// The progress of a key after so many updates.
    pub(super) fn progress(&self, key: i64, count: i64) -> Option<ScheduleProgress> {
        let schedule = self.schedule.as_ref()?;
        let first = self.count_before(key) + 1;
        if count < first {
            return Some(schedule.start());
        }
        Some(schedule.resume(first.max(self.largest_count), count.max(self.largest_count)))
    }

    /// The learning rate without multipliers.
    pub(super) fn plain_rate(&self, count: i64, progress: &mut Option<ScheduleProgress>) -> f64 {
        match (&self.schedule, progress) {
            (Some(schedule), Some(progress)) => {
                schedule.rate(count.max(self.largest_count), progress)
            }
            _ => self.rate.unwrap_or_default(),
        }
    }

    /// The factor of a key's learning rate, or `None` where MXNet multiplies by nothing.
    pub(super) fn rate_factor(&self, key: i64) -> Option<f64> {
        self.rate_factors.of(key, &self.names)
    }

    /// The weight decay of a key.
    pub(super) fn decay(&self, key: i64) -> f64 {
        self.decay_factors.of(key, &self.names).map_or(self.decay, |factor| self.decay * factor)
    }

    /// True if the key has a name that ends so.
    pub(super) fn has_ending(&self, key: i64, endings: &[&str]) -> bool {
        self.names.get(&key).is_some_and(|name| endings.iter().any(|end| name.ends_with(end)))
    }
}

impl Factors {
    fn read(a: &mut Attributes<'_>, name: &str) -> Result<Self, OptimizerError> {
        let mut factors = Self::default();
        for (key, value) in a.dict(name)? {
            let value = number(value).ok_or_else(|| a.wrong(name, "not all values are numbers"))?;
            if let Value::Text(text) = key {
                factors.by_name.insert(text.clone(), value);
            } else if let Some(key) = integer(key) {
                factors.by_key.insert(key, value);
            } else {
                return Err(a.wrong(name, "a key is neither a name nor an index"));
            }
        }
        Ok(factors)
    }

    fn of(&self, key: i64, names: &BTreeMap<i64, String>) -> Option<f64> {
        match self.by_key.get(&key) {
            Some(factor) => Some(*factor),
            None => self.by_name.get(names.get(&key)?).copied(),
        }
    }
}

fn names(a: &mut Attributes<'_>) -> Result<BTreeMap<i64, String>, OptimizerError> {
    let mut names = BTreeMap::new();
    for (key, name) in a.dict("idx2name")? {
        let Value::Text(name) = name else {
            return Err(a.wrong("idx2name", "a name is not a string"));
        };
        // A key that is a string can never be the index of an update here.
        if let Some(key) = integer(key) {
            names.insert(key, name.clone());
        }
    }
    Ok(names)
}

/// The counts of device 0, which is where servers update (`Updater.__call__`).
fn counts(a: &mut Attributes<'_>) -> Result<BTreeMap<i64, i64>, OptimizerError> {
    const NAME: &str = "_all_index_update_counts";
    let mut counts = BTreeMap::new();
    for (device, of_device) in a.dict(NAME)? {
        let Value::Dict(of_device) = of_device else {
            return Err(a.wrong(NAME, "not a dict of dicts"));
        };
        if integer(device) != Some(0) {
            continue;
        }
        for (key, count) in of_device {
            let possible = |count: &i64| (0..=MOST_UPDATES).contains(count);
            let count = integer(count).filter(possible);
            let count = count.ok_or_else(|| a.wrong(NAME, "no possible number of updates"))?;
            if let Some(key) = integer(key) {
                counts.insert(key, count);
            }
        }
    }
    Ok(counts)
}
