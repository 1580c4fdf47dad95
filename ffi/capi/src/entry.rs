//! Every exported symbol, and nothing else. Each checks its arguments, calls the core and stays
//! behind the panic border. What the functions mean is said in `include/pslite.h`.
//!
//! SAFETY of all of them: pointers are either null (checked) or what the header says; the caller
//! keeps that. Handles come from the function that made them and were not freed.
#![allow(clippy::missing_safety_doc, reason = "the header is the contract")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use pslite_core::values::KvPairs;
use pslite_core::wire::{DataType, Devices, Dialect, Frames, Message, Meta, Role};
use pslite_node::{
    Lookup, NodeError, Postoffice, PullSink, Request, Values, customer::Done, refuse_forked,
};
use pslite_observe::log::{self, Level};
use pslite_transport::fork::is_forked;
use smallvec::SmallVec;

use crate::lent::{bytes_of, frames_of, pairs_of, parts_of};
use crate::movable::Movable;
use crate::sink::Destination;
use crate::status::{border, c_text, code, last, quiet};
use crate::types::{
    CBuffer, CCustomer, CDestination, CDevices, CFrame, CKv, CMessage, CMeta, CMovable, CNode,
    CNodeInfo, CPart, CRange, CSlice, DoneFn, FailedFn, LookupFn, ReceiveFn,
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
    Ok(Box::new(Destination(*get(into, "the destination")?)))
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
    (push, pull): (c_int, c_int),
    cmd: i32,
    priority: i32,
    (kv, values): (KvPairs, Values),
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

plain! {
    fn pslite_abi_version() -> u32, else 0, { 4 }
    fn pslite_version() -> *const c_char, else std::ptr::null(), {
        concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
    }
    fn pslite_last_error() -> *const c_char, else std::ptr::null(), { last() }

    fn pslite_node_free(node: *mut CNode) -> (), else (), {
        if !node.is_null() && !is_forked() {
            // SAFETY: made by pslite_node_new and not freed yet (top of this file).
            drop(unsafe { Box::from_raw(node) });
        }
    }
    fn pslite_node_stop(node: *mut CNode) -> (), else (), {
        if let Ok(node) = get(node, "the node") {
            node.postoffice.stop();
        }
    }
    fn pslite_log(level: c_int, text: *const c_char) -> (), else (), {
        if !text.is_null() {
            let level = match level { 0 => Level::Error, 1 => Level::Warning, _ => Level::Info };
            // SAFETY: a C string (top of this file).
            log::write(level, &unsafe { CStr::from_ptr(text) }.to_string_lossy());
        }
    }

    fn pslite_message_meta(message: *const CMessage, out: *mut CMeta) -> (), else (), {
        let Ok(shared) = get(message, "the message") else { return };
        let meta = &shared.message.meta;
        put(out, CMeta {
            head: meta.head,
            app_id: meta.app_id,
            customer_id: meta.customer_id,
            timestamp: meta.timestamp,
            sender: meta.sender,
            recver: meta.recver,
            priority: meta.priority,
            request: u8::from(meta.request),
            push: u8::from(meta.push),
            pull: u8::from(meta.pull),
            simple_app: u8::from(meta.simple_app),
            body: meta.body.as_ptr().cast(),
            body_size: meta.body.len(),
            error: shared.error.as_ref().map_or(std::ptr::null(), |text| text.as_ptr()),
        });
    }
    fn pslite_message_frames(message: *const CMessage) -> usize, else 0, {
        get(message, "the message").map_or(0, |shared| shared.message.data.len())
    }
    fn pslite_message_frame(message: *const CMessage, i: usize) -> CSlice,
        else CSlice { data: std::ptr::null(), size: 0 },
    {
        get(message, "the message")
            .ok()
            .and_then(|shared| shared.message.data.get(i))
            .map_or(CSlice { data: std::ptr::null(), size: 0 }, |frame| CSlice {
                data: frame.as_ptr().cast(),
                size: frame.len(),
            })
    }
    fn pslite_message_data_type(message: *const CMessage, i: usize) -> i32, else OTHER, {
        let shared = get(message, "the message").ok();
        let known = shared.and_then(|shared| shared.message.meta.data_type.get(i).copied());
        known.filter(|number| (0..OTHER).contains(number)).unwrap_or(OTHER)
    }
    fn pslite_message_devices(message: *const CMessage, out: *mut CDevices) -> (), else (), {
        let Ok(shared) = get(message, "the message") else { return };
        let otherwise =
            if shared.message.data.is_empty() { Devices::NONE } else { Devices::CPU };
        put(out, CDevices::from_wire(shared.message.meta.devices.unwrap_or(otherwise)));
    }
    fn pslite_message_retain(message: *const CMessage) -> *const CMessage, else message, {
        if !message.is_null() {
            // SAFETY: every message that leaves the library is inside an Arc, and one owner lives.
            unsafe { Arc::increment_strong_count(message) };
        }
        message
    }
    fn pslite_message_release(message: *const CMessage) -> (), else (), {
        if !message.is_null() {
            // SAFETY: as above; this owner gives up its share.
            unsafe { Arc::decrement_strong_count(message) };
        }
    }

    fn pslite_customer_free(customer: *mut CCustomer) -> (), else (), {
        if !customer.is_null() && !is_forked() {
            // SAFETY: made by pslite_customer_new and not freed yet (top of this file).
            drop(unsafe { Box::from_raw(customer) });
        }
    }
}

entry! {
    fn pslite_node_new(lookup: LookupFn, lookup_arg: *mut c_void, out: *mut *mut CNode) {
        if out.is_null() {
            return Err(invalid("out is NULL"));
        }
        refuse_forked()?;
        let postoffice = Postoffice::new(lookup_of(lookup, Argument(lookup_arg)));
        let hostname = Mutex::new(CString::default());
        put(out, Box::into_raw(Box::new(CNode { postoffice, hostname })));
        Ok(())
    }
    fn pslite_node_set_wire(node: *mut CNode, wire: i32) {
        let dialect = match wire {
            0 => None,
            1 => Some(Dialect::Mxnet),
            2 => Some(Dialect::Byteps025),
            3 => Some(Dialect::Byteps),
            other => return Err(invalid(&format!("{other} is no wire"))),
        };
        live(node, "the node")?.postoffice.ask(|asked| asked.dialect = dialect);
        Ok(())
    }
    fn pslite_node_set_role(node: *mut CNode, role: i32) {
        let role = match role {
            -1 => None,
            number => Some(
                Role::from_wire(number).ok_or_else(|| invalid(&format!("{number} is no role")))?,
            ),
        };
        live(node, "the node")?.postoffice.ask(|asked| asked.role = role);
        Ok(())
    }
    fn pslite_node_set_rank(node: *mut CNode, rank: i32) {
        if rank < -1 {
            return Err(invalid(&format!("{rank} is no rank")));
        }
        let rank = u32::try_from(rank).ok();
        live(node, "the node")?.postoffice.ask(|asked| asked.wished_rank = rank);
        Ok(())
    }
    fn pslite_node_set_group_size(node: *mut CNode, size: i32) {
        let size = u16::try_from(size).ok().filter(|size| (1..=GROUP_SIZE_MAX).contains(size));
        let size = size.ok_or_else(|| invalid("the size of a group is from 1 to 1024"))?;
        live(node, "the node")?.postoffice.ask(|asked| asked.group_size = Some(size));
        Ok(())
    }
    fn pslite_node_set_hold_pushes(node: *mut CNode, holds: i32) {
        let holds = match holds {
            -1 => None,
            0 => Some(false),
            1 => Some(true),
            other => return Err(invalid(&format!("{other} is none of -1, 0, 1"))),
        };
        live(node, "the node")?.postoffice.ask(|asked| asked.holds_pushes = holds);
        Ok(())
    }
    fn pslite_node_group_size(node: *mut CNode, size: *mut i32) {
        put(size, live(node, "the node")?.postoffice.describe()?.group_size as i32);
        Ok(())
    }
    fn pslite_start(node: *mut CNode, customer_id: i32, do_barrier: c_int) {
        live(node, "the node")?.postoffice.start(customer_id, do_barrier != 0)
    }
    fn pslite_finalize(node: *mut CNode, customer_id: i32, do_barrier: c_int) {
        live(node, "the node")?.postoffice.finalize(customer_id, do_barrier != 0)
    }
    fn pslite_barrier(node: *mut CNode, customer_id: i32, group: i32, flags: u32) {
        live(node, "the node")?.postoffice.barrier(customer_id, group, flags & 1 != 0)
    }
    fn pslite_node_describe(node: *mut CNode, out: *mut CNodeInfo) {
        let node = live(node, "the node")?;
        let info = node.postoffice.describe()?;
        let mut hostname = node.hostname.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if hostname.as_bytes() != info.hostname.as_bytes() {
            *hostname = c_text(&info.hostname);
        }
        put(out, CNodeInfo {
            role: info.role as i32,
            id: info.id,
            rank: info.rank,
            num_workers: info.num_workers as i32,
            num_servers: info.num_servers as i32,
            port: info.port,
            verbose: info.verbose,
            is_recovery: u8::from(info.is_recovery),
            is_ready: u8::from(info.is_ready),
            hostname: hostname.as_ptr(),
        });
        Ok(())
    }
    fn pslite_node_ids(
        node: *mut CNode, group: i32, ids: *mut i32, capacity: usize, count: *mut usize,
    ) {
        put_all(&live(node, "the node")?.postoffice.node_ids(group)?, ids, capacity, count);
        Ok(())
    }
    fn pslite_dead_nodes(
        node: *mut CNode, timeout_s: i32, ids: *mut i32, capacity: usize, count: *mut usize,
    ) {
        let timeout = Duration::from_secs(u64::try_from(timeout_s).unwrap_or(0));
        put_all(&live(node, "the node")?.postoffice.dead_nodes(timeout)?, ids, capacity, count);
        Ok(())
    }
    fn pslite_metrics(
        node: *mut CNode, text: *mut c_char, capacity: usize, size: *mut usize,
    ) {
        let metrics = live(node, "the node")?.postoffice.metrics()?;
        put_all(metrics.as_bytes(), text.cast::<u8>(), capacity, size);
        Ok(())
    }
    fn pslite_server_key_ranges(
        node: *mut CNode, ranges: *mut CRange, capacity: usize, count: *mut usize,
    ) {
        let all: Vec<CRange> = live(node, "the node")?
            .postoffice
            .server_key_ranges()?
            .iter()
            .map(|range| CRange { begin: range.begin, end: range.end })
            .collect();
        put_all(&all, ranges, capacity, count);
        Ok(())
    }
    fn pslite_next_values(data_type: i32, devices: *const CDevices) {
        // SAFETY: null or valid (top of this file).
        set_next(data_type, unsafe { devices.as_ref() })
    }
    fn pslite_send(
        node: *mut CNode, meta: *const CMeta, frames: *const CFrame, count: usize,
    ) {
        // The frames are taken over first, so that they are released also if the call fails.
        let (data, data_type) = frames_of(frames, count);
        let devices = take_next().devices;
        let mut message = message_of(get(meta, "the metadata")?, data, data_type);
        message.meta.devices = devices;
        live(node, "the node")?.postoffice.send(message)
    }
    fn pslite_on_failure(node: *mut CNode, failed: FailedFn, arg: *mut c_void) {
        let failed = failed.ok_or_else(|| invalid("failed is NULL"))?;
        let arg = Argument(arg);
        live(node, "the node")?.postoffice.set_on_failure(Box::new(move |reason| {
            let reason = c_text(reason);
            // SAFETY: the header's contract of pslite_failed_fn.
            unsafe { failed(arg.get(), reason.as_ptr()) };
        }));
        Ok(())
    }

    fn pslite_customer_new(
        node: *mut CNode, app_id: i32, customer_id: i32, receive: ReceiveFn, arg: *mut c_void,
        out: *mut *mut CCustomer,
    ) {
        let receive = receive.ok_or_else(|| invalid("receive is NULL"))?;
        if out.is_null() {
            return Err(invalid("out is NULL"));
        }
        let arg = Argument(arg);
        let owner = live(node, "the node")?.postoffice.customer(
            app_id,
            customer_id,
            Box::new(move |message: Message| {
                let error = (!message.meta.error.is_empty()).then(|| c_text(&message.meta.error));
                let shared = Arc::new(CMessage { message, error });
                // SAFETY: the header's contract of pslite_receive_fn; `shared` outlives the call.
                unsafe { receive(arg.get(), Arc::as_ptr(&shared)) };
            }),
        )?;
        put(out, Box::into_raw(Box::new(CCustomer { owner })));
        Ok(())
    }
    fn pslite_customer_new_request(customer: *mut CCustomer, recver: i32, timestamp: *mut i32) {
        put(timestamp, live(customer, "the customer")?.owner.handle().new_request(recver)?);
        Ok(())
    }
    fn pslite_customer_wait(customer: *mut CCustomer, timestamp: i32) {
        live(customer, "the customer")?.owner.handle().wait(timestamp)
    }
    fn pslite_customer_num_response(customer: *mut CCustomer, timestamp: i32, out: *mut i32) {
        put(out, live(customer, "the customer")?.owner.handle().num_response(timestamp));
        Ok(())
    }
    fn pslite_customer_add_response(customer: *mut CCustomer, timestamp: i32, count: i32) {
        live(customer, "the customer")?.owner.handle().add_response(timestamp, count);
        Ok(())
    }

    fn pslite_customer_accept(
        customer: *mut CCustomer, meta: *const CMeta, frames: *const CFrame, count: usize,
    ) {
        let (data, data_type) = frames_of(frames, count);
        let message = message_of(get(meta, "the metadata")?, data, data_type);
        live(customer, "the customer")?.owner.handle().accept(message)
    }

    fn pslite_simple_request(
        customer: *mut CCustomer, head: i32, body: *const c_char, body_size: usize, recver: i32,
        timestamp: *mut i32,
    ) {
        let handle = live(customer, "the customer")?.owner.handle();
        put(timestamp, handle.simple_request(head, &bytes_from(body, body_size), recver)?);
        Ok(())
    }
    fn pslite_simple_respond(
        customer: *mut CCustomer, request: *const CMeta, body: *const c_char, body_size: usize,
    ) {
        let request = meta_of(get(request, "the request")?);
        let handle = live(customer, "the customer")?.owner.handle();
        handle.simple_respond(&request, bytes_from(body, body_size), &request.error)
    }

    fn pslite_worker_attach(customer: *mut CCustomer, value_size: usize) {
        live(customer, "the customer")?.owner.handle().attach_worker(value_size);
        Ok(())
    }
    fn pslite_worker_push(
        worker: *mut CCustomer, kv: *const CKv, cmd: i32, priority: i32, done: DoneFn,
        done_arg: *mut c_void, timestamp: *mut i32,
    ) {
        let values = take_next();
        let kv = pairs_of(get(kv, "kv")?);
        let request = Request { kv, cmd, priority, push: true, pull: false, values };
        let handle = live(worker, "the worker")?.owner.handle();
        put(timestamp, handle.request(&request, None, done_of(done, Argument(done_arg)))?);
        Ok(())
    }
    fn pslite_worker_pull(
        worker: *mut CCustomer, keys: CBuffer, into: *const CDestination, cmd: i32, priority: i32,
        done: DoneFn, done_arg: *mut c_void, timestamp: *mut i32,
    ) {
        let values = take_next();
        let kv = KvPairs { keys: bytes_of(&keys), ..KvPairs::default() };
        let request = Request { kv, cmd, priority, push: false, pull: true, values };
        let handle = live(worker, "the worker")?.owner.handle();
        let done = done_of(done, Argument(done_arg));
        put(timestamp, handle.request(&request, Some(sink_of(into)?), done)?);
        Ok(())
    }
    fn pslite_worker_push_pull(
        worker: *mut CCustomer, kv: *const CKv, into: *const CDestination, cmd: i32, priority: i32,
        done: DoneFn, done_arg: *mut c_void, timestamp: *mut i32,
    ) {
        let values = take_next();
        let kv = pairs_of(get(kv, "kv")?);
        let request = Request { kv, cmd, priority, push: true, pull: true, values };
        let handle = live(worker, "the worker")?.owner.handle();
        let done = done_of(done, Argument(done_arg));
        put(timestamp, handle.request(&request, Some(sink_of(into)?), done)?);
        Ok(())
    }
    fn pslite_worker_expect_pull(
        worker: *mut CCustomer, keys: CBuffer, into: *const CDestination, done: DoneFn,
        done_arg: *mut c_void, timestamp: *mut i32,
    ) {
        let keys = bytes_of(&keys);
        let handle = live(worker, "the worker")?.owner.handle();
        let done = done_of(done, Argument(done_arg));
        put(timestamp, handle.expect_pull(keys, sink_of(into)?, done)?);
        Ok(())
    }
    fn pslite_worker_expect_push(
        worker: *mut CCustomer, done: DoneFn, done_arg: *mut c_void, timestamp: *mut i32,
    ) {
        let handle = live(worker, "the worker")?.owner.handle();
        put(timestamp, handle.expect_push(done_of(done, Argument(done_arg)))?);
        Ok(())
    }
    fn pslite_worker_send(
        worker: *mut CCustomer, timestamp: i32, push: c_int, pull: c_int, cmd: i32, priority: i32,
        kv: *const CKv,
    ) {
        let values = take_next();
        let kv = pairs_of(get(kv, "kv")?);
        let request = asked((push, pull), cmd, priority, (kv, values));
        live(worker, "the worker")?.owner.handle().send(timestamp, &request)
    }
    fn pslite_worker_send_parts(
        worker: *mut CCustomer, timestamp: i32, push: c_int, pull: c_int, cmd: i32, priority: i32,
        parts: *const CPart, count: usize,
    ) {
        let parts = parts_of(parts, count);
        let request = asked((push, pull), cmd, priority, (KvPairs::default(), take_next()));
        live(worker, "the worker")?.owner.handle().send_parts(timestamp, &request, parts)
    }

    fn pslite_server_attach(customer: *mut CCustomer) {
        live(customer, "the customer")?.owner.handle().attach_server();
        Ok(())
    }
    fn pslite_server_attach_movable(customer: *mut CCustomer, handlers: *const CMovable) {
        let movable = Movable::new(get(handlers, "handlers")?)?;
        live(customer, "the customer")?.owner.handle().attach_movable(Box::new(movable))
    }
    fn pslite_server_attach_store(customer: *mut CCustomer) {
        live(customer, "the customer")?.owner.handle().attach_store();
        Ok(())
    }
    fn pslite_server_respond(server: *mut CCustomer, request: *const CMeta, kv: *const CKv) {
        // The buffers are taken over first, so that they are released also if the call fails.
        // SAFETY: null or valid (top of this file).
        let kv = unsafe { kv.as_ref() }.map_or_else(KvPairs::default, pairs_of);
        let Values { data_type, devices } = take_next();
        let request =
            Meta { value_type: data_type, devices, ..meta_of(get(request, "the request")?) };
        live(server, "the server")?.owner.handle().respond(&request, kv)
    }
}
