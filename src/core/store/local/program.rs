//! Values that the program steps itself (`pslite.sync`): what it pushes of a key is the key's new
//! value, not a gradient. All else is as with an optimizer: where the stretch began is kept, and
//! what is sent is the difference.
//!
//! A program computes its next value from the one that it was given last. If another one was taken
//! meanwhile, what it pushes would undo that: it is refused until the program has pulled.

use super::{LocalModel, StoreError, Tensor, refused, widened};
use crate::keys::KeyName;
use crate::values::Dtype;

/// Types whose values can be averaged.
const FLOATS: [Dtype; 3] = [Dtype::F16, Dtype::F32, Dtype::F64];

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
    /// It does not fit the key, or the program does not know the last one. Nothing has changed.
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
        if self.is_news {
            return Err(refused(&format!(
                "key {name}: a new value that was not computed from the last one: pull each value \
                 before the next one is pushed, or do both in one request"
            )));
        }
        let start = self.start.is_none().then(|| self.value.buffer().clone());
        let new = widened(dtype, pushed);
        self.value.overwrite().bytes_mut().copy_from_slice(new.bytes());
        self.narrow = None;
        if let Some(start) = start {
            self.start = Some(start);
        }
        Ok(())
    }
}
