//! What pushes to the store bring, and their sums. Must not know who pushed.

use crate::store::error::StoreError;
use crate::values::sum;

/// What a push to the store brings, or why it does not fit.
pub(in crate::store) type Addend = sum::Addend<StoreError>;

/// The sum of what several pushes to the store bring.
pub(in crate::store) type Sum = sum::Sum<StoreError>;
