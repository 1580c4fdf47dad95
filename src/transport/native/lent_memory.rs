//! The memory that this node lends to peers of its host, for those who make values in it.

use std::sync::Arc;

use super::plane::Plane;
use crate::sys::arena::Block;

/// The home of memory that this node keeps; channels have numbers from 1.
const OWN_HOME: u32 = 0;

/// The memory that this node lends to peers of its host.
#[derive(Clone)]
pub struct LentMemory(Arc<Plane>);

impl LentMemory {
    /// `None` if there is none.
    pub(super) fn of(plane: &Arc<Plane>) -> Option<Self> {
        plane.shared().arena().map(|_| Self(Arc::clone(plane)))
    }

    /// Memory of that many bytes.
    #[must_use]
    pub fn take(&self, len: usize) -> Option<Block> {
        self.0.shared().arena()?.take(OWN_HOME, len)
    }

    /// Takes back what peers gave back.
    pub fn reclaim(&self) {
        self.0.all_channels().iter().for_each(|channel| channel.reclaim());
    }
}

impl std::fmt::Debug for LentMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LentMemory").finish_non_exhaustive()
    }
}
