//! One answer as bytes: its head, with what keeps a page safe, and its body. Pure. A body is shared
//! by all who are answered with it.

use std::sync::Arc;

use crate::head::WebRefusal;

/// Bytes that several may be about to send.
pub(crate) type SharedBytes = Arc<[u8]>;

/// Kinds of bodies.
pub(crate) mod kind {
    pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
    pub(crate) const HTML: &str = "text/html; charset=utf-8";
    pub(crate) const CSS: &str = "text/css; charset=utf-8";
    pub(crate) const SCRIPT: &str = "text/javascript; charset=utf-8";
    pub(crate) const SVG: &str = "image/svg+xml";
    pub(crate) const JSON: &str = "application/json";
    /// One object on each line.
    pub(crate) const LINES: &str = "application/jsonl";
    pub(crate) const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    pub(crate) const STREAM: &str = "text/event-stream";
}

/// What each answer says besides. The page takes scripts, styles, pictures and data from this node
/// only, and nothing puts it into a frame; other origins cannot read it, since nothing allows them
/// to; no copy is kept, since all of it is of this moment.
const ALWAYS: &str = "\
    Cache-Control: no-store\r\n\
    Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'; \
    form-action 'none'\r\n\
    X-Content-Type-Options: nosniff\r\n\
    X-Frame-Options: DENY\r\n\
    Referrer-Policy: no-referrer\r\n\
    Cross-Origin-Resource-Policy: same-origin\r\n\
    Cross-Origin-Opener-Policy: same-origin\r\n\
    Connection: close\r\n";

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebAnswer {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) body: SharedBytes,
}

impl WebAnswer {
    /// What was asked for.
    pub(crate) const fn found(kind: &'static str, body: SharedBytes) -> Self {
        Self { status: 200, kind, body }
    }

    /// A line for people.
    pub(crate) fn line(status: u16, text: &str) -> Self {
        Self { status, kind: kind::TEXT, body: format!("{text}\n").into_bytes().into() }
    }

    pub(crate) fn refused(refusal: &WebRefusal) -> Self {
        Self::line(refusal.status, &refusal.why)
    }

    /// The head.
    pub(crate) fn head(&self) -> SharedBytes {
        head(self.status, self.kind, Some(self.body.len()))
    }
}

/// The head of a stream, which ends when one side closes it.
pub(crate) fn stream_head() -> SharedBytes {
    head(200, kind::STREAM, None)
}

fn head(status: u16, kind: &str, length: Option<usize>) -> SharedBytes {
    let reason = reason(status);
    let mut text = format!("HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\n");
    if let Some(length) = length {
        text += &format!("Content-Length: {length}\r\n");
    }
    if status == 405 {
        text += "Allow: GET, HEAD\r\n";
    }
    if status == 503 {
        text += "Retry-After: 2\r\n";
    }
    text += ALWAYS;
    text += "\r\n";
    text.into_bytes().into()
}

const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_keeps_the_page_safe_and_says_its_length() {
        let answer = WebAnswer::line(503, "not yet");
        let head = String::from_utf8(answer.head().to_vec()).unwrap();
        assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{head}");
        assert!(head.ends_with("\r\n\r\n") && head.matches("\r\n\r\n").count() == 1, "{head}");
        for field in [
            "Content-Length: 8",
            "Cache-Control: no-store",
            "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; ",
            "frame-ancestors 'none'",
            "X-Content-Type-Options: nosniff",
            "X-Frame-Options: DENY",
            "Connection: close",
            "Retry-After: 2",
        ] {
            assert!(head.contains(&format!("\r\n{field}")) || head.contains(field), "{field}");
        }
        let stream = String::from_utf8(stream_head().to_vec()).unwrap();
        assert!(!stream.contains("Content-Length") && stream.contains("no-store"), "{stream}");
    }

    #[test]
    fn every_status_that_is_answered_has_its_words() {
        for status in [200, 400, 404, 405, 408, 413, 421, 431, 503, 505] {
            assert_ne!(reason(status), "Other", "{status}");
        }
    }
}
