//! Reads what a caller asks: the head of a request, and how long its body is. Pure. Refuses all
//! that two readers could understand in two ways, and whoever was led here under another name.

use std::net::IpAddr;

use httparse::{EMPTY_HEADER, Header, Request, Status};

/// The longest head, in bytes.
pub(crate) const HEAD_MAX: usize = 8 << 10;
/// The longest body.
pub(crate) const BODY_MAX: usize = 4 << 10;
/// Fields of a head, at most.
const FIELDS_MAX: usize = 64;

/// What may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WebMethod {
    /// To see something.
    Get,
    /// To see what would be said of it.
    Head,
    /// To have something done.
    Post,
}

/// What a caller asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebRequest {
    pub(crate) method: WebMethod,
    /// Begins with a slash; has no query.
    pub(crate) path: String,
    /// What follows the question mark.
    pub(crate) query: String,
    /// The number of the last event that it has, if it comes back and says so.
    pub(crate) last_event: Option<u64>,
}

/// Why a request is not answered as its caller wished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebRefusal {
    /// By HTTP.
    pub(crate) status: u16,
    /// For people, without a line end.
    pub(crate) why: String,
}

pub(crate) fn refusal(status: u16, why: impl Into<String>) -> WebRefusal {
    WebRefusal { status, why: why.into() }
}

/// What was heard so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeadRead {
    /// Not all.
    More,
    /// A request, with all of its body.
    Whole(WebRequest),
}

/// Whether those bytes are a request, asked of a node that listens at 127.0.0.1; `None`: more must
/// come. For fuzzing: the state machine reads by the same code.
#[must_use]
pub fn read_head(heard: &[u8]) -> Option<bool> {
    match read(heard, IpAddr::V4(std::net::Ipv4Addr::LOCALHOST)) {
        Ok(HeadRead::More) => None,
        Ok(HeadRead::Whole(_)) => Some(true),
        Err(_) => Some(false),
    }
}

/// Reads what was heard of a request so far. `bound`: the address at which this node listens.
pub(crate) fn read(heard: &[u8], bound: IpAddr) -> Result<HeadRead, WebRefusal> {
    let mut fields = [EMPTY_HEADER; FIELDS_MAX];
    let mut request = Request::new(&mut fields);
    let parsed = match request.parse(heard) {
        Ok(parsed) => parsed,
        Err(httparse::Error::TooManyHeaders) => {
            return Err(refusal(431, format!("more than {FIELDS_MAX} fields in a head")));
        }
        Err(httparse::Error::Version) => {
            return Err(refusal(505, "only HTTP/1.1 and 1.0 are spoken here"));
        }
        Err(error) => return Err(refusal(400, format!("this is no HTTP request: {error}"))),
    };
    let Status::Complete(length) = parsed else {
        return if heard.len() < HEAD_MAX { Ok(HeadRead::More) } else { Err(too_long()) };
    };
    if length > HEAD_MAX {
        return Err(too_long());
    }
    check_host(request.headers, bound)?;
    let method = match request.method {
        Some("GET") => WebMethod::Get,
        Some("HEAD") => WebMethod::Head,
        Some("POST") => WebMethod::Post,
        _ => return Err(refusal(405, "only GET, HEAD and POST are known here")),
    };
    let target = request.path.filter(|path| path.starts_with('/'));
    let target = target.ok_or_else(|| refusal(400, "the target must be a path"))?;
    let body = body_length(request.headers)?;
    if heard.len() < length + body {
        return Ok(HeadRead::More);
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let last_event = all(request.headers, "last-event-id").next().and_then(number);
    let (path, query) = (path.to_owned(), query.to_owned());
    Ok(HeadRead::Whole(WebRequest { method, path, query, last_event }))
}

fn too_long() -> WebRefusal {
    refusal(431, format!("the head is longer than {HEAD_MAX} bytes"))
}

/// A number without a sign and without blanks; `None` if it is none, or too large.
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    let is_plain = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    is_plain.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
}

fn all<'h>(fields: &'h [Header<'_>], name: &'h str) -> impl Iterator<Item = &'h [u8]> {
    let named = fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
    named.map(|field| field.value)
}

/// Whose program this is must not depend on who reads: a length is said once, as a number.
fn body_length(fields: &[Header<'_>]) -> Result<usize, WebRefusal> {
    if all(fields, "transfer-encoding").next().is_some() {
        return Err(refusal(400, "Transfer-Encoding is not taken: say Content-Length"));
    }
    let mut said = all(fields, "content-length");
    let Some(length) = said.next() else { return Ok(0) };
    let length = number(length).filter(|_| said.next().is_none());
    let length = length.ok_or_else(|| refusal(400, "Content-Length must be one number"))?;
    match usize::try_from(length) {
        Ok(length) if length <= BODY_MAX => Ok(length),
        _ => Err(refusal(413, format!("the body is longer than {BODY_MAX} bytes"))),
    }
}

/// A page elsewhere may have its own name point here, and would then be of one origin with this
/// node (DNS rebinding). So whoever asks must name this host as its users do. The port may differ:
/// `ssh -L` gives it another one.
fn check_host(fields: &[Header<'_>], bound: IpAddr) -> Result<(), WebRefusal> {
    let mut said = all(fields, "host");
    let (Some(host), None) = (said.next(), said.next()) else {
        return Err(refusal(400, "one Host must be said"));
    };
    if std::str::from_utf8(host).is_ok_and(|host| is_here(host, bound)) {
        return Ok(());
    }
    Err(refusal(421, "this node answers by the names localhost and 127.0.0.1, and its own address"))
}

fn is_here(host: &str, bound: IpAddr) -> bool {
    let (name, rest) = match host.strip_prefix('[') {
        Some(inside) => inside.split_once(']').unwrap_or(("", host)),
        None => match host.find(':') {
            Some(colon) => host.split_at(colon),
            None => (host, ""),
        },
    };
    let is_port = |text: &str| number(text.as_bytes()).is_some_and(|port| port <= 65_535);
    if !(rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port)) {
        return false;
    }
    let is_v6 = host.starts_with('[');
    match name.parse::<IpAddr>() {
        Ok(address) => address.is_ipv6() == is_v6 && (address.is_loopback() || address == bound),
        Err(_) => !is_v6 && name.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    const BOUND: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn request(line: &str, fields: &str) -> String {
        format!("{line} HTTP/1.1\r\nHost: 127.0.0.1:9\r\n{fields}\r\n")
    }

    fn status(text: &str) -> u16 {
        match read(text.as_bytes(), BOUND) {
            Ok(HeadRead::More) => 0,
            Ok(HeadRead::Whole(_)) => 200,
            Err(refusal) => refusal.status,
        }
    }

    #[test]
    fn a_request_is_read() {
        let text = request("GET /api/events?since=3&x", "Last-Event-ID: 12\r\n");
        let read = read(text.as_bytes(), BOUND).unwrap();
        let expected = WebRequest {
            method: WebMethod::Get,
            path: "/api/events".to_owned(),
            query: "since=3&x".to_owned(),
            last_event: Some(12),
        };
        assert_eq!(read, HeadRead::Whole(expected));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for (text, expected) in [
            ("\u{16}\u{3}\u{1} TLS".to_owned(), 400),
            ("GET /\r\n\r\n".to_owned(), 400),
            ("GET / HTTP/2.0\r\nHost: localhost\r\n\r\n".to_owned(), 505),
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n".to_owned(), 400),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nbad field\r\n\r\n".to_owned(), 400),
            (request("GET http://localhost/", ""), 400),
            (request("OPTIONS *", ""), 405),
            (request("CONNECT a:1", ""), 405),
            (request("DELETE /", ""), 405),
            (request("GET /", &"a: b\r\n".repeat(65)), 431),
            (request("GET /", &format!("a: {}\r\n", "b".repeat(HEAD_MAX))), 431),
            (format!("GET /{}", "a".repeat(HEAD_MAX)), 431),
            ("GET / HTTP/1.0\r\nHost: localhost\r\n\r\n".to_owned(), 200),
            (request("GET /", ""), 200),
        ] {
            assert_eq!(status(&text), expected, "{text:?}");
        }
    }

    #[test]
    fn bodies_have_one_length_and_a_limit() {
        for (fields, body, expected) in [
            ("Content-Length: 3\r\n", "abc", 200),
            ("Content-Length: 3\r\n", "ab", 0),
            ("Content-Length: 4096\r\n", "", 0),
            ("Content-Length: 4097\r\n", "", 413),
            ("Content-Length: 99999999999999999999999\r\n", "", 400),
            ("Content-Length: -1\r\n", "", 400),
            ("Content-Length: +1\r\n", "a", 400),
            ("Content-Length: 1, 1\r\n", "a", 400),
            ("Content-Length: 1\r\ncontent-length: 1\r\n", "a", 400),
            ("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", "a", 400),
            ("Transfer-Encoding: identity\r\n", "", 400),
        ] {
            let text = request("POST /", fields) + body;
            assert_eq!(status(&text), expected, "{fields}");
        }
    }

    #[test]
    fn only_who_names_this_host_is_answered() {
        for (host, here) in [
            ("127.0.0.1:9400", true),
            ("127.0.0.1", true),
            ("127.0.0.2:1", true),
            ("LocalHost:8080", true),
            ("[::1]:9", true),
            ("evil.example:9400", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("10.0.0.3", false),
            ("0.0.0.0", false),
            ("", false),
            (":9400", false),
            ("::1", false),
            ("[::1", false),
            ("[127.0.0.1]", false),
            ("[localhost]", false),
            ("localhost:", false),
            ("localhost:99999", false),
            ("localhost:80x", false),
            ("127.0.0.1 evil", false),
        ] {
            assert_eq!(is_here(host, BOUND), here, "{host:?}");
            let text = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
            assert_eq!(status(&text), if here { 200 } else { 421 }, "{host:?}");
        }
        assert!(is_here("10.0.0.3:1", "10.0.0.3".parse().unwrap()));
    }

    proptest! {
        /// However it is cut, it is the same request in the end, and before that it is none.
        #[test]
        fn a_request_that_comes_in_parts_is_the_same(
            path in "/[a-z/]{0,20}",
            fields in prop::collection::vec(("[a-gi-s][a-z]{1,6}", "[a-z ]{0,20}"), 0..10),
            body in 0_usize..50,
        ) {
            let fields = fields.iter().map(|(name, value)| format!("x-{name}: {value}\r\n"));
            let fields = fields.collect::<String>() + &format!("Content-Length: {body}\r\n");
            let text = request(&format!("POST {path}?a=b"), &fields) + &"x".repeat(body);
            let bytes = text.as_bytes();
            for length in 0..bytes.len() {
                prop_assert_eq!(read(&bytes[..length], BOUND), Ok(HeadRead::More));
            }
            let Ok(HeadRead::Whole(whole)) = read(bytes, BOUND) else { panic!("{text:?}") };
            prop_assert_eq!((whole.path, whole.query), (path, "a=b".to_owned()));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&bytes, BOUND);
        }

        /// Of something that is almost a request.
        #[test]
        fn no_change_of_a_request_makes_it_panic(
            at in 0_usize..90,
            byte in any::<u8>(),
        ) {
            let text = request("GET /api/events?since=3", "Content-Length: 0\r\n");
            let mut bytes = text.into_bytes();
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            let _ = read(&bytes, BOUND);
        }
    }
}
