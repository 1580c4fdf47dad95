//! Addresses: does the scheduler's name resolve, and is the address that this node announces one of
//! this machine?

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use pslite::transport::address;

use super::job::JobVariables;
use super::{Finding, nic};

const TOPIC: &str = "address";

/// How long a name may take to resolve.
const RESOLVE_LIMIT: Duration = Duration::from_secs(10);

pub(super) fn check(job: &JobVariables) -> Vec<Finding> {
    if job.is_absent() {
        return Vec::new();
    }
    if job.local {
        return vec![Finding::ok(
            TOPIC,
            "DMLC_LOCAL: Unix sockets in /tmp, every node on this machine",
        )];
    }
    let mut findings = vec![root(job)];
    if !job.is_scheduler()
        && let Some(host) = &job.node_host
    {
        findings.push(own(host));
    }
    findings
}

fn root(job: &JobVariables) -> Finding {
    let Some(host) = &job.root_host else {
        return Finding::fail(
            TOPIC,
            "DMLC_PS_ROOT_URI is not set",
            "set it to the scheduler's address",
        );
    };
    let addresses = match resolve(host) {
        Ok(addresses) => addresses,
        Err(error) => {
            return Finding::fail(
                TOPIC,
                format!("DMLC_PS_ROOT_URI: {error}"),
                "write the IPv4 address, or correct the name",
            );
        }
    };
    let shown = show(host, &addresses);
    let is_here = addresses.iter().all(Ipv4Addr::is_loopback);
    // A name that hosts have in their own /etc/hosts; whoever writes localhost means it.
    let is_private = host.parse::<Ipv4Addr>().is_err() && !host.starts_with("localhost");
    if is_here && is_private && !job.kubernetes {
        let who = if job.is_scheduler() {
            "only processes of this machine reach it"
        } else {
            "so this node looks for the scheduler on this machine"
        };
        return Finding::warning(
            TOPIC,
            format!("DMLC_PS_ROOT_URI={shown} is an address of the loopback here: {who}"),
            format!(
                "fine if all nodes are here; else write, on all nodes, one of the scheduler's \
                     addresses (of this machine: {})",
                nic::list()
            ),
        );
    }
    if !job.is_scheduler() {
        return Finding::ok(TOPIC, format!("the scheduler is {shown}"));
    }
    if job.kubernetes {
        return Finding::ok(TOPIC, format!("{shown}; DMLC_USE_KUBERNETES: listens on 0.0.0.0"));
    }
    if addresses.iter().any(|address| is_local(*address)) {
        return Finding::ok(TOPIC, format!("{shown} is an address of this machine"));
    }
    Finding::fail(
        TOPIC,
        format!("DMLC_PS_ROOT_URI={shown} is not an address of this machine ({})", nic::list()),
        "start the scheduler there, or set it to an address of this machine; where others reach \
         this \
         machine by a name or address that it does not know, set DMLC_USE_KUBERNETES=1",
    )
}

fn own(host: &str) -> Finding {
    let nobodys = |it: &Ipv4Addr| it.is_unspecified() || it.is_broadcast() || it.is_multicast();
    match resolve(host) {
        Ok(addresses) if addresses.iter().any(nobodys) => Finding::fail(
            TOPIC,
            format!("DMLC_NODE_HOST={} is no address to connect to", show(host, &addresses)),
            format!("choose one of {}", nic::list()),
        ),
        Ok(addresses) if addresses.iter().any(|address| is_local(*address)) => Finding::ok(
            TOPIC,
            format!("DMLC_NODE_HOST={} is an address of this machine", show(host, &addresses)),
        ),
        Ok(addresses) => Finding::fail(
            TOPIC,
            format!("DMLC_NODE_HOST={} is not an address of this machine", show(host, &addresses)),
            format!("choose one of {}", nic::list()),
        ),
        Err(error) => Finding::fail(
            TOPIC,
            format!("DMLC_NODE_HOST: {error}"),
            format!("choose one of {}", nic::list()),
        ),
    }
}

fn show(host: &str, addresses: &[Ipv4Addr]) -> String {
    if host.parse::<Ipv4Addr>().is_ok() {
        return host.to_owned();
    }
    let all: Vec<String> = addresses.iter().map(Ipv4Addr::to_string).collect();
    format!("{host} ({})", all.join(", "))
}

/// The IPv4 addresses of a name. A resolver that does not answer is left to itself.
pub(super) fn resolve(host: &str) -> Result<Vec<Ipv4Addr>, String> {
    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    let (sender, answer) = sync_channel(1);
    let name = host.to_owned();
    std::thread::spawn(move || {
        let _ = sender.send(address::resolve(&name));
    });
    let found = answer
        .recv_timeout(RESOLVE_LIMIT)
        .map_err(|_| format!("{host}: no answer within {} s", RESOLVE_LIMIT.as_secs()))?
        .map_err(|error| error.to_string())?;
    let addresses: Vec<Ipv4Addr> = found
        .into_iter()
        .filter_map(|address| if let IpAddr::V4(address) = address { Some(address) } else { None })
        .collect();
    if addresses.is_empty() { Err(format!("{host} has no IPv4 address")) } else { Ok(addresses) }
}

/// An address is ours if we can bind to it.
pub(super) fn is_local(address: Ipv4Addr) -> bool {
    TcpListener::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::super::job::of;
    use super::*;

    fn levels(variables: &[(&str, &str)]) -> Vec<Severity> {
        check(&of(variables)).iter().map(|finding| finding.level).collect()
    }

    #[test]
    fn the_schedulers_address_must_be_here_only_for_the_scheduler() {
        // 192.0.2.0/24 is for documentation; .254 of it is no machine's own.
        let root = ("DMLC_PS_ROOT_URI", "192.0.2.254");
        assert_eq!(levels(&[("DMLC_ROLE", "worker"), root]), [Severity::Ok]);
        assert_eq!(levels(&[("DMLC_ROLE", "scheduler"), root]), [Severity::Fail]);
        let kubernetes = ("DMLC_USE_KUBERNETES", "1");
        assert_eq!(levels(&[("DMLC_ROLE", "scheduler"), root, kubernetes]), [Severity::Ok]);
        assert_eq!(
            levels(&[("DMLC_ROLE", "scheduler"), ("DMLC_PS_ROOT_URI", "127.0.0.1")]),
            [Severity::Ok]
        );
    }

    #[test]
    fn names_must_resolve() {
        assert_eq!(levels(&[("DMLC_PS_ROOT_URI", "no-such-host.invalid")]), [Severity::Fail]);
        assert_eq!(levels(&[("DMLC_PS_ROOT_URI", "localhost")]), [Severity::Ok]);
        assert_eq!(levels(&[("DMLC_ROLE", "worker")]), [Severity::Fail]);
    }

    #[test]
    fn the_announced_address_must_be_ours() {
        let root = ("DMLC_PS_ROOT_URI", "127.0.0.1");
        assert_eq!(levels(&[root, ("DMLC_NODE_HOST", "127.0.0.1")]), [Severity::Ok; 2]);
        for none in ["192.0.2.254", "0.0.0.0", "255.255.255.255"] {
            assert_eq!(levels(&[root, ("DMLC_NODE_HOST", none)]), [Severity::Ok, Severity::Fail]);
        }
    }
}
