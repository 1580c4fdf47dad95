//! `pslite scheduler`, with nodes of the library in this process.

use std::net::TcpListener;
use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use pslite::node::{Lookup, Postoffice};

use super::ports::free_port;
use super::{finish, pslite, text};

fn lookup(role: &'static str, port: u16) -> Lookup {
    Arc::new(move |name| {
        let value = match name {
            "DMLC_ROLE" => role.to_owned(),
            "DMLC_NUM_WORKER" => "2".to_owned(),
            "DMLC_NUM_SERVER" => "1".to_owned(),
            "DMLC_PS_ROOT_URI" | "DMLC_NODE_HOST" => "127.0.0.1".to_owned(),
            "DMLC_PS_ROOT_PORT" => port.to_string(),
            // A scheduler that does not come must not keep the test.
            "PSLITE_START_TIMEOUT" => "30".to_owned(),
            _ => return None,
        };
        Some(value)
    })
}

#[test]
fn it_serves_a_job_and_ends_with_it() {
    let port = free_port();
    let mut command = pslite(&[
        "scheduler",
        "-n",
        "2",
        "-s",
        "1",
        "--host",
        "127.0.0.1",
        "--port",
        &port.to_string(),
    ]);
    let scheduler = thread::spawn(move || {
        command.stdout(Stdio::piped());
        finish(command)
    });
    let nodes: Vec<_> = ["server", "worker", "worker"]
        .map(|role| {
            thread::spawn(move || {
                let node = Postoffice::new(lookup(role, port));
                node.start(0, true).unwrap();
                let rank = node.describe().unwrap().rank;
                node.finalize(0, true).unwrap();
                // The scheduler ends with the job: nobody will answer here.
                let began = Instant::now();
                let error = node.start(0, true).unwrap_err().to_string();
                assert!(error.starts_with("the job of this process is over"), "{error}");
                assert!(began.elapsed().as_secs() < 10, "took {:?}", began.elapsed());
                assert!(!node.describe().unwrap().is_ready);
                rank
            })
        })
        .into_iter()
        .collect();
    let mut ranks: Vec<i32> = nodes.into_iter().map(|node| node.join().unwrap()).collect();
    ranks[1..].sort_unstable();
    assert_eq!(ranks, [0, 0, 1]);
    let output = scheduler.join().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn a_busy_port_names_its_holder() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let output = finish(pslite(&[
        "scheduler",
        "-n",
        "1",
        "-s",
        "1",
        "--host",
        "127.0.0.1",
        "--port",
        &port,
    ]));
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.contains(&port) && said.contains(&format!("pid {}", std::process::id())),
        "{said}"
    );
}

#[test]
fn a_missing_count_is_named() {
    let output = finish(pslite(&["scheduler", "-n", "1", "--host", "127.0.0.1", "--port", "9"]));
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("DMLC_NUM_SERVER"), "{}", text(&output.stderr));
}
