//! A server of a job whose workers exchange deltas (NBSync, docs/nbsync.md): what a round does is
//! set by the policy, not by commands of workers.
//!
//! A delta is an ordinary push of `dist_sync`. When a round of a piece is complete, the sum is
//! divided by the customers that are in it or have left, and the *outer* rule takes the mean for
//! its gradient: SGD or NAG with the rate `-1 x` the outer rate, so that a mean delta moves the
//! value that way. It is generation 1 of the optimizers of each key space. The sum is divided
//! before a replica gets it, so replicas, moves and copies see nothing new.
//!
//! Values of float16 have a float32 copy, in which they add up: deltas and values travel as
//! float16. May touch what the store may.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pslite_optimizers::Optimizer;
use pslite_optimizers::pickle::{Object, Value};

use super::command::exchanging::Exchanging;
use super::error::StoreError;
use super::holdings::{At, Holdings};
use super::pieces::contribution::Pushes;
use super::state::Store;
use crate::keys::KeyName;
use crate::store::pieces::sums::Sum;
use crate::values::kind::RequestKind;
use crate::values::{Buffer, Dtype};
use crate::wire::exchange::{ExchangeSpec, MILLION, OuterRule};

/// A norm is taken of so many elements at most, spread over the piece.
const SAMPLED: usize = 1024;
/// The momentum is worth a line if it is that many times as long as the mean delta.
const TIMES: f64 = 10.0;
/// In so many rounds of a piece, one after the other.
const ROUNDS: u32 = 3;

impl Store {
    /// The policy says that workers exchange deltas, before any key is made. What it says once
    /// stays: to hear it again changes nothing.
    ///
    /// # Errors
    /// It makes no sense, is another one than before, or there are keys. From then on each push is
    /// refused for that reason.
    pub fn exchange(&mut self, spec: &ExchangeSpec) -> Result<(), StoreError> {
        if self.held.exchanging.as_ref().is_some_and(|known| known.spec == *spec) {
            return Ok(());
        }
        let outer = match self.why_not(spec) {
            Some(why) => Err(StoreError::Exchange(why)),
            None => outer(spec.outer),
        };
        let cannot = outer.as_ref().err().map(ToString::to_string);
        if let Ok(outer) = &outer {
            self.held.modes.exchange(&Arc::new(outer.clone()));
        }
        let spec = *spec;
        self.held.exchanging = Some(Box::new(Exchanging {
            spec,
            cannot,
            long: BTreeMap::new(),
            warning: None,
            warned: false,
        }));
        outer.map(|_| ())
    }

    fn why_not(&self, spec: &ExchangeSpec) -> Option<String> {
        let OuterRule { momentum, rate, .. } = spec.outer;
        if self.held.exchanging.is_some() {
            return Some("a policy says another exchange than the one before".to_owned());
        }
        if !self.is_empty() {
            return Some("a policy says an exchange after keys were made".to_owned());
        }
        (momentum >= MILLION || rate == 0)
            .then(|| "a policy says an exchange with an outer rule that makes no sense".to_owned())
    }

    /// A line for people about the outer momentum, if there is a new one.
    pub fn momentum_warning(&mut self) -> Option<String> {
        self.held.exchanging.as_deref_mut()?.warning.take()
    }
}

impl Holdings {
    /// An error if that push has no place in an exchange.
    pub(super) fn check_exchanged(&self, kind: RequestKind, push: bool) -> Result<(), StoreError> {
        let Some(exchanging) = &self.exchanging else { return Ok(()) };
        let refused = |why: &str| Err(StoreError::Exchange(why.to_owned()));
        match (&exchanging.cannot, kind) {
            (Some(why), _) => refused(why),
            (None, RequestKind::RowSparse) => refused(
                "this job exchanges deltas (PSLITE_SYNC), and those of row_sparse arrays cannot \
                 be: make the array dense (stype='default', sparse_grad=False)",
            ),
            (None, RequestKind::Compressed) if push => {
                refused("a compressed push in a job that exchanges deltas")
            }
            (None, RequestKind::Default | RequestKind::Compressed) => Ok(()),
        }
    }

    /// The sum of a complete round, divided by the customers that are in it or have left, and how
    /// long that is. Of a job without an exchange the sum as it is.
    pub(super) fn mean(
        &self,
        at: At,
        dtype: Dtype,
        sum: Sum,
        contributors: &[Pushes],
    ) -> Result<(Sum, Option<f64>), StoreError> {
        if self.exchanging.is_none() {
            return Ok((sum, None));
        }
        let here: BTreeSet<_> = contributors
            .iter()
            .flat_map(Pushes::customers)
            .map(|who| (who.worker, who.customer, who.life))
            .collect();
        let gone = self.attendance.workers().map_or(0, |workers| {
            let is_in = |(worker, customer): &(_, _)| {
                let lives = here.range((*worker, *customer, 0)..=(*worker, *customer, u64::MAX));
                lives.count() > 0
            };
            workers.gone(self.view.space(at.key)).filter(|who| !is_in(who)).count()
        });
        let mean = sum.divided(dtype, here.len() + gone, self.memory.as_deref())?;
        let length = mean.dense().map(|mean| length(dtype, mean));
        Ok((mean, length))
    }

    /// A round was applied whose mean delta is so long: looks whether the momentum grows.
    pub(super) fn watch_momentum(&mut self, at: At, mean: Option<f64>) {
        let (Some(mean), Ok(piece)) = (mean.filter(|mean| *mean > 0.0), self.piece(at)) else {
            return;
        };
        let from = piece.from;
        let state = piece.state.as_deref().and_then(|state| state.tensors().next());
        let Some((_, dtype, momentum)) = state else { return };
        let momentum = length(dtype, momentum);
        let key: KeyName = self.view.name(at.key);
        let Some(exchanging) = self.exchanging.as_deref_mut() else { return };
        let OuterRule { momentum: kept, rate, .. } = exchanging.spec.outer;
        let part = |millionths: u32| f64::from(millionths) / f64::from(MILLION);
        // Deltas that go on in one direction make it 1 / (1 - momentum) times as long.
        let most = TIMES.max(2.0 / (1.0 - part(kept)));
        let times = momentum / part(rate) / mean;
        if times <= most {
            exchanging.long.remove(&(at.key, from));
            exchanging.warned &= !exchanging.long.is_empty();
            return;
        }
        let rounds = exchanging.long.entry((at.key, from)).or_default();
        *rounds = rounds.saturating_add(1);
        if *rounds >= ROUNDS && !std::mem::replace(&mut exchanging.warned, true) {
            exchanging.warning = Some(format!(
                "the outer momentum of key {key} is {times:.0} times as long as what workers \
                 change in a round: training may diverge; a smaller momentum= or rate= in \
                 PSLITE_SYNC would help"
            ));
        }
    }
}

/// The outer rule as an optimizer of the store, as a worker would have sent it.
fn outer(rule: OuterRule) -> Result<Optimizer, StoreError> {
    let part = |millionths: u32| f64::from(millionths) / f64::from(MILLION);
    let nesterov = rule.nesterov && rule.momentum > 0;
    let class = if nesterov { "NAG" } else { "SGD" };
    let empty = || Value::Dict(Vec::new());
    let mut attributes = vec![
        ("rescale_grad", Value::Float(1.0)),
        ("lr", Value::Float(-part(rule.rate))),
        ("wd", Value::Float(0.0)),
        ("lr_mult", empty()),
        ("wd_mult", empty()),
        ("idx2name", empty()),
        ("_all_index_update_counts", empty()),
        ("begin_num_update", Value::Int(0)),
        ("num_update", Value::Int(0)),
        ("momentum", Value::Float(part(rule.momentum))),
    ];
    if !nesterov {
        attributes.push(("lazy_update", Value::Bool(true)));
    }
    let attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let class = format!("mxnet.optimizer.optimizer.{class}");
    Ok(Optimizer::from_value(&Value::Object(Box::new(Object { class, attributes })))?)
}

/// The Euclidean norm of some of the elements, always the same ones of that many.
fn length(dtype: Dtype, of: &Buffer) -> f64 {
    let stride = (of.len() / dtype.size()).div_ceil(SAMPLED).max(1);
    let squares: f64 = match dtype {
        Dtype::F32 => {
            of.elements::<f32>().iter().step_by(stride).map(|x| f64::from(*x).powi(2)).sum()
        }
        Dtype::F64 => of.elements::<f64>().iter().step_by(stride).map(|x| x.powi(2)).sum(),
        _ => 0.0,
    };
    squares.sqrt()
}

#[cfg(test)]
mod tests;
