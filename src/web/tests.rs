//! The hall from outside: callers say bytes, time passes, and what they are told is looked at.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Mutex;
use std::time::Duration;

use crate::caller::{SAY_LIMIT, SentAway, TAKE_LIMIT};
use crate::desk::GAP;
use crate::hall::{CALLERS_MAX, CallerNumber, FOLLOWERS_MAX, Hall};
use crate::shown::{Shown, ShownEvent};

/// A node whose state a test sets.
struct Played {
    has_page: bool,
    now: Mutex<PlayedState>,
}

#[derive(Default)]
struct PlayedState {
    status: String,
    events: Vec<ShownEvent>,
    metrics: Option<String>,
    trouble: Option<String>,
    /// How often the status was made.
    asked: u32,
}

impl Played {
    fn new(has_page: bool) -> Self {
        let state = PlayedState { status: "{\"a\":1}".to_owned(), ..PlayedState::default() };
        Self { has_page, now: Mutex::new(state) }
    }

    fn set(&self, change: impl FnOnce(&mut PlayedState)) {
        change(&mut self.now.lock().unwrap());
    }

    fn happens(&self, json: &str) {
        self.set(|state| {
            let number = state.events.len() as u64 + 1;
            state.events.push(ShownEvent { number, json: json.to_owned() });
        });
    }
}

impl Shown for Played {
    fn status(&self) -> Option<String> {
        let mut state = self.now.lock().unwrap();
        state.asked += 1;
        self.has_page.then(|| state.status.clone())
    }

    fn events_since(&self, number: u64, most: usize) -> Vec<ShownEvent> {
        let state = self.now.lock().unwrap();
        let new = state.events.iter().filter(|event| event.number > number);
        new.take(most).cloned().collect()
    }

    fn metrics(&self) -> Option<String> {
        self.now.lock().unwrap().metrics.clone()
    }

    fn health(&self) -> Result<(), String> {
        self.now.lock().unwrap().trouble.clone().map_or(Ok(()), Err)
    }

    fn ready(&self) -> Result<(), String> {
        self.health()
    }
}

const LIFE: u64 = 0xabc;

fn hall(shown: &Played) -> Hall<'_> {
    Hall::new(shown, IpAddr::V4(Ipv4Addr::LOCALHOST), LIFE)
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost:1\r\n\r\n")
}

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Takes all that waits for a caller.
fn take(hall: &mut Hall<'_>, caller: CallerNumber, now: Duration) -> String {
    let mut told = Vec::new();
    loop {
        let bytes = hall.to_write(caller).to_vec();
        if bytes.is_empty() {
            return String::from_utf8(told).unwrap();
        }
        // In odd pieces.
        let count = bytes.len().min(7);
        told.extend_from_slice(&bytes[..count]);
        hall.wrote(caller, count, now);
    }
}

/// Asks and is answered: status and body.
fn ask_as(hall: &mut Hall<'_>, request: &str, now: Duration) -> (u16, String) {
    let caller = hall.enter(now).unwrap();
    hall.said(caller, request.as_bytes(), now);
    let told = take(hall, caller, now);
    hall.hung_up(caller);
    assert_eq!(hall.take_gone(), [caller]);
    let (head, body) = told.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let length = format!("Content-Length: {}\r\n", body.len());
    assert!(request.starts_with("HEAD") || head.contains(&length), "{told}");
    (status, body.to_owned())
}

fn ask(hall: &mut Hall<'_>, target: &str, now: Duration) -> (u16, String) {
    ask_as(hall, &get(target), now)
}

#[test]
fn a_node_without_a_page_says_whether_it_is_well() {
    let shown = Played::new(false);
    let mut hall = hall(&shown);
    assert_eq!(ask(&mut hall, "/healthz", at(0)), (200, "ok\n".to_owned()));
    assert_eq!(ask(&mut hall, "/livez", at(0)).0, 200);
    assert_eq!(ask(&mut hall, "/readyz", at(0)), (200, "ready\n".to_owned()));
    assert_eq!(ask(&mut hall, "/metrics", at(0)).0, 404);
    assert_eq!(ask(&mut hall, "/", at(0)).0, 404);
    shown.set(|state| {
        state.trouble = Some("1 of 2 workers are here".to_owned());
        state.metrics = Some("a 1\n# EOF\n".to_owned());
    });
    let later = at(600);
    assert_eq!(ask(&mut hall, "/readyz", later), (503, "1 of 2 workers are here\n".to_owned()));
    assert_eq!(ask(&mut hall, "/healthz", later).0, 503);
    assert_eq!(ask(&mut hall, "/metrics", later), (200, "a 1\n# EOF\n".to_owned()));
}

#[test]
fn the_page_and_its_files_are_there() {
    let shown = Played::new(true);
    let mut hall = hall(&shown);
    for (target, begins) in [
        ("/", "<!doctype html>"),
        ("/page.css", "/*"),
        ("/page.js", "//"),
        ("/draw.js", "//"),
        ("/icon.svg", "<svg"),
        ("/api/status", "{\"a\":1}"),
    ] {
        let (status, body) = ask(&mut hall, target, at(0));
        assert!(status == 200 && body.starts_with(begins), "{target}: {status} {body}");
    }
    let head = get("/page.js").replace("GET", "HEAD");
    assert_eq!(ask_as(&mut hall, &head, at(0)), (200, String::new()));
    let lost = get("/nothing").replace("GET", "HEAD");
    assert_eq!(ask_as(&mut hall, &lost, at(0)), (404, String::new()));
}

#[test]
fn however_many_ask_a_node_is_asked_twice_a_second() {
    let shown = Played::new(true);
    let mut hall = hall(&shown);
    for millis in 0..3000 {
        if millis % 10 == 0 {
            ask(&mut hall, "/api/status", at(millis));
        }
    }
    let asked = shown.now.lock().unwrap().asked;
    // Of events likewise: one that just happened is told a moment later.
    ask(&mut hall, "/api/events", at(9000));
    shown.happens("{}");
    assert_eq!(ask(&mut hall, "/api/events", at(9499)), (200, String::new()));
    assert_eq!(ask(&mut hall, "/api/events", at(9500)), (200, "{}\n".to_owned()));
    // Once at the beginning, to know whether there is a page.
    assert_eq!(asked, 1 + 6);
}

#[test]
fn a_refused_request_is_answered_and_closed() {
    let shown = Played::new(true);
    let mut hall = hall(&shown);
    let rebound = get("/api/status").replace("localhost", "evil.example");
    assert_eq!(ask_as(&mut hall, &rebound, at(0)).0, 421);
    let long = format!("GET /{}", "a".repeat(9000));
    assert_eq!(ask_as(&mut hall, &long, at(0)).0, 431);
    let posted = get("/api/status").replace("GET", "POST");
    assert_eq!(ask_as(&mut hall, &posted, at(0)).0, 405);
    assert_eq!(ask_as(&mut hall, "\0\r\n\r\n", at(0)).0, 400);
}

#[test]
fn who_says_nothing_or_not_all_has_to_leave() {
    let shown = Played::new(true);
    let mut hall = hall(&shown);
    let (silent, slow) = (hall.enter(at(0)).unwrap(), hall.enter(at(0)).unwrap());
    let request = get("/");
    // A byte a second: each is progress, and the limit counts from the beginning.
    for (second, byte) in request.bytes().enumerate().take(5) {
        hall.said(slow, &[byte], at(1000 * second as u64));
    }
    assert_eq!(hall.deadline(), Some(SAY_LIMIT));
    assert!(hall.tick(SAY_LIMIT - at(1)).is_empty() && hall.take_gone().is_empty());
    assert!(hall.tick(SAY_LIMIT).is_empty());
    assert_eq!(hall.take_gone(), [silent]);
    assert!(take(&mut hall, slow, SAY_LIMIT).starts_with("HTTP/1.1 408"));
    let later = SAY_LIMIT + at(2000);
    assert_eq!(hall.deadline(), Some(later), "it may still say something");
    hall.said(slow, &[b'x'; 20_000], later);
    hall.tick(later);
    assert_eq!(hall.take_gone(), [slow]);
}

#[test]
fn who_takes_nothing_is_sent_away() {
    let shown = Played::new(true);
    let mut hall = hall(&shown);
    let caller = hall.enter(at(0)).unwrap();
    hall.said(caller, get("/page.js").as_bytes(), at(0));
    // It ends its side, and takes a little before the limit.
    hall.hung_up(caller);
    assert!(!hall.is_heard(caller), "its socket would be ready all the time");
    hall.wrote(caller, 1, TAKE_LIMIT - at(1));
    assert!(hall.tick(TAKE_LIMIT).is_empty());
    let limit = TAKE_LIMIT - at(1) + TAKE_LIMIT;
    assert_eq!(hall.deadline(), Some(limit));
    assert_eq!(hall.tick(limit), [SentAway::TookNothing]);
    assert_eq!(hall.take_gone(), [caller]);
}

#[test]
fn there_is_room_for_so_many_and_no_more() {
    let shown = Played::new(true);
    let mut hall = hall(&shown);
    let all: Vec<_> = (0..CALLERS_MAX).map(|_| hall.enter(at(0)).unwrap()).collect();
    let answer = String::from_utf8(hall.enter(at(0)).unwrap_err()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503") && answer.ends_with("come again\n"), "{answer}");
    for caller in &all[..FOLLOWERS_MAX] {
        hall.said(*caller, get("/api/live").as_bytes(), at(0));
        assert!(take(&mut hall, *caller, at(0)).contains("event: status\n"));
    }
    hall.said(all[FOLLOWERS_MAX], get("/api/live").as_bytes(), at(0));
    assert!(take(&mut hall, all[FOLLOWERS_MAX], at(0)).starts_with("HTTP/1.1 503"));
    hall.hung_up(all[0]);
    assert_eq!(hall.take_gone(), [all[0]]);
    let caller = hall.enter(at(0)).unwrap();
    hall.said(caller, get("/api/live").as_bytes(), at(0));
    assert!(take(&mut hall, caller, at(0)).starts_with("HTTP/1.1 200"));
}

#[test]
fn a_stream_has_the_status_if_it_differs_and_each_event_once() {
    let shown = Played::new(true);
    shown.happens("{\"number\":1}");
    shown.happens("{\"number\":2}");
    let mut hall = hall(&shown);
    let caller = hall.enter(at(100)).unwrap();
    assert_eq!(hall.deadline(), Some(at(100) + SAY_LIMIT));
    hall.said(caller, get("/api/live?since=1").as_bytes(), at(100));
    let told = take(&mut hall, caller, at(100));
    let (head, body) = told.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("text/event-stream") && !head.contains("Content-Length"), "{head}");
    let life = "event: life\ndata: {\"life\":\"0000000000000abc\"}\n\n";
    let event = "id: 2\nevent: event\ndata: {\"number\":2}\n\n";
    let status = "event: status\ndata: {\"a\":1}\n\n";
    assert_eq!(body, [life, event, status].concat());
    assert_eq!(hall.deadline(), Some(at(600)));

    hall.tick(at(600));
    assert_eq!(take(&mut hall, caller, at(600)), "", "nothing is new");
    shown.set(|state| state.status = "{\"a\":2}".to_owned());
    shown.happens("{\"number\":3}");
    hall.tick(at(1099));
    assert_eq!(take(&mut hall, caller, at(1099)), "");
    hall.tick(at(1100));
    let told = take(&mut hall, caller, at(1100));
    let event = "id: 3\nevent: event\ndata: {\"number\":3}\n\n";
    assert_eq!(told, [event, &status.replace('1', "2")].concat());

    // A sign that it is still heard, if nothing is new for long.
    let mut signs = Vec::new();
    for millis in (1600..=5100).step_by(500) {
        hall.tick(at(millis));
        let told = take(&mut hall, caller, at(millis));
        if !told.is_empty() {
            assert_eq!(told, ":\n\n");
            signs.push(millis);
        }
    }
    assert_eq!(signs, [3100, 5100]);
    hall.say_farewell();
    assert_eq!(take(&mut hall, caller, at(5200)), "event: end\ndata: {}\n\n");
    hall.hung_up(caller);
    assert_eq!(hall.take_gone(), [caller]);
    assert_eq!(hall.deadline(), None, "nobody looks: nothing to do");
}

#[test]
fn a_reader_that_is_slow_has_one_part_waiting_and_no_more() {
    let shown = Played::new(true);
    let mut hall = hall(&shown);
    let caller = hall.enter(at(0)).unwrap();
    hall.said(caller, get("/api/live").as_bytes(), at(0));
    take(&mut hall, caller, at(0));
    shown.set(|state| state.status = "{\"a\":2}".to_owned());
    hall.tick(at(500));
    for round in 2..50 {
        shown.happens(&format!("{{\"number\":{round}}}"));
        shown.set(|state| state.status = format!("{{\"a\":{round}}}"));
        hall.tick(at(500 * round));
    }
    let now = at(500 * 50);
    let told = take(&mut hall, caller, now);
    assert_eq!(told, "event: status\ndata: {\"a\":2}\n\n", "the first part, nothing behind it");
    hall.tick(now);
    let told = take(&mut hall, caller, now);
    assert_eq!(told.matches("event: event\n").count(), 48, "no event is lost: {told}");
    assert!(told.ends_with("data: {\"a\":49}\n\n"), "{told}");
    // One that takes nothing at all for too long is sent away.
    shown.happens("{}");
    hall.tick(now + GAP);
    assert!(hall.tick(now + GAP + TAKE_LIMIT - at(1)).is_empty());
    assert_eq!(hall.tick(now + GAP + TAKE_LIMIT), [SentAway::TookNothing]);
}

#[test]
fn many_events_come_in_parts() {
    let shown = Played::new(true);
    (0..1200).for_each(|_| shown.happens("{}"));
    let mut hall = hall(&shown);
    let caller = hall.enter(at(0)).unwrap();
    hall.said(caller, get("/api/live").as_bytes(), at(0));
    let mut counts = Vec::new();
    for part in 0..4 {
        let now = at(500 * part);
        hall.tick(now);
        counts.push(take(&mut hall, caller, now).matches("\nevent: event\n").count());
    }
    assert_eq!(counts, [512, 512, 176, 0]);
    let (_, lines) = ask(&mut hall, "/api/events?since=1000", at(9000));
    assert_eq!(lines.lines().count(), 200);
}
