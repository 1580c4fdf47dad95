//! KVWorker, and where pulled values go.

use super::*;

plain! {
    fn pslite_place_array(array: *mut c_void, bytes: usize) -> *mut c_void,
        else std::ptr::null_mut(),
    {
        let array = array.cast::<CArray>();
        // SAFETY: null or a pslite_array that nobody else uses meanwhile (top of entry.rs).
        match unsafe { array.as_mut() } {
            Some(array) if array.bytes == bytes => {
                array.filled = bytes;
                array.data
            }
            _ => std::ptr::null_mut(),
        }
    }
    fn pslite_release_flag(flag: *mut c_void) -> (), else (), {
        let flag = flag.cast::<AtomicI32>();
        // SAFETY: null or an int32_t of the caller, which outlives what was lent (header).
        if let Some(flag) = unsafe { flag.as_ref() } {
            flag.store(1, Ordering::Release);
        }
    }
}

entry! {
    fn pslite_worker_attach(customer: *mut CCustomer, value_size: usize) {
        live(customer, "the customer")?.owner.handle().attach_worker(value_size);
        Ok(())
    }
    fn pslite_worker_own_keys(worker: *mut CCustomer) {
        live(worker, "the worker")?.owner.handle().take_own_keys()
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
        let request = asked(kv, values, push, pull, cmd, priority);
        live(worker, "the worker")?.owner.handle().send(timestamp, &request)
    }
    fn pslite_worker_send_parts(
        worker: *mut CCustomer, timestamp: i32, push: c_int, pull: c_int, cmd: i32, priority: i32,
        parts: *const CPart, count: usize,
    ) {
        let parts = parts_of(parts, count);
        let request = asked(KvPairs::default(), take_next(), push, pull, cmd, priority);
        live(worker, "the worker")?.owner.handle().send_parts(timestamp, &request, parts)
    }
}
