//! Starts and their ends: of customers that start twice, of a start that fails or is stopped.

use super::*;
use std::net::TcpListener;

/// A scheduler that is alone in its job, at a port that was free a moment ago.
fn alone() -> Postoffice {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    Postoffice::new(Arc::new(move |name| {
        let text = match name {
            "DMLC_ROLE" => "scheduler",
            "DMLC_NUM_WORKER" | "DMLC_NUM_SERVER" => "0",
            "DMLC_PS_ROOT_URI" => "127.0.0.1",
            "DMLC_PS_ROOT_PORT" => &port,
            _ => return None,
        };
        Some(text.to_owned())
    }))
}

#[test]
fn a_customer_is_started_once() {
    let node = alone();
    node.start(0, true).unwrap();
    for _ in 0..2 {
        let again = node.start(0, true);
        let text = again.map_err(|error| error.to_string()).unwrap_err();
        assert!(text.contains("customer 0 of this node is started already"), "{text}");
        assert!(node.describe().unwrap().is_ready, "it was stopped");
    }
    node.finalize(0, false).unwrap();
    assert!(!node.describe().unwrap().is_ready);
    node.start(0, false).unwrap();
    node.stop();
    node.start(0, false).unwrap();
}

/// A node that is stopped while its start reads `at`, with `more` settings.
fn stopped_while_it_starts(at: &'static str, more: &'static [(&str, &str)]) -> Arc<Postoffice> {
    let settings = Arc::clone(&alone().lookup);
    Arc::new_cyclic(|node: &std::sync::Weak<Postoffice>| {
        let node = node.clone();
        Postoffice::new(Arc::new(move |name| {
            if name == at
                && let Some(node) = node.upgrade()
                // Not when it is read for the second time, by who makes the van.
                && node.lifecycle.try_lock().is_ok()
            {
                node.stop();
            }
            let more = more.iter().find(|(known, _)| *known == name);
            more.map(|(_, value)| (*value).to_owned()).or_else(|| settings(name))
        }))
    })
}

#[test]
fn a_start_that_is_stopped_before_it_has_a_van_ends() {
    // A name that never comes, without a limit: as a worker waits for its scheduler's.
    let nameless = &[
        ("DMLC_ROLE", "worker"),
        ("DMLC_NUM_WORKER", "1"),
        ("DMLC_NUM_SERVER", "1"),
        ("DMLC_PS_ROOT_URI", "no-such-host.invalid"),
        ("PSLITE_START_TIMEOUT", "3600"),
    ];
    for node in [
        stopped_while_it_starts("DMLC_ROLE", &[]),
        stopped_while_it_starts("DMLC_NUM_WORKER", nameless),
    ] {
        for _ in 0..2 {
            let started = node.start(0, false);
            assert!(matches!(started, Err(NodeError::Stopped(_))), "{started:?}");
            assert!(node.running().is_err() && lock(&node.started).is_empty());
        }
    }
}

#[test]
fn a_start_that_failed_leaves_no_van() {
    let node = alone();
    // Its port is taken: by itself, in another node.
    let other = Postoffice::new(Arc::clone(&node.lookup));
    other.start(0, false).unwrap();
    for _ in 0..2 {
        assert!(matches!(node.start(0, false), Err(NodeError::Address(_))));
        assert!(node.running().is_err() && lock(&node.started).is_empty());
    }
    other.stop();
    node.start(0, false).unwrap();
}
