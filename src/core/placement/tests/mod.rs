//! What the tests of this room's modules share. `jobs`: layouts and models; `fluid`: rounds on
//! virtual time.

pub(crate) mod fluid;
pub(crate) mod jobs;
