//! The list of optimizers, and the way from one value of [`Method`] to the code of its class.

use super::OptimizerError;
use super::adam::Adam;
use super::attributes::Attributes;
use super::formula::Slices;
use super::number::Number;
use super::rates::Common;
use super::rule::{Passing, Rule, Sparse, Step};
use super::sgd::Sgd;
use crate::store::Dtype;

/// Where the classes of MXNet's optimizers live.
const MODULES: [&str; 2] = ["mxnet.optimizer.optimizer.", "mxnet.optimizer.contrib."];

macro_rules! methods {
    ($($class:literal => $variant:ident),* $(,)?) => {
        /// The classes with a native kernel.
        pub(super) const CLASSES: &[&str] = &[$($class),*];

        impl Method {
            /// Reads the attributes that only this class has.
            ///
            /// # Errors
            /// If the class is not known or its attributes make no sense.
            pub(super) fn read(class: &str, a: &mut Attributes<'_>)
                -> Result<(&'static str, Self), OptimizerError>
            {
                let name = MODULES.iter().find_map(|module| class.strip_prefix(module));
                match name {
                    $(Some($class) => Ok(($class, Self::$variant(Rule::read(a)?))),)*
                    Some("SGLD") => Err(OptimizerError::Unsupported {
                        class: "SGLD", reason: "its update draws random numbers",
                    }),
                    _ => Err(OptimizerError::Unknown { class: class.into() }),
                }
            }
        }
    };
}

methods! {
    "SGD" => Sgd,
    "ccSGD" => Sgd,
    "Adam" => Adam,
}

macro_rules! each {
    ($method:expr, $rule:ident => $call:expr) => {
        match $method {
            Method::Sgd($rule) => $call,
            Method::Adam($rule) => $call,
        }
    };
}

/// An optimizer's class with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Method {
    Sgd(Sgd),
    Adam(Adam),
}

impl Method {
    pub(super) fn tensors(&self) -> &'static [&'static str] {
        each!(self, rule => rule.tensors())
    }

    pub(super) fn takes(&self, dtype: Dtype) -> bool {
        each!(self, rule => rule.takes(dtype))
    }

    pub(super) fn sparse(&self, common: &Common) -> Sparse {
        each!(self, rule => rule.sparse(common))
    }

    pub(super) fn passing(&self, sparse: bool) -> Passing {
        each!(self, rule => rule.passing(sparse))
    }

    pub(super) fn prepare(&self, step: &mut Step<'_>) {
        each!(self, rule => rule.prepare(step));
    }

    pub(super) fn dense<T: Number>(&self, step: &Step<'_>, on: Slices<'_, T>) {
        each!(self, rule => rule.dense(step, on));
    }

    pub(super) fn before_rows<T: Number>(&self, step: &Step<'_>, weight: &mut [T::Stored]) {
        each!(self, rule => rule.before_rows::<T>(step, weight));
    }

    pub(super) fn row<T: Number>(&self, step: &Step<'_>, on: Slices<'_, T>) {
        each!(self, rule => rule.row(step, on));
    }
}
