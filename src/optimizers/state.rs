//! What an optimizer keeps for a key: tensors, a master copy, counts.

use pslite_elements::{Buffer, Dtype};

use super::OptimizerError;
use super::rule::NUMBERS;
use super::schedule::ScheduleProgress;

/// The name under which the float32 master copy of float16 weights is exported.
pub(super) const MASTER: &str = "master";

/// The state of one key. It is made by [`super::Optimizer::new_state`] or by its first update, and
/// can be moved to another server with the same optimizer: [`State::tensors`], [`State::numbers`]
/// and [`State::count`] say all there is.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    pub(super) names: &'static [&'static str],
    pub(super) dtype: Dtype,
    pub(super) tensors: Vec<Buffer>,
    pub(super) master: Option<Buffer>,
    pub(super) numbers: [f64; NUMBERS],
    pub(super) count: i64,
    pub(super) progress: Option<ScheduleProgress>,
}

impl State {
    /// The tensors by name, with their element type.
    pub fn tensors(&self) -> impl Iterator<Item = (&'static str, Dtype, &Buffer)> {
        let own = self.names.iter().zip(&self.tensors);
        own.map(|(name, tensor)| (*name, self.dtype, tensor))
            .chain(self.master.iter().map(|master| (MASTER, Dtype::F32, master)))
    }

    /// Numbers that go with the key, such as the momentum schedule of Nadam. Their meaning is the
    /// optimizer's.
    #[must_use]
    pub const fn numbers(&self) -> &[f64] {
        &self.numbers
    }

    /// The number of the last update of this key (`_index_update_count`).
    #[must_use]
    pub const fn count(&self) -> i64 {
        self.count
    }

    /// Bytes of memory that the tensors take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.tensors().map(|(_, _, tensor)| tensor.len()).sum()
    }

    /// The state of some of the elements. Its tensors have an element for each of the key's, as
    /// every update checks.
    pub fn part(&self, elements: std::ops::Range<usize>) -> Self {
        let part = |tensor: &Buffer, of: Dtype| {
            Buffer::copy_of(&tensor.bytes()[elements.start * of.size()..elements.end * of.size()])
        };
        Self {
            names: self.names,
            dtype: self.dtype,
            tensors: self.tensors.iter().map(|tensor| part(tensor, self.dtype)).collect(),
            master: self.master.as_ref().map(|master| part(master, Dtype::F32)),
            numbers: self.numbers,
            count: self.count,
            progress: self.progress,
        }
    }

    /// Puts named tensors in their places.
    pub(super) fn fill(
        &mut self,
        given: Vec<(String, Buffer)>,
        key: i64,
    ) -> Result<(), OptimizerError> {
        let expected: Vec<_> = self.tensors().map(|(name, ..)| name).collect();
        let found: Vec<_> = given.iter().map(|(name, _)| name.clone()).collect();
        if expected.len() != found.len()
            || expected.iter().any(|name| !found.iter().any(|f| f == name))
        {
            return Err(OptimizerError::State { expected, found });
        }
        for (name, tensor) in given {
            let place = self.names.iter().position(|own| *own == name);
            let own = match place {
                Some(place) => &mut self.tensors[place],
                None => self.master.get_or_insert_default(),
            };
            if own.len() != tensor.len() {
                let (found, expected) = (tensor.len(), own.len());
                return Err(OptimizerError::Length { key, what: "state", found, expected });
            }
            *own = tensor;
        }
        Ok(())
    }
}
