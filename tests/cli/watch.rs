//! `pslite status --watch` where there is no terminal, with a scheduler whose job does not begin.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;

use pslite::scheduler::Status;

use super::ports::free_port;
use super::{LIMIT, Scheduler, finish, pslite, text};

#[test]
fn a_pipe_gets_a_table_each_time_until_the_scheduler_is_gone() {
    let port = free_port();
    let scheduler = Scheduler::start(port, "2");
    let place = format!("127.0.0.1:{port}");
    let mut watchers = [&[][..], &["--json"]].map(|more| {
        let arguments = ["status", "--watch", "0.1", "--scheduler", &place];
        let mut command = pslite(&[&arguments, more].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (tell, lines) = mpsc::channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        (child, lines)
    });
    let next = |lines: &mpsc::Receiver<String>| lines.recv_timeout(LIMIT).unwrap();
    for _ in 0..2 {
        while !next(&watchers[0].1).starts_with(&format!("job at {place}: forming")) {}
        let status = Status::from_json(&next(&watchers[1].1)).unwrap();
        assert_eq!((status.phase.as_str(), status.workers), ("forming", 2));
    }
    drop(scheduler);
    for (child, lines) in &mut watchers {
        while lines.recv_timeout(LIMIT).is_ok() {}
        let mut last = String::new();
        let errors = BufReader::new(child.stderr.take().unwrap());
        errors.lines().map_while(Result::ok).for_each(|line| last = line);
        assert!(last.contains(&format!("the scheduler at {place} answers no more")), "{last}");
        assert!(child.wait().unwrap().success(), "the job is over");
    }
}

#[test]
fn who_never_answers_is_said_at_once() {
    let place = format!("127.0.0.1:{}", free_port());
    let done = finish(pslite(&["status", "--watch", "--scheduler", &place]));
    assert_eq!(done.status.code(), Some(2));
    assert!(text(&done.stderr).contains(&format!("no status of {place}")), "{done:?}");
    for wrong in ["0", "-1", "x", "1e9"] {
        let done = finish(pslite(&["status", &format!("--watch={wrong}")]));
        assert!(text(&done.stderr).contains("from 0.1 to 3600"), "{done:?}");
    }
}
