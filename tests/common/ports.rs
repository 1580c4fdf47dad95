//! Ports for schedulers of tests. Reads nothing but the process's own number; binds and lets go.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Above the ports that Linux hands out by itself (32768 to 60999): between the choice and the
/// scheduler's bind, other nodes of the test take some of those.
const LOWEST: u16 = 61_000;
const COUNT: u16 = 4_500;

/// A TCP port of 127.0.0.1 that is free now, and that no node gets by chance.
///
/// Tests that run at the same time, in processes of their own, begin at different places.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = std::process::id().wrapping_mul(37);
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(step < COUNT, "no free port between {LOWEST} and {}", LOWEST + COUNT);
        let place = first.wrapping_add(u32::from(step)) % u32::from(COUNT);
        let port = LOWEST + u16::try_from(place).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
