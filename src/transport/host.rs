//! Checks a text that should name another node's host. It recognizes what people often write
//! instead, so that the error can name it. Asks no resolver, touches nothing.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The longest name of the domain name system, in bytes.
const NAME_MAX: usize = 253;

/// True for the address or the name of a host, and nothing beside it.
///
/// # Errors
/// What it is instead, and what to write.
pub fn check(text: &str) -> Result<(), String> {
    let quote = |c: char| matches!(c, '"' | '\'' | '`' | '\u{201c}' | '\u{201d}');
    if text.contains(quote) {
        return Err(format!("it has quotes; write {}", text.replace(quote, "")));
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        let host = rest.split(['/', ':']).next().unwrap_or_default();
        return Err(format!("{scheme}:// is not part of a host; write {}, {PORT_APART}", or(host)));
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    if bare.parse::<Ipv6Addr>().is_ok() || text.matches(':').count() > 1 {
        return Err("IPv6 is not spoken; write an IPv4 address, or a name that has one".to_owned());
    }
    if let Some((host, _)) = text.split_once(':') {
        return Err(format!("it has a port; write {}, {PORT_APART}", or(host)));
    }
    let is_number = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    if is_number && text.parse::<Ipv4Addr>().is_err() {
        return Err(
            "an IPv4 address has four numbers up to 255; write one such as 10.0.0.1".to_owned()
        );
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if let Some(strange) = text.chars().find(|c| !is_plain(*c)) {
        return Err(format!("no host has {strange:?} in it; write {EXAMPLES}"));
    }
    let labels = text.strip_suffix('.').unwrap_or(text).split('.');
    if text.len() > NAME_MAX || labels.into_iter().any(|label| !(1..64).contains(&label.len())) {
        return Err(format!("no name has such parts between its dots; write {EXAMPLES}"));
    }
    Ok(())
}

const PORT_APART: &str = "and the port in the variable for ports";
const EXAMPLES: &str = "an address such as 10.0.0.1, or a name such as scheduler.example";

/// That host, or examples if there is none.
fn or(host: &str) -> &str {
    if host.is_empty() { EXAMPLES } else { host }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_addresses_and_names() {
        for host in [
            "127.0.0.1",
            "localhost",
            "ps-0.ps.default.svc.cluster.local.",
            "my_host",
            "3com.example",
        ] {
            assert_eq!(check(host), Ok(()), "{host}");
        }
    }

    #[test]
    fn what_is_written_in_place_of_a_host_is_named() {
        for (text, said) in [
            ("http://10.0.0.1", "write 10.0.0.1, and the port"),
            ("tcp://ps.example:9091", "write ps.example, and the port"),
            ("\"10.0.0.1\"", "quotes; write 10.0.0.1"),
            ("'ps.example'", "quotes; write ps.example"),
            ("10.0.0.1:9091", "it has a port; write 10.0.0.1"),
            (":9091", "it has a port; write an address"),
            ("::1", "IPv6"),
            ("[fe80::1]", "IPv6"),
            ("[::1]:9091", "IPv6"),
            ("10.0.0.300", "four numbers"),
            ("10.0.0", "four numbers"),
            ("9091", "four numbers"),
            ("a b", "' '"),
            ("host/path", "'/'"),
            ("me@host", "'@'"),
            ("$HOST", "'$'"),
            ("a..b", "dots"),
            (".", "four numbers"),
        ] {
            let why = check(text).unwrap_err();
            assert!(why.contains(said), "{text}: {why}");
        }
    }

    #[test]
    fn a_name_has_a_length() {
        let label = "a".repeat(63);
        assert_eq!(check(&label), Ok(()));
        assert!(check(&"a".repeat(64)).is_err());
        assert!(check(&[label.as_str(); 5].join(".")).is_err());
    }
}
