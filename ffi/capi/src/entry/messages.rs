//! Messages that the library gives to its callers.

use super::*;

plain! {
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
}
