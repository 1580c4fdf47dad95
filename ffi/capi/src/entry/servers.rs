//! KVServer.

use super::*;

entry! {
    fn pslite_server_attach(customer: *mut CCustomer) {
        live(customer, "the customer")?.owner.handle().attach_server();
        Ok(())
    }
    fn pslite_server_attach_movable(customer: *mut CCustomer, handlers: *const CMovable) {
        let movable = MovableCallbacks::new(get(handlers, "handlers")?)?;
        live(customer, "the customer")?.owner.handle().attach_movable(Box::new(movable))
    }
    fn pslite_server_attach_store(customer: *mut CCustomer) {
        live(customer, "the customer")?.owner.handle().attach_store();
        Ok(())
    }
    fn pslite_server_respond(server: *mut CCustomer, request: *const CMeta, kv: *const CKv) {
        // The buffers are taken over first, so that they are released also if the call fails.
        // SAFETY: null or valid (top of entry.rs).
        let kv = unsafe { kv.as_ref() }.map_or_else(KvPairs::default, pairs_of);
        let Values { data_type, devices } = take_next();
        let request =
            Meta { value_type: data_type, devices, ..meta_of(get(request, "the request")?) };
        live(server, "the server")?.owner.handle().respond(&request, kv)
    }
}
