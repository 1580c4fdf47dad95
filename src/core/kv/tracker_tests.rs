use super::*;
use proptest::prelude::*;

#[test]
fn requests_are_numbered_and_done_when_all_answered() {
    let mut tracker = Tracker::new();
    assert_eq!(tracker.state(0), State::Unknown);
    assert_eq!(tracker.new_request(&[8, 10]), 0);
    assert_eq!(tracker.new_request(&[8]), 1);
    assert_eq!(tracker.response(0, 10), Received::Counted);
    assert_eq!((tracker.num_response(0), tracker.state(0)), (1, State::Waiting));
    assert_eq!(tracker.missing(0), [8]);
    assert_eq!(tracker.response(0, 10), Received::Duplicate);
    assert_eq!(tracker.response(0, 12), Received::Unknown);
    assert_eq!(tracker.response(7, 8), Received::Unknown);
    assert_eq!(tracker.response(-1, 8), Received::Unknown);
    assert_eq!(tracker.num_response(0), 1);
    assert_eq!(tracker.waiting_count(), 2);
    assert_eq!(tracker.response(0, 8), Received::Counted);
    assert_eq!((tracker.state(0), tracker.num_response(0)), (State::Done, 2));
    assert_eq!((tracker.waiting_count(), tracker.awaited(1)), (1, 1));
    assert_eq!(tracker.response(0, 8), Received::Unknown);
    assert_eq!(tracker.state(2), State::Unknown);
    assert_eq!(tracker.state(-1), State::Unknown);
}

#[test]
fn a_request_to_nobody_is_done() {
    let mut tracker = Tracker::new();
    let ts = tracker.new_request(&[]);
    assert_eq!((tracker.state(ts), tracker.num_response(ts)), (State::Done, 0));
}

#[test]
fn anonymous_responses_count_as_in_stock() {
    let mut tracker = Tracker::new();
    let ts = tracker.new_request(&[8, 10, 12]);
    tracker.add_response(ts, 2);
    assert_eq!((tracker.num_response(ts), tracker.state(ts)), (2, State::Waiting));
    tracker.add_response(ts, -1);
    assert_eq!(tracker.num_response(ts), 1);
    tracker.response(ts, 12);
    tracker.add_response(ts, 5); // Overshoot: stock's wait hangs for ever.
    assert_eq!(tracker.state(ts), State::Done);
    tracker.add_response(ts, 1);
    tracker.add_response(99, 1);
    assert_eq!(tracker.waiting_count(), 0);
}

#[test]
fn skipped_servers_are_not_awaited() {
    let mut tracker = Tracker::new();
    let ts = tracker.new_request(&[8, 10]);
    tracker.skip(ts, 8);
    assert_eq!(tracker.fail_node(8, "lost"), Vec::<i32>::new());
    assert_eq!(tracker.response(ts, 10), Received::Counted);
    assert_eq!(tracker.state(ts), State::Done);
}

#[test]
fn a_lost_node_fails_what_waits_for_it() {
    let mut tracker = Tracker::new();
    for _ in 0..3 {
        tracker.new_request(&[8, 10]);
    }
    tracker.new_request(&[10]);
    tracker.response(1, 8);
    assert_eq!(tracker.fail_node(8, "server 8 is gone"), [0, 2]);
    assert_eq!(tracker.state(0), State::Failed("server 8 is gone".into()));
    assert_eq!(tracker.state(1), State::Waiting);
    assert_eq!(tracker.state(3), State::Waiting);
    assert_eq!(tracker.response(0, 10), Received::Unknown);
    assert_eq!(tracker.fail_all("closing"), [1, 3]);
    assert_eq!(tracker.state(3), State::Failed("closing".into()));
    assert_eq!(tracker.state(0), State::Failed("server 8 is gone".into()));
    assert_eq!(tracker.fail_all("closing"), Vec::<i32>::new());
    tracker.fail(0, "again");
    assert_eq!(tracker.state(0), State::Failed("server 8 is gone".into()));
}

#[test]
fn a_held_request_waits_for_its_callback() {
    let mut tracker = Tracker::new();
    let ts = tracker.new_request(&[8]);
    assert!(tracker.hold(ts) && !tracker.hold(5));
    tracker.complete(ts); // Too early: nothing was answered.
    assert_eq!(tracker.state(ts), State::Waiting);
    tracker.response(ts, 8);
    assert!(tracker.is_settled(ts));
    assert_eq!((tracker.state(ts), tracker.num_response(ts)), (State::Waiting, 1));
    assert_eq!(tracker.response(ts, 8), Received::Duplicate);
    assert_eq!(tracker.fail_node(8, "late"), Vec::<i32>::new());
    assert_eq!(tracker.fail_all("late"), Vec::<i32>::new());
    tracker.complete(ts);
    assert_eq!(tracker.state(ts), State::Done);
    assert!(!tracker.hold(ts));
}

#[test]
fn memory_stays_flat() {
    let mut tracker = Tracker::new();
    for round in 0..100_000 {
        let ts = tracker.new_request(&[8, 10]);
        assert_eq!(ts, round);
        tracker.response(ts, 8);
        tracker.response(ts, 10);
    }
    assert!(tracker.in_flight.is_empty() && tracker.failed.is_empty());
    assert_eq!(tracker.responses.len(), RESPONSES_KEPT);
    assert_eq!(tracker.num_response(99_999), 2);
    assert_eq!(tracker.num_response(99_999 - RESPONSES_KEPT as i32), 0);
    assert_eq!(tracker.state(0), State::Done);
}

#[test]
fn failures_are_kept_as_runs_up_to_a_bound() {
    let mut tracker = Tracker::new();
    for _ in 0..100_000 {
        tracker.new_request(&[8]);
    }
    assert_eq!(tracker.fail_all("gone").len(), 100_000);
    assert_eq!(tracker.failed.len(), 1);
    assert_eq!(tracker.state(0), State::Failed("gone".into()));
    assert_eq!(tracker.state(99_999), State::Failed("gone".into()));
    for _ in 0..2 * FAILED_RUNS_KEPT {
        let ts = tracker.new_request(&[8]);
        tracker.fail(ts, format!("reason {ts}"));
    }
    assert_eq!(tracker.failed.len(), FAILED_RUNS_KEPT);
    assert_eq!(tracker.state(0), State::Done);
}

#[test]
fn numbers_start_again_after_two_billion() {
    let mut tracker = Tracker::new();
    let stuck = tracker.new_request(&[8]);
    let failed = tracker.new_request(&[8]);
    let neighbour = tracker.new_request(&[8]);
    tracker.fail(failed, "old");
    tracker.fail(neighbour, "old");
    tracker.next = LAST_TIMESTAMP;
    assert_eq!(tracker.new_request(&[8]), LAST_TIMESTAMP);
    assert_eq!(tracker.new_request(&[10]), failed); // 0 is still in flight.
    assert_eq!((stuck, tracker.state(stuck)), (0, State::Waiting));
    assert_eq!(tracker.state(failed), State::Waiting);
    tracker.response(failed, 10);
    assert_eq!(tracker.state(failed), State::Done);
    assert_eq!(tracker.state(neighbour), State::Failed("old".into()));
    assert_eq!(tracker.state(123_456), State::Done);
}

/// What may happen to a tracker.
#[derive(Clone, Debug)]
enum Event {
    New(Vec<i32>),
    Response(i32, i32),
    FailNode(i32),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        prop::collection::btree_set(0..4_i32, 0..4)
            .prop_map(|nodes| Event::New(nodes.into_iter().collect())),
        (0..12_i32, 0..5_i32).prop_map(|(ts, node)| Event::Response(ts, node)),
        (0..4_i32).prop_map(Event::FailNode),
    ];
    prop::collection::vec(event, 0..80)
}

proptest! {
    /// Against the plain model: who was asked, who has answered, nothing forgotten.
    #[test]
    fn it_agrees_with_a_model(events in events()) {
        let mut tracker = Tracker::new();
        let mut model: Vec<(Vec<i32>, Vec<i32>, bool)> = Vec::new();
        for event in events {
            match event {
                Event::New(nodes) => {
                    prop_assert_eq!(tracker.new_request(&nodes), model.len() as i32);
                    model.push((nodes, Vec::new(), false));
                }
                Event::Response(ts, node) => {
                    tracker.response(ts, node);
                    if let Some((asked, answered, false)) = model.get_mut(ts as usize)
                        && asked.contains(&node)
                        && !answered.contains(&node)
                    {
                        answered.push(node);
                    }
                }
                Event::FailNode(node) => {
                    let failed = tracker.fail_node(node, "x");
                    let mut expected = Vec::new();
                    for (ts, (asked, answered, failed)) in model.iter_mut().enumerate() {
                        if asked.contains(&node) && !answered.contains(&node) && !*failed {
                            *failed = true;
                            expected.push(ts as i32);
                        }
                    }
                    prop_assert_eq!(failed, expected);
                }
            }
            for (ts, (asked, answered, failed)) in model.iter().enumerate() {
                let ts = ts as i32;
                let state = match (failed, asked.len() == answered.len()) {
                    (true, _) => State::Failed("x".into()),
                    (false, true) => State::Done,
                    (false, false) => State::Waiting,
                };
                prop_assert_eq!(tracker.state(ts), state);
                prop_assert_eq!(tracker.num_response(ts), answered.len() as i32);
            }
        }
    }
}

/// All that have not answered are gone: others are asked instead, and those who answered count.
#[test]
fn a_request_goes_on_with_others() {
    let mut tracker = Tracker::new();
    let ts = tracker.new_request(&[8, 10]);
    assert_eq!(tracker.response(ts, 8), Received::Counted);
    tracker.redirect(ts, &[12]);
    assert_eq!(tracker.response(ts, 10), Received::Unknown);
    assert_eq!((tracker.state(ts), tracker.missing(ts)), (State::Waiting, vec![12]));
    assert_eq!(tracker.response(ts, 12), Received::Counted);
    assert_eq!(tracker.state(ts), State::Done);
    tracker.redirect(ts, &[14]);
    assert_eq!(tracker.state(ts), State::Done);
    let nobody = tracker.new_request(&[8]);
    tracker.redirect(nobody, &[]);
    assert_eq!(tracker.state(nobody), State::Done);
}

#[test]
fn the_oldest_request_is_one_that_was_sent_and_waits() {
    let second = Duration::from_secs(1);
    let mut tracker = Tracker::new();
    let all: Vec<i32> = (0..3).map(|_| tracker.new_request(&[8])).collect();
    assert_eq!(tracker.oldest_asked(|_| true), None);
    tracker.note_asked(all[1], second);
    tracker.note_asked(all[2], 2 * second);
    assert_eq!(tracker.oldest_asked(|_| true), Some((all[1], second)));
    assert_eq!(tracker.oldest_asked(|ts| ts != all[1]), Some((all[2], 2 * second)));
    tracker.hold(all[1]);
    tracker.response(all[1], 8);
    assert_eq!(tracker.oldest_asked(|_| true), Some((all[2], 2 * second)), "its callback runs");
}

#[test]
fn what_is_wrong_is_named() {
    type Spoil = fn(&mut TrackedRequest);
    let all: [(Spoil, &str); 4] = [
        (|request| request.received = 0, "fewer answers are counted than came"),
        (|request| request.responders.reverse(), "those that were asked are not in order"),
        (|request| request.received = 2, "nothing is awaited, and it is in flight"),
        (|request| request.settled = Some(Ok(())), "it awaits a callback that it has not"),
    ];
    for (spoil, text) in all {
        let mut tracker = Tracker::new();
        let ts = tracker.new_request(&[8, 10]);
        tracker.response(ts, 8);
        assert_eq!(tracker.validate(), Ok(()));
        spoil(tracker.in_flight.get_mut(&ts).unwrap());
        let found = tracker.validate().expect_err(text);
        assert!(found.contains(text), "{found}, not {text}");
    }
    let mut tracker = Tracker::new();
    for first in [0, 3] {
        tracker.failed.insert(first, FailedRun { last: 4, reason: "lost".into() });
    }
    assert_eq!(tracker.validate(), Err("the failures 0..=4 and 3 overlap".to_owned()));
}
