//! Batch sizes: the sessions of a worker.

use pslite_core::training::balance::permutation::EpochOrder;
use pslite_node::{BalanceOpen, BatchReport, BatchSession};

use super::*;

plain! {
    fn pslite_session_close(session: *mut BatchSession) -> (), else (), {
        if !session.is_null() && !is_forked() {
            // SAFETY: made by pslite_session_open and not closed yet (top of entry.rs).
            drop(unsafe { Box::from_raw(session) });
        }
    }
}

entry! {
    fn pslite_session_open(
        node: *mut CNode, settings: *const CSessionSettings, out: *mut *mut BatchSession,
    ) {
        if out.is_null() {
            return Err(invalid("out is NULL"));
        }
        let settings = get(settings, "the settings")?;
        let session = opened(node, settings, &open_of(settings))?;
        put(out, Box::into_raw(Box::new(session)));
        Ok(())
    }
    fn pslite_session_open_at(
        node: *mut CNode, settings: *const CSessionSettings, start: *const CSessionStart,
        out: *mut *mut BatchSession,
    ) {
        if out.is_null() {
            return Err(invalid("out is NULL"));
        }
        let settings = get(settings, "the settings")?;
        let CSessionStart { first, order_hash, order } = *get(start, "the start")?;
        let open = BalanceOpen { first, order_hash, order, ..open_of(settings) };
        put(out, Box::into_raw(Box::new(opened(node, settings, &open)?)));
        Ok(())
    }
    fn pslite_session_cancel(node: *mut CNode, name: *const c_char) {
        live(node, "the node")?.postoffice.cancel_batch_session(&text_of(name));
        Ok(())
    }
    fn pslite_session_next(session: *mut BatchSession, limit_ms: i32, out: *mut CBatch) {
        let limit = u64::try_from(limit_ms).ok().map(Duration::from_millis);
        let batch = match live(session, "the session")?.next(limit)? {
            Some(batch) => CBatch {
                iteration: batch.iteration,
                epoch: batch.epoch,
                place: batch.place,
                size: batch.size,
                workers: batch.workers,
            },
            None => CBatch { iteration: 0, epoch: 0, place: 0, size: 0, workers: 0 },
        };
        put(out, batch);
        Ok(())
    }
    fn pslite_session_report(
        session: *mut BatchSession, iteration: u64, seconds: f64, cpu: f64, memory: f64,
    ) {
        let report = BatchReport { seconds, cpu, memory };
        live(session, "the session")?.report(iteration, report)
    }
    fn pslite_session_skip(session: *mut BatchSession, iteration: u64) {
        live(session, "the session")?.skip(iteration)
    }
    fn pslite_session_settle(session: *mut BatchSession) {
        live(session, "the session")?.settle()
    }
    fn pslite_session_ordered(session: *mut BatchSession, epoch: u64, hash: u64) {
        live(session, "the session")?.ordered(epoch, hash)
    }
    fn pslite_session_progress(session: *mut BatchSession, taken: *mut u64, reported: *mut u64) {
        let (begun, computed) = live(session, "the session")?.progress()?;
        put(taken, begun);
        put(reported, computed);
        Ok(())
    }
    fn pslite_session_samples(
        length: u64, seed: u64, epoch: u64, place: u64, count: usize, samples: *mut u64,
    ) {
        if samples.is_null() && count > 0 {
            return Err(invalid("samples is NULL"));
        }
        let order = EpochOrder::new(length, seed, epoch);
        for at in 0..count {
            // SAFETY: room for `count` numbers (top of entry.rs).
            unsafe { samples.add(at).write(order.sample(place.wrapping_add(at as u64))) };
        }
        Ok(())
    }
}

fn opened(
    node: *mut CNode,
    settings: &CSessionSettings,
    open: &BalanceOpen,
) -> Result<BatchSession, NodeError> {
    let postoffice = &live(node, "the node")?.postoffice;
    postoffice.open_batch_session(&text_of(settings.name), open, settings.measured != 0)
}

fn open_of(settings: &CSessionSettings) -> BalanceOpen {
    BalanceOpen {
        length: settings.length,
        total: settings.total,
        members: settings.members,
        quantum: settings.quantum,
        rule: settings.rule,
        lookahead: settings.lookahead,
        seed: settings.seed,
        epochs: settings.epochs,
        min: settings.min,
        max: settings.max,
        rank: settings.rank,
        instance: 0,
        wraps: settings.wraps != 0,
        ..BalanceOpen::default()
    }
}
