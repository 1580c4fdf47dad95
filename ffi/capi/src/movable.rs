//! An application's keys that move (`pslite_movable`): its C functions as the node wants them.

use std::ffi::{c_int, c_void};

use bytes::Bytes;
use pslite_node::{KeyState, NodeError};

use crate::status::quiet;
use crate::types::CMovable;

/// The functions of one customer.
pub(crate) struct MovableCallbacks(CMovable);

// SAFETY: the header says that the functions are called on a thread of the library, one at a time;
// the caller keeps `user` fit for that.
unsafe impl Send for MovableCallbacks {}
// SAFETY: as above: no two of them are called at once.
unsafe impl Sync for MovableCallbacks {}

impl MovableCallbacks {
    /// Checks what the caller gave.
    pub(crate) fn new(given: &CMovable) -> Result<Self, NodeError> {
        let invalid = |text: &str| Err(NodeError::Invalid(text.to_owned()));
        if given.size < size_of::<CMovable>() {
            return invalid("size is not that of pslite_movable");
        }
        let complete =
            given.export_key.is_some() && given.import_key.is_some() && given.forget_key.is_some();
        if given.stateless == 0 && !complete {
            return invalid("export_key, import_key or forget_key is NULL, and stateless is 0");
        }
        Ok(Self(*given))
    }
}

/// `pslite_write_fn`: appends to the vector behind `arg`.
unsafe extern "C" fn write(arg: *mut c_void, data: *const c_void, size: usize) {
    quiet((), || {
        if data.is_null() || size == 0 {
            return;
        }
        // SAFETY: `export` made `arg` from a vector that lives, and nobody else uses, until the
        // caller's function returns.
        let Some(state) = (unsafe { arg.cast::<Vec<u8>>().as_mut() }) else { return };
        // SAFETY: the header's contract of pslite_write_fn: `size` readable bytes.
        state.extend_from_slice(unsafe { std::slice::from_raw_parts(data.cast(), size) });
    });
}

/// What a function of the caller says.
fn said(what: &str, code: c_int) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("{what} returned {code}")) }
}

impl KeyState for MovableCallbacks {
    fn is_stateless(&self) -> bool {
        self.0.stateless != 0
    }

    fn export(&self, key: u64) -> Result<Bytes, String> {
        let Some(export) = self.0.export_key else { return Err("there is no export_key".into()) };
        let mut state: Vec<u8> = Vec::new();
        let arg = (&raw mut state).cast();
        // SAFETY: the header's contract of export_key; `state` outlives the call.
        said("export_key", unsafe { export(self.0.user, key, Some(write), arg) })?;
        Ok(Bytes::from(state))
    }

    fn import(&self, key: u64, state: Bytes) -> Result<(), String> {
        let Some(import) = self.0.import_key else { return Err("there is no import_key".into()) };
        // SAFETY: the header's contract of import_key; `state` outlives the call.
        said("import_key", unsafe { import(self.0.user, key, state.as_ptr().cast(), state.len()) })
    }

    fn can_forget(&self) -> bool {
        self.0.forget_key.is_some()
    }

    fn forget(&self, key: u64) {
        if let Some(forget) = self.0.forget_key {
            // SAFETY: the header's contract of forget_key.
            unsafe { forget(self.0.user, key) };
        }
    }

    fn released(&self) {
        if let Some(released) = self.0.released {
            // SAFETY: the header's contract of released.
            unsafe { released(self.0.user) };
        }
    }
}
