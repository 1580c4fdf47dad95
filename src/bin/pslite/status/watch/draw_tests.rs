//! The screen, as it looks at 60 and at 160 columns.

use pslite::chronicle::{ChroniclePart, JobEvent, JobEventKind, NewEvent, RoundPoint};
use pslite::scheduler::{LinkStatus, NodeStatus, TreeStatus, TreesStatus};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::super::asking::StatusNews;
use super::super::keys::WatchKey;
use super::super::view::Pressed;
use super::*;

fn node(role: &str, rank: i32, id: i32, state: &str, bytes: u64) -> NodeStatus {
    NodeStatus {
        role: role.to_owned(),
        rank,
        id,
        address: format!("10.0.0.{id}:9000"),
        state: state.to_owned(),
        pieces: usize::from(bytes > 0),
        bytes,
        state_bytes: 2 * bytes,
        computes: (role == "worker").then_some(0.2),
        waits: (role == "worker").then_some(0.05),
        heard: None,
        totals: None,
    }
}

fn job() -> Status {
    Status {
        scheduler: "10.0.0.1:9091".to_owned(),
        phase: "running".to_owned(),
        workers: 2,
        servers: 2,
        elastic: true,
        epoch: 4,
        replicas: 1,
        nodes: vec![
            node("server", 0, 8, "live", 3_000_000),
            node("server", 1, 10, "draining", 1_000_000),
            node("worker", 0, 9, "live", 0),
            node("worker", 1, 11, "dead", 0),
        ],
        predicted: Some(0.24),
        measured: Some(0.25),
        bound: Some(0.2),
        eta: Some(0.8),
        limit: "what server 0 sends".to_owned(),
        waits: vec!["round 7 waits for worker 1 since 12 s".to_owned()],
        trees: Some(TreesStatus {
            topology: "auto".to_owned(),
            overlay: 3,
            trees: vec![TreeStatus {
                share: 1.0,
                root: "a".to_owned(),
                up: "a(b)".to_owned(),
                down: "a(b)".to_owned(),
            }],
            links: vec![
                LinkStatus { from: "a".into(), to: "b".into(), mbit: 20.0, measured: true },
                LinkStatus { from: "b".into(), to: "a".into(), mbit: 0.0, measured: true },
            ],
            why: String::new(),
        }),
        ..Status::default()
    }
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A view that was told that, once a second.
fn view_of(status: &Status, times: u64) -> JobView {
    let mut view = JobView::new("10.0.0.1:9091".to_owned(), true);
    for second in 0..times {
        view.take(at(second), StatusNews::Status(Box::new(status.clone())));
    }
    view
}

fn text(view: &JobView, now: Duration, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen(frame, view, now)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn a_narrow_screen_has_one_column() {
    insta::assert_snapshot!(text(&view_of(&job(), 30), at(30), 60, 40));
}

#[test]
fn a_wide_screen_has_two_columns() {
    insta::assert_snapshot!(text(&view_of(&job(), 30), at(30), 160, 30));
}

#[test]
fn silence_stands_above_what_is_old() {
    let mut view = JobView::new("10.0.0.1:9091".to_owned(), true);
    assert!(text(&view, at(0), 60, 10).contains("asking the scheduler"));
    view.take(at(1), StatusNews::Silence("nobody listens there".to_owned()));
    assert!(text(&view, at(1), 60, 10).contains("nobody listens there"));
    view.take(at(2), StatusNews::Status(Box::new(job())));
    assert!(!text(&view, at(3), 120, 20).contains("old"));
    assert!(text(&view, at(9), 120, 20).contains("what is below is 7 s old"));
    view.take(at(14), StatusNews::Silence("nobody listens there".to_owned()));
    let shown = text(&view, at(14), 120, 20);
    assert!(shown.contains("no answer since 12 s, what is below is old: nobody"), "{shown}");
    view.take(at(15), StatusNews::Status(Box::new(job())));
    assert!(!text(&view, at(15), 120, 20).contains("no answer"));
}

#[test]
fn every_size_can_be_drawn_and_says_what_is_hidden() {
    let many = (0..100).map(|rank| node("server", rank, 8 + 2 * rank, "live", 1000));
    let view = view_of(&Status { nodes: many.collect(), ..job() }, 3);
    for (width, height) in [(1, 1), (3, 2), (10, 5), (60, 8), (119, 60), (120, 3), (400, 100)] {
        text(&view, at(3), width, height);
    }
    let shown = text(&view, at(3), 100, 40);
    assert!(shown.contains("more lines)"), "{shown}");
}

#[test]
fn a_drain_is_asked_about_and_the_chosen_server_is_in_sight() {
    let many = (0..50).map(|rank| node("server", rank, 8 + 2 * rank, "live", 1000));
    let mut view = view_of(&Status { nodes: many.collect(), ..job() }, 1);
    for _ in 0..60 {
        assert_eq!(view.press(WatchKey::Down), Pressed::Nothing);
    }
    let shown = text(&view, at(1), 100, 30);
    assert!(shown.contains("10.0.0.106:9000"), "{shown}");
    assert!(shown.contains("server  state"), "the header stays: {shown}");
    view.press(WatchKey::Drain);
    assert!(text(&view, at(1), 100, 30).contains("drain server 49 (10.0.0.106:9000)?"));
    assert_eq!(view.press(WatchKey::Other), Pressed::Nothing);
    assert_eq!(view.press(WatchKey::Yes), Pressed::Nothing, "nothing was asked");
    view.press(WatchKey::Drain);
    assert_eq!(view.press(WatchKey::Yes), Pressed::Drain(106));
    view.take(at(2), StatusNews::Drain("server 49 is to be emptied".to_owned()));
    assert!(text(&view, at(3), 100, 30).contains("server 49 is to be emptied"));
    assert!(!text(&view, at(30), 100, 30).contains("is to be emptied"));
    view.press(WatchKey::Drain);
    view.take(at(3), StatusNews::Status(Box::new(Status { nodes: Vec::new(), ..job() })));
    assert_eq!(view.press(WatchKey::Yes), Pressed::Nothing, "it is gone");
    view.press(WatchKey::Drain);
    assert_eq!(view.question, None, "there is none");
    assert_eq!(view.press(WatchKey::Leave), Pressed::Leave);
}

fn told(began: f64, numbers: std::ops::Range<u64>) -> Status {
    let event = |number| {
        let text = format!("event {number} of a scheduler that began at {began}");
        let what = NewEvent::info(JobEventKind::Policy, text);
        JobEvent { number, at: number as f64, time: 3600.0 + number as f64, what }
    };
    let point = |at| RoundPoint { at: at as f64, measured: Some(0.5), ..RoundPoint::default() };
    let chronicle = ChroniclePart {
        began,
        events: numbers.clone().map(event).collect(),
        points: numbers.map(point).collect(),
        ..ChroniclePart::default()
    };
    Status { chronicle: Some(chronicle), ..job() }
}

#[test]
fn what_happened_stands_newest_first_and_goes_with_its_scheduler() {
    let mut view = JobView::new("10.0.0.1:9091".to_owned(), true);
    view.take(at(0), StatusNews::Status(Box::new(told(1.0, 1..4))));
    view.take(at(1), StatusNews::Status(Box::new(told(1.0, 4..5))));
    let shown = text(&view, at(1), 160, 40);
    let place = |what: &str| shown.find(what).unwrap_or_else(|| panic!("{what}: {shown}"));
    assert!(place("01:00:04 policy   event 4 of") < place("01:00:01 policy   event 1 of"));
    assert_eq!(view.rounds.len(), 4, "those that the scheduler keeps");
    let narrow = text(&view, at(1), 40, 60);
    assert!(narrow.contains("began") && narrow.contains("at 1"), "nothing is cut: {narrow}");
    view.take(at(2), StatusNews::Status(Box::new(told(9.0, 1..2))));
    let shown = text(&view, at(2), 160, 40);
    assert!(shown.contains("began at 9") && !shown.contains("began at 1"), "{shown}");
    assert_eq!(view.rounds.len(), 1);
    view.take(at(3), StatusNews::Status(Box::new(told(9.0, 2..5000))));
    assert_eq!((view.events.len(), view.rounds.len()), (500, 3600));
}

#[test]
fn a_host_cannot_write_to_the_terminal() {
    let evil = NodeStatus { address: "\u{1b}[2Jx:1".to_owned(), ..node("server", 0, 8, "live", 1) };
    let view = view_of(&Status { nodes: vec![evil], ..job() }, 1);
    let shown = text(&view, at(1), 119, 30);
    assert!(shown.contains("[2Jx:1") && !shown.contains('\u{1b}'), "{shown:?}");
}

#[test]
fn without_colours_states_are_words() {
    let mut view = view_of(&job(), 1);
    view.colours = false;
    let mut terminal = Terminal::new(TestBackend::new(120, 30)).unwrap();
    terminal.draw(|frame| screen(frame, &view, at(1))).unwrap();
    let cells = terminal.backend().buffer().content();
    assert!(cells.iter().all(|cell| cell.fg == ratatui::style::Color::Reset));
    assert!(terminal.backend().to_string().contains("draining"));
}
