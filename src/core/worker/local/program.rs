//! A customer whose program steps its values itself (`pslite.sync`).

use super::LocalTraining;
use crate::store::StoreError;

impl LocalTraining {
    /// From now on what the program pushes of a key is its new value.
    ///
    /// # Errors
    /// An optimizer was set.
    pub fn step_by_program(&mut self) -> Result<(), StoreError> {
        self.model.step_by_program()
    }
}
