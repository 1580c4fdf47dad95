//! Network interfaces: which one will this node announce, and can the others reach it?

use std::net::{IpAddr, Ipv4Addr};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use pslite::transport::address;

use super::Finding;
use super::address::resolve;
use super::job::JobVariables;

const TOPIC: &str = "nic";

/// An interface with an IPv4 address.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Interface {
    name: String,
    address: Ipv4Addr,
    is_up: bool,
}

pub(super) fn check(job: &JobVariables) -> Vec<Finding> {
    if job.local || job.is_scheduler() {
        return Vec::new();
    }
    let root = job.root_host.as_deref().and_then(|host| resolve(host).ok()?.first().copied());
    vec![choose(job, root, &interfaces())]
}

fn choose(job: &JobVariables, root: Option<Ipv4Addr>, all: &[Interface]) -> Finding {
    if let Some(host) = &job.node_host {
        let Some(address) = resolve(host).ok().and_then(|found| found.first().copied()) else {
            return Finding::fail(
                TOPIC,
                format!("DMLC_NODE_HOST={host} has no address"),
                "see address",
            );
        };
        return judge(&format!("DMLC_NODE_HOST={host}"), address, root);
    }
    if let Some(name) = &job.interface {
        return named(name, root, all);
    }
    let candidates: Vec<&Interface> = all
        .iter()
        .filter(|interface| interface.is_up && !interface.address.is_loopback())
        .collect();
    let towards = root.and_then(local_address_towards);
    let Some(address) = towards.or_else(|| candidates.first().map(|interface| interface.address))
    else {
        return Finding::fail(
            TOPIC,
            "no interface with an IPv4 address is up",
            "for a job on this machine alone, set DMLC_NODE_HOST=127.0.0.1",
        );
    };
    if root.is_some_and(|root| root.is_loopback())
        && candidates.first().is_none_or(|c| c.address != address)
    {
        return Finding::ok(
            TOPIC,
            format!(
                "the scheduler is on this machine: {address} is announced (stock needs \
                 DMLC_NODE_HOST)"
            ),
        );
    }
    if candidates.len() > 1 {
        return Finding::warning(
            TOPIC,
            format!(
                "{} interfaces: {}; this node will announce {address}",
                candidates.len(),
                show(all)
            ),
            "if others cannot reach that one, set DMLC_INTERFACE or DMLC_NODE_HOST (stock takes \
             the first)",
        );
    }
    judge(&format!("the only interface, {}", show(all)), address, root)
}

fn named(name: &str, root: Option<Ipv4Addr>, all: &[Interface]) -> Finding {
    let exact = all.iter().find(|interface| interface.name == name);
    let Some(interface) = exact.or_else(|| all.iter().find(|other| other.name.starts_with(name)))
    else {
        return Finding::fail(
            TOPIC,
            format!("DMLC_INTERFACE={name} is no interface with an IPv4 address"),
            format!("choose one of {}", show(all)),
        );
    };
    if !interface.is_up {
        return Finding::fail(
            TOPIC,
            format!("DMLC_INTERFACE={name}: {} is down", interface.name),
            "bring it up, or choose another",
        );
    }
    if exact.is_none() {
        return Finding::warning(
            TOPIC,
            format!(
                "DMLC_INTERFACE={name} is only the beginning of a name: {} is taken",
                interface.name
            ),
            "write the whole name",
        );
    }
    judge(&format!("DMLC_INTERFACE={name}"), interface.address, root)
}

/// A loopback address is of use only while every node is on this machine.
fn judge(what: &str, address: Ipv4Addr, root: Option<Ipv4Addr>) -> Finding {
    let scheduler_elsewhere = root.is_some_and(|root| !root.is_loopback());
    if address.is_loopback() && scheduler_elsewhere {
        return Finding::fail(
            TOPIC,
            format!(
                "{what} announces {address}, which only this machine can reach, but the scheduler \
                 is elsewhere"
            ),
            "set DMLC_NODE_HOST or DMLC_INTERFACE to a network that the other nodes share",
        );
    }
    Finding::ok(TOPIC, format!("{what}: {address} is announced to the others"))
}

/// The address that packets to `root` leave from.
fn local_address_towards(root: Ipv4Addr) -> Option<Ipv4Addr> {
    match address::local_address_towards(&root.to_string(), 1)? {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}

fn interfaces() -> Vec<Interface> {
    let Ok(all) = getifaddrs() else { return Vec::new() };
    all.filter_map(|entry| {
        let address = entry.address?.as_sockaddr_in()?.ip();
        let is_up = entry.flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING);
        Some(Interface { name: entry.interface_name, address, is_up })
    })
    .collect()
}

fn show(all: &[Interface]) -> String {
    let entries: Vec<String> = all
        .iter()
        .filter(|interface| !interface.address.is_loopback())
        .map(|interface| {
            let down = if interface.is_up { "" } else { ", down" };
            format!("{} ({}{down})", interface.name, interface.address)
        })
        .collect();
    if entries.is_empty() { "lo alone".to_owned() } else { entries.join(", ") }
}

/// The interfaces of this machine, for messages.
pub(super) fn list() -> String {
    show(&interfaces())
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::super::job::of;
    use super::*;

    const LOOPBACK: Ipv4Addr = Ipv4Addr::LOCALHOST;
    const REMOTE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 254);

    fn interface(name: &str, last: u8, is_up: bool) -> Interface {
        Interface { name: name.to_owned(), address: Ipv4Addr::new(10, 0, 0, last), is_up }
    }

    fn level(variables: &[(&str, &str)], root: Ipv4Addr, all: &[Interface]) -> Severity {
        choose(&of(variables), Some(root), all).level
    }

    #[test]
    fn loopback_is_for_local_jobs_only() {
        let told = [("DMLC_NODE_HOST", "127.0.0.1")];
        assert_eq!(level(&told, LOOPBACK, &[]), Severity::Ok);
        assert_eq!(level(&told, REMOTE, &[]), Severity::Fail);
        assert_eq!(level(&[], LOOPBACK, &[interface("eth0", 1, true)]), Severity::Ok);
    }

    #[test]
    fn an_interface_must_exist_and_be_up() {
        let all =
            [interface("eth0", 1, true), interface("eth1", 2, false), interface("eth10", 3, true)];
        assert_eq!(level(&[("DMLC_INTERFACE", "eth0")], REMOTE, &all), Severity::Ok);
        assert_eq!(level(&[("DMLC_INTERFACE", "eth1")], REMOTE, &all), Severity::Fail);
        assert_eq!(level(&[("DMLC_INTERFACE", "wlan0")], REMOTE, &all), Severity::Fail);
        // Stock and the library compare only the beginning of the name.
        assert_eq!(level(&[("DMLC_INTERFACE", "eth")], REMOTE, &all), Severity::Warning);
    }

    #[test]
    fn several_candidates_are_named() {
        let all = [interface("eth0", 1, true), interface("eth1", 2, true)];
        let finding = choose(&of(&[]), None, &all);
        assert_eq!(finding.level, Severity::Warning);
        assert!(finding.text.contains("eth0 (10.0.0.1), eth1 (10.0.0.2)"), "{}", finding.text);
        assert_eq!(choose(&of(&[]), None, &all[..1]).level, Severity::Ok);
        assert_eq!(choose(&of(&[]), None, &[]).level, Severity::Fail);
    }
}
