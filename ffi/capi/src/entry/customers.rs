//! Customers, and SimpleApp.

use super::*;

plain! {
    fn pslite_customer_free(customer: *mut CCustomer) -> (), else (), {
        if !customer.is_null() && !is_forked() {
            // SAFETY: made by pslite_customer_new and not freed yet (top of entry.rs).
            drop(unsafe { Box::from_raw(customer) });
        }
    }
}

entry! {
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
    fn pslite_customer_wait_for(customer: *mut CCustomer, timestamp: i32, limit_ms: i32) {
        let limit = Duration::from_millis(u64::try_from(limit_ms).unwrap_or(0));
        live(customer, "the customer")?.owner.handle().wait_for(timestamp, limit)
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
}
