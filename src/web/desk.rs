//! Makes what is answered, and keeps it for a moment: however many ask, a node is asked at most
//! twice a second for each thing. Pure but for what [`Shown`] does.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::answer::{SharedBytes, WebAnswer, kind};
use crate::feed;
use crate::head::WebRefusal;
use crate::page;
use crate::routes::WebRoute;
use crate::shown::{Shown, ShownPoint};

/// How old an answer may be.
pub(crate) const GAP: Duration = Duration::from_millis(500);
/// Events that are kept, and in one answer, at most: as many as a node keeps.
pub(crate) const EVENTS_MAX: usize = 4096;

/// See the module.
pub(crate) struct Desk<'s> {
    shown: &'s dyn Shown,
    /// This node's life, for those who come back: numbers of events begin anew with each.
    life: String,
    has_page: bool,
    status: Fresh<ShownStatus>,
    points: Fresh<Arc<[ShownPoint]>>,
    metrics: Fresh<Option<SharedBytes>>,
    health: Fresh<WebAnswer>,
    ready: Fresh<WebAnswer>,
    /// What happened, as far as somebody has asked, and when the node was asked last.
    events: VecDeque<KeptEvent>,
    events_asked: Option<Duration>,
}

/// Something that happened, as all are told it.
#[derive(Clone, Debug)]
pub(crate) struct KeptEvent {
    pub(crate) number: u64,
    json: Arc<str>,
    /// As a part of a stream.
    pub(crate) frame: SharedBytes,
}

/// How the job is.
#[derive(Clone, Debug)]
pub(crate) struct ShownStatus {
    /// Another one with each text.
    pub(crate) version: u64,
    pub(crate) text: SharedBytes,
    /// The same as a part of a stream.
    pub(crate) frame: SharedBytes,
}

/// Something that was made a moment ago.
struct Fresh<T> {
    made: Option<(Duration, T)>,
}

impl<T: Clone> Fresh<T> {
    const fn none() -> Self {
        Self { made: None }
    }

    /// It, made anew if it is old. `make` is given the last one.
    fn get(&mut self, now: Duration, make: impl FnOnce(Option<T>) -> T) -> T {
        let last = match self.made.take() {
            Some((at, last)) if now.saturating_sub(at) < GAP => {
                self.made = Some((at, last.clone()));
                return last;
            }
            last => last.map(|(_, last)| last),
        };
        let made = make(last);
        self.made = Some((now, made.clone()));
        made
    }
}

impl<'s> Desk<'s> {
    pub(crate) fn new(shown: &'s dyn Shown, life: u64) -> Self {
        Self {
            shown,
            life: format!("{life:016x}"),
            has_page: shown.status().is_some(),
            status: Fresh::none(),
            points: Fresh::none(),
            metrics: Fresh::none(),
            health: Fresh::none(),
            ready: Fresh::none(),
            events: VecDeque::new(),
            events_asked: None,
        }
    }

    /// True if this node knows how the job is.
    pub(crate) const fn has_page(&self) -> bool {
        self.has_page
    }

    pub(crate) fn life(&self) -> &str {
        &self.life
    }

    /// How the job is.
    pub(crate) fn status(&mut self, now: Duration) -> ShownStatus {
        let shown = self.shown;
        self.status.get(now, |last| {
            let text = shown.status().unwrap_or_default();
            match last {
                Some(last) if *last.text == *text.as_bytes() => last,
                last => ShownStatus {
                    version: last.map_or(1, |last| last.version + 1),
                    frame: feed::frame("status", None, &text),
                    text: text.into_bytes().into(),
                },
            }
        })
    }

    /// What happened after that event, the oldest first.
    pub(crate) fn events(&mut self, since: u64, most: usize, now: Duration) -> Vec<KeptEvent> {
        if self.events_asked.is_none_or(|asked| now.saturating_sub(asked) >= GAP) {
            self.events_asked = Some(now);
            self.ask_for_events();
        }
        let new = self.events.iter().filter(|event| event.number > since);
        new.take(most).cloned().collect()
    }

    fn ask_for_events(&mut self) {
        let newest = self.events.back().map_or(0, |event| event.number);
        for event in self.shown.events_since(newest, EVENTS_MAX) {
            if self.events.len() == EVENTS_MAX {
                self.events.pop_front();
            }
            self.events.push_back(KeptEvent {
                number: event.number,
                frame: feed::frame("event", Some(event.number), &event.json),
                json: event.json.into(),
            });
        }
    }

    /// The answer to a request that is no stream.
    ///
    /// # Errors
    /// There is nothing to be shown.
    pub(crate) fn answer(
        &mut self,
        route: WebRoute,
        now: Duration,
    ) -> Result<WebAnswer, WebRefusal> {
        let shown = self.shown;
        Ok(match route {
            WebRoute::Metrics => {
                let made = self.metrics.get(now, |_| shown.metrics().map(shared));
                let text = made.ok_or_else(|| WebRefusal {
                    status: 404,
                    why: "this node has no metrics to show".to_owned(),
                })?;
                WebAnswer::found(kind::METRICS, text)
            }
            WebRoute::Health => self.health.get(now, |_| verdict("ok", shown.health())),
            WebRoute::Ready => self.ready.get(now, |_| verdict("ready", shown.ready())),
            WebRoute::File(file) => {
                WebAnswer::found(page::kind_of(file), page::text(file).as_bytes().into())
            }
            WebRoute::Status | WebRoute::Live { .. } => {
                WebAnswer::found(kind::JSON, self.status(now).text)
            }
            WebRoute::Rounds { after } => {
                let points = self.points.get(now, |_| shown.points().into());
                let new = points.iter().filter(|point| point.millis > after);
                let all = new.map(|point| point.json.as_str()).collect::<Vec<_>>().join(",");
                WebAnswer::found(kind::JSON, shared(format!("[{all}]\n")))
            }
            WebRoute::Events { since } => {
                let events = self.events(since, EVENTS_MAX, now);
                let lines: String = events.iter().flat_map(|event| [&*event.json, "\n"]).collect();
                WebAnswer::found(kind::LINES, shared(lines))
            }
        })
    }
}

fn shared(text: String) -> SharedBytes {
    Arc::from(text.into_bytes())
}

fn verdict(well: &str, found: Result<(), String>) -> WebAnswer {
    match found {
        Ok(()) => WebAnswer::line(200, well),
        Err(why) => WebAnswer::line(503, &why),
    }
}
