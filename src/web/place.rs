//! Where a node listens for HTTP: `[HOST:]PORT` or `[HOST:]LO-HI`, as people write it. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebPlace {
    /// An address of the loopback interface.
    pub host: IpAddr,
    /// The first port that is tried; 0: any that is free.
    pub low: u16,
    /// The last one.
    pub high: u16,
}

/// Why a text is no place to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebPlaceError {
    /// It is no such text.
    Nonsense,
    /// Others than this host could look.
    Open {
        /// The same ports at the loopback interface.
        instead: WebPlace,
    },
}

impl WebPlace {
    /// Reads it. Without a host it is 127.0.0.1.
    ///
    /// # Errors
    /// It is something else, or others than this host could look.
    pub fn parse(text: &str) -> Result<Self, WebPlaceError> {
        let (host, ports) = match text.rsplit_once(':') {
            Some((host, ports)) => (Some(host), ports),
            None => (None, text),
        };
        let (low, high) = read_ports(ports).ok_or(WebPlaceError::Nonsense)?;
        let here = Self { host: IpAddr::V4(Ipv4Addr::LOCALHOST), low, high };
        let Some(host) = host else { return Ok(here) };
        match read_host(host)? {
            Some(host) if host.is_loopback() => Ok(Self { host, ..here }),
            Some(_) | None => Err(WebPlaceError::Open { instead: here }),
        }
    }

    /// The one port that it names, if it leaves no choice.
    #[must_use]
    pub const fn only_port(&self) -> Option<u16> {
        if self.low == self.high && self.low != 0 { Some(self.low) } else { None }
    }

    /// All that are to be tried, in order.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> + use<> {
        let host = self.host;
        (self.low..=self.high).map(move |port| SocketAddr::new(host, port))
    }
}

impl std::fmt::Display for WebPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", SocketAddr::new(self.host, self.low))?;
        if self.low == self.high { Ok(()) } else { write!(f, "-{}", self.high) }
    }
}

/// The first and the last port.
fn read_ports(text: &str) -> Option<(u16, u16)> {
    let number = |text: &str| {
        let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_plain.then(|| text.parse::<u16>().ok()).flatten()
    };
    match text.split_once('-') {
        None => number(text).map(|port| (port, port)),
        Some((low, high)) => {
            let ends = (number(low)?, number(high)?);
            (0 < ends.0 && ends.0 <= ends.1).then_some(ends)
        }
    }
}

/// An address; `None`: a name, whose address nobody knows here.
fn read_host(text: &str) -> Result<Option<IpAddr>, WebPlaceError> {
    if text.eq_ignore_ascii_case("localhost") {
        return Ok(Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }
    if let Some(inside) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let found = inside.parse::<Ipv6Addr>().map_err(|_| WebPlaceError::Nonsense)?;
        return Ok(Some(IpAddr::V6(found)));
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Ok(Some(IpAddr::V4(address)));
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'*');
    match !text.is_empty() && text.bytes().all(fits) {
        true => Ok(None),
        false => Err(WebPlaceError::Nonsense),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> String {
        match WebPlace::parse(text) {
            Ok(place) => place.to_string(),
            Err(WebPlaceError::Nonsense) => "nonsense".to_owned(),
            Err(WebPlaceError::Open { instead }) => format!("open, not {instead}"),
        }
    }

    #[test]
    fn ports_and_hosts_of_this_machine_are_read() {
        for (text, read) in [
            ("9400", "127.0.0.1:9400"),
            ("0", "127.0.0.1:0"),
            ("9400-9409", "127.0.0.1:9400-9409"),
            ("localhost:9400", "127.0.0.1:9400"),
            ("127.0.0.2:1-2", "127.0.0.2:1-2"),
            ("[::1]:9400", "[::1]:9400"),
        ] {
            assert_eq!(place(text), read, "{text}");
        }
    }

    #[test]
    fn what_others_could_reach_is_refused_with_what_to_do_instead() {
        for text in ["0.0.0.0:9400", "10.0.0.1:9400", "[::]:9400", "myhost:9400", "*:9400"] {
            assert_eq!(place(text), "open, not 127.0.0.1:9400", "{text}");
        }
    }

    #[test]
    fn nonsense_is_nonsense() {
        for text in [
            "",
            "http",
            "-1",
            "65536",
            "+80",
            " 80",
            "0-9",
            "9-8",
            "9400-",
            "-",
            ":",
            ":80",
            "http://127.0.0.1:80",
            "::1",
            "[::1]",
            "[]:80",
            "[127.0.0.1]:80",
            "a b:80",
            "1:2:3",
            "127.0.0.1:",
            "127.0.0.1:x",
            "127.0.0.1:80/",
        ] {
            assert_eq!(place(text), "nonsense", "{text:?}");
        }
    }

    #[test]
    fn one_port_is_no_choice() {
        let port = |text| WebPlace::parse(text).unwrap().only_port();
        assert_eq!((port("9400"), port("0"), port("9400-9401")), (Some(9400), None, None));
        let all = WebPlace::parse("9400-9402").unwrap().addresses();
        assert_eq!(all.map(|address| address.port()).collect::<Vec<_>>(), [9400, 9401, 9402]);
        assert_eq!(WebPlace::parse("65535").unwrap().addresses().count(), 1);
    }
}
