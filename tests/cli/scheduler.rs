//! `pslite scheduler`, with nodes of the library in this process.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pslite::node::{Lookup, Postoffice};
use pslite::transport::carrier::Endpoint;
use pslite::transport::zmq::Question;
use pslite::wire::word::{AnswerWay, Word};
use pslite::wire::{Control, Message, Payload, decode_meta, encode_meta};

use super::ports::free_port;
use super::{LIMIT, Scheduler, finish, pslite, text, until};

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

/// Otherwise it reads for ever, or waits for a writer.
#[test]
fn files_that_are_none_are_refused() {
    let pipe = std::env::temp_dir().join(format!("pslite-cli-pipe-{}", std::process::id()));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let port = free_port().to_string();
    let arguments =
        ["scheduler", "-n", "1", "-s", "1", "--host", "127.0.0.1", "--port", port.as_str()];
    for (variable, more) in [("PSLITE_JOURNAL", "1"), ("PSLITE_LINKS", "packed")] {
        for odd in [pipe.to_str().unwrap(), "/dev/full", "/dev/zero"] {
            let mut command = pslite(&arguments);
            let also =
                if variable == "PSLITE_LINKS" { "PSLITE_TOPOLOGY" } else { "PSLITE_ELASTIC" };
            command.env(variable, odd).env(also, more);
            let output = finish(command);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{variable}={odd}: {said}");
            assert!(said.contains(odd) && said.contains("no regular file"), "{said}");
        }
    }
    std::fs::remove_file(&pipe).unwrap();
}

/// The time to wait for an answer is for one who listens.
#[test]
fn a_port_where_nobody_listens_is_not_waited_for() {
    let port = free_port();
    let place = format!("127.0.0.1:{port}");
    for command in [&["status"][..], &["drain", "server:0"]] {
        let more = ["--scheduler", place.as_str(), "--timeout", "3600"];
        let output = finish(pslite(&[command, &more].concat()));
        assert_eq!(output.status.code(), Some(2));
        let said = text(&output.stderr);
        assert!(said.contains("nobody listens there") && said.contains(&place), "{said}");
    }
}

/// Asks as an operator does that listens at `told`, if that is one of an earlier version.
fn ask(port: u16, told: &str, own_connection: bool) -> Question {
    let way = AnswerWay { own_connection, listens_at: told.to_owned() };
    let control = Control::saying(Word::Status { way, chronicle: None });
    let mut meta = Vec::new();
    encode_meta(&Message::control(control).meta, &mut meta);
    let place = Endpoint::Tcp { host: "127.0.0.1".to_owned(), port };
    Question::ask(&place, &meta, Duration::from_secs(5)).unwrap()
}

/// A stranger's message makes the scheduler connect to nobody but the stranger.
#[test]
fn operators_are_answered_at_the_address_that_asked_or_not_at_all() {
    let port = free_port();
    let _scheduler = Scheduler::start(port, "1");
    let listen = |host: &str| {
        let listener = TcpListener::bind((host, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let place = listener.local_addr().unwrap().to_string();
        (listener, place)
    };
    let (victim, victims) = listen("127.0.0.2");
    let (own, owns) = listen("127.0.0.1");
    drop(ask(port, &victims, false));
    // Of this version: over the connection by which it asks, whatever it says.
    let mut question = ask(port, &victims, true);
    let answer = question.answer(LIMIT, 1 << 20).unwrap();
    let meta = decode_meta(&answer[0]).unwrap();
    let Payload::Control(control) = meta.payload else { panic!("no control") };
    let Word::Told(told) = *control.word.unwrap() else { panic!("no answer") };
    assert!(told.unwrap().text.contains("forming"));
    // Of an earlier one: a connection to where it is. So the former question is dealt with, too.
    drop(ask(port, &owns, false));
    until("a connection", || own.accept().is_ok());
    assert_eq!(victim.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}
