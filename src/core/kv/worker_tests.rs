use super::*;
use crate::kv::slicer::tests::{keys_frame, lens_frame};

fn answer(keys: &[u64], vals: &[u8]) -> Response<'static> {
    let pairs =
        KvPairs { keys: keys_frame(keys), vals: Bytes::copy_from_slice(vals), lens: Bytes::new() };
    Response { pairs, ..Response::default() }
}

fn refusal(error: &str) -> Response<'_> {
    Response { error, ..Response::default() }
}

fn pull(keys: &[u64]) -> Pending<&'static str> {
    Pending::pull(keys_frame(keys), false, "pull")
}

#[test]
fn the_callback_comes_before_done() {
    let mut requests = WorkerRequests::new();
    let ts = requests.new_request(&[8, 10]);
    requests.open(ts, Pending::push("push")).unwrap();
    assert_eq!(requests.on_response(ts, 10, Response::default()), None);
    let finished = requests.on_response(ts, 8, Response::default()).unwrap();
    assert_eq!(finished, Finished { ts, payload: "push", outcome: Ok(None) });
    assert_eq!(requests.state(ts), State::Waiting);
    requests.complete(ts);
    assert_eq!(requests.state(ts), State::Done);
    assert!(requests.open.is_empty());
}

/// A request cannot be sent. Whoever took its end before runs it, and nobody else.
#[test]
fn a_request_that_is_taken_back_has_one_end() {
    let mut requests = WorkerRequests::new();
    let mut begun = || {
        let ts = requests.new_request(&[8, 10]);
        requests.open(ts, Pending::push("push")).unwrap();
        ts
    };
    let (first, second) = (begun(), begun());
    assert!(requests.withdraw(first, "not sent"));
    assert_eq!(requests.fail_all("the job is over").len(), 1, "the first has none any more");
    // The end of the second one is taken, and runs or has run.
    assert!(!requests.withdraw(second, "not sent"));
    requests.validate().unwrap();
    requests.complete(second);
    assert!(!requests.withdraw(second, "not sent"));
    let State::Failed(why) = requests.state(second) else { panic!("it has failed") };
    assert!(why.text.contains("the job is over"), "{why:?}");
    let State::Failed(why) = requests.state(first) else { panic!("it has failed") };
    assert_eq!(&*why.text, "not sent");
    // One without a callback, and one that nobody knows: the caller has the error.
    let bare = requests.new_request(&[8]);
    assert!(requests.withdraw(bare, "not sent") && requests.withdraw(77, "not sent"));
    assert!(matches!(requests.state(bare), State::Failed(_)));
    requests.validate().unwrap();
}

#[test]
fn a_pull_brings_its_values_in_order() {
    let mut requests = WorkerRequests::new();
    let ts = requests.new_request(&[8, 10, 12]);
    requests.open(ts, pull(&[1, 5, 9])).unwrap();
    assert_eq!(requests.skip(ts, 10), None);
    assert_eq!(requests.on_response(ts, 12, answer(&[9], &[3])), None);
    let finished = requests.on_response(ts, 8, answer(&[1, 5], &[1, 2])).unwrap();
    let assembled = finished.outcome.unwrap().unwrap();
    assert_eq!((assembled.total_vals, assembled.vals.concat()), (3, vec![1, 2, 3]));
}

#[test]
fn repeated_late_and_unknown_answers_change_nothing() {
    let mut requests = WorkerRequests::new();
    let ts = requests.new_request(&[8, 10]);
    requests.open(ts, pull(&[1, 9])).unwrap();
    requests.on_response(ts, 8, answer(&[1], &[1]));
    assert_eq!(requests.on_response(ts, 8, answer(&[1], &[1])), None);
    assert_eq!(requests.on_response(ts, 14, answer(&[9], &[9])), None);
    assert_eq!(requests.on_response(77, 8, answer(&[9], &[9])), None);
    assert_eq!(requests.ignored(), 3);
    let finished = requests.on_response(ts, 10, answer(&[9], &[2])).unwrap();
    assert_eq!(finished.outcome.unwrap().unwrap().vals.concat(), [1, 2]);
    assert_eq!(requests.on_response(ts, 10, answer(&[9], &[2])), None);
    requests.complete(ts);
    assert_eq!(requests.on_response(ts, 10, answer(&[9], &[2])), None);
    assert_eq!((requests.ignored(), requests.state(ts)), (5, State::Done));
}

#[test]
fn all_servers_skipped_finishes_at_once() {
    let mut requests = WorkerRequests::new();
    let ts = requests.new_request(&[8, 10]);
    requests.open(ts, pull(&[])).unwrap();
    assert_eq!(requests.skip(ts, 8), None);
    assert_eq!(requests.skip(ts, 10).unwrap().outcome, Ok(Some(Assembled::default())));
    let ts = requests.new_request(&[8, 10]);
    requests.open(ts, Pending::push("push")).unwrap();
    assert!(requests.add_response(ts, 2).is_some());
    // Nobody to ask: the payload comes back, its callback is due.
    let ts = requests.new_request(&[]);
    assert_eq!(requests.open(ts, Pending::push("now")), Err("now"));
}

#[test]
fn a_request_without_callback_is_done_when_answered() {
    let mut requests: WorkerRequests<()> = WorkerRequests::new();
    let ts = requests.new_request(&[8]);
    assert_eq!(requests.on_response(ts, 8, Response::default()), None);
    assert_eq!(requests.state(ts), State::Done);
    let ts = requests.new_request(&[8, 10]);
    assert_eq!(requests.on_response(ts, 8, refusal("no")), None);
    let reason = format!("request {ts} failed at node 8: no");
    assert_eq!(requests.state(ts), State::Failed(Failure::new(FailureKind::Refused, reason)));
}

#[test]
fn a_refusal_ends_the_whole_request_at_once() {
    let mut requests = WorkerRequests::new();
    let ts = requests.new_request(&[8, 10]);
    requests.open(ts, pull(&[1, 9])).unwrap();
    let finished = requests.on_response(ts, 10, refusal("unknown key 9")).unwrap();
    let error = finished.outcome.unwrap_err();
    assert_eq!(error.to_string(), format!("request {ts} failed at node 10: unknown key 9"));
    assert_eq!(requests.state(ts), State::Waiting); // The callback has not run.
    assert_eq!(requests.on_response(ts, 8, answer(&[1], &[1])), None);
    requests.complete(ts);
    let failure = Failure::new(FailureKind::Refused, error.to_string());
    assert_eq!(requests.state(ts), State::Failed(failure));
}

#[test]
fn what_this_worker_refuses_counts_as_refused() {
    let mut requests = WorkerRequests::new();
    let ts = requests.new_request(&[8]);
    requests.open(ts, Pending::push("done")).unwrap();
    let finished = requests.fail(ts, Failure::new(FailureKind::Refused, "no")).unwrap();
    let error = finished.outcome.unwrap_err();
    assert_eq!(error.to_string(), format!("request {ts}: no"));
    assert!(matches!(error, RequestError::Refused { .. }));
    requests.complete(ts);
    let failure = Failure::new(FailureKind::Refused, error.to_string());
    assert_eq!(requests.state(ts), State::Failed(failure));
    let ts = requests.new_request(&[8]);
    requests.open(ts, Pending::push("done")).unwrap();
    let lost = requests.fail(ts, "the server is lost").unwrap().outcome;
    assert!(matches!(lost, Err(RequestError::Unanswered { .. })));
}

#[test]
fn a_bad_answer_fails_the_request() {
    let mut requests = WorkerRequests::new();
    let ts = requests.new_request(&[8]);
    requests.open(ts, Pending::pull(keys_frame(&[1]), true, "pull")).unwrap();
    let finished = requests.on_response(ts, 8, answer(&[1], &[1])).unwrap();
    assert!(matches!(
        finished.outcome,
        Err(RequestError::Answer { source: KvError::LensMismatch { key: 1, .. }, .. })
    ));
    requests.complete(ts);
    let State::Failed(Failure { text, kind }) = requests.state(ts) else { panic!("it failed") };
    assert!(text.contains("key 1") && kind == FailureKind::Unfit);
    let ts = requests.new_request(&[8]);
    requests.open(ts, Pending::pull(keys_frame(&[1]), true, "pull")).unwrap();
    let mut good = answer(&[1], &[1]);
    good.pairs.lens = lens_frame(&[1]);
    assert!(requests.on_response(ts, 8, good).unwrap().outcome.is_ok());
}

#[test]
fn a_lost_server_ends_what_waits_for_it() {
    let mut requests = WorkerRequests::new();
    let answered = requests.new_request(&[8, 10]);
    let waiting = requests.new_request(&[8, 10]);
    let bare = requests.new_request(&[8]);
    let settled = requests.new_request(&[8]);
    for ts in [answered, waiting, settled] {
        requests.open(ts, Pending::push(ts)).unwrap();
    }
    requests.on_response(answered, 8, Response::default());
    let last = requests.on_response(settled, 8, Response::default());
    assert_eq!(last.unwrap().payload, settled);
    let finished = requests.fail_node(8, "server 8 is lost");
    assert_eq!(finished.iter().map(|f| f.payload).collect::<Vec<_>>(), [waiting]);
    assert_eq!(requests.state(bare), State::Failed("server 8 is lost".into()));
    assert_eq!(requests.fail_node(8, "again"), []);
    let rest = requests.fail_all("closing");
    assert_eq!(rest.iter().map(|f| f.payload).collect::<Vec<_>>(), [answered]);
    for ts in [answered, waiting, settled] {
        requests.complete(ts);
    }
    assert_eq!(requests.state(settled), State::Done);
    let reason = format!("request {waiting}: server 8 is lost");
    assert_eq!(requests.state(waiting), State::Failed(reason.into()));
    assert_eq!(requests.tracker().waiting_count(), 0);
}

#[test]
fn a_callback_that_fails_fails_the_request() {
    let mut requests = WorkerRequests::new();
    let ts = requests.new_request(&[8]);
    requests.open(ts, Pending::push(())).unwrap();
    assert!(requests.on_response(ts, 8, Response::default()).is_some());
    assert_eq!(requests.fail(ts, "the destination has 3 values, not 4"), None);
    assert_eq!(requests.state(ts), State::Failed("the destination has 3 values, not 4".into()));
}

#[test]
fn memory_stays_flat() {
    let mut requests = WorkerRequests::new();
    for round in 0..20_000 {
        let ts = requests.new_request(&[8, 10]);
        requests.open(ts, pull(&[1, 2])).unwrap();
        requests.on_response(ts, 8, answer(&[1], &[1]));
        if round % 3 == 0 {
            assert_eq!(requests.fail_node(10, "gone").len(), 1);
        } else {
            assert!(requests.on_response(ts, 10, answer(&[2], &[2])).is_some());
        }
        requests.complete(ts);
    }
    assert!(requests.open.is_empty());
    assert_eq!(requests.tracker().waiting_count(), 0);
}

#[test]
fn the_last_answer_of_a_bare_request_can_refuse_it() {
    for servers in [&[8][..], &[8, 10]] {
        let mut requests = WorkerRequests::<()>::new();
        let ts = requests.new_request(servers);
        for (i, server) in servers.iter().enumerate() {
            let error = if i + 1 == servers.len() { "no" } else { "" };
            let response = Response { error, ..Response::default() };
            assert!(requests.on_response(ts, *server, response).is_none());
        }
        let State::Failed(Failure { text, kind }) = requests.state(ts) else { panic!("it failed") };
        assert!(text.contains("no") && kind == FailureKind::Refused);
    }
}

#[test]
fn what_is_wrong_is_named() {
    let mut requests = WorkerRequests::new();
    let ts = requests.new_request(&[8, 10]);
    requests.open(ts, pull(&[1, 5])).unwrap();
    requests.on_response(ts, 8, answer(&[1], &[1]));
    assert_eq!(requests.validate(), Ok(()));
    let mut more = requests.clone();
    let (assembly, _) = more.open.get_mut(&ts).unwrap().pull.as_mut().unwrap();
    assembly.add(KvPairs::default(), Vec::new());
    assert_eq!(more.validate(), Err("pull 0 has 2 parts of 1 answers".to_owned()));
    requests.tracker.fail(ts, "lost");
    let found = requests.validate();
    assert_eq!(found, Err("request 0 awaits nobody, and its callback is kept".to_owned()));
}
