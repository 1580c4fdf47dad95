//! What carries data between this node and others of ours: what the settings allow, and whether
//! this process may share memory with others of its host.

use std::os::unix::net::UnixListener;
use std::path::Path;

use super::Finding;
use super::job::JobVariables;

const TOPIC: &str = "data";
/// Where nodes in other containers of this host find a node.
const DIRECTORY: &str = "/dev/shm";

pub(super) fn check(job: &JobVariables) -> Vec<Finding> {
    if job.is_absent() || job.is_scheduler() {
        return Vec::new();
    }
    vec![carrier(job, Path::new(DIRECTORY))]
}

fn carrier(job: &JobVariables, directory: &Path) -> Finding {
    if let Some(setting) = &job.about_stock_wire {
        return Finding::ok(TOPIC, format!("{setting}: data take the stock wire"));
    }
    match job.transport.as_deref() {
        None | Some("auto") => match memory(directory) {
            Ok(()) => Finding::ok(TOPIC, "shared memory to nodes on this host, TCP to others"),
            Err(why) => Finding::warning(
                TOPIC,
                format!("shared memory only to nodes in this network namespace: {why}"),
                "let the containers of a host share a /dev/shm that they may write to",
            ),
        },
        Some("shm") => Finding::ok(TOPIC, "PSLITE_TRANSPORT=shm: shared memory, on this host only"),
        Some("tcp") => Finding::ok(TOPIC, "PSLITE_TRANSPORT=tcp: TCP"),
        Some("zmq") => Finding::ok(TOPIC, "PSLITE_TRANSPORT=zmq: the stock wire"),
        Some(other) => Finding::fail(
            TOPIC,
            format!("PSLITE_TRANSPORT={other} is none of auto, tcp, shm, zmq"),
            "correct it, or leave it out",
        ),
    }
}

/// Tries to put a socket where others look for it.
fn memory(directory: &Path) -> Result<(), String> {
    let path = directory.join(format!("pslite-doctor-{}.sock", std::process::id()));
    let listener = UnixListener::bind(&path);
    let _ = std::fs::remove_file(&path);
    listener.map(|_| ()).map_err(|error| format!("{}: {error}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::super::{Severity, job};
    use super::*;

    fn found(variables: &[(&str, &str)], directory: &Path) -> Finding {
        carrier(&job::of(variables), directory)
    }

    #[test]
    fn the_carrier_is_named() {
        let directory = std::env::temp_dir();
        let usual = found(&[], &directory);
        assert_eq!((usual.level, usual.text.contains("shared memory to")), (Severity::Ok, true));
        for (name, value, text) in [
            ("PSLITE_TRANSPORT", "tcp", "TCP"),
            ("PSLITE_TRANSPORT", "shm", "on this host only"),
            ("PSLITE_TRANSPORT", "zmq", "stock wire"),
            ("PS_RESEND", "1", "PS_RESEND"),
            ("PS_DROP_MSG", "10", "PS_DROP_MSG"),
            ("DMLC_LOCAL", "1", "DMLC_LOCAL"),
            ("PSLITE_LEVEL", "stock", "PSLITE_LEVEL"),
        ] {
            let finding = found(&[(name, value)], &directory);
            assert_eq!(finding.level, Severity::Ok, "{name}");
            assert!(finding.text.contains(text), "{finding:?}");
        }
        assert_eq!(found(&[("PSLITE_TRANSPORT", "rdma")], &directory).level, Severity::Fail);
    }

    #[test]
    fn a_directory_that_cannot_be_used_is_named() {
        let finding = found(&[], Path::new("/nowhere"));
        assert_eq!(finding.level, Severity::Warning);
        assert!(finding.text.contains("/nowhere"), "{finding:?}");
        assert!(check(&job::of(&[("DMLC_ROLE", "scheduler")])).is_empty());
        assert!(check(&job::of(&[])).is_empty());
    }
}
