//! Keys and values, as all that sum, cut or hold them know them: the sum of what several push; the
//! frames that travel, how they are cut, and whose a key is. What values are made of is in the
//! crate `elements`, which is seen from here as well.
//!
//! Pure: bytes in, bytes out. May touch `wire` types; must not do I/O, read a clock, draw random
//! numbers or start threads, and knows neither workers nor servers.

pub mod compression;
pub mod form;
pub mod kind;
pub mod pairs;
pub mod ranges;
pub mod routes;
pub mod spaces;
pub(crate) mod sum;
pub(crate) mod value;

pub use pslite_elements::{Allocator, Buffer, Dtype, Memory};

pub use form::{Form, Misfit};
pub use pairs::{KEY_SIZE, KvPairs, LEN_SIZE, iter_lens, key_at};
pub(crate) use pairs::{iter_keys, lower_bound};
pub use ranges::{KeyPart, KeyRange, is_whole_and_cut, server_key_ranges};
pub use routes::KeyRoutes;
pub use spaces::{KeySpace, SHARED, SPACE_KEYS, Space, SpaceError};
