//! Those that send much at the same time share the way to the receiver (`receiver/windows`).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Instant;

use super::tests::{
    LIMIT, OTHER_HOST, Received, listener, listener_at, options, pattern, wait_until,
};
use super::*;
use crate::sys::tcp::{limit_window, window_limits};
use nix::sys::stat::fstat;
use pslite_core::wire::is_worker;

/// Bytes of one message.
const LARGE: usize = 1 << 20;
/// More than the kernel keeps of a connection by itself.
const RATE: u64 = 40 << 20;

/// Connections of one server to another.
const BETWEEN_SERVERS: u8 = 3;

/// Ends those who send, also where the test has failed.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A node at that address that gets messages, and those that send them; both ways are connected, as
/// in a job.
fn nodes(at: &str, senders: &[i32]) -> (Arc<NativeTransport>, Vec<Arc<NativeTransport>>) {
    let (at, to) = listener_at(at, options(Carriers::Tcp));
    let connect = |id: &i32| {
        let (from, back) = listener(options(Carriers::Tcp));
        let connections = if is_worker(*id) { 1 } else { BETWEEN_SERVERS };
        from.connect(8, &to, Some(*id), connections).unwrap();
        at.connect(*id, &back, Some(8), 1).unwrap();
        from
    };
    (Arc::clone(&at), senders.iter().map(connect).collect())
}

fn windows(at: &NativeTransport) -> Vec<u32> {
    at.shared.receipts.all().iter().filter_map(|receipt| receipt.window()).collect()
}

/// True for the windows of two workers and a server, in order of size. Workers have halves of what
/// fills the link for 20 ms. The server has what fills it for 60, in as many parts as it has
/// connections that bring something: the load of the machine decides how many do.
fn are_shares(windows: &[u32]) -> bool {
    let [one, other, server] = *windows else { return false };
    let in_use = f64::from(one) * 6.0 / f64::from(server);
    let parts = in_use.round().clamp(1.0, f64::from(BETWEEN_SERVERS));
    other < one * 5 / 4 && (in_use / parts - 1.0).abs() < 0.25
}

/// The TCP sockets of this process whose windows are limited so.
fn sockets(limited: impl Fn(u32) -> bool) -> Vec<(OwnedFd, u32)> {
    window_limits().unwrap().into_iter().filter(|(_, limit)| limited(*limit)).collect()
}

#[test]
fn those_who_send_much_share_the_way_and_all_arrives() {
    let (at, senders) = nodes(OTHER_HOST, &[9, 11, 10]);
    at.set_inflow(RATE);
    let received = Received::by(&at);
    // Who reads nothing confirms nothing.
    let _readers: Vec<Received> = senders.iter().map(Received::by).collect();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _end = Over(&over);
        for from in &senders {
            scope.spawn(|| {
                let data = [pattern(5, LARGE)];
                while !over.load(Ordering::SeqCst) {
                    from.send(8, b"meta", &data, 0, SendMode::Block).unwrap();
                    thread::sleep(Duration::from_millis(5));
                }
            });
        }
        let until = Instant::now() + LIMIT;
        let mut found = Vec::new();
        while !are_shares(&found) && Instant::now() < until {
            let message = received.next();
            assert!(message.frames[1] == pattern(5, LARGE));
            // The sender's word of what arrived tells which channel is its way back.
            at.send(message.from.unwrap(), b"answer", &[], 0, SendMode::Block).unwrap();
            found = windows(&at);
            found.sort_unstable();
        }
        assert!(are_shares(&found), "{found:?}");
        // The kernel takes a limit back by itself now and then, and gets one again. That may be
        // another one: how many connections bring something is up to the machine.
        let limited = || {
            let windows = windows(&at);
            sockets(|limit| windows.contains(&limit)).into_iter().map(|(socket, _)| socket)
        };
        let inode = |socket: &OwnedFd| fstat(socket).unwrap().st_ino;
        let mut taken = None;
        wait_until("no socket has a limit", || {
            received.next();
            taken = limited().next();
            taken.is_some()
        });
        let taken = taken.unwrap();
        limit_window(taken.as_fd(), None).unwrap();
        wait_until("a limit that was taken back does not return", || {
            received.next();
            limited().any(|socket| inode(&socket) == inode(&taken))
        });
    });
    // The kernel decides again.
    at.set_inflow(0);
    let (from, data) = (&senders[0], [pattern(6, LARGE)]);
    wait_until("windows stay", || {
        from.send(8, b"meta", &data, 0, SendMode::Block).unwrap();
        while received.next().frames[1] != data[0] {}
        windows(&at).is_empty()
    });
}

/// Between processes of one host there is no link, and what it "carries" is what their processors
/// can do: little on a busy machine. Windows made from that would slow them down further.
#[test]
fn who_sends_from_the_same_host_has_no_window() {
    let (at, senders) = nodes("127.0.0.1", &[9, 11]);
    at.set_inflow(1 << 20);
    let received = Received::by(&at);
    let data = [pattern(5, LARGE)];
    // Longer than two looks.
    let until = Instant::now() + Duration::from_millis(500);
    while Instant::now() < until {
        for from in &senders {
            from.send(8, b"meta", &data, 0, SendMode::Block).unwrap();
            assert!(received.next().frames[1] == data[0]);
        }
        assert!(windows(&at).is_empty());
    }
}
