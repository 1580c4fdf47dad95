//! The structs of `pslite.h`, field by field (a test holds both equal).

use std::ffi::{c_char, c_int, c_void};

/// `pslite_lookup_fn`.
pub type LookupFn = Option<unsafe extern "C" fn(*mut c_void, *const c_char) -> *const c_char>;
/// `pslite_receive_fn`.
pub type ReceiveFn = Option<unsafe extern "C" fn(*mut c_void, *const CMessage)>;
/// `pslite_done_fn`.
pub type DoneFn = Option<unsafe extern "C" fn(*mut c_void, c_int, *const c_char)>;
/// `pslite_place_fn`.
pub type PlaceFn = Option<unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void>;
/// `pslite_failed_fn`.
pub type FailedFn = Option<unsafe extern "C" fn(*mut c_void, *const c_char)>;

/// `pslite_write_fn`.
pub type WriteFn = Option<unsafe extern "C" fn(*mut c_void, *const c_void, usize)>;
/// `pslite_movable::export_key`.
pub type ExportFn = Option<unsafe extern "C" fn(*mut c_void, u64, WriteFn, *mut c_void) -> c_int>;
/// `pslite_movable::import_key`.
pub type ImportFn = Option<unsafe extern "C" fn(*mut c_void, u64, *const c_void, usize) -> c_int>;
/// `pslite_movable::forget_key`.
pub type ForgetFn = Option<unsafe extern "C" fn(*mut c_void, u64)>;
/// `pslite_movable::released`.
pub type ReleasedFn = Option<unsafe extern "C" fn(*mut c_void)>;

/// `pslite_range`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CRange {
    /// First key.
    pub begin: u64,
    /// First key behind.
    pub end: u64,
}

/// `pslite_buffer`: memory lent to the library.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CBuffer {
    /// Start.
    pub data: *const c_void,
    /// Bytes.
    pub size: usize,
    /// Called once when the library is done with it.
    pub release: Option<unsafe extern "C" fn(*mut c_void)>,
    /// Its argument.
    pub release_arg: *mut c_void,
}

/// `pslite_job`: where a job's scheduler is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CJob {
    /// Its host.
    pub host: *const c_char,
    /// Its port.
    pub port: i32,
    /// How long to wait for its answer.
    pub timeout_ms: i32,
    /// The address of this machine to which one of an earlier version answers, or null.
    pub own_host: *const c_char,
}

/// `pslite_session_settings`: what a worker opens a session with.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CSessionSettings {
    /// The session's name.
    pub name: *const c_char,
    /// Samples of an epoch.
    pub length: u64,
    /// Samples of an iteration, or of a batch that is dealt.
    pub total: u32,
    /// Workers that take part.
    pub members: u32,
    /// The rank of this one.
    pub rank: u32,
    /// Samples that it takes at least.
    pub min: u32,
    /// Samples that it takes at most; 0: no limit.
    pub max: u32,
    /// Sizes are multiples of it.
    pub quantum: u32,
    /// How many iterations a worker may begin before the slowest one has reported the first.
    pub lookahead: u32,
    /// The rule.
    pub rule: i32,
    /// Of the order of samples.
    pub seed: u64,
    /// Epochs that are dealt; 0: no end.
    pub epochs: u64,
    /// An epoch's last iteration is filled up.
    pub wraps: u8,
    /// The library measures batches.
    pub measured: u8,
}

/// `pslite_session_start`: where a session begins, and the order of its samples.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CSessionStart {
    /// The first iteration; of what is dealt, the first epoch.
    pub first: u64,
    /// Of the first epoch's order, if that is the application's own.
    pub order_hash: u64,
    /// The order.
    pub order: i32,
}

/// `pslite_batch`: the samples that a worker computes at once.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CBatch {
    /// Which iteration.
    pub iteration: u64,
    /// Which epoch.
    pub epoch: u64,
    /// The first sample's place.
    pub place: u64,
    /// How many samples; 0: there are no more.
    pub size: u32,
    /// How many workers share the iteration.
    pub workers: u32,
}

/// `pslite_exchange_counts`: what an exchange has done.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CExchangeCounts {
    /// Iterations that have begun.
    pub iterations: u64,
    /// Rounds that were sent.
    pub sent: u64,
    /// Rounds whose values are here.
    pub done: u64,
    /// Seconds for which the worker was held.
    pub held: f64,
}

/// `pslite_array`: an array of the caller that values are written to.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CArray {
    /// Start.
    pub data: *mut c_void,
    /// Bytes.
    pub bytes: usize,
    /// Bytes that came.
    pub filled: usize,
}

/// `pslite_slice`: memory of the library.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CSlice {
    /// Start.
    pub data: *const c_void,
    /// Bytes.
    pub size: usize,
}

/// `pslite_kv`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CKv {
    /// 8 bytes each.
    pub keys: CBuffer,
    /// Values.
    pub vals: CBuffer,
    /// int32 each, or empty.
    pub lens: CBuffer,
}

/// `pslite_part`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CPart {
    /// The server.
    pub rank: i32,
    /// What it gets.
    pub kv: CKv,
}

/// `pslite_frame`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CFrame {
    /// The bytes.
    pub buffer: CBuffer,
    /// Of which type.
    pub data_type: i32,
}

/// `pslite_devices`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct CDevices {
    pub src_type: i32,
    pub src_id: i32,
    pub dst_type: i32,
    pub dst_id: i32,
}

/// `pslite_meta`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct CMeta {
    pub head: i32,
    pub app_id: i32,
    pub customer_id: i32,
    pub timestamp: i32,
    pub sender: i32,
    pub recver: i32,
    pub priority: i32,
    pub request: u8,
    pub push: u8,
    pub pull: u8,
    pub simple_app: u8,
    pub body: *const c_char,
    pub body_size: usize,
    pub error: *const c_char,
}

/// `pslite_node_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct CNodeInfo {
    pub role: i32,
    pub id: i32,
    pub rank: i32,
    pub num_workers: i32,
    pub num_servers: i32,
    pub port: i32,
    pub verbose: i32,
    pub is_recovery: u8,
    pub is_ready: u8,
    pub hostname: *const c_char,
}

/// `pslite_destination`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CDestination {
    /// Where values go.
    pub place_vals: PlaceFn,
    /// Where lens go; none: not wanted.
    pub place_lens: PlaceFn,
    /// The argument of both.
    pub arg: *mut c_void,
    /// The caller's array for the values, if it is there already.
    pub vals: *mut c_void,
    /// Its bytes.
    pub vals_bytes: usize,
    /// How many values of each key are expected; none: that is not known.
    pub lens: *const i32,
    /// For so many keys.
    pub lens_count: usize,
}

/// `pslite_movable`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CMovable {
    /// Bytes of this struct, as the caller knows it.
    pub size: usize,
    /// The first argument of all functions.
    pub user: *mut c_void,
    /// Not 0: nothing is kept between rounds.
    pub stateless: c_int,
    /// Writes the state of a key.
    pub export_key: ExportFn,
    /// Takes the state of a key.
    pub import_key: ImportFn,
    /// The key is another server's.
    pub forget_key: ForgetFn,
    /// This server may end.
    pub released: ReleasedFn,
}

/// `pslite_node`.
pub struct CNode {
    pub(crate) postoffice: pslite_node::Postoffice,
    pub(crate) hostname: std::sync::Mutex<std::ffi::CString>,
}

/// `pslite_message`: shared, immutable.
pub struct CMessage {
    pub(crate) message: pslite_core::wire::Message,
    /// The error text with its closing NUL, if any.
    pub(crate) error: Option<std::ffi::CString>,
}

/// `pslite_customer`.
pub struct CCustomer {
    pub(crate) owner: pslite_node::Customer,
}
