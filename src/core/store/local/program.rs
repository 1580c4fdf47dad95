//! Values that the program steps itself (`pslite.sync`): what it pushes of a key is the key's new
//! value, not a gradient. All else is as with an optimizer: where the stretch began is kept, and
//! what is sent is the difference.
//!
//! A program computes its next value from the one that it was given last. If another one took its
//! place meanwhile (where all align, or where it is pushed and not pulled), the new value would
//! undo that: then the difference counts between what is pushed and what was given.

use super::arithmetic::{add, subtract};
use super::{LocalModel, StoreError, Tensor, narrowed, refused, widened};
use crate::keys::KeyName;
use crate::values::{Buffer, Dtype};

/// Types whose values can be averaged.
const FLOATS: [Dtype; 3] = [Dtype::F16, Dtype::F32, Dtype::F64];

/// What the program has of a value.
#[derive(Debug)]
pub(super) enum Known {
    /// It was given none.
    Nothing,
    /// The value.
    Value,
    /// Another one, which is here in the type in which is computed.
    Other(Buffer),
}

impl Known {
    pub(super) const fn other(&self) -> Option<&Buffer> {
        match self {
            Self::Other(given) => Some(given),
            Self::Nothing | Self::Value => None,
        }
    }
}

impl LocalModel {
    /// From now on the program steps the values itself.
    ///
    /// # Errors
    /// An optimizer was set: one of the two changes the values.
    pub fn step_by_program(&mut self) -> Result<(), StoreError> {
        if let Some(optimizer) = &self.optimizer {
            return Err(refused(&format!(
                "{} was set for these keys, so gradients are pushed: without set_optimizer a \
                 program can step the values itself (pslite.sync)",
                optimizer.class()
            )));
        }
        self.by_program = true;
        Ok(())
    }

    /// No optimizer can be set where the program steps.
    pub(super) fn check_optimizer_steps(&self) -> Result<(), StoreError> {
        if self.by_program {
            return Err(refused(
                "the program steps these values itself (pslite.sync), so there is no optimizer to \
                 be set: leave set_optimizer out, or do not make an Exchange",
            ));
        }
        Ok(())
    }
}

impl Tensor {
    /// The program has computed a new value from the last one.
    ///
    /// # Errors
    /// It does not fit the key, or the program was never given one. Nothing has changed.
    pub(super) fn step_to(
        &mut self,
        name: KeyName,
        dtype: Dtype,
        pushed: &[u8],
    ) -> Result<(), StoreError> {
        if !FLOATS.contains(&self.dtype) {
            return Err(refused(&format!(
                "key {name} has elements of {}: a mean needs float16, float32 or float64",
                self.dtype
            )));
        }
        self.check_fits(name, dtype, pushed.len(), "value")?;
        let pushed = widened(dtype, pushed);
        let wide = self.wide();
        let new = match &self.known {
            Known::Nothing => {
                return Err(refused(&format!(
                    "key {name}: a new value, and the program was not given the first one: pull \
                     each key before its first step"
                )));
            }
            Known::Value => None,
            Known::Other(given) => {
                Some(add(wide, self.value.buffer(), &subtract(wide, &pushed, given)))
            }
        };
        let start = self.start.is_none().then(|| self.value.buffer().clone());
        self.value.overwrite().bytes_mut().copy_from_slice(new.as_ref().unwrap_or(&pushed).bytes());
        if new.is_some() {
            self.known = Known::Other(pushed);
        }
        self.narrow = None;
        if let Some(start) = start {
            self.start = Some(start);
        }
        Ok(())
    }

    /// The value is about to become another one.
    pub(super) fn remember_given(&mut self) {
        if matches!(self.known, Known::Value) {
            let given = narrowed(self.dtype, self.value.buffer().clone());
            self.known = Known::Other(widened(self.dtype, given.bytes()));
        }
    }
}
