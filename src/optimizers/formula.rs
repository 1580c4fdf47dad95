//! How a formula for one element becomes a loop over tensors.
//!
//! A formula is the arithmetic of one MXNet kernel in MXNet's order of operations. Loops are plain
//! ones that the compiler vectorises, compiled for each instruction set that pulp knows and chosen
//! at run time. Rust never contracts a multiplication and an addition into one rounding, so all
//! instruction sets give the same bits.

use std::array;

use pulp::{Arch, NullaryFnOnce};

use super::number::Number;

/// The most tensors of state that an optimizer keeps for a key.
pub(super) const MOST_TENSORS: usize = 3;

/// What an update works on: parts of the same length of weights, gradient and state.
pub(super) struct UpdateSlices<'a, T: Number> {
    pub weight: &'a mut [T::Stored],
    pub gradient: &'a [T::Stored],
    pub state: [&'a mut [T::Stored]; MOST_TENSORS],
}

/// The update of one element, with `N` elements of state.
pub(super) trait Formula<T: Number, const N: usize>: Copy {
    /// The new weight and the new state. Implementations are `#[inline(always)]`.
    fn element(&self, weight: T, gradient: T, state: [T; N]) -> (T, [T; N]);
}

/// Applies a formula to every element.
pub(super) fn apply<T: Number, const N: usize, F: Formula<T, N>>(
    formula: &F,
    on: UpdateSlices<'_, T>,
) {
    let length = on.weight.len().min(on.gradient.len());
    let mut tensors = on.state.into_iter();
    let state = array::from_fn(|_| match tensors.next() {
        Some(tensor) => tensor,
        None => &mut [],
    });
    if state.iter().all(|tensor: &&mut [T::Stored]| tensor.len() >= length) {
        let (weight, gradient) = (&mut on.weight[..length], &on.gradient[..length]);
        Arch::new().dispatch(Loop::<T, N, F> { formula, weight, gradient, state });
    }
}

struct Loop<'a, T: Number, const N: usize, F> {
    formula: &'a F,
    weight: &'a mut [T::Stored],
    gradient: &'a [T::Stored],
    state: [&'a mut [T::Stored]; N],
}

impl<T: Number, const N: usize, F: Formula<T, N>> NullaryFnOnce for Loop<'_, T, N, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let length = self.weight.len();
        // A copy: the compiler need not fear that a store to a tensor changes it.
        let formula = *self.formula;
        let gradient = &self.gradient[..length];
        let state = self.state.map(|tensor| &mut tensor[..length]);
        for place in 0..length {
            let old = array::from_fn(|tensor| T::load(state[tensor][place]));
            let (weight, gradient) = (T::load(self.weight[place]), T::load(gradient[place]));
            let (weight, new) = formula.element(weight, gradient, old);
            self.weight[place] = weight.store();
            for tensor in 0..N {
                state[tensor][place] = new[tensor].store();
            }
        }
    }
}
