//! The names of connections: `ps<id>`, from which the receiver reads who sends (zmq_van.h:234).
//!
//! A ROUTER knows its connections by name. Stock's ROUTER ignores a second connection of the same
//! name, for good, if the first one still seems alive when it comes. Then a process that replaces a
//! dead one, or whose connection was cut on its side only, sends into the void. Ours prefers the
//! second one (ZMQ_ROUTER_HANDOVER). But then any stranger who claims a member's name would cut
//! that member off. So our ids have leading zeros, which stock parses as well. No stranger knows
//! how many, and no two connections of a process to one address have the same name, since messages
//! of the first may still be on their way.

use std::collections::BTreeMap;

use super::Endpoint;

/// Zeros in front of an id; libzmq allows names of 255 bytes.
const ZEROS_MAX: u64 = 200;

/// Counts the connections to each address, so that every one gets its own name.
#[derive(Debug)]
pub(super) struct Names {
    seed: Option<u64>,
    made: BTreeMap<String, u64>,
}

impl Names {
    /// Names of a process that has that random number. `None`: without zeros, because peers answer
    /// to the plain name.
    pub(super) const fn new(seed: Option<u64>) -> Self {
        Self { seed, made: BTreeMap::new() }
    }

    /// A name for the node of that id; the last 200 to that address had others.
    pub(super) fn next(&mut self, endpoint: &Endpoint, id: i32) -> String {
        let Some(seed) = self.seed else { return format!("ps{id}") };
        let made = self.made.entry(endpoint.to_string()).or_default();
        let zeros = 1 + (seed % ZEROS_MAX + *made) % ZEROS_MAX;
        *made = (*made + 1) % ZEROS_MAX;
        format!("ps{}{id}", "0".repeat(zeros as usize))
    }
}

/// The id behind a connection's name (zmq_van.h:234).
pub(super) fn id_of(name: &[u8]) -> Option<i32> {
    let digits = name.strip_prefix(b"ps").filter(|digits| !digits.is_empty())?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> Endpoint {
        Endpoint::Tcp { host: "a".to_owned(), port }
    }

    #[test]
    fn every_connection_has_its_own_name_of_the_same_id() {
        let mut names = Names::new(Some(u64::MAX));
        let mut all: Vec<_> = (0..200).map(|_| names.next(&at(1), 9)).collect();
        assert!(all.iter().all(|name| id_of(name.as_bytes()) == Some(9) && name.len() < 255));
        assert_eq!(names.next(&at(1), 9), all[0]);
        assert_eq!(names.next(&at(2), 9), all[0]);
        assert!(!all.contains(&"ps9".to_owned()), "anybody could guess that");
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 200);
    }

    #[test]
    fn a_peer_that_answers_by_name_finds_the_plain_one() {
        let mut names = Names::new(None);
        assert_eq!((names.next(&at(1), 9), names.next(&at(1), 9)), ("ps9".into(), "ps9".into()));
    }
}
