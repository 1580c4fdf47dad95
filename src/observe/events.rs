//! The event list: everything that is counted, in one place. Snapshots, the metrics file,
//! `docs/metrics.md`, the OpenMetrics text (`exposition`) and the tests are made from it. A thing
//! that is not here cannot be counted.

/// How the numbers of an event are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Only grows.
    Counter,
    /// What is so now.
    Gauge,
    /// How many fell into each bucket: bucket n has those below 2^n and not below half of that.
    Histogram,
}

impl EventKind {
    /// Its name in docs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// What tells the numbers of one event apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// The other node: `server0`, `worker1`, `scheduler`; `unnamed` for whoever has no id yet.
    Peer,
    /// `sent` or `received`.
    Direction,
    /// `tcp`, `shm`, `zmq` (the stock wire); `none` before there is a connection.
    Carrier,
    /// See [`super::MessageKind`].
    Kind,
}

impl Label {
    /// Its name in snapshots.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Direction => "direction",
            Self::Carrier => "carrier",
            Self::Kind => "kind",
        }
    }
}

/// One row of the list.
#[derive(Clone, Copy, Debug)]
pub struct EventRow {
    /// Its name in snapshots.
    pub name: &'static str,
    /// Its name in the OpenMetrics text, in base units.
    pub exposed: &'static str,
    /// What its numbers count.
    pub unit: &'static str,
    /// How they are to be read.
    pub kind: EventKind,
    /// What tells them apart, in this order.
    pub labels: &'static [Label],
    /// What it is.
    pub text: &'static str,
}

macro_rules! events {
    ($(
        $id:ident: $name:literal, $exposed:literal, $unit:literal, $kind:ident,
        [$($label:ident),*], $text:literal;
    )*) => {
        /// The events by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Counted {
            $(#[doc = $text] $id,)*
        }

        /// The list.
        pub const EVENTS: &[(Counted, EventRow)] = &[$((Counted::$id, EventRow {
            name: $name,
            exposed: $exposed,
            unit: $unit,
            kind: EventKind::$kind,
            labels: &[$(Label::$label),*],
            text: $text,
        }),)*];

        impl Counted {
            /// Its row.
            #[must_use]
            pub const fn event(self) -> &'static EventRow {
                &EVENTS[self as usize].1
            }
        }
    };
}

events! {
    Messages: "messages", "pslite_messages_total", "messages", Counter, [Peer, Direction, Kind],
        "Messages, whatever carries them. With `PS_RESEND` those that were sent again count again.";
    Bytes: "bytes", "pslite_message_bytes_total", "bytes", Counter, [Peer, Direction, Kind],
        "Bytes of those: metadata and data, without the frames of the carrier.";
    RequestTime: "request_time", "pslite_request_duration_seconds", "µs", Histogram, [Peer, Kind],
        "From a request to the response of that peer. In `dist_sync` a push waits for the other \
         workers.";
    StoreTime: "store_time", "pslite_store_duration_seconds", "µs", Histogram, [Peer, Kind],
        "What our own store works for a request of that peer. Waiting for other workers is not in \
         it.";
    Queued: "queued", "pslite_queued_messages", "messages", Gauge, [],
        "Messages that have arrived and wait for the code of this process.";
    Garbage: "garbage", "pslite_dropped_messages_total", "messages", Counter, [],
        "Messages that were dropped because they made no sense.";
    CarriedMessages: "carried_messages", "pslite_carried_messages_total",
        "messages", Counter, [Peer, Direction, Carrier],
        "Messages by what carries them, on the connection that stands now.";
    CarriedBytes: "carried_bytes", "pslite_carried_bytes_total",
        "bytes", Counter, [Peer, Direction, Carrier],
        "Bytes of those; for `tcp` and `shm` with their frames.";
    Copies: "copies", "pslite_copied_messages_total",
        "messages", Counter, [Peer, Direction, Carrier],
        "Messages whose data were copied in this process. Not known for `zmq`.";
    CopiedBytes: "copied_bytes", "pslite_copied_bytes_total",
        "bytes", Counter, [Peer, Direction, Carrier],
        "Bytes of those.";
    PullsCopied: "pulls_copied_bytes", "pslite_pulls_copied_bytes_total", "bytes", Counter, [],
        "Bytes of pulled values that this worker copied to where they were wanted. What was \
         received there at once (large values over `tcp`) is not among them.";
    Syscalls: "syscalls", "pslite_syscalls_total", "calls", Counter, [Peer, Direction, Carrier],
        "System calls that moved the messages. Not known for `zmq`.";
    ReceiveSyscalls: "receive_syscalls", "pslite_receive_syscalls_total", "calls", Counter, [],
        "System calls in which the thread that receives from `tcp` and `shm` waited for any peer.";
    ReceivedByWaiters: "received_by_waiters", "pslite_messages_received_by_waiters_total",
        "messages", Counter, [],
        "Messages that a thread which waited for an answer received from `tcp` and `shm` by \
         itself.";
    ExchangeSteps: "exchange_steps", "pslite_exchange_steps_total", "steps", Counter, [],
        "Iterations that a worker has begun that trains while deltas travel \
         ([NBSync](nbsync.md)). These five: of all kvstores of this process.";
    ExchangeRounds: "exchange_rounds", "pslite_exchange_rounds_total", "rounds", Counter, [],
        "Rounds of its deltas whose values it has taken. Each is of one section.";
    ExchangeComputed: "exchange_computed", "pslite_exchange_computed_seconds_total",
        "µs", Counter, [],
        "How long it has computed: from the last answer of an iteration until the last gradient of \
         the next one.";
    ExchangeHeld: "exchange_held", "pslite_exchange_held_seconds_total", "µs", Counter, [],
        "How long its pushes have waited for a result of the others, or for all to align.";
    ExchangeBusy: "exchange_busy", "pslite_exchange_busy_seconds_total", "µs", Counter, [],
        "How long rounds of it have been in flight.";
    Connections: "connections", "pslite_connections_total",
        "times", Counter, [Peer, Direction, Carrier],
        "How often connections were made. More than the sender's `PSLITE_CONNECTIONS` (1; between \
         servers that keep copies 2 at least): they broke, and came again. Of `zmq` those that \
         this node made: `sent`.";
    Duplicates: "duplicates", "pslite_duplicate_messages_total",
        "messages", Counter, [Peer, Direction, Carrier],
        "Messages that came twice after a connection broke; the second was dropped.";
    Probes: "probes", "pslite_probes_total", "probes", Counter, [Peer, Direction, Carrier],
        "Probes of an idle link: padding of 256 KB, sent or received to its end. Its bytes count \
         as carried.";
    Waiting: "waiting", "pslite_send_queue_messages", "messages", Gauge, [Peer, Carrier],
        "Messages that wait to be sent. `zmq`: without those inside ZeroMQ's own queues.";
    WaitingMax: "waiting_max", "pslite_send_queue_messages_max", "messages", Gauge, [Peer, Carrier],
        "The most that ever waited.";
    Unconfirmed: "unconfirmed", "pslite_unconfirmed_messages", "messages", Gauge, [Peer, Carrier],
        "Messages that the peer has not confirmed, those that wait included. Not known for `zmq`.";
    SendTime: "send_time", "pslite_send_duration_seconds", "µs", Histogram, [Peer, Carrier],
        "From the call that sends to the last byte's leaving. Not known for `zmq`.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_event_has_its_own_row() {
        let names: BTreeSet<&str> = EVENTS.iter().map(|(_, event)| event.name).collect();
        assert_eq!(names.len(), EVENTS.len(), "a name is used twice");
        for (counted, event) in EVENTS {
            assert_eq!(counted.event().name, event.name);
            assert!(event.text.ends_with('.'), "{}: no sentence", event.name);
        }
    }

    /// OpenMetrics: a prefix, base units, and `_total` on counters only.
    #[test]
    fn exposed_names_are_those_of_openmetrics() {
        let names: BTreeSet<&str> = EVENTS.iter().map(|(_, event)| event.exposed).collect();
        assert_eq!(names.len(), EVENTS.len(), "a name is used twice");
        for (_, event) in EVENTS {
            let name = event.exposed;
            assert!(name.starts_with("pslite_"), "{name}");
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
            assert_eq!(name.ends_with("_total"), event.kind == EventKind::Counter, "{name}");
            let base = name.trim_end_matches("_total");
            assert_eq!(base.ends_with("_seconds"), event.unit == "µs", "{name}");
            assert_eq!(base.ends_with("_bytes"), event.unit == "bytes", "{name}");
        }
    }
}
