//! Errors as numbers, the text of the last one, and the border that no panic crosses.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use pslite_node::NodeError;

pub(crate) const OK: c_int = 0;
const PANIC: c_int = -100;

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// A C string of any text: what follows a NUL is cut off.
pub(crate) fn c_text(text: &str) -> CString {
    let bytes: Vec<u8> = text.bytes().take_while(|byte| *byte != 0).collect();
    CString::new(bytes).unwrap_or_default()
}

/// The number of an error (`pslite_status`).
pub(crate) const fn code(error: &NodeError) -> c_int {
    match error {
        NodeError::Invalid(_) => -1,
        NodeError::Config(_) => -2,
        NodeError::Address(_) => -3,
        NodeError::NotStarted(_) => -4,
        NodeError::PeerLost(_) => -5,
        NodeError::Timeout(_) => -6,
        NodeError::Remote(_) => -7,
        NodeError::Stopped(_) => -8,
        NodeError::Protocol(_) => -9,
    }
}

/// The text of the last failure on this thread.
pub(crate) fn last() -> *const c_char {
    LAST.with_borrow(|text| text.as_ptr())
}

/// Runs the body of an exported function: errors become numbers, panics too.
pub(crate) fn border(body: impl FnOnce() -> Result<(), NodeError>) -> c_int {
    let (code, text) = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return OK,
        Ok(Err(error)) => (code(&error), error.to_string()),
        Err(panic) => (PANIC, format!("a bug in pslite: {}", panic_text(&*panic))),
    };
    LAST.set(c_text(&text));
    code
}

/// The same for functions that return no status.
pub(crate) fn quiet<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text")
}
