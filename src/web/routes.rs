//! What a request means: which of the things that a node shows. Pure.

use crate::head::{WebMethod, WebRefusal, WebRequest, number, refusal};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WebRoute {
    /// All that is counted.
    Metrics,
    /// Is it alive?
    Health,
    /// Does it do its work?
    Ready,
    /// A file of the page.
    File(PageFile),
    /// How the job is.
    Status,
    /// What happened after an event.
    Events { since: u64 },
    /// How long rounds took after a time, in milliseconds.
    Rounds { after: u64 },
    /// The state and the events, as they go on.
    Live { since: u64 },
}

/// A file of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageFile {
    Index,
    Style,
    Drawing,
    Script,
    Icon,
}

impl WebRoute {
    /// True if only a node has it that knows how the job is.
    const fn is_of_the_job(self) -> bool {
        !matches!(self, Self::Metrics | Self::Health | Self::Ready)
    }
}

/// What is meant. `has_page`: this node knows how the job is.
///
/// # Errors
/// There is no such thing here, or it cannot be asked in that way.
pub(crate) fn route(request: &WebRequest, has_page: bool) -> Result<WebRoute, WebRefusal> {
    let route = match request.path.as_str() {
        "/metrics" => WebRoute::Metrics,
        "/healthz" | "/livez" => WebRoute::Health,
        "/readyz" => WebRoute::Ready,
        "/" => WebRoute::File(PageFile::Index),
        "/page.css" => WebRoute::File(PageFile::Style),
        "/draw.js" => WebRoute::File(PageFile::Drawing),
        "/page.js" => WebRoute::File(PageFile::Script),
        "/icon.svg" => WebRoute::File(PageFile::Icon),
        "/api/status" => WebRoute::Status,
        "/api/events" => WebRoute::Events { since: since(request)? },
        "/api/rounds" => WebRoute::Rounds { after: after(request)? },
        "/api/live" => WebRoute::Live { since: since(request)? },
        _ => return Err(nothing()),
    };
    if route.is_of_the_job() && !has_page {
        return Err(refusal(404, "the page of the job is at its scheduler, not at this node"));
    }
    if request.method == WebMethod::Post {
        return Err(refusal(405, "this can only be seen: GET or HEAD"));
    }
    Ok(route)
}

fn nothing() -> WebRefusal {
    refusal(
        404,
        "there is no such page: /metrics, /healthz, /livez and /readyz are at every node, / and \
         /api/status, /api/events, /api/rounds, /api/live at the scheduler",
    )
}

/// After which event: as the query says, else as the caller remembers, else from the beginning.
fn since(request: &WebRequest) -> Result<u64, WebRefusal> {
    let mut said = request.query.split('&').filter_map(|pair| pair.strip_prefix("since="));
    let Some(text) = said.next() else { return Ok(request.last_event.unwrap_or(0)) };
    let found = number(text.as_bytes()).filter(|_| said.next().is_none());
    found.ok_or_else(|| refusal(400, "since= is the number of an event"))
}

/// After which time: as the query says, else from the beginning.
fn after(request: &WebRequest) -> Result<u64, WebRefusal> {
    let mut said = request.query.split('&').filter_map(|pair| pair.strip_prefix("after="));
    let Some(text) = said.next() else { return Ok(0) };
    let found = number(text.as_bytes()).filter(|_| said.next().is_none());
    found.ok_or_else(|| refusal(400, "after= is a time in milliseconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: WebMethod, target: &str, last_event: Option<u64>) -> WebRequest {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        WebRequest { method, path: path.to_owned(), query: query.to_owned(), last_event }
    }

    fn status(target: &str, has_page: bool) -> u16 {
        match route(&ask(WebMethod::Get, target, None), has_page) {
            Ok(_) => 200,
            Err(refusal) => refusal.status,
        }
    }

    #[test]
    fn each_node_has_three_and_the_scheduler_all() {
        for target in ["/metrics", "/healthz", "/livez", "/readyz", "/readyz?verbose"] {
            assert_eq!((status(target, false), status(target, true)), (200, 200), "{target}");
        }
        for target in ["/", "/draw.js", "/page.js", "/icon.svg", "/api/status", "/api/live"] {
            assert_eq!((status(target, false), status(target, true)), (404, 200), "{target}");
        }
        for target in ["", "/x", "/metrics/", "//", "/api", "/index.html", "/../etc/passwd"] {
            assert_eq!((status(target, false), status(target, true)), (404, 404), "{target}");
        }
    }

    #[test]
    fn nothing_can_be_done_here_yet() {
        let posted = route(&ask(WebMethod::Post, "/api/status", None), true);
        assert_eq!(posted.map_err(|refusal| refusal.status), Err(405));
        let head = route(&ask(WebMethod::Head, "/api/status", None), true);
        assert_eq!(head, Ok(WebRoute::Status));
    }

    #[test]
    fn who_comes_back_says_after_which_event() {
        let since = |target: &str, last| {
            let found = route(&ask(WebMethod::Get, target, last), true);
            found.map_err(|refusal| refusal.status)
        };
        assert_eq!(since("/api/events?since=7", None), Ok(WebRoute::Events { since: 7 }));
        assert_eq!(since("/api/live", Some(5)), Ok(WebRoute::Live { since: 5 }));
        assert_eq!(since("/api/live?since=7", Some(5)), Ok(WebRoute::Live { since: 7 }));
        assert_eq!(since("/api/live?a=b", None), Ok(WebRoute::Live { since: 0 }));
        for wrong in ["since=", "since=-1", "since=x", "since=1&since=2", "since=1e3"] {
            assert_eq!(since(&format!("/api/live?{wrong}"), None), Err(400), "{wrong}");
        }
    }
}
