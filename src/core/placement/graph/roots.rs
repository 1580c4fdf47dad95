//! Who owns how much of a model, where trees are looked for.

/// Who owns how much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Roots<'a> {
    /// Whoever is best: T* of the network.
    Free,
    /// Each site its fraction of the model; they add up to 1.
    Shares(&'a [f64]),
}
