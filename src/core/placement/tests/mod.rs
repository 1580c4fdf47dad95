//! What the tests of this room's modules share. `jobs`: layouts and models; `fluid`: rounds on
//! virtual time; `networks`: jobs in networks that a seed draws; `pipeline`: rounds in which
//! tensors wait.

pub(crate) mod fluid;
pub(crate) mod jobs;
pub(crate) mod networks;
mod pipeline;
