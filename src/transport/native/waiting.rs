//! What a thread that waits for an answer asks of the transport: first whether it should receive by
//! itself (`receiver_handoff`), then the messages. May touch the receiver, which one thread at a
//! time uses.

use std::sync::atomic::Ordering;

use super::{NativeIncoming, NativeTransport, Stay};
use crate::carrier::RecvError;
use crate::sync::lock;

impl NativeTransport {
    /// To be called by a thread that begins to wait for an answer; it waits for as long as it keeps
    /// what it gets. `alone`: for the only answer that is under way. The thread may be given the
    /// place of the one that calls [`Self::recv`]: then it calls [`Self::recv_waiting`] instead of
    /// sleeping, and leaves before it does anything that may take long.
    pub fn waits_for_answer(&self, alone: bool) -> Stay<'_> {
        self.shared.handoff.begin(alone)
    }

    /// To be called when more answers than one are under way: whoever calls [`Self::recv`] is
    /// needed.
    pub fn need_receiver(&self) {
        self.shared.handoff.need_receiver();
    }

    /// Waits for a message in the place of [`Self::recv`]; `None` after [`Self::call_waiting`], at
    /// the time that the stay ends, and now and then besides.
    ///
    /// # Errors
    /// As [`Self::recv`].
    pub fn recv_waiting(&self, stay: &mut Stay<'_>) -> Result<Option<NativeIncoming>, RecvError> {
        debug_assert!(stay.sits(), "somebody else receives");
        let mut receiver = lock(&self.receiver);
        let incoming = receiver.next(&self.shared, stay.until)?;
        stay.more = receiver.has_more();
        drop(receiver);
        if let Some(incoming) = &incoming {
            self.note_received(incoming);
            self.by_waiters.fetch_add(1, Ordering::Relaxed);
        }
        Ok(incoming)
    }

    /// Ends [`Self::recv_waiting`], now or the next time.
    pub fn call_waiting(&self) {
        self.shared.receive_bell.ring();
    }

    /// Messages that waiting threads received by themselves.
    #[must_use]
    pub fn received_by_waiters(&self) -> u64 {
        self.by_waiters.load(Ordering::Relaxed)
    }
}
