//! Every exported symbol, and nothing else; the files below have one part of the header each. Each
//! function checks its arguments, calls the core and stays behind the panic border. What the
//! functions mean is said in `include/pslite.h`.
//!
//! SAFETY of all of them: pointers are either null (checked) or what the header says; the caller
//! keeps that. Handles come from the function that made them and were not freed.
#![allow(clippy::missing_safety_doc, reason = "the header is the contract")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use pslite_core::values::KvPairs;
use pslite_core::wire::{DataType, Devices, Dialect, Frames, Message, Meta, Role};
use pslite_node::{
    Lookup, NodeError, Operator, Postoffice, PullSink, Request, Values, customer::Done,
    refuse_forked,
};
use pslite_observe::log::{self, Level};
use pslite_transport::fork::is_forked;
use smallvec::SmallVec;

use crate::lent::{bytes_of, frames_of, pairs_of, parts_of};
use crate::movable::MovableCallbacks;
use crate::sink::CallerDestination;
use crate::status::{border, c_text, code, last, quiet};
use crate::types::{
    CArray, CBatch, CBuffer, CCustomer, CDestination, CDevices, CExchangeCounts, CFrame, CJob, CKv,
    CMessage, CMeta, CMovable, CNode, CNodeInfo, CPart, CRange, CSessionSettings, CSessionStart,
    CSlice, DoneFn, FailedFn, LookupFn, ReceiveFn,
};
use crate::values::{set_next, take_next};

/// The type of a frame of which no other is known.
const OTHER: i32 = DataType::Other as i32;

/// One exported function that answers with a status.
macro_rules! entry {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {$(
        #[doc = concat!("`", stringify!($name), "` of `pslite.h`.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> c_int {
            border(move || $body)
        }
    )*};
}

/// One exported function that cannot fail; what it answers after a panic comes first.
macro_rules! plain {
    ($(
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty, else $otherwise:expr, $body:block
    )*) => {$(
        #[doc = concat!("`", stringify!($name), "` of `pslite.h`.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
            quiet($otherwise, move || $body)
        }
    )*};
}

fn invalid(text: &str) -> NodeError {
    NodeError::Invalid(text.to_owned())
}

/// A reference behind a handle of the caller.
fn get<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, NodeError> {
    // SAFETY: null or a live handle (top of this file).
    unsafe { pointer.as_ref() }.ok_or_else(|| invalid(&format!("{what} is NULL")))
}

/// The same, of a node or a part of it: those are of no use in a child of the process that made
/// them.
fn live<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, NodeError> {
    refuse_forked()?;
    get(pointer, what)
}

/// Writes an answer, if the caller wants it.
fn put<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: not null, so room for one value (top of this file).
        unsafe { out.write(value) };
    }
}

/// Copies as many items as fit and says how many there are.
fn put_all<T: Copy>(items: &[T], out: *mut T, capacity: usize, count: *mut usize) {
    if !out.is_null() {
        // SAFETY: room for `capacity` items (top of this file); never more than there are.
        unsafe { std::ptr::copy_nonoverlapping(items.as_ptr(), out, items.len().min(capacity)) };
    }
    put(count, items.len());
}

fn bytes_from(data: *const c_char, size: usize) -> Bytes {
    if data.is_null() || size == 0 {
        return Bytes::new();
    }
    // SAFETY: `size` readable bytes at `data` (top of this file).
    Bytes::copy_from_slice(unsafe { std::slice::from_raw_parts(data.cast(), size) })
}

fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: a C string (top of this file).
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// More nodes of one role in a process are a slip of the pen.
const GROUP_SIZE_MAX: u16 = 1024;

/// An argument that the library gives back to a callback of the caller.
#[derive(Clone, Copy)]
struct Argument(*mut c_void);
// SAFETY: the header says on which threads callbacks run; the caller keeps the argument fit for it.
unsafe impl Send for Argument {}
// SAFETY: as above.
unsafe impl Sync for Argument {}

impl Argument {
    /// A method, so that closures take the whole value and not the bare pointer in it.
    const fn get(self) -> *mut c_void {
        self.0
    }
}

fn lookup_of(lookup: LookupFn, arg: Argument) -> Lookup {
    let Some(lookup) = lookup else { return Arc::new(|name| std::env::var(name).ok()) };
    Arc::new(move |name| {
        let name = c_text(name);
        // SAFETY: the header's contract of pslite_lookup_fn.
        let text = unsafe { lookup(arg.get(), name.as_ptr()) };
        if text.is_null() {
            return None;
        }
        // SAFETY: a C string that lives until the next call (header).
        Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    })
}

fn done_of(done: DoneFn, arg: Argument) -> Done {
    Box::new(move |result| {
        let Some(done) = done else { return };
        let (status, text) = match &result {
            Ok(()) => (0, None),
            Err(error) => (code(error), Some(c_text(&error.to_string()))),
        };
        let text = text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
        // SAFETY: the header's contract of pslite_done_fn; called once.
        unsafe { done(arg.get(), status, text) };
    })
}

fn sink_of(into: *const CDestination) -> Result<Box<dyn PullSink>, NodeError> {
    Ok(Box::new(CallerDestination(*get(into, "the destination")?)))
}

/// The parts of a request's metadata that its answer repeats.
fn meta_of(meta: &CMeta) -> Meta {
    Meta {
        head: meta.head,
        app_id: meta.app_id,
        customer_id: meta.customer_id,
        timestamp: meta.timestamp,
        sender: meta.sender,
        recver: meta.recver,
        push: meta.push != 0,
        pull: meta.pull != 0,
        error: text_of(meta.error),
        ..Meta::default()
    }
}

/// The second half of a request.
fn asked(
    kv: KvPairs,
    values: Values,
    push: c_int,
    pull: c_int,
    cmd: i32,
    priority: i32,
) -> Request {
    Request { kv, cmd, priority, push: push != 0, pull: pull != 0, values }
}

/// A message of the caller's.
fn message_of(meta: &CMeta, data: Frames, data_type: SmallVec<[i32; 4]>) -> Message {
    let meta = Meta {
        priority: meta.priority,
        request: meta.request != 0,
        simple_app: meta.simple_app != 0,
        body: bytes_from(meta.body, meta.body_size),
        data_type,
        ..meta_of(meta)
    };
    Message { meta, data }
}

mod customers;
mod exchange;
mod jobs;
mod messages;
mod nodes;
mod servers;
mod sessions;
mod workers;

pub use self::{
    customers::*, exchange::*, jobs::*, messages::*, nodes::*, servers::*, sessions::*, workers::*,
};

plain! {
    fn pslite_abi_version() -> u32, else 0, { 9 }
    fn pslite_version() -> *const c_char, else std::ptr::null(), {
        concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
    }
    fn pslite_last_error() -> *const c_char, else std::ptr::null(), { last() }
}
