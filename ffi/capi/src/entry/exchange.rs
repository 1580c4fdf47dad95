//! Training while deltas travel, where the program steps its values itself.

use super::*;

entry! {
    fn pslite_exchange_describe(
        node: *mut CNode, text: *mut c_char, capacity: usize, size: *mut usize,
    ) {
        let said = live(node, "the node")?.postoffice.exchange()?.unwrap_or_default();
        put_all(said.as_bytes(), text.cast::<u8>(), capacity, size);
        Ok(())
    }
    fn pslite_exchange_begin(worker: *mut CCustomer) {
        live(worker, "the worker")?.owner.handle().step_by_program()
    }
    fn pslite_exchange_counted(worker: *mut CCustomer, out: *mut CExchangeCounts) {
        let counts = live(worker, "the worker")?.owner.handle().exchange_counts()?;
        put(out, CExchangeCounts {
            iterations: counts.iterations,
            sent: counts.sent,
            done: counts.done,
            held: counts.held.as_secs_f64(),
        });
        Ok(())
    }
    fn pslite_exchange_pull_global(node: *mut CNode, on: c_int) {
        live(node, "the node")?.postoffice.pull_global(on != 0);
        Ok(())
    }
}
