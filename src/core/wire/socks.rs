//! What a tunnel and its users say to each other: SOCKS version 5 (RFC 1928), of it CONNECT without
//! authentication. libzmq speaks it too. A client may say all at once, without waiting for answers;
//! then a way over several gateways costs one round trip.
//!
//! Pure: bytes in, words out. No length is trusted, and no input makes it panic.

use thiserror::Error;

const VERSION: u8 = 5;
const CONNECT: u8 = 1;
const NO_AUTHENTICATION: u8 = 0;
/// Kinds of addresses.
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// The longest greeting or request, in bytes.
pub const SAID_MAX: usize = 2 + 255 + 4 + 1 + 255 + 2;
/// The greeting of a client of ours.
pub const GREETING: [u8; 3] = [VERSION, 1, NO_AUTHENTICATION];
/// What a tunnel answers to a greeting.
pub const CHOICE: [u8; 2] = [VERSION, NO_AUTHENTICATION];
/// The same if the client insists on authentication.
pub const NO_CHOICE: [u8; 2] = [VERSION, 0xff];

/// Where a tunnel is to lead.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// A name or an address, at most 255 bytes.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// What a tunnel answers to a request. The numbers are those of RFC 1928, 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reply {
    /// What follows goes through.
    Through = 0,
    /// Something else is wrong.
    Failed = 1,
    /// It does not lead there, for this client.
    Forbidden = 2,
    /// No answer from there.
    Unreachable = 4,
    /// Nobody listens there.
    Refused = 5,
}

/// What was said is not of this protocol, or nothing that a tunnel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no word of a tunnel: {0}")]
pub struct SocksError(&'static str);

impl Reply {
    /// Its bytes. Where the tunnel's own connection begins is not said.
    #[must_use]
    pub const fn encode(self) -> [u8; 10] {
        [VERSION, self as u8, 0, IPV4, 0, 0, 0, 0, 0, 0]
    }

    const fn of(code: u8) -> Self {
        match code {
            0 => Self::Through,
            2 => Self::Forbidden,
            3 | 4 | 6 => Self::Unreachable,
            5 => Self::Refused,
            _ => Self::Failed,
        }
    }
}

/// Appends all that a client says to be led to that place.
///
/// # Errors
/// The host's name is too long.
pub fn ask(target: &Target, out: &mut Vec<u8>) -> Result<(), SocksError> {
    let length = u8::try_from(target.host.len()).map_err(|_| SocksError("a name that is long"))?;
    out.extend_from_slice(&GREETING);
    out.extend_from_slice(&[VERSION, CONNECT, 0]);
    match target.host.parse::<std::net::Ipv4Addr>() {
        Ok(address) => {
            out.push(IPV4);
            out.extend_from_slice(&address.octets());
        }
        Err(_) => {
            out.extend_from_slice(&[NAME, length]);
            out.extend_from_slice(target.host.as_bytes());
        }
    }
    out.extend_from_slice(&target.port.to_be_bytes());
    Ok(())
}

/// Reads a client's greeting, if all of it is there: its length, and whether the client can do
/// without authentication.
///
/// # Errors
/// It is none.
pub fn greeting(bytes: &[u8]) -> Result<Option<(usize, bool)>, SocksError> {
    let [version, count, methods @ ..] = bytes else { return Ok(None) };
    if *version != VERSION {
        return Err(SocksError("another version"));
    }
    let count = usize::from(*count);
    let Some(methods) = methods.get(..count) else { return Ok(None) };
    Ok(Some((2 + count, methods.contains(&NO_AUTHENTICATION))))
}

/// Reads a client's request, if all of it is there: its length, and where it is to lead.
///
/// # Errors
/// It is none, or something else than CONNECT.
pub fn request(bytes: &[u8]) -> Result<Option<(usize, Target)>, SocksError> {
    let [version, command, _, kind, rest @ ..] = bytes else { return Ok(None) };
    if (*version, *command) != (VERSION, CONNECT) {
        return Err(SocksError("no request to connect"));
    }
    let Some((length, host)) = address(*kind, rest)? else { return Ok(None) };
    let Some(port) = rest.get(length..).and_then(|rest| rest.first_chunk::<2>()) else {
        return Ok(None);
    };
    let host = host.ok_or(SocksError("a host that is no name"))?;
    Ok(Some((4 + length + 2, Target { host, port: u16::from_be_bytes(*port) })))
}

/// An address of that kind at the beginning of these bytes, if it is there: its length, and what it
/// says if that is text.
fn address(kind: u8, bytes: &[u8]) -> Result<Option<(usize, Option<String>)>, SocksError> {
    Ok(match kind {
        IPV4 => bytes
            .first_chunk::<4>()
            .map(|octets| (octets.len(), Some(std::net::Ipv4Addr::from(*octets).to_string()))),
        NAME => bytes.split_first().and_then(|(length, rest)| {
            let name = rest.get(..usize::from(*length))?;
            let text = std::str::from_utf8(name).ok().filter(|name| !name.is_empty());
            Some((1 + name.len(), text.map(str::to_owned)))
        }),
        IPV6 => bytes
            .first_chunk::<16>()
            .map(|octets| (octets.len(), Some(std::net::Ipv6Addr::from(*octets).to_string()))),
        _ => return Err(SocksError("an address of an unknown kind")),
    })
}

/// Reads a tunnel's answers to [`ask`], if both are there: their length, and the second one.
///
/// # Errors
/// They are none, or the tunnel wants authentication.
pub fn answers(bytes: &[u8]) -> Result<Option<(usize, Reply)>, SocksError> {
    let Some((choice, rest)) = bytes.split_first_chunk::<2>() else { return Ok(None) };
    if *choice != CHOICE {
        return Err(SocksError("it does not choose what was offered"));
    }
    let [version, code, _, kind, rest @ ..] = rest else { return Ok(None) };
    if *version != VERSION {
        return Err(SocksError("another version"));
    }
    let Some((length, _)) = address(*kind, rest)? else { return Ok(None) };
    let whole = rest.len() >= length + 2;
    Ok(whole.then_some((choice.len() + 4 + length + 2, Reply::of(*code))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn target(host: &str, port: u16) -> Target {
        Target { host: host.into(), port }
    }

    /// Reads all that `ask` wrote, from each prefix of it first.
    fn read(said: &[u8]) -> Target {
        let (length, free) = greeting(said).unwrap().unwrap();
        assert!(free);
        for end in length..said.len() {
            assert_eq!(request(&said[length..end]), Ok(None), "{end} bytes");
        }
        let (rest, found) = request(&said[length..]).unwrap().unwrap();
        assert_eq!(length + rest, said.len());
        found
    }

    #[test]
    fn what_is_asked_is_read() {
        for wanted in [target("10.0.0.1", 7100), target("site-3.example", 1), target("a", 65_535)] {
            let mut said = Vec::new();
            ask(&wanted, &mut said).unwrap();
            assert!(said.len() <= SAID_MAX);
            assert_eq!(read(&said), wanted);
        }
        assert!(ask(&target(&"x".repeat(256), 1), &mut Vec::new()).is_err());
    }

    /// RFC 1928, 3 to 6, and what libzmq 4.3.4 sends for tcp://10.0.0.1:9000.
    #[test]
    fn the_bytes_are_those_of_the_standard() {
        let mut said = Vec::new();
        ask(&target("10.0.0.1", 9000), &mut said).unwrap();
        assert_eq!(said, [5, 1, 0, 5, 1, 0, 1, 10, 0, 0, 1, 0x23, 0x28]);
        assert_eq!(Reply::Refused.encode(), [5, 5, 0, 1, 0, 0, 0, 0, 0, 0]);
        let name = [5, 1, 0, 3, 2, b'a', b'b', 0, 80];
        assert_eq!(request(&name), Ok(Some((9, target("ab", 80)))));
        let six = [&[5, 1, 0, 4][..], &[0; 15], &[1, 0, 80]].concat();
        assert_eq!(request(&six), Ok(Some((22, target("::1", 80)))));
    }

    #[test]
    fn answers_are_read_and_what_follows_is_left() {
        for reply in [Reply::Through, Reply::Failed, Reply::Forbidden, Reply::Refused] {
            let said = [&CHOICE[..], &reply.encode(), b"more"].concat();
            assert_eq!(answers(&said), Ok(Some((12, reply))));
            for end in 0..12 {
                assert_eq!(answers(&said[..end]), Ok(None));
            }
        }
        assert!(answers(&NO_CHOICE).is_err());
        assert_eq!(Reply::of(3), Reply::Unreachable);
        assert_eq!(Reply::of(77), Reply::Failed);
    }

    #[test]
    fn what_a_tunnel_does_not_do_is_refused() {
        assert!(greeting(&[4, 1]).is_err(), "version 4");
        assert_eq!(greeting(&[5, 1, 2]), Ok(Some((3, false))), "with a password only");
        assert!(request(&[5, 2, 0, 1, 0, 0, 0, 0, 0, 0]).is_err(), "BIND");
        assert!(request(&[5, 1, 0, 9, 0]).is_err());
        assert!(request(&[5, 1, 0, 3, 0, 0, 80]).is_err(), "a host without a name");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = (greeting(&bytes), request(&bytes), answers(&bytes));
        }
    }
}
