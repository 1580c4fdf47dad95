//! What goes to workers leaves room for what goes to servers (`pace_for_copies`).

use std::time::Instant;

use super::tests::{
    OTHER_HOST, Received, listener, listener_at, number_of, options, pattern, wait_until,
};
use super::*;

/// Bytes of one message, and how many are more than the kernel keeps of a connection by itself.
const LARGE: usize = 1 << 20;
const MANY: u32 = 24;
const RATE: u64 = 40 << 20;

fn paces(from: &NativeTransport) -> Vec<Option<u32>> {
    let peers = from.peers.read().unwrap();
    [9, 11, 10].map(|id| peers[&id].paced()).to_vec()
}

#[test]
fn workers_get_what_copies_leave_until_these_have_caught_up() {
    let (from, _) = listener(options(Carriers::Tcp));
    let peers = [9, 11, 10].map(|id| {
        let (peer, at) = listener_at(OTHER_HOST, options(Carriers::Tcp));
        from.connect(id, &at, Some(8), 1).unwrap();
        peer
    });
    let readers = [Received::by(&peers[0]), Received::by(&peers[1])];
    // A connection begins without a pace: one that came later would have none until the next look.
    wait_until("workers are not connected", || from.sent_over_tcp().len() == readers.len());
    from.set_outflow(RATE);
    let send = |id, number: u32| {
        let data = [pattern(number as usize, LARGE)];
        from.send(id, &number.to_ne_bytes(), &data, 0, SendMode::Block).unwrap();
    };
    // The server reads one message, and then nothing: at some time it takes nothing more.
    (0..MANY).for_each(|number| send(10, number));
    assert_eq!(number_of(&peers[2].recv().unwrap()), 0);
    let mut sent = 0;
    wait_until("nobody is paced", || {
        send(9, sent);
        send(11, sent);
        sent += 1;
        // One after the other: between the two there is a time.
        let [first, second, server] = paces(&from)[..] else { unreachable!() };
        assert_eq!(server, None, "copies are not paced");
        first.is_some_and(|pace| u64::from(pace) <= RATE) && first == second
    });
    // All arrives all the same; and what came paced does not show what the way could carry.
    for reader in &readers {
        assert_eq!(reader.numbers(sent as usize), (0..sent).collect::<Vec<_>>());
    }
    drop(peers[0].take_rates());
    let (before, began) = (from.sent_over_tcp(), Instant::now());
    (sent..sent + 8).for_each(|number| send(9, number));
    assert_eq!(readers[0].numbers(8), (sent..sent + 8).collect::<Vec<_>>());
    assert!(paces(&from)[0].is_some(), "the server has read nothing yet");
    assert!(peers[0].take_rates().iter().all(|sample| !sample.more));
    for (now, before) in from.sent_over_tcp().iter().zip(&before).filter(|(now, _)| now.peer != 10)
    {
        // The kernel counts in ticks of a clock of its own: a part of one may be left.
        let left = now.busy.saturating_sub(before.busy);
        assert!(left * 4 < began.elapsed(), "it could have sent more for {left:?}");
    }
    let late = Received::by(&peers[2]);
    assert_eq!(late.numbers(MANY as usize - 1), (1..MANY).collect::<Vec<_>>());
    wait_until("workers stay paced", || paces(&from).iter().all(Option::is_none));
}

#[test]
fn nobody_is_paced_where_it_is_not_wanted() {
    nobody_is_paced(OTHER_HOST, 0);
}

/// What goes to the same host takes nothing of a card.
#[test]
fn nobody_is_paced_within_a_host() {
    nobody_is_paced("127.0.0.1", RATE);
}

fn nobody_is_paced(host: &str, outflow: u64) {
    let (from, _) = listener(options(Carriers::Tcp));
    let (server, at) = listener_at(host, options(Carriers::Tcp));
    let (worker, to) = listener_at(host, options(Carriers::Tcp));
    from.connect(10, &at, Some(8), 1).unwrap();
    from.connect(9, &to, Some(8), 1).unwrap();
    let reader = Received::by(&worker);
    wait_until("the worker is not connected", || from.sent_over_tcp().len() == 1);
    from.set_outflow(outflow);
    for number in 0..MANY {
        let data = [pattern(0, LARGE)];
        if number == 1 {
            assert_eq!(number_of(&server.recv().unwrap()), 0);
        }
        from.send(10, &number.to_ne_bytes(), &data, 0, SendMode::Block).unwrap();
        from.send(9, &number.to_ne_bytes(), &data, 0, SendMode::Block).unwrap();
    }
    assert_eq!(reader.numbers(MANY as usize), (0..MANY).collect::<Vec<_>>());
    assert_eq!(from.peers.read().unwrap()[&9].paced(), None);
    let late = Received::by(&server);
    assert_eq!(late.numbers(MANY as usize - 1), (1..MANY).collect::<Vec<_>>());
}
