//! Collects what the van and its transports have counted, and writes it to the metrics file. A
//! thread of its own writes, so a slow disk keeps nobody waiting. May touch the van's counters and
//! that file; changes nothing that it reads.

#![allow(
    clippy::disallowed_methods,
    reason = "when to write a line: people read it by their clock"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::Van;
use crate::sync::lock;
use pslite_core::wire::exchange::word::ExchangeReport;
use pslite_core::wire::{EMPTY, Role};
use pslite_observe::log::{self, Level};
use pslite_observe::snapshot::peer_name;
use pslite_observe::{Counted, Label, MetricsFile, MetricsLine, Snapshot, Value};
use pslite_transport::native::PeerCounters;

impl Van {
    /// All counts so far as one JSON object, without a line end.
    pub(crate) fn metrics(&self) -> String {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |t| t.as_secs_f64());
        let id = self.my_id();
        let line = MetricsLine {
            time,
            uptime: self.now().as_secs_f64(),
            role: self.state.settings.role.name(),
            rank: if id == EMPTY { -1 } else { pslite_core::wire::id_to_rank(id) },
            pid: std::process::id(),
            metrics: &self.snapshot(),
        };
        line.json()
    }

    /// All counts so far.
    pub(super) fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        self.state.traffic.read(&mut snapshot);
        let queued = (self.customers.queued() + self.early.waiting()) as u64;
        snapshot.add(Counted::Queued, &[], Value::Number(queued));
        snapshot.add(Counted::Garbage, &[], Value::Number(self.state.garbage.total()));
        for counters in self.transport.counters() {
            let name = peer_name(counters.peer);
            carried(&mut snapshot, &name, &counters);
        }
        if let Some(native) = self.native.as_ref().map(|native| &native.transport) {
            for counters in native.counters() {
                carried(&mut snapshot, &peer_name(counters.peer), &counters);
            }
            snapshot.add(Counted::ReceiveSyscalls, &[], Value::Number(native.waits()));
            let by_waiters = Value::Number(native.received_by_waiters());
            snapshot.add(Counted::ReceivedByWaiters, &[], by_waiters);
        }
        self.exchanged(&mut snapshot);
        snapshot
    }

    /// Of a worker that trains while deltas travel.
    fn exchanged(&self, snapshot: &mut Snapshot) {
        let reports = self.customers.exchange_reports(self.now());
        if reports.is_empty() {
            return;
        }
        let mut add = |counted: Counted, of: fn(&ExchangeReport) -> u64| {
            snapshot.add(counted, &[], Value::Number(reports.iter().map(of).sum()));
        };
        add(Counted::ExchangeSteps, |report| report.iterations);
        add(Counted::ExchangeRounds, |report| report.rounds);
        add(Counted::ExchangeComputed, |report| report.computed);
        add(Counted::ExchangeHeld, |report| report.held);
        add(Counted::ExchangeBusy, |report| report.busy);
    }

    /// Starts the thread that writes a line per interval. [`Self::write_metrics`] writes the last
    /// one.
    pub(super) fn keep_metrics(self: &Arc<Self>) {
        let Some(file) = &self.state.settings.metrics else { return };
        let mut next = Instant::now() + file.interval;
        while !self.stopping.load(Ordering::Relaxed) {
            let now = Instant::now();
            if now < next {
                std::thread::park_timeout(next - now);
                continue;
            }
            next = now + file.interval;
            // Before, it has no rank, and so no file.
            if self.job.is_ready() {
                self.append_metrics(file);
            }
        }
    }

    /// Writes one line now, if a file is set.
    pub(super) fn write_metrics(&self) {
        if let Some(file) = &self.state.settings.metrics {
            self.append_metrics(file);
        }
    }

    /// The name of this node in its numbers; without a rank its role alone.
    pub(super) fn my_name(&self) -> String {
        match (self.state.settings.role, self.my_id()) {
            (Role::Scheduler, _) => Role::Scheduler.name().to_owned(),
            (role, EMPTY) => role.name().to_owned(),
            (role, id) => format!("{}{}", role.name(), pslite_core::wire::id_to_rank(id)),
        }
    }

    fn append_metrics(&self, file: &MetricsFile) {
        let who = self.my_name();
        let error = match file.append(&who, &self.metrics()) {
            Ok(()) => return,
            Err(error) => error,
        };
        let mut told = lock(&self.metrics_failed);
        if !*told {
            *told = true;
            let path = file.path(&who);
            log::write(Level::Warning, &format!("PSLITE_METRICS: cannot write {path}: {error}"));
        }
    }
}

/// What a transport has counted about one direction of one peer.
fn carried(snapshot: &mut Snapshot, peer: &str, counters: &PeerCounters) {
    let direction = if counters.outgoing { "sent" } else { "received" };
    let one_way =
        [(Label::Peer, peer), (Label::Direction, direction), (Label::Carrier, counters.carrier)];
    for (event, number) in [
        (Counted::CarriedMessages, counters.data_messages + counters.control_messages),
        (Counted::CarriedBytes, counters.bytes),
        (Counted::Copies, counters.copies),
        (Counted::CopiedBytes, counters.copied_bytes),
        (Counted::Syscalls, counters.syscalls),
        (Counted::Connections, counters.connections),
        (Counted::Duplicates, counters.duplicates),
        (Counted::Probes, counters.probes),
    ] {
        snapshot.add(event, &one_way, Value::Number(number));
    }
    if !counters.outgoing {
        return;
    }
    let labels = [(Label::Peer, peer), (Label::Carrier, counters.carrier)];
    for (event, number) in [
        (Counted::Waiting, counters.waiting),
        (Counted::WaitingMax, counters.waiting_max),
        (Counted::Unconfirmed, counters.unconfirmed),
    ] {
        snapshot.add(event, &labels, Value::Number(number));
    }
    snapshot.add(Counted::SendTime, &labels, Value::Times(Box::new(counters.latency.clone())));
}
