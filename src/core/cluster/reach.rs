//! Whether nodes can reach each other at the addresses that they tell: an address of the loopback
//! leads everybody to itself. Only what the scheduler sees for certain counts: which address a node
//! tells, and whether its message came from another host. Pure.

use std::net::Ipv4Addr;

use crate::wire::{Node, Origin, Role};

/// Nodes that told addresses which only processes of the scheduler's host reach, and nodes of other
/// hosts: the first of each role, for people.
#[derive(Debug, Default)]
pub(super) struct Reach {
    near: Vec<(Role, String)>,
    far: Vec<(Role, String)>,
}

/// True for an address that leads to nobody, or everybody to itself.
#[must_use]
pub fn is_nobody(host: &str) -> bool {
    let of = |address: Ipv4Addr| {
        address.is_loopback() || address.is_unspecified() || address.is_broadcast()
    };
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(of)
}

impl Reach {
    /// Takes a node in that registers; the error says who cannot reach whom, and what to do.
    pub(super) fn take(&mut self, node: &Node, origin: Option<Origin>) -> Result<(), String> {
        let Some(origin) = origin else { return Ok(()) };
        let who = format!("{} at {}", node.role.name(), node.address());
        let near = is_nobody(&node.hostname);
        if near && !origin.is_here {
            return Err(format!(
                "{who} is on another host ({}) than the scheduler, where nobody reaches it at {}; \
                 set DMLC_NODE_HOST there to an address that the other hosts reach, or leave it \
                 out",
                origin.address, node.hostname
            ));
        }
        let (mine, others) = match (near, origin.is_here) {
            (true, _) => (&mut self.near, &self.far),
            (false, false) => (&mut self.far, &self.near),
            (false, true) => return Ok(()),
        };
        // Workers do not connect to each other, but along trees, which go around those that they
        // do not reach.
        let meets = |(role, _): &&(Role, String)| *role != Role::Worker || node.role != *role;
        if let Some((_, other)) = others.iter().find(meets) {
            let (near, far) = if near { (&who, other) } else { (other, &who) };
            return Err(format!(
                "{far} is on another host than {near}, and cannot reach it there; set \
                 DMLC_NODE_HOST of the latter to an address that the other hosts reach, or leave \
                 it out"
            ));
        }
        if mine.iter().all(|(role, _)| *role != node.role) {
            mine.push((node.role, who));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::tests::config;

    fn of(role: Role, host: &str) -> Node {
        config(role, host, 7, 1, 1).node
    }

    fn from(address: &str, is_here: bool) -> Option<Origin> {
        Some(Origin { address: address.parse().unwrap(), is_here })
    }

    #[test]
    fn who_is_elsewhere_must_not_tell_an_address_of_here() {
        for host in ["127.0.0.1", "127.0.1.1", "localhost", "0.0.0.0", "255.255.255.255"] {
            let told = of(Role::Worker, host);
            assert_eq!(Reach::default().take(&told, None), Ok(()), "nothing is known");
            assert_eq!(Reach::default().take(&told, from("127.0.0.1", true)), Ok(()));
            let text = Reach::default().take(&told, from("10.0.0.2", false)).unwrap_err();
            assert!(text.contains(host) && text.contains("10.0.0.2"), "{text}");
        }
        let far = from("10.0.0.2", false);
        assert_eq!(Reach::default().take(&of(Role::Worker, "10.0.0.9"), far), Ok(()), "two cards");
        assert_eq!(Reach::default().take(&of(Role::Worker, "a.example"), far), Ok(()));
    }

    #[test]
    fn who_is_here_must_not_tell_it_to_those_elsewhere() {
        let (here, far) = (from("127.0.0.1", true), from("10.0.0.2", false));
        let (server, worker) = (of(Role::Server, "127.0.0.1"), of(Role::Worker, "10.0.0.2"));
        for server_first in [true, false] {
            let mut reach = Reach::default();
            let (first, second) = if server_first {
                ((&server, here), (&worker, far))
            } else {
                ((&worker, far), (&server, here))
            };
            assert_eq!(reach.take(first.0, first.1), Ok(()));
            let text = reach.take(second.0, second.1).unwrap_err();
            assert!(
                text.starts_with("worker at 10.0.0.2:7 is on another host than server"),
                "{text}"
            );
        }
        let mut reach = Reach::default();
        assert_eq!(reach.take(&of(Role::Worker, "127.0.0.1"), here), Ok(()));
        assert_eq!(reach.take(&worker, far), Ok(()), "workers need not meet");
        assert!(reach.take(&of(Role::Server, "10.0.0.3"), from("10.0.0.3", false)).is_err());
    }
}
