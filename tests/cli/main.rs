//! The command line program as a user meets it: the real binary, real processes, small shell
//! commands in place of a training program.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod doctor;
mod events;
#[path = "../common/ports.rs"]
mod ports;
mod run;
mod scheduler;
mod sim_graph;
mod watch;

use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The longest that any command of these tests may take, far above what it needs.
const LIMIT: Duration = Duration::from_secs(60);

/// `pslite` with an environment that holds nothing of a job.
fn pslite(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pslite"));
    command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["DMLC_", "PSLITE_", "PS_"].iter().any(|start| text.starts_with(start)) {
            command.env_remove(&name);
        }
    }
    command.env_remove("LD_PRELOAD").env_remove("PORT");
    command
}

/// Runs to the end; a command that hangs is killed and fails the test.
fn finish(mut command: Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(child.wait_with_output().unwrap()));
    ended.recv_timeout(LIMIT).unwrap_or_else(|_| {
        let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        panic!("{command:?} does not end");
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits for something that must come true soon.
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < end, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A scheduler of pslite for that many workers and two servers; it ends when it is dropped.
struct Scheduler(Child);

impl Scheduler {
    fn start(port: u16, workers: &str) -> Self {
        let number = port.to_string();
        let host = ["--host", "127.0.0.1", "--port", number.as_str()];
        let mut command = pslite(&[&["scheduler", "-n", workers, "-s", "2"][..], &host].concat());
        let started = Self(command.stderr(Stdio::null()).spawn().unwrap());
        until("a scheduler", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        started
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
