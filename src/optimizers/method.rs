//! The list of optimizers, and the way from one value of [`Method`] to the code of its class.

use pslite_elements::Dtype;

use super::OptimizerError;
use super::adagrad::{AdaGrad, GroupAdaGrad};
use super::adam::Adam;
use super::arrays::{AdaDelta, Adamax, Dcasgd, Test};
use super::attributes::Attributes;
use super::classes::with_classes;
use super::formula::UpdateSlices;
use super::ftml::Ftml;
use super::ftrl::Ftrl;
use super::lamb::Lamb;
use super::lars::Lars;
use super::lbsgd::Lbsgd;
use super::nadam::Nadam;
use super::nag::Nag;
use super::number::Number;
use super::rmsprop::RmsProp;
use super::rule::{NUMBERS, Passing, Rule, Sparse, UpdateStep};
use super::sgd::Sgd;
use super::signum::Signum;

/// Where the classes of MXNet's optimizers live.
const MODULES: [&str; 2] = ["mxnet.optimizer.optimizer.", "mxnet.optimizer.contrib."];

macro_rules! methods {
    ($($class:literal => $variant:ident),* $(,)?) => {
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

with_classes!(methods);

macro_rules! each {
    ($method:expr, $rule:ident => $call:expr) => {
        match $method {
            Method::Sgd($rule) => $call,
            Method::Adam($rule) => $call,
            Method::Nag($rule) => $call,
            Method::Signum($rule) => $call,
            Method::Ftml($rule) => $call,
            Method::Lars($rule) => $call,
            Method::Lbsgd($rule) => $call,
            Method::Lamb($rule) => $call,
            Method::Dcasgd($rule) => $call,
            Method::AdaGrad($rule) => $call,
            Method::GroupAdaGrad($rule) => $call,
            Method::RmsProp($rule) => $call,
            Method::AdaDelta($rule) => $call,
            Method::Ftrl($rule) => $call,
            Method::Adamax($rule) => $call,
            Method::Nadam($rule) => $call,
            Method::Test($rule) => $call,
        }
    };
}

/// An optimizer's class with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Method {
    Sgd(Sgd),
    Adam(Adam),
    Nag(Nag),
    Signum(Signum),
    Ftml(Ftml),
    Lars(Lars),
    Lbsgd(Lbsgd),
    Lamb(Lamb),
    Dcasgd(Dcasgd),
    AdaGrad(AdaGrad),
    GroupAdaGrad(GroupAdaGrad),
    RmsProp(RmsProp),
    AdaDelta(AdaDelta),
    Ftrl(Ftrl),
    Adamax(Adamax),
    Nadam(Nadam),
    Test(Test),
}

impl Method {
    pub(super) fn tensors(&self) -> &'static [&'static str] {
        each!(self, rule => rule.tensors())
    }

    pub(super) fn takes(&self, dtype: Dtype) -> bool {
        each!(self, rule => rule.takes(dtype))
    }

    pub(super) fn numbers(&self) -> [f64; NUMBERS] {
        each!(self, rule => rule.numbers())
    }

    pub(super) fn begins_with_weights(&self) -> bool {
        each!(self, rule => rule.begins_with_weights())
    }

    pub(super) fn needs_whole(&self) -> bool {
        each!(self, rule => rule.needs_whole())
    }

    pub(super) fn asks_before_counting(&self) -> bool {
        each!(self, rule => rule.asks_before_counting())
    }

    pub(super) fn refuses_dense(&self) -> Option<&'static str> {
        each!(self, rule => rule.refuses_dense())
    }

    pub(super) fn sparse(&self, decay: f64) -> Sparse {
        each!(self, rule => rule.sparse(decay))
    }

    pub(super) fn passing(&self, sparse: bool) -> Passing {
        each!(self, rule => rule.passing(sparse))
    }

    pub(super) fn prepare(&self, step: &mut UpdateStep<'_>) {
        each!(self, rule => rule.prepare(step));
    }

    pub(super) fn dense<T: Number>(&self, step: &UpdateStep<'_>, on: UpdateSlices<'_, T>) {
        each!(self, rule => rule.dense(step, on));
    }

    pub(super) fn before_rows<T: Number>(&self, step: &UpdateStep<'_>, weight: &mut [T::Stored]) {
        each!(self, rule => rule.before_rows::<T>(step, weight));
    }

    pub(super) fn row<T: Number>(&self, step: &UpdateStep<'_>, on: UpdateSlices<'_, T>) {
        each!(self, rule => rule.row(step, on));
    }
}
