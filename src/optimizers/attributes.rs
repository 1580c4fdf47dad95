//! The attributes of an unpickled object, read by name.
//!
//! An attribute that nobody asked for is an error in the end: it could change the result.

use std::collections::BTreeSet;

use super::OptimizerError;
use crate::pickle::{Object, Value};

/// The most updates of a key that anybody believes in; bounds the work of a scheduler that catches
/// up.
pub(super) const MOST_UPDATES: i64 = 1 << 31;

/// An object while its attributes are read.
pub(super) struct Attributes<'a> {
    object: &'a Object,
    read: BTreeSet<&'a str>,
}

impl<'a> Attributes<'a> {
    pub(super) const fn new(object: &'a Object) -> Self {
        Self { object, read: BTreeSet::new() }
    }

    /// An error about an attribute.
    pub(super) fn wrong(&self, name: &str, problem: &'static str) -> OptimizerError {
        OptimizerError::Attribute { class: self.object.class.clone(), name: name.into(), problem }
    }

    /// The attribute, if it is there.
    pub(super) fn find(&mut self, name: &str) -> Option<&'a Value> {
        let (key, value) = self.object.attributes.iter().rfind(|(key, _)| key == name)?;
        self.read.insert(key);
        Some(value)
    }

    fn need(&mut self, name: &str) -> Result<&'a Value, OptimizerError> {
        self.find(name).ok_or_else(|| self.wrong(name, "missing"))
    }

    /// Attributes that change no result.
    pub(super) fn ignore(&mut self, names: &[&str]) {
        for name in names {
            self.find(name);
        }
    }

    /// A number.
    pub(super) fn float(&mut self, name: &str) -> Result<f64, OptimizerError> {
        let value = self.need(name)?;
        number(value).ok_or_else(|| self.wrong(name, "not a number"))
    }

    /// A number or `None`; `None` also if the attribute is missing.
    pub(super) fn optional_float(&mut self, name: &str) -> Result<Option<f64>, OptimizerError> {
        match self.find(name) {
            None | Some(Value::None) => Ok(None),
            Some(value) => match number(value) {
                Some(value) => Ok(Some(value)),
                None => Err(self.wrong(name, "not a number")),
            },
        }
    }

    /// A whole number.
    pub(super) fn int(&mut self, name: &str) -> Result<i64, OptimizerError> {
        let value = self.need(name)?;
        integer(value).ok_or_else(|| self.wrong(name, "not an integer"))
    }

    /// A number of updates: not negative, and at most [`MOST_UPDATES`].
    pub(super) fn updates(&mut self, name: &str) -> Result<i64, OptimizerError> {
        match self.int(name)? {
            count @ 0..=MOST_UPDATES => Ok(count),
            _ => Err(self.wrong(name, "no possible number of updates")),
        }
    }

    /// A bool, as Python sees the truth of a number.
    pub(super) fn truth(&mut self, name: &str, default: bool) -> Result<bool, OptimizerError> {
        match self.find(name) {
            None => Ok(default),
            Some(Value::Bool(value)) => Ok(*value),
            Some(Value::None) => Ok(false),
            Some(value) => match number(value) {
                Some(value) => Ok(value != 0.0),
                None => Err(self.wrong(name, "not a bool")),
            },
        }
    }

    /// A string.
    pub(super) fn text(&mut self, name: &str) -> Result<&'a str, OptimizerError> {
        match self.need(name)? {
            Value::Text(text) => Ok(text),
            _ => Err(self.wrong(name, "not a string")),
        }
    }

    /// A dict; an empty one if it is missing.
    pub(super) fn dict(&mut self, name: &str) -> Result<&'a [(Value, Value)], OptimizerError> {
        match self.find(name) {
            None => Ok(&[]),
            Some(Value::Dict(items)) => Ok(items),
            Some(_) => Err(self.wrong(name, "not a dict")),
        }
    }

    /// An object or `None`.
    pub(super) fn object(&mut self, name: &str) -> Result<Option<&'a Object>, OptimizerError> {
        match self.find(name) {
            None | Some(Value::None) => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(_) => Err(self.wrong(name, "not an object")),
        }
    }

    /// Refuses what nobody read.
    pub(super) fn finish(self) -> Result<(), OptimizerError> {
        match self.object.attributes.iter().find(|(key, _)| !self.read.contains(key.as_str())) {
            None => Ok(()),
            Some((name, _)) => Err(OptimizerError::UnknownAttribute {
                class: self.object.class.clone(),
                name: name.clone(),
            }),
        }
    }
}

/// A number, as Python takes bools and integers for numbers.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(value) => Some(f64::from(u8::from(*value))),
        #[allow(clippy::cast_precision_loss)]
        Value::Int(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        _ => None,
    }
}

/// A whole number; a float without a fraction is equal to it as a key of a dict.
pub(super) fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Bool(value) => Some(i64::from(*value)),
        Value::Int(value) => Some(*value),
        Value::Float(value) if value.fract() == 0.0 && value.abs() < 9e15 => Some(*value as i64),
        _ => None,
    }
}
