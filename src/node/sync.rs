//! How this crate locks: as `transport` does. Names nothing of the crate.

pub(crate) use pslite_transport::sync::{lock, try_lock};
