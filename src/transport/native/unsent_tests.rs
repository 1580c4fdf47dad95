//! The kernel takes less of what a slow connection cannot send yet (`channel/unsent`).

use std::time::Instant;

use super::channel::UNSENT_MAX;
use super::tests::{OTHER_HOST, Received, listener, listener_at, options, pattern, wait_until};
use super::*;

/// Bytes of one message.
const LARGE: usize = 256 << 10;
/// Bytes per second: what is sent in 4 ms is less than the least that the kernel takes.
const PACE: u32 = 2 << 20;

/// Sends to that host until `enough` says so of the limits, at that pace.
fn send_until(
    host: &str,
    overtaking: bool,
    pace: Option<u32>,
    mut enough: impl FnMut(&[u32], u32) -> bool,
) {
    let (from, _) = listener(NativeOptions { overtaking, ..options(Carriers::Tcp) });
    let (peer, at) = listener_at(host, options(Carriers::Tcp));
    from.connect(8, &at, Some(9), 1).unwrap();
    let received = Received::by(&peer);
    let channel = Arc::clone(&from.peers.read().unwrap()[&8]);
    let mut sent = 0_u32;
    wait_until("the limits stay as they are", || {
        from.send(8, &sent.to_ne_bytes(), &[pattern(sent as usize, LARGE)], 0, SendMode::Block)
            .unwrap();
        channel.pace(pace);
        sent += 1;
        enough(&channel.unsent_limits(), sent)
    });
    channel.pace(None);
    assert_eq!(received.numbers(sent as usize), (0..sent).collect::<Vec<_>>());
}

#[test]
fn a_slow_connection_to_another_host_has_less_in_the_kernel() {
    send_until(OTHER_HOST, true, Some(PACE), |limits, _| limits == [16 << 10]);
}

#[test]
fn a_connection_to_another_host_begins_with_the_most() {
    send_until(OTHER_HOST, true, None, |limits, _| limits == [UNSENT_MAX]);
}

#[test]
fn within_a_host_and_where_nothing_overtakes_there_is_no_limit() {
    for (host, overtaking) in [("127.0.0.1", true), (OTHER_HOST, false)] {
        let begin = Instant::now();
        send_until(host, overtaking, Some(8 * PACE), |limits, sent| {
            // A connection that is not made yet is not among them.
            assert!(limits.iter().all(|limit| *limit == 0), "{limits:?}");
            sent >= 20 && begin.elapsed() > Duration::from_millis(400)
        });
    }
}
