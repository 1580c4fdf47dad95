//! `pslite status --events`, with a scheduler whose job does not begin.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use pslite::chronicle::{JobEvent, JobEventKind, Level};
use pslite::transport::carrier::Endpoint;
use pslite::transport::zmq::Question;
use pslite::wire::word::Word;
use pslite::wire::{Control, Message, encode_meta};

use super::ports::free_port;
use super::{LIMIT, Scheduler, pslite};

const WHY: &str = "a worker on host x ended: no reason";

/// A node tells the scheduler that it ends, so the scheduler says who is missing. The connection
/// must live until that has arrived.
fn gives_up(port: u16) -> Question {
    let word = Word::GivesUp { text: WHY.to_owned(), incarnation: 0 };
    let mut meta = Vec::new();
    encode_meta(&Message::control(Control::saying(word)).meta, &mut meta);
    let scheduler = Endpoint::Tcp { host: "127.0.0.1".to_owned(), port };
    Question::ask(&scheduler, &meta, Duration::from_secs(5)).unwrap()
}

#[test]
fn they_are_printed_until_the_scheduler_ends() {
    let port = free_port();
    let scheduler = Scheduler::start(port, "2");
    let place = format!("127.0.0.1:{port}");
    let readers = [&[][..], &["--json"]].map(|more| {
        let arguments = [&["status", "--events", "--scheduler", &place], more].concat();
        let mut reader = pslite(&arguments).stdout(Stdio::piped()).spawn().unwrap();
        let (tell, lines) = mpsc::channel();
        let out = BufReader::new(reader.stdout.take().unwrap());
        thread::spawn(move || {
            out.lines().map_while(Result::ok).for_each(|line| {
                let _ = tell.send(line);
            })
        });
        (reader, lines)
    });
    let asked = gives_up(port);
    let first = readers.each_ref().map(|(_, lines)| lines.recv_timeout(LIMIT).unwrap());
    assert!(first[0][9..].starts_with("wait     the job is not complete"), "{first:?}");
    assert!(first[0].ends_with(&format!("; refused: {WHY}")), "{first:?}");
    let event = JobEvent::from_json(&first[1]).unwrap();
    assert_eq!((event.number, event.what.kind), (1, JobEventKind::Wait), "{event:?}");
    assert_eq!(event.what.level, Level::Warning);
    assert!(first[0].ends_with(&event.what.text), "the same words: {event:?}");
    drop(scheduler);
    drop(asked);
    let last = readers.map(|(mut reader, lines)| {
        // Others may have come meanwhile.
        let mut last = String::new();
        while let Ok(line) = lines.recv_timeout(LIMIT) {
            last = line;
        }
        let ended = reader.try_wait().unwrap().or_else(|| {
            thread::sleep(Duration::from_secs(1));
            reader.try_wait().unwrap()
        });
        let _ = reader.kill();
        assert_eq!(ended.and_then(|status| status.code()), Some(0), "{last}");
        last
    });
    let says = format!("the scheduler at {place} answers no more");
    assert!(last[0].ends_with(&format!("end      {says}")), "{last:?}");
    let event = JobEvent::from_json(&last[1]).unwrap();
    assert_eq!((event.number, event.what.kind), (0, JobEventKind::End), "{event:?}");
    assert_eq!(event.what.text, says);
}

#[test]
fn where_nobody_is_they_are_an_error() {
    let place = format!("127.0.0.1:{}", free_port());
    let done = super::finish(pslite(&["status", "--events", "--scheduler", &place]));
    assert_eq!((done.status.code(), done.stdout.len()), (Some(2), 0));
    assert!(super::text(&done.stderr).contains(&format!("no events of {place}")));
}
