//! Answers over the connection of the request, with real sockets. Every wait has an end.

use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use super::super::{Answers, Endpoint, ZmqOptions};
use super::*;

/// Longer than anything here takes, on a busy machine too.
const LIMIT: Duration = Duration::from_secs(20);

fn transport(asks: bool, send_queue: i32) -> Arc<ZmqTransport> {
    let options = ZmqOptions {
        send_queue,
        recv_queue: send_queue,
        priority_mode: false,
        max_frame: 1 << 20,
        name_seed: 7,
        answers: Answers::Back { asks },
    };
    Arc::new(ZmqTransport::new(options).unwrap())
}

/// Somewhere to listen.
fn bind(at: &ZmqTransport) -> Endpoint {
    let host = "127.0.0.1".to_owned();
    let port = at.bind(&Endpoint::Tcp { host: host.clone(), port: 0 }).unwrap();
    Endpoint::Tcp { host, port }
}

/// A server (8) and a worker (9) that are connected both ways.
fn pair(send_queue: i32) -> (Arc<ZmqTransport>, Arc<ZmqTransport>) {
    let (server, worker) = (transport(false, send_queue), transport(true, send_queue));
    let (to_server, to_worker) = (bind(&server), bind(&worker));
    server.connect(9, &to_worker, Some(8)).unwrap();
    worker.connect(8, &to_server, Some(9)).unwrap();
    (server, worker)
}

/// All that comes to a node, until it stops.
fn incoming(at: &Arc<ZmqTransport>) -> mpsc::Receiver<(Option<i32>, Vec<Bytes>)> {
    let (tell, told) = mpsc::channel();
    let at = Arc::clone(at);
    thread::spawn(move || {
        while let Ok(incoming) = at.recv() {
            let _ = tell.send((incoming.from, incoming.frames.to_vec()));
        }
    });
    told
}

fn frames(words: &[&'static str]) -> Vec<Bytes> {
    words.iter().map(|word| Bytes::from_static(word.as_bytes())).collect()
}

#[test]
fn answers_go_back_and_all_else_takes_its_own_way() {
    let (server, worker) = pair(1000);
    let (at_server, at_worker) = (incoming(&server), incoming(&worker));
    worker.send(8, b"request", &frames(&["keys", ""]), 0, SendMode::Block).unwrap();
    assert_eq!(at_server.recv_timeout(LIMIT).unwrap(), (Some(9), frames(&["request", "keys", ""])));
    let sent = server.reply(9, 8, b"answer", &frames(&["keys", "values"]), SendMode::Block);
    assert_eq!(sent.unwrap(), 16);
    assert_eq!(
        at_worker.recv_timeout(LIMIT).unwrap(),
        (Some(8), frames(&["answer", "keys", "values"]))
    );
    server.send(9, b"control", &[], 0, SendMode::Control).unwrap();
    assert_eq!(at_worker.recv_timeout(LIMIT).unwrap(), (Some(8), frames(&["control"])));
    for node in [server, worker] {
        node.stop();
        node.close(Duration::from_millis(100));
    }
}

/// Both ends sleep between any two messages, and use the sockets that the other thread sleeps on: a
/// lost word would cost a second each time.
#[test]
fn nobody_sleeps_over_a_message() {
    const ROUNDS: u32 = 2000;
    let (server, worker) = pair(1000);
    let (at_server, at_worker) = (incoming(&server), incoming(&worker));
    let answering = {
        let server = Arc::clone(&server);
        thread::spawn(move || {
            for _ in 0..ROUNDS {
                let Ok((_, request)) = at_server.recv_timeout(LIMIT) else { return };
                server.reply(9, 8, &request[0], &[], SendMode::Block).unwrap();
            }
        })
    };
    let begun = Instant::now();
    for round in 0..ROUNDS {
        worker.send(8, &round.to_le_bytes(), &[], 0, SendMode::Block).unwrap();
        // As the clock of a node does, at the worst moment.
        worker.flush();
        let (_, answer) = at_worker.recv_timeout(LIMIT).unwrap();
        assert_eq!(answer[0][..], round.to_le_bytes());
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}: somebody slept until the limit of a sleep");
    answering.join().unwrap();
    worker.stop();
    server.stop();
}

#[test]
fn many_answers_wait_for_room_and_keep_their_order() {
    const MANY: u32 = 3000;
    let (server, worker) = pair(10);
    let (at_server, _) = (incoming(&server), ());
    worker.send(8, b"request", &[], 0, SendMode::Block).unwrap();
    at_server.recv_timeout(LIMIT).unwrap();
    let sending = {
        let server = Arc::clone(&server);
        thread::spawn(move || {
            let data = [Bytes::from(vec![7; 10_000])];
            (0..MANY).for_each(|number| {
                server.reply(9, 8, &number.to_le_bytes(), &data, SendMode::Block).unwrap();
            });
        })
    };
    let at_worker = incoming(&worker);
    for number in 0..MANY {
        let (from, frames) = at_worker.recv_timeout(LIMIT).unwrap();
        assert_eq!((from, &frames[0][..]), (Some(8), &number.to_le_bytes()[..]));
        assert_eq!(frames[1].len(), 10_000);
    }
    sending.join().unwrap();
    worker.stop();
    server.stop();
}

#[test]
fn nobody_answers_who_has_not_come() {
    let (server, _worker) = pair(1000);
    let unknown = server.reply(11, 8, b"answer", &[], SendMode::Block);
    assert!(matches!(unknown, Err(SendError::NoSuchPeer)), "{unknown:?}");
    // Known, but it has sent nothing yet; who may not wait is told at once.
    let server = transport(false, 1000);
    server.connect(9, &bind(&server), Some(8)).unwrap();
    let not_yet = server.reply(9, 8, b"answer", &[], SendMode::Control);
    assert!(matches!(not_yet, Err(SendError::QueueFull)), "{not_yet:?}");
}

/// Whoever answers says his name; one that is not the peer's is not believed.
#[test]
fn an_answer_under_another_name_is_dropped() {
    let (server, worker) = pair(1000);
    let (at_server, at_worker) = (incoming(&server), incoming(&worker));
    worker.send(8, b"request", &[], 0, SendMode::Block).unwrap();
    at_server.recv_timeout(LIMIT).unwrap();
    server.reply(9, 10, b"false", &[], SendMode::Block).unwrap();
    server.reply(9, 8, b"true", &[], SendMode::Block).unwrap();
    assert_eq!(at_worker.recv_timeout(LIMIT).unwrap(), (Some(8), frames(&["true"])));
    worker.stop();
    server.stop();
}
