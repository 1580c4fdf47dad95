//! Ports: is the scheduler's free (for the scheduler) or reachable (for the others), and where may
//! the others listen?

use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::time::Duration;

use pslite::transport::port_holder;

use super::address::resolve;
use super::job::JobVariables;
use super::{Finding, Severity};

const TOPIC: &str = "port";

/// How long the scheduler's machine may take to accept, and then to greet.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);
/// A socket of ZeroMQ greets with these bytes: 0xff, eight of length, 0x7f.
const GREETING: usize = 10;

/// The findings, and whether something at the scheduler's address greets as one.
pub(super) fn check(job: &JobVariables) -> (Vec<Finding>, bool) {
    let mut findings = Vec::new();
    if !job.is_absent() && !job.local {
        findings.push(root(job));
    }
    let greets = !job.is_scheduler() && findings.iter().any(|found| found.level == Severity::Ok);
    if let Some(text) = job.port.as_deref().filter(|_| !job.is_scheduler()) {
        findings.push(fixed(text));
    }
    if let Some(text) = job.port_range.as_deref().filter(|_| !job.is_scheduler()) {
        findings.push(range(text));
    }
    (findings, greets)
}

fn root(job: &JobVariables) -> Finding {
    let Some(text) = &job.root_port else {
        return Finding::fail(
            TOPIC,
            "DMLC_PS_ROOT_PORT is not set",
            "set it to the scheduler's port",
        );
    };
    let Some(port) = job.root_port_number() else {
        return Finding::fail(
            TOPIC,
            format!("DMLC_PS_ROOT_PORT={text} is not a port"),
            "choose a number from 1 to 65535",
        );
    };
    let host = job.root_host.as_deref().unwrap_or_default();
    let address = match resolve(host).ok().and_then(|all| all.first().copied()) {
        Some(_) if job.is_scheduler() && job.kubernetes => Ipv4Addr::UNSPECIFIED,
        Some(address) => address,
        None => {
            return Finding::fail(
                TOPIC,
                format!("port {port}: the scheduler has no address"),
                "see address",
            );
        }
    };
    if job.is_scheduler() {
        free(address, port)
    } else {
        reachable(SocketAddrV4::new(address, port))
    }
}

fn free(address: Ipv4Addr, port: u16) -> Finding {
    match TcpListener::bind((address, port)) {
        Ok(_) => Finding::ok(TOPIC, format!("{address}:{port} is free for the scheduler")),
        Err(error) if error.kind() == ErrorKind::AddrInUse => Finding::fail(
            TOPIC,
            format!("{address}:{port} is taken by {}", holder(port)),
            "end that process, or choose another DMLC_PS_ROOT_PORT on every node",
        ),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Finding::fail(
            TOPIC,
            format!("{address}:{port}: {error}"),
            "choose a DMLC_PS_ROOT_PORT of 1024 or above",
        ),
        Err(error) => Finding::fail(TOPIC, format!("{address}:{port}: {error}"), "see address"),
    }
}

fn holder(port: u16) -> String {
    port_holder::find(port).map_or_else(
        || "a process that this user may not see".to_owned(),
        |holder| holder.to_string(),
    )
}

fn reachable(address: SocketAddrV4) -> Finding {
    match TcpStream::connect_timeout(&SocketAddr::V4(address), ANSWER_LIMIT) {
        Ok(stream) if greets(&stream) => {
            Finding::ok(TOPIC, format!("what listens at {address} greets as a scheduler does"))
        }
        Ok(_) => Finding::fail(
            TOPIC,
            format!("something listens at {address}, but it does not greet as a scheduler does"),
            "correct DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT",
        ),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Finding::fail(
            TOPIC,
            format!("nobody listens at {address}"),
            "start the scheduler, or correct DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT; or the \
             scheduler's name is an address of the loopback on its own host (ask there)",
        ),
        Err(error) => Finding::fail(
            TOPIC,
            format!("{address} cannot be reached: {error}"),
            "check the address, the route, and the firewall in between",
        ),
    }
}

fn greets(mut stream: &TcpStream) -> bool {
    let mut greeting = [0; GREETING];
    stream.set_read_timeout(Some(ANSWER_LIMIT)).is_ok()
        && stream.read_exact(&mut greeting).is_ok()
        && greeting[0] == 0xff
        && greeting[GREETING - 1] == 0x7f
}

fn fixed(text: &str) -> Finding {
    let Some(port) = text.parse::<u16>().ok().filter(|port| *port > 0) else {
        return Finding::fail(TOPIC, format!("PORT={text} is not a port"), "unset PORT");
    };
    match TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)) {
        Ok(_) => Finding::warning(
            TOPIC,
            format!("PORT={port} makes this node listen there"),
            "if it was set for something else, unset it: only one node of a machine can have it",
        ),
        Err(_) => Finding::fail(
            TOPIC,
            format!("PORT={port} is taken by {}", holder(port)),
            "unset PORT; a node then finds a free port by itself",
        ),
    }
}

fn range(text: &str) -> Finding {
    let parsed = text.split_once(['-', ':']).and_then(|(low, high)| {
        let (low, high) = (low.trim().parse::<u16>().ok()?, high.trim().parse::<u16>().ok()?);
        (low > 0 && low <= high).then_some((low, high))
    });
    let Some((low, high)) = parsed else {
        return Finding::fail(
            TOPIC,
            format!("PSLITE_PORT_RANGE={text} is not a range of ports"),
            "write it as LO-HI, for example 9000-9100",
        );
    };
    let all = usize::from(high - low) + 1;
    let free = (low..=high)
        .filter(|port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).is_ok())
        .count();
    let text = format!("PSLITE_PORT_RANGE={low}-{high}: {free} of {all} ports are free");
    if free == 0 {
        return Finding::fail(
            TOPIC,
            text,
            "choose a wider range: every node of this machine needs a port",
        );
    }
    Finding::ok(TOPIC, text)
}

#[cfg(test)]
mod tests {
    use super::super::job::of;
    use super::*;
    use std::io::Write;

    fn check_root(role: &str, port: u16) -> Finding {
        let port = port.to_string();
        let job = of(&[
            ("DMLC_ROLE", role),
            ("DMLC_PS_ROOT_URI", "127.0.0.1"),
            ("DMLC_PS_ROOT_PORT", &port),
        ]);
        check(&job).0.remove(0)
    }

    fn listener() -> (TcpListener, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    #[test]
    fn a_busy_port_names_its_holder() {
        let (listener, port) = listener();
        let finding = check_root("scheduler", port);
        assert_eq!(finding.level, Severity::Fail);
        assert!(finding.text.contains(&format!("pid {} ", std::process::id())), "{}", finding.text);
        drop(listener);
        assert_eq!(check_root("scheduler", port).level, Severity::Ok);
        assert_eq!(check_root("worker", port).level, Severity::Fail);
    }

    #[test]
    fn a_scheduler_is_known_by_its_greeting() {
        for (greeting, level) in
            [(*b"\xff\0\0\0\0\0\0\0\x01\x7f", Severity::Ok), (*b"HTTP/1.1 4", Severity::Fail)]
        {
            let (listener, port) = listener();
            let server = std::thread::spawn(move || {
                listener.accept().unwrap().0.write_all(&greeting).unwrap()
            });
            assert_eq!(check_root("worker", port).level, level);
            server.join().unwrap();
        }
    }

    #[test]
    fn ports_that_are_none() {
        let job = |name: &str, value: &str| {
            of(&[("DMLC_LOCAL", "1"), ("DMLC_ROLE", "worker"), (name, value)])
        };
        for (name, value) in [("PORT", "x"), ("PORT", "0"), ("PSLITE_PORT_RANGE", "9100-9000")] {
            assert_eq!(check(&job(name, value)).0[0].level, Severity::Fail, "{name}={value}");
        }
        let (_listener, port) = listener();
        let (one, range) = (port.to_string(), format!("{port}-{port}"));
        for (name, value) in [("PORT", one.as_str()), ("PSLITE_PORT_RANGE", range.as_str())] {
            assert_eq!(check(&job(name, value)).0[0].level, Severity::Fail, "{name}={value}");
        }
    }
}
